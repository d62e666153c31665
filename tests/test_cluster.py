"""A batch on real workers: processes, a Dask cluster, a real PostgreSQL."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from memory.deduplicator import DistributedExecutor
from memory.ledger import Ledger
from memory.store import MemoryStore
from tests.deduplicator.test_distributed import fill, planned
from tests.doubles import PlacedEmbedder

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("default")]
ROWS = 60


@pytest.fixture
def served(postgres_url: str, embedder: PlacedEmbedder) -> Iterator[MemoryStore]:
    with MemoryStore(Ledger.create(postgres_url), embedder) as store:
        fill(store, embedder, 1_200)
        yield store


def test_processes_of_this_machine_plan_the_same(
    ledger: Ledger, store: MemoryStore, embedder: PlacedEmbedder
) -> None:
    fill(store, embedder, 600)
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        spread = planned(store, DistributedExecutor(pool, f"sqlite:///{ledger.name}", ROWS))
    assert spread.groups == planned(store).groups


def test_a_dask_cluster_plans_the_same_and_a_killed_worker_costs_time_only(
    served: MemoryStore, postgres_url: str
) -> None:
    distributed = pytest.importorskip("distributed")
    whole = planned(served)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        work = DistributedExecutor(client.get_executor(), postgres_url, ROWS)
        spread = planned(served, work)
        assert (spread.groups, spread.pairs) == (whole.groups, whole.pairs)
        victim = next(iter(client.run(os.getpid).values()))
        killer = threading.Thread(target=kill_soon, args=(victim,))
        killer.start()
        again = planned(served, work)
        killer.join()
    assert (again.groups, again.pairs) == (whole.groups, whole.pairs)


def test_a_killed_process_costs_time_only(served: MemoryStore, postgres_url: str) -> None:
    whole = planned(served)
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        victim = pool.submit(os.getpid).result()
        killer = threading.Thread(target=kill_soon, args=(victim,))
        killer.start()
        spread = planned(served, DistributedExecutor(pool, postgres_url, ROWS))
        killer.join()
    assert (spread.groups, spread.pairs) == (whole.groups, whole.pairs)


def kill_soon(pid: int) -> None:
    time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)

"""A plan made by workers is that of one process, pair by pair, whatever befalls them."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.decide import Planner, PlanSettings, RoundPlan, candidate_pairs
from memory.deduplicator.distributed import DistributedExecutor
from memory.ledger import Ledger
from memory.models import Rules, Vectors
from memory.store import MemoryStore
from tests.doubles import PlacedEmbedder


class DeadPool(Executor):
    """Takes every other task, and finishes none."""

    def __init__(self) -> None:
        self._tasks = 0

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._tasks += 1
        if self._tasks % 2:
            raise RuntimeError("the pool is broken")
        future: Future[Any] = Future()
        future.set_exception(RuntimeError("the worker died"))
        return future


def fill(store: MemoryStore, embedder: PlacedEmbedder, size: int = 90) -> None:
    """Texts of two users in clumps, some of them twice."""
    rng, drawn = np.random.default_rng(3), random.Random(3)
    centres = rng.standard_normal((size // 6, 8))
    told = []
    for n in range(size):
        place = centres[drawn.randrange(len(centres))] + 0.12 * rng.standard_normal(8)
        text = f"{drawn.choice(['Mia', 'Ben', 'Eve'])} said {n}" if n % 9 else "said again"
        embedder.place_at(text, [float(x) for x in place])
        told.append(store.new_memory(text, user=f"user {n % 3 // 2}"))
    store.add_batch(told)


def on_workers(executor: DistributedExecutor | None, settings: PlanSettings) -> PlanSettings:
    if executor is None:
        return settings
    return replace(settings, find_pairs=executor.find_pairs, plan_groups=executor.plan_groups)


def planned(store: MemoryStore, executor: DistributedExecutor | None = None) -> RoundPlan:
    settings = on_workers(executor, PlanSettings(Rules(), store.scale, 3))
    return Planner(store.scope_of, settings).plan(store.snapshot())


@pytest.mark.parametrize("rows", [7, 16, 1000])
def test_a_plan_of_workers_is_the_plan_of_one_process(
    ledger: Ledger, store: MemoryStore, embedder: PlacedEmbedder, rows: int
) -> None:
    fill(store, embedder)
    with ThreadPoolExecutor(2) as pool:
        spread = planned(store, DistributedExecutor(pool, f"sqlite:///{ledger.name}", rows))
    whole = planned(store)
    assert (spread.groups, spread.pairs) == (whole.groups, whole.pairs)
    assert len(whole.groups) > 5


def test_it_is_told_how_many_texts_were_compared_here_and_on_workers(
    ledger: Ledger, store: MemoryStore, embedder: PlacedEmbedder
) -> None:
    fill(store, embedder)
    told: list[tuple[int, int]] = []

    def hear(done: int, of: int) -> None:
        told.append((done, of))

    def plan(executor: DistributedExecutor | None) -> list[tuple[int, int]]:
        told.clear()
        settings = on_workers(executor, PlanSettings(Rules(), store.scale, on_compared=hear))
        Planner(store.scope_of, settings).plan(store.snapshot())
        return sorted(told)

    assert plan(None) == told
    assert (told[0], told[-1]) == ((0, 81), (81, 81))
    with ThreadPoolExecutor(2) as pool:
        assert plan(DistributedExecutor(pool, f"sqlite:///{ledger.name}", 16)) == told
    assert (told[0], told[-1]) == ((0, 81), (81, 81))
    assert len(told) > 4


def test_work_that_no_worker_does_is_done_here(
    store: MemoryStore, embedder: PlacedEmbedder
) -> None:
    fill(store, embedder)
    spread = planned(store, DistributedExecutor(DeadPool(), "sqlite:////nowhere", 16))
    assert spread.groups == planned(store).groups


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(2, 60), st.data())
def test_pairs_across_two_parts_are_those_of_the_whole(
    seed: int, size: int, data: st.DataObject
) -> None:
    across = data.draw(st.integers(1, size - 1))
    rng = np.random.default_rng(seed)
    raw = rng.standard_normal((4, 8))[rng.integers(4, size=size)]
    raw = raw + 0.2 * rng.standard_normal((size, 8))
    vectors: Vectors = (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)
    part = candidate_pairs(vectors, 0.95, 0, 0.8, [0.9], across=across)
    whole = candidate_pairs(vectors, 0.95, 0, 0.8, [0.9])
    over = (whole.upper.i < across) & (whole.upper.j >= across)
    assert part.upper.i.tolist() == whole.upper.i[over].tolist()
    assert part.upper.j.tolist() == whole.upper.j[over].tolist()
    inside = [candidate_pairs(some, 0.95, 0, 0.8, [0.9]) for some in
              (vectors[:across], vectors[across:])]  # fmt: skip
    assert whole.counts[0] == part.counts[0] + sum(one.counts[0] for one in inside)

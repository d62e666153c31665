"""Compare the time of one write with plain Chroma's query and add of the same vector.

The store has made-up memories, and its index has been filled. Two kinds of writes take turns. A new
memory goes through `check_and_merge` with the offline model: it is embedded, looked up, compared,
decided on and committed to disk. Its vector, made before, goes through `collection.query` for the
five nearest and `collection.add`, in a Chroma collection with the same vectors.

Both run in one process, our writes in one event loop as in a bot; the clock covers one write. The
first series begins with the process's first write, so the first write for each user also loads that
user's vectors. The second series follows it.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.importing import AT_ONCE, config_of
from benchmarks.made_up import memories
from memory.assembly import build_deduplicator, open_store
from memory.models import Memory, Vectors
from memory.providers import OfflineModel
from memory.search import persistent_client
from memory.store import MemoryStore

MANY = 1_000
NEAREST = 5
WRITES = 300
PAGE = 1_000


@dataclass(frozen=True)
class Written:
    """The time of one write in milliseconds, of ours and of plain Chroma's."""

    memories: int
    users: int
    after: int
    """The number of writes that the process had made before these."""
    p50_ms: float
    p95_ms: float
    plain_p50_ms: float
    plain_p95_ms: float


def measure_all(count: int) -> list[Written]:
    """Measure writes to a store of one user, and to one of `MANY` users."""
    found = []
    for users in (1, MANY):
        with tempfile.TemporaryDirectory(prefix="writing-") as folder:
            found += measure(Path(folder), count, users)
    return found


def measure(folder: Path, count: int, users: int, writes: int = WRITES) -> list[Written]:
    """Measure both kinds of writes in turn, `writes` times in each of two series."""
    told = list(memories(count + 2 * writes, users, seed=3))
    config = config_of(folder / "store")
    with open_store(config) as store:
        for start in range(0, count, AT_ONCE):
            store.add_batch(told[start : min(start + AT_ONCE, count)])
        vectors = _vectors(store, told)
        add = _plain(folder / "plain", told, vectors, count)
        deduplicator = build_deduplicator(store, config, OfflineModel())

        with asyncio.Runner() as loop:

            def write(n: int) -> None:
                loop.run(deduplicator.check_and_merge(told[n]))

            series = (range(count + after, count + after + writes) for after in (0, writes))
            took = [[(_timed(write, n), _timed(add, n)) for n in some] for some in series]
    return [_written(count, users, n * writes, some) for n, some in enumerate(took)]


def _written(count: int, users: int, after: int, took: list[tuple[float, float]]) -> Written:
    ours, plain = zip(*took, strict=True)
    return Written(
        memories=count,
        users=users,
        after=after,
        p50_ms=_percentile(ours, 50),
        p95_ms=_percentile(ours, 95),
        plain_p50_ms=_percentile(plain, 50),
        plain_p95_ms=_percentile(plain, 95),
    )


def _vectors(store: MemoryStore, told: list[Memory]) -> Vectors:
    found = [one.vector for one in store.embeddings.embed(told)]
    return np.stack([vector for vector in found if vector is not None])


def _plain(folder: Path, told: list[Memory], vectors: Vectors, count: int) -> Callable[[int], None]:
    """Return a function that queries and adds one vector in plain Chroma.

    Its collection holds the first `count` vectors.
    """
    folder.mkdir()
    client: Any = persistent_client(folder)
    collection = client.create_collection(
        "plain", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
    )

    def put(start: int, end: int) -> None:
        collection.add(
            ids=[memory.id for memory in told[start:end]],
            embeddings=vectors[start:end],
            metadatas=[{"user": str(memory.user)} for memory in told[start:end]],
        )

    def query_and_add(n: int) -> None:
        collection.query(
            query_embeddings=[vectors[n]], n_results=NEAREST, include=["metadatas", "distances"]
        )
        put(n, n + 1)

    for start in range(0, count, PAGE):
        put(start, min(start + PAGE, count))
    return query_and_add


def _timed(work: Callable[[int], None], n: int) -> float:
    started = time.perf_counter()
    work(n)
    return 1_000 * (time.perf_counter() - started)


def _percentile(took: Sequence[float], share: int) -> float:
    return round(float(np.percentile(took, share)), 1)

"""Measure how long maintenance keeps others from writing.

The store has made-up memories (`benchmarks/made_up.py`) of 50 users. Vectors that are missing since
an embedder failed are made; then all vectors are made again with another embedder; then a batch
with the offline model cleans the store. Another store imports memories as `import --raw` does, each
with links to three others. `held` is the time for which a transaction kept other writers waiting,
its commit included.
"""

from __future__ import annotations

import asyncio
import logging
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.importing import USERS, TimedEmbedder, config_of, held
from benchmarks.made_up import memories
from memory.assembly import build_deduplicator, open_store
from memory.errors import EmbeddingError
from memory.models import Memory, MemoryLink, Vectors
from memory.providers import OfflineModel
from memory.store import MemoryStore
from memory.upkeep import reembed


@dataclass(frozen=True)
class Kept:
    """The time that a task took, and how long its transactions kept others from writing."""

    work: str
    memories: int
    seconds: float
    transactions: int
    held_p95_ms: float
    held_ms: float


class Failing(TimedEmbedder):
    """The embedder WordLlama, which fails at every text as long as `broken` is set."""

    broken = True

    def embed(self, texts: Sequence[str]) -> Vectors:
        if self.broken and list(texts) != ["warm"]:
            raise EmbeddingError("no embedder")
        return super().embed(texts)


def measure(count: int) -> list[Kept]:
    logging.getLogger("memory").setLevel(logging.ERROR)  # it warns of each missing vector
    found = []
    with tempfile.TemporaryDirectory(prefix="upkeeping-") as folder:
        config, embedder = config_of(Path(folder)), Failing()
        with open_store(config, embedder) as store:
            add(store, memories(count, USERS))
            embedder.broken = False
            found.append(timed("missing vectors", count, store.embeddings.make_missing))
            batch = build_deduplicator(store, config, OfflineModel()).deduplicate_all
            found.append(timed("a batch", count, lambda: asyncio.run(batch())))
            embedder.fingerprint = "another"
            found.append(timed("all vectors again", count, lambda: reembed(store.ledger, embedder)))
    with tempfile.TemporaryDirectory(prefix="upkeeping-") as folder:
        told = linked(list(memories(count, USERS)))
        with open_store(config_of(Path(folder)), TimedEmbedder()) as store:
            found.append(timed("raw import, linked", count, lambda: add(store, told)))
    return found


def add(store: MemoryStore, told: Iterable[Memory]) -> None:
    for some in store.pace.parts(list(told)):
        store.add_batch(some)


def linked(told: Sequence[Memory]) -> list[Memory]:
    """Return the memories, each with links to up to three others, drawn at random."""
    drawn = random.Random(3)
    return [
        one.model_copy(
            update={
                "linked_ids": tuple(
                    MemoryLink(target_id=other.id)
                    for other in drawn.sample(told, 3)
                    if other is not one
                )
            }
        )
        for one in told
    ]


def timed(work: str, count: int, call: Callable[[], object]) -> Kept:
    with held() as transactions:
        started = time.perf_counter()
        call()
        took = time.perf_counter() - started
    held_ms = 1_000 * np.array(transactions.seconds)
    return Kept(
        work=work,
        memories=count,
        seconds=round(took, 2),
        transactions=len(held_ms),
        held_p95_ms=round(float(np.percentile(held_ms, 95)), 1),
        held_ms=round(float(held_ms.max()), 1),
    )

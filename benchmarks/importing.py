"""Measure how fast many memories are imported, and how long the first writes after it take.

Made-up memories (`benchmarks/made_up.py`) of `USERS` users go into an empty store: as
`import --raw` stores them, or each through the deduplicator with the offline model. The clock
starts with the memories in RAM and the embedder loaded, and stops at the last commit. `held` is the
longest time for which one transaction kept other writers waiting. After a raw import, the same
process writes new memories one by one, without a pause, while the index is still being copied.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.made_up import memories
from memory.assembly import build_deduplicator, open_store
from memory.config import Config, MemoryConfig
from memory.ledger import Ledger
from memory.models import Memory, Vectors
from memory.providers import OfflineModel, WordLlamaEmbedder

USERS = 50
WRITES = 300
AT_ONCE = 200
"""The number of memories in one call of `add_batch`, if that call is not what is measured."""


@dataclass(frozen=True)
class Imported:
    """The times of an import; `per_second` does not count the time of embedding."""

    way: str
    database: str
    memories: int
    seconds: float
    embedding_s: float
    held_ms: float

    @property
    def per_second(self) -> float:
        return self.memories / (self.seconds - self.embedding_s)


@dataclass(frozen=True)
class Followed:
    """The times of writes while the index was copied, and how many were made in that time."""

    memories: int
    writes: int
    first_ms: float
    p50_ms: float
    p99_ms: float
    slowest_ms: float


class TimedEmbedder:
    """The embedder WordLlama, which adds up the time that it takes."""

    def __init__(self) -> None:
        self._own = WordLlamaEmbedder()
        self._own.embed(["warm"])
        self.fingerprint = self._own.fingerprint
        self.seconds = 0.0

    def embed(self, texts: Sequence[str]) -> Vectors:
        started = time.perf_counter()
        vectors = self._own.embed(texts)
        self.seconds += time.perf_counter() - started
        return vectors


@dataclass
class Held:
    """The duration of each writing transaction, commit included, in seconds."""

    seconds: list[float] = field(default_factory=list)


@contextmanager
def held() -> Iterator[Held]:
    """Record the durations of all ledgers' writing transactions while the block runs."""
    found, writing = Held(), Ledger.writing

    @contextmanager
    def timed(self: Ledger, *args: Any) -> Iterator[Any]:
        with writing(self, *args) as writer:
            started = time.perf_counter()
            yield writer
        found.seconds.append(time.perf_counter() - started)

    with patch.object(Ledger, "writing", timed):
        yield found


def measure(count: int, url: str | None = None) -> list[Imported | Followed]:
    """Measure a raw import, one through the deduplicator, and the first writes after a raw one.

    Each uses a new SQLite store. If `url` is given, only the raw import is measured, into the
    ledger at that URL, which must be empty.
    """
    found: list[Imported | Followed] = []
    for work in (raw, deduplicating, writes_after) if url is None else (raw,):
        with tempfile.TemporaryDirectory(prefix="importing-") as folder:
            found.append(work(config_of(Path(folder), url), count))
    return found


def config_of(folder: Path, url: str | None = None) -> Config:
    return Config(memory=MemoryConfig(data_dir=str(folder), ledger_url=url))


def raw(config: Config, count: int) -> Imported:
    """Measure an import of `count` memories as `import --raw` does it."""
    told, embedder = list(memories(count, USERS)), TimedEmbedder()
    with open_store(config, embedder) as store, held() as transactions:
        started = time.perf_counter()
        for some in store.pace.parts(told):
            store.add_batch(some)
        took = time.perf_counter() - started
        assert store.counts().live == count
    return _imported("raw", config, count, took, embedder, transactions)


def deduplicating(config: Config, count: int, onto: int = 0) -> Imported:
    """Measure an import as `import` does it with the offline model.

    The store holds `onto` memories before.
    """
    told, embedder = list(memories(onto + count, USERS)), TimedEmbedder()
    with open_store(config, embedder) as store:
        for start in range(0, onto, AT_ONCE):
            store.add_batch(told[start : min(start + AT_ONCE, onto)])
        deduplicator = build_deduplicator(store, config, OfflineModel())
        embedder.seconds = 0.0
        with held() as transactions:
            started = time.perf_counter()
            asyncio.run(deduplicator.check_and_merge_all(told[onto:], run="run_000000000001"))
            took = time.perf_counter() - started
    return _imported("deduplicating", config, count, took, embedder, transactions)


def _imported(
    way: str, config: Config, count: int, took: float, embedder: TimedEmbedder, watched: Held
) -> Imported:
    return Imported(
        way=way,
        database=config.memory.effective_ledger_url.partition(":")[0].partition("+")[0],
        memories=count,
        seconds=round(took, 2),
        embedding_s=round(embedder.seconds, 2),
        held_ms=round(1_000 * max(watched.seconds), 1),
    )


def writes_after(config: Config, count: int, writes: int = WRITES) -> Followed:
    """Measure the first `writes` writes after a raw import of `count` memories in this process."""
    told: Sequence[Memory] = list(memories(count + writes + 1, USERS, seed=2))
    took = []
    with open_store(config) as store:
        deduplicator = build_deduplicator(store, config, OfflineModel())
        for text in ("Mia has a cat.", "Mia has a large cat in Porto."):  # all is loaded now
            warm = told[0].model_copy(update={"id": store.new_id(), "content": text})
            asyncio.run(deduplicator.check_and_merge(warm))
        for start in range(1, count + 1, AT_ONCE):
            store.add_batch(told[start : min(start + AT_ONCE, count + 1)])
        for new in told[count + 1 :]:
            started = time.perf_counter()
            asyncio.run(deduplicator.check_and_merge(new))
            took.append(1_000 * (time.perf_counter() - started))
    return Followed(
        memories=count,
        writes=writes,
        first_ms=round(took[0], 1),
        p50_ms=round(float(np.percentile(took, 50)), 1),
        p99_ms=round(float(np.percentile(took, 99)), 1),
        slowest_ms=round(max(took), 1),
    )

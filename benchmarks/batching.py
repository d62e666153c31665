"""Time a dry run over a whole store, its search for pairs, and the start of commands.

The store holds sentences or made-up memories of one user, with their vectors. `seconds` covers all
of `deduplicate_all(dry_run=True, groups=50)`: reading, finding pairs, forming groups, planning each
and the report. `pairs_s` covers the search for pairs inside the same run. `cpu` is the CPU time of
all threads, which is the better figure if other programs use the machine too.

`cleaned` times a batch over look-alikes of one user, which retires nothing, with the offline judge.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from benchmarks.made_up import memories
from memory.assembly import open_store, read_store
from memory.config import Config
from memory.decide import CandidatePairs, PairSearch
from memory.deduplicator import MemoryDeduplicator
from memory.models import Memory
from memory.providers import OfflineModel
from memory.store import MemoryStore

GROUPS = 50
AT_ONCE = 1_000
ROUNDS = 5
STORED = 20_000
START = datetime(2026, 1, 1, tzinfo=UTC)
_COLOURS = "green red blue white black".split()
_THINGS = "lamp chair table shelf".split()


@dataclass(frozen=True)
class Batched:
    """The time and memory of a dry run; `pairs_s` and `pairs_cpu` are the part of the search."""

    memories: int
    groups: int
    pairs_s: float
    pairs_cpu: float
    seconds: float
    cpu: float
    peak_mb: int


@dataclass(frozen=True)
class Cleaned:
    """The time of a batch run over look-alikes, and how many transactions it wrote."""

    memories: int
    questions: int
    rounds: int
    retired: int
    transactions: int
    seconds: float
    cpu: float


@dataclass(frozen=True)
class Started:
    """How long a command takes: the shortest time of a few rounds."""

    command: str
    seconds: float


@dataclass
class TimedSearch:
    """Adds up the time that searches for pairs take in this process."""

    seconds: float = 0.0
    cpu: float = 0.0

    @contextmanager
    def counting(self) -> Iterator[None]:
        find = PairSearch.find

        def timed(*args: Any, **kwargs: Any) -> CandidatePairs:
            wall, cpu = time.perf_counter(), time.process_time()
            found = find(*args, **kwargs)
            self.seconds += time.perf_counter() - wall
            self.cpu += time.process_time() - cpu
            return found

        with mock.patch.object(PairSearch, "find", timed):
            yield


def measure(count: int, texts: Sequence[str]) -> list[Batched]:
    """Measure a dry run over `count` memories of one user; make memories up if `texts` is empty."""
    with TemporaryDirectory() as folder:
        config = Config().at(folder)
        fill(config, told(count, texts))
        return [dry_run(config)]


def told(count: int, texts: Sequence[str]) -> list[Memory]:
    if not texts:
        return list(memories(count, users=1))
    return [
        Memory(id=f"mem_{n:012x}", content=text, user="Mia", timestamp=START + timedelta(seconds=n))
        for n, text in enumerate(texts)
    ]


def fill(config: Config, told: Sequence[Memory]) -> None:
    """Fill a new store with these memories, without deduplication."""
    with open_store(config) as store:
        for start in range(0, len(told), AT_ONCE):
            store.add_batch(told[start : start + AT_ONCE])


def dry_run(config: Config) -> Batched:
    """Measure a dry run over an existing store."""
    work = TimedSearch()
    with read_store(config) as store, work.counting():
        deduplicator = MemoryDeduplicator(store, OfflineModel(), config=config.memory)
        wall, cpu = time.perf_counter(), time.process_time()
        report = asyncio.run(deduplicator.deduplicate_all(dry_run=True, groups=GROUPS))
        seconds, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return Batched(report.memories, report.found, work.seconds, work.cpu, seconds, cpu, peak)


def look_alikes(count: int) -> Iterator[str]:
    drawn = random.Random(5)
    for n in range(count):
        what = f"{drawn.choice(_COLOURS)} {drawn.choice(_THINGS)} number {n}"
        price, shop = drawn.randrange(5, 90), drawn.randrange(1, 9)
        yield f"Mia bought {what} for {price} euros in shop {shop}."


def cleaned(count: int) -> list[Cleaned]:
    """Measure a batch over `count` look-alikes of one user."""
    with TemporaryDirectory() as folder:
        config = Config().at(folder)
        fill(config, told(count, list(look_alikes(count))))
        with open_store(config) as store:
            before = _revision(store)
            deduplicator = MemoryDeduplicator(store, OfflineModel(), config=config.memory)
            wall, cpu = time.perf_counter(), time.process_time()
            report = asyncio.run(deduplicator.deduplicate_all())
            took = time.perf_counter() - wall, time.process_time() - cpu
            wrote = _revision(store) - before
    return [Cleaned(count, report.found, report.rounds, report.retired, wrote, *took)]


def _revision(store: MemoryStore) -> int:
    with store.ledger.reading() as reader:
        return reader.revision()


def starts(count: int = STORED) -> list[Started]:
    """Measure how long `--help` takes, and `stats` of a store of `count` made-up memories."""
    with TemporaryDirectory() as folder:
        fill(Config().at(folder), told(count, ()))
        environment = {**os.environ, "MEMORY_DATA_DIR": folder}
        return [
            Started(one, min(_timed(one, environment) for _ in range(ROUNDS)))
            for one in ("--help", "stats")
        ]


def _timed(command: str, environment: Mapping[str, str]) -> float:
    began = time.perf_counter()
    args = [sys.executable, "-m", "memory", command]
    subprocess.run(args, check=True, capture_output=True, env=environment)
    return time.perf_counter() - began

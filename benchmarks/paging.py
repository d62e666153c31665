"""Measure what pages cost: forming them for a large store, and reading what is new in a store.

    python -m benchmarks.paging --grow 100000 [--json]
    python -m benchmarks.paging --late 100 --of 10000 [--json]

A page is a group of similar memories that a model reads in one call. All memories are made up and
of one user, and the model merges nothing.

`--grow` times a dry run, all of `deduplicate_all(dry_run=True)`, and the search for pairs inside
it; `times` is the ratio of the two. `--late` runs a batch over the store, adds that many new
memories, and runs a second batch. `neighbours_shown` is how many of the ten nearest memories of a
new one were on a page with it, on average.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.batching import TimedSearch, fill
from benchmarks.made_up import memories
from memory.assembly import open_store, read_store
from memory.config import Config
from memory.deduplicator import MemoryDeduplicator
from memory.models import Memory, Question, Verdict
from memory.providers import OfflineModel
from memory.text import text_key

NEAREST = 10
ENOUGH = 1_000_000
"""A number of model calls that is never reached, so that one run reads everything."""


@dataclass(frozen=True)
class Grown:
    """The time and memory of a dry run with pages; `times` is its time / the pair search's."""

    memories: int
    pages: int
    pairs_s: float
    seconds: float
    times: float
    cpu_times: float
    peak_mb: int


@dataclass(frozen=True)
class Late:
    """What a batch over a store reads if few of its memories are new."""

    memories: int
    new: int
    calls_before: int
    calls: int
    pages: int
    neighbours_shown: float
    fewest_shown: int
    seconds: float


class Reader(OfflineModel):
    """A model that reads pages, merges nothing, and records what it was shown."""

    name = "reads and groups nothing"
    page_size = 48

    def __init__(self) -> None:
        self.shown: list[Sequence[str]] = []

    async def judge(self, question: Question) -> Verdict:
        self.shown.append([member.id for member in question.members])
        return Verdict()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--grow", type=int)
    parser.add_argument("--late", type=int)
    parser.add_argument("--of", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found: list[Grown | Late] = [grow(args.grow)] if args.grow else []
    if args.late:
        found.append(late(args.late, args.of))
    for one in found:
        if args.json:
            print(json.dumps(asdict(one)))
        else:
            print("\n".join(f"{name:18} {value}" for name, value in asdict(one).items()))


def grow(count: int) -> Grown:
    with TemporaryDirectory() as folder:
        config = Config().at(folder)
        fill(config, list(memories(count, users=1)))
        work = TimedSearch()
        with read_store(config) as store, work.counting():
            deduplicator = MemoryDeduplicator(store, Reader(), config=config.memory)
            wall, cpu = time.perf_counter(), time.process_time()
            report = asyncio.run(deduplicator.deduplicate_all(dry_run=True, groups=0))
            seconds, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Grown(
        memories=report.memories,
        pages=report.pages,
        pairs_s=round(work.seconds, 1),
        seconds=round(seconds, 1),
        times=round(seconds / work.seconds, 2),
        cpu_times=round(cpu / work.cpu, 2),
        peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    )


def late(new: int, count: int) -> Late:
    """Run a batch over `count` memories, add `new` ones, and measure the next batch.

    The new memories are spread evenly over all made-up ones.
    """
    every = list(memories(count + new, users=1))
    step = len(every) // new
    arriving = every[step - 1 :: step][:new]
    names = {one.id for one in arriving}
    with TemporaryDirectory() as folder:
        config = Config().at(folder)
        fill(config, [one for one in every if one.id not in names])
        with open_store(config) as store:
            model = Reader()
            deduplicator = MemoryDeduplicator(store, model, config=config.memory)
            before = asyncio.run(deduplicator.deduplicate_all(max_calls=ENOUGH))
            model.shown.clear()
            store.add_batch(arriving)
            started = time.perf_counter()
            report = asyncio.run(deduplicator.deduplicate_all(max_calls=ENOUGH))
            seconds = time.perf_counter() - started
            live = list(store.memories())
            table = store.snapshot().vectors
            vectors = table.of([text_key(one.content) for one in live])
    shown = _neighbours_shown(live, vectors, names, model.shown)
    return Late(
        memories=count,
        new=new,
        calls_before=before.usage.calls,
        calls=report.usage.calls,
        pages=report.pages,
        neighbours_shown=round(sum(shown) / max(1, len(shown)), 2),
        fewest_shown=min(shown, default=0),
        seconds=round(seconds, 1),
    )


def _neighbours_shown(
    live: Sequence[Memory],
    vectors: np.ndarray,
    names: set[str],
    pages: Sequence[Sequence[str]],
) -> list[int]:
    """Return, for each live new memory, how many of its nearest memories were on a page with it."""
    found = []
    for n, one in enumerate(live):
        if one.id in names:
            cosines = vectors @ vectors[n]
            cosines[n] = -2.0
            nearest = {live[place].id for place in np.argsort(-cosines)[:NEAREST]}
            beside = {name for page in pages if one.id in page for name in page}
            found.append(len(nearest & beside))
    return found


if __name__ == "__main__":
    main()

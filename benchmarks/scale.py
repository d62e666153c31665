"""Measure large stores: one scope of 300,000 memories, or a million memories of 10,000 users.

    python -m benchmarks.scale --fill FOLDER [--memories 300000] [--users 1]    once
    python -m benchmarks.scale --in FOLDER --fill-index                         once
    python -m benchmarks.scale --in FOLDER [--vectors-mb 512] [--json]

`--fill` fills a store with made-up memories as `import --raw` does. With `--made-up-vectors`, the
vectors are random around 2,000 centres and not WordLlama's, so that a million takes minutes.

`--in` measures in one process: how long the store takes to open (`opened`), the first recall and
the first write, and then recalls and writes in turn. A write is `check_and_merge` with the offline
model, a recall is `store.search` for one user; both embed their text. `resident` is the process's
peak memory. If the vectors take more than `--vectors-mb`, Chroma answers; `--fill-index` fills it
before, which is not timed, and its process is not counted in `resident`. `found` is the share of
the exact five nearest memories that Chroma returns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.importing import AT_ONCE, config_of
from benchmarks.made_up import memories, sentence
from memory.assembly import build_deduplicator, open_store
from memory.config import Config, SearchConfig
from memory.models import Memory, Query, Scope, Vectors, new_memory_id
from memory.providers import OfflineModel, WordLlamaEmbedder
from memory.search import SearchRouter
from memory.store import MemoryStore, utc_now

TURNS = 200
"""The number of recalls that are measured, and of writes."""
USERS = 500
"""The most users whose memories are recalled and written."""
COMPARED = 100
"""The number of queries whose answers are compared with the exact ones."""
CENTRES = 2_000


@dataclass(frozen=True)
class Figures:
    """The figures of a store, which the module's docstring explains; times are in milliseconds."""

    memories: int
    users: int
    vectors_mb: int
    opened_ms: float
    first_recall_ms: float
    first_write_ms: float
    recall_p50_ms: float
    recall_p95_ms: float
    write_p50_ms: float
    write_p95_ms: float
    resident_mb: int
    found: float | None


class MadeUpEmbedder:
    """An embedder for speed only: random unit vectors around centres, drawn by the text."""

    def __init__(self) -> None:
        own = WordLlamaEmbedder()
        self.fingerprint = own.fingerprint
        self._dim = own.embed(["a"]).shape[1]
        self._centres = np.random.default_rng(0).standard_normal((CENTRES, self._dim))

    def embed(self, texts: Sequence[str]) -> Vectors:
        drawn = [random.Random(text).getrandbits(32) for text in texts]
        rows = np.stack([np.random.default_rng(seed).standard_normal(self._dim) for seed in drawn])
        rows += 1.5 * self._centres[np.array(drawn) % CENTRES]
        unit: Vectors = (rows / np.linalg.norm(rows, axis=1)[:, None]).astype(np.float32)
        return unit


def fill(folder: Path, count: int, users: int, *, made_up: bool) -> None:
    """Make a store of `count` memories in the folder, with random vectors if `made_up`."""
    embedder, some = MadeUpEmbedder() if made_up else None, list[Memory]()
    with open_store(config_of(folder), embedder) as store:
        for memory in memories(count, users):
            some.append(memory)
            if len(some) == 5 * AT_ONCE:
                store.add_batch(some)
                some = []
        store.add_batch(some)


def fill_index(config: Config) -> None:
    """Copy all vectors of the store into the index."""
    with open_store(config) as store:
        store.index.rebuild()


def measure(folder: Path, vectors_mb: int) -> Figures:
    """Measure all figures of a store, in this process."""
    config = config_of(folder)
    search = SearchConfig(vectors_mb=vectors_mb)
    config = config.model_copy(
        update={"memory": config.memory.model_copy(update={"search": search})}
    )
    drawn = random.Random(7)
    opened_ms, store = _timed(lambda: open_store(config))
    with store, asyncio.Runner() as loop:
        deduplicator = build_deduplicator(store, config, OfflineModel())
        with store.ledger.reading() as reader:
            counts = reader.counts()
        users = drawn.sample(sorted(map(str, counts.users)), min(USERS, len(counts.users)))
        chosen = [users[n % len(users)] for n in range(max(TURNS, len(users)))]

        def recall(user: str) -> float:
            return _timed(lambda: store.search(sentence(drawn), 5, user=user))[0]

        def write(user: str) -> float:
            new = Memory(
                id=new_memory_id(), content=sentence(drawn), user=user, timestamp=utc_now()
            )
            return _timed(lambda: loop.run(deduplicator.check_and_merge(new)))[0]

        first_recall, first_write = recall(users[0]), write(users[0])
        if len(users) > 1:  # each user's first recall
            first_recall = float(np.percentile([recall(user) for user in users[1:]], 95))
        took = [(recall(user), write(user)) for user in chosen[:TURNS]]
        recalls, writes = zip(*took, strict=True)
        found = _found(store, users[0], drawn) if store.index.name != "exact search" else None
        return Figures(
            memories=counts.live,
            users=len(counts.users),
            vectors_mb=vectors_mb,
            opened_ms=round(opened_ms, 1),
            first_recall_ms=round(first_recall, 1),
            first_write_ms=round(first_write, 1),
            recall_p50_ms=_percentile(recalls, 50),
            recall_p95_ms=_percentile(recalls, 95),
            write_p50_ms=_percentile(writes, 50),
            write_p95_ms=_percentile(writes, 95),
            resident_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1_024,
            found=found,
        )


def _found(store: MemoryStore, user: str, drawn: random.Random) -> float:
    """Return the share of the exact five nearest memories of some texts that the index names."""
    scope = Scope.of_user(user)
    vectors = [store.embeddings.query(sentence(drawn)) for _ in range(COMPARED)]
    queries = [Query(vector, scope, 5) for vector in vectors]
    exact = SearchRouter(store.ledger, 0).nearest(queries)  # in parts
    named = store.index.nearest(queries)
    hits = sum(len({*one} & {*other}) for one, other in zip(exact, named, strict=True))
    return round(hits / (5 * COMPARED), 4)


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    answer = work()
    return 1_000 * (time.perf_counter() - started), answer


def _percentile(took: Sequence[float], share: int) -> float:
    return round(float(np.percentile(took, share)), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--fill", type=Path)
    parser.add_argument("--memories", type=int, default=300_000)
    parser.add_argument("--users", type=int, default=1)
    parser.add_argument("--made-up-vectors", action="store_true")
    parser.add_argument("--in", dest="folder", type=Path)
    parser.add_argument("--vectors-mb", type=int, default=512)
    parser.add_argument("--fill-index", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.fill is not None:
        fill(args.fill, args.memories, args.users, made_up=args.made_up_vectors)
    if args.folder is not None and args.fill_index:
        fill_index(config_of(args.folder))
    elif args.folder is not None:
        figures = asdict(measure(args.folder, args.vectors_mb))
        lines = (f"{name:>16}: {value}" for name, value in figures.items())
        sys.stdout.write((json.dumps(figures) if args.json else "\n".join(lines)) + "\n")


if __name__ == "__main__":
    main()

"""Look for forgotten words in every file and table after a random life of a store.

    python -m benchmarks.churn [--seeds 20] [--steps 250] [--database URL] [--chroma] [--kill]

Each memory holds words that occur nowhere else. For each seed, memories are added, reworded,
repeated and merged by a model, a batch runs, decisions are undone, and turns are heard and read.
Then half of the memories are forgotten, one by one, and at last everything about both users. After
both, all files of the store are searched for the words, byte for byte; of a database server, all
rows of all tables. `--chroma` lets a real Chroma search. `--kill` lives in a process of its own,
which is killed at a random moment; then the rest happens here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import re
import signal
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import sqlalchemy as sa

from memory.assembly import build_chat_memory, build_deduplicator, open_store
from memory.config import Config, MemoryConfig, SearchConfig
from memory.errors import MemoryPipelineError
from memory.extractor import ChatMemory
from memory.models import (
    Candidate,
    Extraction,
    Memory,
    MergeGroup,
    MergeReading,
    ProposedMerge,
    Question,
    Reply,
    Rereading,
    Turn,
    Usage,
    Vectors,
    Verdict,
)
from memory.store import MemoryStore, forget_user

USERS = ("Mia", "Ben")
_WORD = re.compile(rb"zq[0-9a-f]{15}")


@dataclass(frozen=True)
class Searched:
    """What one life left: how many words were forgotten, and where some of them still are."""

    seed: int
    memories: int
    decisions: int
    words: int
    erased: bool
    left: dict[str, int]


class HashedEmbedder:
    """An embedder whose vectors are sums over the words of a text."""

    fingerprint = "hashed-64"

    def embed(self, texts: Sequence[str]) -> Vectors:
        rows = [sum(map(_vector, text.split()), np.zeros(64)) for text in texts]
        return np.stack([row / (np.linalg.norm(row) or 1.0) for row in rows]).astype(np.float32)


def _vector(word: str) -> np.ndarray:
    return np.random.default_rng(zlib.crc32(word.encode())).normal(size=64)


class TalkativeModel:
    """A model that merges memories with the same first word, and quotes them in its reasons."""

    def __init__(self, page_size: int) -> None:
        self.name, self.page_size = "talkative", page_size

    async def extract(
        self,
        turns: Sequence[Turn],
        *,
        context: Sequence[Turn] = (),
        remembered: Sequence[Memory] = (),
    ) -> Extraction:
        del context, remembered
        told = (
            Candidate(content=turn.text, user=turn.speaker, turns=(n,))
            for n, turn in enumerate(turns, start=1)
        )
        return Extraction(candidates=tuple(told), usage=Usage(calls=1))

    async def judge(self, question: Question) -> Verdict:
        groups: dict[str, list[int]] = {}
        for n, member in enumerate(question.members):
            groups.setdefault(member.content.partition(" ")[0], []).append(n)
        parts = tuple(
            MergeGroup(members=tuple(found), text=question.members[found[-1]].content)
            for found in groups.values()
            if len(found) > 1
        )
        why = "because " + " / ".join(one.content for one in question.members)[:3_000]
        return Verdict(parts=parts, reason=why, usage=Usage(calls=1))

    async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
        readings = (
            MergeReading(lost=() if _repeats(merge) else ("something",)) for merge in merges
        )
        return Rereading(readings=tuple(readings), usage=Usage(calls=1))

    async def reply(self, turns: Sequence[Turn], recalled: Sequence[Memory]) -> Reply:
        return Reply(text=f"{len(turns)} {len(recalled)}")

    async def aclose(self) -> None: ...


def _repeats(merge: ProposedMerge) -> bool:
    return any(merge.text == one.content for one in merge.members)


def config_of(folder: Path, url: str | None = None, *, chroma: bool = False) -> Config:
    search = SearchConfig(vectors_mb=0) if chroma else SearchConfig()
    return Config(
        memory=MemoryConfig(
            data_dir=str(folder), ledger_url=url, extraction_wait=3_600.0, search=search
        )
    )


class Life:
    """A random life of a store, with words that only one text holds."""

    def __init__(self, seed: int, memory: ChatMemory, config: Config) -> None:
        self.rng = random.Random(seed)
        self.memory, self.store = memory, memory.store
        self._deduplicator = build_deduplicator(self.store, config, TalkativeModel(0))

    def word(self) -> str:
        return f"zq{self.rng.getrandbits(60):015x}"

    def words(self, *counts: int) -> str:
        return " ".join(self.word() for _ in range(self.rng.choice(counts)))

    async def run(self, steps: int) -> None:
        for _ in range(10):
            self.add()
        for _ in range(steps):
            await self.step(self.rng.random())
        await self.memory.settle()

    async def step(self, drawn: float) -> None:
        living = list(self.store.memories())
        one = self.rng.choice(living)
        if drawn < 0.4:
            self.add()
        elif drawn < 0.55:
            self.store.update(one.id, f"{one.content} {self.words(0, 1, 10, 60)} {self.word()}")
        elif drawn < 0.7:
            text = f"{one.content} {self.word()}"
            await self._deduplicator.check_and_merge(self.store.new_memory(text, user=one.user))
        elif drawn < 0.8:
            hers = [memory for memory in living if memory.user == USERS[0]]
            quoted = self.rng.choice(hers).content[:500] if hers else ""
            text = f"I like {self.word()}. {quoted}"
            await self.memory.hear(turn_of(text, self.rng.choice("ab")))
        elif drawn < 0.9:
            self.undo()
        elif drawn < 0.95:
            await self.memory.settle()
        elif drawn < 0.97:
            await self._deduplicator.deduplicate_all()
        else:
            self.store.forget(one.id)

    def add(self) -> None:
        text = f"Fact{self.word()} is {self.words(0, 1, 5, 40, 300)}"
        told = self.store.new_memory(text, user=self.rng.choice(USERS))
        more = {"metadata": {"note": self.word()}, "tags": (self.word(),), "category": self.word()}
        self.store.add(told.model_copy(update=more))

    def undo(self) -> None:
        found = [one for one in self.store.history()[-30:] if not one.undone]
        joined = [one for one in found if one.action in ("replace", "merge", "update")]
        if joined:
            try:
                self.store.undo(self.rng.choice(joined).number)
            except MemoryPipelineError:
                return  # what came later depends on it


def turn_of(text: str, conversation: str) -> Turn:
    return Turn(speaker=USERS[0], text=text, at=datetime.now(UTC), conversation=conversation)


async def live(seed: int, steps: int, config: Config) -> None:
    """Open the store and live; the process may be killed at any moment."""
    model = TalkativeModel(random.Random(seed).choice([0, 48]))
    with open_store(config, embedder=HashedEmbedder()) as store:
        async with build_chat_memory(store, config, model) as memory:
            await Life(seed, memory, config).run(steps)


def forget_half(store: MemoryStore, seed: int) -> tuple[set[bytes], bool]:
    """Forget half of the memories; return the words that only they held, and what it answers."""
    rng, gone, erased = random.Random(seed), set[bytes](), True
    everything = list(store.memories())
    for one in rng.sample(everything, len(everything) // 2):
        try:
            forgotten = store.forget(one.id)
        except MemoryPipelineError:
            continue  # it went with another
        erased &= forgotten.erased
        for told in (forgotten.memory, *forgotten.origins):
            gone |= words_in(told.model_dump_json().encode())
    with store.ledger.reading() as reader:
        kept = [row.memory.model_dump_json() for row in reader.memories.all() if not row.forgotten]
        waiting = [one.turn.text for one in reader.turns.waiting()]
    return gone - words_in("".join([*kept, *waiting]).encode()), erased


def words_in(data: bytes) -> set[bytes]:
    return set(_WORD.findall(data))


def found_in(folder: Path, url: str | None) -> Iterator[tuple[str, set[bytes]]]:
    """Yield the words in each file of a folder, and in each table of a database."""
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.name, words_in(path.read_bytes())
    if url is not None:
        engine = sa.create_engine(url)
        with engine.connect() as connection:
            for table in sa.inspect(engine).get_table_names():
                rows = connection.execute(sa.text(f'SELECT * FROM "{table}"'))
                yield table, words_in("".join(str(tuple(row)) for row in rows).encode())
        engine.dispose()


def searched(seed: int, folder: Path, url: str | None = None, *, chroma: bool = False) -> Searched:
    """Forget half, then everything, of a store that has lived; search for what was forgotten."""
    config = config_of(folder, url, chroma=chroma)
    with open_store(config, embedder=HashedEmbedder()) as store:
        memories, decisions = sum(1 for _ in store.memories()), len(store.history())
        gone, erased = forget_half(store, seed)
        left = {name: len(found & gone) for name, found in found_in(folder, url)}
        for user in USERS:
            erased &= forget_user(store.ledger, store.index, user, store.clock()).erased
        for name, found in found_in(folder, url):
            left[name] = left.get(name, 0) + len(found)
    for name, found in found_in(folder, url):
        left[name] = left.get(name, 0) + len(found)
    shown = {name: count for name, count in left.items() if count}
    return Searched(seed, memories, decisions, len(gone), erased, shown)


def killed(
    seed: int, steps: int, folder: Path, url: str | None = None, *, chroma: bool = False
) -> None:
    """Live in another process, and kill it at a random moment of its first eight seconds."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.churn",
        "--seeds",
        str(seed),
        "--live",
        str(folder),
    ]
    command += ["--steps", str(steps), *(["--database", url] if url else [])]
    with subprocess.Popen([*command, *(["--chroma"] if chroma else [])]) as process:
        try:
            process.wait(2.0 + random.Random(seed).random() * 6.0)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--database", help="the URL of an empty database [default: SQLite]")
    parser.add_argument("--chroma", action="store_true")
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--live", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    logging.disable()
    if args.live:
        config = config_of(args.live, args.database, chroma=args.chroma)
        asyncio.run(live(args.seeds, args.steps, config))
        return
    for seed in range(args.seeds):
        with tempfile.TemporaryDirectory(prefix="churn-") as name:
            folder = Path(name)
            if args.kill:
                killed(seed, args.steps, folder, args.database, chroma=args.chroma)
            else:
                config = config_of(folder, args.database, chroma=args.chroma)
                asyncio.run(live(seed, args.steps, config))
            found = searched(seed, folder, args.database, chroma=args.chroma)
        print(json.dumps(asdict(found)), flush=True)


if __name__ == "__main__":
    main()

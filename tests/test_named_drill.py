"""Two processes replace memories while they are killed: nothing is lost or applied twice."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import re
import signal
from collections.abc import Iterator, Sequence
from datetime import timedelta
from multiprocessing.connection import wait
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from benchmarks.drills import fork_context
from memory.deduplicator import MemoryDeduplicator
from memory.extractor import MemoryExtractor
from memory.ledger import Ledger
from memory.models import Action, Candidate, Extraction, Memory, Turn, Vectors
from memory.store import MemoryStore
from tests.doubles import START, ScriptedModel

pytestmark = pytest.mark.drill

ROUNDS = 10
PARTS = 48
CHAPTERS = 6
TALKS = 4


class Names(ScriptedModel):
    """Names what it was shown of the same chapter, in one text for all parts that were read."""

    async def extract(
        self,
        turns: Sequence[Turn],
        *,
        context: Sequence[Turn] = (),
        remembered: Sequence[Memory] = (),
    ) -> Extraction:
        return Extraction(
            candidates=tuple(
                found
                for n, turn in enumerate(turns)
                for found in [_candidate(n, turn.text, remembered)]
            )
        )


def _candidate(n: int, said: str, remembered: Sequence[Memory]) -> Candidate:
    part, chapter = _numbers(said)
    old = [k for k, one in enumerate(remembered) if _numbers(one.content)[-1] == chapter][-5:]
    parts = [number for k in old for number in _numbers(remembered[k].content)[:-1]]
    merged = f"Mia has read part {', '.join(map(str, [*parts, part]))} of chapter {chapter}."
    return Candidate(
        content=f"Mia has read part {part} of chapter {chapter}.",
        turns=(n,),
        replaces=tuple(old),
        merged=merged,
    )


def _numbers(text: str) -> list[int]:
    """The parts, and the chapter."""
    return [int(number) for number in re.findall(r"\d+", text)]


class Unlike:
    """No two texts are alike: only what is named is joined."""

    fingerprint = "unlike-256"

    def embed(self, texts: Sequence[str]) -> Vectors:
        seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) for text in texts]
        raw = np.stack([np.random.default_rng(seed).standard_normal(256) for seed in seeds])
        unit: Vectors = (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)
        return unit


def turns() -> Iterator[Turn]:
    for part in range(PARTS):
        yield Turn(
            speaker="Mia",
            text=f"I read part {part} of chapter {1_000 + part % CHAPTERS}.",
            at=START + timedelta(minutes=part),
            id=str(part),
            conversation=f"c{part % TALKS}",
        )


def opened(url: str) -> MemoryStore:
    return MemoryStore(Ledger.create(url), Unlike())


def work(url: str, statement: int) -> None:
    """Extract all that waits, killed at a statement or a commit; 0 is never."""
    left = statement

    def count(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    with opened(url) as store:
        sa.event.listen(sa.Engine, "before_cursor_execute", count)
        sa.event.listen(sa.Engine, "commit", count)
        model = Names()
        hook = MemoryExtractor(
            store, MemoryDeduplicator(store, model), model, turns_at_once=3, concurrency=2
        )
        asyncio.run(hook.extract_and_store())


def test_of_killed_replacements_none_is_lost_or_applied_twice(ledger_url: str) -> None:
    with opened(ledger_url) as store, store.ledger.writing() as writer:
        for one in turns():
            writer.turns.keep(one, str(one.id))
    context = fork_context()
    rng, killed = random.Random(25), 0
    for last in [False] * ROUNDS + [True]:
        ends = [0, 0] if last else [rng.randrange(60, 300) for _ in range(2)]
        both = [context.Process(target=work, args=(ledger_url, end)) for end in ends]
        for process in both:
            process.start()
        wait([process.sentinel for process in both])
        free_leases(ledger_url)
        for process in both:
            process.join(120)
            assert not process.is_alive()
            killed += process.exitcode == -signal.SIGKILL
        with opened(ledger_url) as store:
            check(store, whole=last)
        free_leases(ledger_url)
    assert killed > ROUNDS // 2
    with opened(ledger_url) as store:
        merges = [one for one in store.history() if one.action is Action.MERGE]
        assert len(merges) > PARTS // 4


def free_leases(url: str) -> None:
    """They run out by themselves 15 s after a kill; who lives loses them too, and starts again."""
    with Ledger.create(url) as ledger, ledger.writing() as writer:
        writer.leases.free_all()


def check(store: MemoryStore, *, whole: bool) -> None:
    """Each part that is finished is told by exactly one live memory, under its chapter."""
    with store.ledger.reading() as reader:
        waiting = {int(one.name) for one in reader.turns.waiting()}
    told = [_numbers(one.content) for one in store.memories()]
    parts = [part for *some, _ in told for part in some]
    assert len(parts) == len(set(parts)), "told twice"
    assert set(range(PARTS)) - waiting <= set(parts), "lost"
    assert all(part % CHAPTERS == chapter - 1_000 for *some, chapter in told for part in some)
    assert not (whole and waiting)

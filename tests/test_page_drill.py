"""Processes are killed while they read pages: nothing is lost, and every page is read at last."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.drills import die_at_statement, fork_context
from memory.deduplicator import MemoryDeduplicator
from memory.ledger import Ledger
from memory.models import Action, Memory, Vectors
from memory.store import MemoryStore
from tests.doubles import START, Groups, PageModel, PlacedEmbedder

pytestmark = pytest.mark.drill

KILLS = 12
FACTS = 60
TOLD = [
    Memory(id=f"mem_{n:012}", content=text, user="Mia", timestamp=START)
    for n, text in enumerate(
        f"{way} {fact:03}."
        for fact in range(FACTS)
        for way in ("Mia has read chapter", "Of the book Mia knows chapter")
    )
]


def by_chapter(texts: list[str]) -> Groups:
    """Group the texts about one chapter."""
    found: dict[str, list[int]] = {}
    for n, text in enumerate(texts):
        found.setdefault(_chapter(text), []).append(n)
    return [(some, f"Mia finished {chapter}.") for chapter, some in found.items() if len(some) > 1]


def reader() -> PageModel:
    model = PageModel(by_chapter)
    model.page_size = 12
    return model


class Near(PlacedEmbedder):
    """Both texts about a chapter are nearest to each other: a thorough page shows both."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        for text in texts:
            place = int(text.rstrip(".")[-3:]) / 8
            self.place_at(text, [1.0, place, place * place / 4])
        return super().embed(texts)


def _chapter(text: str) -> str:
    return "chapter " + text.rstrip(".")[-3:]


def work(path: str, statement: int) -> None:
    """One batch, killed at a statement or a commit."""
    with opened(path) as store:
        die_at_statement(statement)
        asyncio.run(MemoryDeduplicator(store, reader()).deduplicate_all(thorough=True))


def opened(path: str) -> MemoryStore:
    return MemoryStore(Ledger.create(f"sqlite:///{path}"), Near())


def test_a_killed_page_is_read_again_and_no_decision_is_half_applied(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger.db")
    with MemoryStore(Ledger.create(f"sqlite:///{path}"), Near()) as store:
        store.add_batch(TOLD)
    context = fork_context()
    rng = random.Random(24)
    killed = 0
    for _ in range(KILLS):
        process = context.Process(target=work, args=(path, rng.randrange(20, 120)))
        process.start()
        process.join(60)
        assert not process.is_alive()
        killed += process.exitcode == -signal.SIGKILL
        with opened(path) as store:
            check(store)
    assert killed > KILLS // 4
    with opened(path) as store:
        model = reader()
        last = asyncio.run(MemoryDeduplicator(store, model).deduplicate_all(thorough=True))
        check(store)
        assert last.pages_left == 0
        assert sorted(_chapter(one.content) for one in store.memories()) == [
            f"chapter {n:03}" for n in range(FACTS)
        ], "what was killed unread has been read"
        again = asyncio.run(MemoryDeduplicator(store, model).deduplicate_all(thorough=True))
        assert (again.usage.calls, again.pages) == (0, 0)


def check(store: MemoryStore) -> None:
    """Each memory lives, or one memory that stands for it and was made of it by one decision."""
    with store.ledger.reading() as reader:
        alive = reader.memories.living_ids(one.id for one in TOLD)
    live = {one.id: one for one in store.memories()}
    assert alive.keys() == {one.id for one in TOLD}
    for one in TOLD:
        assert _chapter(live[alive[one.id]].content) == _chapter(one.content), (
            "stands for another fact"
        )
    made = {
        name: set(ids)
        for decision in store.history()
        if decision.action is Action.MERGE
        for name, ids in decision.survivors
    }
    for name in live.keys() - {one.id for one in TOLD}:
        assert name in made, "a merged memory without its decision"
        assert made[name].isdisjoint(live), "a member of a decision lives on"

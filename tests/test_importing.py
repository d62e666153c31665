"""An import decides many at a time, and as it would one by one."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.made_up import memories
from memory.deduplicator import MemoryDeduplicator, new_run
from memory.ledger import Ledger
from memory.models import Action, Decision, Memory, MemoryLink, Outcome, Scale
from memory.providers import OfflineModel, WordLlamaEmbedder
from memory.store import Conflict, MemoryStore
from memory.text import text_key
from tests.doubles import PlacedEmbedder, ticking, under

Import = Callable[[MemoryDeduplicator, list[Memory]], list[Outcome]]
EMBEDDER = WordLlamaEmbedder()


@pytest.fixture
def ledger(empty_url: str) -> Iterator[Ledger]:
    """Each test runs on SQLite and on PostgreSQL."""
    with Ledger.create(empty_url) as opened:
        yield opened


def fresh(ledger: Ledger) -> tuple[MemoryStore, MemoryDeduplicator]:
    ids = (f"mem_{n:012x}" for n in range(1, 10_000))
    scale = Scale(anchor=0.70, anchor_kana_han=0.88)
    store = MemoryStore(ledger, EMBEDDER, scale=scale, clock=ticking(), new_id=lambda: next(ids))
    return store, MemoryDeduplicator(store, OfflineModel())


def one_by_one(deduplicator: MemoryDeduplicator, told: list[Memory]) -> list[Outcome]:
    async def run() -> list[Outcome]:
        return [
            outcome
            for memory in told
            for outcome in await deduplicator.check_and_merge_all([memory], run="run_1")
        ]

    return asyncio.run(run())


def together(deduplicator: MemoryDeduplicator, told: list[Memory]) -> list[Outcome]:
    return asyncio.run(deduplicator.check_and_merge_all(told, run="run_1"))


def everything(ledger: Ledger) -> list[Any]:
    with ledger.reading() as reader:
        rows = list(reader.memories.all())
        states = [(row.memory, row.live, row.successor_id) for row in rows]
        decided = [
            (one.action, one.reason, one.similarity, one.cosine, one.members, one.survivors)
            for one in reader.decisions.of_run("run_1")
        ]
        return [states, decided, reader.distinct.all(), reader.decisions.count_pending()]


def test_an_import_leaves_the_same_store_as_one_by_one(ledger: Ledger, tmp_path: Path) -> None:
    told = [*memories(160, users=2, seed=7)]
    told += [told[3], told[90].model_copy(update={"id": "mem_aaaaaaaaaaaa"})]
    told.insert(40, told[39].model_copy(update={"id": "mem_bbbbbbbbbbbb", "external_id": "b"}))
    with Ledger.create(f"sqlite:///{tmp_path / 'slow.db'}") as other:
        slow, fast = fresh(other), fresh(ledger)
        expected = one_by_one(slow[1], told)
        found = together(fast[1], told)
        assert everything(ledger) == everything(other)
        assert [(one.action, one.reason) for one in found] == [
            (one.action, one.reason) for one in expected
        ]
        assert {one.action.value for one in found} >= {"add", "replace", "already there"}
        again = together(fast[1], told)
        assert {one.action.value for one in again} == {"already there"}


def linked(told: list[Memory]) -> list[Memory]:
    """Half of them linked to others, earlier and later ones."""
    drawn = random.Random(3)
    names = [memory.id for memory in told]
    return [
        memory.model_copy(
            update={
                "linked_ids": tuple(
                    MemoryLink(target_id=name, note=f"{n}")
                    for name in drawn.sample(names, n % 2 * 3)
                    if name != memory.id
                )
            }
        )
        for n, memory in enumerate(told)
    ]


def seen_links(ledger: Ledger) -> list[Any]:
    """Every link, and those that undoing a decision would bring back."""
    with ledger.reading() as reader:
        rows = reader.links.touching([row.memory.id for row in reader.memories.all()])
        decided = reader.decisions.of_run("run_1")
        return [[tuple(row) for row in rows], [json.loads(one.before)["links"] for one in decided]]


def test_an_import_of_linked_memories_leaves_the_same_links_as_one_by_one(
    ledger: Ledger, tmp_path: Path
) -> None:
    told = linked(list(memories(90, users=1, seed=7)))
    with Ledger.create(f"sqlite:///{tmp_path / 'slow.db'}") as other:
        slow, fast = fresh(other), fresh(ledger)
        one_by_one(slow[1], told)
        found = together(fast[1], told)
        assert everything(ledger) == everything(other)
        assert seen_links(ledger) == seen_links(other)
        assert {one.action.value for one in found} >= {"add", "replace"}


def test_only_the_first_of_two_racing_writes_is_stored(
    ledger: Ledger,
) -> None:
    store, _ = fresh(ledger)
    told = list(memories(5, users=1, seed=8))
    prepared = store.embeddings.embed(told)
    with ledger.reading() as reader:
        since = reader.revision()
    theirs = store.add(told[2].model_copy(update={"id": "mem_cccccccccccc"}))
    decided = [
        under(Decision(Action.ADD, "new", (one.memory,)), since, min_similarity=1.0, arrival=one)
        for one in prepared
    ]
    done = store.apply_all(decided)
    assert [isinstance(one, Outcome) for one in done] == [True, True, False, True, True]
    assert done[2] == Conflict("it arrived meanwhile")
    assert list(store.memories()) == [theirs, told[0], told[1], told[3], told[4]]
    assert store.apply_all(decided[2:3]) == [Conflict("it arrived meanwhile")]


def test_a_run_of_an_import_is_taken_back_whole(ledger: Ledger) -> None:
    store, deduplicator = fresh(ledger)
    told = list(memories(60, users=1, seed=9))
    told[-1] = told[-1].model_copy(update={"content": told[0].content.removesuffix(".")})
    run = new_run()
    asyncio.run(deduplicator.check_and_merge_all(told, run=run))
    assert len(list(store.memories())) < 60
    store.undo(run)
    assert {memory.id for memory in store.memories()} == {memory.id for memory in told}


def test_an_import_makes_no_text_that_a_person_told_from_one_it_would_stand_for(
    ledger: Ledger,
) -> None:
    embedder = PlacedEmbedder()
    whole, longer = "Mia sails on Sundays. Mia has a cat.", "Mia sails on Sundays with Jo."
    embedder.place(longer, 0.96, to=whole)
    with MemoryStore(ledger, embedder, clock=ticking()) as store:
        stored = store.add(store.new_memory(whole))
        made = "Mia sails on Sundays with Jo. Mia has a cat."
        with store.ledger.writing() as writer:
            keys = text_key(whole), text_key(made)
            writer.distinct.mark_all([(store.scope_of(stored), *keys, "kept apart")], "person")
        new = [store.new_memory(longer), store.new_memory("Bo rows.")]
        together(MemoryDeduplicator(store, OfflineModel()), new)
        assert {memory.content for memory in store.memories()} == {whole, longer, "Bo rows."}

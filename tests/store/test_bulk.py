"""Many memories at once: as one by one, in a handful of statements, as easily taken away again."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from memory.ledger import Ledger
from memory.models import LinkType, Memory, MemoryLink
from memory.store.store import MemoryStore
from tests.conftest import MakeMemory
from tests.doubles import PlacedEmbedder, ticking


@pytest.fixture
def ledger(empty_url: str) -> Iterator[Ledger]:
    """Each test runs on SQLite and on PostgreSQL."""
    with Ledger.create(empty_url) as opened:
        yield opened


def numbered() -> Iterator[str]:
    return (f"mem_{n:012x}" for n in range(0xFFFF, 2 * 0xFFFF))


def in_order(store: MemoryStore) -> list[Memory]:
    return [memory.model_copy(update={"linked_ids": ()}) for memory in store.memories()]


def links(store: MemoryStore) -> list[tuple[str, str, str, float]]:
    with store.ledger.reading() as reader:
        found = reader.links.touching([row.memory.id for row in reader.memories.all()])
    return [(one.low_id, one.high_id, one.link_type, one.confidence) for one in found]


def told(store: MemoryStore) -> list[tuple[int, tuple[str, ...], str]]:
    """Every decision about every memory."""
    with store.ledger.reading() as reader:
        ids = [row.memory.id for row in reader.memories.all()]
        found = {one.number: one for name in ids for one in reader.decisions.about(name)}
    return [(n, found[n].members, found[n].reason) for n in sorted(found)]


def awkward(make_memory: MakeMemory) -> list[Memory]:
    """Repeated, under a taken id, under external ids, and linked to what comes later or never."""
    cat, sails = make_memory("Mia has a cat."), make_memory("Jonas sails.", external_id="row-1")
    ends = (
        MemoryLink(target_id=sails.id, link_type="caused_by", confidence=0.7),
        MemoryLink(target_id="mem_ffffffffffff"),
    )
    dog = make_memory("Mia has a dog.", linked_ids=ends)
    same_id = make_memory("Aiko draws maps.").model_copy(update={"id": cat.id})
    again = sails.model_copy(update={"id": "mem_00000000abcd"})
    back = make_memory("Jonas rows.", linked_ids=(MemoryLink(target_id=dog.id, confidence=0.9),))
    return [dog, cat, sails, cat, same_id, same_id, again, make_memory("mia has a CAT"), back]


def test_many_at_once_leave_the_same_store_as_one_by_one(
    store: MemoryStore, make_memory: MakeMemory, tmp_path: Path
) -> None:
    memories = awkward(make_memory)
    with Ledger.create(f"sqlite:///{tmp_path / 'one-by-one.db'}") as ledger:
        ids = [numbered(), numbered()]
        slow = MemoryStore(ledger, PlacedEmbedder(), clock=ticking(), new_id=lambda: next(ids[0]))
        fast = MemoryStore(
            store.ledger, PlacedEmbedder(), clock=ticking(), new_id=lambda: next(ids[1])
        )
        assert sum(slow.add_batch([memory]) for memory in memories) == 6
        assert fast.add_batch(memories) == 6
        assert in_order(fast) == in_order(slow)
        assert links(fast) == links(slow)
        assert told(fast) == told(slow)
        assert fast.add_batch(memories) == 0


def stored_before(store: MemoryStore, memories: Sequence[Memory]) -> None:
    """Four that are there already: of one only a wording is left, one was forgotten."""
    store.add_batch(memories)
    store.update(memories[1].id, "Aiko paints maps.")
    store.forget(memories[2].id)


def much_linked(make_memory: MakeMemory, before: Sequence[Memory]) -> list[Memory]:
    """Linked to each other, forwards and back with other words, to the stored, to nobody yet."""
    drawn = random.Random(7)
    kinds: tuple[LinkType, ...] = ("related", "caused_by", "leads_to", "similar")
    new = [make_memory(f"Mia knows word {n}.") for n in range(40)]
    names = [memory.id for memory in (*before, *new)] + ["mem_ffffffffffff"]
    return [
        memory.model_copy(
            update={
                "linked_ids": tuple(
                    MemoryLink(target_id=name, link_type=drawn.choice(kinds), note=f"{n}")
                    for name in drawn.sample(names, n % 5)
                )
            }
        )
        for n, memory in enumerate(new)
    ]


def test_linked_memories_at_once_leave_the_same_store_as_one_by_one(
    store: MemoryStore, make_memory: MakeMemory, tmp_path: Path
) -> None:
    before = [
        make_memory(text)
        for text in ("Mia sails.", "Aiko draws maps.", "Jonas rows.", "Leo cooks.")
    ]
    memories = much_linked(make_memory, before)
    with Ledger.create(f"sqlite:///{tmp_path / 'one-by-one.db'}") as ledger:
        ids = [numbered(), numbered()]
        slow = MemoryStore(ledger, PlacedEmbedder(), clock=ticking(), new_id=lambda: next(ids[0]))
        fast = MemoryStore(
            store.ledger, PlacedEmbedder(), clock=ticking(), new_id=lambda: next(ids[1])
        )
        for one in (slow, fast):
            stored_before(one, before)
        assert sum(slow.add_batch([memory]) for memory in memories) == 40
        assert fast.add_batch(memories) == 40
        assert list(fast.memories()) == list(slow.memories())
        assert links(fast) == links(slow)
        assert told(fast) == told(slow)


def test_memories_written_in_bulk_are_forgotten_one_by_one(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    memories = [make_memory(f"Mia knows word {n}.") for n in range(5)]
    store.add_batch(memories)
    store.forget(memories[2].id)
    assert [memory.content for memory in store.memories()] == [
        memory.content for memory in memories if memory is not memories[2]
    ]
    assert [one.reason for one in store.history(memories[2].id)] == ["forgotten", "forgotten"]
    assert [one.reason for one in store.history(memories[3].id)] == ["stored as it is"]
    with store.ledger.reading() as reader:
        assert reader.vectors.missing_texts() == []


def test_a_fault_in_a_batch_leaves_nothing_of_it(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    memories = [make_memory(f"Mia knows word {n}.") for n in range(5)]
    broken = memories[3].model_construct(**dict(memories[3]) | {"content": None})
    with pytest.raises((AttributeError, TypeError)):
        store.add_batch([*memories[:3], broken])
    assert list(store.memories()) == []


def statements(store: MemoryStore, memories: Sequence[Memory]) -> int:
    seen: list[str] = []
    listen = (Engine, "before_cursor_execute", lambda *told: seen.append(told[2]))
    sa.event.listen(*listen)
    try:
        store.add_batch(memories)
    finally:
        sa.event.remove(*listen)
    return len(seen)


def test_a_batch_costs_a_handful_of_statements_however_many_come(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    statements(store, [make_memory("Mia has a cat.")])
    few = statements(store, [make_memory(f"Mia knows word {n}.") for n in range(5)])
    many = statements(store, [make_memory(f"Jonas knows word {n}.") for n in range(50)])
    assert many == few < 30


def test_links_cost_a_handful_of_statements_however_many_there_are(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    first = make_memory("Leo cooks.")
    store.add_batch([first])
    memories = much_linked(make_memory, [first])
    assert statements(store, memories[:5]) == statements(store, memories[5:]) < 40


def test_a_revision_numbers_all_that_one_transaction_wrote(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    store.add_batch([make_memory("Mia has a cat.")])
    store.add_batch([make_memory("Jonas sails."), make_memory("Aiko draws.")])
    with store.ledger.reading() as reader:
        assert [row.revision for row in reader.memories.all()] == [1, 2, 2]
        assert reader.revision() == 2
        assert [change.id for change in reader.followers.changes(1)] == [
            row.memory.id for row in reader.memories.all() if row.revision == 2
        ]

"""A memory with an expiry is hidden from then on, and ends nothing that lives longer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from memory import Memories
from memory.deduplicator import MemoryDeduplicator
from memory.errors import InputError, MemoryNotFound
from memory.ledger import Ledger
from memory.models import Action, Outcome, Verdict
from memory.store import MemoryStore, answer, suspects
from memory.upkeep import examine
from tests.doubles import START, PlacedEmbedder, ScriptedModel

SOON, LATER = START + timedelta(days=1), START + timedelta(days=9)
GUEST = "Ada's guest code is 4711."


class Clock:
    now = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(ledger_url: str, embedder: PlacedEmbedder, clock: Clock) -> Iterator[MemoryStore]:
    with Ledger.create(ledger_url) as ledger, MemoryStore(ledger, embedder, clock=clock) as opened:
        yield opened


def written(store: MemoryStore, text: str, **fields: object) -> Outcome:
    new = store.new_memory(text, user="Ada").model_copy(update=fields)
    [done] = asyncio.run(
        MemoryDeduplicator(store, ScriptedModel(Verdict())).check_and_merge_all([new])
    )
    return done


def live(store: MemoryStore) -> dict[str, datetime | None]:
    return {one.content: one.expires_at for one in store.memories()}


def test_it_is_hidden_from_that_moment_and_nobodys_neighbour(
    store: MemoryStore, clock: Clock
) -> None:
    first = written(store, GUEST, expires_at=SOON).memory
    assert [one.memory.id for one in store.search("code", user="Ada")] == [first.id]
    clock.now = SOON
    counts = store.counts()
    assert (counts.live, counts.retired, counts.users) == (0, 1, {})
    assert live(store) == {}
    assert store.search("code", user="Ada") == []
    assert store.get(first.id) is None
    [past] = store.search("code", user="Ada", include_superseded=True)
    assert (past.memory.id, past.until) == (first.id, SOON)
    assert store.history(first.id)[-1].action is Action.EXPIRE
    assert written(store, GUEST).action is Action.ADD, "no neighbour"
    assert not [one for one in examine(store) if "successor" in one.what]
    assert store.forget(first.id).memory.content == GUEST


@pytest.mark.parametrize("names", [0, 1], ids=["the older", "the newer"])
def test_forgetting_either_of_two_equal_texts_that_expired_erases_both(
    store: MemoryStore, clock: Clock, names: int
) -> None:
    ids = [written(store, GUEST, expires_at=SOON).memory.id for _ in range(2)]
    clock.now = SOON
    gone = store.forget(ids[names])
    assert {gone.memory.id, *(one.id for one in gone.origins)} == {*ids}
    with store.ledger.reading() as reader:
        assert all(row.forgotten for row in reader.memories.rows(ids).values())
    with pytest.raises(MemoryNotFound):
        store.forget(ids[names])


def test_of_equal_texts_the_latest_expiry_stays(store: MemoryStore, clock: Clock) -> None:
    found = []
    for ends in (LATER, SOON, None, SOON):
        written(store, GUEST, expires_at=ends)
        clock.now += timedelta(minutes=1)
        found.append(live(store)[GUEST])
    assert found == [LATER, LATER, None, None]


def test_an_undo_keeps_an_expiry_that_was_set_after_the_decision(store: MemoryStore) -> None:
    """Without one, each memory gets back its own."""
    for text, later, ends in (
        ("Ada rows", None, {SOON, LATER}),
        ("Ada sews", LATER + timedelta(days=1), {LATER + timedelta(days=1)}),
    ):
        old = written(store, f"{text}.", expires_at=SOON).memory
        done = written(store, f"{text}!", expires_at=LATER)
        if later is not None:
            with store.ledger.writing() as writer:
                writer.superseded.prolong(old.id, later)
        store.undo(done.number)
        assert {live(store)[f"{text}{end}"] for end in ".!"} == ends


def test_it_neither_replaces_nor_supersedes_what_lives_longer(
    store: MemoryStore, embedder: PlacedEmbedder, clock: Clock
) -> None:
    longer = "Ada's guest code is 4711, as ever."
    embedder.place(longer, 0.99, to=embedder.place(GUEST))
    written(store, GUEST)
    clock.now += timedelta(minutes=1)
    written(store, longer, expires_at=SOON)
    assert set(live(store)) == {GUEST, longer}
    clock.now += timedelta(minutes=1)
    other = written(store, "Ada's guest code is 9911.", expires_at=SOON).memory
    pairs = [one for one in suspects(store) if one.newer.id == other.id]
    [pair] = [one for one in pairs if one.older.expires_at is None]
    with pytest.raises(InputError, match="expires before"):
        answer(store, pair, "newer")


def test_remember_takes_it(tmp_path: object) -> None:
    with Memories(f"{tmp_path}/ada.db") as memories:
        past = datetime(2020, 1, 1, tzinfo=START.tzinfo)
        memories.remember(GUEST, user="Ada", expires_at=past)
        assert memories.list(user="Ada") == []
        assert memories.recall("code", user="Ada") == []

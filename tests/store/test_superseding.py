"""A superseded memory is retired with its successor; undo and forget work on it alone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memory.errors import CannotUndo, InputError, MemoryNotFound
from memory.ledger import Ledger
from memory.models import Action, Decision, Memory, Outcome, Row, Survivor
from memory.store import MemoryStore, described
from memory.store.superseding import Suspect, answer, supersede, suspects
from tests.doubles import PlacedEmbedder

START = datetime(2026, 1, 5, tzinfo=UTC)
GHENT, BRUGES, LIEGE = "Ada lives in Ghent.", "Ada lives in Bruges.", "Ada lives in Liege."


def told(store: MemoryStore, *texts: str, **fields: object) -> list[Memory]:
    made = [
        {"content": text, "user": "Ada", "timestamp": START + timedelta(days=30 * n), **fields}
        for n, text in enumerate(texts)
    ]
    return [store.add(Memory.model_validate(one)) for one in made]


@pytest.fixture
def on_both(ledger_url: str, embedder: PlacedEmbedder) -> Iterator[MemoryStore]:
    """A store on SQLite, and one on PostgreSQL."""
    with Ledger.create(ledger_url) as ledger, MemoryStore(ledger, embedder) as opened:
        yield opened


def live(store: MemoryStore) -> set[str]:
    return {one.content for one in store.memories()}


def test_the_older_is_retired_and_says_until_when_it_held(store: MemoryStore) -> None:
    old, new = told(store, GHENT, BRUGES)
    done = supersede(store, old.id, new.id, reason="she moved")
    assert (done.memory.id, done.action) == (new.id, Action.SUPERSEDE)
    assert live(store) == {BRUGES}
    with store.ledger.reading() as reader:
        row = reader.memories.row(old.id)
        assert row is not None
        assert (row.live, row.successor_id, row.until) == (False, new.id, new.said)
        assert row.memory.content == GHENT
        assert reader.memories.living(old.id) is None, "no live memory states it"
        assert [one.memory.id for one in reader.superseded.by(new.id)] == [old.id]
    assert [one.reason for one in store.history(old.id)] == ["stored as it is", "she moved"]


@pytest.mark.parametrize(
    ("older", "newer", "kept"),
    [
        ("Ada plays golf and speaks Greek.", "Ada has stopped playing golf.", "speaks Greek"),
        ("Ada lives in Ghent. She has two cats.", "Ada moved to Bruges.", "She has two cats"),
        ("Ada lives in Ghent, where she sings.", "Ada lives in Bruges.", "she sings"),
        ("Her phone is 1. Call her after 6.", "Her phone is 2.", "Call her after 6"),
    ],
)
def test_what_holds_besides_is_never_lost_unless_forced(
    store: MemoryStore, older: str, newer: str, kept: str
) -> None:
    texts = (older, newer)
    old, new = told(store, *texts)
    with pytest.raises(InputError, match=kept):
        supersede(store, old.id, new.id)
    assert live(store) == set(texts)
    supersede(store, old.id, new.id, force=True)
    assert live(store) == {texts[1]}


def test_a_wrong_call_is_refused(store: MemoryStore) -> None:
    old, new = told(store, GHENT, BRUGES)
    [private] = told(store, LIEGE, is_private=True)
    with pytest.raises(InputError, match="another scope"):
        supersede(store, old.id, private.id)
    with pytest.raises(InputError, match="itself"):
        supersede(store, old.id, old.id)
    supersede(store, old.id, new.id)
    with pytest.raises(InputError, match="already"):
        supersede(store, old.id, new.id)
    with pytest.raises(MemoryNotFound):
        supersede(store, new.id, old.id)


def test_undo_takes_back_one_edge_of_a_chain(store: MemoryStore) -> None:
    first, second, third = told(store, GHENT, BRUGES, LIEGE)
    one = supersede(store, first.id, second.id).number
    two = supersede(store, second.id, third.id).number
    assert live(store) == {LIEGE}
    store.undo(one)
    assert live(store) == {LIEGE, GHENT}
    assert not [pair for pair in suspects(store) if pair.newer.id == second.id]
    with pytest.raises(CannotUndo):
        store.undo(one)
    store.undo(two)
    assert live(store) == {LIEGE, GHENT, BRUGES}
    known = {(pair.older.content, pair.newer.content) for pair in suspects(store)}
    assert known == {(GHENT, LIEGE)}, "a person said that the others do not end each other"


def test_a_superseded_text_that_is_told_again_is_a_new_live_memory(store: MemoryStore) -> None:
    old, new = told(store, GHENT, BRUGES)
    supersede(store, old.id, new.id)
    [again] = told(store, GHENT, timestamp=START + timedelta(days=90))
    assert again.id != old.id
    assert live(store) == {BRUGES, GHENT}


def test_undo_moves_the_older_to_another_that_supersedes_it(on_both: MemoryStore) -> None:
    store = on_both
    old, first, second = told(store, GHENT, BRUGES, LIEGE)
    numbers = [supersede(store, old.id, end.id).number for end in (first, second)]

    def row() -> Row:
        with store.ledger.reading() as reader:
            found = reader.memories.row(old.id)
        assert found is not None
        return found

    assert (row().successor_id, row().until) == (second.id, first.said), "it had ended by then"
    store.undo(numbers[1])
    assert (row().live, row().successor_id, row().until) == (False, first.id, first.said)
    store.undo(numbers[0])
    assert row().live


@pytest.mark.parametrize("how", ["add", "add_batch"])
def test_a_late_arrival_that_had_ended_by_then_is_superseded(
    on_both: MemoryStore, how: str
) -> None:
    store = on_both
    old, new, last = told(store, GHENT, BRUGES, LIEGE)
    supersede(store, old.id, new.id)
    supersede(store, new.id, last.id)
    late = old.model_copy(update={"id": store.new_id(), "external_id": "late"})
    later = late.model_copy(
        update={"id": store.new_id(), "timestamp": last.timestamp, "said": last.said}
    )
    for one in (late, later):
        store.add(one) if how == "add" else store.add_batch([one])
    with store.ledger.reading() as reader:
        row = reader.memories.row(late.id)
    assert row is not None
    assert (row.live, row.successor_id, row.until) == (False, last.id, new.said)
    assert live(store) == {LIEGE, GHENT}, "told again afterwards"
    assert store.history(late.id)[-1].reason == "it had ended before it arrived"


def test_forgetting_neither_erases_nor_revives_what_was_superseded(store: MemoryStore) -> None:
    first, second = told(store, GHENT, BRUGES)
    supersede(store, first.id, second.id)
    gone = store.forget(second.id)
    assert [one.id for one in gone.superseded] == [first.id]
    assert live(store) == set()
    assert store.forget(first.id).memory.content == GHENT, "by its own id"
    third, fourth = told(store, LIEGE, BRUGES)
    supersede(store, third.id, fourth.id)
    assert [one.id for one in store.forget(fourth.id, lineage=True).origins] == [third.id]
    with pytest.raises(MemoryNotFound):
        store.forget(third.id)


def test_what_is_retired_can_be_described_too(on_both: MemoryStore) -> None:
    def named(description: str) -> list[str]:
        with on_both.ledger.reading() as reader:
            return [one.id for one in described(reader, "Ada ", description)]

    old, new = told(on_both, GHENT, BRUGES)
    supersede(on_both, old.id, new.id)
    first, second = told(on_both, "Ada owns a skiff.", "Ada owns a boat.")
    union = Decision(Action.REPLACE, "same", (first, second), (Survivor(second, (first.id,)),))
    on_both.apply(union)
    assert (named("Ghent"), named("Bruges"), named("the skiff")) == (
        [old.id],
        [new.id],
        [second.id],
    )
    on_both.forget(old.id)
    assert (named("Ghent"), named("Bruges")) == ([], [new.id])


def test_a_person_answers_what_holds(store: MemoryStore) -> None:
    old, new = told(store, GHENT, BRUGES)
    [pair] = suspects(store, "Ada")
    assert pair == Suspect(old, new)
    assert suspects(store, "Bo") == []
    store.undo(answer(store, pair, "older").number)
    assert suspects(store) == [], "it was taken back, so neither ends the other"
    assert live(store) == {GHENT, BRUGES}
    done = answer(store, pair, "newer")
    assert live(store) == {BRUGES}
    store.undo(done.number)
    assert answer(store, pair, "both").action is Action.KEEP_BOTH
    assert live(store) == {GHENT, BRUGES}


def test_many_memories_are_compared_by_their_rare_words(store: MemoryStore) -> None:
    told(store, *(f"Ada saw whale {n} today." for n in range(50)))
    old, new = told(store, "Ada's locker code is 4711.", "Ada's locker code is 9911.")
    assert suspects(store) == [Suspect(old, new)]


def test_the_past_can_be_read(store: MemoryStore) -> None:
    old, new, other = told(store, GHENT, BRUGES, "Ada has a kayak.")
    supersede(store, old.id, new.id)

    def found(query: str = "Where does Ada live?", k: int = 5, **how: Any) -> list[str]:
        return [hit.memory.id for hit in store.search(query, k, user="Ada", **how)]

    assert found() == [new.id, other.id]
    assert found(include_superseded=True) == [new.id, old.id, other.id]
    [hit] = store.search(GHENT, 2, user="Ada", include_superseded=True)[1:]
    assert (hit.memory.id, hit.until) == (old.id, new.said)
    assert found(as_of=START - timedelta(days=1)) == []
    assert found(as_of=START + timedelta(days=1)) == [old.id]
    assert found(as_of=START + timedelta(days=30)) == [new.id], "by then it had ended"
    assert found("Where did Ada live before?") == [new.id, old.id, other.id]
    assert found("Where did Ada live before?", include_superseded=False) == [new.id, other.id]
    assert old.id not in found("Where did Ada live before?", among={new.id})
    assert found("Where did Ada live before?", min_score=99.0) == []
    store.forget(old.id)
    assert found(include_superseded=True) == [new.id, other.id]
    assert found(as_of=START + timedelta(days=1)) == []


def test_what_was_replaced_stands_for_its_survivor_at_an_earlier_time(
    on_both: MemoryStore,
) -> None:
    store = on_both
    cat, dog, both, none = told(
        store, "Ada has a cat.", "Ada has a dog.", "Ada has a cat and a dog.", "Ada has no pets."
    )
    merged = Decision(
        Action.MERGE,
        "one page",
        (cat, dog, both),
        (Survivor(both, (cat.id, dog.id)),),
    )
    assert isinstance(store.apply(merged), Outcome)

    def found(days: int) -> dict[str, datetime | None]:
        hits = store.search("pets", user="Ada", as_of=START + timedelta(days=days))
        return {hit.memory.content: hit.until for hit in hits}

    assert found(0) == {cat.content: None}
    assert found(40) == {cat.content: None, dog.content: None}
    assert found(61) == {both.content: None}
    supersede(store, both.id, none.id, force=True)
    assert found(40) == {cat.content: none.said, dog.content: none.said}
    assert found(100) == {none.content: None}
    store.forget(both.id)
    assert found(40) == {}

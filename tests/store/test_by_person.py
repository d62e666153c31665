"""What a person decided: told apart from what a model did, under its own condition, taken back."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from memory.errors import CannotUndo
from memory.models import PERSON, Action, Condition, Decision, Memory, Outcome, Survivor
from memory.store.store import MemoryStore
from memory.store.writing import Conflict
from memory.text import text_key
from tests.conftest import MakeMemory


@pytest.fixture
def three(store: MemoryStore, make_memory: MakeMemory) -> tuple[Memory, ...]:
    texts = ("Mia sails.", "Mia sails a lot.", "Mia sails on lakes.")
    return tuple(store.add(make_memory(text)) for text in texts)


def parted(*members: Memory, pending: bool = False) -> Decision:
    pairs = () if pending else tuple((a.id, b.id) for a, b in combinations(members, 2))
    told = "left for later" if pending else "kept apart"
    return Decision(Action.KEEP_BOTH, told, members, distinct=pairs, pending=pending, model=PERSON)


def joined(store: MemoryStore, *members: Memory, without: Memory | None = None) -> Decision:
    made = members[-1].model_copy(update={"id": store.new_id(), "content": "Mia sails much."})
    survivor = Survivor(made, tuple(one.id for one in members))
    if without is None:
        return Decision(Action.MERGE, "told", members, (survivor,), model=PERSON)
    pairs = tuple((one.id, without.id) for one in (*members, made))
    told = (*members, without)
    return Decision(Action.MERGE, "told", told, (survivor,), distinct=pairs, model=PERSON)


def given(store: MemoryStore, decision: Decision, run: str | None = None) -> Outcome | Conflict:
    with store.ledger.reading() as reader:
        condition = Condition(reader.revision(), ("person",), is_answer=True)
    return store.apply(replace(decision, condition=condition), run=run)


def number_of(done: Outcome | Conflict) -> int:
    assert isinstance(done, Outcome), done
    return done.number


def apart(store: MemoryStore) -> set[tuple[str, str, str]]:
    with store.ledger.reading() as reader:
        return reader.distinct.all(("person",))


def test_undoing_an_answer_drops_that_they_were_kept_apart(
    store: MemoryStore, three: tuple[Memory, ...]
) -> None:
    number = number_of(given(store, parted(*three)))
    assert len(apart(store)) == 3
    store.undo(number)
    assert apart(store) == set()
    assert store.history()[-1].action is Action.UNDO
    with pytest.raises(CannotUndo, match="undone already"):
        store.undo(number)


def test_a_models_word_stands_again_when_a_persons_is_taken_back(
    store: MemoryStore, three: tuple[Memory, ...]
) -> None:
    a, b, _ = three
    by_model = Decision(Action.KEEP_BOTH, "differ", (a, b), distinct=((a.id, b.id),), model="m")
    given(store, by_model)
    number = number_of(given(store, parted(a, b)))
    assert len(apart(store)) == 1
    store.undo(number)
    with store.ledger.reading() as reader:
        assert len(reader.distinct.all(("model",))) == 1
        assert reader.distinct.all(("person",)) == set()


def test_the_same_is_not_answered_twice(store: MemoryStore, three: tuple[Memory, ...]) -> None:
    a, b, c = three
    given(store, parted(a, b))
    assert given(store, parted(a, b)) == Conflict("a person keeps them all apart already")
    against = given(store, joined(store, a, b))
    assert against == Conflict(f"a person keeps {a.id} and {b.id} apart")
    number_of(given(store, joined(store, b, c, without=a)))
    assert given(store, parted(b, c)) == Conflict(f"{b.id} changed")


def test_a_member_that_is_left_out_is_told_from_what_becomes_of_the_others(
    store: MemoryStore, three: tuple[Memory, ...]
) -> None:
    a, b, c = three
    done = given(store, joined(store, a, b, without=c))
    assert isinstance(done, Outcome)
    assert len(apart(store)) == 3
    made = store.memories()
    with store.ledger.reading() as reader:
        keys = {row.text_key for row in reader.memories.live()}
    assert len(list(made)) == 2
    assert any(set(pair[1:]) == keys for pair in apart(store))
    store.undo(done.number, keep_apart=False)
    assert apart(store) == set()
    assert {memory.id for memory in store.memories()} == {one.id for one in three}


def test_an_undo_that_keeps_apart_keeps_apart_what_a_person_had_joined(
    store: MemoryStore, three: tuple[Memory, ...]
) -> None:
    a, b, _ = three
    store.undo(number_of(given(store, joined(store, a, b))))
    assert len(apart(store)) == 1


def test_a_question_left_for_later_is_pending_until_it_is_answered(
    store: MemoryStore, three: tuple[Memory, ...]
) -> None:
    """It counts as no model's failure, and is left only once."""
    number_of(given(store, parted(*three, pending=True)))
    assert given(store, parted(*three, pending=True)) == Conflict("it is left for later already")
    assert store.counts().pending == 1
    with store.ledger.reading() as reader:
        assert reader.attempts.waiting(PERSON, store.clock()) == set()
    number_of(given(store, parted(*three)))
    assert store.counts().pending == 0


def test_a_pair_that_was_kept_apart_twice_is_taken_back_in_order(
    store: MemoryStore, three: tuple[Memory, ...]
) -> None:
    a, b, _ = three
    first = number_of(given(store, parted(a, b)))
    second = number_of(given(store, parted(*three)))
    with pytest.raises(CannotUndo, match=rf"decisions \[{second}\] build on it"):
        store.undo(first)
    store.undo(second)
    assert len(apart(store)) == 1
    store.undo(first)
    assert apart(store) == set()


def test_a_run_of_answers_is_taken_back_whole(
    store: MemoryStore, three: tuple[Memory, ...]
) -> None:
    a, b, c = three
    given(store, parted(a, b), "run_of_answers")
    given(store, joined(store, b, c), "run_of_answers")
    undone = store.undo("run_of_answers", keep_apart=False)
    assert [one.action for one in undone] == [Action.MERGE, Action.KEEP_BOTH]
    assert apart(store) == set()
    assert len(list(store.memories())) == 3


def test_no_trace_of_a_forgotten_text_is_left_in_what_a_person_said_of_it(
    store: MemoryStore, three: tuple[Memory, ...]
) -> None:
    number = number_of(given(store, parted(*three)))
    with store.ledger.reading() as reader:
        keys = {row.text_key for row in reader.memories.live() if row.memory.id == three[0].id}
    store.forget(three[0].id)
    record = next(one for one in store.history() if one.number == number)
    assert not any(key in record.before for key in keys)
    with pytest.raises(CannotUndo, match="forgotten"):
        store.undo(number)


def test_no_reason_for_which_others_were_told_apart_quotes_a_forgotten_text(
    store: MemoryStore, three: tuple[Memory, ...]
) -> None:
    pairs = tuple((a.id, b.id) for a, b in combinations(three, 2))
    why = f"{three[0].content!r} is not what the others say"
    store.apply(Decision(Action.KEEP_BOTH, why, three, distinct=pairs, model="model"))
    store.forget(three[0].id)
    one, other = three[1:]
    with store.ledger.reading() as reader:
        left = reader.distinct.verdict(
            store.scope_of(one), text_key(one.content), text_key(other.content)
        )
    assert (left.reason, left.by) == ("forgotten", "model")


def test_an_undo_tells_nobody_from_who_only_stood_beside(
    store: MemoryStore, three: tuple[Memory, ...]
) -> None:
    gone, stays, _beside = three
    replaced = Decision(Action.REPLACE, "told", three, (Survivor(stays, (gone.id,)),))
    store.undo(number_of(store.apply(replaced)))
    with store.ledger.reading() as reader:
        keys = [(store.scope_of(one), text_key(one.content)) for one in three]
        names = reader.distinct.of_all(keys)
    assert [len(others) for others in names] == [1, 1, 0]

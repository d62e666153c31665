"""One person's answers: what each does to the store, what is refused, what comes back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from memory.decide import merged, survivor_of
from memory.models import Action, Decision, Memory, Rules
from memory.store import MemoryStore
from memory.upkeep.answers import (
    Answered,
    AnsweredMember,
    AnswerResult,
    Answers,
    Given,
    Refused,
    ReviewAnswer,
)
from memory.upkeep.cards import card_key, content_hash
from tests.conftest import MakeMemory
from tests.upkeep.conftest import NEW, OLD, OTHER
from tests.upkeep.serving import is_new, is_repeated


@pytest.fixture
def answers(store: MemoryStore) -> Answers:
    return Answers(store, Rules(), "run_of_a_review")


def answered(
    members: Sequence[Memory], answer: ReviewAnswer = ReviewAnswer.APPLY, **more: object
) -> Answered:
    shown = [(one.id, content_hash(one.content)) for one in members]
    told = tuple(AnsweredMember(id=name, hash=text) for name, text in shown)
    fields = {"key": card_key(shown), "members": told, "answer": answer, **more}
    return Answered.model_validate(fields)


def texts(store: MemoryStore) -> set[str]:
    return {memory.content for memory in store.memories()}


def refused(outcome: AnswerResult) -> str:
    assert isinstance(outcome, Refused), outcome
    return outcome.why


def test_applying_as_planned_does_what_the_rules_plan_and_says_who_said_so(
    store: MemoryStore, answers: Answers, three: list[Memory]
) -> None:
    old, new, _ = three
    assert is_new(answers.give(answered([old, new], retired=(old.id,))))
    assert texts(store) == {NEW, OTHER}
    told = store.history(old.id)[-1]
    assert (told.action, told.model, told.run) == (Action.REPLACE, "person", "run_of_a_review")
    assert told.reason == "applied by a person: the newer states all of the older"


def test_a_proposal_takes_what_its_members_have_inherited_meanwhile(
    store: MemoryStore, answers: Answers, three: list[Memory], make_memory: MakeMemory
) -> None:
    both = tuple(three[:2])
    text = "One text for both."
    proposal = Decision(
        Action.MERGE, "same", both, (merged(text, both, store.new_id),), model="m"
    )  # fmt: skip
    newer = store.add(make_memory(both[1].content, user="Mia", importance=5, tags=("late",)))
    again = (both[1], newer)
    store.apply(Decision(Action.REPLACE, "same", again, (survivor_of(both[1], again),)))
    assert is_new(answers.give(answered(both), proposal))
    [made] = [one for one in store.memories() if one.content == text]
    assert (made.importance, made.tags, made.timestamp) == (5, ("late",), newer.timestamp)


def test_a_member_that_is_left_out_stays_and_is_not_asked_about_again(
    store: MemoryStore, answers: Answers, three: list[Memory]
) -> None:
    answers.give(answered(three, left_out=(three[2].id,)))
    assert texts(store) == {NEW, OTHER}
    with store.ledger.reading() as reader:
        keys = {row.text_key for row in reader.memories.live()}
        assert any(set(pair[1:]) == keys for pair in reader.distinct.all(("person",)))


def test_leaving_out_one_of_two_keeps_both(answers: Answers, three: list[Memory]) -> None:
    assert is_new(answers.give(answered(three[:2], left_out=(three[0].id,))))
    assert is_repeated(answers.give(answered(three[:2], ReviewAnswer.KEEP_ALL)))


def test_a_text_of_the_persons_is_verified_and_recorded_so(
    store: MemoryStore, answers: Answers, three: list[Memory]
) -> None:
    said = "Mia is regularly running 12 km."
    answers.give(answered(three[:2], text=said))
    assert texts(store) == {NEW, OTHER}
    told = store.history(three[0].id)[-1]
    assert (told.action, told.verified, told.reason) == (
        Action.MERGE, "by words", "told by a person",
    )  # fmt: skip


def test_an_untrue_text_is_objected_to_until_the_person_insists(
    store: MemoryStore, answers: Answers, three: list[Memory]
) -> None:
    said = "Mia is regularly running 13 km."
    why = refused(answers.give(answered(three[:2], text=said)))
    assert "13" in why
    assert texts(store) == {OLD, NEW, OTHER}
    assert is_new(answers.give(answered(three[:2], text=said, insist=True)))
    assert texts(store) == {said, OTHER}
    told = store.history(three[0].id)[-1]
    assert (told.verified, told.reason) == (
        "by a person", f"told by a person, who insists: {why}",
    )  # fmt: skip


def test_the_same_answer_twice_changes_nothing(
    store: MemoryStore, answers: Answers, three: list[Memory]
) -> None:
    whole = answered(three, ReviewAnswer.LATER)
    assert is_new(answers.give(whole))
    assert is_repeated(answers.give(whole))
    assert is_new(answers.give(answered(three, ReviewAnswer.KEEP_ALL))), "later is no answer"
    store.undo(store.history()[-1].number, keep_apart=False)
    for one in (
        answered(three[1:], ReviewAnswer.KEEP_ALL),
        answered(three[:2], text="Mia is regularly running 12 km."),
    ):
        first = answers.give(one)
        assert isinstance(first, Given)
        assert not first.repeated
        decided = len(store.history())
        assert answers.give(one) == Given(first.number, repeated=True)
        assert len(store.history()) == decided


def test_an_answer_about_memories_that_changed_is_refused(
    store: MemoryStore, answers: Answers, three: list[Memory]
) -> None:
    shown = answered(three[:2])
    store.update(three[0].id, "Mia is running 12 km, slowly.")
    assert refused(answers.give(shown)) == f"{three[0].id} has another text now"
    shown = answered(three[1:], ReviewAnswer.KEEP_ALL)
    store.forget(three[2].id)
    assert refused(answers.give(shown)) == f"{three[2].id} does not exist any more"


def test_an_answer_to_a_retired_memory_names_who_stands_for_it(
    answers: Answers, three: list[Memory]
) -> None:
    answers.give(answered(three[:2]))
    why = refused(answers.give(answered([three[0], three[2]], ReviewAnswer.KEEP_ALL)))
    assert why == f"{three[0].id} was retired since; {three[1].id} stands for it"


def test_a_plan_that_is_another_one_now_is_refused(answers: Answers, three: list[Memory]) -> None:
    why = refused(answers.give(answered(three[:2], retired=(three[1].id,))))
    assert why == "the plan has changed since it was shown"
    why = refused(answers.give(answered(three[1:])))
    assert why.startswith("the rules cannot decide")


def test_memories_of_two_users_cannot_be_merged(
    store: MemoryStore, answers: Answers, three: list[Memory], make_memory: MakeMemory
) -> None:
    strange = store.add(make_memory(OLD, user="Jo"))
    both = answered([three[0], strange], text=OLD, insist=True)
    assert refused(answers.give(both)).startswith("its members belong to different scopes")
    forged = answered(three).model_copy(update={"key": "0" * 16})
    assert refused(answers.give(forged)) == "the key does not belong to these members"
    alone = answered(three[:1])
    assert refused(answers.give(alone)) == "a group needs two or more different members"


def test_an_answer_about_more_than_was_answered_before_is_no_repetition(
    store: MemoryStore, answers: Answers, three: list[Memory]
) -> None:
    """A text for two of three, then the same for all three: the third would stay unheard."""
    text = "Mia is regularly running 12 km!"
    two = answered(three, left_out=(three[2].id,), text=text, insist=True)
    assert is_new(answers.give(two))
    assert is_repeated(answers.give(two))
    whole = answered(three, text=text, insist=True)
    assert "retired since" in refused(answers.give(whole))

"""The decision table, row by row, with a row exactly on each threshold."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from memory.decide.policy import after_failure, decide_new, merged, plan_group
from memory.models import (
    Action,
    Decision,
    Memory,
    Question,
    Rules,
    SearchResult,
    turns_of,
)
from tests.conftest import MakeMemory
from tests.doubles import START

RULES = Rules()
SHORT, LONG, OTHER = "Mia has a cat.", "Mia has a black cat.", "Mia has a dog."
Alike = Callable[[Memory, Memory], float]


def decide(old: Memory, new: Memory, similarity: float, rules: Rules = RULES) -> object:
    return decide_new(new, [SearchResult(old, similarity)], rules)[0]


@pytest.mark.parametrize(
    ("old", "new", "similarity", "expected"),
    [
        (SHORT, SHORT.upper(), 1.0, "keep the newer"),
        (SHORT, LONG, 0.95, "keep the newer"),
        (LONG, SHORT, 0.95, "keep the older"),
        (SHORT, OTHER, 0.95, "judge"),
        (SHORT, LONG, 0.949999, "judge"),
        (SHORT, OTHER, 0.90, "judge"),
        (SHORT, OTHER, 0.899999, "add"),
    ],
)
def test_decision_table(
    make_memory: MakeMemory, old: str, new: str, similarity: float, expected: str
) -> None:
    first, second = make_memory(old), make_memory(new)
    decision = decide(first, second, similarity)
    if expected == "judge":
        assert isinstance(decision, Question)
        assert decision.members == (first, second)
        return
    assert isinstance(decision, Decision)
    if expected == "add":
        assert decision.action is Action.ADD
        return
    kept, gone = (second, first) if expected == "keep the newer" else (first, second)
    [survivor] = decision.survivors
    assert decision.action is Action.REPLACE
    assert (survivor.memory.id, survivor.stands_for) == (kept.id, (gone.id,))
    assert survivor.memory.content == (old if similarity == 1.0 else kept.content)
    assert survivor.memory.timestamp == second.timestamp


@pytest.mark.parametrize(
    ("older", "newer", "shown"),
    [
        ("Mia has a cat.", "mia has a cat", "older"),
        ("MIA HAS A CAT.", "Mia has a cat", "newer"),
        ("Mia has a cat", "Mia has a cat.", "newer"),
        ("Mia has a cat.", "Mia  has a cat.", "older"),
        ("Mia has a cat. She rows.", "Mia has a cat. she rows.", "older"),
        ("Mia has a cat.", "Mia has a cat!", "newer"),
        ("美咲は猫が好きです。", "美咲は猫が好きです", "older"),
    ],
)
def test_of_two_equal_texts_the_better_written_one_stays(
    make_memory: MakeMemory, older: str, newer: str, shown: str
) -> None:
    """The newer memory stays, with its id and time; only the text that it shows may change."""
    old, new = make_memory(older), make_memory(newer)
    decision = decide(old, new, 1.0)
    assert isinstance(decision, Decision)
    [survivor] = decision.survivors
    assert (survivor.memory.id, survivor.memory.timestamp) == (new.id, new.timestamp)
    assert survivor.memory.content == {"older": older, "newer": newer}[shown]


def test_a_better_written_copy_of_two_that_a_person_keeps_apart_shows_in_the_one_that_takes_it(
    make_memory: MakeMemory,
) -> None:
    stored = [make_memory(text) for text in ("ana rows", "ana rows!")]
    matches = [SearchResult(memory, 1.0) for memory in stored]
    decision, _ = decide_new(make_memory("Ana rows."), matches, Rules())
    assert isinstance(decision, Decision)
    [kept] = decision.survivors
    assert (kept.memory.id, kept.memory.content) == (stored[0].id, "Ana rows.")


def test_nothing_similar_is_added(make_memory: MakeMemory) -> None:
    decision, match = decide_new(make_memory(SHORT), [], RULES)
    assert isinstance(decision, Decision)
    assert (decision.action, match) == (Action.ADD, None)


def test_without_the_guard_the_newer_replaces_whatever_differs(make_memory: MakeMemory) -> None:
    old, new = make_memory(SHORT), make_memory(OTHER)
    decision = decide(old, new, 0.95, Rules(guard=False))
    assert isinstance(decision, Decision)
    assert decision.survivors[0].memory.id == new.id


def test_newer_means_later_in_time_not_in_arrival(make_memory: MakeMemory) -> None:
    stored = make_memory(SHORT)
    late_arrival = make_memory(SHORT, timestamp=START - timedelta(days=1))
    decision = decide(stored, late_arrival, 1.0)
    assert isinstance(decision, Decision)
    assert decision.survivors[0].memory.id == stored.id


def test_the_nearest_that_can_be_decided_without_a_model_decides(make_memory: MakeMemory) -> None:
    lookalike, copy, new = (
        make_memory("Mia has 3 cats."),
        make_memory("Mia has 2 cats"),
        make_memory("Mia has 2 cats!"),
    )
    matches = [SearchResult(lookalike, 0.99), SearchResult(copy, 0.97)]
    decision, match = decide_new(new, matches, RULES)
    assert isinstance(decision, Decision)
    assert match is not None
    assert match.memory == copy


def test_the_survivor_inherits_what_only_the_retired_one_had(make_memory: MakeMemory) -> None:
    old = make_memory(SHORT, tags=("pet",), intensity=0.9, importance=5, category="old")
    new = make_memory(LONG, tags=("home",), intensity=0.1, metadata={"n": 1}, category="new")
    decision = decide(old, new, 0.96)
    assert isinstance(decision, Decision)
    successor = decision.survivors[0].memory
    assert (successor.tags, successor.intensity, successor.importance) == (("pet", "home"), 0.9, 5)
    assert (successor.category, successor.metadata) == ("new", {"n": 1})


# --- groups -----------------------------------------------------------------------------------


def always(similarity: float) -> Alike:
    return lambda a, b: 1.0 if a.content == b.content else similarity


def test_a_group_replaces_first_and_asks_about_the_rest(make_memory: MakeMemory) -> None:
    a, b, c = make_memory(SHORT), make_memory(LONG), make_memory(OTHER)
    plan = plan_group([a, b, c], always(0.96), RULES)
    assert plan.replacement is not None
    assert plan.replacement.retired == (a.id,)
    assert plan.question is not None
    assert plan.question.members == (b, c)


def test_the_widest_text_stays_for_all_that_it_covers(make_memory: MakeMemory) -> None:
    a, b, c = make_memory(LONG), make_memory(SHORT), make_memory(SHORT + "!")
    plan = plan_group([a, b, c], always(0.97), RULES)
    assert plan.replacement is not None
    [survivor] = plan.replacement.survivors
    assert (survivor.memory.id, set(survivor.stands_for)) == (a.id, {b.id, c.id})
    assert survivor.memory.timestamp == c.timestamp
    assert plan.question is None


def test_the_reason_says_which_of_the_two_was_kept(make_memory: MakeMemory) -> None:
    members = [make_memory(SHORT), make_memory(LONG), make_memory(OTHER)]
    plan = plan_group(members, always(0.97), RULES)
    assert plan.replacement is not None
    assert plan.replacement.reason == "the newer states all of the older"


def test_in_a_group_too_the_threshold_includes_its_own_value(make_memory: MakeMemory) -> None:
    members = [make_memory(SHORT), make_memory(LONG)]
    assert plan_group(members, always(0.95), RULES).replacement is not None
    assert plan_group(members, always(0.949999), RULES).replacement is None


# --- after a failure ---------------------------------------------------------------------------


def ask(*members: Memory) -> Question:
    return Question(members, "between 0.90 and 0.95", 0.92)


def test_after_a_failure_what_is_covered_is_replaced_and_the_rest_kept(
    make_memory: MakeMemory,
) -> None:
    covered = after_failure(ask(make_memory(SHORT), make_memory(LONG)), "down", RULES)
    assert (covered.action, covered.pending) == (Action.REPLACE, True)
    apart = after_failure(ask(make_memory(SHORT), make_memory(OTHER)), "down", RULES)
    assert (apart.action, apart.retired, apart.pending) == (Action.KEEP_BOTH, (), True)


def test_after_a_failure_without_the_guard_the_newer_replaces(make_memory: MakeMemory) -> None:
    old, new = make_memory(SHORT), make_memory(OTHER)
    decision = after_failure(ask(old, new), "down", Rules(guard=False))
    assert (decision.action, decision.retired) == (Action.REPLACE, (old.id,))


def test_a_merged_memory_names_the_turns_of_all_its_members(make_memory: MakeMemory) -> None:
    told = [
        {"conversation": "a", "turn": "3"},
        {"conversation": "b", "turn": "9", "turns": ["8", "9"]},
        {"conversation": "b", "turn": "12", "mood": "fine"},
    ]
    members = tuple(
        make_memory(f"Mia rows {n}.", metadata=metadata) for n, metadata in enumerate(told)
    )
    made = merged("Mia rows 0, 1 and 2.", members, lambda: "mem_00000000000a").memory
    assert made.metadata == {
        "conversation": "b",
        "turn": "12",
        "mood": "fine",
        "turns": ["8", "9", "12"],
        "other_turns": {"a": ["3"]},
    }
    by_hand = make_memory("Mia rows 3.")
    made = merged("Mia rows 0 to 3.", (made, by_hand), lambda: "mem_00000000000b").memory
    assert turns_of(made.metadata) == {"a": ["3"], "b": ["8", "9", "12"]}

"""The offline model: merges only what loses nothing, and says so where it cannot tell."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.coverage import Belief, parse, verify_by_words
from memory.models import Memory, Question, Turn
from memory.offline.model import OfflineModel, combine
from memory.text import NOT, sentences
from tests.conftest import MakeMemory
from tests.doubles import START


@pytest.mark.parametrize(
    ("newer", "older", "joined"),
    [
        ("Mia has a tabby cat.", "Mia has a cat.", "Mia has a tabby cat."),
        ("Mia has a cat.", "Mia has a tabby cat.", "Mia has a tabby cat."),
        (
            "Mia has a cat. She moved to Porto.",
            "Mia has a cat. Her sister studies law.",
            "Mia has a cat. She moved to Porto. Her sister studies law.",
        ),
        (
            "Jonas sails.",
            "Mia has a cat. Her sister studies law. Bela lent Jo a tent.",
            None,  # a long text is like many, and would take in all of them
        ),
        ("Mia has a cat.", "Mia has a dog.", None),
        ("Mia eats meat.", "Mia does not eat meat.", None),
        ("Mia moved to Porto in 2021.", "Mia moved to Porto in 2022.", None),
    ],
)
def test_two_texts_become_one_only_where_nothing_conflicts(
    newer: str, older: str, joined: str | None
) -> None:
    assert combine(newer, older) == joined


def test_a_group_is_parted_where_values_conflict(make_memory: MakeMemory) -> None:
    members = (
        make_memory("Mia has 2 cats."),
        make_memory("Mia has 3 cats."),
        make_memory("Mia really has 2 cats."),
    )
    verdict = asyncio.run(OfflineModel().judge(Question(members, "test", 0.95)))
    assert [part.members for part in verdict.parts] == [(0, 2)]
    assert verdict.usage.calls == 0


def test_copies_are_joined_beside_a_member_that_is_only_similar(make_memory: MakeMemory) -> None:
    members = (
        make_memory("Mia has a cat in her house."),
        make_memory("Mia sings in a choir."),
        make_memory("Mia sings in a choir on Mondays."),
    )
    question = Question(members, "test", 0.91, 0.75, copies=frozenset({(1, 2)}))
    [part] = asyncio.run(OfflineModel().judge(question)).parts
    assert (part.members, part.text) == ((1, 2), "Mia sings in a choir on Mondays.")
    alone = (make_memory("Mia sings in a choir. Her sister studies law."), members[0])
    assert not asyncio.run(OfflineModel().judge(Question(alone, "test", 0.91, 0.75))).parts


def test_its_merges_are_believed(make_memory: MakeMemory) -> None:
    members = (
        make_memory("Mia has a cat. Her sister studies law."),
        make_memory("Mia has a cat. She moved to Porto."),
    )
    [part] = asyncio.run(OfflineModel().judge(Question(members, "test", 0.95))).parts
    told = [member.content for member in members]
    assert verify_by_words(part.text, told).belief is Belief.BELIEVED


def test_it_replies_with_what_answers_a_question_or_shares_a_word(make_memory: MakeMemory) -> None:
    recalled = [
        make_memory("Mia has a cat.", user="Mia"),
        make_memory("Mia lives in Porto.", user="Mia"),
    ]

    def reply(said: str) -> str:
        turn = Turn(speaker="Mia", text=said, at=START)
        return asyncio.run(OfflineModel().reply([turn], recalled)).text

    assert reply("Where do I live?") == "I remember: Mia has a cat. Mia lives in Porto."
    assert reply("My cat is asleep.") == "I remember: Mia has a cat."
    assert reply("Good evening, Mia!") == "I see."


def test_sentences_end_in_any_script() -> None:
    assert sentences("It is at 10.0.7.1 now.") == ["It is at 10.0.7.1 now."]
    assert sentences("Mia left. Why? 猫がいる。犬もいる。") == [
        "Mia left.", "Why?", "猫がいる。", "犬もいる。",
    ]  # fmt: skip


SENTENCES = [
    "Mia has a cat.", "Mia has no cat.", "Mia has 2 cats.", "Her sister studies law.",
    "Mia moved to Porto in 2021.", "Mia moved to Rome in 2021.", "Jo lent Bela a tent.",
    "Bela lent Jo a tent.", "Mia may move.", "ミアは猫を飼っている。", "ミアは犬を飼っている。",
]  # fmt: skip
texts = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=4, unique=True).map(" ".join)


def beyond(a: str, b: str) -> set[str]:
    """What `a` states and `b` does not, whatever the order and however often it is told."""
    return set(parse(a).stated) - set(parse(b).stated) - {NOT}


@given(texts, texts)
def test_what_is_joined_states_what_both_state_and_nothing_else(newer: str, older: str) -> None:
    joined = combine(newer, older)
    if joined is not None:
        assert beyond(newer, joined) == beyond(older, joined) == set()
        assert beyond(joined, f"{newer} {older}") == set()
        assert parse(joined).negations >= max(parse(newer).negations, parse(older).negations)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Jo lent Bela a tent.", "Bela lent Jo a tent."),
        ("Mia moved to Porto in 2021.", "Mia moved to Rome in 2021."),
        ("Mia has a cat.", "Mia has no cat."),
        ("Mia eats at 5 pm.", "Mia eats at 6 pm."),
        ("Lena hat Schuhgröße 39.", "Lenas Schuhgröße ist 39."),
    ],
)
def test_what_it_cannot_tell_stays_and_is_not_called_a_conflict(
    make_memory: MakeMemory, a: str, b: str
) -> None:
    verdict = asyncio.run(
        OfflineModel().judge(Question((make_memory(a), make_memory(b)), "test", 0.97))
    )
    assert (verdict.parts, verdict.reason) == ((), "the offline judge cannot tell")


def test_different_pets_are_not_called_a_conflict(make_memory: MakeMemory) -> None:
    members = (make_memory("Noor has a cat."), make_memory("Noor owns two dogs."))
    verdict = asyncio.run(OfflineModel().judge(Question(members, "test", 0.92, 0.8)))
    assert (verdict.parts, verdict.reason) == ((), "the offline judge cannot tell")


@pytest.mark.parametrize("cosine", [0.8, 0.95])
def test_a_text_that_only_adds_to_another_stands_for_both(
    make_memory: MakeMemory, cosine: float
) -> None:
    members = (make_memory("Mia has a tabby cat."), make_memory("Mia has a cat."))
    [part] = asyncio.run(OfflineModel().judge(Question(members, "test", 0.92, cosine))).parts
    assert (part.members, part.text) == ((0, 1), "Mia has a tabby cat.")


@given(st.lists(texts, min_size=2, max_size=4, unique=True))
def test_whatever_it_merges_is_believed(told: list[str]) -> None:
    members = tuple(
        Memory(content=text, timestamp=START + timedelta(days=n)) for n, text in enumerate(told)
    )
    verdict = asyncio.run(OfflineModel().judge(Question(members, "test", 0.95)))
    for part in verdict.parts:
        told = [members[n].content for n in part.members]
        assert verify_by_words(part.text, told).belief is Belief.BELIEVED


SIGNS = [
    ("Mia's HbA1c should be <7.", "Mia's HbA1c should be >7."),
    ("Mia's blood pressure is ≤130.", "Mia's blood pressure is ≥130."),
    ("Mia's blood type is A+.", "Mia's blood type is A-."),
]


@pytest.mark.parametrize(("older", "newer"), SIGNS)
def test_no_value_that_differs_in_a_sign_vanishes(
    make_memory: MakeMemory, older: str, newer: str
) -> None:
    members = (make_memory(older), make_memory(newer))
    verdict = asyncio.run(OfflineModel().judge(Question(members, "test", 0.95)))
    assert all(older in part.text and newer in part.text for part in verdict.parts)

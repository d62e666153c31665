"""The offline model: merges only what loses nothing, and says so where it cannot tell."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.coverage import Belief, verify_by_words
from memory.models import Memory, Question, Turn
from memory.providers.offline import OfflineModel
from memory.text import sentences
from tests.conftest import MakeMemory
from tests.doubles import START


def test_a_group_is_parted_where_values_conflict(make_memory: MakeMemory) -> None:
    members = (
        make_memory("Mia has 2 cats."),
        make_memory("Mia has 3 cats."),
        make_memory("Mia really has 2 cats."),
    )
    verdict = asyncio.run(OfflineModel().judge(Question(members, "test", 0.95)))
    assert [part.members for part in verdict.parts] == [(0, 2)]
    assert verdict.usage.calls == 0


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Mia has a dog.", "Mia has a dog in The Sims."),
        ("Mia left Tom.", "Mia left Tom a house."),
        ("Mia is 34.", "Mia is 34 weeks pregnant."),
        ("Mia has a cat. She moved to Porto.", "Mia has a cat. Her sister studies law."),
    ],
)
def test_a_text_that_adds_words_retires_no_other(
    make_memory: MakeMemory, older: str, newer: str
) -> None:
    for texts in ((older, newer), (newer, older)):
        members = tuple(map(make_memory, texts))
        verdict = asyncio.run(OfflineModel().judge(Question(members, "test", 0.94, 0.94)))
        assert (verdict.parts, verdict.reason) == ((), "the offline judge cannot tell")


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

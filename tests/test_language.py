"""The offline model: merges only what loses nothing, and says so when values conflict."""

from __future__ import annotations

import asyncio

import pytest

from memory.language import OfflineModel, combine
from memory.models import Question
from memory.statements import sentences
from memory.verification import unbelievable
from tests.conftest import Tell


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
        ("Mia has a cat.", "Mia has a dog.", None),
        ("Mia eats meat.", "Mia does not eat meat.", None),
        ("Mia moved to Porto in 2021.", "Mia moved to Porto in 2022.", None),
    ],
)
def test_two_texts_become_one_only_where_nothing_conflicts(
    newer: str, older: str, joined: str | None
) -> None:
    assert combine(newer, older) == joined


def test_a_group_is_parted_where_values_conflict(tell: Tell) -> None:
    members = (tell("Mia has 2 cats."), tell("Mia has 3 cats."), tell("Mia really has 2 cats."))
    verdict = asyncio.run(OfflineModel().judge(Question(members, "test", 0.95)))
    assert [part.members for part in verdict.parts] == [(0, 2)]
    assert verdict.usage.calls == 0


def test_its_merges_are_believed(tell: Tell) -> None:
    members = (
        tell("Mia has a cat. Her sister studies law."),
        tell("Mia has a cat. She moved to Porto."),
    )
    [part] = asyncio.run(OfflineModel().judge(Question(members, "test", 0.95))).parts
    assert unbelievable(part.text, members) == ""


def test_sentences_end_in_any_script() -> None:
    assert sentences("It is at 10.0.7.1 now.") == ["It is at 10.0.7.1 now."]
    assert sentences("Mia left. Why? 猫がいる。犬もいる。") == [
        "Mia left.", "Why?", "猫がいる。", "犬もいる。",
    ]  # fmt: skip

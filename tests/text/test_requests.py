"""What somebody asks to be remembered is found, and told of them by name."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memory.text import asked_to_remember, retold

AT = datetime(2026, 5, 8, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "statement"),
    [
        ("Remember that I am allergic to walnuts.", "Mia is allergic to walnuts."),
        ("Please remember: my bike is blue!", "Mia's bike is blue."),
        ("don't forget that I have a dentist appointment tomorrow",
         "Mia has a dentist appointment on 9 May 2026."),
        ("私は納豆が嫌いだと覚えておいてください。", "Miaは納豆が嫌いだ。"),
        ("明日は京都に行くことを覚えておいて", "Miaは2026年5月9日は京都に行く。"),
    ],
)  # fmt: skip
def test_what_is_asked_to_be_remembered_is_found(said: str, statement: str) -> None:
    [asked] = asked_to_remember(said)
    assert retold(asked, "Mia", AT) == statement


@pytest.mark.parametrize(
    "said",
    [
        "I remember that day.",
        "Do you remember that I sail?",
        "hello",
        "Remember that time we went to Paris?",
        "Remember that day in May.",
    ],
)
def test_other_talk_of_remembering_asks_for_nothing(said: str) -> None:
    assert asked_to_remember(said) == []

"""Facts told in a chat: none vanishes because the rules cannot rewrite it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memory.text import asked_to_remember, statements

AT = datetime(2026, 11, 24, 12, tzinfo=UTC)


def told(text: str) -> list[str]:
    return [one.text for one in statements(text, "Mia", AT, listeners=["Tom"])]


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("<@99> my dog is called Rex", "Mia's dog is called Rex."),
        ("@tom I play the cello", "Mia plays the cello."),
        ("fyi my birthday is on 3 May", "Mia's birthday is on 3 May."),
        ("just so you know i can't eat gluten", "Mia can't eat gluten."),
        ("Im allergic to penicillin", "Mia is allergic to penicillin."),
        ("I no longer smoke", "Mia no longer smokes."),
        ("my doctor is Dr. Okafor, tel 555 010", "Mia's doctor is Dr. Okafor, tel 555 010."),
        ("my handle is @Nora_B", "Mia's handle is @Nora_B."),
        ("my wifi password is Fjord 7!", "Mia's wifi password is Fjord 7!"),
    ],
)
def test_what_stands_before_a_fact_does_not_hide_it(text: str, stated: str) -> None:
    assert told(text) == [stated]


@pytest.mark.parametrize(
    "text",
    [
        "im 34 btw",
        "actually it's 10mg of lisinopril now",
        "correction: the meeting is on Thursday",
        "me and Tom broke up",
        "scratch that, the concert is on the 9th",
        "the shed opens with 0417",
        "guest wifi is Gull_House",
        "bin seit gestern 30",
        "Ich wohne seit 2019 in Hamburg.",
        "Ich habe am 5. Mai Geburtstag.",
        "Meine Schwester heißt Eva.",
        "J'habite à Lyon.",
    ],
)
def test_what_cannot_be_rewritten_is_kept_as_it_was_said(text: str) -> None:
    assert told(text) == [text]


@pytest.mark.parametrize(
    "text",
    [
        "I'm so excited!",
        "Thanks, I love it!",
        "I agree, Tom.",
        "I 100% agree!",
        "You got 3 of 5?",
        "Me too.",
        "Wie geht es dir?",
    ],
)
def test_chat_is_not_kept(text: str) -> None:
    assert told(text) == []


def test_a_german_question_may_ask_to_remember() -> None:
    asked = asked_to_remember("Kannst du dir merken, dass mein Spind die Nummer 48 hat?")
    assert asked == ["mein Spind die Nummer 48 hat"]


def test_a_polite_question_may_ask_to_remember() -> None:
    text = "Can you remember that my sister's name is Eva?"
    assert asked_to_remember(text) == ["my sister's name is Eva"]
    assert asked_to_remember("Do you remember that day?") == []

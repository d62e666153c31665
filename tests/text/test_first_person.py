"""Who "I" and "my" are in a question."""

from __future__ import annotations

import pytest

from memory.text.first_person import wordings


@pytest.mark.parametrize(
    "question",
    [
        "Where do I live?",
        "what's my job?",
        "I'm allergic to what?",
        "Wie heißt meine Tochter?",
        "Où est-ce que j'habite ?",
        "Où ai-je grandi ?",
        "Comment s'appelle mon dentiste ?",
        "¿Cómo se llama mi perro?",
        "¿Dónde vivo?",
        "私はどこに住んでいますか？",
        "僕の車は何色？",
    ],
)
def test_the_user_is_named_where_they_speak_of_themselves(question: str) -> None:
    assert wordings(question, "Mia") == (question, f"Mia {question}")


@pytest.mark.parametrize("question", ["Where does Jonas live?", "犬の名前は？", "Image of Miami?"])
def test_other_questions_stay_as_they_are(question: str) -> None:
    assert wordings(question, "Mia") == (question,)


def test_without_a_user_nobody_is_named() -> None:
    assert wordings("Where do I live?", None) == ("Where do I live?",)

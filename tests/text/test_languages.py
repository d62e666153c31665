"""Which language a text is in, and that a language is added by entering its words alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from memory.coverage import parse
from memory.text import ENGLISH, GRAMMARS, NOT, OTHER, Grammar, language_of


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Mia has a cat.", ENGLISH),
        ("Mia wohnt in Rom und ist Lehrerin.", "German"),
        ("Mia lives in Rome, und so weiter, with the cat.", ENGLISH),
        ("Mia habla con Leo.", OTHER),
        ("Mia schläft.", OTHER),
        ("Mia likes ラーメン for lunch.", OTHER),
    ],
)
def test_a_language_is_recognised_by_its_function_words(text: str, language: str) -> None:
    assert language_of(text) == language


def test_a_language_is_added_by_entering_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    dutch = SimpleNamespace(
        FUNCTION_WORDS=frozenset({"het", "een", "niet"}),
        NEGATIONS=frozenset({"niet", "nergens"}),
        GOVERNING={"het": "", "een": "", "is": "", "of": "", "met": "with"},
        TURNING=frozenset({"bijna"}),
        REACHING=frozenset({"elke"}),
        DECIMAL_COMMA=True,
        CAPITAL_NOUNS=False,
    )
    monkeypatch.setitem(cast(dict[str, Grammar], GRAMMARS), "Dutch", cast(Grammar, dutch))
    assert language_of("Anna is een arts of niet.") == "Dutch"
    assert language_of("Anna is a doctor, and een is a word.") == OTHER
    parsed = parse("Anna fietst nergens een uur met 1,5 Leo.")
    assert (parsed.language, parsed.negations) == ("Dutch", 1)
    assert [(word.key, word.role) for word in parsed.words] == [
        ("anna", ""), ("fietst", ""), (NOT, ""), ("uur", ""), ("1.5", "with"), ("leo", ""),
    ]  # fmt: skip

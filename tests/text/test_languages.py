"""Which language a text is in, and that a language is added by entering its words alone."""

from __future__ import annotations

import subprocess
import sys
from typing import cast

import pytest

from memory.coverage import parse
from memory.text import ENGLISH, GRAMMARS, language_of
from memory.text.languages import OTHER, Grammar


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
    dutch = Grammar(frozenset({"het", "een", "niet"}), decimal_comma=True)
    monkeypatch.setitem(cast(dict[str, Grammar], GRAMMARS), "Dutch", dutch)
    assert language_of("Anna fietst niet.") == "Dutch"
    assert language_of("Anna is a doctor, and een is a word.") == OTHER
    parsed = parse("Anna fietst niet een uur met 1,5 Leo.")
    assert (parsed.language, parsed.negations) == ("Dutch", 1)
    assert "1.5" in parsed.stated


def test_one_entry_brings_the_numbers_months_and_small_words_of_a_language() -> None:
    code = """
from memory.text.languages import GRAMMARS, Grammar
GRAMMARS.clear()
GRAMMARS["Dutch"] = Grammar(
    frozenset({"het", "een"}), numbers={"vijf": 5}, months={"maart": "march"},
    weekdays={"zaterdag": "saturday"}, turning=frozenset({"misschien"}), o_clock=frozenset({"uur"}),
)
from memory.coverage import parse
text = "Anna heeft misschien vijf katten op zaterdag 3 maart om 14 uur."
print([word.key for word in parse(text).words])
"""
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    for word in ("'misschien'", "'5'", "'saturday'", "'march'", "'day 3'"):
        assert word in run.stdout
    assert "'at 14:00'" in run.stdout

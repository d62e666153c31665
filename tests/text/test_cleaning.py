"""What is quoted of a text, what is normalised, and what counts as Japanese or Chinese."""

from __future__ import annotations

import unicodedata
from itertools import groupby
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memory
from memory.text import has_cjk, identity, normalise, tokens
from memory.text.cleaning import nfkc, shortened, stream_safe

MARKS = ["\u0301\u0316", "\uff9e\u0301", "\u0f75\u0316", "\u3099", "\u0344\u0316"]
"""Marks in an order that normalisation changes, some hidden in characters that it splits."""


def longest_run(text: str) -> int:
    """How many combining marks stand in a row, at most, when the text is decomposed."""
    plain = "".join(unicodedata.normalize("NFKD", char) for char in text)
    runs = groupby(plain, key=lambda char: unicodedata.combining(char) > 0)
    return max((len(list(run)) for is_marks, run in runs if is_marks), default=0)


@pytest.mark.parametrize("marks", MARKS)
def test_no_normalisation_sorts_a_long_run_of_marks(
    marks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    class Watched:
        combining, decomposition = unicodedata.combining, unicodedata.decomposition

        @staticmethod
        def normalize(form: Literal["NFKC", "NFKD"], text: str) -> str:
            seen.append(longest_run(text))
            return unicodedata.normalize(form, text)

        @staticmethod
        def is_normalized(form: Literal["NFKC"], text: str) -> bool:
            seen.append(longest_run(text))
            return unicodedata.is_normalized(form, text)

    monkeypatch.setattr("memory.text.cleaning.unicodedata", Watched)
    for read in (normalise, identity, tokens, nfkc):
        read("I like a" + marks * 500)
    assert max(seen) in range(2, 65), "thirty characters, of two marks each at most, and their base"


def test_only_one_file_normalises() -> None:
    package = Path(memory.__file__).parent
    found = [path.name for path in package.rglob("*.py") if "unicodedata" in path.read_text()]
    assert found == ["cleaning.py"]


@given(st.text(st.sampled_from("ae\u0301\u0316\uff9e\u0f75か"), max_size=200))
def test_a_stream_safe_text_only_has_stops_added(text: str) -> None:
    safe = stream_safe(text)
    assert safe.replace("\u034f", "") == text
    assert longest_run(safe) <= 64
    assert stream_safe(safe) == safe
    if longest_run(text) <= 30:
        assert safe == text


def test_a_quote_is_one_line_and_cut() -> None:
    assert shortened("a\nb  c", 120) == "a b c"
    assert shortened("x" * 120, 120) == "x" * 120
    assert shortened("x" * 121, 120) == "x" * 120 + "..."
    assert shortened("a b c", 2) == "a..."


@pytest.mark.parametrize(
    "text",
    ["ミアは猫が好きだ", "Mia lives in 東京", "ﾐｱ", "我爱猫", "時々", "𠮷野家", "Mia ラーメン"],
)
def test_kana_and_han_are_found(text: str) -> None:
    assert has_cjk(text)


@pytest.mark.parametrize("text", ["Mia", "Zoë’s café", "Миа", "미아는 고양이", "“Mia”… 🐈", ""])
def test_other_scripts_signs_and_emoji_are_not_kana_or_han(text: str) -> None:
    assert not has_cjk(text)

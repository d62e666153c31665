"""Texts of any shape: nothing raises, and the work grows as their length does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from benchmarks.shapes import MORE, SHAPES, alone, forget, partners, text_of, together
from memory.text import compare
from memory.text.coverage import LONGEST

ONCE_SLOW = (
    "passive", "names of", "of numbers", "gave", "superscripts", "upper case", "sentences",
    "conditions", "spanish", "spanish clauses", "french", "russian", "chinese", "korean",
    "numbered list", "base64", "negations",
)  # fmt: skip


@pytest.mark.parametrize("shape", [*SHAPES, *MORE])
def test_no_shape_of_text_is_too_much(shape: str) -> None:
    text = text_of(shape, 90)
    for _, call in alone(text):
        call()
    for _, other in partners(text):
        for _, call in together(text, other):
            call()


def steps(call: Callable[[], object]) -> int:
    """How many lines of Python a call runs."""
    count = 0

    def line(_frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return line

    forget()
    before = sys.gettrace()
    sys.settrace(line)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("shape", ONCE_SLOW)
def test_four_times_the_text_is_at_most_six_times_the_work(shape: str) -> None:
    for place, _ in enumerate(partners(text_of(shape, 100))):
        work = []
        for characters in (900, 3_600):
            text = text_of(shape, characters)
            other = [other for _, other in partners(text)][place]
            work.append(steps(lambda a=text, b=other: compare(a, b)))  # type: ignore[misc]
        assert work[1] <= 6 * work[0]


def test_a_document_covers_only_the_same_text() -> None:
    document = "Mia has a cat. " * (LONGEST // 15 + 1)
    assert compare(document, f"{document}!").a_covers_b
    found = compare(f"{document}Tabby.", document)
    assert not found.a_covers_b
    assert not found.b_covers_a
    assert "tabby" in found.only_a
    assert "characters" in found.conflict[0]
    short = "Mia has a cat."
    assert not compare(document, short).a_covers_b

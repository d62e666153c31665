"""Texts of any shape: nothing raises, and the work grows as their length does."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from types import FrameType
from typing import Any

import pytest

from benchmarks.shapes import MORE, SHAPES, alone, forget, partners, text_of, together
from memory.coverage import LONGEST, Belief, compare, differs, parse, verify, verify_by_words
from memory.text import identity, normalise, retelling, retold, statements, tokens

ONCE_SLOW = (
    "passive", "names of", "of numbers", "gave", "superscripts", "upper case", "sentences",
    "conditions", "spanish", "spanish clauses", "french", "russian", "chinese", "korean",
    "numbered list", "base64", "negations", "relative days",
)  # fmt: skip


def a_quarter(shapes: Iterable[str]) -> list[Any]:
    """Return all shapes as parameters; all but a quarter are for the drills."""
    return [
        pytest.param(shape, marks=[] if n % 4 == 0 else pytest.mark.drill)
        for n, shape in enumerate(shapes)
    ]


@pytest.mark.parametrize("shape", a_quarter([*SHAPES, *MORE]))
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


@pytest.mark.parametrize("shape", a_quarter(ONCE_SLOW))
def test_four_times_the_text_is_at_most_six_times_the_work(shape: str) -> None:
    for place, _ in enumerate(partners(text_of(shape, 100))):
        work = []
        for characters in (900, 3_600):
            text = text_of(shape, characters)
            other = [other for _, other in partners(text)][place]
            work.append(steps(lambda a=text, b=other: compare(a, b)))  # type: ignore[misc]
        assert work[1] <= 6 * work[0]


@pytest.mark.parametrize("expanding", a_quarter(["\ufdfa", "\ufdfb ", "㎯", "㌕"]))
def test_a_long_text_is_not_expanded_to_a_multiple(expanding: str) -> None:
    document = expanding * (100_000 // len(expanding))
    assert len(normalise(document)) <= 150_000
    assert len(identity(document)) <= 150_000
    assert sum(len(token.surface) for token in tokens(document)) <= 800_000  # read in pieces


def test_a_character_that_stands_for_several_words_is_the_same_text_as_these() -> None:
    assert identity("\ufdfa") == identity("صلى الله عليه وسلم")
    assert parse("\ufdfa").stated == parse("صلى الله عليه وسلم").stated


def test_a_document_covers_only_the_same_text() -> None:
    document = "Mia has a cat. " * (LONGEST // 15 + 1)
    assert compare(document, f"{document}!").a_covers_b
    found = compare(f"{document}Purring.", document)
    assert not found.a_covers_b
    assert not found.b_covers_a
    assert "purring" in found.only_a
    assert "characters" in found.only_b[-1]
    short = "Mia has a cat."
    assert not compare(document, short).a_covers_b


@pytest.mark.parametrize(
    "shape", a_quarter(["many facts", "upper case", "fractions", "names", "clauses"])
)
def test_four_times_the_document_is_at_most_six_times_the_work(shape: str) -> None:
    work = []
    for characters in (6_000, 24_000):
        text = text_of(shape, characters)
        calls = together(text, dict(partners(text))["turned around"])
        work.append([(what, steps(call)) for what, call in calls])
    for (what, short), (_, long) in zip(*work, strict=True):
        assert long <= 6 * short, what


class Counted:
    """A pattern that counts the characters it is given."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self.characters = 0

    def search(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        self.characters += min(end, len(text)) - start
        return self._pattern.search(text, start, end)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        self.characters += len(text)
        return self._pattern.finditer(text)


AT = datetime(2026, 5, 8, tzinfo=UTC)


@pytest.mark.parametrize("said", ["I really love my cat, ", "we met our friends, "])
def test_what_is_told_of_a_speaker_is_read_once(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    others = Counted(retelling.OTHERS)
    monkeypatch.setattr(retelling, "OTHERS", others)
    retold(said * 400, "Mia", AT)
    assert others.characters <= 2 * len(said) * 400


def test_a_turn_is_searched_for_company_once(monkeypatch: pytest.MonkeyPatch) -> None:
    named = Counted(retelling.COMPANY)
    monkeypatch.setattr(retelling, "COMPANY", named)
    turn = text_of("many facts", 20_000)
    assert len(statements(turn, "Mia", AT)) > 100
    assert 0 < named.characters <= 2 * len(turn)


def test_what_differs_in_documents_is_shown_from_where_they_part() -> None:
    document = " ".join(f"Mia has {n} cats." for n in range(1_000))
    assert differs(document, document.replace(" 900 cats", " 9 cats")) == '"900" / "9"'
    backwards = " ".join(f"Leo has {n} dogs." for n in range(1_000, 2_000))
    assert len(differs(document, backwards)) < 4 * LONGEST


def test_a_merge_of_documents_is_held_against_their_numerals_and_names() -> None:
    document = " ".join(f"the cat of room {n} sleeps." for n in range(300))
    newer = f"{document} And Leo has seen it."
    assert verify(document, [document, document]).belief is Belief.BELIEVED
    assert verify(newer, [document, newer]).belief is Belief.DOUBTFUL
    invented = verify(f"{newer} 4711 times.", [document, newer])
    assert "states what no memory states: 4711" in invented.reason
    assert "drops what the newest memory states: Leo" in verify(document, [document, newer]).reason
    other = verify("今日は雨です。" * 700, [document, newer])
    assert "no word of one of its sources" in other.reason


def test_without_a_reader_a_document_must_hold_each_sentence_as_it_is_and_no_other() -> None:
    long = "cat " * LONGEST
    one, two = f"Mia has {long}.", "Mia likes tea."
    assert verify_by_words(f"{one} {two}", [one, two]).belief is Belief.BELIEVED
    lost = verify_by_words(f"{one} Mia likes black tea.", [one, two])
    assert lost.belief is Belief.REFUSED
    added = verify_by_words(f"{one} {two} Leo likes tea.", [one, two])
    assert added.belief is Belief.REFUSED
    quiet = verify_by_words(f"{one} {two} and the tea is green.", [one, two])
    assert "states what no memory states: and the tea is green." in quiet.reason


def test_a_reason_names_the_first_of_many_faults() -> None:
    words = " ".join(map(str, range(10, 800)))
    reason = verify(f"Mia has {words} cats.", [f"Mia has cats{'.' * 9_000}"]).reason
    assert "and 750 more" in reason

"""The shape of a language's table of time words, and how a text becomes a row of their sorts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

SORTS = {
    # units and the names of times
    "day": "D",  # value: days from the day of saying
    "day and part": "T",  # (days, part)
    "part": "P",
    "parts": "p",  # "mornings": a habit
    "weekday": "K",  # 0 is Monday
    "weekdays": "k",  # "on Fridays": a habit
    "unit": "U",
    "month": "M",
    "season": "S",  # 0 is spring
    "holiday": "H",
    # which one
    "which": "W",  # "last", "this", "next", "coming" or "past"
    "which unit": "Z",  # (unit, offset): the week after next is ("week", 2)
    "window": "w",  # "the past" (three weeks)
    "event": "E",  # "that" (week), "the following" (day): counted from another event
    "event time": "e",  # the same in one expression: "the next day"
    "later": "x",  # "later", "after", "before": counted from another event
    "every": "Q",
    # numbers
    "number": "N",
    "year": "Y",
    "day number": "n",  # Japanese: the 5th
    "full date": "X",
    "vague number": "V",
    "half": "h",
    # small words
    "ago": "A",
    "ago before": "a",  # stands before the number: "vor", "il y a"
    "in": "I",  # before a number: from now; else a preposition
    "from now": "J",
    "for": "F",
    "since": "C",
    "since after": "c",  # stands after the time: から
    "lead": "L",  # a preposition or article that belongs to the expression
    "bound": "b",  # one that does not: "until"
    "of": "o",
    "that": "q",  # "hace dos años QUE": makes a duration of a counted time
    "be": "B",  # before an age
    "have": "j",  # before an age in years: "a 27 ans"
    "old": "O",
    "aged": "g",
    "and": "&",
    "recently": "R",
    "soon": "G",
    "other": ".",
    "comma": ",",
    "stop": ";",
}
"""The sorts of words, each with the letter that stands for it in `WordRow.line`."""


@dataclass(frozen=True)
class Verbs:
    """How a language shows that a sentence is about the past, or about the future."""

    words: frozenset[str] = frozenset()
    like: str = "$."
    """A pattern for words that show it by their form: "-ed"."""
    helpers: frozenset[str] = frozenset()
    """Words such as "has" and "is" that show it together with a participle after them."""
    participles: frozenset[str] = frozenset()
    participles_like: str = "$."
    between: frozenset[str] = frozenset()
    """Adverbs that may stand between the two."""
    reach: int = 1
    """How many words after the helper the participle may stand, not counting `between`."""

    def found(self, words: list[str]) -> bool:
        """Return whether the words of a sentence, in lower case, show it."""
        if not self.words.isdisjoint(words) or self._like(" ".join(words)):
            return True
        if self.helpers.isdisjoint(words):
            return False
        return any(
            follower in self.participles or self._participles_like(follower)
            for position, word in enumerate(words)
            if word in self.helpers
            for follower in self._after(words, position)
        )

    def _after(self, words: list[str], position: int) -> list[str]:
        following = [word for word in words[position + 1 :] if word not in self.between]
        return following[: self.reach]

    @cached_property
    def _like(self) -> Callable[[str], object]:
        return re.compile(rf"\b(?:{self.like})\b").search

    @cached_property
    def _participles_like(self) -> Callable[[str], object]:
        return re.compile(self.participles_like).fullmatch


@dataclass(frozen=True)
class TimeWords:
    """The time words of one language, in lower case.

    `table`: for each sort of `SORTS`, what its words mean, and the words, with "|" between them.
    """

    table: Mapping[str, Mapping[Any, str]]
    common: frozenset[str]
    """Frequent small words by which the language is recognised."""
    past: Verbs = Verbs()
    future: Verbs = Verbs()
    perfect: Verbs = Verbs()
    """With it, "for 3 years" says when a state began; empty if it always does."""
    ended: frozenset[str] = frozenset()
    """Words with which "for 3 years" is a length all the same: "was"."""
    present: frozenset[str] = frozenset()
    """Words that make the tense of a sentence doubtful: "wants", "planned"."""
    copulas: frozenset[str] = frozenset()
    """Forms of "is", with which a date without a year is the next one."""
    scheduled: frozenset[str] = frozenset()
    """Verbs whose present may mean the future: "turns 100 in a week"; empty if all can."""
    reports: frozenset[str] = frozenset()
    """Verbs such as "said"; what they report may be dated from another day."""
    reports_follow: bool = False
    """Whether such a verb stands after what it reports."""
    recurring: frozenset[str] = frozenset()
    """Words such as "birthday", whose date comes again each year."""
    before_name: frozenset[str] = frozenset()
    """Words after which a weekday is a name: "called", "Frau"."""
    off: frozenset[str] = frozenset()
    """Words that may follow a weekday without a preposition: (Friday) off."""
    bare: str = ""
    """The sorts of words that need no preposition: K in "Dimanche, il a gagné"."""
    capitals: str = ""
    """The sorts of words that have a capital anyway, so that it shows no name or title."""
    people: frozenset[str] = frozenset()
    """Words of which "is 36" says an age: "he", "sister"."""
    sunday_first: bool = False
    """Whether many speakers begin the week on Sunday."""

    @cached_property
    def words(self) -> dict[str, tuple[str, Any]]:
        return {word: entry for word, entry in self._entries if " " not in word}

    @cached_property
    def phrases(self) -> dict[tuple[str, str], list[tuple[list[str], str, Any]]]:
        """Return for each first two words the phrases, longest first."""
        phrases: dict[tuple[str, str], list[tuple[list[str], str, Any]]] = {}
        longest_first = sorted(self._entries, key=lambda entry: -entry[0].count(" "))
        for phrase, (sort, value) in longest_first:
            if " " in phrase:
                parts = phrase.split()
                phrases.setdefault((parts[0], parts[1]), []).append((parts, sort, value))
        return phrases

    @cached_property
    def _entries(self) -> list[tuple[str, tuple[str, Any]]]:
        return [
            (word, (SORTS[sort], value))
            for sort, meanings in self.table.items()
            for value, words in meanings.items()
            for word in words.split("|")
        ]

    @cached_property
    def triggers(self) -> frozenset[str]:
        """The words of time expressions, by which the language is recognised."""
        return frozenset(part for word in self._starting for part in word.split() if len(part) > 2)

    @cached_property
    def needed(self) -> frozenset[str]:
        """Words of which each text with a time expression has one, if it has no number."""
        longest = (max(word.split(), key=len) for word in self._starting)
        return frozenset(word for word in longest if len(word) > 2)

    @cached_property
    def _starting(self) -> list[str]:
        return [word for word, (sort, _) in self._entries if sort in _TRIGGERS]


_TRIGGERS = "DTKUMSHZERGe"
_TOKEN = re.compile(
    r"\d+(?:[.,:/-]\d+)+|\d{1,2}\.(?=\s?(?:januar|februar|märz|april|mai|juni|juli|august"
    r"|september|oktober|november|dezember)\b)|[^\W_]+|[.!?;:\n…]+|[,()\"“”„«»—–\[\]]"
)
_ORDINAL = re.compile(r"(\d{1,2})(?:st|nd|rd|th|er|\.)?").fullmatch
_FULL = re.compile(r"(\d{4})-(\d\d?)-(\d\d?)|(\d\d?)\.(\d\d?)\.(\d{4})").fullmatch


class WordRow:
    """A text as a row of words."""

    def __init__(
        self, text: str, table: TimeWords, lowers: list[str], entries: list[tuple[str, Any]],
        spans: Callable[[], list[tuple[int, int]]],
    ) -> None:  # fmt: skip
        self.text, self.table, self.lowers, self._entries = text, table, lowers, entries
        self.line = "".join([sort for sort, _ in entries])
        """The sorts of the words."""
        self.spans: list[tuple[int, int]] = []
        """Where each word begins and ends in the text, once `place` was called."""
        self._find_spans = spans

    @cached_property
    def is_upper(self) -> bool:
        return self.text.isupper()

    def value(self, position: int) -> Any:
        return self._entries[position][1]

    def place(self) -> None:
        """Find `spans`; only few texts need them."""
        self.spans = self._find_spans()

    def surface(self, position: int) -> str:
        start, end = self.spans[position]
        return self.text[start:end]


def latin_row(text: str, lowered: str, table: TimeWords) -> WordRow:
    """Read a text in Latin letters; a phrase of the table is one word. `lowered`: in lower case."""
    if len(lowered) != len(text):  # the lower case of "İ" is two characters
        lowered = "".join(char.lower()[0] for char in text)
    pieces = lowers = _TOKEN.findall(lowered)
    listed = table.words
    entries = [
        listed.get(lower) or (_OTHER if lower.isalpha() else _unlisted(lower)) for lower in lowers
    ]
    sizes = [1] * len(lowers)
    phrases = table.phrases
    if any(map(phrases.__contains__, pairwise(lowers))):
        lowers = pieces.copy()
        _join(lowers, entries, sizes, phrases)
    return WordRow(text, table, lowers, entries, lambda: _spans(lowered, pieces, sizes))


def _join(
    lowers: list[str], entries: list[tuple[str, Any]], sizes: list[int],
    phrases: Mapping[tuple[str, str], list[tuple[list[str], str, Any]]],
) -> None:  # fmt: skip
    """Replace the words of each phrase by one, in place."""
    position = 0
    while position + 1 < len(lowers):
        for phrase, sort, value in phrases.get((lowers[position], lowers[position + 1]), ()):
            end = position + len(phrase)
            if lowers[position:end] == phrase:
                lowers[position:end] = [" ".join(phrase)]
                entries[position:end] = [(sort, value)]
                sizes[position:end] = [len(phrase)]
                break
        position += 1


def _spans(text: str, pieces: list[str], sizes: list[int]) -> list[tuple[int, int]]:
    places, end = list[tuple[int, int]](), 0
    for piece in pieces:  # what lies between two pieces begins none
        start = text.find(piece, end)
        end = start + len(piece)
        places.append((start, end))
    if len(sizes) == len(places):
        return places
    ends = list(accumulate(sizes))
    return [
        (places[end - size][0], places[end - 1][1]) for end, size in zip(ends, sizes, strict=True)
    ]


_OTHER: tuple[str, Any] = (".", None)
_SIGNS = dict.fromkeys(',()"“”„«»—–[]', (",", None)) | dict.fromkeys(".!?;:\n…", (";", None))


def _unlisted(lower: str) -> tuple[str, Any]:
    first = lower[0]
    if not first.isdigit():
        return _SIGNS.get(first, _OTHER)
    if lower.isdecimal() and len(lower) <= 4:
        number = int(lower)
        return ("Y" if 1900 <= number <= 2100 else "N"), number
    if ordinal := _ORDINAL(lower):
        return "N", int(ordinal[1])
    if date := _FULL(lower):
        year, month, day, *german = date.groups()
        return "X", tuple(map(int, (year, month, day) if year else reversed(german)))
    return _OTHER

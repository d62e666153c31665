"""The value `Period`, which says when; comparing two texts' periods; a form for one column."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import date, timedelta
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import NamedTuple

TEXT_KEY_LENGTH = 32
TABLES_VERSION = 2
"""Raise it when a rule or a table of `memory/text/times` changes: stored periods are then old."""


class Grain(IntEnum):
    """The width of a period, finest first.

    >>> from memory.text import periods
    >>> said, texts = datetime(2026, 1, 20), ("She left yesterday.", "She left last week.")
    >>> [periods(text, said)[0].grain.name for text in texts]
    ['DAY', 'WEEK']
    """

    HOUR = 0
    PART = 1
    DAY = 2
    WEEKEND = 3
    WEEK = 4
    MONTH = 5
    SEASON = 6
    YEAR = 7


class Role(StrEnum):
    """The part of a fact that happens within a period.

    >>> from memory.text import periods
    >>> said, texts = datetime(2026, 1, 20), ("She left in May.", "She has rowed for 3 years.")
    >>> [periods(text, said)[0].role.value for text in texts]
    ['at', 'start']
    """

    AT = "at"
    """The fact: "yesterday", "in June"."""
    START = "start"
    """The beginning of a state that lasts: "for 3 years", "since 2019"."""
    BIRTH = "birth"
    """A birth: "is 36"."""
    RECENT = "recent"
    """The fact, at a vague time near the day it was said: "recently"."""
    SOON = "soon"
    TEXT = "text"
    """The saying itself: the text has a relative word, in a language without tables."""


class Period(NamedTuple):
    """A time expression of a text, and the local dates that it means.

    `after` is the first day after the period. Both dates are None if the words alone count: the
    time of saying is unknown, or the words count from another event.

    >>> from memory.text import periods
    >>> [week] = periods("Mia was ill last week.", datetime(2026, 1, 20))
    >>> week.words, str(week.first), str(week.after)
    ('last week', '2026-01-12', '2026-01-19')
    """

    words: str
    """The expression in lower case, without a preposition: "next friday"."""
    start: int
    end: int
    """`text[start:end]` is the expression with its preposition: "on Friday"."""
    role: Role
    grain: Grain
    first: date | None
    after: date | None
    part: str = ""
    """The part of the day ("evening"), or the hour (07), for grains below a day."""
    certain: bool = True
    """False if the words have two readings; then the dates span both, and no date is shown."""
    approximate: bool = False
    """Whether the dates are a window as wide as the counted unit: "3 weeks ago", "is 36"."""
    relative: bool = True
    """Whether the dates follow from the time of saying: not so for "5 January 2026"."""

    def compatible(self, other: Period) -> bool:
        """Return whether both may mean the same time, so that either can replace the other."""
        if self.role is not other.role:
            return False
        if not (self.certain and other.certain) and self._worded() != other._worded():
            return False
        if self.first is None or other.first is None:
            return self.first is other.first
        if not (self.approximate or other.approximate):
            return self[4:8] == other[4:8]
        return (self.grain == other.grain or self.role is not Role.AT) and self._meets(other)

    def contains(self, other: Period) -> bool:
        """Return whether `other` lies within this period and says more: "5 January" in January."""
        if self.role is not other.role or not (self.certain and other.certain):
            return False
        if None in (self.first, self.after, other.first, other.after):
            return False
        inside = self.first <= other.first and other.after <= self.after  # type: ignore[operator]
        return inside and self.grain > other.grain and self.part in ("", other.part)

    def _worded(self) -> tuple[str, bool] | None:
        return None if self.role in _VAGUE else (self.words, self.certain)

    def _meets(self, other: Period) -> bool:
        """Return whether two windows overlap; a date must hold the middle of a window.

        So must the window of another count, but for ages: on the day after "four months", "five
        months" is still another time.
        """
        others_count = self.words != other.words and self.role is not Role.BIRTH
        a = self._window(middle=not other.approximate or others_count)
        b = other._window(middle=not self.approximate)
        return a[0] < b[1] and b[0] < a[1]

    def _window(self, *, middle: bool) -> tuple[date, date]:
        assert self.first is not None
        assert self.after is not None
        if not (self.approximate and middle):
            return self.first, self.after
        day = self.first + (self.after - self.first) // 2
        return day, day + timedelta(days=1)


_VAGUE = (Role.RECENT, Role.SOON)


def compatible(a: Sequence[Period], b: Sequence[Period]) -> bool:
    """Return whether two texts, alike but for their periods, may tell of the same time.

    The periods are compared in their order.

    >>> from datetime import datetime
    >>> from memory.text import periods
    >>> friday = periods("on 9 January 2026", None), periods("tomorrow", datetime(2026, 1, 8))
    >>> compatible(*friday)
    True
    """
    return len(a) == len(b) and all(x.compatible(y) for x, y in zip(a, b, strict=True))


# --- one column -----------------------------------------------------------------------------------


def to_json(periods: Sequence[Period]) -> str:
    """Write the periods, with the version of the tables, as compact JSON in ASCII.

    >>> to_json(())
    '[2]'
    """
    rows = [
        [
            *(*period[:3], period.role, int(period.grain), _iso(period.first)),
            *(_iso(period.after), period.part, *map(int, period[8:])),
        ]
        for period in periods
    ]
    return json.dumps([TABLES_VERSION, *rows], separators=(",", ":"))


@lru_cache(maxsize=256)
def dated_key(key: str, when: str) -> str:
    """Return the key of a text and of the dates that it means, under which verdicts are stored.

    `key`: the text's `text_key`, which `text_of` gives back. `when`: what `to_json` wrote, or "".
    A text that means no dates keeps its `text_key`.

    >>> dated_key("f" * 32, to_json(()))
    'ffffffffffffffffffffffffffffffff'
    """
    dates = [(row[3], *row[5:8]) for row in json.loads(when)[1:] if row[5]] if when else ()
    return key + hashlib.sha256(json.dumps(dates).encode()).hexdigest()[:16] if dates else key


def text_of(key: str) -> str:
    """Return the `text_key` in a `dated_key`.

    >>> from memory.text import text_key
    >>> text_of(store.new_memory("Mia left yesterday.").dated_key) == text_key("mia left yesterday")
    True
    """
    return key[:TEXT_KEY_LENGTH]


def _iso(day: date | None) -> str:
    return day.isoformat() if day else ""

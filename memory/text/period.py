"""When: the value `Period` with its form for one column, and the arithmetic of the calendar.

The calendar has days, weeks from Monday, months, seasons, holidays, and windows of counted units.
"""

from __future__ import annotations

import json
from calendar import monthrange
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from enum import IntEnum, StrEnum
from typing import NamedTuple

TABLES_VERSION = 2
"""Raise it when a rule or a word of the `time_` files changes: stored periods are then old."""


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

    @property
    def middle(self) -> date:
        """The day in the middle of the dates."""
        assert self.first is not None
        assert self.after is not None
        return self.first + (self.after - self.first) // 2

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
        if self.approximate and middle:
            return self.middle, self.middle + timedelta(days=1)
        return self.first, self.after  # type: ignore[return-value] # only dates are compared


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
            *(*period[:3], period.role, int(period.grain)),
            *(str(day or "") for day in (period.first, period.after)),
            *(period.part, *map(int, period[8:])),
        ]
        for period in periods
    ]
    return json.dumps([TABLES_VERSION, *rows], separators=(",", ":"))


# --- the calendar ---------------------------------------------------------------------------------

DAY = timedelta(days=1)


class Span(NamedTuple):
    """Local dates from `first` to the day before `after`; as in `Period`."""

    first: date
    after: date
    grain: Grain = Grain.DAY
    part: str = ""
    certain: bool = True
    approximate: bool = False


def day_at(day: date, part: str = "") -> Span:
    return Span(day, day + DAY, Grain.PART if part else Grain.DAY, part)


def month_of(year: int, month: int) -> Span:
    return Span(date(year, month, 1), _months_on(date(year, month, 1), 1), Grain.MONTH)


def year_of(year: int) -> Span:
    return Span(date(year, 1, 1), date(year + 1, 1, 1), Grain.YEAR)


def season_of(year: int, season: int) -> Span:
    """Return spring (0) to winter (3) of the northern half; a winter begins in its year."""
    first = date(year, 3 * season + 3, 1)
    return Span(first, _months_on(first, 3), Grain.SEASON)


def unit_at(day: date, unit: str, offset: int) -> Span:
    """Return the calendar unit `offset` units after that of `day`: the last week is -1."""
    if unit == "day":
        return day_at(day + offset * DAY)
    if unit == "month":
        month = _months_on(day.replace(day=1), offset)
        return month_of(month.year, month.month)
    if unit == "year":
        return year_of(day.year + offset)
    if unit == "fiscal year":  # of Japan; elsewhere it begins in other months
        year = day.year - (day.month < 4) + offset
        return Span(date(year, 4, 1), date(year + 1, 4, 1), Grain.YEAR, certain=False)
    monday = day + (7 * offset - day.weekday()) * DAY
    if unit == "weekend":
        return Span(monday + 5 * DAY, monday + 7 * DAY, Grain.WEEKEND)
    return Span(monday, monday + 7 * DAY, Grain.WEEK)


def _months_on(day: date, months: int) -> date:
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


# --- counted units --------------------------------------------------------------------------------

_MONTHS = {"month": 1, "half year": 6, "year": 12}
_DAYS = {"day": 1, "week": 7, "weekend": 7, "fortnight": 14}
_HALF_WIDTH = {"month": 15, "half year": 91, "year": 182, "week": 3, "weekend": 3, "fortnight": 7}
_GRAINS = {
    "month": Grain.MONTH, "half year": Grain.MONTH, "year": Grain.YEAR, "week": Grain.WEEK,
    "weekend": Grain.WEEKEND, "fortnight": Grain.WEEK,
}  # fmt: skip
_LEAST = {"hour": 60, "minute": 1}


def window_of(said: datetime, unit: str, number: int) -> Span:
    """Return the window `number` units after `said`, as wide as the unit; a day is exact."""
    if unit in _LEAST:
        moment = said + timedelta(minutes=number * _LEAST[unit])
        part = f"{moment:%H}" if unit == "hour" else f"{moment:%H:%M}"
        return Span(moment.date(), moment.date() + DAY, Grain.HOUR, part)
    day = said.date()
    if unit in _MONTHS:
        middle = _months_on(day, number * _MONTHS[unit])
    else:
        middle = day + number * _DAYS[unit] * DAY
    if unit == "day":
        return day_at(middle)
    half = _HALF_WIDTH[unit] * DAY
    return Span(middle - half, middle + half + DAY, _GRAINS[unit], approximate=True)


def birth(day: date, unit: str, age: int) -> Span:
    """Return the days on which somebody was born who is `age` years (or months, weeks) old."""
    if unit in _MONTHS:
        youngest = _months_on(day, -age * _MONTHS[unit])
        oldest = _months_on(day, -(age + 1) * _MONTHS[unit])
    else:
        youngest, oldest = (day - n * _DAYS[unit] * DAY for n in (age, age + 1))
    return Span(oldest + DAY, youngest + DAY, _GRAINS.get(unit, Grain.DAY), approximate=True)


# --- what comes again -----------------------------------------------------------------------------


def around(day: date, nth: Callable[[int], Span | None], *, reach: int = 1) -> list[Span]:
    """Return those of `nth(year)`, from `reach` years before `day` to as many after it."""
    spans = (nth(year) for year in range(day.year - reach, day.year + reach + 1))
    return [span for span in spans if span is not None]


def day_of_year(year: int, month: int, day: int) -> Span | None:
    """Return that day of a year; None for 29 February of most years."""
    fits = day <= monthrange(year, month)[1]
    return day_at(date(year, month, day)) if fits else None


_FIXED = {
    "christmas": (12, 24, 3), "christmas eve": (12, 24, 1), "christmas day": (12, 25, 1),
    "boxing day": (12, 26, 1), "new year's eve": (12, 31, 1), "new year": (1, 1, 3),
    "new year's day": (1, 1, 1), "halloween": (10, 31, 1), "valentine's day": (2, 14, 1),
}  # fmt: skip
_FROM_EASTER = {
    "good friday": (-2, 1), "easter": (-2, 4), "easter sunday": (0, 1), "easter monday": (1, 1),
    "pentecost": (49, 2),
}  # fmt: skip


def holiday_of(year: int, name: str) -> Span:
    if name in _FIXED:
        month, day, days = _FIXED[name]
        first = date(year, month, day)
    else:
        offset, days = _FROM_EASTER[name]
        first = _easter(year) + offset * DAY
    return Span(first, first + days * DAY, Grain.DAY if days == 1 else Grain.WEEKEND)


def _easter(year: int) -> date:
    """Return Easter Sunday (the anonymous Gregorian algorithm, Nature, 20 April 1876)."""
    a, (b, c) = year % 19, divmod(year, 100)
    (d, e), (i, k) = divmod(b, 4), divmod(c, 4)
    h = (19 * a + b - d - (b - (b + 8) // 25 + 1) // 3 + 15) % 30
    line = (32 + 2 * e + 2 * i - h - k) % 7
    month, day = divmod(h + line - 7 * ((a + 11 * h + 22 * line) // 451) + 114, 31)
    return date(year, month, day + 1)

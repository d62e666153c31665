"""Compare the times that a merged text states with those of the texts it was made from.

Each text has its own day, from which its relative words count: "yesterday" of an older text is
another day in the merged one, and a date in the merged text may follow from it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise

from memory.text import WEEKDAYS, Grain, Period, Role, day_of, identity, in_words, periods


@dataclass(frozen=True)
class _Told:
    """A period of the merged text, and the words of the text for it.

    `is_span`: whether the words name a week, a weekend or the days from one date to another.
    `is_about`: whether they name a date with "about" or the like.
    """

    period: Period
    words: str
    is_span: bool = False
    is_about: bool = False

    def means(self, other: Period, *, widely: bool = False) -> bool:
        """Return whether this follows from `other`, a period of a source.

        `widely`: whether it may also be coarser, such as the month of a day.
        """
        own = self.period
        if own.first is None or other.first is None or not other.certain:
            return False
        if own.role is other.role and other.approximate and (self.is_span or self.is_about):
            exact = self.is_span or own.grain <= other.grain
            day = other._replace(first=other.middle, after=other.middle + timedelta(1))
            return (widely or exact) and _holds(own, day)
        if self.is_span and own[5:7] == other[5:7]:
            return own.role is other.role and not other.part
        if not own.certain:  # a date without a year, which may be meant
            same = own.first == other.first or own.after == other.after
            return widely and same and own[3:5] == other[3:5]
        if own.approximate and other.approximate and own.words != other.words:
            return False  # "for four months" is no date of "for five months"
        return own.compatible(other) or (widely and own.contains(other))


@dataclass(frozen=True)
class Times:
    """The periods of a merged text and of its sources, each by the day on which it was said."""

    own: Sequence[_Told]
    sources: Sequence[str]
    theirs: Sequence[Sequence[Period]]
    said: Sequence[datetime | None]

    def retold(self, position: int, *, widely: bool = False) -> str:
        """Return a source in which the times are told in the merged text's words, if it has them.

        `widely`: also in words that are coarser than the source's.
        """
        source = self.sources[position]
        for period in reversed(self.theirs[position]):
            told = [one.words for one in self.own if one.means(period, widely=widely)]
            if told:
                words = " ".join(told) if widely else told[0]
                source = f"{source[: period.start]}{words}{source[period.end :]}"
        return source

    def lost(self, position: int) -> list[str]:
        """Return the relative words of a source whose time the merged text does not state."""
        return [
            period.words
            for period in self.theirs[position]
            if period.relative
            and period.first is not None
            and not any(
                one.means(period) or one.period.compatible(period) or _recounts(one.period, period)
                for one in self.own
            )
        ]

    def moved(self) -> str:
        """Return what is wrong with a relative word that means another time in the merged text."""
        for words in dict.fromkeys(one.period.words for one in self.own if one.period.relative):
            kept = [one.period for one in self.own if one.period.words == words]
            known = [
                (position, period)
                for position, found in enumerate(self.theirs)
                for period in found
                if period.words == words
            ]
            others = [one for one in known if not any(_may_be(one[1], own) for own in kept)]
            if others and len(kept) > len(known) - len(others):
                return self._advice(*others[0])
        invented = self._invented()
        return (
            f'the merged text says "{invented}", which is the time of no memory' if invented else ""
        )

    def _invented(self) -> str:
        """Return a relative word that is in no source and means the time of none."""
        known = [period for found in self.theirs for period in found]
        words = {period.words for period in known}
        return next(
            (
                one.period.words
                for one in self.own
                if one.period.relative and one.period.certain and one.period.role is Role.AT
                and one.period.grain <= Grain.WEEK and one.period.words not in words
                and not any(map(str.isdigit, one.period.words))
                and not any(_holds(one.period, period) for period in known)
            ),
            "",
        )  # fmt: skip

    def _advice(self, position: int, period: Period) -> str:
        said, date = self.said[position], in_words(self.sources[position], period)
        fault = f'the merged text keeps "{period.words}", which means another time there'
        day = f" than on {day_of(said)}" if said else ""
        return (
            fault
            + day
            + (f': write "{date}"' if date else ": leave it out, or leave these memories apart")
        )


def _recounts(own: Period, theirs: Period) -> bool:
    """Return whether a count in the merged text replaces one that may be of the same time."""
    is_count = own.approximate and theirs.approximate and own.role is theirs.role
    return is_count and _overlap(own, theirs)


def _overlap(own: Period, theirs: Period) -> bool:
    return own.first < theirs.after and theirs.first < own.after  # type: ignore[operator]


def _holds(own: Period, theirs: Period) -> bool:
    if None in (own.first, theirs.first):
        return True
    if not theirs.certain:
        return _overlap(own, theirs)
    return own.first <= theirs.first and theirs.after <= own.after  # type: ignore[operator]


def _may_be(theirs: Period, own: Period) -> bool:
    """Return whether a relative word may still mean the same time as in its source."""
    if theirs.compatible(own):
        return True
    if (theirs.certain and own.certain) or None in (theirs.first, own.first):
        return False
    return _overlap(own, theirs)


MOST_TIMES = 100
"""Limit for each text whose times are compared: every one is compared with those of the others."""
_MOST_READ = 200_000
"""Limit in characters: a text is read once more for each range of days in it."""


def times_of(text: str, sources: Sequence[str], said: Sequence[datetime | None]) -> Times | None:
    """Resolve the times of a merged text and of its `sources`, oldest first.

    Return None if one of them has more than `MOST_TIMES`.

    `said`: for each source the moment from which its relative words count; empty if unknown. The
    text stands under the day of the newest source, unless it equals a source, which then stays.
    """
    moments = list(said) or [None] * len(sources)
    same = [n for n, source in enumerate(sources) if identity(source) == identity(text)]
    theirs = [periods(source, moment) for source, moment in zip(sources, moments, strict=True)]
    own = _told_in(text, moments[same[-1] if same else -1])
    if own is None or max(map(len, theirs)) > MOST_TIMES:
        return None
    return Times(own, sources, theirs, moments)


# --- the times that a merged text states ----------------------------------------------------------

_UP_TO = r" ?(?:[-–—/〜~]|\b(?:and|to|until|till|through|bis(?: zum)?|al|au)\b|から) ?(?:the )?"
_TH = r"(?:st|nd|rd|th)\b|日"
_DAYS = re.compile(rf"(?<![-\d/])(\d{{1,2}})(?:{_TH}|\.)?{_UP_TO}(\d{{1,2}})(?:{_TH})?(?![-\d/])")
_BETWEEN = re.compile(f"(?:{_UP_TO})?").fullmatch
_ISO_RANGE = re.compile(r"(?<=\d-\d\d)/(?=\d{4}-\d\d-\d\d)")
_ROUGHLY = re.compile(
    r"\b(since |in |from |until |on )?(?:about|around|roughly|circa) "
    r"(?=(?:\d{1,2} )?(?:[A-Z]\w+ )?(?:\d{1,2}, )?[12]\d{3}\b)"
)
_IN_WEEK = re.compile(
    r"(?:\b(?:in|on|during|over) )?(?:\bthe )?\bweek(end)?(?: (?:of|from|starting|beginning))?"
    r"(?: on)?(?: the)? $"
)
_WEEK = re.compile(r"\bweek(?:end)?(?: of)?\b")
_FROM = re.compile(r"(?:\b(?:between|from|vom|zwischen|del|entre|du) )(?:the )?$")
_WEEK_AFTER = re.compile("の週(末)?").match
_BARE = re.compile(r"(?<=[(（ ])([12]\d{3})(?:-(0[1-9]|1[0-2]))?(?=[)）,.; ]|$)")


def _told_in(text: str, said: datetime | None) -> list[_Told] | None:
    """Return the periods of a merged text, also in the forms that a model copies from `when`.

    Return None if there are more than `MOST_TIMES`.
    Where these are no expressions of `periods`, they are found in a copy of equal length.
    """
    plain = _ROUGHLY.sub(lambda match: (match[1] or "in ").ljust(len(match[0])), text)
    weekless = _WEEK.sub(lambda match: " " * len(match[0]), plain)
    found = periods(_ISO_RANGE.sub(" ", plain), said)
    ranges, years = list(_DAYS.finditer(weekless)), list(_BARE.finditer(text))
    many = len(found) + len(ranges) + len(years) > MOST_TIMES
    if many or len(ranges) * len(text) > _MOST_READ:
        return None
    told: list[_Told] = []
    for first, last in pairwise(found):
        if _BETWEEN(text[first.end : last.start]) and last.certain:
            told += _from_to(text, first, first.start, last.end, last.first)
    for match in ranges:  # "9-15 May": the first day in a copy without the last
        later, days = timedelta(int(match[2]) - int(match[1])), match[1].rjust(len(match[0]))
        if "日" in match[0]:
            days = f"{match[1]}日".ljust(len(match[0]))
        copy = f"{weekless[: match.start()]}{days}{weekless[match.end() :]}"
        for one in periods(copy, said):
            if one.start < match.end() and match.start() < one.end and one.certain and one.first:
                start, end = min(one.start, match.start()), max(one.end, match.end())
                told += _from_to(text, one, start, end, one.first + later)
    taken = {n for one in told for n in range(one.period.start, one.period.end)}
    for one in found:
        if _has_its_weekday(one) and not (one.relative and one.start in taken):
            told.append(_told(text, plain, one))
    taken.update(n for one in found for n in range(one.start, one.end))
    bare = (match for match in years if match.start() not in taken)
    return told + [_Told(_bare(match), match[0]) for match in bare]


def _is_week(first: Period, last: date) -> bool:
    """Return whether two dates are the ends of a week: "the week of 2026-01-12/2026-01-18"."""
    if first.grain is not Grain.WEEK or first.first is None:
        return False
    begins = first.first.day in map(int, re.findall(r"\d+", first.words))
    return begins and last + timedelta(1) == first.after


def _told(text: str, plain: str, period: Period) -> _Told:
    before, after = _IN_WEEK.search(text[: period.start]), _WEEK_AFTER(text, period.end)
    start = before.start() if before else period.start
    words = text[start : after.end() if after else period.end]
    if (week := before or after) and period.grain is Grain.DAY and period.first is not None:
        return _Told(_week_of(period, period.first, is_weekend=bool(week[1])), words, is_span=True)
    is_about = plain[period.start : period.end] != text[period.start : period.end]
    return _Told(period, words, is_about=is_about)


def _week_of(period: Period, day: date, *, is_weekend: bool) -> Period:
    monday = day - timedelta(day.weekday())
    grain = Grain.WEEKEND if is_weekend else Grain.WEEK
    return period._replace(
        grain=grain, first=monday + timedelta(5 * is_weekend), after=monday + timedelta(7)
    )


def _has_its_weekday(period: Period) -> bool:
    """Return whether a date has the weekday that is written beside it: "Friday, 5 May 2023"."""
    names = {WEEKDAYS[word] for word in _LETTERS(period.words) if word in WEEKDAYS}
    return period.relative or period.first is None or names <= {f"{period.first:%A}".lower()}


_LETTERS = re.compile(r"[^\W\d_]+").findall


def _from_to(text: str, first: Period, start: int, end: int, day: date | None) -> list[_Told]:
    """Return the days from a date to `day`, at most a week, as one period; [] if they are more."""
    if day is not None and _is_week(first, day):
        return [_Told(first, text[start:end], is_span=True)]
    if day is None or first.first is None or first.grain is not Grain.DAY:
        return []
    begins = first.first if first.certain else first.first.replace(year=day.year)
    if not timedelta(0) < day - begins < timedelta(7):
        return []
    for lead in _FROM, _IN_WEEK:
        found = lead.search(text[:start])
        start = found.start() if found else start
    after = day + timedelta(1)
    days = Period(text[start:end], start, end, first.role, Grain.WEEK, begins, after)
    return [_Told(days._replace(relative=False), days.words, is_span=True)]


def _bare(match: re.Match[str]) -> Period:
    """Return a year, "2025", or a month, "2025-03", that stands alone."""
    year, month = int(match[1]), match[2]
    first = date(year, int(month or 1), 1)
    after = (first + timedelta(31)).replace(day=1) if month else date(year + 1, 1, 1)
    grain = Grain.MONTH if month else Grain.YEAR
    return Period(match[0], *match.span(), Role.AT, grain, first, after, relative=False)

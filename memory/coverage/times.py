"""Compare the times that a merged text states with those of the texts it was made from.

Each text has its own day, from which its relative words count: "yesterday" of an older text is
another day in the merged one, and a date in the merged text may follow from it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from memory.text import Grain, Period, Role, day_of, identity, in_words, periods


@dataclass(frozen=True)
class _Told:
    """A period of the merged text, and the words of the text for it.

    `is_week`: whether the words name the week or weekend of the day, as "the week of 12 May" does.
    """

    period: Period
    words: str
    is_week: bool

    def means(self, other: Period, *, widely: bool = False) -> bool:
        """Return whether this follows from `other`, a period of a source.

        `widely`: whether it may also be coarser, such as the month of a day.
        """
        own = self.period
        if own.first is None or other.first is None or not other.certain:
            return False
        if self.is_week and other.role is own.role:
            return other.first <= own.first < (other.after or other.first)
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


def times_of(text: str, sources: Sequence[str], said: Sequence[datetime | None]) -> Times:
    """Resolve the times of a merged text and of its `sources`, oldest first.

    `said`: for each source the moment from which its relative words count; empty if unknown. The
    text stands under the day of the newest source, unless it equals a source, which then stays.
    """
    moments = list(said) or [None] * len(sources)
    same = [n for n, source in enumerate(sources) if identity(source) == identity(text)]
    theirs = [periods(source, moment) for source, moment in zip(sources, moments, strict=True)]
    plain = _ROUGHLY.sub(lambda match: match[1] or "in ", text)
    own = [_told(plain, one) for one in periods(plain, moments[same[-1] if same else -1])]
    for first, last in pairwise(own):
        own = _as_range(own, first, last, plain)
    return Times(own, sources, theirs, moments)


_ROUGHLY = re.compile(
    r"\b(since |in |from |until )?(?:about|around|roughly|circa) "
    r"(?=[12]\d{3}\b|[A-Z]\w+ [12]\d{3}\b)"
)
_WEEK_BEFORE = re.compile(
    r"(?:\b(?:in|on|during|over) )?(?:\bthe )?\bweek(?:end)?(?: (?:of|from|starting|beginning))?"
    r"(?: on)?(?: the)?(?: \w+day,?)? $"
    r"|(?:\b(?:between|from) )?(?:the )?\b\d{1,2}(?:st|nd|rd|th|\.)?"
    r"(?: ?[-–] ?| (?:and|to|until|bis|bis zum|au|al) )$"
)
_TO_DAY = re.compile(r"(?:al|au|bis|bis zum) ").match
_WEEK_AFTER = re.compile("の週末?").match


def _told(text: str, period: Period) -> _Told:
    lead = _TO_DAY(text, period.start)  # a preposition that is part of the expression
    before = _WEEK_BEFORE.search(text[: lead.end() if lead else period.start])
    after = _WEEK_AFTER(text, period.end)
    start = before.start() if before else period.start
    end = after.end() if after else period.end
    return _Told(period, text[start:end], bool(before or after))


def _as_range(own: list[_Told], first: _Told, last: _Told, text: str) -> list[_Told]:
    """Mark two days as the ends of a range if the text says "from ... to ..."."""
    a, b = first.period, last.period
    between = text[a.end : b.start].strip().lower()
    if a.first is None or b.first is None or between not in _TO:
        return own
    if not timedelta(0) < b.first - a.first < timedelta(7):
        return own
    ends = [_Told(one.period, one.words, is_week=True) for one in (first, last)]
    return [ends[0] if one is first else ends[1] if one is last else one for one in own]


_TO = frozenset(("to", "and", "until", "/", "-", "–", "", "から", "〜"))

"""Arithmetic of the calendar: days, weeks from Monday, months, seasons, holidays, windows."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import NamedTuple

from memory.text.period import Grain

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


def counted(said: datetime, unit: str, number: int) -> Span:
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


def day_in(month: int, day: int) -> Callable[[int], Span | None]:
    """Return the function from a year to that day of it; None for 29 February of most years."""

    def nth(year: int) -> Span | None:
        fits = day <= monthrange(year, month)[1]
        return day_at(date(year, month, day)) if fits else None

    return nth


_FIXED = {
    "christmas": (12, 24, 3), "christmas eve": (12, 24, 1), "christmas day": (12, 25, 1),
    "boxing day": (12, 26, 1), "new year's eve": (12, 31, 1), "new year": (1, 1, 3),
    "new year's day": (1, 1, 1), "halloween": (10, 31, 1), "valentine's day": (2, 14, 1),
}  # fmt: skip
_FROM_EASTER = {
    "good friday": (-2, 1), "easter": (-2, 4), "easter sunday": (0, 1), "easter monday": (1, 1),
    "pentecost": (49, 2),
}  # fmt: skip


def holiday_in(name: str) -> Callable[[int], Span | None]:
    """Return the function from a year to that holiday of it."""

    def nth(year: int) -> Span:
        if name in _FIXED:
            month, day, days = _FIXED[name]
            first = date(year, month, day)
        else:
            offset, days = _FROM_EASTER[name]
            first = _easter(year) + offset * DAY
        return Span(first, first + days * DAY, Grain.DAY if days == 1 else Grain.WEEKEND)

    return nth


def _easter(year: int) -> date:
    """Return Easter Sunday (the anonymous Gregorian algorithm, Nature, 20 April 1876)."""
    a, (b, c) = year % 19, divmod(year, 100)
    (d, e), (i, k) = divmod(b, 4), divmod(c, 4)
    h = (19 * a + b - d - (b - (b + 8) // 25 + 1) // 3 + 15) % 30
    line = (32 + 2 * e + 2 * i - h - k) % 7
    month, day = divmod(h + line - 7 * ((a + 11 * h + 22 * line) // 451) + 114, 31)
    return date(year, month, day + 1)

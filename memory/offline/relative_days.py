"""Relative days ("last Friday", "two weeks ago") become dates where they are unambiguous.

A week or a weekend is named by the day of the talk ("in the week before 8 May 2026"). Words that
two people would count differently ("next Friday", "last summer") stay, with the day of the talk.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta

_NUMBERS = {
    word: number
    for number, word in enumerate(
        "one two three four five six seven eight nine ten eleven twelve".split(), start=1
    )
} | {"a": 1, "an": 1}
_WEEKDAYS = "mon tue wed thu fri sat sun".split()
_WEEKDAY = (
    r"(?:mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:rs(?:day)?)?|fri(?:day)?"
    r"|sat(?:urday)?|sun(?:day)?)"
)
_DAYS = {
    "the day before yesterday": -2, "yesterday": -1, "today": 0, "tomorrow": 1,
    "the day after tomorrow": 2,
}  # fmt: skip
_AFTER_PREPOSITION = (
    r"(?:(?P<lead>\b(?:since|until|till|from|by|before|after|of|for|on|in|over|during|than)) )?"
)
_RELATIVE = re.compile(
    _AFTER_PREPOSITION
    + r"\b(?:(?P<night>last night|tonight)"
    + r"|(?P<day>the day before yesterday|the day after tomorrow|yesterday|today|tomorrow)"
    + r"(?: (?P<part>morning|afternoon|evening|night))?"
    + rf"|(?:last|this past) (?P<weekday>{_WEEKDAY})"
    + r"|(?P<which>last|this past|this|next) (?P<period>week|weekend|month|year)"
    + r"|(?:(?P<vague>about|around|over|almost|nearly|more than|like) )?"
    + r"(?P<count>\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
    + r"|(?:a )?few|(?:a )?couple(?: of)?|several) (?P<unit>day|week|weekend|month|year)s? (?:ago|"
    r"back)"
    + r"|(?P<unplain>(?:last|this past|this|next) (?:summer|winter|spring|fall|autumn|semester|"
    r"season)"
    + rf"|(?:this|next|this coming) {_WEEKDAY}|the other (?:day|week|night)))"
    + r"(?P<owner>'s)?(?![\w'-])",
    re.IGNORECASE,
)


def with_dates(text: str, at: datetime) -> str:
    """Replace the days that are named relative to `at` by dates."""
    dated = _RELATIVE.sub(lambda match: _dated(match, at), text)
    return dated[:1].upper() + dated[1:] if text[:1].isupper() else dated


def _dated(match: re.Match[str], at: datetime) -> str:
    found = _preposition_and_date(match, at)
    if found is None or match["owner"]:
        return f"{match[0]} (said on {_date(at)})"
    preposition, when = found
    lead = (match["lead"] or "").lower()
    if lead in ("", "on", "in"):
        return f"{preposition} {when}".strip()
    return f"{match['lead']} {when}"


def _preposition_and_date(match: re.Match[str], at: datetime) -> tuple[str, str] | None:
    """Return the preposition and the date; None if it is ambiguous."""
    if match["unplain"]:
        return None
    if match["night"]:
        last = match["night"].lower() == "last night"
        part, day = ("night", at - timedelta(days=1)) if last else ("evening", at)
        return "on", f"the {part} of {_date(day)}"
    if match["day"]:
        on = _date(at + timedelta(days=_DAYS[match["day"].lower()]))
        return "on", f"the {match['part']} of {on}" if match["part"] else on
    if match["weekday"]:
        wanted = _WEEKDAYS.index(match["weekday"][:3].lower())
        return "on", _date(at - timedelta(days=(at.weekday() - wanted - 1) % 7 + 1))
    if match["which"]:
        return _period(match["which"].lower(), match["period"].lower(), at)
    return _ago(match, at)


def _period(which: str, period: str, at: datetime) -> tuple[str, str]:
    past = which in ("last", "this past")
    if period in ("week", "weekend"):
        side = "before" if past else "after" if which == "next" else "of"
        return ("in" if period == "week" else "on"), f"the {period} {side} {_date(at)}"
    step = -1 if past else 1 if which == "next" else 0
    return "in", _months_on(at, step) if period == "month" else str(at.year + step)


def _ago(match: re.Match[str], at: datetime) -> tuple[str, str]:
    count, unit = match["count"].lower(), match["unit"].lower()
    number = int(count) if count.isdigit() else _NUMBERS.get(count)
    exactly: dict[str, Callable[[int], tuple[str, str]]] = {
        "day": lambda n: ("on", _date(at - timedelta(days=n))),
        "month": lambda n: ("in", _months_on(at, -n)),
        "year": lambda n: ("in", str(at.year - n)),
    }
    if number is None or unit not in exactly or number > 1_000:
        units = unit if number == 1 else f"{unit}s"
        return "", f"{match['vague'] or ''} {match['count']} {units} before {_date(at)}".strip()
    on, when = exactly[unit](number)
    return ("around", when) if match["vague"] else (on, when)


def _months_on(at: datetime, step: int) -> str:
    year, month = divmod(at.year * 12 + at.month - 1 + step, 12)
    return f"{datetime(year, month + 1, 1):%B %Y}"


def _date(day: datetime) -> str:
    return f"{day.day} {day:%B %Y}"

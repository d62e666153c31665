"""Resolve a time expression: which dates do its words mean, said on that day, in that sentence?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from functools import cached_property
from typing import NamedTuple

from memory.text.period import (
    DAY,
    Grain,
    Period,
    Role,
    Span,
    around,
    birth,
    day_at,
    day_of_year,
    holiday_of,
    month_of,
    season_of,
    unit_at,
    window_of,
    year_of,
)
from memory.text.time_words import WordRow

_REACH = 40
"""How many words before and after an expression are read for its tense."""


class _WordsAlone(Exception):
    """The words are compared, and no dates."""


class Expression:
    """The words of one match, and what is around them."""

    def __init__(
        self, row: WordRow, said: datetime | None, quotes: Sequence[tuple[int, int]],
        first: int, last: int,
    ) -> None:  # fmt: skip
        self.row, self.table, self.first, self.last = row, row.table, first, last
        self._said, self._quotes = said, quotes
        self.sorts = row.line[first:last]
        self.values = {row.line[n]: row.value(n) for n in range(first, last)}
        self.part: str = self.values.get("P", "")
        self.is_start = "C" in self.sorts or self.sorts[-1] in "cq"
        self.leads = self.sorts[: len(self.sorts) - len(self.sorts.lstrip("CLIbxF"))]
        """The sorts of the prepositions and articles before the time itself."""
        begin = max(0, first - _REACH)
        self.sentence_start = max(begin, row.line.rfind(";", begin, first) + 1)
        end = row.line.find(";", last, last + _REACH)
        self.sentence = row.lowers[self.sentence_start : last + _REACH if end < 0 else end]
        own = first - self.sentence_start
        self._others = self.sentence[:own] + self.sentence[own + len(self.sorts) :]
        """The words of the sentence without those of the expression."""

    @property
    def said(self) -> datetime:
        if self._said is None:
            raise _WordsAlone
        return self._said

    @property
    def day(self) -> date:
        return self.said.date()

    @property
    def has_preposition(self) -> bool:
        leads = range(self.first, self.first + len(self.leads))
        return any(self.row.value(position) != "article" for position in leads)

    @cached_property
    def tense(self) -> str:
        """The tense, "past" or "future"; "" if the sentence does not show it."""
        if self.is_start:
            return "past"
        past, future = self.tells_past(), self.table.future.found(self._others)
        if past and not future and self.table.present.isdisjoint(self._others):
            return "" if any(sort in "bxF" for sort in self.leads) else "past"
        return "future" if future and not past else ""

    def tells_past(self) -> bool:
        return self.table.past.found(self._others)

    def comes_again(self) -> bool:
        return not self.table.recurring.isdisjoint(self.sentence)

    def neighbour(self, step: int) -> _Neighbour:
        position = self.last if step > 0 else self.first - 1
        if not 0 <= position < len(self.row.line):
            return _EDGE
        surface = self.row.surface(position)
        return _Neighbour(self.row.lowers[position], surface, self.row.line[position])

    def is_quoted(self) -> bool:
        start, end = self.row.spans[self.first][0], self.row.spans[self.last - 1][1]
        return any(first < start and end < last for first, last in self._quotes)

    def is_reported(self) -> bool:
        before = self.sentence
        if not self.table.reports_follow:
            before = before[: max(0, self.first - self.sentence_start - 1)]
        return not self.table.reports.isdisjoint(before)

    def is_title(self) -> bool:
        """Return whether a word has a capital that neither the language nor the place explains."""
        if self.row.is_upper:
            return False
        for position in range(self.first, self.last):
            if self.row.line[position] not in self.table.capitals:
                parts = self.row.surface(position).split()
                opens = position == self.first and (
                    position == self.sentence_start or self.row.lowers[position - 1] in _OPENING
                )
                if any(part[0].isupper() for part in parts[opens:]):
                    return True
        return False

    def may_open_title(self) -> bool:
        """Return whether the text begins like "Tomorrow Never Dies"."""
        following = range(self.last, min(self.last + 2, len(self.row.line)))
        return (
            self.first == self.sentence_start
            and "U" not in self.table.capitals
            and len(following) == 2
            and all(self.row.surface(position)[0].isupper() for position in following)
        )


_OPENING = frozenset("„“”\"«»‘'")


class _Neighbour(NamedTuple):
    lower: str
    surface: str
    sort: str


_EDGE = _Neighbour("", "", ";")


def period_of(of: Expression, name: str) -> Period | None:
    """Return the period of an expression, by the name of its pattern; None if it is no time."""
    span: Span | None = None
    quoted = of.is_quoted()
    try:
        if name != "event" and (span := _READERS[name](of)) is None:
            return None
        said_by_somebody = not of.table.reports.isdisjoint(of.row.lowers)
        if of.is_title() or (quoted and not said_by_somebody):
            span = None
    except (_WordsAlone, ValueError, OverflowError):  # the latter: beyond the calendar
        span = None
    words, start, end = _place(of, name)
    began = of.is_start or name == "lasting" or of.values.get("O") == "start"  # "sober"
    role = Role.START if began else _ROLES.get(name) or _VAGUE_ROLES.get(of.sorts, Role.AT)
    if span is None:
        return Period(words, start, end, role, Grain.DAY, None, None, certain=False)
    doubtful = of.is_reported() or quoted or of.may_open_title()
    return Period(
        words, start, end, role, span.grain, span.first, span.after, span.part,
        span.certain and not doubtful, span.approximate, name not in _ABSOLUTE,
    )  # fmt: skip


def _place(of: Expression, name: str) -> tuple[str, int, int]:
    """Return the words without their preposition, and where they stand with it."""
    first, row = of.first, of.row
    while name != "lasting" and row.line[first] in "bxFBj":
        first += 1
    core = first
    while name not in _WHOLE and row.line[core] in "LI":
        core += 1
    end = row.spans[of.last - 1][1]
    return " ".join(row.text[row.spans[core][0] : end].lower().split()), row.spans[first][0], end


_VAGUE_ROLES = {"R": Role.RECENT, "G": Role.SOON}
_ROLES = {"age": Role.BIRTH, "since": Role.START}
_WHOLE = {"counted", "since", "lasting", "age", "vague"}
_ABSOLUTE = {"full", "full_week", "year"}


# --- dates ----------------------------------------------------------------------------------------


def _full(of: Expression) -> Span:
    if "X" in of.sorts:
        return day_at(date(*of.values["X"]), of.part)
    day = of.values.get("n") or of.values["N"]
    return day_at(date(of.values["Y"], of.values["M"], day), of.part)


def _week_of(of: Expression) -> Span | None:
    """Return the week or weekend that holds the date of the expression."""
    span = _full(of) if "Y" in of.sorts or "X" in of.sorts else _date(of)
    unit: str = of.values["U"]
    if span is None or not span.certain or unit not in ("week", "weekend"):
        return span
    may_be_sunday = unit == "week" and of.table.sunday_first
    days = [span.first, span.first + DAY] if may_be_sunday else [span.first]
    return _either([unit_at(day, unit, 0) for day in days])


_YEARLY = frozenset("MSH")


def _year(of: Expression) -> Span | None:
    year: int = of.values["Y"]
    return year_of(year) if _YEARLY.isdisjoint(of.sorts) else _yearly(of)(year)


def _yearly(of: Expression) -> Callable[[int], Span | None]:
    """Return the function from a year to the month, season or holiday of the expression in it."""
    if "M" in of.sorts:
        return lambda year: month_of(year, of.values["M"])
    if "S" in of.sorts:
        return lambda year: season_of(year, of.values["S"])
    return lambda year: holiday_of(year, of.values["H"])


def _date(of: Expression) -> Span | None:
    if of.comes_again():
        return None
    number: int = of.values.get("n") or of.values["N"]
    month: int = of.values["M"]
    leap = (month, number) == (2, 29)
    days = around(of.day, lambda year: day_of_year(year, month, number), reach=8 if leap else 1)
    days = [day_at(span.first, of.part) for span in days]
    present = of.table.copulas | of.table.scheduled
    if not of.tense and not present.isdisjoint(of.sentence) and not of.tells_past():
        return next(span for span in days if span.first >= of.day)  # "the party is on 5 May"
    return _chosen(of, days, today_counts=True)


def _chosen(of: Expression, spans: Sequence[Span], *, today_counts: bool = False) -> Span:
    """Return the one of what comes again that the tense means, else the span of both readings.

    `today_counts`: whether a day like today is clearly today.
    """
    before, today, later = _split(spans, of.day)
    if of.tense and today and today_counts:
        return today[0]
    if of.tense:
        return _either(before + today if of.tense == "past" else today + later)
    return _either((today or before) + later, certain=False)


def _split(spans: Sequence[Span], day: date) -> tuple[list[Span], list[Span], list[Span]]:
    """Return the last span before `day`, the one that holds it, and the first after it."""
    before = [span for span in spans if span.after <= day][-1:]
    today = [span for span in spans if span.first <= day < span.after]
    return before, today, [span for span in spans if span.first > day][:1]


def _either(spans: Sequence[Span], *, certain: bool = True) -> Span:
    """Return what the readings agree on; else a doubtful span from the first to the last."""
    if not spans:
        raise _WordsAlone
    if all(span == spans[0] for span in spans):
        return spans[0] if certain else spans[0]._replace(certain=False)
    first, after = min(span.first for span in spans), max(span.after for span in spans)
    return spans[0]._replace(first=first, after=after, certain=False)


def _doubtful(of: Expression) -> Span:
    """Return the day of saying: the words mean the same only if they were said on one day."""
    return day_at(of.day)._replace(certain=False)


# --- the last, this, the next ---------------------------------------------------------------------

_STEPS = {"last": -1, "past": -1, "this": 0, "next": 1, "coming": 1}


def _which(of: Expression) -> tuple[str, int]:
    unit: tuple[str, int] = of.values.get("Z") or (of.values["U"], _STEPS[of.values["W"]])
    return unit


def _weeks(of: Expression, step: int) -> list[date]:
    """Return the Mondays of that week, by each day on which speakers may begin a week."""
    days = [of.day, of.day + DAY] if of.table.sunday_first else [of.day]
    return [unit_at(day, "week", step).first for day in days]


def _unit(of: Expression) -> Span:
    unit, step = _which(of)
    if unit in ("day", "hour", "minute"):
        raise _WordsAlone  # "the next day"
    if of.values.get("W") == "past":
        return window_of(of.said, unit, -1)._replace(certain=False)
    if unit == "week":
        return _either([unit_at(monday, "week", 0) for monday in _weeks(of, step)])
    if unit == "weekend":
        return _weekend(of, step)
    return _doubtful(of) if unit == "fortnight" else unit_at(of.day, unit, step)


def _weekend(of: Expression, step: int) -> Span:
    this = unit_at(of.day, "weekend", 0)
    is_weekend, which = of.day >= this.first, of.values.get("W")
    near = unit_at(of.day, "weekend", step)
    if which == "coming":
        return near if is_weekend else this
    if which == "next" and not is_weekend:
        return _either([this, near])
    if which == "this" and not is_weekend and of.tense == "past":
        return _either([unit_at(of.day, "weekend", -1), this])
    return near


def _within(of: Expression) -> Span | None:
    unit, step = _which(of)
    if "K" in of.sorts and unit == "week":
        days = [monday + of.values["K"] * DAY for monday in _weeks(of, step)]
        if of.table.sunday_first and of.values["K"] == _SUNDAY:
            days.append(days[0] - 7 * DAY)
        return _either([day_at(day, of.part) for day in days])
    if unit != "year" or _YEARLY.isdisjoint(of.sorts):
        return _doubtful(of)  # "the 5th of last month"
    found = _yearly(of)(of.day.year + step)
    return found and found._replace(certain=of.values.get("S") != _WINTER)


_SUNDAY = 6
_WINTER = 3


def _weekday(of: Expression) -> Span:
    which, near = of.values["W"], _near_weekdays(of)
    before = [span for span in near if span.first < of.day][-1]
    later = next(span for span in near if span.first > of.day)
    if which in ("past", "coming"):
        return before if which == "past" else later
    weeks = [day_at(monday + of.values["K"] * DAY, of.part) for monday in _weeks(of, _STEPS[which])]
    if which != "this":
        return _either([before if which == "last" else later, *weeks])
    this = weeks[0]
    if of.tense == "past":
        return this if this.first < of.day else _either([before, this])
    return this if this.first >= of.day else _either([this, later][of.tense == "future" :])


def _near_weekdays(of: Expression) -> list[Span]:
    first = of.day + (of.values["K"] - of.day.weekday() - 7) * DAY
    return [day_at(first + week * 7 * DAY, of.part) for week in range(3)]


def _name_of(of: Expression) -> Span:
    which, year = of.values["W"], of.day.year
    spans = around(of.day, _yearly(of))
    before, today, later = _split(spans, of.day)
    if which in ("past", "coming"):
        return _either(before if which == "past" else later)
    if which == "this":
        return _this(of, today, before, later)
    of_year = [span for span in spans if span.first.year == year + _STEPS[which]]
    return _either(of_year + (before if which == "last" else later))


def _this(of: Expression, today: list[Span], before: list[Span], later: list[Span]) -> Span:
    """Return this month, season or holiday: that of the calendar year, where the tense allows."""
    if today:
        return today[0]
    near = [span for span in before + later if span.first.year == of.day.year]
    comes = not near or near[0].first > of.day
    plain = "M" in of.sorts or of.values.get("S", _WINTER) != _WINTER
    if near and of.tense == ("past", "future")[comes]:
        return near[0]
    return near[0] if near and plain and not of.tense else _either(before + later)


def _part(of: Expression) -> Span:
    if "T" in of.sorts:
        step, part = of.values["T"]
        if step is None:  # "cette nuit": the last night, or the coming one
            return _either([day_at(of.day - DAY, part), day_at(of.day, part)])
        return day_at(of.day + step * DAY, part)
    if of.values["W"] != "this":
        raise _WordsAlone
    return day_at(of.day, of.part)


# --- days and counted units -----------------------------------------------------------------------

_VAGUE = 4
"""How many "a few" are taken for; the window is doubtful anyway."""


def _day(of: Expression) -> Span | None:
    day = of.day + of.values["D"] * DAY
    if "U" not in of.sorts:
        return day_at(day, of.part)
    number, unit = of.values.get("N", _VAGUE), of.values["U"]
    if of.values.get("b", "from") != "from" or "V" in of.sorts:
        return _doubtful(of)
    span = window_of(of.said, "day", of.values["D"] + number * {"week": 7, "day": 1}.get(unit, 0))
    return span if unit in ("week", "day") else _doubtful(of)


def _count(of: Expression) -> tuple[str, int, bool] | None:
    """Return unit, number, and whether the number is exact; None for "two and a half"."""
    unit: str = of.values["U"]
    if "h" in of.sorts:
        plain = unit == "year" and "N" not in of.sorts and of.neighbour(-1).sort != "&"
        return ("half year", 1, True) if plain else None
    return unit, of.values.get("N", _VAGUE), "V" not in of.sorts


def _counted(of: Expression) -> Span | None:
    past = "a" in of.sorts or "A" in of.sorts
    if not past and of.tense == "past":
        return None  # "built it in 2 days"
    if (count := _count(of)) is None:
        return _doubtful(of)
    unit, number, exact = count
    span = window_of(of.said, unit, -number if past else number)
    clear = past or of.tense == "future" or "I" not in of.sorts or _is_planned(of)
    return span._replace(certain=exact and clear)


def _is_planned(of: Expression) -> bool:
    """Return whether the present means the future: "is in two weeks", "starts in two weeks"."""
    scheduled = of.table.scheduled
    if not scheduled or not scheduled.isdisjoint(of.sentence):
        return True
    return "B" in of.row.line[max(0, of.first - 2) : of.first]


def _since(of: Expression) -> Span:
    if (count := _count(of)) is None:
        return _doubtful(of)
    return window_of(of.said, count[0], -count[1])._replace(certain=count[2])


def _lasting(of: Expression) -> Span | None:
    perfect = of.table.perfect
    if not of.table.ended.isdisjoint(of.sentence):
        return None
    return _since(of) if not perfect.helpers or perfect.found(of.sentence) else None


_OLDEST = 120


def _age(of: Expression) -> Span | None:
    number, unit = of.values["N"], of.values.get("U", "year")
    if unit in ("hour", "minute") or not 0 < number <= _OLDEST:
        return None
    if "j" in of.sorts and unit != "year":
        return None  # "tiene 3 días"
    if of.sorts == "BN":
        return _age_of(of, number)
    return birth(of.day, unit, number)


def _age_of(of: Expression, number: int) -> Span | None:
    """Return the birth for "Kofi is 36"; None for "the pulse is 58"."""
    subject = of.neighbour(-1)
    if subject.lower in of.table.people or " " in of.row.lowers[of.first]:  # "she's"
        return birth(of.day, "year", number)
    opens = of.first - 1 == of.sentence_start
    is_name = subject.surface.istitle() and len(subject.surface) > 1
    if not is_name or ("U" in of.table.capitals and not opens):
        return None
    return birth(of.day, "year", number)._replace(certain=False)  # a room may be 36, too


# --- without "last" or "next" ---------------------------------------------------------------------


def _bare_weekday(of: Expression) -> Span | None:
    if not of.leads and not _is_weekday(of):
        return None
    if of.leads and not of.has_preposition:
        raise _WordsAlone  # "the Friday"
    span = _chosen(of, _near_weekdays(of))
    return span if of.leads or of.table.bare else span._replace(certain=False)


def _is_weekday(of: Expression) -> bool:
    """Return whether a weekday without a preposition is no name."""
    before, after = of.neighbour(-1), of.neighbour(1)
    capital = of.row.surface(of.first)[0].isupper()
    if before.lower in of.table.before_name or of.is_title():
        return False
    if before.sort not in ",;" and before.surface[0].isupper():
        return before.sort == "B"
    if of.table.bare:
        return not capital or after.sort == ","
    if of.part or after.lower in of.table.off:
        return True
    return after.sort in ",;" and (before.sort not in ",;" or after.sort == ",")


def _bare(of: Expression) -> Span | None:
    needs_none = of.sorts[0] in of.table.bare
    if of.comes_again() or not (of.leads or needs_none or ("H" in of.sorts and of.tense)):
        return None
    if "U" in of.sorts:
        if of.sorts.startswith("xI") and of.values["U"] in ("week", "month", "year"):
            span = unit_at(of.day, of.values["U"], 0)  # "later in the month"
            return span._replace(certain=not of.tells_past())
        if of.values["U"] != "weekend":
            return None
        spans = [unit_at(of.day, "weekend", step) for step in range(-2, 3)]
        return _chosen(of, spans)._replace(certain=of.tense != "" and of.has_preposition)
    if not of.has_preposition and not needs_none and "H" not in of.sorts:
        return None  # "the spring is broken"
    if "S" in of.sorts and not of.tense:
        return None  # a habit: "swims in summer"
    is_fixed = of.is_start or "H" in of.sorts
    span = _chosen(of, around(of.day, _yearly(of)), today_counts=is_fixed)
    return span if of.leads or needs_none else span._replace(certain=False)  # "loved Christmas"


_READERS: dict[str, Callable[[Expression], Span | None]] = {
    "full_week": _week_of, "date_week": _week_of, "full": _full, "year": _year, "within": _within,
    "date": _date, "several": _doubtful, "weekday": _weekday, "unit": _unit, "named": _name_of,
    "part": _part, "day": _day, "counted": _counted, "since": _since, "lasting": _lasting,
    "age": _age, "bare_weekday": _bare_weekday, "bare": _bare,
    "vague": lambda of: unit_at(of.day, "month", 0)._replace(certain=False),
    "habit": lambda _: None,
}  # fmt: skip

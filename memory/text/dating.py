"""Write the dates of relative words: beside the text for a model, in it for a bot or for good."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from memory.text.boundary import guarded
from memory.text.period import Grain, Period, Role
from memory.text.time_finder import code_of, periods

_SEASONS = ("winter", "spring", "summer", "autumn")


def day_of(moment: datetime) -> str:
    """Return the local day of a moment, with its weekday.

    >>> day_of(datetime.fromisoformat("2026-01-20T23:30:00-05:00"))
    'Tue 2026-01-20'
    """
    return f"{_DAYS[moment.weekday()]} {moment.date()}"


def _as_it_is(text: str, _said: datetime | None) -> str:
    return text


@guarded(lambda _text, _said: dict[str, str]())
def when_field(text: str, said: datetime | None) -> dict[str, str]:
    """Return the dates of the relative words of a text, as a language model gets them beside it.

    Words that are not certain are left out.

    >>> when_field("Mia was ill last week, and flies tomorrow.", datetime(2026, 1, 20))
    {'last week': '2026-01-12/2026-01-18', 'tomorrow': '2026-01-21'}
    """
    return {period.words: written(period) for period in _datable(text, said)}


@guarded(_as_it_is)
def dated(text: str, said: datetime | None, until: datetime | None = None) -> str:
    """Return a text with its day and the dates of its relative words, ready for a prompt.

    `until`: when what it states ceased to hold, which is added, too. `undated` takes all this away,
    so that a model's answer can be stored.

    >>> dated("Mia has a dentist appointment tomorrow.", datetime(2026, 1, 20))
    '[Tue 2026-01-20] Mia has a dentist appointment tomorrow [= 2026-01-21].'
    """
    end_mark = f" [until {until:%Y-%m-%d}]" if until else ""
    if said is None or not text:
        return text + end_mark
    marked = text + end_mark
    for period in reversed(_datable(text, said)):
        end = period.end + 2 * (text[period.end : period.end + 2] in ("'s", "’s"))
        marked = f"{marked[:end]} [= {written(period)}]{marked[end:]}"
    return f"[{day_of(said)}] {marked}"


def undated(text: str) -> str:
    """Return a text without the marks of `dated`.

    >>> undated("[Tue 2026-01-20] Mia has a dentist appointment tomorrow [= 2026-01-21].")
    'Mia has a dentist appointment tomorrow.'
    """
    left = _MARK.sub("", text)
    return left if left.strip() else text


_DAYS = "Mon Tue Wed Thu Fri Sat Sun".split()
_MARK = re.compile(
    rf"^\[(?:{'|'.join(_DAYS)}) \d{{4}}-\d\d-\d\d\] "
    r"| \[(?:= (?:[a-z]+ ){0,3}|until )\d{4}[\d/-]*(?: [a-z]+)?\]"
)


def _datable(text: str, said: datetime | None) -> list[Period]:
    return [period for period in periods(text, said) if period.certain and period.relative]


def written(period: Period) -> str:
    """Return the dates of a certain period for a model: "2026-01-21", "about 2024", "2026-01"."""
    since = "since " if period.role is Role.START else ""
    about = "about " if period.approximate else ""
    if period.role is Role.BIRTH:
        return "born " + _filled(period._replace(approximate=False, grain=Grain.WEEK), _PLAIN)
    return since + about + _filled(period, _PLAIN)


# --- for good -------------------------------------------------------------------------------------


@guarded(_as_it_is)
def with_dates(text: str, said: datetime | None) -> str:
    """Replace the relative words of an English or Japanese text by dates, where that reads well.

    Other words, and texts in other languages, stay as they are.

    >>> with_dates("Mia went to the dentist yesterday.", datetime(2026, 1, 20))
    'Mia went to the dentist on 19 January 2026.'
    """
    write = _WRITERS.get(code_of(text))
    for period in reversed(_datable(text, said) if write else []):
        if write and (replaced := write(text, period)):
            text = f"{text[: period.start]}{replaced}{text[period.end :]}"
    return text


def in_words(text: str, period: Period) -> str:
    """Return what to write in place of a relative word of a text; "" if it has no certain date.

    >>> text = "Mia went to the dentist yesterday."
    >>> in_words(text, periods(text, datetime(2026, 1, 20))[0])
    'on 19 January 2026'
    """
    if not period.certain or period.first is None:
        return ""
    write = _WRITERS.get(code_of(text))
    return (write(text, period) if write else "") or written(period)


_LONGEST_WORD = 40
_NO_PREPOSITION = frozenset("until till by from before after for of than to since".split())
_ROUGHLY = frozenset("about around almost nearly roughly like".split())
_NOT_AFTER = frozenset("a an the my your his her its our their every each any than".split())
_NOT_BEFORE = re.compile(r"['’-]\w| (?:is|was|are|were|will|has|isn't|wasn't)\b").match
_OPENS = re.compile(r"(?:^|[.!?]\s+)$")


def _english(text: str, period: Period) -> str:
    """Return the date with its preposition; "" if the words are no adverb, as in "today's"."""
    before = text[max(0, period.start - _LONGEST_WORD) : period.start]
    word = before[:-1].split(" ")[-1].lower() if before.endswith(" ") else ""
    if word in _NOT_AFTER or word in _ROUGHLY or _NOT_BEFORE(text, period.end):
        return ""
    if period.role not in (Role.AT, Role.START) or period.grain is Grain.HOUR:
        return ""
    if period.role is Role.START and period.approximate:
        return ""
    preposition, _, noun = _filled(period, _ENGLISH).partition(" ")
    if period.approximate:
        preposition = "around"
    if period.role is Role.START:
        preposition = "since"
    elif word in _NO_PREPOSITION:
        return noun
    written = _after_verb(text, period, preposition, noun)
    return written[:1].upper() + written[1:] if _OPENS.search(before) else written


def _after_verb(text: str, period: Period, preposition: str, noun: str) -> str:
    """Return the date after those words of the period that may belong to the verb: "come over".

    Only an article and the preposition that the date is written with are replaced.
    """
    kept = text[period.start : period.end].split()[: -len(period.words.split())]
    has_article = bool(kept) and kept[-1].lower() in _NOT_AFTER
    kept = kept[:-1] if has_article else kept
    if kept and kept[-1].lower() == preposition:
        kept, preposition = kept[:-1], kept[-1]
    elif kept and kept[-1].lower() not in _WRITTEN:
        if not has_article and period.grain > Grain.WEEKEND:
            return ""  # "came over last week"
        if has_article or period.grain is not Grain.DAY:
            preposition = ""
    return " ".join(filter(None, (*kept, preposition, noun)))


def _filled(
    period: Period, templates: Mapping[Grain, str], seasons: Sequence[str] = _SEASONS
) -> str:
    """Return the date of a period, its middle if it is a window, in the words of a language."""
    assert period.first is not None
    assert period.after is not None
    first, last, grain = period.first, period.after - timedelta(days=1), period.grain
    years = f"{first.year}" if first.year == last.year else f"{first.year}/{last.year}"
    if period.approximate:
        first = period.middle
        grain = grain if grain in (Grain.YEAR, Grain.MONTH) else Grain.DAY
    return templates[grain].format(
        d=first.day, m=first.month, y=first.year, month=f"{first:%B}", part=period.part,
        season=seasons[first.month // 3 % 4], years=years, first=first.isoformat(), last=last,
    )  # fmt: skip


_PLAIN = {
    Grain.HOUR: "{first} {part}", Grain.PART: "{first} {part}", Grain.DAY: "{first}",
    Grain.WEEKEND: "{first}/{last}", Grain.WEEK: "{first}/{last}", Grain.MONTH: "{first:.7}",
    Grain.SEASON: "{season} {years}", Grain.YEAR: "{first:.4}",
}  # fmt: skip
_ENGLISH = {
    Grain.PART: "on the {part} of {d} {month} {y}", Grain.DAY: "on {d} {month} {y}",
    Grain.WEEKEND: "on the weekend of {d} {month} {y}",
    Grain.WEEK: "in the week of {d} {month} {y}", Grain.MONTH: "in {month} {y}",
    Grain.SEASON: "in {season} {years}", Grain.YEAR: "in {y}",
}  # fmt: skip
_WRITTEN = {template.partition(" ")[0] for template in _ENGLISH.values()}
_JAPANESE = {
    Grain.PART: "{y}年{m}月{d}日の{part}", Grain.DAY: "{y}年{m}月{d}日",
    Grain.WEEKEND: "{y}年{m}月{d}日の週末", Grain.WEEK: "{y}年{m}月{d}日の週",
    Grain.MONTH: "{y}年{m}月", Grain.SEASON: "{y}年の{season}", Grain.YEAR: "{y}年",
}  # fmt: skip
_PARTS = {"morning": "朝", "afternoon": "午後", "evening": "夜", "night": "夜"}
_NO_PARTICLE = re.compile(r"$|[、,。にのはもかまがをへとだでよ]").match


def _japanese(text: str, period: Period) -> str:
    """Return the date, with a particle if the words had none; "" if it is a duration or an age."""
    if period.role is not Role.AT or period.grain is Grain.HOUR:
        return ""
    written = _filled(period._replace(part=_PARTS.get(period.part, "")), _JAPANESE, "冬春夏秋")
    about = "ごろ" if period.approximate else ""
    return written + about + ("" if _NO_PARTICLE(text[period.end :]) else "に")


_WRITERS = {"en": _english, "ja": _japanese}

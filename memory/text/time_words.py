"""The time words of each language, and how a text becomes a row of their sorts.

`time_words.json` has the words. To add a language with spaces between its words, enter it there.
Japanese has no spaces, so one pattern finds its words. What stands before and after them decides
whether they are words of time: 明日香 and 今日子 are names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any

from memory.text.vocabulary import PAST

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
            for follower in islice(
                (after for after in words[position + 1 :] if after not in self.between), self.reach
            )
        )

    @cached_property
    def _like(self) -> Callable[[str], object]:
        return re.compile(rf"\b(?:{self.like})\b").search

    @cached_property
    def _participles_like(self) -> Callable[[str], object]:
        return re.compile(self.participles_like).fullmatch


@dataclass(frozen=True)
class TimeWords:
    """The time words of one language, in lower case.

    `table`: for each sort of `SORTS`, pairs of what words mean and the words.
    """

    table: Mapping[str, list[tuple[Any, list[str]]]]
    common: frozenset[str] = frozenset()
    """Frequent small words by which the language is recognised."""
    relative: frozenset[str] = frozenset()
    """The relative words of a language without a table."""
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
            for value, words in meanings
            for word in words
        ]

    @cached_property
    def triggers(self) -> frozenset[str]:
        """The words of time expressions, by which the language is recognised."""
        parts = (part for word in self._starting for part in word.split())
        return self.relative.union(part for part in parts if len(part) > 2)

    @cached_property
    def needed(self) -> frozenset[str]:
        """Words of which each text with a time expression has one, if it has no number."""
        longest = (max(word.split(), key=len) for word in self._starting)
        return self.relative.union(word for word in longest if len(word) > 2)

    @cached_property
    def _starting(self) -> list[str]:
        return [word for word, (sort, _) in self._entries if sort in _TRIGGERS]


_TRIGGERS = "DTKUMSHZERGe"


def _read(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: frozenset(value) if isinstance(value, list)
        else Verbs(**_read(value)) if isinstance(value, dict) and name != "table"
        else value
        for name, value in fields.items()
    }  # fmt: skip


LANGUAGES: dict[str, TimeWords] = {
    code: TimeWords(**_read(fields))
    for code, fields in json.loads(
        Path(__file__).with_name("time_words.json").read_text(encoding="utf-8")
    ).items()
}
"""The time words by the code of the language, such as "en"."""
_ENGLISH = LANGUAGES["en"]
LANGUAGES["en"] = replace(
    _ENGLISH,
    past=replace(_ENGLISH.past, words=_ENGLISH.past.words.union(PAST)),
    perfect=replace(_ENGLISH.perfect, participles=_ENGLISH.perfect.participles.union(PAST)),
)
_JAPANESE = LANGUAGES["ja"]

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
        self._find_spans = spans

    @cached_property
    def is_upper(self) -> bool:
        return self.text.isupper()

    def value(self, position: int) -> Any:
        return self._entries[position][1]

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """The start and the end of each word in the text, found when they are needed."""
        return self._find_spans()

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


# --- Japanese -------------------------------------------------------------------------------------

_NUMBER = r"[0-9０-９]{1,3}|[一二三四五六七八九十]{1,3}|数"
_UNITS = {
    "日": "day", "週間": "week", "週": "week", "年": "year", "時間": "hour", "分": "minute"
} | dict.fromkeys(("か月", "ヶ月", "カ月", "ヵ月", "ケ月", "箇月"), "month")  # fmt: skip
_COUNTED = "|".join(_UNITS)
_WEEKDAYS = "月火水木金土日"
_BEFORE_TA = "っいんしえけべめせれてきじぎちりみび"
_FOLLOWED = r"(?=[にのはもがをとへまで、。\s]|から|朝|夜|午|晩|夕|休|$)"


def _bounded(word: str) -> str:
    """Return the pattern for a word: きょう is not in べんきょう, nor 前の日 in 前の日曜日."""
    if word in ("きょう", "きのう", "あした"):
        return rf"(?<![ぁ-ん]){word}(?=[はもにの、一-龠ァ-ヴ])"
    return f"{word}(?!曜)" if word.endswith("日") else word


_IN_KANA = [
    *(word for word in _JAPANESE.words if "ぁ" <= word[0] <= "ん"),
    *"あと と言 と話 と聞 と語 と述 と思 との らし ずれ つも だろ でし たい まし".split(),
    *(f"{sign}た" for sign in _BEFORE_TA),
]
_FIRST = "".join(sorted({word[0] for word in _IN_KANA}))
_SECOND = "".join(sorted({word[1:2] for word in _IN_KANA}))
_FIRST_HAN = "".join({word[0] for word in _JAPANESE.words if not "ぁ" <= word[0] <= "ん"})
_STARTS = (
    rf"[{_FIRST_HAN}0-9０-９〇一二三四五六七八九十数半{_WEEKDAYS}春夏秋冬誕記生毎延変決予移]"
    r"|[。！？!?\n、,（）()「」『』]|[一-龠](?=んだ)"
    rf"|[{_FIRST}](?=[{_SECOND}])"
    rf"|[{''.join(word for word in _IN_KANA if len(word) == 1)}]"
)
"""Matches where a word may start, so that most places of a text are passed over fast."""
_JAPANESE_WORD = re.compile(
    rf"(?={_STARTS})(?:"
    rf"(?P<year>[0-9]{{4}}|[〇一二三四五六七八九]{{4}})年(?P<year_since>から|以来)?(?!生まれ)"
    rf"|(?P<month>{_NUMBER})月(?!曜)"
    rf"|(?P<left>あと)?(?P<count>{_NUMBER}|半(?=年))(?P<unit>{_COUNTED})(?P<half>半)?"
    r"(?:間|ほど|くらい|ぐらい)*(?P<side>前|後(?!半)|(?<=.)(?=で))(?P<since>から)?"
    rf"|(?P<day>{_NUMBER})日(?!間|本|前|後|曜)"
    rf"|(?P<age>{_NUMBER})[歳才](?!に|の?[時頃とこ]|の誕|で(?!す)|から|まで|以|未)"
    rf"|(?P<weekday>[{_WEEKDAYS}])曜日?{_FOLLOWED}"
    r"|(?P<report>と(?:言|話|聞|語|述べ|思)|とのこと|らしい)|(?P<again>誕生日|記念日|生まれ|毎年)"
    r"|(?P<doubt>延期|変更|変わっ|決ま|予約|移っ|ずれ)"
    r"|(?P<future>予定|つもり|だろう|でしょう|たい(?=[。、と]|$))"
    rf"|(?P<past>(?:[{_BEFORE_TA}]た|でした|ました|[一-龠]んだ)(?=[。！!\s」]|$))"
    rf"|(?P<season>[春夏秋冬]){_FOLLOWED}"
    r"|(?P<stop>[。！？!?\n]+)|(?P<comma>[、,（）()「」『』])|(?P<listed>%s))"
    % "|".join(map(_bounded, sorted(_JAPANESE.words, key=len, reverse=True)))
)
_HAN = {sign: value for value, sign in enumerate("〇一二三四五六七八九")}


def japanese_row(text: str) -> WordRow:
    """Read a Japanese text; what lies between two words of the table is one other word."""
    words: list[tuple[str, tuple[str, Any], tuple[int, int]]] = []
    end = 0
    for found in _JAPANESE_WORD.finditer(text):
        if found.start() > end:
            words.append((text[end : found.start()], (".", None), (end, found.start())))
        end = found.end()
        surface = _MARKS.get(found.lastgroup or "", found[0])
        words += [(surface, entry, found.span()) for entry in _sorts(found)]
    if end < len(text):
        words.append((text[end:], (".", None), (end, len(text))))
    spans = [word[2] for word in words]
    return WordRow(text, _JAPANESE, [w[0] for w in words], [w[1] for w in words], lambda: spans)


_MARKS = {name: name for name in ("report", "again", "doubt", "future", "past")}


def _sorts(found: re.Match[str]) -> Iterator[tuple[str, Any]]:
    """Yield the sorts of a match, each with its value."""
    if found["count"]:
        yield from _count_sorts(found)
    elif found["year"]:
        yield ("C" if found["year_since"] else "L"), ""
        yield "Y", _number(found["year"])
    elif found["age"]:
        yield from (("N", _number(found["age"])), ("U", "year"), ("O", ""))
    elif found["month"] or found["day"]:
        yield ("M" if found["month"] else "n"), _number(found["month"] or found["day"])
    elif found["weekday"]:
        yield "K", _WEEKDAYS.index(found["weekday"])
    elif found["season"]:
        yield _JAPANESE.words[found["season"]]
    elif found["listed"]:
        yield _JAPANESE.words[found["listed"]]
    else:
        yield {"stop": ";", "comma": ","}.get(found.lastgroup or "", "."), None


def _count_sorts(found: re.Match[str]) -> Iterator[tuple[str, Any]]:
    is_vague = found["count"] == "数" or found["half"]
    if found["count"] == "半":
        yield "h", ""
        yield "U", "year"
        yield "A" if found["side"] == "前" else "J", ""
        return
    if not found["side"]:
        yield ("I" if found["left"] else "."), ""
    yield ("V", "") if is_vague else ("N", _number(found["count"]))
    yield "U", _UNITS[found["unit"]]
    if found["side"]:
        yield ("A" if found["side"] == "前" else "J"), ""
    if found["since"]:
        yield "c", ""


def _number(number: str) -> int:
    if number.isdecimal():
        return int(number)
    if len(number) == 4:  # 二〇二六
        return int("".join(str(_HAN[sign]) for sign in number))
    tens, ten, ones = number.rpartition("十")
    return (_HAN.get(tens, 1) * 10 if ten else 0) + _HAN.get(ones, 0)

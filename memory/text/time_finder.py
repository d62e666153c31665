"""Find the time expressions of a text, and resolve them against the moment it was said.

Each word of the text becomes a letter for its sort (`SORTS`), and one pattern over the letters
finds the expressions, the same in each language: "last week" is WU, "la semaine dernière" is LUW.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime

from memory.text.boundary import guarded
from memory.text.languages import has_cjk, is_japanese
from memory.text.period import DAY, Grain, Period, Role
from memory.text.time_readers import Expression, period_of
from memory.text.time_words import LANGUAGES, TimeWords, WordRow, japanese_row, latin_row


def _own_day(_text: str, said: datetime | None) -> tuple[Period, ...]:
    """Return a period by which a text counts as told on its day alone."""
    day = said.date() if said else None
    return (Period("", 0, 0, Role.TEXT, Grain.DAY, day, day, certain=False),)


@guarded(_own_day)
def periods(text: str, said: datetime | None) -> tuple[Period, ...]:
    """Return the time expressions of a text, in order.

    `said`: the moment from which relative words count, in the offset of the speaker, because the
    local day counts; None if it is unknown. Then words are compared as words, and only full dates
    have a period.

    >>> from datetime import datetime
    >>> [tomorrow] = periods("Mia flies to Rome tomorrow.", datetime(2026, 1, 20))
    >>> tomorrow.words, str(tomorrow.first)
    ('tomorrow', '2026-01-21')
    """
    if not text.isascii() and (has_cjk(text) or _HANGUL(text)):
        code = code_of(text)
        row = japanese_row(text) if code == "ja" else _OTHERS[code].search(text)
    else:
        words = _WORDS(lowered := text.lower())
        un_an = {"un", "an"}.issubset(words)  # alone, "an" would be a trigger of English texts
        if _NEEDED.isdisjoint(words) and not un_an and not _HAS_NUMBER(text):
            return ()
        table = _LATIN[_language(words)]
        row = latin_row(text, lowered, table) if table.table else _relative_word(text, table, words)
    if not isinstance(row, WordRow):
        return (_day_of_saying(row, said),) if row else ()
    matches = list(_EXPRESSION.finditer(row.line))
    if not matches:
        return ()
    quotes = [quote.span() for quote in _QUOTE.finditer(text)] if _MAY_QUOTE(text) else []
    quotes = [(start, end) for start, end in quotes if end - start < len(text.strip())]
    found = (
        period_of(Expression(row, said, quotes, *m.span()), m.lastgroup or "") for m in matches
    )
    return tuple(period for period in found if period)


def _day_of_saying(word: re.Match[str], said: datetime | None) -> Period:
    first = after = said.date() if said else None
    if first and first < date.max:
        after = first + DAY
    where = (word[0].lower(), *word.span())
    return Period(*where, Role.TEXT, Grain.DAY, first, after, certain=False)


_ALONE = {
    "habit": r"Q[QLINo]{0,3}[DKMPSUHkp]{1,3}|[LI]{0,3}(?:NK|Kp|k[Pp]?|p)",
    "event": r"[LI]{0,3}(?:e|[Ew][KPDMSH]|E[NV]?U)|o[NV]U[AJ]|[NV]Ux|N?[UP]x",
    "counted": r"C?a[NVh]{1,3}Uq?|[NVh]{1,3}UAc?|I[NVh]{1,3}U|[NVh]{1,3}UJ",
    "since": r"CL?[NVh]{1,3}U",
    "lasting": r"F[NVh]{1,3}U",
    "age": r"BN(?:UO|(?=[,;&]|$))|jNU(?!o)O?|gNU?|L?NUO",
    "vague": r"[RG]",
}
_WITH_PREPOSITION = {
    "full_week": r"U(?:oL?)?(?:K[,L]?)?(?:X|No?Mo?,?Y|MN,?Y)|(?:X|Yo?Mo?n)U",
    "date_week": r"U(?:oL?)?(?:K[,L]?)?(?:No?M|MN)|Mo?nU",
    "full": r"(?:KP?[,L]?)?(?:X|No?Mo?,?Y|MN,?Y|Yo?Mo?n)",
    "year": r"[MSH]o?Y|Yo?[MSH]|(?<=[CLIbxF])Y",
    "within": r"(?:[KMSHn]P?[oLI,]{0,3}|NoL?)(?:WU|UW|Z)|(?:WU|UW|Z)o?[KMSHn]P?",
    "date": r"(?:KP?[,L]?)?(?:No?M|(?<!I)MN|Mo?n)",
    "several": r"W[NV]U|[NV]?w[NV]?U",
    "weekday": r"WKo?P?|KWo?P?",
    "unit": r"WU|UW|Z",
    "named": r"W[MSH]|[MSH]W",
    "part": r"WP|T",
    "day": r"[NV]UbD|DINU|D(?:o?P)?",
    "bare_weekday": r"K(?:o?P)?",
    "bare": r"[MSH]|(?<=[LIbxF])U",
}
"""The expressions, in letters of `SORTS`; where two begin at one word, the first counts."""


def _named(patterns: Mapping[str, str]) -> str:
    return "|".join(f"(?P<{name}>{letters})" for name, letters in patterns.items())


_EXPRESSION = re.compile(
    f"(?=[^.;,&])(?:{_named(_ALONE)}|[CLIbxF]{{0,5}}+(?:{_named(_WITH_PREPOSITION)}))"
)
_MAY_QUOTE = re.compile(r"[\"“„«「『'‘]").search
_QUOTE = re.compile(
    r"\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|„[^“”\n]{1,300}[“”]|«[^»\n]{1,300}»"
    r"|「[^」\n]{1,300}」|『[^』\n]{1,300}』|(?<!\w)['‘][^'’\n]{1,300}['’](?!\w)"
)


# --- the language of a text -----------------------------------------------------------------------

_LATIN = {code: words for code, words in LANGUAGES.items() if code != "ja"}
_CHINESE = re.compile(
    "[昨今明后後前][天晚早日年]|[上下这這本][个個]?(?:周|週|星期|礼拜|禮拜|月)|去年|来年|来月|来週|先週|先月|今週|今月"
    "|(?:星期|礼拜|禮拜|周|週)[一二三四五六日天]|[天周週年月时時]前|刚才|剛才"
)
_KOREAN = re.compile(
    "어제|오늘|내일|모레|그제|그저께|지난|다음 ?주|다음 ?달|이번 ?주|이번 ?달"
    "|작년|올해|내년|어젯밤|오늘밤|[일주달년] ?전"
    "|[월화수목금토일]요일"
)


def _relative_word(text: str, table: TimeWords, words: list[str]) -> re.Match[str] | None:
    found = "|".join(table.relative.intersection(words))
    return re.search(rf"\b(?:{found})\b", text, re.IGNORECASE) if found else None


def code_of(text: str) -> str:
    """Return the code of the text's language, such as "en"; "en" if nothing shows another."""
    if has_cjk(text):
        return "ja" if is_japanese(text) else "zh"
    return "ko" if _HANGUL(text) else _language(_WORDS(text.lower()))


_OTHERS = {"zh": _CHINESE, "ko": _KOREAN}
_WORDS = re.compile(r"[^\W\d_]+").findall
_HAS_NUMBER = re.compile(r"\d").search
_HANGUL = re.compile("[\uac00-\ud7a3]").search
_NEEDED = frozenset().union(*(table.needed for table in _LATIN.values()))


def _language(words: Sequence[str]) -> str:
    """Return the code of the language of which most words are known; English if none is.

    A time word that no other language has counts three times.
    """
    weights = dict.fromkeys(_LATIN, 0)
    for word in set(words):
        for code, weight in _EVIDENCE.get(word, ()):
            weights[code] += weight
    return max(weights, key=weights.__getitem__)


def _evidence() -> dict[str, list[tuple[str, int]]]:
    """Return for each word the languages that have it, each with the word's weight."""
    known = {code: table.common | table.triggers for code, table in _LATIN.items()}
    evidence: dict[str, list[tuple[str, int]]] = {}
    for word in frozenset().union(*known.values()):
        codes = [code for code in known if word in known[code]]
        own = len(codes) == 1 and word in _LATIN[codes[0]].triggers
        evidence[word] = [(code, 3 if own else 1) for code in codes]
    return evidence


_EVIDENCE = _evidence()

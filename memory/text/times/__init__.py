"""Time words of each language, and the arithmetic of the calendar.

To add a language with spaces between its words, write a module with one `TimeWords` and enter it in
`LATIN`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from memory.text.cleaning import has_cjk, is_japanese
from memory.text.times.english import ENGLISH
from memory.text.times.french import FRENCH
from memory.text.times.german import GERMAN
from memory.text.times.japanese import japanese_row
from memory.text.times.others import CHINESE, KOREAN, LATIN_OTHERS
from memory.text.times.spanish import SPANISH
from memory.text.times.words import Row, TimeWords, latin_row

LATIN: Mapping[str, TimeWords] = {"en": ENGLISH, "de": GERMAN, "fr": FRENCH, "es": SPANISH}


def row_of(text: str, language: str | None) -> Row | tuple[int, int] | None:
    """Read a text with the table of its language; return None if it has no word of time.

    Return the place of a relative time word if the language has no table.
    """
    code = language or ("" if _has_no_time(text) else code_of(text))
    if not code:
        return None
    if code == "ja":
        return japanese_row(text)
    if code in LATIN:
        return latin_row(text, LATIN[code])
    if code in _OTHERS:
        return _first(_OTHERS[code], text)
    relative = LATIN_OTHERS[code][1].intersection(_WORDS(text.lower()))
    pattern = rf"\b(?:{'|'.join(relative)})\b"
    return _first(re.compile(pattern, re.IGNORECASE), text) if relative else None


def code_of(text: str) -> str:
    """Return the code of the text's language, such as "en"; "en" if nothing shows another."""
    if has_cjk(text):
        return "ja" if is_japanese(text) else "zh"
    if not text.isascii() and _HANGUL(text):
        return "ko"
    return _language(set(_WORDS(text.lower())))


def _has_no_time(text: str) -> bool:
    """Return whether a text in Latin letters certainly has no word of time."""
    if not text.isascii() and (has_cjk(text) or _HANGUL(text)):
        return False
    return _TRIGGERS.isdisjoint(_WORDS(text.lower())) and not _HAS_NUMBER(text)


def _first(pattern: re.Pattern[str], text: str) -> tuple[int, int] | None:
    found = pattern.search(text)
    return found.span() if found else None


_WORDS = re.compile(r"[^\W\d_]+").findall
_OTHERS = {"zh": CHINESE, "ko": KOREAN}
_HAS_NUMBER = re.compile(r"\d").search
_HANGUL = re.compile("[\uac00-\ud7a3]").search
_TRIGGERS = frozenset().union(
    *(table.triggers for table in LATIN.values()), *(words for _, words in LATIN_OTHERS.values())
)


def _language(words: set[str]) -> str:
    """Return the code of the language of which most words are known; English if none is.

    A time word that no other language has counts three times.
    """
    return max(_EVIDENCE, key=lambda code: _weight(words, *_EVIDENCE[code]))


def _weight(words: set[str], known: frozenset[str], own: frozenset[str]) -> int:
    return len(known & words) + 2 * len(own & words)


def _evidence() -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """Return for each language its words, and those time words that no other one has."""
    times = {code: table.triggers for code, table in LATIN.items()}
    times |= {code: relative for code, (_, relative) in LATIN_OTHERS.items()}
    known = {code: table.common | table.triggers for code, table in LATIN.items()}
    known |= {code: frequent | relative for code, (frequent, relative) in LATIN_OTHERS.items()}
    return {
        code: (known[code], own.difference(*(known[name] for name in known if name != code)))
        for code, own in times.items()
    }


_EVIDENCE = _evidence()

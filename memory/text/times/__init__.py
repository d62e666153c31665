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
from memory.text.times.japanese import JAPANESE, japanese_words
from memory.text.times.others import CHINESE, KOREAN, LATIN_OTHERS
from memory.text.times.spanish import SPANISH
from memory.text.times.words import TimeWords, Word, latin_words

LATIN: Mapping[str, TimeWords] = {"en": ENGLISH, "de": GERMAN, "fr": FRENCH, "es": SPANISH}


def time_words(text: str, language: str | None) -> tuple[TimeWords, list[Word]] | Word | None:
    """Return a language's table, and the text as its words; None if nothing in it is about time.

    Return a single word if the text has a relative time word of a language without tables.
    """
    if has_cjk(text) or language == "ja":
        if language == "ja" or is_japanese(text):
            return JAPANESE, japanese_words(text)
        return _first(CHINESE, text)
    if not text.isascii() and _HANGUL(text):
        return _first(KOREAN, text)
    words = set(_WORDS(text.lower()))
    if words.isdisjoint(_TRIGGERS) and not _HAS_NUMBER(text):
        return None
    code = language or _language(words)
    if code in LATIN:
        return LATIN[code], latin_words(text, LATIN[code])
    relative = LATIN_OTHERS[code][1] & words
    return (
        _first(re.compile(rf"\b(?:{'|'.join(relative)})\b", re.IGNORECASE), text)
        if relative
        else None
    )


def _first(pattern: re.Pattern[str], text: str) -> Word | None:
    found = pattern.search(text)
    return Word(found[0].lower(), *found.span(), ".", None) if found else None


_WORDS = re.compile(r"[^\W\d_]+").findall
_HAS_NUMBER = re.compile(r"\d").search
_HANGUL = re.compile("[\uac00-\ud7a3]").search
_TRIGGERS = frozenset().union(
    *(table.triggers for table in LATIN.values()), *(words for _, words in LATIN_OTHERS.values())
)


def _language(words: set[str]) -> str:
    """Return the code of the language of which most words are known; English if none is."""
    return max(_EVIDENCE, key=lambda code: _weight(words, *_EVIDENCE[code]))


def _weight(words: set[str], common: frozenset[str], own: frozenset[str]) -> int:
    return len(common & words) + 2 * len(own & words)


def _evidence() -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """Return for each language its frequent words, and the time words that no other one has."""
    common = {code: table.common for code, table in LATIN.items()}
    common |= {code: frequent for code, (frequent, _) in LATIN_OTHERS.items()}
    times = {code: table.triggers for code, table in LATIN.items()}
    times |= {code: relative for code, (_, relative) in LATIN_OTHERS.items()}
    return {
        code: (
            common[code],
            own.difference(*(common[name] | times[name] for name in common if name != code)),
        )
        for code, own in times.items()
    }


_EVIDENCE = _evidence()

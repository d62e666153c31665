"""Which language a text is in, as far as it decides what may be added to it. Pure."""

from __future__ import annotations

import re
from enum import Enum

from memory.text.vocabulary import ENGLISH, ENGLISH_ONLY, GERMAN, OTHER_LANGUAGES

_WORDS = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*").findall


class Language(Enum):
    """The languages whose small words are known, and the rest."""

    ENGLISH = "English"
    GERMAN = "German"
    UNKNOWN = "unknown"


def words_of(text: str) -> frozenset[str]:
    """Its words in lower case; the month is no modal verb."""
    return frozenset(word if word == "May" else word.casefold() for word in _WORDS(text))


def language_of(words: frozenset[str]) -> Language:
    """The language of these words; unknown where small words of another stand among them."""
    if not words.isdisjoint(GERMAN) and words.isdisjoint(ENGLISH_ONLY):
        return Language.GERMAN
    known = not words.isdisjoint(ENGLISH) and words.isdisjoint(OTHER_LANGUAGES)
    return Language.ENGLISH if known else Language.UNKNOWN

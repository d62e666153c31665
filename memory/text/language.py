"""Which script and which language a text is written in, and its sentences."""

from __future__ import annotations

import re
from enum import Enum

_CJK = re.compile(
    "[\u3005\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U000323af]"
)
_KANA = re.compile("[\u3041-\u30fa]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*|\n+")
_WORDS = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*").findall


def has_cjk(text: str) -> bool:
    """Whether it holds a character of Japanese or Chinese (kana or Han)."""
    return not text.isascii() and _CJK.search(text) is not None


def is_japanese(text: str) -> bool:
    """Whether it holds kana, and so is Japanese."""
    return not text.isascii() and _KANA.search(text) is not None


def sentences(text: str) -> list[str]:
    """Cut a text of any script into sentences, each with its final mark."""
    return [sentence.strip() for sentence in _SENTENCE_END.split(text.strip()) if sentence.strip()]


class Language(Enum):
    """The languages whose small words are known, and the rest."""

    ENGLISH = "English"
    GERMAN = "German"
    JAPANESE = "Japanese"
    OTHER = "other"


_ENGLISH = frozenset(
    "the and of to for with from has have had he she his her they their this that at my you your "
    "it an are been not who which by will i i'm it's its was is in a on as be were him them "
    "while because although during before after since doesn't don't didn't isn't wasn't can't "
    "won't never".split()
)
_NOT_ENGLISH = frozenset(
    "el los las una uno del y por para está es en le les des du et est une dans avec il elle ne "
    "je qui het een niet zijn ik voor de di che non è gli della nel os um uma não em och att det "
    "är jag ett inte og ikke jeg af på nie jest się con les sus och som til hij zij bij ook".split()
)
_ENGLISH_ALONE = frozenset("the a of and with to for is he she they i".split())
"""English words that are no words of the languages in `_SMALL_WORDS` ("in" and "hat" are)."""
_SMALL_WORDS = {
    Language.GERMAN: frozenset(
        "der dem eine einen einem einer eines und ist nicht ich auf mit für wird hat sind einem "
        "zum zur vom beim im ein wurde wurden".split()
    ),
}
"""Words that show another language, where no word of `_ENGLISH_ALONE` stands."""


def language_of(text: str) -> Language:
    """Return the language that the small words of a text show; OTHER where they are of several."""
    words = {word if word == "May" else word.casefold() for word in _WORDS(text)}
    if words.isdisjoint(_ENGLISH_ALONE):
        for language, small_words in _SMALL_WORDS.items():
            if not words.isdisjoint(small_words):
                return language
    is_english = not words.isdisjoint(_ENGLISH) and words.isdisjoint(_NOT_ENGLISH)
    return Language.ENGLISH if is_english and not has_cjk(text) else Language.OTHER

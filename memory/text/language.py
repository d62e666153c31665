"""Detect script and language, cut texts into sentences, and find base forms of English words."""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from memory.text.vocabulary import IRREGULAR_PLURALS, NOT_INFLECTED, PAST, SPELLINGS

_CJK = re.compile(
    "[\u3005\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U000323af]"
)
_KANA = re.compile("[\u3041-\u30fa]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*|\n+")
_WORDS = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*").findall


def has_cjk(text: str) -> bool:
    """Return whether the text has a Japanese or Chinese character (kana or Han)."""
    return not text.isascii() and _CJK.search(text) is not None


def is_japanese(text: str) -> bool:
    """Return whether the text has kana, which only Japanese uses."""
    return not text.isascii() and _KANA.search(text) is not None


def sentences(text: str) -> list[str]:
    """Split a text of any script into sentences; each keeps its final punctuation mark."""
    return [sentence.strip() for sentence in _SENTENCE_END.split(text.strip()) if sentence.strip()]


class Language(Enum):
    """The languages that can be detected; OTHER stands for every other language."""

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
"""English function words that no language of `_SMALL_WORDS` has.

For example, "in" is left out, because it is German too.
"""
_SMALL_WORDS = {
    Language.GERMAN: frozenset(
        "der dem eine einen einem einer eines und ist nicht ich auf mit für wird hat sind einem "
        "zum zur vom beim im ein wurde wurden".split()
    ),
}
"""The function words by which each language is detected.

They count only if the text has no word of `_ENGLISH_ALONE`.
"""


def language_of(text: str) -> Language:
    """Return the language of a text, detected by its function words.

    The result is never `JAPANESE`. It is OTHER in three cases: the text has no function word of a
    known language; it also has function words of an unknown language; or it is English with
    Japanese or Chinese characters.
    """
    words = {word if word == "May" else word.casefold() for word in _WORDS(text)}
    if words.isdisjoint(_ENGLISH_ALONE):
        for language, small_words in _SMALL_WORDS.items():
            if not words.isdisjoint(small_words):
                return language
    is_english = not words.isdisjoint(_ENGLISH) and words.isdisjoint(_NOT_ENGLISH)
    return Language.ENGLISH if is_english and not has_cjk(text) else Language.OTHER


# --- plain forms of English words -----------------------------------------------------------------

_VOWEL = re.compile("[aeiouy]")
_DOUBLED = re.compile(r"([bdfgklmnprtvz])\1$")
_KEEP_DOUBLE = ("all", "ell", "ill", "oll", "ull", "add", "zz", "ff")
_TWO_VOWELS = re.compile(r"(?<!q)[aeiou][aeiou][^aeiou]$")
_ONE_SYLLABLE = re.compile(r"^[^aeiou]*[aiou][bdfgklmnprt]$")
_LOST_E = re.compile(
    r"(?:[cuv]|[^z]z|[aeiounr]s|[rd]g|[aeiou]g|(?:ch|rr)ang|[^aeiouylr]l"  # dance, argue, rinse
    r"|[^e]at|creat|vit|cit|nit|[uo]t|plet|pet|[iuoa]r|[bfm]in|u[md]|i[bdz]|ap|ast)$"  # create
)
_KEEPS_ITS_END = re.compile(r"(?:it(?<![vcn]it)|er|en|on|el|al|op|cus)$")


class PlainForm(NamedTuple):
    """A word in its dictionary form.

    `past`: whether the word in the text was a past tense or a past participle.
    """

    word: str
    past: bool = False


@lru_cache(maxsize=32_768)
def plain_form(word: str) -> PlainForm:
    """Return the dictionary form of an English word: "slice" for "slicing" and "sliced".

    `word` must be in lower case. Only endings of number, person and tense are removed. A stemmer
    would also remove other endings. Words with different meanings, such as "import" and
    "important", would then become equal, and a memory might be retired wrongly.
    """
    if word in PAST:
        return PlainForm(PAST[word], past=True)
    if word in IRREGULAR_PLURALS:
        return PlainForm(IRREGULAR_PLURALS[word])
    if len(word) < 4 or word in NOT_INFLECTED or not word.isascii():
        return PlainForm(SPELLINGS.get(word, word))
    plain = _without_ending(word)
    return plain._replace(word=SPELLINGS.get(plain.word, plain.word))


def _without_ending(word: str) -> PlainForm:
    if word.endswith("ing") and _VOWEL.search(word[:-3]):
        return PlainForm(_restored(word[:-3]))
    if word.endswith("ied"):
        return PlainForm(word[:-3] + "y", past=True)
    if word.endswith("ed") and not word.endswith("eed") and _VOWEL.search(word[:-2]):
        return PlainForm(_restored(word[:-2]), past=True)
    return PlainForm(_singular(word))


def _singular(word: str) -> str:
    """Return the word without the -s of a plural or of the third person."""
    if not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[: -2 if word.endswith(("sses", "shes", "ches", "xes", "zzes", "oes")) else -1]


def _restored(stem: str) -> str:
    """Return the verb from which -ing or -ed was cut off: "plan" for "plann", "hope" for "hop"."""
    if _DOUBLED.search(stem):
        return stem if stem.endswith(_KEEP_DOUBLE) else stem[:-1]
    if _ONE_SYLLABLE.search(stem):
        return stem + "e"
    if _KEEPS_ITS_END.search(stem) or (
        _TWO_VOWELS.search(stem) and stem[-1] not in "csvz" and stem != "creat"
    ):
        return stem
    return stem + "e" if _LOST_E.search(stem) else stem

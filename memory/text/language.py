"""Detect the script of a text, cut it into sentences, and find base forms of English words."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from memory.text.vocabulary import IRREGULAR_PLURALS, NOT_INFLECTED, PAST, SPELLINGS

_CJK = re.compile(
    "[\u3005\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U000323af]"
)
_KANA = re.compile("[\u3041-\u30fa]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*|\n+")


def has_cjk(text: str) -> bool:
    """Return whether the text has a Japanese or Chinese character (kana or Han)."""
    return not text.isascii() and _CJK.search(text) is not None


def is_japanese(text: str) -> bool:
    """Return whether the text has kana, which only Japanese uses."""
    return not text.isascii() and _KANA.search(text) is not None


def sentences(text: str) -> list[str]:
    """Split a text of any script into sentences; each keeps its final punctuation mark."""
    return [sentence.strip() for sentence in _SENTENCE_END.split(text.strip()) if sentence.strip()]


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
    if not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return PlainForm(word)
    if word.endswith("ies") and len(word) > 4:
        return PlainForm(word[:-3] + "y")
    two_letters = word.endswith(("sses", "shes", "ches", "xes", "zzes", "oes"))
    return PlainForm(word[: -2 if two_letters else -1])


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

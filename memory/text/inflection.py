"""The plain form of an English word, and whether its form is a past.

Only number, person and tense are removed. A stemmer would go on to join words of other meanings
(import, important), and retire the wrong memory.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from memory.text.vocabulary import IRREGULAR_PLURALS, NOT_INFLECTED, PAST, SPELLINGS

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
    """A word as a dictionary lists it; `past`: whether its form was a past."""

    word: str
    past: bool = False


def plain_form(word: str) -> PlainForm:
    """Return slice for `slicing`, slice and past for `sliced`; `word` is in lower case."""
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
    """Return the word without the s of the plural or of the third person."""
    if not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zzes", "oes")):
        return word[:-2]
    return word[:-1]


def _restored(stem: str) -> str:
    """Return the word of which -ing or -ed was cut: plan for `plann`, hope for `hop`."""
    if _DOUBLED.search(stem):
        return stem if stem.endswith(_KEEP_DOUBLE) else stem[:-1]
    if _ONE_SYLLABLE.search(stem):
        return stem + "e"
    if _KEEPS_ITS_END.search(stem) or (
        _TWO_VOWELS.search(stem) and stem[-1] not in "csvz" and stem != "creat"
    ):
        return stem
    return stem + "e" if _LOST_E.search(stem) else stem

"""Parse a text into what it states: content words in order, each with its preposition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from functools import lru_cache
from typing import NamedTuple

from memory.coverage.rewordings import PASSIVE, reworded
from memory.text import (
    EMPHASES,
    ENGLISH,
    JAPANESE,
    NOT,
    SHADES,
    STATED,
    Kind,
    Token,
    language_of,
    tokens,
    with_numbers_joined,
)


class Word(NamedTuple):
    """A word that has a meaning of its own, such as a noun, a verb, a number or a negation."""

    stated: str
    """The form for comparison: `key`, with " (past)" or " (ing)" added if the word has this form.

    All forms and synonyms of a word have the same `key`.
    """
    key: str
    surface: str
    role: str
    """The key of the preposition before the word, or of the Japanese particle after it; else ""."""
    joined: bool
    """Whether the word directly follows another `Word`, without a comma, article or preposition."""
    clause: int
    """The number of the clause that contains the word, from 0."""
    is_number: bool
    past: bool


class Parse(NamedTuple):
    """The statement of a text, in a form that can be compared with another text."""

    tokens: Sequence[Token]
    words: Sequence[Word]
    stated: Sequence[str]
    counts: Counter[str]
    negations: int
    turning: Set[tuple[str, bool]]
    """Words that change the whole statement, such as "might", as (key, is a past form)."""
    persons: Sequence[str]
    """The keys of the pronouns, in the order of the text."""
    shades: Sequence[tuple[str, str]]
    """Small words that matter, such as "very", as pairs (key, key of the word before it).

    The word before it is the last noun, verb or other word with a meaning of its own; "" if none.
    """
    asks: bool
    language: str
    """ENGLISH, JAPANESE, OTHER or a key of `GRAMMARS`; only English is reworded."""
    passive: bool
    """Whether a passive in the text was rewritten in the active voice.

    For "The ball was thrown by Mia", `words` has the order of "Mia threw the ball".
    """


@lru_cache(maxsize=16_384)
def parse(text: str, language: str = "") -> Parse:
    """Return what a text states; Japanese is cut at each change of script.

    `language`: as in `Parse`; by default it is recognised.
    """
    found = tokens(text)
    kinds = {token.kind for token in found}
    if Kind.NUMBER in kinds or Kind.SCALE in kinds:
        found = with_numbers_joined(found)
    keys = {token.key for token in found}
    language = language or (JAPANESE if Kind.PARTICLE in kinds else language_of(text))
    if language == ENGLISH:
        found = reworded(found, keys, owns="'" in text or "’" in text)
    words = _words(found)
    stated = [word.stated for word in words]
    return Parse(
        tokens=found,
        words=words,
        stated=stated,
        counts=Counter(stated),
        negations=sum([word.key == NOT for word in words]),
        turning={(token.key, token.past) for token in found if token.kind is Kind.TURNING},
        persons=[token.key for token in found if token.kind is Kind.PERSON],
        shades=[] if keys.isdisjoint(_SHADING) else _shades(found),
        asks=text.endswith(("?", "？")),
        language=language,
        passive=bool(found) and found[0] is PASSIVE,
    )


_SHADING = SHADES | EMPHASES


def _shades(found: Sequence[Token]) -> list[tuple[str, str]]:
    shades: list[tuple[str, str]] = []
    before, denied = "", False
    for key, kind, *_ in found:
        if kind in STATED:
            before, denied = key, denied or key == NOT
        elif kind is Kind.STOP or key == "but":
            denied = False
        elif kind is Kind.FILLER and (key in SHADES or (denied and key in EMPHASES)):
            shades.append((key, before))
    return shades


_NEW_CLAUSE = frozenset("and but who whom whose which that so".split())


def _words(found: Sequence[Token]) -> list[Word]:
    words: list[Word] = []
    role, joined, clause = "", False, 0
    for n, (key, kind, surface, past, _) in enumerate(found, start=1):
        if kind in STATED:
            is_ing = surface.endswith("ing") and not key.endswith("ing")  # not just "runs"
            stated = f"{key} (past)" if past else f"{key} (ing)" if is_ing else key
            words.append(
                Word(stated, key, surface, role, joined, clause, kind is Kind.NUMBER, past)
            )
            role, joined = "", True
        elif kind is Kind.GOVERNING and (
            n == len(found) or found[n].kind is Kind.STOP or found[n].key == "and"
        ):
            adverb = surface.casefold()
            words.append(Word(adverb, adverb, surface, "", True, clause, False, past))
            role, joined = "", True
        else:
            joined = False
            if kind is Kind.GOVERNING:
                role = key
            elif kind is Kind.PARTICLE and words:
                words[-1] = words[-1]._replace(role=key)
            elif kind is Kind.STOP or key in _NEW_CLAUSE:
                role, clause = "", clause + 1
    return words

"""A text as what it states: content words in order, each with what governs it.

Rewordings that change nothing are undone first, so that two texts can be laid beside each other:
the passive (the ball is thrown by Mia), a clause that only names a quality (a dog which is black),
"made of", "a few", "next to", an amount told as "a raise of 5 %".
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from memory.coverage.languages.japanese import japanese_tokens
from memory.coverage.rewordings import reworded
from memory.coverage.voice import PASSIVE
from memory.text import (
    EMPHASES,
    NOT,
    SHADES,
    STATED,
    Kind,
    Token,
    has_kana,
    tokens,
    with_numbers_joined,
)

Stated = str
"""What is stated, its key, marked where it is told as past: "make" is not "made"."""


class Word(NamedTuple):
    """One thing stated.

    `role`: what governs it (a preposition before it, a Japanese particle after it). `joined`:
    whether it follows the word before it with nothing between. `clause`: which clause it is in.
    `past`: whether its form tells a past.
    """

    key: str
    surface: str
    role: str
    joined: bool
    clause: int
    is_number: bool
    past: bool

    @property
    def stated(self) -> Stated:
        """What it states, marked where it is past."""
        return _as_past(self.key) if self.past else self.key


def _as_past(key: str) -> Stated:
    return f"{key} (past)"


class Parse(NamedTuple):
    """What a text states, ready to be compared.

    `tokens`: all of it, small words too, with rewordings undone. `keys`, `surfaces` and `pasts`:
    what most comparisons need of `words`, as columns. `shades`: fillers that state something all
    the same, each with the word before it. `passive`: whether a passive was undone, after which
    the phrases behind it may stand elsewhere.
    """

    tokens: Sequence[Token]
    keys: Sequence[str]
    surfaces: Sequence[str]
    pasts: Sequence[bool]
    negations: int
    turning: Set[tuple[str, bool]]
    persons: Sequence[str]
    shades: Sequence[tuple[str, str]]
    asks: bool
    japanese: bool
    passive: bool

    @property
    def words(self) -> list[Word]:
        """Each thing stated with what governs it: read anew each time, since few pairs need it."""
        return (_after_particles if self.japanese else _after_prepositions)(self.tokens)

    @property
    def stated(self) -> Sequence[Stated]:
        """What each word states, marked where it is past."""
        if True not in self.pasts:
            return self.keys
        told = zip(self.keys, self.pasts, strict=True)
        return [_as_past(key) if past else key for key, past in told]

    @property
    def spaceless(self) -> bool:
        """Whether its words are single characters, as Chinese is read."""
        return not self.japanese and any(
            len(key) == 1 and "\u3400" <= key <= "\u9fff" for key in self.keys
        )


@lru_cache(maxsize=16_384)
def parse(text: str) -> Parse:
    """What a text states."""
    return _parsed(text, None)


@lru_cache(maxsize=16_384)
def parse_by_dictionary(text: str) -> Parse:
    """The same, Japanese by a dictionary where one is installed."""
    found = japanese_tokens(text) if has_kana(text) else None
    return parse(text) if found is None else _parsed(text, found)


def _parsed(text: str, by_dictionary: list[Token] | None) -> Parse:
    found = tokens(text) if by_dictionary is None else by_dictionary
    kinds = set(map(_KIND, found))
    if Kind.NUMBER in kinds or Kind.SCALE in kinds:
        found = with_numbers_joined(found)
    keys = set(map(_KEY, found))
    japanese = Kind.PARTICLE in kinds or by_dictionary is not None
    if not japanese:
        found = reworded(found, keys, owns="'" in text or "’" in text)
        _tell_adverbs(found)
    stated = [token for token in found if token[1] in STATED]
    stated_keys = [token[0] for token in stated]
    return Parse(
        found,
        stated_keys,
        [token[2] for token in stated],
        [token[3] for token in stated],
        stated_keys.count(NOT) if Kind.NOT in kinds else 0,
        {(token[0], token[3]) for token in stated if token[1] is _TURNS},
        [token[0] for token in found if token[1] is Kind.PERSON] if Kind.PERSON in kinds else (),
        () if keys.isdisjoint(_ALL_SHADES) else _shades(found),
        text.endswith(("?", "？")),
        japanese,
        bool(found) and found[0] is PASSIVE,
    )


def _shades(found: Sequence[Token]) -> list[tuple[str, str]]:
    """Each filler that states something with the word stated before it; "" where there is none."""
    told: list[tuple[str, str]] = []
    before, denied = "", False
    for key, kind, _, _, _ in found:
        if kind in STATED and kind is not Kind.ADVERB:
            before, denied = key, denied or key == NOT
        elif kind is Kind.STOP or key == "but":
            denied = False
        elif kind is Kind.FILLER and (key in SHADES or (denied and key in EMPHASES)):
            told.append((key, before))
    return told


_ALL_SHADES = SHADES | EMPHASES
_KEY, _KIND = itemgetter(0), itemgetter(1)
_TURNS = Kind.TURNING
_NEW_CLAUSE = frozenset(
    "and but or while when where because who whom whose which that so if und aber".split()
)


def _after_prepositions(found: Sequence[Token]) -> list[Word]:
    words: list[Word] = []
    role, follows, clause = "", False, 0
    for key, kind, surface, past, _ in found:
        if kind in STATED:
            if kind is Kind.ADVERB:
                role, follows = "", True
            words.append(Word(key, surface, role, follows, clause, kind is Kind.NUMBER, past))
            role, follows = "", True
            continue
        follows = False
        if kind is Kind.GOVERNING:
            role = key
        elif kind is Kind.STOP or key in _NEW_CLAUSE:
            role, clause = "", clause + 1
    return words


def _tell_adverbs(found: list[Token]) -> None:
    """What governs nothing belongs to the verb: to kick a bucket over is not to kick the bucket."""
    governing = Kind.GOVERNING
    for place, token in enumerate(found):
        if token[1] is governing:
            behind = found[place + 1] if place + 1 < len(found) else _END
            if behind[1] is Kind.STOP or behind[0] == "and":
                found[place] = token._replace(key=token.surface.casefold(), kind=Kind.ADVERB)


_END = Token("", Kind.STOP, "")


def _after_particles(found: Sequence[Token]) -> list[Word]:
    words: list[Word] = []
    clause = 0
    for key, kind, surface, past, _ in found:
        if kind in STATED:
            last = words[-1] if words else None
            follows = last is not None and last.clause == clause and not last.role
            words.append(Word(key, surface, "", follows, clause, kind is Kind.NUMBER, past))
        elif kind is Kind.PARTICLE and words:
            words[-1] = words[-1]._replace(role=key)
        elif kind is Kind.STOP:
            clause += 1
    return words

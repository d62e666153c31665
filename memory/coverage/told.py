"""Compare a merged text with its sources word by word, in the order of the words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from memory.coverage.parse import parse
from memory.text import (
    IRREGULAR_PLURALS,
    NOT,
    Kind,
    Token,
    is_japanese,
    names_attribute,
    plain_form,
    tokens,
    with_numbers_joined,
)

_Word = tuple[str, str]
"""The key of a word, and "s" if it is in the plural; a number has the key "" and its value."""
_LEFT_OUT = frozenset({Kind.FILLER, Kind.STOP})


@lru_cache(maxsize=1_024)
def _read(text: str) -> Sequence[Token]:
    if is_japanese(text):
        return parse(text).tokens
    return with_numbers_joined(tokens(text))


@lru_cache(maxsize=1_024)
def _told(text: str) -> tuple[_Word, ...]:
    read = _read(text)
    return tuple(
        ("", token.key)
        if token.kind is Kind.NUMBER
        else (f"{token.key} (past)" if token.past else token.key, _plural(token.surface))
        for token, behind in zip(read, [*read[1:], None], strict=False)
        if token.kind not in _LEFT_OUT or (behind and behind.key in ("few", "little"))
    )


def _plural(surface: str) -> str:
    low = surface.casefold()
    regular = low.endswith("s") and low != plain_form(low).word
    return "s" if regular or low in IRREGULAR_PLURALS else ""


def _turning(text: str) -> Counter[str]:
    """Return the negations and the words that change a whole statement, such as "might"."""
    turning = (Kind.NOT, Kind.TURNING)
    return Counter(token.key for token in _read(text) if token.kind in turning)


def has_words_of(text: str, sources: Sequence[str]) -> bool:
    """Return whether a merged text has all words of its sources, oldest first, and no others.

    The words of each source must be in their order, unless the text has just the words of the
    newest source. Its negations must be those of the newest source. It may lack small words of an
    older source, and numbers for which the newest has others. A literal value needs a reader.
    """
    if any(map(names_attribute, sources)) or not set(_told(text)) <= set().union(
        *map(_told, sources)
    ):
        return False
    own, *theirs = (
        [key or value for key, value in _told(one) if key != "have"] for one in (text, *sources)
    )
    if not _in_their_order(theirs[-1], own) or _turning(sources[-1]) != _turning(text):
        return False
    exempt = own == theirs[-1]
    if outdated_values(text, sources):
        if _values(text) != _values(sources[-1]):
            return False
        own, *theirs = ([key for key, _ in _told(one)] for one in (text, *sources))
        exempt = False
    small = _SMALL.union(*map(_small, (text, *sources)))
    own, *theirs = ([word for word in one if word not in small] for one in (own, *theirs))
    return (
        (exempt or all(_in_their_order(words, own) for words in theirs))
        and all(Counter(words) <= Counter(own) for words in theirs)
        and all(_turning(source) <= _turning(text) for source in sources)
    )


_SMALL = frozenset({"have"})


def _small(text: str) -> set[str]:
    """Return the words of an older source that the merged text may leave out: "of", "she"."""
    kinds = (Kind.GOVERNING, Kind.PARTICLE, Kind.PERSON)
    return {token.key for token in _read(text) if token.kind in kinds}


def outdated_values(text: str, sources: Sequence[str]) -> list[str]:
    """Return the numbers of the sources that the merged text does not state."""
    own = _values(text)
    return [value for source in sources for value in _values(source) if value not in own]


def _values(text: str) -> list[str]:
    return [value for key, value in _told(text) if not key]


def _in_their_order(words: Sequence[object], text: Sequence[object]) -> bool:
    rest = iter(text)
    return all(word in rest for word in words)


_CONDITIONS = frozenset({"if", "unless", "falls"})


def unlike_newest(text: str, sources: Sequence[str]) -> list[str]:
    """Return the negations and conditions of the newest source that a merged text lacks.

    "word order" is returned if the newest source says otherwise who did what, with the same words
    as an older source, and the text has the words in the order of that older source.
    """
    own, newest = _told(text), _told(sources[-1])
    missing = Counter(newest) - Counter(own)
    lacking = [word for word, _ in missing if word == NOT or word in _CONDITIONS]
    older = (_told(source) for source in sources[:-1] if "," not in source)
    turned = not _in_their_order(newest, own) and any(
        Counter(words) == Counter(newest) and _in_their_order(words, own) for words in older
    )
    return [*lacking, *(["word order"] if turned else ())]

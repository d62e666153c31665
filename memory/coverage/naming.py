"""Which words of English texts are names: what a capital shows that is not only a start."""

from __future__ import annotations

import re
from collections.abc import Sequence

_WORD = re.compile(r"[^\W\d_][\w'’]*")
_SENTENCE_START = re.compile(r"(?:^|[.!?…:;。\n\"“”‘(-]\s*)([^\W\d_][\w'’]*)")
_GENITIVE = re.compile(r"['’]s?$")
_TITLES = frozenset("mr mrs ms dr prof sir mister".split())
_TITLE_CASE = 0.7
"""The share of words with a capital from which a capital shows nothing."""


def names_in(texts: Sequence[str]) -> frozenset[str]:
    """Names as they are written: a name in one text, and nowhere in small letters."""
    named = frozenset[str]().union(*map(_named, texts))
    small = {word for text in texts for word in _WORD.findall(text) if word.islower()}
    return frozenset(name for name in named if name.casefold() not in small)


def words_in(text: str) -> list[str]:
    """Return its words as they are written, in order."""
    return _WORD.findall(text)


def without_genitive(word: str) -> str:
    """Mia of Mia's."""
    return _GENITIVE.sub("", word)


def _named(text: str) -> frozenset[str]:
    """The words that a capital shows to be names, where not every word has one."""
    words = _WORD.findall(text)
    long = [word for word in words if len(word) > 3]
    if len(long) > 2 and sum(word[0].isupper() for word in long) > _TITLE_CASE * len(long):
        return frozenset()
    initial = frozenset(_SENTENCE_START.findall(text))
    return frozenset(
        without_genitive(word)
        for word in words
        if word[0].isupper() and word not in initial and not _is_short(word)
    )


def _is_short(word: str) -> bool:
    """Whether it may stand for a word in small letters: TV, Mr."""
    return word.isupper() or word.casefold() in _TITLES

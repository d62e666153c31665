"""The words by which a text says what it says: for finding what is alike, not for what is stated.

Coverage must not lose a word; a search for texts worth comparing gains by losing those that say
who told it and that it was told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from memory.text.tokens import Kind, tokens

TELLING = frozenset({Kind.CONTENT, Kind.NUMBER, Kind.TURNING})
_REPORTING = frozenset(
    "say mention state note tell share reveal explain add express describe talk discuss report "
    "claim emphasize acknowledge recently currently remember".split()
)
"""Verbs of the frame in which an extracted memory stands: "Mia mentioned that ..."."""
_LETTERS = re.compile(r"[^\W\d_]+")


def telling_words(text: str, user: str | None = None) -> tuple[str, ...]:
    """The plain forms of its content words and numbers, in order, each once.

    Without the parts of the user's name, which stand in all memories of that user.
    """
    known = _REPORTING | name_parts(user)
    words = (token.key for token in tokens(text) if token.kind in TELLING)
    return tuple(dict.fromkeys(word for word in words if word not in known))


def name_parts(user: str | None) -> frozenset[str]:
    """A user's name as it may stand in a text, word by word."""
    return frozenset(_keys(_LETTERS.findall(user or "")))


def _keys(words: Iterable[str]) -> Iterable[str]:
    return (token.key for word in words for token in tokens(word))

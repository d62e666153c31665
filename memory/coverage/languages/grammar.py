"""What coverage must know of a language that is written with spaces.

To add one: write a file of its words like `german.py`, enter it in `GRAMMARS` of this package, and
enter the small words by which it is recognised in `memory/text/language.py`. English, whose rules
are far more, and Japanese, which needs a dictionary, are no grammars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memory.text import Kind, Token


@dataclass(frozen=True)
class Grammar:
    """The closed classes of words of one language, in lower case."""

    governing: Mapping[str, str]
    """Prepositions by an English one, articles by the case they show; "" for a mere filler."""
    turning: frozenset[str]
    """Words that turn a statement around: only, almost."""
    reaching: frozenset[str]
    """Words under which an addition changes the statement: all, if, more, former."""

    def read(self, token: Token) -> Token:
        """Return a token with the kind that its word has in this language."""
        word = token.surface.lower()
        if token.kind not in (Kind.CONTENT, Kind.FILLER, Kind.GOVERNING):
            return token
        if word in self.turning:
            return token._replace(key=word, kind=Kind.TURNING)
        if word in self.governing:
            key = self.governing[word]
            return token._replace(key=key, kind=Kind.GOVERNING if key else Kind.FILLER)
        return token

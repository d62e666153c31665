"""Words and rules of single languages, one file each.

To add one that is written with spaces: write a file of its words like `german.py`, enter it in
`GRAMMARS`, and enter the small words by which it is recognised in `memory/text/language.py`.
English, whose rules are far more, and Japanese, which needs a dictionary, are no grammars.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from memory.coverage.languages import german
from memory.text import Kind, Language, Token


class Grammar(Protocol):
    """The closed classes of words of one language, in lower case.

    `GOVERNING`: prepositions by an English one, articles by the case they show, "" for a filler.
    `TURNING`: words that turn a statement around: only, almost. `REACHING`: words under which an
    addition changes the statement: all, if, more, former.
    """

    GOVERNING: Mapping[str, str]
    TURNING: frozenset[str]
    REACHING: frozenset[str]


GRAMMARS: Mapping[Language, Grammar] = {Language.GERMAN: german}


def read(token: Token, grammar: Grammar) -> Token:
    """Return a token with the kind that its word has in this language."""
    word = token.surface.lower()
    if token.kind not in (Kind.CONTENT, Kind.FILLER, Kind.GOVERNING):
        return token
    if word in grammar.TURNING:
        return token._replace(key=word, kind=Kind.TURNING)
    key = grammar.GOVERNING.get(word)
    if key is None:
        return token
    return token._replace(key=key, kind=Kind.GOVERNING if key else Kind.FILLER)

"""Word lists and rules of single languages, one file for each language.

To add a language that is written with spaces: write a file of its words like `german.py`, enter it
in `GRAMMARS` below, and add the language and its function words to `memory/text/language.py`.
English and Japanese are not in `GRAMMARS`: English has many more rules in the files of
`memory/coverage`, and Japanese needs a dictionary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from memory.coverage.languages import german
from memory.text import NOT, Kind, Language, Token


class Grammar(Protocol):
    """Lists of the words of one language that change what a statement says, in lower case."""

    NEGATIONS: frozenset[str]
    """Words for "not" and "no"."""
    GOVERNING: Mapping[str, str]
    """Prepositions with their English equivalent, and articles with the case that they show.

    The value "" marks words that may be left out.
    """
    TURNING: frozenset[str]
    """Words that change the whole statement: only, almost."""
    REACHING: frozenset[str]
    """Words after which an addition changes the statement: all, if, more, former."""


GRAMMARS: Mapping[Language, Grammar] = {Language.GERMAN: german}


def read(token: Token, grammar: Grammar) -> Token:
    """Return a token with the key and the kind that its word has in the language of `grammar`."""
    word = token.surface.lower()
    if token.kind not in (Kind.CONTENT, Kind.FILLER, Kind.GOVERNING):
        return token
    if word in grammar.NEGATIONS:
        return token._replace(key=NOT, kind=Kind.NOT)
    if word in grammar.TURNING:
        return token._replace(key=word, kind=Kind.TURNING)
    key = grammar.GOVERNING.get(word)
    if key is None:
        return token
    return token._replace(key=key, kind=Kind.GOVERNING if key else Kind.FILLER)

"""Word lists and rules of single languages, one file for each language.

A language that is written with spaces is added in three steps. Write a file of its words like
`german.py`. Enter it in `GRAMMARS` below. Add the language and its function words to
`memory/text/language.py`. English and Japanese are not in `GRAMMARS`: English has many more rules
in the files of `memory/coverage`, and Japanese needs a dictionary.
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
    """Prepositions, each with its English equivalent, and articles, each with its grammatical case.

    The value is "" for a word that may be left out.
    """
    TURNING: frozenset[str]
    """Words that change the whole statement, such as "only" and "almost"."""
    REACHING: frozenset[str]
    """Words such as "all" and "if", in whose presence any extra word changes the statement."""


GRAMMARS: Mapping[Language, Grammar] = {Language.GERMAN: german}


def read(token: Token, grammar: Grammar) -> Token:
    """Return the token with the key and the kind that `grammar` gives to its word.

    The key is the form by which words are compared. Words that the grammar does not list are
    unchanged.
    """
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

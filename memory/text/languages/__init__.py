"""Recognise the language of a text, and list the words of each language that is read by tables.

To add a language that is written with spaces, write a file of its words like `german.py`, and enter
it in `GRAMMARS` below. English and Japanese are not in `GRAMMARS`: English has many more rules in
the files of `memory/coverage`, and Japanese needs a dictionary.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

from memory.text.language import has_cjk
from memory.text.languages import german


class Grammar(Protocol):
    """The words of one language, as lists; all words are in lower case.

    A word is looked up in NEGATIONS, TURNING and GOVERNING, in this order; only the first list that
    has it counts. If none has it, the lists in `memory/text/vocabulary.py` apply. That file also
    has the numbers, months and weekdays of all languages.
    """

    FUNCTION_WORDS: frozenset[str]
    """Frequent small words by which the language is recognised; no other language may have them."""
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
    DECIMAL_COMMA: bool
    """Whether numbers are written as in 1.000,50."""
    CAPITAL_NOUNS: bool
    """Whether all nouns have a capital, so that a capital does not show a name."""


GRAMMARS: Mapping[str, Grammar] = {"German": german}
"""The languages that are read by tables, each with its tables."""
ENGLISH, JAPANESE, OTHER = "English", "Japanese", "other"
"""Languages that are not in `GRAMMARS`. OTHER means any language that is not recognised."""

_WORDS = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*").findall
_ENGLISH = frozenset(
    "the and of to for with from has have had he she his her they their this that at my you your "
    "it an are been not who which by will i i'm it's its was is in a on as be were him them "
    "while because although during before after since doesn't don't didn't isn't wasn't can't "
    "won't never".split()
)
_NOT_ENGLISH = frozenset(
    "el los las una uno del y por para está es en le les des du et est une dans avec il elle ne "
    "je qui het een niet zijn ik voor de di che non è gli della nel os um uma não em och att det "
    "är jag ett inte og ikke jeg af på nie jest się con les sus och som til hij zij bij ook".split()
)
_ENGLISH_ALONE = frozenset("the a of and with to for is he she they i".split())
"""English function words, each of which shows that a text is in no language of `GRAMMARS`.

A language that lists the word in its `GOVERNING` is still possible.
"""


def language_of(text: str) -> str:
    """Return the language of a text: ENGLISH, a key of `GRAMMARS`, or OTHER.

    The function words of the text decide, in this order:

    - A language of `GRAMMARS`, if the text has one of its function words and no English word that
      rules it out (see `_ENGLISH_ALONE`).
    - ENGLISH, if the text has an English function word, none of other languages, and no Japanese
      or Chinese characters.
    - OTHER. This includes Japanese: the result is never JAPANESE.
    """
    words = {word if word == "May" else word.casefold() for word in _WORDS(text)}
    for language, grammar in GRAMMARS.items():
        foreign = _ENGLISH_ALONE - grammar.GOVERNING.keys()
        if words.isdisjoint(foreign) and not words.isdisjoint(grammar.FUNCTION_WORDS):
            return language
    is_english = not words.isdisjoint(_ENGLISH) and words.isdisjoint(_NOT_ENGLISH)
    return ENGLISH if is_english and not has_cjk(text) else OTHER


def grammar_of(text: str) -> Grammar | None:
    """Return the tables of the text's language; None if it is not in `GRAMMARS`."""
    return GRAMMARS.get(language_of(text))

"""Recognise the language of a text. The languages in `GRAMMARS` are read with lists of words.

To add a language that is written with spaces, write a file of its words like `german.py`, and enter
it in `GRAMMARS` below: no other code changes. English and Japanese are not in `GRAMMARS`, because
English has many rules of its own in `memory/coverage`, and Japanese needs a dictionary.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Protocol

from memory.text.cleaning import has_cjk
from memory.text.languages import german


class Grammar(Protocol):
    """The words of one language, all in lower case, except in O_CLOCK.

    A list may be empty. The lists before LETTERS apply only to texts of this language, as
    `language_of` recognises it. A word in several of NEGATIONS, TURNING and GOVERNING counts only
    for the first. LETTERS and all lists after it apply to every text, because a short text may not
    show its language. They affect the search terms that a ledger stores, so an existing ledger
    needs a migration that computes its terms again.
    """

    FUNCTION_WORDS: frozenset[str]
    """Frequent small words by which the language is recognised; choose none of another language."""
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

    LETTERS: str
    """Letters that English does not have."""
    NUMBERS: Mapping[str, int]
    MONTHS: Mapping[str, str]
    """Months, each with its English name in lower case."""
    WEEKDAYS: Mapping[str, str]
    """Weekdays, each with its English name in lower case."""
    CLEAR_NEGATIONS: frozenset[str]
    """The words of NEGATIONS that hardly occur in other languages."""
    CLEAR_TURNING: frozenset[str]
    """Words like those of TURNING that hardly occur in other languages."""
    AND: frozenset[str]
    CONTRASTS: frozenset[str]
    """Words for "but" after a negation, as in "not red but blue"."""
    ADVERBS: frozenset[str]
    """Adverbs that only add to the verb, such as "already"."""
    RANKING: frozenset[str]
    """Words and phrases that give a list an order, such as "one after another"."""
    PREDICATES: frozenset[str]
    """Forms of "be" and "have", which show that a text is no mere list."""
    NUMBERED: frozenset[str]
    """Nouns such as "chapter", after which a Roman numeral may follow."""
    O_CLOCK: frozenset[str]
    """Words that follow a time of day, with their capitals, such as "Uhr"."""
    FIRST_PERSON: frozenset[str]
    """Words such as "I" and "my"."""
    QUOTABLE: frozenset[str]
    """Small words that count as names, for example of a film, if they are in quotation marks."""


GRAMMARS: Mapping[str, Grammar] = {"German": german}

ENGLISH, JAPANESE, OTHER = "English", "Japanese", "other"
"""Languages that are not in `GRAMMARS`. English and Japanese have rules of their own instead.

OTHER is any language that is not recognised.
"""

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
"""A text with one of these English words is not recognised as a language of `GRAMMARS`.

A word that is also in a language's `GOVERNING` does not rule out this language.
"""


def language_of(text: str) -> str:
    """Return the language of a text by its function words: ENGLISH, a key of `GRAMMARS`, or OTHER.

    A Japanese text is OTHER too.
    """
    words = {word if word == "May" else word.casefold() for word in _WORDS(text)}
    for language, grammar in GRAMMARS.items():
        foreign = _ENGLISH_ALONE - grammar.GOVERNING.keys()
        if words.isdisjoint(foreign) and not words.isdisjoint(grammar.FUNCTION_WORDS):
            return language
    is_english = not words.isdisjoint(_ENGLISH) and words.isdisjoint(_NOT_ENGLISH)
    return ENGLISH if is_english and not has_cjk(text) else OTHER


def grammar_of(text: str) -> Grammar | None:
    """Return the word lists of the text's language; None if the language is not in `GRAMMARS`."""
    return GRAMMARS.get(language_of(text))


def with_all_languages(words: str, field: Callable[[Grammar], frozenset[str]]) -> frozenset[str]:
    """Return the words in `words`, and the words that `field` returns for each of `GRAMMARS`."""
    return frozenset(words.split()).union(*map(field, GRAMMARS.values()))

"""Recognise the language of a text, and define the word lists of the languages in `GRAMMARS`.

To add a language that puts spaces between words, write a module of word lists like `german.py`, and
enter it in `GRAMMARS` below. No other code changes. English and Japanese are not in `GRAMMARS`,
because both have rules of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Protocol

from memory.text.cleaning import has_cjk
from memory.text.languages import german


class Grammar(Protocol):
    """The words of one language, all in lower case, except in O_CLOCK.

    A list may be empty. Everything before LETTERS applies only to texts that `language_of`
    recognises as this language. LETTERS and everything after it apply to texts in any language,
    because a short text may not show its language. A change may alter the search terms that ledgers
    store. Then existing ledgers need a migration that computes their terms again.
    """

    FUNCTION_WORDS: frozenset[str]
    """Frequent small words by which the language is recognised; avoid words of other languages."""
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
    NEGATIONS: frozenset[str]
    """Words for "not" and "no" that hardly occur in other languages."""
    TURNING: frozenset[str]
    """Words that change the whole statement, and that hardly occur in other languages."""
    NUMBERED: frozenset[str]
    """Nouns such as "chapter", after which a Roman numeral may follow."""
    O_CLOCK: frozenset[str]
    """Words that follow a time of day, with their capitals, such as "Uhr"."""
    FIRST_PERSON: frozenset[str]
    """Words such as "I" and "my"."""


GRAMMARS: Mapping[str, Grammar] = {"German": german}

ENGLISH, JAPANESE, OTHER = "English", "Japanese", "other"
"""Languages that are not in `GRAMMARS`; OTHER is any language that is not recognised.

`memory/coverage` has separate rules for English and Japanese.
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
"""English words which show that a text is not in a language of `GRAMMARS`."""


def language_of(text: str) -> str:
    """Return the language of a text by its function words: ENGLISH, a key of `GRAMMARS`, or OTHER.

    JAPANESE is never returned; `parse` in `memory/coverage` recognises Japanese.

    >>> language_of("Mia hat eine Katze."), language_of("Mia has a cat.")
    ('German', 'English')
    """
    words = {word if word == "May" else word.casefold() for word in _WORDS(text)}
    for language, grammar in GRAMMARS.items():
        if words.isdisjoint(_ENGLISH_ALONE) and not words.isdisjoint(grammar.FUNCTION_WORDS):
            return language
    is_english = not words.isdisjoint(_ENGLISH) and words.isdisjoint(_NOT_ENGLISH)
    return ENGLISH if is_english and not has_cjk(text) else OTHER


def may_be_english(text: str) -> bool:
    """Return whether nothing in a short text shows that it is not English: "Mia runs 12 km.".

    >>> may_be_english("Mia runs 12 km."), may_be_english("Mia läuft 12 km.")
    (True, False)
    """
    words = set(_WORDS(text.casefold()))
    others = (grammar.FUNCTION_WORDS for grammar in GRAMMARS.values())
    return text.isascii() and words.isdisjoint(_NOT_ENGLISH.union(*others))


def grammar_of(text: str) -> Grammar | None:
    """Return the word lists of the text's language; None if the language is not in `GRAMMARS`.

    >>> grammar_of("Mia hat eine Katze.") is GRAMMARS["German"]
    True
    >>> grammar_of("Mia ha un gatto e un cane.")
    """
    return GRAMMARS.get(language_of(text))


def with_all_languages(words: str, field: Callable[[Grammar], frozenset[str]]) -> frozenset[str]:
    """Split `words` at spaces, and add the words that `field` returns for each grammar."""
    return frozenset(words.split()).union(*map(field, GRAMMARS.values()))

"""Compute the terms by which keyword search finds a text, and the queries for a question.

Keyword search leaves out words that only report who said something ("Mia mentioned that"), whereas
the comparison of two memories needs every word.
"""

from __future__ import annotations

import re
from itertools import pairwise

from memory.text.cleaning import normalise
from memory.text.tokens import Kind, tokens

_TELLING = frozenset({Kind.CONTENT, Kind.NUMBER, Kind.TURNING})
_LETTERS = re.compile(r"[^\W\d_]+").findall


# --- terms of the ledger --------------------------------------------------------------------------

_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff々]+")


def search_terms(text: str) -> list[str]:
    """Return the terms under which keyword search finds a text, each as often as it occurs.

    The terms are the content words in dictionary form, the numbers, each Han character, and each
    pair of neighbouring Han characters. The ledger stores the terms, so any change of this function
    needs a schema migration that computes them again.
    """
    found = [token.key.lower() for token in tokens(text) if token.kind in _TELLING]
    if text.isascii():
        return found
    found = [term for term in found if not _HAN.search(term)]
    for run in _HAN.findall(normalise(text)):
        found += [*run, *map("".join, pairwise(run))]
    return found


# --- what a text tells ----------------------------------------------------------------------------

_REPORTING = frozenset(
    "say mention state note tell share reveal explain add express describe talk discuss report "
    "claim emphasize acknowledge recently currently remember".split()
)
"""Words that report who said something.

Many extracted memories begin with such a word: "Mia mentioned that".
"""


def telling_words(text: str, user: str | None = None) -> tuple[str, ...]:
    """Return the content words and numbers of a text in dictionary form, without repetitions.

    They are in the order of the text.

    `user`: the name of the user, or None if unknown. The words of the name and reporting verbs such
    as "say" are left out, because most of the user's memories have them.
    """
    known = _REPORTING | {token.key for name in _LETTERS(user or "") for token in tokens(name)}
    words = (token.key for token in tokens(text) if token.kind in _TELLING)
    return tuple(dict.fromkeys(word for word in words if word not in known))


# --- questions in the first person ----------------------------------------------------------------

_SELF = frozenset(
    # English, German, French, Spanish
    "i me my mine myself "
    "ich mich mir mein meine meinen meinem meiner meines "
    "je j moi mon ma mes mien mienne "
    "yo mi mí mis mío mía míos mías conmigo soy estoy tengo vivo hago voy puedo quiero".split()
)
"""Words of the first person.

The last words are Spanish verbs in the first person, because Spanish often omits the pronoun.
"""
_SELF_JAPANESE = re.compile("私|わたし|わたくし|あたし|僕|ぼく|ボク|俺|おれ|オレ").search


def wordings(question: str, user: str | None) -> tuple[str, ...]:
    """Return the queries for a question: the question itself, and a form with the user's name.

    Memories name the user, but a question says "I". Therefore the second form of "Where do I live?"
    is "Mia where do I live?". It is only added if the question has a word of the first person. If
    the word has another meaning in the question, the second form does no harm. `user`: the name, or
    None if it is unknown; then only the question is returned.
    """
    asks_of_self = _SELF_JAPANESE(question) or not _SELF.isdisjoint(_LETTERS(question.lower()))
    return (question, f"{user} {question}") if user is not None and asks_of_self else (question,)

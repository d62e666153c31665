"""Words by which a text is found, and wordings under which a question is looked up.

Coverage must not lose a word; a search gains by losing those that say who told it and that it was
told.
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
    """Return the terms by which a text is found, in any script, as often as they stand in it.

    They are its content words in plain form, its numbers, and its Han one by one and in pairs.
    Ledgers store them: a change of this function needs a step of the schema that makes them anew.
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
"""Verbs of the frame in which an extracted memory stands: "Mia mentioned that ..."."""


def telling_words(text: str, user: str | None = None) -> tuple[str, ...]:
    """Return the plain forms of its content words and numbers, in order, each once.

    Verbs of reporting and the parts of the user's name are left out: all memories have them.
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
"""Words for the one who speaks; the last are verbs that need no pronoun."""
_SELF_JAPANESE = re.compile("私|わたし|わたくし|あたし|僕|ぼく|ボク|俺|おれ|オレ").search


def wordings(question: str, user: str | None) -> tuple[str, ...]:
    """Return the question and, where it is in the first person, also with the user's name.

    Where such a word means something else, the name does no harm.
    """
    asks_of_self = _SELF_JAPANESE(question) or not _SELF.isdisjoint(_LETTERS(question.lower()))
    return (question, f"{user} {question}") if user is not None and asks_of_self else (question,)

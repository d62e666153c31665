"""Who "I" and "my" are in a question: the user who asks."""

from __future__ import annotations

import re

_WORDS = re.compile(r"[^\W\d_]+").findall
_SELF = frozenset(
    # English, German, French, Spanish
    "i me my mine myself "
    "ich mich mir mein meine meinen meinem meiner meines "
    "je j moi mon ma mes mien mienne "
    "yo mi mí mis mío mía míos mías conmigo soy estoy tengo vivo hago voy puedo quiero".split()
)
"""The last are verbs that need no pronoun."""
_SELF_JAPANESE = re.compile("私|わたし|わたくし|あたし|僕|ぼく|ボク|俺|おれ|オレ").search


def wordings(question: str, user: str | None) -> tuple[str, ...]:
    """Return the question, and where it speaks of "I" or "my" also with the name of who asks.

    Nothing of it is taken away: where such a word means something else, the name does no harm.
    """
    if user is None or not (_SELF_JAPANESE(question) or _has_self(question)):
        return (question,)
    return question, f"{user} {question}"


def _has_self(question: str) -> bool:
    return not _SELF.isdisjoint(_WORDS(question.lower()))

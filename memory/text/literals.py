"""Find values that are compared as they are written: after "password", and inside quotation marks.

Capitals, spaces, punctuation, width and sign are part of such a value.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from memory.text.attributes import ATTRIBUTES

_NOUNS = frozenset().union(*(nouns for name, nouns in ATTRIBUTES.items() if name != "Japanese"))
_WORD = re.compile(r"[^\W\d_]+(?:[-‐][^\W\d_]+)*")
_IN_JAPANESE = re.compile("|".join(sorted(ATTRIBUTES["Japanese"], key=len, reverse=True)))
_COMPOUND = re.compile(r"\w{3,}(?:passwort|kennwort|nummer|code|kennung|adresse|name)$").match
_PERSON = re.compile(
    r"(?:^|(?<=[.!?\n]\s))(?:(?:the|der|die|el|la) )?(?:user|benutzer|usuario)s?\b"
    r"(?!['’]?s? ?(?:name|id)\b|\s*[-:=])|(?:^|(?<=[。！？\n]))ユーザー(?=[はがのもに、])",
    re.IGNORECASE,
)
"""The person whom a text is about, as mem0 writes of them: "The user likes tea"."""
_LINK = re.compile(
    r"(?:\b(?:is|are|was|were|called|named|ist|war|lautet|heißt|est|es|era)\b|[:=])\s*",
    re.IGNORECASE,
)
_QUOTED = re.compile(
    r"\"[^\"]+\"|“[^“”]+”|„[^„“”]+[“”]|«[^«»]+»|»[^«»]+«|`[^`]+`|「[^「」]+」|『[^『』]+』"
    r"|‘[^‘’]+’(?!\w)"
    r"|(?<![\w'])'[^']+'(?!\w)"
)


def names_attribute(text: str) -> bool:
    """Return whether the text has a noun such as "password", whose value is literal.

    >>> names_attribute("Mia's wifi password is Fjord"), names_attribute("Mia sails.")
    (True, False)
    """
    return _last_noun(text) >= 0


@lru_cache(maxsize=16_384)
def _last_noun(text: str) -> int:
    """Return where the last noun of an attribute ends; -1 if there is none."""
    ends = []
    for word in _WORD.finditer(text):
        low = word.group().casefold()
        if low in _NOUNS or low.rpartition("-")[2] in _NOUNS or _COMPOUND(low):
            ends.append(word.end())
    if not text.isascii():
        ends += [noun.end() for noun in _IN_JAPANESE.finditer(text)]
    people = {person.end() for person in _PERSON.finditer(text)} if ends else set()
    return max((end for end in ends if end not in people), default=-1)


def literal_value(text: str) -> str:
    """Return what stands behind the last noun of an attribute, without "is"; "" if nothing does.

    >>> literal_value("Mia's password is Fjord 7!")
    'Fjord 7!'
    """
    start = _last_noun(text)
    if start < 0:
        return ""
    behind = text[start:]
    values = [behind[link.end() :] for link in _LINK.finditer(behind)]
    return next((value for value in reversed(values) if value), behind)


def quotations(text: str) -> Counter[str]:
    """Return what stands inside quotation marks and backticks, each as often as it occurs.

    >>> quotations("Mia reads `a.txt` and “Emma”.")
    Counter({'a.txt': 1, 'Emma': 1})
    """
    return Counter(found.group()[1:-1] for found in _QUOTED.finditer(text))

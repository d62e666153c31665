"""Find the facts that the rules cannot rewrite in the third person, to keep them as they were said.

Also take off what stands before a fact in a chat: a mention, "fyi", "just so you know".
"""

from __future__ import annotations

import re

from memory.offline.worth import stands_alone
from memory.text import ENGLISH, language_of, tells_of_self

_MENTION = re.compile(r"^(?:(?:<[@#]!?\w+>|@[\w.-]+)[,:]?\s+)+")
_LEAD = re.compile(
    r"^(?:(?:fyi|btw|by the way|just so you know|so you know|for the record|update|quick update|"
    r"quick note|no wait|wait|sorry|idk if I told you|not sure if I told you|did I mention|"
    r"did I tell you|hey \w+|ok \w+(?=,))\b[,:;]?\s+(?:but |that )?)+(?=\S+ \S)",
    re.IGNORECASE,
)
_SPELLINGS = [
    (re.compile(pattern, re.IGNORECASE), plain)
    for pattern, plain in (
        (r"(?<![\w'])im (?!going to sleep)", "I'm "), (r"(?<![\w'])ive ", "I've "),
        (r"\b(do|does|did|is|was|have|has|ca|wo)nt\b", r"\1n't"),
        (r"[,.!]? (?:btw|lol|haha|fyi|tbh)(?=[.!]*$)", ""),
    )
]  # fmt: skip
_CORRECTS = re.compile(
    r"^(?:actually|correction|no,|no wait|wait,|sorry,|I mean|i meant|rather)\b", re.IGNORECASE
)
_FACTUAL = re.compile(
    r"\d(?!%)|(?<=[\w,'] )[\"“'@]?(?!I\b|I['’]|OK\b|TV\b)[A-Z][\w@-]*[a-z]|(?<![\w.])[\w.]++@\w"
    r"|\b(?:allergic|vegan|vegetarian|pregnant|diabetic)\b"
)
_LITERAL = re.compile(
    r"\d++(?!%)|(?<!\w)[@#]\w|[a-z][A-Z]|\w_\w|\b(?:allergic|vegan|vegetarian|pregnant|diabetic)\b"
)
_ABOUT_YOU = re.compile(r"\b(?:you|your|u|ya|thanks|thank|congrats|wow|good luck)\b", re.IGNORECASE)
_BEGINS_WITH_SELF = re.compile(r"^(?:I|I['’]m|I['’]ve|my|we|our)\b", re.IGNORECASE)
_SELF = re.compile(r"\b(?:I|I'm|I've|i|my|mine|me|our|we)\b")
_CHAT = re.compile(
    r"\b(?:you|your|u|ya|thanks|thank|congrats|wow|hope|good luck|let me|let's|can't wait|what|how|"
    r"agree|appreciate|that picture|this is)\b",
    re.IGNORECASE,
)
_VOCATIVE = re.compile(r"^(?:\w+ ){0,2}\w+, [A-Z]\w+[,!]|^[A-Z]\w+,|, [A-Z]\w+[.!]*$")
_SHORTEST, _LONGEST = 2, 40
"""How many words a sentence that is kept as it was said has, at least and at most."""


def without_mention(sentence: str) -> str:
    """Return a sentence without the mentions at its beginning."""
    return _MENTION.sub("", sentence.strip())


def without_lead(sentence: str) -> str:
    """Return a sentence without what stands before its fact, in the usual spelling.

    >>> without_lead("<@99> fyi im 34 btw")
    "I'm 34"
    """
    bare = _LEAD.sub("", without_mention(sentence))
    for pattern, plain in _SPELLINGS:
        bare = pattern.sub(plain, bare)
    return bare


def is_kept_as_said(sentence: str) -> bool:
    """Return whether a sentence that the rules cannot rewrite may state a fact of its speaker.

    In other languages than English, this is each sentence with "I" or "my". A sentence with a
    number, a handle or a name such as `KaPi_T` is kept if it does not talk to somebody.
    """
    words = sentence.split()
    if sentence.rstrip().endswith(("?", "？")) or not _SHORTEST <= len(words) <= _LONGEST:
        return False
    if language_of(sentence) != ENGLISH and tells_of_self(sentence, in_english=False):
        return True
    if _CORRECTS.match(sentence) and _FACTUAL.search(sentence):
        return True
    to_you = _ABOUT_YOU.search(sentence) and not _BEGINS_WITH_SELF.match(sentence)
    if _LITERAL.search(sentence) and not to_you:
        return True
    tells = _SELF.search(sentence) and not _CHAT.search(sentence) and stands_alone(sentence)
    return bool(tells and _FACTUAL.search(_VOCATIVE.sub("", sentence)))

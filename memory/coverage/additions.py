"""Find out whether the extra words of a longer text only add to its statement, or change it.

"Mia has a tabby cat" also states that she has a cat. "Mia has no tabby cat", "a cat toy" and "every
tabby cat" do not. The only additions that are accepted are an adjective or another word right
before a word of both texts, an adverb of manner, and "very", in a plain, positive English sentence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory.coverage.order import Side, is_manner
from memory.coverage.parse import Word
from memory.text import (
    CONDITIONS,
    DOUBTS,
    NARROWING,
    POSITIVE_EST,
    PRIVATIVE,
    REPORTS,
    plain_form,
)

_MOST = 2
"""Limit in words for an addition; more of them may be another statement."""
_WORDS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?").findall
_REACHING = re.compile(
    r":|\b(?:as|so) (?:long|far|soon|much|many) as\b|\btoo\s+\w"
    r"|\b(?:stop|quit|ceas)\w*\s+(?:\w+ing|to)\b"
    r"|\b(?:is|are|was|were|been|be|become|becomes|became)\s+(?:\w+\s+){0,2}?(?:extinct|endangered"
    r"|species|subspecies|breed|breeds|genus|domesticated|invented|widespread|native|endemic"
    r"|abundant|numerous|common|rare|scarce|indigenous)\b"
    r"|\b(?:rank(?:s|ed|ing|ings)?|respectively|sorted|former|latter|in turn|by (?:age|size|height"
    r"|weight|length|date|name|price|value|priority|importance)|(?:allergic to|intolerant of"
    r"|immune to|averse to|(?:afraid|scared|frightened|fond|wary|tired|sick) of|interested in"
    r"|(?:good|bad) at|keen on|experts? (?:on|in)))\b",
    re.IGNORECASE,
).search
"""Finds words that reach over the whole text, so that no other word only adds to it."""
_JOINING = re.compile(
    r"[,;&]|['’]s\b|s['’](?!\w)|\b(?:and|or|nor|that|which|whom?|whose|where)\b", re.IGNORECASE
).findall
_DEFINITE = re.compile(r"\s*(?:the|these|those)\b", re.IGNORECASE).match
_PICTURED = re.compile(r"\b(?:is|are|was|were|am)\s+(?:\w+ly\s+)?\w+ing\b", re.IGNORECASE).search
_DENIED = DOUBTS | CONDITIONS | REPORTS | PRIVATIVE | NARROWING


def changed_by_additions(longer: Side, shorter: Side, extra: tuple[str, ...]) -> tuple[str, ...]:
    """Return the extra words of `longer` that change what `shorter` states; () if none does.

    `extra`: all words that only `longer` has. Some texts, such as questions, do not allow a check
    of single words; then `extra` is returned.
    """
    text, words, added = longer.text, longer.parse.words, longer.added
    positions = [n for n, is_added in enumerate(added) if is_added]
    if (
        len(positions) > _MOST
        or longer.parse.asks
        or longer.parse.negations
        or longer.parse.persons != shorter.parse.persons
        or _REACHING(text)
        or len(_JOINING(text)) != len(_JOINING(shorter.text))
        or any(map(_narrows, _WORDS(text)))
        or (_DEFINITE(shorter.text) and not _DEFINITE(text))
    ):
        return extra
    happened = any(word.past for word in words) or _PICTURED(text) is not None
    return tuple(words[n].surface for n in positions if not _only_adds(words, n, added, happened))


def _narrows(word: str) -> bool:
    low = word if word == "May" else word.casefold()
    is_superlative = low.endswith("est") and len(low) > 4 and low not in POSITIVE_EST
    return is_superlative or low in _DENIED or plain_form(low).word in _DENIED


def _only_adds(words: Sequence[Word], position: int, added: Sequence[bool], happened: bool) -> bool:
    word = words[position]
    if word.key == "have" or (word.is_number and word.key != "1") or (word.role and not position):
        return False
    if is_manner(word):
        return not word.role
    rest = [n for n in range(position + 1, len(words)) if not added[n]]
    if not rest or not all(words[n].joined for n in range(position + 1, rest[0] + 1)):
        return False
    head = words[rest[0]]
    is_compound = word.joined and position > 0 and not added[position - 1]
    is_name = head.surface[:1].isupper() and word.surface[:1].isupper()
    is_plural = plain_form(head.surface).word != head.surface
    of_a_kind = is_plural and not happened and word.key != "some"
    return not (is_compound or is_name or of_a_kind or head.is_number)

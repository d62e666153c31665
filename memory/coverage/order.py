"""Check whether the words that two texts share have the same order and the same prepositions.

In English, a phrase may move to the other end of a sentence. Any other change of order counts as a
change of who does what.

"Mia has a tabby cat" also states that she has a cat. "Mia has no tabby cat", "a cat toy" and "every
tabby cat" do not. The only additions that are accepted are an adjective or another word right
before a word of both texts, an adverb of manner, and "very", in a plain, positive English sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from memory.coverage.parse import Parse, Word
from memory.text import (
    CAUSAL_NOUNS,
    CONDITIONS,
    DOUBTS,
    IRREGULAR_PLURALS,
    JAPANESE,
    MONTH_SET,
    NARROWING,
    NO_ADVERBS,
    POSITIVE_EST,
    PRIVATIVE,
    REPORTS,
    TEMPORAL,
    UNITS,
    WEEKDAYS,
    Kind,
    is_code,
    plain_form,
)

_ORDER = "word order"


@dataclass(frozen=True)
class Side:
    """One of two compared texts.

    `extra` counts the words that this text has more often than the other text. It maps the form
    of a word for comparison, `Word.stated`, to the number of extra occurrences.
    """

    text: str
    parse: Parse
    extra: Counter[str]

    @cached_property
    def added(self) -> list[bool]:
        """For each word of this text, in order, whether the other text lacks the word.

        If this text has a word more often than the other text, only the extra occurrences count as
        lacking. These are the last ones.
        """
        remaining = dict(self.extra)
        is_extra = []
        for stated in reversed(self.parse.stated):
            is_extra.append(remaining.get(stated, 0) > 0)
            remaining[stated] = remaining.get(stated, 0) - 1
        return is_extra[::-1]


def in_order(parsed: Parse, text: str) -> list[str]:
    """Return every word of a text that is not English, in a form for comparison, in its order.

    Numbers, dates, units and Japanese words have one form. Any other word stays as it is written,
    without the capital of the first word.
    """
    folds = text.islower() or text.isupper()
    found: list[str] = []
    for token in parsed.tokens:
        if parsed.language == JAPANESE or token.kind in (Kind.NUMBER, Kind.SCALE, Kind.STOP):
            found.append("" if token.kind is Kind.FILLER else token.key or ",")
        elif token.key in DATES_AND_UNITS or is_code(token.surface):
            found.append(token.key)
        else:
            found.append(token.surface.lower() if folds or not found else token.surface)
    while found and found[-1] == ",":
        found.pop()
    return list(filter(None, found))


DATES_AND_UNITS = MONTH_SET | frozenset(WEEKDAYS.values()) | frozenset(UNITS.values())


def moved(left: Side, right: Side) -> tuple[str, ...]:
    """Return how the shared words of two English texts differ in order, number or preposition.

    Each item is "word order" or a pair such as "cat / cats" or "in March / by March".
    """
    first, second = _common(left), _common(right)
    if _equal(first, second):
        return governed(first, second)
    same = not left.extra and not right.extra and _phrase_moved(left.parse, first, second)
    return () if same else (_ORDER,)


def _common(side: Side) -> Sequence[Word]:
    """Drop the words that only this text has; return the others, with adjusted prepositions.

    The preposition of a dropped word goes to the next word: without "big", "in big Paris" becomes
    "in Paris".
    """
    if not side.extra:
        return side.parse.words
    kept: list[Word] = []
    role = ""
    for word, is_added in zip(side.parse.words, side.added, strict=True):
        inherited = role if word.joined and not word.role else word.role
        role = inherited if is_added else ""
        if not is_added:
            kept.append(word if inherited == word.role else word._replace(role=inherited))
    return kept


# --- what governs ---------------------------------------------------------------------------------

_LOOSE = frozenset({"", "in", "on", "at"})


def governed(left: Sequence[Word], right: Sequence[Word]) -> tuple[str, ...]:
    """Return how words that occur in both texts differ in number or in the preposition before them.

    `left` and `right` are the words of the two texts. Words at the same position are compared. Each
    difference is returned as one string, such as "cat / cats" or "in March / by March".

    Prepositions are compared only if no word is singular in one text and plural in the other.
    """
    pairs = list(zip(left, right, strict=True))
    several = [(a, b) for a, b in pairs if _differ_in_number(a.surface, b.surface)]
    if several:
        return tuple(f"{a.surface} / {b.surface}" for a, b in several)
    return tuple(
        f"{a.role} {a.surface}".strip() + " / " + f"{b.role} {b.surface}".strip()
        for a, b in pairs
        if a.role != b.role and not _is_loose(a, b)
    )


def _is_loose(a: Word, b: Word) -> bool:
    return {a.role, b.role} <= _LOOSE and is_time(a.key)


def _differ_in_number(a: str, b: str) -> bool:
    short, long = sorted((a.casefold(), b.casefold()), key=len)
    if short == long or a.casefold() in UNITS:
        return False
    same = IRREGULAR_PLURALS.get(short, short) == IRREGULAR_PLURALS.get(long, long)
    return same or long in (f"{short}s", f"{short}es", f"{short[:-1]}ies")


def _governed_words(words: Sequence[Word]) -> list[tuple[str, str]]:
    return [(word.stated, "" if word.role in _LOOSE else word.role) for word in words]


# --- phrases that moved ---------------------------------------------------------------------------

_OPENING = frozenset({"near", "under", "behind", "during", "since", "after", "before"})
_NO_PHRASE = frozenset({"", "of", "than", "as"})
_BINDING = (
    REPORTS | DOUBTS | CONDITIONS | CAUSAL_NOUNS | frozenset("that who which because".split())
)


def _phrase_moved(parsed: Parse, first: Sequence[Word], second: Sequence[Word]) -> bool:
    """Return whether one phrase only moved from one end of a plain sentence to the other.

    It may belong to another word there if the text denies, reports or has a second clause.
    """
    keys = {token.key for token in parsed.tokens if token.surface != "May"}
    if parsed.negations or not keys.isdisjoint(_BINDING):
        return False
    if sorted(_governed_words(first)) != sorted(_governed_words(second)):
        return False
    cut = _turn(first, second)
    front, rest = first[:cut], first[cut:]
    return cut > 0 and (
        (_is_phrase(front) and not rest[0].role and _is_plain(rest))
        or (_is_phrase(rest) and not front[0].role and _is_plain(front))
    )


def _is_plain(words: Sequence[Word]) -> bool:
    return words[0].clause == words[-1].clause


def _is_phrase(words: Sequence[Word]) -> bool:
    first = words[0]
    opens = first.role not in _NO_PHRASE or is_time(first.key) or first.key in _OPENING
    return opens and all(
        word.role not in _NO_PHRASE or word.joined or is_time(word.key) for word in words[1:]
    )


def is_manner(word: Word) -> bool:
    """Return whether the word is an adverb of manner in -ly; "slowly" is, "Kimberly" is not."""
    surface = word.surface
    return surface.endswith("ly") and surface.islower() and surface not in NO_ADVERBS


def is_time(key: str) -> bool:
    """Return whether the key of a word denotes a day, a month, a year or an hour of a day."""
    return key in TEMPORAL or key.startswith(("at ", "day ")) or (key.isdigit() and len(key) == 4)


def _equal(left: Sequence[Word], right: Sequence[Word]) -> bool:
    return [word.stated for word in left] == [word.stated for word in right]


def _turn(left: Sequence[Word], right: Sequence[Word]) -> int:
    first, second = _lettered(left, right)
    cut = (first + first).find(second, 1) if len(first) == len(second) else 0
    return cut if 0 < cut < len(first) else 0


def _lettered(left: Sequence[Word], right: Sequence[Word]) -> tuple[str, str]:
    letters: dict[str, str] = {}
    for word in (*left, *right):
        letters.setdefault(word.stated, chr(len(letters)))
    return "".join([letters[w.stated] for w in left]), "".join([letters[w.stated] for w in right])


# --- additions ------------------------------------------------------------------------------------

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

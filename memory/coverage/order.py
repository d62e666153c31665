"""Check whether the words that two texts share have the same order and the same prepositions.

A phrase may move to the other end of a sentence, an adverb past the next word, and a German subject
behind its verb. Any other change of order counts as a change of who does what.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from memory.coverage.parse import Parse, Word
from memory.text import (
    CAUSAL_NOUNS,
    IRREGULAR_PLURALS,
    JAPANESE,
    MEASURES,
    MUTUAL,
    NO_ADVERBS,
    NOT,
    OTHER,
    TEMPORAL,
    UNITS,
    with_all_languages,
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


def moved(left: Side, right: Side) -> tuple[str, ...]:
    """Return how the shared words of two texts differ in order, number or preposition.

    Each item is "word order" or a pair such as "cat / cats" or "in March / by March".
    """
    first, second = _common(left), _common(right)
    if _equal(first, second):
        return governed(first, second)
    if left.extra or right.extra or left.parse.language == OTHER:
        return (_ORDER,)
    if left.parse.language == right.parse.language == JAPANESE:
        return () if _phrases(first) == _phrases(second) else (_ORDER,)
    return () if _may_move(left, right, first, second) else (_ORDER,)


def _may_move(left: Side, right: Side, first: Sequence[Word], second: Sequence[Word]) -> bool:
    if _is_mutual(first, second) or _is_identity(first, second) or _is_identity(second, first):
        return True
    differ = [n for n, (a, b) in enumerate(zip(first, second, strict=True)) if a.stated != b.stated]
    start, end = differ[0], differ[-1] + 1
    two_swapped = end - start == 2
    if two_swapped and _are_joined(first, start) and _are_joined(second, start):
        return not is_ranked(left.text) and all(t.key not in _CONTRASTS for t in left.parse.tokens)
    if sorted(_governed_words(first)) != sorted(_governed_words(second)):
        return False
    changed = first[start:end]
    return (
        (
            two_swapped
            and is_manner(changed[0]) != is_manner(changed[1])
            and all(word.key != NOT for word in changed)
        )
        or _times_moved(first, second)
        or _phrase_moved(first, second)
        or _inverted(first, second)
        or _inverted(second, first)
        or (
            left.parse.passive != right.parse.passive and _phrase_jumped(changed, second[start:end])
        )
    )


_CONTRASTS = with_all_languages("but", lambda grammar: grammar.CONTRASTS)
_RANKING = with_all_languages("", lambda grammar: grammar.RANKING)

is_ranked = re.compile(
    r"\b(?:rank(?:s|ed|ing|ings)?|respectively|consecutively|successively|followed by"
    r"|in (?:\w+ ){0,4}(?:order|sequence|succession)(?! (?:to|that|for)\b)"
    r"|by (?:age|size|height|weight|length|date|name|price|value|priority|importance|preference)"
    r"|\w+(?:est|st) (?:to|first|last)|sorted|former|latter|queue|podium|itinerary"
    r"|chronologically|alphabetically|in turn|(?:starting|beginning) with"
    rf"|{'|'.join(_RANKING)})\b",
    re.IGNORECASE,
).search
"""Searches a text for words that give a list's order a meaning, such as "by age" or "in turn"."""


def _common(side: Side) -> Sequence[Word]:
    """Drop the words that only this text has; return the others, with adjusted prepositions.

    The preposition of a dropped word goes to the next word: without "big", "in big Paris" becomes
    "in Paris". The preposition of a dropped time, such as "in 2020", is dropped too. After a
    dropped word, "of" becomes "part of": without "door", "door of the house" becomes "part of the
    house".
    """
    if not side.extra:
        return side.parse.words
    kept: list[Word] = []
    role = part = ""
    for word, is_added in zip(side.parse.words, side.added, strict=True):
        inherited = role if word.joined and not word.role else word.role
        if word.role == "of" and part and part not in _NO_PARTS:
            inherited = _PART_OF
        elif inherited == _PART_OF and word.past:
            inherited = "of"
        part = word.key if is_added else ""
        role = inherited if is_added and not is_time(word.key) else ""
        if not is_added:
            kept.append(word if inherited == word.role else word._replace(role=inherited))
    return kept


def is_written_apart(left: Side, right: Side) -> bool:
    """Return whether two texts differ only in that one writes a word in two parts: "web site"."""
    return (
        left.parse.persons == right.parse.persons
        and left.parse.shades == right.parse.shades
        and JAPANESE not in (left.parse.language, right.parse.language)
        and (_joins(left, right) or _joins(right, left))
    )


def _joins(apart: Side, together: Side) -> bool:
    words, others = apart.parse.words, together.parse.words
    if len(apart.extra) != 2 or len(together.extra) != 1 or len(words) != len(others) + 1:
        return False
    position = apart.added.index(True)
    first, last = words[position : position + 2] if position + 1 < len(words) else (words[-1],) * 2
    joined = first.surface.lower() + last.surface.lower()
    if first.key in _QUALITIES or not last.joined or others[position].surface.lower() != joined:
        return False
    whole = others[position]._replace(role=first.role)
    rest = [*words[:position], whole, *words[position + 2 :]]
    return _equal(rest, others) and not governed(rest, others)


_QUALITIES = frozenset(
    "black white red green blue brown gray yellow dark light bright hot cold warm cool high low "
    "soft hard short long big large small little grand great free loud flat broad wide narrow wild "
    "quick fast slow dry wet heavy strong near far old new young full half whole good bad best "
    "sweet sour bitter rough smooth round square sharp blind dead poor rich common every any some "
    "no may over under out in up down off on all one two there here where".split()
)


# --- what governs ---------------------------------------------------------------------------------

_PART_OF = "part of"
_NO_PARTS = MEASURES | {"front"}  # "of" after them names no part: a cup of tea, in front of it
_LOOSE = frozenset({"", "in", "of"})


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
    roles = {a.role, b.role}
    return roles <= _LOOSE and (is_time(a.key) or roles == {"", "of"})


def _differ_in_number(a: str, b: str) -> bool:
    short, long = sorted((a.casefold(), b.casefold()), key=len)
    if short == long or a.casefold() in UNITS:
        return False
    same = IRREGULAR_PLURALS.get(short, short) == IRREGULAR_PLURALS.get(long, long)
    return same or long in (f"{short}s", f"{short}es", f"{short[:-1]}ies")


def _governed_words(words: Sequence[Word]) -> list[tuple[str, str]]:
    return [(word.stated, "" if word.role in _LOOSE else word.role) for word in words]


# --- Japanese -------------------------------------------------------------------------------------

_Phrase = tuple[tuple[str, str], ...]


def _phrases(words: Sequence[Word]) -> Mapping[tuple[int, str], list[_Phrase]]:
    found: defaultdict[tuple[int, str], list[_Phrase]] = defaultdict(list)
    phrase: _Phrase = ()
    number = clause = 0
    for word in words:
        if word.clause != clause and phrase:
            found[number, ""].append(phrase)
            number, phrase = number + 1, ()
        clause = word.clause
        phrase += ((word.stated, word.role),)
        if word.role not in ("", "の", "と", "や"):
            found[number, word.role].append(phrase)
            phrase = ()
    found[number, ""].append(phrase)
    return found


# --- English and German ---------------------------------------------------------------------------


def _is_mutual(left: Sequence[Word], right: Sequence[Word]) -> bool:
    last = max((n for n, word in enumerate(left) if word.role), default=0)
    for position in range(max(1, last - 1), len(left) - 1):
        relation, other = left[position], left[position + 1 :]
        if MUTUAL.get(relation.key) == other[0].role:
            turned = [*other, relation, *left[:position]]
            plain = not any(word.role or word.is_number for word in left[:position])
            return plain and _equal(turned, right) and right[len(other) + 1].role == other[0].role
    return False


def _is_identity(left: Sequence[Word], right: Sequence[Word]) -> bool:
    if not 4 <= len(left) <= 5 or left[2].key != "have" or left[0].clause != left[-1].clause:
        return False
    named = all(word.surface[:1].isupper() for word in left[:2])
    return named and not any(word.role for word in left) and _equal([*left[1:], left[0]], right)


def _are_joined(words: Sequence[Word], position: int) -> bool:
    first, last = words[position : position + 2]
    behind = words[position + 2] if position + 2 < len(words) else None
    doing = all(word.surface.endswith("ing") and word.surface.islower() for word in (first, last))
    return (
        last.clause == first.clause + 1
        and not last.role
        and not any(word.is_number for word in words)
        and (doing or behind is None or behind.clause > last.clause)
        and (doing or all(w.surface[:1].isupper() or not w.joined for w in (first, last)))
        and (position > 0 or first.surface[:1].isupper())
    )


def _times_moved(left: Sequence[Word], right: Sequence[Word]) -> bool:
    (times, rest), (other_times, other_rest) = _without_times(left), _without_times(right)
    return bool(times) and times == other_times and _equal(rest, other_rest)


def _without_times(words: Sequence[Word]) -> tuple[list[str], Sequence[Word]]:
    no_times = [n for n, word in enumerate(words) if not is_time(word.key)] or [len(words)]
    start, end = no_times[0], no_times[-1] + 1
    if start and end < len(words):
        return [], words
    times = sorted(
        words[:start] or words[end:],
        key=lambda word: word.key.startswith("at ") or word.key in ("am", "pm"),
    )
    return [word.stated for word in times], words[start:end]


_OPENING = frozenset("while because although after during despite since near under behind".split())
_NO_PHRASE = frozenset({"", "of", "than", "as"})


def _phrase_moved(left: Sequence[Word], right: Sequence[Word]) -> bool:
    cut = _turn(left, right)
    front, rest = left[:cut], left[cut:]
    other_front, other_rest = right[: len(rest)], right[len(rest) :]
    if not cut or _leaves_scope(left, front) or _leaves_scope(right, other_front):
        return False
    return (_is_phrase(front) and _is_phrase(other_rest) and not rest[0].role) or (
        _is_phrase(rest) and _is_phrase(other_front) and not front[0].role
    )


def _leaves_scope(words: Sequence[Word], front: Sequence[Word]) -> bool:
    """Return whether a negation could deny the first phrase, if the phrase moved to the end.

    `words`: the whole text. `front`: its first phrase. For example, "Because of the rain she did
    not leave" says why she stayed. "She did not leave because of the rain" may also say that she
    left for another reason.
    """
    first = front[0]
    if _DENYING.isdisjoint(word.key for word in words[len(front) :]):
        return False
    if first.key == "since":
        return len(front) < 2 or not is_time(front[1].key)
    if not first.role and first.key not in _OPENING:
        return False
    denied = first.role not in ("", "in", "over", "through") and not is_time(first.key)
    return denied or first.key == "because" or first.key in CAUSAL_NOUNS


_DENYING = frozenset({NOT, "only", "rarely", "seldom", "hardly", "barely", "scarcely"})


def _phrase_jumped(first: Sequence[Word], second: Sequence[Word]) -> bool:
    cut = _turn(first, second)
    return (
        cut > 0
        and first[0].clause == first[-1].clause
        and second[0].clause == second[-1].clause
        and (_is_phrase(first[:cut]) or _is_phrase(first[cut:]))
    )


def _is_phrase(words: Sequence[Word]) -> bool:
    first = words[0]
    opens = first.role not in _NO_PHRASE or is_time(first.key) or first.key in _OPENING
    return opens and first.clause == words[-1].clause


def _inverted(fronted: Sequence[Word], plain: Sequence[Word]) -> bool:
    first, second = _lettered(fronted, plain)
    for verb in range(1, len(fronted) - 1):
        if first[verb + 1 :] + first[verb] + first[:verb] == second:
            phrase, subject = fronted[:verb], fronted[verb + 1 :]
            verbal = fronted[verb].surface.islower() and not fronted[verb].role
            return verbal and _is_phrase(phrase) and not any(word.role for word in subject)
    return False


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

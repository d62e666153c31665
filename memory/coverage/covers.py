"""What one text states that another does not. Pure; cosine cannot see it.

A text covers another where it states each of the other's numbers, names, negations and content
words, as often, in an order that does not change who does what, each governed as it was, and where
what it adds only adds: "a tabby cat" covers "a cat", "a cat allergy" does not. Whatever is not
known to be safe counts as a difference, which sends a pair to the judge and never loses one.
A text of more than `LONGEST` characters is a document: it covers only the same text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from memory.coverage.additions import (
    changed_by_additions,
    only_narrows,
)
from memory.coverage.order import More, Side, governed, moved
from memory.coverage.parse import Parse, Stated, Word, parse, parse_by_dictionary
from memory.text import NOT, Language, identity, in_capitals, is_other_list

T = TypeVar("T")


@dataclass(frozen=True)
class Comparison:
    """What each of two texts states that the other does not, as words a person can read.

    `conflict` is what stands against the other on both sides, and so in `only_a` and `only_b`: a
    negation or a "used to" that one of them has, the order of the words that both have, another
    word that governs one ("for Mia" / "with Mia"), an addition that changes what it is added to.
    """

    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    conflict: tuple[str, ...] = ()

    @property
    def a_covers_b(self) -> bool:
        return not self.only_b

    @property
    def b_covers_a(self) -> bool:
        return not self.only_a


_SAME = Comparison((), ())
LONGEST = 4_000
"""Characters up to which a text is read word by word."""


def compare(a: str, b: str) -> Comparison:
    """What `a` states beyond `b`, and `b` beyond `a`."""
    if len(a) > LONGEST or len(b) > LONGEST:
        return _compare_documents(a, b)
    left, right = parse_by_dictionary(a), parse_by_dictionary(b)
    conflict = _turned_around(left, right) + in_capitals(a, b)
    if left.stated == right.stated:
        conflict += governed(left.words, right.words)
        return _with_rest(Side(a, left, {}), Side(b, right, {}), conflict, (), ())
    first, second = left.stated, right.stated
    more_left, more_right = _more(first, second)
    only_a = _worded(left.words, more_left)
    only_b = _worded(right.words, more_right)
    sides = Side(a, left, more_left), Side(b, right, more_right)
    conflict += _signs((*more_left, *more_right))
    if is_other_list(a, b):
        conflict += (_LIST,)
    if more_left and more_right:
        return Comparison(_once(only_a, conflict), _once(only_b, conflict), conflict)
    return _with_rest(*sides, conflict + moved(*sides), only_a, only_b)


def _compare_documents(a: str, b: str) -> Comparison:
    """The comparison of long texts: the same, or neither covers the other; some words of each."""
    first, second = identity(a), identity(b)
    if first == second:
        return _SAME
    words = first.split(), second.split()
    only_a, only_b = (
        [word[:_WORD_SHOWN] for word in dict.fromkeys(own) if word not in other][:_FEW_WORDS]
        for own, other in ((words[0], set(words[1])), (words[1], set(words[0])))
    )
    return Comparison((*only_a, _DOCUMENT), (*only_b, _DOCUMENT), (_DOCUMENT,))


_DOCUMENT = f"more than {LONGEST:,} characters"
_WORD_SHOWN = 40
"""Characters of a word of a document that are shown."""


def _with_rest(
    left: Side,
    right: Side,
    conflict: tuple[str, ...],
    only_a: tuple[str, ...],
    only_b: tuple[str, ...],
) -> Comparison:
    """The comparison, with the persons and shades beside the words, and what additions change."""
    beside_a, beside_b = _beside(left.parse, right.parse)
    only_a, only_b = only_a + beside_a, only_b + beside_b
    if not (conflict or only_a or only_b):
        return _SAME
    # A dictionary tells by itself which phrases of Japanese are added, wherever they stand.
    japanese = left.parse.language is right.parse.language is Language.JAPANESE
    by_phrases = japanese and left.parse.asks == right.parse.asks
    if (by_phrases or not conflict) and bool(only_a) != bool(only_b):
        longer, shorter = (left, right) if only_a else (right, left)
        told = only_a or only_b
        conflict = changed_by_additions(longer, shorter, told)
        if conflict and only_narrows(longer, shorter):
            return Comparison((), told) if only_a else Comparison(told, ())
        only_a, only_b = _untold(only_a, conflict), _untold(only_b, conflict)
    return Comparison(_once(only_a, conflict), _once(only_b, conflict), conflict)


def _untold(words: tuple[str, ...], phrases: tuple[str, ...]) -> tuple[str, ...]:
    """The words that are in none of the phrases."""
    told = {word for phrase in phrases for word in phrase.split()}
    return tuple(word for word in words if word not in told)


def covers(a: str, b: str) -> bool:
    """Whether everything that `b` states is stated by `a`."""
    return compare(a, b).a_covers_b


def negations(text: str) -> int:
    """How many times it says no."""
    return parse(text).negations


_FEW_WORDS = 3
_LIST = "another list"


def _signs(more: Iterable[Stated]) -> tuple[str, ...]:
    """What has no letter and no digit: a sign more is never a mere addition."""
    return tuple(key for key in more if not any(map(str.isalnum, key)))


def shared(a: str, b: str) -> tuple[int, int]:
    """How many statements two texts have in common, and how many the shorter one makes.

    Of a text longer than `LONGEST`, only the beginning is read.
    """
    a, b = a[:LONGEST], b[:LONGEST]
    left, right = set(parse(a).stated), set(parse(b).stated)
    return len(left & right), min(len(left), len(right))


def _more(left: Sequence[Stated], right: Sequence[Stated]) -> tuple[More, More]:
    """What stands more often in one than in the other, and how much more."""
    there, here = set(left), set(right)
    if len(there) == len(left) and len(here) == len(right):
        return dict.fromkeys(there - here, 1), dict.fromkeys(here - there, 1)
    balance: dict[Stated, int] = {}
    for stated in left:
        balance[stated] = balance.get(stated, 0) + 1
    for stated in right:
        balance[stated] = balance.get(stated, 0) - 1
    more_left = {stated: n for stated, n in balance.items() if n > 0}
    return more_left, {stated: -n for stated, n in balance.items() if n < 0}


def _worded(words: Sequence[Word], more: More) -> tuple[str, ...]:
    """Return the surface of each word that the text has more of; the conflict names negation."""
    return tuple([word.surface for word in words if word.stated in more and word.key != NOT])


def _once(told: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(told + more))


# --- what turns a statement around ----------------------------------------------------------------


def _turned_around(left: Parse, right: Parse) -> tuple[str, ...]:
    """What only one has and turns a statement around: not, had, might, hopes, a question mark."""
    if (
        left.turning == right.turning
        and left.negations == right.negations
        and left.asks == right.asks
    ):
        return ()
    negated = () if left.negations == right.negations else (NOT,)
    turning = sorted({key for key, _ in left.turning ^ right.turning})
    asked = () if left.asks == right.asks else ("?",)
    return (*negated, *turning, *asked)


# --- what stands beside the words -----------------------------------------------------------------


def _beside(left: Parse, right: Parse) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The persons and shades that each has more of; all of them where their order differs."""
    more_left: tuple[str, ...] = ()
    more_right: tuple[str, ...] = ()
    if left.persons != right.persons:
        more_left, more_right = _beyond(left.persons, right.persons)
    if left.shades != right.shades:
        shades_left, shades_right = _beyond(left.shades, right.shades)
        more_left += tuple(shade for shade, _ in shades_left)
        more_right += tuple(shade for shade, _ in shades_right)
    return more_left, more_right


def _beyond(left: Sequence[T], right: Sequence[T]) -> tuple[tuple[T, ...], tuple[T, ...]]:
    """What each has that the other has not, in order; everything where the order differs."""
    more_left = tuple((Counter(left) - Counter(right)).elements())
    more_right = tuple((Counter(right) - Counter(left)).elements())
    if more_left or more_right:
        longer, shorter = (left, right) if more_left else (right, left)
        if bool(more_left) == bool(more_right) or _is_within(shorter, longer):
            return more_left, more_right
    return tuple(left), tuple(right)


def _is_within(shorter: Sequence[T], longer: Sequence[T]) -> bool:
    """Whether all of the shorter stand in the longer, in this order."""
    rest = iter(longer)
    return all(any(one == other for other in rest) for one in shorter)

"""Coverage: whether one text states everything that another states, and what it lacks.

A text covers another where it states each of the other's numbers, names, negations and content
words, as often, in an order that does not change who does what, each governed as it was, and where
what it adds only adds: "a tabby cat" covers "a cat", "a cat allergy" does not. In doubt texts count
as different: then the pair goes to the judge, and nothing is lost.
A text of more than `LONGEST` characters is a document: it covers only the same text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from memory.coverage.additions import changed_by_additions, only_narrows
from memory.coverage.order import Extra, Side, is_written_apart, moved
from memory.coverage.parse import Parse, Word, parse, parse_by_dictionary
from memory.text import NOT, Language, identity, in_capitals, is_other_list

T = TypeVar("T")


@dataclass(frozen=True)
class Comparison:
    """What each of two texts states that the other does not, in words for a person.

    `conflict`, repeated in `only_a` and `only_b`, is what keeps either from covering the other: a
    negation or a "used to" in one of them, another word order, another preposition ("for Mia" /
    "with Mia"), an addition that changes what it is added to.
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
"""Characters of the longest text that is compared word by word."""


def compare(a: str, b: str) -> Comparison:
    """Return what `a` states beyond `b`, and `b` beyond `a`."""
    if len(a) > LONGEST or len(b) > LONGEST:
        return _compare_documents(a, b)
    left, right = parse_by_dictionary(a), parse_by_dictionary(b)
    extra_left = Counter(left.stated) - Counter(right.stated)
    extra_right = Counter(right.stated) - Counter(left.stated)
    sides = Side(a, left, extra_left), Side(b, right, extra_right)
    only_a, only_b = _surfaces(left.words, extra_left), _surfaces(right.words, extra_right)
    conflict = _turned_around(left, right) + in_capitals(a, b)
    if extra_left or extra_right:
        conflict += tuple(  # a sign without a letter or a digit is never a mere addition
            key for key in (*extra_left, *extra_right) if not any(map(str.isalnum, key))
        )
        conflict += ("another list",) if is_other_list(a, b) else ()
    if extra_left and extra_right:
        same_letters = "".join(only_a).lower() == "".join(only_b).lower()
        if not conflict and same_letters and is_written_apart(*sides):
            return _SAME
        return Comparison(_unique(only_a + conflict), _unique(only_b + conflict), conflict)
    return _compare_sides(*sides, conflict + moved(*sides), only_a, only_b)


def _compare_documents(a: str, b: str) -> Comparison:
    """Compare texts of which one is a document: equal, or neither covers the other."""
    first, second = identity(a), identity(b)
    if first == second:
        return _SAME
    words = first.split(), second.split()
    only_a, only_b = (
        [word[:_WORD_SHOWN] for word in dict.fromkeys(own) if word not in other][:_WORDS_SHOWN]
        for own, other in ((words[0], set(words[1])), (words[1], set(words[0])))
    )
    return Comparison((*only_a, _DOCUMENT), (*only_b, _DOCUMENT), (_DOCUMENT,))


_DOCUMENT = f"more than {LONGEST:,} characters"
_WORD_SHOWN = 40
"""Characters shown of one word of a document."""
_WORDS_SHOWN = 3


def _compare_sides(
    left: Side,
    right: Side,
    conflict: tuple[str, ...],
    only_a: tuple[str, ...],
    only_b: tuple[str, ...],
) -> Comparison:
    """Compare two texts of which at most one states more words than the other.

    Persons and shades are compared too, and what is added must not change what it is added to.
    """
    persons_a, persons_b = _beyond(left.parse.persons, right.parse.persons)
    shades_a, shades_b = _beyond(left.parse.shades, right.parse.shades)
    only_a += persons_a + tuple(shade for shade, _ in shades_a)
    only_b += persons_b + tuple(shade for shade, _ in shades_b)
    # For Japanese, `changed_by_additions` compares whole phrases, in whatever order they stand.
    japanese = left.parse.language is right.parse.language is Language.JAPANESE
    by_phrases = japanese and left.parse.asks == right.parse.asks
    if (by_phrases or not conflict) and bool(only_a) != bool(only_b):
        longer, shorter = (left, right) if only_a else (right, left)
        extra = only_a or only_b
        conflict = changed_by_additions(longer, shorter, extra)
        if conflict and only_narrows(longer, shorter):
            return Comparison((), extra) if only_a else Comparison(extra, ())
        named = {word for phrase in conflict for word in phrase.split()}
        only_a, only_b = (
            tuple(word for word in words if word not in named) for words in (only_a, only_b)
        )
    return Comparison(_unique(only_a + conflict), _unique(only_b + conflict), conflict)


def covers(a: str, b: str) -> bool:
    """Whether `a` states everything that `b` states."""
    return compare(a, b).a_covers_b


def shared(a: str, b: str) -> tuple[int, int]:
    """Return how many stated words two texts share, and how many the shorter one has.

    Of a text longer than `LONGEST`, only the beginning is read.
    """
    a, b = a[:LONGEST], b[:LONGEST]
    left, right = set(parse(a).stated), set(parse(b).stated)
    return len(left & right), min(len(left), len(right))


def _surfaces(words: Sequence[Word], extra: Extra) -> tuple[str, ...]:
    """Return how the text words what it has more of; a negation is named as a conflict instead."""
    return tuple([word.surface for word in words if word.stated in extra and word.key != NOT])


def _unique(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


def _turned_around(left: Parse, right: Parse) -> tuple[str, ...]:
    """Return what turns the statement of one text around: not, had, might, a question mark."""
    negated = () if left.negations == right.negations else (NOT,)
    turning = sorted({key for key, _ in left.turning ^ right.turning})
    asked = () if left.asks == right.asks else ("?",)
    return (*negated, *turning, *asked)


def _beyond(left: Sequence[T], right: Sequence[T]) -> tuple[tuple[T, ...], tuple[T, ...]]:
    """Return the persons, or shades, that each text has more of; all where their order differs."""
    if left == right:
        return (), ()
    extra_left = tuple((Counter(left) - Counter(right)).elements())
    extra_right = tuple((Counter(right) - Counter(left)).elements())
    longer, shorter = (left, right) if extra_left else (right, left)
    rest = iter(longer)
    in_order = all(item in rest for item in shorter)
    if (extra_left and extra_right) or in_order:
        return extra_left, extra_right
    return tuple(left), tuple(right)

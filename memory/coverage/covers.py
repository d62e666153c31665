"""Coverage: whether one text states everything that another states, and what it lacks.

Text A covers text B if A states each number, name, negation and content word of B. A different word
order or preposition must not change who does what. The extra words of A must only add to B: "a
tabby cat" covers "a cat", "a cat allergy" does not. In doubt, neither text covers the other. Only
English is read so far; in other languages, every word counts, in its order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, TypeVar

from memory.coverage.order import Side, changed_by_additions, in_order, moved
from memory.coverage.parse import Parse, Word, parse
from memory.coverage.written import beyond, punctuated_otherwise, written_otherwise
from memory.text import (
    ENGLISH,
    NOT,
    guarded,
    identity,
    is_japanese,
    may_be_english,
    shortened,
    visible,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Comparison:
    """The differences between two texts, in words for a person to read.

    `only_a`: what only the first text states. `only_b`: what only the second states. A conflict,
    such as a negation in one text, is in both fields, so that neither text covers the other.
    """

    only_a: tuple[str, ...]
    only_b: tuple[str, ...]

    @property
    def a_covers_b(self) -> bool:
        return not self.only_b

    @property
    def b_covers_a(self) -> bool:
        return not self.only_a


_SAME = Comparison((), ())
LONGEST = 4_000
"""Limit in characters for comparing two texts; a longer text covers only an equal text."""


CANNOT_TELL = ("what cannot be compared",)


@guarded(lambda _a, _b: Comparison(CANNOT_TELL, CANNOT_TELL))
def compare(a: str, b: str) -> Comparison:
    """Return what `a` states and `b` does not, and what `b` states and `a` does not.

    >>> found = compare("Mia has a cat.", "Mia has a tabby cat.")
    >>> found.a_covers_b, found.b_covers_a
    (False, True)
    """
    if len(a) > LONGEST or len(b) > LONGEST:
        return _compare_documents(a, b)
    left, right = _parses(a, b)
    if not left.language == right.language == ENGLISH:
        return _compare_in_order(a, b, left, right)
    extra_left, extra_right = left.counts - right.counts, right.counts - left.counts
    sides = Side(a, left, extra_left), Side(b, right, extra_right)
    only_a, only_b = _surfaces(left.words, extra_left), _surfaces(right.words, extra_right)
    conflict = _turning_in_one(left, right) + written_otherwise(a, b)
    if left.persons != right.persons:
        persons = Counter(left.persons), Counter(right.persons)
        conflict += beyond(*persons) or ("word order",)
    if extra_left or extra_right:
        conflict += tuple(  # a sign without a letter or a digit is never a mere addition
            key for key in (*extra_left, *extra_right) if not any(map(str.isalnum, key))
        )
    if extra_left and extra_right:
        return Comparison(_unique(only_a + conflict), _unique(only_b + conflict))
    return _compare_sides(*sides, conflict + moved(*sides), only_a, only_b)


def _parses(a: str, b: str) -> tuple[Parse, Parse]:
    left, right = parse(a), parse(b)
    if left.language == ENGLISH != right.language and may_be_english(b):
        return left, parse(b, ENGLISH)
    if right.language == ENGLISH != left.language and may_be_english(a):
        return parse(a, ENGLISH), right
    return left, right


def _compare_in_order(a: str, b: str, left: Parse, right: Parse) -> Comparison:
    """Compare two texts of which at least one is not English: every word counts, in its order."""
    first, second = (in_order(parsed, text) for parsed, text in ((left, a), (right, b)))
    conflict = written_otherwise(a, b)
    if first == second and left.asks == right.asks:
        return Comparison(conflict, conflict)
    ours, theirs = Counter(first) - Counter(second), Counter(second) - Counter(first)
    only_a, only_b = tuple(filter(str.strip, ours)), tuple(filter(str.strip, theirs))
    both = conflict or (() if only_a and only_b else only_a or only_b or ("word order",))
    return Comparison(_unique(only_a + both), _unique(only_b + both))


def _compare_documents(a: str, b: str) -> Comparison:
    first, second = identity(a), identity(b)
    if first == second:
        return _SAME
    words = first.split(), second.split()
    only_a, only_b = (
        [word[:40] for word in dict.fromkeys(own) if word not in other][:3]
        for own, other in ((words[0], set(words[1])), (words[1], set(words[0])))
    )
    return Comparison((*only_a, _DOCUMENT), (*only_b, _DOCUMENT))


_DOCUMENT = f"more than {LONGEST:,} characters"


def _compare_sides(
    left: Side,
    right: Side,
    conflict: tuple[str, ...],
    only_a: tuple[str, ...],
    only_b: tuple[str, ...],
) -> Comparison:
    shades = Counter(left.parse.shades), Counter(right.parse.shades)
    only_a += tuple(shade for shade, _ in shades[0] - shades[1])
    only_b += tuple(shade for shade, _ in shades[1] - shades[0])
    if not conflict and bool(only_a) != bool(only_b):
        longer, shorter = (left, right) if only_a else (right, left)
        conflict = changed_by_additions(longer, shorter, only_a or only_b)
    elif not conflict and not only_a:
        conflict = punctuated_otherwise(left.parse, right.parse)
    return Comparison(_unique(only_a + conflict), _unique(only_b + conflict))


@guarded(lambda _a, _b: False)
def covers(a: str, b: str) -> bool:
    """Return whether `a` states everything that `b` states; False in case of doubt.

    >>> covers("Mia has a tabby cat.", "Mia has a cat.")
    True
    >>> covers("Mia has no cat.", "Mia has a cat.")
    False
    """
    return compare(a, b).a_covers_b


def _surfaces(words: Sequence[Word], extra: Counter[str]) -> tuple[str, ...]:
    return tuple([word.surface for word in words if word.stated in extra and word.key != NOT])


def _unique(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


def _turning_in_one(left: Parse, right: Parse) -> tuple[str, ...]:
    negated = () if left.negations == right.negations else (NOT,)
    turning = sorted({key for key, _ in left.turning ^ right.turning})
    asked = () if left.asks == right.asks else ("?",)
    return (*negated, *turning, *asked)


# --- what differs, as runs of words ---------------------------------------------------------------

MOST_WORDS = 1_000
"""Limit in words for finding single differences between two texts.

Equal words at the start and at the end of both texts are not counted. If either text has more other
words than this, all the other words count as one difference.
"""

_HAN = "\u3005\u3400-\u9fff\uf900-\ufaff"
_KANA = "\u3041-\u309f\u30a1-\u30ff\uff66-\uff9f"
_SIGN = (
    "!-/:-@\\[-`{-~\u00a1-\u00bf\u2010-\u206f\u3000-\u3004\u3007-\u303f\uff01-\uff0f\uff1a-\uff20"
)
_WORD = rf"[^\s{_SIGN}{_HAN}{_KANA}]"
_SCRIPTS = rf"[\u3041-\u309f]+|[\u30a1-\u30ff\uff66-\uff9f]+|{_WORD}+(?:['’.,:-]{_WORD}+)*|\S"
_WORDS = re.compile(rf"\s+|(?:[{_HAN}]+|{_SCRIPTS})\s*")
_CHARACTERS_OF_HAN = re.compile(rf"\s+|(?:[{_HAN}]|{_SCRIPTS})\s*")


@dataclass(frozen=True)
class WordRun:
    """Consecutive words of both texts ("kept"), or only of the old ("removed") or new ("added")."""

    kind: Literal["kept", "removed", "added"]
    text: str


def _all_replaced(old: str, new: str) -> tuple[WordRun, ...]:
    runs = WordRun("removed", old), WordRun("added", new)
    return tuple(run for run in runs if run.text)


@guarded(_all_replaced)
def difference(old: str, new: str) -> tuple[WordRun, ...]:
    """Return two texts as runs of kept, removed and added words, in reading order.

    Joined, the kept and added runs are the new text, except that white space may differ.

    >>> [(run.kind, run.text) for run in difference("Mia rows.", "Mia rows daily.")]
    [('kept', 'Mia rows '), ('added', 'daily'), ('kept', '.')]
    """
    a, b = words(old), words(new)
    runs: list[WordRun] = []
    for same, ours, theirs in _aligned(a, b):
        if same:
            pairs = zip(a[ours], b[theirs], strict=True)
            runs.append(WordRun("kept", "".join(max(pair, key=len) for pair in pairs)))
        else:
            runs += [WordRun("removed", "".join(a[ours])), WordRun("added", "".join(b[theirs]))]
    return tuple(run for run in runs if run.text)


@guarded(lambda text, _others: tuple(["", text] if text else [""]))
def marked(text: str, others: Sequence[str]) -> tuple[str, ...]:
    """Cut `text` into pieces that are shared and not shared, in turn.

    A word is shared if each of `others` has it, too, in the same order. The first piece is shared;
    it is "" if `text` begins with a word that is not shared. The second piece is not shared.

    >>> marked("Mia has two cats.", ["Mia has three cats."])
    ('Mia has ', 'two ', 'cats.')
    """
    own = words(text)
    missing: set[int] = set()
    for other in others:
        for same, positions, _ in _aligned(own, words(other)):
            missing.update(() if same else range(len(own))[positions])
    pieces = [""]
    for n, word in enumerate(own):
        if (n in missing) == len(pieces) % 2:
            pieces.append("")
        pieces[-1] += word
    return tuple(pieces)


def words(text: str) -> list[str]:
    """Cut a text into words, numbers and punctuation marks, each with the white space after it.

    Japanese is cut at each change of script, Chinese at each character.
    """
    cut = _WORDS if text.isascii() or is_japanese(text) else _CHARACTERS_OF_HAN
    return cut.findall(visible(text))


_Aligned = tuple[bool, slice, slice]


def _aligned(old: Sequence[str], new: Sequence[str]) -> Iterator[_Aligned]:
    a, b = [word.rstrip() for word in old], [word.rstrip() for word in new]
    start = common_start(a, b)
    end = common_start(a[start:][::-1], b[start:][::-1])
    end_a, end_b = len(a) - end, len(b) - end
    yield True, slice(0, start), slice(0, start)
    if max(end_a, end_b) - start > MOST_WORDS:
        yield False, slice(start, end_a), slice(start, end_b)
    else:
        matcher = SequenceMatcher(None, a[start:end_a], b[start:end_b])
        for tag, i, i_end, j, j_end in matcher.get_opcodes():
            ours, theirs = slice(i + start, i_end + start), slice(j + start, j_end + start)
            yield tag == "equal", ours, theirs
    yield True, slice(end_a, len(a)), slice(end_b, len(b))


def common_start(a: Sequence[str], b: Sequence[str]) -> int:
    """Return how many items two sequences have in common at their start."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((n for n, (x, y) in pairs if x != y), min(len(a), len(b)))


# --- what differs, as one line --------------------------------------------------------------------


_UNIT = re.compile(
    rf"[{_HAN}]+[\u3041-\u309f]*|[\u30a1-\u30ff\uff66-\uff9f]+[\u3041-\u309f]*|[\u3041-\u309f]+"
    rf"|[^\s{_HAN}{_KANA}、。，]+"
)
_AROUND = "\"“”„«»'‘’.,;!…()[]。、！「」"
_LONGEST = 200  # characters of one difference that are shown


def _whole_texts(old: str, new: str) -> tuple[tuple[str, str], ...]:
    return ((shortened(old, _LONGEST), shortened(new, _LONGEST)),)


@guarded(_whole_texts)
def differing(old: str, new: str) -> tuple[tuple[str, str], ...]:
    """Return the differences of two texts as pairs (words of the old text, words of the new text).

    One side is "" if words were only added or removed. Each side has at most 200 characters.

    >>> differing("Mia has two cats.", "Mia has three cats.")
    (('two', 'three'),)
    >>> differing("Mia rows.", "Mia rows on Sundays.")
    (('', 'on Sundays'),)
    """
    found = compare(old, new)
    if found.a_covers_b and found.b_covers_a:
        return ()
    if max(len(old), len(new)) > LONGEST:
        start = old.rfind(" ", 0, common_start(old, new)) + 1
        old, new = old[start : start + LONGEST], new[start : start + LONGEST]
    (a, left), (b, right) = _units(old), _units(new)
    pairs = list(_aligned(a, b))
    if sorted(a) == sorted(b):  # only the order differs: one difference, not several
        pairs = [pairs[0], (False, _between(pairs, 1), _between(pairs, 2)), pairs[-1]]
    differences = tuple(
        (_own(old, left[ours]), _own(new, right[theirs]))
        for same, ours, theirs in pairs
        if not same and (left[ours] or right[theirs])
    )
    return differences or _whole_texts(old, new)


def _between(pairs: Sequence[_Aligned], side: Literal[1, 2]) -> slice:
    return slice(pairs[0][side].stop, pairs[-1][side].start)


@guarded(lambda old, new: " / ".join(f'"{text}"' for text in _whole_texts(old, new)[0]))
def differs(old: str, new: str) -> str:
    """Return the differences as one line for a person; "" if there are none.

    For example, `"October 15" / "October 16"; one adds "at noon"`.

    >>> differs("Mia has two cats.", "Mia has three cats.")
    '"two" / "three"'
    """
    pairs = differing(old, new)
    changed = [f'"{ours}" / "{theirs}"' for ours, theirs in pairs if ours and theirs]
    more = (
        _quoted(ours for ours, theirs in pairs if not theirs),
        _quoted(theirs for ours, theirs in pairs if not ours),
    )
    added = ", the other ".join(filter(None, more))
    return "; ".join([*changed, *([f"one adds {added}"] if added else ())])


def _quoted(phrases: Iterable[str]) -> str:
    return ", ".join(f'"{phrase}"' for phrase in phrases)


def _units(text: str) -> tuple[list[str], list[slice]]:
    forms, places, shouted = [], [], text.isupper()
    for match in _UNIT.finditer(text):
        unit = match.group()
        core = unit.strip(_AROUND)
        if not any(map(str.isalnum, core)):
            core = unit  # :) is no colon
        start = match.start() + unit.index(core)
        forms.append(identity(f"a {core.lower() if shouted or start == 0 else core}"))
        places.append(slice(start, start + len(core)))
    return forms, places


def _own(text: str, places: Sequence[slice]) -> str:
    return shortened(text[places[0].start : places[-1].stop], _LONGEST) if places else ""

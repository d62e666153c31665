"""Coverage: whether one text states everything that another states, and what it lacks.

Text A covers text B if A states each number, name, negation and content word of B, as often as B
does. The order of the words and the prepositions must leave unchanged who does what. Whatever A
states beyond B must only add to the statement: "a tabby cat" covers "a cat", "a cat allergy" does
not. In doubt, neither text covers the other, and a model or a person decides, so that nothing is
lost.

A text of more than `LONGEST` characters is a document. A document covers only an equal text. The
module also describes how two texts differ, either as one line or as runs of words to highlight.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, NamedTuple, TypeVar

from memory.coverage.additions import changed_by_additions, only_narrows
from memory.coverage.order import Side, is_written_apart, moved
from memory.coverage.parse import Parse, Word, parse_by_dictionary
from memory.text import (
    JAPANESE,
    NOT,
    identity,
    in_capitals,
    is_japanese,
    is_other_list,
    shortened,
    visible,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Comparison:
    """The differences between two texts, in words for a person to read.

    `only_a` has the words of what only the first text states; `only_b` those of the second. If the
    texts conflict, the conflict is in both, so neither text covers the other. Conflicts are: a
    negation or "used to" in only one text, a different word order, a different preposition ("for
    Mia" / "with Mia"), and extra words that change the statement.
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
"""Length limit in characters. A longer text is a document, which is not compared word by word."""


def compare(a: str, b: str) -> Comparison:
    """Return what `a` states and `b` does not, and what `b` states and `a` does not.

    If a text has more than `LONGEST` characters, neither covers the other unless both are equal.
    """
    if len(a) > LONGEST or len(b) > LONGEST:
        return _compare_documents(a, b)
    left, right = parse_by_dictionary(a), parse_by_dictionary(b)
    extra_left, extra_right = left.counts - right.counts, right.counts - left.counts
    sides = Side(a, left, extra_left), Side(b, right, extra_right)
    only_a, only_b = _surfaces(left.words, extra_left), _surfaces(right.words, extra_right)
    conflict = _turning_in_one(left, right) + in_capitals(a, b)
    if extra_left or extra_right:
        conflict += tuple(  # a sign without a letter or a digit is never a mere addition
            key for key in (*extra_left, *extra_right) if not any(map(str.isalnum, key))
        )
        conflict += ("another list",) if is_other_list(a, b) else ()
    if extra_left and extra_right:
        same_letters = "".join(only_a).lower() == "".join(only_b).lower()
        if not conflict and same_letters and is_written_apart(*sides):
            return _SAME
        return Comparison(_unique(only_a + conflict), _unique(only_b + conflict))
    return _compare_sides(*sides, conflict + moved(*sides), only_a, only_b)


def _compare_documents(a: str, b: str) -> Comparison:
    """Compare two texts of which at least one is a document, with more than `LONGEST` characters.

    If both are equal, nothing differs. Otherwise neither covers the other. `only_a` has the first
    three words of `a` that `b` lacks, each cut to 40 characters, and a note about the length of the
    texts; `only_b` has the same for `b`.
    """
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
    """Finish the comparison of two texts of which at most one states words that the other lacks.

    `compare` has already compared the stated words: nouns, numbers, negations and other words with
    a meaning of their own. This function compares pronouns and fillers such as "very", and checks
    whether the additional words of one text change its statement. `conflict`: the conflicts found
    by `compare`. `only_a`, `only_b`: the stated words that only `left`, or only `right`, has.
    """
    persons_a, persons_b = _beyond(left.parse.persons, right.parse.persons)
    shades_a, shades_b = _beyond(left.parse.shades, right.parse.shades)
    only_a += persons_a + tuple(shade for shade, _ in shades_a)
    only_b += persons_b + tuple(shade for shade, _ in shades_b)
    # For Japanese, `changed_by_additions` compares whole phrases, in whatever order they stand.
    japanese = left.parse.language == right.parse.language == JAPANESE
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
    return Comparison(_unique(only_a + conflict), _unique(only_b + conflict))


def covers(a: str, b: str) -> bool:
    """Return whether `a` states everything that `b` states.

    Returns False in case of doubt. If a text has more than `LONGEST` characters, returns True only
    if the texts are equal.
    """
    return compare(a, b).a_covers_b


def _surfaces(words: Sequence[Word], extra: Counter[str]) -> tuple[str, ...]:
    """Return the words of a text that it states more often than the other text, as it spells them.

    `words`: all words of the text, in order. `extra`: how many times more this text states a word,
    by `Word.stated`. All occurrences of these words are returned, except for negations, which are
    reported as a conflict.
    """
    return tuple([word.surface for word in words if word.stated in extra and word.key != NOT])


def _unique(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


def _turning_in_one(left: Parse, right: Parse) -> tuple[str, ...]:
    """Return the words that change a whole statement and are in only one of two texts.

    The words are keys, such as "had" or "might"; "not" is returned if the numbers of negations
    differ, and "?" if only one text is a question. Returns () if there is no such word.
    """
    negated = () if left.negations == right.negations else (NOT,)
    turning = sorted({key for key, _ in left.turning ^ right.turning})
    asked = () if left.asks == right.asks else ("?",)
    return (*negated, *turning, *asked)


def _beyond(left: Sequence[T], right: Sequence[T]) -> tuple[tuple[T, ...], tuple[T, ...]]:
    """Return the items by which `left` differs from `right`, and those by which `right` differs.

    The items are pronouns or fillers. The results are the items that one sequence has more often
    than the other. But if only one has such items, or neither, and the items that both have are in
    a different order, all items of both are returned.
    """
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


# --- what differs, as runs of words ---------------------------------------------------------------

MOST_WORDS = 1_000
"""The maximum number of words that are aligned.

If a differing part of two texts has more words, the whole part is marked as one difference.
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
    """A run of consecutive words that results from comparing an old text with a new text.

    The words are in both texts ("kept"), only in the old text ("removed"), or only in the new text
    ("added").
    """

    kind: Literal["kept", "removed", "added"]
    text: str


def difference(old: str, new: str) -> tuple[WordRun, ...]:
    """Return two texts as runs of kept, removed and added words, in reading order.

    Joined, the kept and added runs are the new text, except that white space may differ.
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


def marked(text: str, others: Sequence[str]) -> tuple[str, ...]:
    """Cut `text` into pieces that all `others` have too, and pieces that at least one other lacks.

    The two types alternate. The first, third, fifth ... piece is in all other texts; the first may
    be "". Joined, the pieces are the text without invisible characters.
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

    Joined, the items are the text without invisible characters. Japanese is cut at each change of
    script. A text with Han characters but no kana counts as Chinese and is cut at each Han
    character.
    """
    cut = _WORDS if text.isascii() or is_japanese(text) else _CHARACTERS_OF_HAN
    return cut.findall(visible(text))


_Aligned = tuple[bool, slice, slice]
"""A run of words: whether both texts have it, its slice in the first text, its slice in the second.
"""


def _aligned(old: Sequence[str], new: Sequence[str]) -> Iterator[_Aligned]:
    """Align the words of two texts, and yield the runs that are equal and those that differ.

    Each item is a tuple: whether the run is equal, its slice in `old`, and its slice in `new`. The
    runs are in reading order and contain all words. White space at the end of a word is ignored.
    """
    a, b = [word.rstrip() for word in old], [word.rstrip() for word in new]
    start = _common(a, b)
    end = _common(a[start:][::-1], b[start:][::-1])
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


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """Return the length of the common beginning of two sequences of words, or of two strings."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((n for n, (x, y) in pairs if x != y), min(len(a), len(b)))


# --- what differs, as one line --------------------------------------------------------------------


class _Unit(NamedTuple):
    """A word without the punctuation around it.

    `form`: the word as it is compared with other words, usually in lower case. `start`, `end`: the
    position of its first character in the text, and the position after its last character.
    """

    form: str
    start: int
    end: int


_UNIT = re.compile(
    rf"[{_HAN}]+[\u3041-\u309f]*|[\u30a1-\u30ff\uff66-\uff9f]+[\u3041-\u309f]*|[\u3041-\u309f]+"
    rf"|[^\s{_HAN}{_KANA}、。，]+"
)
_AROUND = "\"“”„«»'‘’.,;!…()[]。、！「」"
_LONGEST = 200  # characters of one difference that are shown


def differing(old: str, new: str) -> tuple[tuple[str, str], ...]:
    """Return the differences of two texts as pairs (words of the old text, words of the new text).

    A pair has "" on one side if words were only added or only removed. Each side is shortened to
    200 characters. Returns () if both texts state the same. If a text has more than `LONGEST`
    characters, each text is read only from the first difference on, for `LONGEST` characters.
    """
    found = compare(old, new)
    if found.a_covers_b and found.b_covers_a:
        return ()
    if max(len(old), len(new)) > LONGEST:
        start = old.rfind(" ", 0, _common(old, new)) + 1
        old, new = old[start : start + LONGEST], new[start : start + LONGEST]
    left, right = _units(old), _units(new)
    a, b = [unit.form for unit in left], [unit.form for unit in right]
    pairs = list(_aligned(a, b))
    if sorted(a) == sorted(b):  # only the order differs: one difference, not several
        pairs = [pairs[0], (False, _between(pairs, 1), _between(pairs, 2)), pairs[-1]]
    differences = tuple(
        (_own(old, left[ours]), _own(new, right[theirs]))
        for same, ours, theirs in pairs
        if not same and (left[ours] or right[theirs])
    )
    return differences or ((shortened(old, _LONGEST), shortened(new, _LONGEST)),)


def _between(pairs: Sequence[_Aligned], side: Literal[1, 2]) -> slice:
    """Return the words between the common beginning and the common end of two texts, as a slice.

    `pairs`: all runs of the two texts, in order. `side`: 1 to return the slice in the first text, 2
    for the second.
    """
    return slice(pairs[0][side].stop, pairs[-1][side].start)


def differs(old: str, new: str) -> str:
    """Return the differences of two texts as one line to show to a person; "" if there are none.

    The words are quoted from the texts, those of `old` first: `"October 15" / "October 16"; one
    adds "at noon"`.
    """
    pairs = differing(old, new)
    changed = [f'"{ours}" / "{theirs}"' for ours, theirs in pairs if ours and theirs]
    more = [_quoted(ours for ours, theirs in pairs if not theirs)]
    more.append(_quoted(theirs for ours, theirs in pairs if not ours))
    added = ", the other ".join(filter(None, more))
    return "; ".join([*changed, *([f"one adds {added}"] if added else ())])


def _quoted(phrases: Iterable[str]) -> str:
    return ", ".join(f'"{phrase}"' for phrase in phrases)


def _units(text: str) -> list[_Unit]:
    found, shouted = [], text.isupper()
    for match in _UNIT.finditer(text):
        unit = match.group()
        core = unit.strip(_AROUND)
        if not any(map(str.isalnum, core)):
            core = unit  # :) is no colon
        start = match.start() + unit.index(core)
        # `identity` folds the case of a plain word only where it stands among others
        form = identity(f"a {core.lower() if shouted else core}")
        found.append(_Unit(form, start, start + len(core)))
    return found


def _own(text: str, units: Sequence[_Unit]) -> str:
    return shortened(text[units[0].start : units[-1].end], _LONGEST) if units else ""

"""Show a person how two texts differ: as runs of words, as pairs, or as one line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from memory.coverage.covers import LONGEST, compare
from memory.text import guarded, identity, is_japanese, shortened, visible

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

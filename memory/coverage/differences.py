"""What differs between two texts, in their own words: as one line, and as runs to highlight."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from memory.coverage.covers import LONGEST, compare
from memory.text import identity, is_japanese, shortened, visible

MOST_WORDS = 1_000
"""Words that are aligned; longer parts between common ends count as different as a whole."""

_HAN = "\u3005\u3400-\u9fff\uf900-\ufaff"
_KANA = "\u3041-\u309f\u30a1-\u30ff\uff66-\uff9f"
_SIGN = (
    "!-/:-@\\[-`{-~\u00a1-\u00bf\u2010-\u206f\u3000-\u3004\u3007-\u303f\uff01-\uff0f\uff1a-\uff20"
)
_WORD = rf"[^\s{_SIGN}{_HAN}{_KANA}]"
_SCRIPTS = rf"[\u3041-\u309f]+|[\u30a1-\u30ff\uff66-\uff9f]+|{_WORD}+(?:['’.,:-]{_WORD}+)*|\S"
_WORDS = re.compile(rf"\s+|(?:[{_HAN}]+|{_SCRIPTS})\s*")
_CHARACTERS_OF_HAN = re.compile(rf"\s+|(?:[{_HAN}]|{_SCRIPTS})\s*")


# --- as runs --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WordRun:
    """Consecutive words that both texts have, or only the old one, or only the new one."""

    kind: Literal["kept", "removed", "added"]
    text: str


def difference(old: str, new: str) -> tuple[WordRun, ...]:
    """Return runs in reading order; without those removed they are the new text, but for space."""
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
    """Cut a text into pieces: the first and every second one after it stand in all the others.

    The pieces between are missing from at least one. Joined, they are the text as eyes see it.
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
    """Return words, numbers and signs, each with the space behind it; joined, the visible text.

    Japanese is cut where the script changes; Chinese, which has no kana, at each character.
    """
    cut = _WORDS if text.isascii() or is_japanese(text) else _CHARACTERS_OF_HAN
    return cut.findall(visible(text))


_Aligned = tuple[bool, slice, slice]
"""Whether these words of the first and of the second text are the same."""


def _aligned(old: Sequence[str], new: Sequence[str]) -> Iterator[_Aligned]:
    """Yield all words of both texts once, in order; space does not count."""
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
    """Return how many words (or characters) both begin with."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((n for n, (x, y) in pairs if x != y), min(len(a), len(b)))


# --- as one line ----------------------------------------------------------------------------------


class _Unit(NamedTuple):
    """A word without the punctuation around it: its form to compare, its start and end."""

    form: str
    start: int
    end: int


_UNIT = re.compile(
    rf"[{_HAN}]+[\u3041-\u309f]*|[\u30a1-\u30ff\uff66-\uff9f]+[\u3041-\u309f]*|[\u3041-\u309f]+"
    rf"|[^\s{_HAN}{_KANA}、。，]+"
)
_AROUND = "\"“”„«»'‘’.,;!…()[]。、！「」"
_LONGEST = 200
"""Characters that are shown of one difference."""


def differing(old: str, new: str) -> tuple[tuple[str, str], ...]:
    """Return each difference as the words of the old text and those of the new, in their spelling.

    Empty where both texts state the same. Of texts longer than `LONGEST`, only that many
    characters are read, from the first different word on.
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
    """Return all words of one side between the common start and the common end."""
    return slice(pairs[0][side].stop, pairs[-1][side].start)


def differs(old: str, new: str) -> str:
    """`"October 15" / "October 16"; one adds "at noon"`, in the texts' own words, the old first."""
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

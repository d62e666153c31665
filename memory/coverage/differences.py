"""What differs between two texts, in their own words: in a line, and as runs to highlight. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple

from memory.coverage.covers import LONGEST, compare
from memory.text import identity, is_japanese, one_line, shortened, visible

Kind = Literal["kept", "removed", "added"]
MOST_EDITS = 400
"""Words that two texts may differ in before all between their common ends counts as different."""

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
class Run:
    """Words in a row that both texts have, or only the old, or only the new."""

    kind: Kind
    text: str


class _Step(NamedTuple):
    kind: Kind
    old: str
    new: str


def difference(old: str, new: str) -> tuple[Run, ...]:
    """From the old text to the new; but for space, kept and added runs in order are the new."""
    steps = (step for step in _steps(words(old), words(new)) if step.old or step.new)
    return tuple(
        Run(kind, "".join(max(step.old, step.new, key=len) for step in some))
        for kind, some in groupby(steps, key=lambda step: step.kind)
    )


# --- in a line ------------------------------------------------------------------------------------


class _Unit(NamedTuple):
    """A word as the text writes it, without the punctuation around it; its form and place."""

    form: str
    start: int
    end: int


_UNIT = re.compile(
    rf"[{_HAN}]+[\u3041-\u309f]*|[\u30a1-\u30ff\uff66-\uff9f]+[\u3041-\u309f]*|[\u3041-\u309f]+"
    rf"|[^\s{_HAN}{_KANA}、。，]+"
)
_AROUND = "\"“”„«»'‘’.,;!…()[]。、！「」"
_LONGEST = 200
"""Characters that are shown of what differs in one place."""


def differing(old: str, new: str) -> tuple[tuple[str, str], ...]:
    """What stands only in the old text and what only in the new, place by place, as each has it.

    Empty where each of them states all that the other does. Of texts longer than `LONGEST`, so much
    is read from the word on where they part.
    """
    told = compare(old, new)
    if told.a_covers_b and told.b_covers_a:
        return ()
    if max(len(old), len(new)) > LONGEST:
        old, new = _where_they_part(old, new)
    left, right = _units(old), _units(new)
    found = tuple((_own(old, some), _own(new, others)) for some, others in _places(left, right))
    return found or ((shortened(old, _LONGEST), shortened(new, _LONGEST)),)


def _where_they_part(old: str, new: str) -> tuple[str, str]:
    start = old.rfind(" ", 0, _common(old, new)) + 1
    return old[start : start + LONGEST], new[start : start + LONGEST]


def differs(old: str, new: str) -> str:
    """`"October 15" / "October 16"; one adds "at noon"`, in the texts' own words, the old first."""
    places = differing(old, new)
    told = [f'"{ours}" / "{theirs}"' for ours, theirs in places if ours and theirs]
    more = [_quoted(ours for ours, theirs in places if not theirs)]
    more.append(_quoted(theirs for ours, theirs in places if not ours))
    added = ", the other ".join(filter(None, more))
    return "; ".join([*told, *([f"one adds {added}"] if added else ())])


def _quoted(some: Iterable[str]) -> str:
    return ", ".join(f'"{one}"' for one in some)


def _units(text: str) -> list[_Unit]:
    found, shouted = [], text.isupper()
    for match in _UNIT.finditer(text):
        unit = match.group()
        core = unit.strip(_AROUND)
        if not any(map(str.isalnum, core)):
            core = unit  # :) is no colon
        start = match.start() + unit.index(core)
        among_others = f"a {core.lower() if shouted else core}"
        found.append(_Unit(identity(among_others), start, start + len(core)))
    return found


def _own(text: str, some: Sequence[_Unit]) -> str:
    return shortened(one_line(text[some[0].start : some[-1].end]), _LONGEST) if some else ""


_Place = tuple[Sequence[_Unit], Sequence[_Unit]]


def _places(left: Sequence[_Unit], right: Sequence[_Unit]) -> Iterator[_Place]:
    """The places where they differ; one where only the order does."""
    a, b = [unit.form for unit in left], [unit.form for unit in right]
    start = _common(a, b)
    end = _common(a[start:][::-1], b[start:][::-1])
    past = len(a) - end, len(b) - end
    kept: list[tuple[int, int]] = []
    if sorted(a) != sorted(b):
        kept = _kept(a[start : past[0]], b[start : past[1]], MOST_EDITS)
    i = j = start
    for at in [*((x + start, y + start) for x, y in kept), past]:
        if i < at[0] or j < at[1]:
            yield left[i : at[0]], right[j : at[1]]
        i, j = at[0] + 1, at[1] + 1


# --- as runs --------------------------------------------------------------------------------------


def marked(text: str, others: Sequence[str]) -> tuple[str, ...]:
    """Cut a text into pieces: the first and every second one after it stand in all the others.

    The pieces between are missing from at least one. Joined, they are the text as eyes see it.
    """
    own = words(text)
    missing: set[int] = set()
    for other in others:
        missing |= _missing(own, words(other))
    pieces = [""]
    for n, word in enumerate(own):
        if (n in missing) == len(pieces) % 2:
            pieces.append("")
        pieces[-1] += word
    return tuple(pieces)


def _missing(own: Sequence[str], other: Sequence[str]) -> set[int]:
    """Return the positions of the words of `own` that `other` lacks, in order."""
    a, b = [word.rstrip() for word in own], [word.rstrip() for word in other]
    start = _common(a, b)
    end = _common(a[start:][::-1], b[start:][::-1])
    middle = _kept(a[start : len(a) - end], b[start : len(b) - end], MOST_EDITS)
    return set(range(start, len(a) - end)) - {at + start for at, _ in middle}


def words(text: str) -> list[str]:
    """Words, numbers and signs, each with the space after it; joined, the text as eyes see it.

    Kana and kanji are cut where the script changes; Chinese, which has no kana, by the character.
    """
    cut = _WORDS if text.isascii() or is_japanese(text) else _CHARACTERS_OF_HAN
    return cut.findall(visible(text))


def _steps(old: Sequence[str], new: Sequence[str]) -> Iterator[_Step]:
    """All of both once; between what was kept, what was removed comes before what was added.

    Space counts for nothing.
    """
    a, b = [word.rstrip() for word in old], [word.rstrip() for word in new]
    start = _common(a, b)
    end = _common(a[start:][::-1], b[start:][::-1])
    yield _Step("kept", "".join(old[:start]), "".join(new[:start]))
    i = j = start
    past = len(a) - end, len(b) - end
    for at in [*_kept(a[start : past[0]], b[start : past[1]], MOST_EDITS), None]:
        to = past if at is None else (at[0] + start, at[1] + start)
        yield from (_Step("removed", word, "") for word in old[i : to[0]])
        yield from (_Step("added", "", word) for word in new[j : to[1]])
        if at is not None:
            yield _Step("kept", old[to[0]], new[to[1]])
        i, j = to[0] + 1, to[1] + 1
    yield _Step("kept", "".join(old[past[0] :]), "".join(new[past[1] :]))


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """How many words both begin with."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((n for n, (x, y) in pairs if x != y), min(len(a), len(b)))


def _kept(a: Sequence[str], b: Sequence[str], most: int) -> list[tuple[int, int]]:
    """The positions of the words that stay, with the fewest edits; none where these are too many.

    Myers, An O(ND) difference algorithm (1986): `reach[k]` is how far in `a` one gets with so many
    edits on the diagonal `i - j = k`.
    """
    if not a or not b:
        return []
    reach, trail = {1: 0}, []
    for edits in range(min(len(a) + len(b), most) + 1):
        trail.append(dict(reach))
        for k in range(-edits, edits + 1, 2):
            i = _start(reach, k, edits)
            while i < len(a) and i - k < len(b) and a[i] == b[i - k]:
                i += 1
            reach[k] = i
            if i >= len(a) and i - k >= len(b):
                return _traced(trail, len(a), len(b))
    return []


def _start(reach: dict[int, int], k: int, edits: int) -> int:
    """Where the diagonal is entered: from above (a word added) or from the left (one removed)."""
    from_above = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
    return reach[k + 1] if from_above else reach[k - 1] + 1


def _traced(trail: Sequence[dict[int, int]], i: int, j: int) -> list[tuple[int, int]]:
    """Back from the end: which words stayed."""
    kept = []
    for edits in range(len(trail) - 1, -1, -1):
        reach, k = trail[edits], i - j
        start = _start(reach, k, edits)
        while i > start:
            i, j = i - 1, j - 1
            kept.append((i, j))
        from_above = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
        i, j = (i, j - 1) if from_above else (i - 1, j)
    return kept[::-1]

"""What texts of one pattern have in common, and the values in which they differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from operator import eq

_PIECE = re.compile(
    "[\u3005\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff]"  # kana and Han stand alone
    r"|[^\W\u3005\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff]+(?:['’.,:/-]\w+)*|[^\w\s]"
)
_MOST_PIECES = 2_000
_Spans = list[tuple[int, int]]


@dataclass(frozen=True)
class Template:
    """A pattern with `{1}`, `{2}` for what differs, and for each text the values that stand there.

    The values are the texts' own words; one that has nothing there has an empty value.
    """

    text: str
    values: tuple[tuple[str, ...], ...]


def pieces(text: str) -> tuple[str, ...]:
    """Its words, signs and characters, in order, whatever their case."""
    return tuple(piece.casefold() for piece in _PIECE.findall(text))


def share_a_pattern(a: Sequence[str], b: Sequence[str]) -> bool:
    """Whether more than half of the longer one stands in both at the same place, by pieces.

    The same place is counted from the beginning and from the end, or, where both are as long as
    each other, anywhere.
    """
    longer = max(len(a), len(b))
    if len(a) == len(b):
        return bool(2 * sum(map(eq, a, b)) > longer)
    left = _same_at_the_start(a, b)
    shorter = min(len(a), len(b)) - left
    right = min(_same_at_the_start(a[::-1], b[::-1]), shorter)
    return 2 * (left + right) > longer


def _same_at_the_start(a: Sequence[str], b: Sequence[str]) -> int:
    same = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        same += 1
    return same


def template_of(texts: Sequence[str]) -> Template | None:
    """The pattern of all these texts; None where less than half of one of them is common to all.

    Nor have texts of thousands of pieces one: nobody reads them in a table.
    """
    split = [pieces(text) for text in texts]
    if max(map(len, split)) > _MOST_PIECES:
        return None
    common = list(split[0])
    for one in split[1:]:
        blocks = SequenceMatcher(None, common, one, autojunk=False).get_matching_blocks()
        common = [piece for block in blocks for piece in common[block.a : block.a + block.size]]
    if not common or 2 * len(common) < max(map(len, split)):
        return None
    gaps = [_gaps(text, common) for text in texts]
    slots = [n for n in range(len(common) + 1) if any(of_text[n] for of_text in gaps)]
    values = tuple(tuple(of_text[n] for n in slots) for of_text in gaps)
    return Template(_pattern(texts[0], common, slots), values)


def _spans(text: str, common: Sequence[str]) -> _Spans:
    """Where the common pieces stand in a text, the first place for each."""
    found: _Spans = []
    left = iter(common)
    wanted = next(left, None)
    for match in _PIECE.finditer(text):
        if match.group().casefold() == wanted:
            found.append(match.span())
            wanted = next(left, None)
    return found


def _gaps(text: str, common: Sequence[str]) -> list[str]:
    """What stands before the first common piece, between each two, and behind the last."""
    spans = [(0, 0), *_spans(text, common), (len(text), len(text))]
    return [text[end:begin].strip() for (_, end), (begin, _) in pairwise(spans)]


def _pattern(text: str, common: Sequence[str], slots: Sequence[int]) -> str:
    names = {slot: f"{{{n}}}" for n, slot in enumerate(slots, start=1)}
    spans = [(0, 0), *_spans(text, common), (len(text), len(text))]
    parts = []
    for n, ((_, end), (begin, stop)) in enumerate(pairwise(spans)):
        gap = text[end:begin]
        before = gap[: len(gap) - len(gap.lstrip())] if gap.strip() else gap
        after = gap[len(gap.rstrip()) :]
        parts.append(before + names[n] + after if n in names else gap)
        parts.append(text[begin:stop])
    return "".join(parts).strip()

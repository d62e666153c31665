"""Look-alikes of one pattern that differ in a value: one question shows them all as a table.

A hundred of them have some five thousand pairs, and a question about eight members settles
twenty-eight of these. An answer to a table is believed where it says apart, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memory.decide.groups import connected
from memory.text import pieces, share_a_pattern

MOST_IN_TABLE = 128
"""Rows of one table."""
_BLOCK = MOST_IN_TABLE // 2


def families(
    texts: Sequence[str], edges: Sequence[tuple[int, int]], more_than: int
) -> list[list[int]]:
    """Of the texts, by position, those that pairs of one pattern connect, where they are many.

    `edges` are the pairs that somebody would have to be asked about.
    """
    ends = sorted({end for edge in edges for end in edge})
    split = {end: pieces(texts[end]) for end in ends}
    kept = [(i, j) for i, j in edges if share_a_pattern(split[i], split[j])]
    return [family for family in connected(len(texts), kept) if len(family) > more_than]


def tables(family: Sequence[int], edges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, ...]]:
    """The members of each table: all of a family, or every two blocks that have a pair open."""
    if len(family) <= MOST_IN_TABLE:
        yield tuple(family)
        return
    block_of = {member: n // _BLOCK for n, member in enumerate(family)}
    inside = [edge for edge in edges if edge[0] in block_of and edge[1] in block_of]
    open_ones = {(block_of[i], block_of[j]) for i, j in inside}
    across = {(min(pair), max(pair)) for pair in open_ones if pair[0] != pair[1]}
    alone = {(a, a) for a, b in open_ones if a == b and all(a not in pair for pair in across)}
    for pair in sorted(across | alone):
        blocks = [family[n * _BLOCK : (n + 1) * _BLOCK] for n in sorted(set(pair))]
        yield tuple(member for block in blocks for member in block)

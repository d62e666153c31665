"""Look-alikes of one pattern that differ in a value: one question shows them all as a table.

A hundred of them have some five thousand pairs, and a question about eight members settles
twenty-eight of these. An answer to a table is believed where it says apart, and nowhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush

from memory.decide.groups import connected
from memory.text import pieces, share_a_pattern

MOST_IN_TABLE = 128
"""Rows of one table."""


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
    """The members of each table: all of a family, or of a large one what its open pairs connect.

    Every pair stands in one of the tables, and near ones stand together: a table takes, one after
    another, the member that has most open pairs with those it holds. Ten thousand with five open
    pairs each fill some hundred tables so, where blocks in the family's own order would need
    thousands, most of them for one pair.
    """
    if len(family) <= MOST_IN_TABLE:
        yield tuple(family)
        return
    open_pairs = _open_pairs(family, edges)
    while open_pairs:
        table = _grown(open_pairs)
        for member in table:
            open_pairs[member] -= table
            if not open_pairs[member]:
                del open_pairs[member]
        yield tuple(sorted(table))


def _open_pairs(family: Sequence[int], edges: Sequence[tuple[int, int]]) -> dict[int, set[int]]:
    """With whom each member has one, in the order of the family; who has none is left out."""
    found: dict[int, set[int]] = {member: set() for member in family}
    for i, j in edges:
        if i in found and j in found:
            found[i].add(j)
            found[j].add(i)
    return {member: others for member, others in found.items() if others}


def _grown(open_pairs: Mapping[int, set[int]]) -> set[int]:
    """The first member and those near it; where nobody is near any more, the next one's too."""
    table: set[int] = set()
    seeds = iter(open_pairs)
    inside: Counter[int] = Counter()
    near: list[tuple[int, int]] = []
    while len(table) < MOST_IN_TABLE:
        member = heappop(near)[1] if near else next(seeds, None)
        if member is None:
            break
        if member not in table:
            table.add(member)
            for other in open_pairs[member] - table:
                inside[other] += 1
                heappush(near, (-inside[other], other))
    return table

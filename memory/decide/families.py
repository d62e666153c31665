"""Look-alikes of one pattern that differ in a value: one question shows them all as a table.

A hundred of them have some five thousand pairs, and a question about eight members settles
twenty-eight of these. An answer to a table is believed where it says apart, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from memory.decide.groups import connected
from memory.text import pieces, share_a_pattern

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

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

    Every open pair stands in one of the tables, and near ones stand together: a table takes, one
    after another, the member that has most open pairs with those it holds. Ten thousand with five
    open pairs each fill some hundred tables so, where blocks in the family's own order would need
    thousands, most of them for one pair.
    """
    if len(family) <= MOST_IN_TABLE:
        yield tuple(family)
        return
    open_with = _open_with(family, edges)
    first = 0
    while first < len(family):
        if not len(open_with[first]):
            first += 1
            continue
        held = _grown(open_with, first)
        for member in np.flatnonzero(held).tolist():
            others = open_with[member]
            open_with[member] = others[~held[others]]
        yield tuple(family[member] for member in np.flatnonzero(held).tolist())


def _open_with(family: Sequence[int], edges: Sequence[tuple[int, int]]) -> list[Ints]:
    """With whom each member has an open pair, by their places in the family."""
    place = {member: n for n, member in enumerate(family)}
    found: list[set[int]] = [set() for _ in family]
    for i, j in edges:
        if i in place and j in place:
            found[place[i]].add(place[j])
            found[place[j]].add(place[i])
    return [np.array(sorted(others), np.int64) for others in found]


def _grown(open_with: Sequence[Ints], first: int) -> Flags:
    """Who is in a table: the first and those near it; where nobody is any more, the next's too."""
    held = np.zeros(len(open_with), np.bool_)
    inside = np.zeros(len(open_with), np.int64)
    """How many open pairs each has with those in the table; below 0 for these."""
    seed = first
    for _ in range(MOST_IN_TABLE):
        member = int(inside.argmax())
        if inside[member] <= 0:
            while seed < len(held) and (held[seed] or not len(open_with[seed])):
                seed += 1
            if seed == len(held):
                break
            member = seed
        held[member] = True
        inside[open_with[member]] += 1
        inside[member] = -2 * MOST_IN_TABLE
    return held

"""Pages: memories of one scope that a model reads together. Pure.

Each memory has edges to its nearest. A page is grown so that it shows as many of them as it can
that no page before it showed: seeded where most are left, then one memory after another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from memory.search import Pairs

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

MOST_ON_PAGE = 48
"""Memories that one page shows."""
MOST_CHARACTERS = 8_000
"""Characters that the texts of one page have together, but where two have more."""
NEIGHBOURS = 10
"""With how many of its nearest a memory has an edge."""
SURELY_MET = 8
"""Of these the nearest, which a page shows for certain where few are new, or by request."""
_SHOWN = 0.81
"""The share of all edges, by weight, that one pass shows."""
_FEW = 0.25
"""Up to which share of unread memories those are what is new in a scope that was read."""
_WEIGHT = 2_520
"""Over n + 2 the weight of the edge to the n-th nearest: whole numbers, so that sums are exact."""
_PLACED = _WEIGHT
"""What placing somebody for the first time weighs beside edges: two who are nearest to each other.

Else those that are near to nobody are left over, for pages of their own.
"""


@dataclass(frozen=True)
class PageGraph:
    """The memories of one scope, by position, and which of them are near."""

    sizes: Ints
    """Characters (n,)."""
    pairs: Pairs
    """Each memory with its nearest, each pair once."""
    unread: Flags
    """Which memories (n,) no page has shown yet: pairs of two others do not count."""


def pages(graph: PageGraph, *, thorough: bool = False, most: int = MOST_ON_PAGE) -> list[list[int]]:
    """The members of each page, near ones side by side; every unread memory is on at least one.

    One pass shows most of what is near, `thorough` every memory with its nearest eight; so are the
    few that are new in a scope that was read. Nobody is on a page alone.
    """
    if len(graph.sizes) < 2 or not graph.unread.any():
        return []
    surely = thorough or bool(graph.unread.mean() <= _FEW)
    edges = _Edges.of(graph, SURELY_MET if surely else NEIGHBOURS)
    return _Growing(graph, edges, most).grown(0.0 if surely else 1.0 - _SHOWN)


@dataclass(frozen=True)
class _Edges:
    """`i < j` and a weight each, (m,)."""

    i: Ints
    j: Ints
    weight: Ints

    @classmethod
    def of(cls, graph: PageGraph, nearest: int) -> _Edges:
        """From each unread memory to its nearest; an edge that both have counts twice."""
        pairs = graph.pairs
        ends, others = np.concatenate([pairs.i, pairs.j]), np.concatenate([pairs.j, pairs.i])
        order = np.lexsort((others, -np.concatenate([pairs.similarity] * 2), ends))
        sorted_ends = ends[order]
        rank = np.empty(len(ends), np.int64)
        rank[order] = np.arange(len(ends)) - np.searchsorted(sorted_ends, sorted_ends)
        weight = np.where((rank < nearest) & graph.unread[ends], _WEIGHT // (rank + 2), 0)
        both = weight[: len(pairs.i)] + weight[len(pairs.i) :]
        kept = both > 0
        return cls(pairs.i[kept], pairs.j[kept], both[kept])


class _Growing:
    """Page after page; an edge is open until a page shows both of its ends."""

    def __init__(self, graph: PageGraph, edges: _Edges, most: int) -> None:
        self._sizes = graph.sizes.tolist()
        self._most = most
        count = len(self._sizes)
        ends = np.concatenate([edges.i, edges.j])
        order = np.argsort(ends, kind="stable")
        self._first = np.searchsorted(ends[order], np.arange(count + 1)).tolist()
        self._others = np.concatenate([edges.j, edges.i])[order]
        self._edge = order % max(1, len(edges.i))
        self._weight = edges.weight
        self._open = np.ones(len(edges.i), np.bool_)
        both = np.concatenate([edges.weight, edges.weight])
        self._left = np.bincount(ends, both, count).astype(np.int64)
        """Of each memory the weight of its open edges."""
        self._unplaced = graph.unread.copy()

    def grown(self, most_left: float) -> list[list[int]]:
        """Until no more than this share of the edges is open, and everybody is placed."""
        enough = int(self._left.sum() * most_left)
        found: list[list[int]] = []
        while self._left.sum() > enough or self._unplaced.any():
            only = self._unplaced if self._left.sum() <= enough else None
            page = self._page(only)
            if len(page) == 1:  # the last one of all
                page += self._nearest(page[0])
            self._close(page)
            found.append(page)
        return found

    def _page(self, only: Flags | None) -> list[int]:
        page: list[int] = []
        passed: set[int] = set()
        gain: dict[int, int] = {}
        room = MOST_CHARACTERS
        while len(page) < self._most:
            member = self._next(gain, passed, only)
            if member is None:
                break
            passed.add(member)
            gain.pop(member, None)
            if len(page) > 1 and self._sizes[member] > room:
                break
            page.append(member)
            room -= self._sizes[member]
            others, _, weights = self._open_edges(member)
            for other, weight in zip(others, weights, strict=True):
                if other not in passed and (only is None or only[other]):
                    if other not in gain:
                        gain[other] = _PLACED if self._unplaced[other] else 0
                    gain[other] += weight
        return page

    def _next(self, gain: dict[int, int], passed: set[int], only: Flags | None) -> int | None:
        """Who shows most with those on the page; else who has most to show."""
        if gain:
            return max(gain, key=lambda one: (gain[one], -one))
        left = self._left + self._unplaced if only is None else np.where(only, self._left + 1, 0)
        left[list(passed)] = 0
        best = int(left.argmax())
        return best if left[best] > 0 else None

    def _open_edges(self, member: int) -> tuple[list[int], Ints, list[int]]:
        """The other end, the number and the weight of each."""
        part = slice(self._first[member], self._first[member + 1])
        edges = self._edge[part]
        is_open = self._open[edges]
        edges = edges[is_open]
        return self._others[part][is_open].tolist(), edges, self._weight[edges].tolist()

    def _close(self, page: list[int]) -> None:
        together = set(page)
        for member in page:
            others, edges, weights = self._open_edges(member)
            for other, edge, weight in zip(others, edges.tolist(), weights, strict=True):
                if other in together:
                    self._open[edge] = False
                    self._left[member] -= weight
                    self._left[other] -= weight
        self._unplaced[page] = False

    def _nearest(self, member: int) -> list[int]:
        """Whom it is near to, shown with it before or not; somebody in any case."""
        part = slice(self._first[member], self._first[member + 1])
        return self._others[part].tolist()[:SURELY_MET] or [0 if member else 1]

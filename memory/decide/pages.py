"""Divide the memories of one scope into pages; a language model reads one page at a time.

The memories form a graph. An edge leads from each memory that the model has not read yet to each of
its nearest neighbours. A page covers an edge if both memories of the edge are on the page. Pages
are built greedily. A page starts with the memory whose uncovered edges have the greatest total
weight. Then, repeatedly, the memory is added that increases the covered weight most. Unread
memories that are on no page yet are preferred.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from memory.decide.candidates import Pairs
from memory.models import MOST_ON_PAGE, NEIGHBOURS, Flags, Ints, Memory, Question, Scope

MOST_CHARACTERS = 8_000
"""Maximum total length of the texts on a page.

The first two texts may exceed it, and so may the neighbours added to a page with one memory.
"""
SURELY_MET = 8
_SHOWN = 0.81
"""The share of the total weight of all edges that ordinary pages must show.

A page shows an edge if both memories of the edge are on the page. Thorough pages show all edges.
"""
_SHOWN_SPARING = 0.5
"""The share that sparing pages must show: about the three nearest neighbours of each memory."""
_FEW = 0.25
_WEIGHT = 2_520
"""The edge to the nearest neighbour weighs `_WEIGHT` // 2, to the next `_WEIGHT` // 3, etc."""
# Gain for showing a memory that no page shows yet. It equals the edge between two memories that
# are each other's nearest. Without it, memories that are near to nothing need pages of their own.
_PLACED = _WEIGHT


@dataclass(frozen=True)
class PageRules:
    """Limits of pages.

    `size`: the maximum number of memories on a page. `private`: whether private memories are put on
    pages, too. `thorough`: whether each memory that the model has not read yet must share a page
    with each of its 8 nearest neighbours. `sparing`: whether about three of them are enough.
    """

    size: int = MOST_ON_PAGE
    private: bool = False
    thorough: bool = False
    sparing: bool = False


@dataclass(frozen=True)
class PagePlan:
    """Memories of one scope that a model reads together in one question.

    Similar memories stand next to each other, so that a page can also be read in two halves.
    """

    scope: Scope
    members: tuple[Memory, ...]

    @property
    def question(self) -> Question:
        """A question about all members, in the page's order.

        Before a model is asked, the caller must sort the members by time, oldest first.
        """
        return Question(self.members, "read on a page", 0.0, is_page=True)

    def with_living(self, living: Mapping[str, Memory]) -> PagePlan:
        """Return the page with each retired memory replaced by its live successor.

        `living` maps the id of a retired memory to its successor. If the successor's id is also in
        `living`, its own successor is looked up, and so on. If several members have the same live
        successor, it is on the page only once.
        """
        members: dict[str, Memory] = {}
        for member in self.members:
            while living.get(member.id, member) is not member:
                member = living[member.id]
            members[member.id] = member
        return PagePlan(self.scope, tuple(members.values()))


def pages(
    sizes: Ints, pairs: Pairs, unread: Flags, rules: PageRules = PageRules()
) -> list[list[int]]:
    """Divide the memories of a scope into pages; return the positions of each page's memories.

    Similar memories stand next to each other. Every unread memory is on a page, and each page has
    at least two memories. With fewer than two memories, or none unread, there are no pages.

    `sizes`: the number of characters of each memory, shape (n,). `pairs`: the pairs of each memory
    with its nearest neighbours, by position, the lower position first. `unread`: which memories the
    model still has to read, shape (n,). If at most a quarter of the memories are unread, the pages
    are thorough, unless they are sparing.
    """
    if len(sizes) < 2 or not unread.any():
        return []
    thorough = rules.thorough or (bool(unread.mean() <= _FEW) and not rules.sparing)
    edges = _edges(pairs, unread, SURELY_MET if thorough else NEIGHBOURS)
    shown = _SHOWN_SPARING if rules.sparing else _SHOWN
    return _PageGrower(sizes, unread, edges, rules.size).grow(0.0 if thorough else 1.0 - shown)


def _edges(pairs: Pairs, unread: Flags, nearest: int) -> tuple[Ints, Ints, Ints]:
    """Return the edges from each unread memory to its `nearest` nearest neighbours.

    The result has three arrays of shape (edges,): the lower position, the higher position and the
    weight. If two unread memories are nearest neighbours of each other, they share one edge. Its
    weight is the sum of the weights for both directions.
    """
    ends, others = np.concatenate([pairs.i, pairs.j]), np.concatenate([pairs.j, pairs.i])
    order = np.lexsort((others, -np.concatenate([pairs.similarity] * 2), ends))
    sorted_ends = ends[order]
    rank = np.empty(len(ends), np.int64)
    rank[order] = np.arange(len(ends)) - np.searchsorted(sorted_ends, sorted_ends)
    weight = np.where((rank < nearest) & unread[ends], _WEIGHT // (rank + 2), 0)
    both = weight[: len(pairs.i)] + weight[len(pairs.i) :]
    kept = both > 0
    return pairs.i[kept], pairs.j[kept], both[kept]


class _PageGrower:
    """Builds pages one after another.

    An edge is open until both of its memories are on one page.
    """

    def __init__(
        self, sizes: Ints, unread: Flags, edges: tuple[Ints, Ints, Ints], most: int
    ) -> None:
        self._sizes = sizes.tolist()
        self._most = most
        count = len(self._sizes)
        i, j, self._weight = edges
        ends = np.concatenate([i, j])
        order = np.argsort(ends, kind="stable")
        self._first = np.searchsorted(ends[order], np.arange(count + 1)).tolist()
        self._others = np.concatenate([j, i])[order]
        self._edge = order % max(1, len(i))
        self._open = np.ones(len(i), np.bool_)
        # weight of the open edges of each memory
        self._left = np.bincount(ends, np.tile(self._weight, 2), count).astype(np.int64)
        self._unplaced = unread.copy()

    def grow(self, most_left: float) -> list[list[int]]:
        enough = int(self._left.sum() * most_left)
        found: list[list[int]] = []
        while self._left.sum() > enough or self._unplaced.any():
            only = self._unplaced if self._left.sum() <= enough else None
            page = self._page(only)
            if len(page) == 1:  # the last memory that was left
                [member] = page
                others = self._others[self._first[member] : self._first[member + 1]]
                page += others.tolist()[:SURELY_MET] or [0 if member else 1]
            self._close(page)
            found.append(page)
        return found

    def _page(self, only: Flags | None) -> list[int]:
        page: list[int] = []
        passed: set[int] = set()
        gain: dict[int, int] = {}
        best_first: list[tuple[int, int]] = []  # heap of (-gain, memory); old gains are skipped
        room = MOST_CHARACTERS
        while len(page) < self._most:
            member = self._next(gain, best_first, passed, only)
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
                    first = _PLACED if self._unplaced[other] else 0
                    gain[other] = gain.get(other, first) + weight
                    heappush(best_first, (-gain[other], other))
        return page

    def _next(
        self,
        gain: dict[int, int],
        best_first: list[tuple[int, int]],
        passed: set[int],
        only: Flags | None,
    ) -> int | None:
        while best_first:
            negative, member = heappop(best_first)
            if gain.get(member) == -negative:
                return member
        left = self._left + self._unplaced if only is None else np.where(only, self._left + 1, 0)
        left[list(passed)] = 0
        best = int(left.argmax())
        return best if left[best] > 0 else None

    def _open_edges(self, member: int) -> tuple[list[int], Ints, list[int]]:
        part = slice(self._first[member], self._first[member + 1])
        edges = self._edge[part]
        is_open = self._open[edges]
        edges = edges[is_open]
        return self._others[part][is_open].tolist(), edges, self._weight[edges].tolist()

    def _close(self, page: list[int]) -> None:
        shown = set(page)
        for member in page:
            others, edges, weights = self._open_edges(member)
            for other, edge, weight in zip(others, edges.tolist(), weights, strict=True):
                if other in shown:
                    self._open[edge] = False
                    self._left[member] -= weight
                    self._left[other] -= weight
        self._unplaced[page] = False

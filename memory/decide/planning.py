"""Plan one round of a batch run from a snapshot of the store: similar pairs, groups and pages.

A language model reads one page of memories at a time. The memories of one scope form a graph. An
edge leads from each memory that the model has not read yet to each of its nearest neighbours. A
page covers an edge if both memories of the edge are on the page. Pages are built greedily. A page
starts with the memory whose uncovered edges have the greatest total weight. Then, repeatedly, the
memory is added that increases the covered weight most. Unread memories that are on no page yet are
preferred.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heappop, heappush
from itertools import combinations, groupby
from math import comb
from typing import NamedTuple

import numpy as np

from memory.decide.candidates import CandidatePairs, Pairs, chosen, joined, nearest_of
from memory.decide.likeness import (
    FindPairs,
    Likeness,
    PairSearch,
    PlanGroups,
    all_alike,
    cohesive,
    find_pairs,
    plan_groups,
)
from memory.decide.policy import GroupPlan
from memory.models import (
    COMPARED,
    MOST_ON_PAGE,
    NEIGHBOURS,
    PLAIN,
    Flags,
    Floats,
    Ints,
    JustBelow,
    Memory,
    Progress,
    Question,
    Row,
    Rules,
    Scale,
    Scope,
    ScopedText,
    Snapshot,
    TextPair,
)
from memory.text import has_cjk, text_of

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


BANDS = (0.98, 0.95, 0.90)


@dataclass(frozen=True)
class AskedAgain:
    """Groups of texts that are put on pages even if the model has already read them.

    `groups` maps the key of a scope to groups of `dated_key`s. The texts of a group count as each
    other's nearest neighbours, so that they share pages. `alone`: if true, all other texts count as
    already read, and no page is made for them.
    """

    groups: Mapping[str, tuple[frozenset[str], ...]] = field(default_factory=dict)
    alone: bool = False


@dataclass(frozen=True)
class PlanSettings:
    """Settings for finding similar pairs, forming groups and making pages.

    `neighbours`: how many nearest neighbours are found for each text, besides all texts at or above
    the upper threshold; at least 10 in a scope that needs pages. `pages`: limits of the pages; None
    if no pages are made. `find_pairs`, `plan_groups`: do this work, by default in this process.
    `on_compared`: called with the number of texts compared and the number of all texts.
    `just_below`: the width of a range of similarity that ends at the lower threshold. The pairs in
    this range are counted; 0 means that they are not.
    """

    rules: Rules
    scale: Scale = PLAIN
    neighbours: int = COMPARED
    pages: PageRules | None = None
    find_pairs: FindPairs = find_pairs
    plan_groups: PlanGroups = plan_groups
    on_compared: Progress | None = None
    just_below: float = 0.0

    @property
    def lowered(self) -> float:
        return max(0.0, round(self.rules.lower - self.just_below, 6))


@dataclass(frozen=True, repr=False)
class RoundPlan:
    """The groups and pages of one round of a batch run, and figures about the store.

    `pairs` maps each similarity in `BANDS`, written as "0.95", to the number of pairs of memories
    that are at least this similar. Only memories of the same scope are paired. `just_below`: the
    number of pairs just below the lower threshold; None if they were not counted. `alone`: texts
    with a vector that the model still has to read, but that are on no page.
    """

    snapshot: Snapshot
    groups: tuple[GroupPlan, ...]
    likeness: Likeness
    pairs: dict[str, int] = field(default_factory=dict)
    just_below: JustBelow | None = None
    pages: tuple[PagePlan, ...] = ()
    alone: tuple[ScopedText, ...] = ()

    @property
    def asked(self) -> list[Question]:
        """The questions about groups, without those that are asked as part of a page."""
        return [one.question for one in self.groups if one.question and not one.on_pages]

    @property
    def questions(self) -> list[Question]:
        return [*self.asked, *(page.question for page in self.pages)]

    @property
    def pages_by_scope(self) -> dict[Scope, list[PagePlan]]:
        return {scope: list(its) for scope, its in groupby(self.pages, lambda page: page.scope)}


class Planner:
    """Plans the rounds of a batch run; keeps the plan of a scope in which nothing has changed.

    The texts of one scope are divided into groups. In a group, the similarity of every two texts
    reaches the lower threshold. A text that is similar to two texts does not join these if they are
    not similar to each other. Groups do not depend on the order in which memories arrived.

    If a text was merged from older texts, these must be similar to the other texts of the group,
    too. Otherwise, a merge could bring texts together that an earlier round kept apart.

    Groups are formed from pairs of similar texts. These are all pairs that reach the upper
    threshold, and the pairs of each text with its nearest neighbours that reach the lower
    threshold.
    """

    def __init__(self, scope_of: Callable[[Memory], Scope], settings: PlanSettings) -> None:
        self._scope_of = scope_of
        self._settings = settings
        self._known: dict[Scope, _ScopePlan] = {}

    def plan(
        self, snapshot: Snapshot, again: AskedAgain | None = None, *, every_pair: bool = False
    ) -> RoundPlan:
        """Plan the groups and pages of one round; count the pairs at or above each of `BANDS`.

        The groups are ordered by their oldest members, oldest first. `again`: groups of texts that
        pages must show together once more, even if a model has already read them. `every_pair`:
        also form the groups of later rounds, as if each group kept all its members. A text is then
        in several groups, and each pair of similar texts is in one.
        """
        order = {row.memory.id: position for position, row in enumerate(snapshot.rows)}
        likeness = Likeness(snapshot, self._settings.scale)
        self._plan_changed(snapshot, likeness, again or AskedAgain(), every_pair)
        found = self._known.values()
        groups = sorted(
            (group for one in found for group in one.groups),
            key=lambda group: order[group.members[0].id],
        )
        bands = sum((one.bands for one in found), Counter[float]())
        just_below = None
        if self._settings.just_below:
            low, lower = self._settings.lowered, self._settings.rules.lower
            just_below = JustBelow(low=low, high=lower, pairs=bands[low] - bands[lower])
        return RoundPlan(
            snapshot,
            tuple(groups),
            likeness,
            {f"{band:.2f}": bands[band] for band in BANDS},
            just_below,
            tuple(page for one in found for page in one.pages),
            tuple(text for one in found for text in one.alone),
        )

    def _plan_changed(
        self, snapshot: Snapshot, likeness: Likeness, again: AskedAgain, every_pair: bool
    ) -> None:
        distinct: dict[str, set[TextPair]] = {}
        for pair in snapshot.distinct:
            distinct.setdefault(pair[0], set()).add(pair)
        known: dict[Scope, _ScopePlan] = {}
        changed: dict[Scope, tuple[tuple[object, ...], _Scope]] = {}
        for scope, nodes in _scopes(snapshot.rows, self._scope_of).items():
            pairs = frozenset(distinct.get(scope.key, ()))
            unread = self._unread(scope, nodes, snapshot.read, again)
            rows = tuple((row.seq, row.revision) for rows in nodes.values() for row in rows)
            state: tuple[object, ...] = (rows, pairs, unread, every_pair)
            if scope in self._known and self._known[scope].state == state:
                known[scope] = self._known[scope]
            else:
                one = _Scope(nodes, snapshot, pairs, self._settings, unread)
                changed[scope] = state, one
        searches = [one.search for _, one in changed.values()]
        found = self._settings.find_pairs(searches, snapshot.vectors, self._settings.on_compared)
        for (scope, (state, one)), candidates in zip(changed.items(), found, strict=True):
            one.take(candidates)
            groups = one.groups(likeness, every_pair)
            pages = one.pages(scope, groups, again.groups.get(scope.key, ()))
            alone = tuple((scope.key, key) for key in one.unshown(pages))
            known[scope] = _ScopePlan(state, one.bands, tuple(groups), pages, alone)
        self._known = known

    def _unread(
        self, scope: Scope, nodes: _Nodes, read: Collection[ScopedText], again: AskedAgain
    ) -> frozenset[str] | None:
        rules = self._settings.pages
        private = next(iter(nodes.values()))[0].memory.is_private
        if rules is None or (private and not rules.private):
            return None
        of_scope = scope.key
        asked = {key for group in again.groups.get(of_scope, ()) for key in group}
        return frozenset(
            key for key in nodes if key in asked or not (again.alone or (of_scope, key) in read)
        )


class _ScopePlan(NamedTuple):
    state: tuple[object, ...]
    bands: Counter[float]
    groups: tuple[GroupPlan, ...]
    pages: tuple[PagePlan, ...]
    alone: tuple[ScopedText, ...]


def plan_again(snapshot: Snapshot, rules: Rules, scale: Scale = PLAIN) -> RoundPlan:
    """Plan all memories of a snapshot as one group, even if they are not similar."""
    likeness = Likeness(snapshot, scale)
    members = [row.memory for row in snapshot.rows]
    groups = plan_groups([(tuple(members), likeness.group(members))], rules)
    return RoundPlan(snapshot, tuple(groups), likeness)


_Nodes = dict[str, list[Row]]
"""For each `dated_key` of one scope, the rows of the memories with it, oldest first."""


def _scopes(rows: Iterable[Row], scope_of: Callable[[Memory], Scope]) -> dict[Scope, _Nodes]:
    scopes: dict[Scope, _Nodes] = {}
    for row in rows:
        nodes = scopes.setdefault(scope_of(row.memory), {})
        nodes.setdefault(row.dated_key, []).append(row)
    return scopes


class _Scope:
    def __init__(
        self,
        nodes: _Nodes,
        snapshot: Snapshot,
        distinct: frozenset[TextPair],
        settings: PlanSettings,
        unread: frozenset[str] | None,
    ) -> None:
        self._nodes = nodes
        self._unread = unread
        self._vectors = snapshot.vectors
        self._ancestors = snapshot.ancestors
        self._settings = settings
        # Ties go by position: the same groups whatever order they came in.
        self._keys = sorted(key for key in nodes if text_of(key) in snapshot.vectors)
        self._rows = self._vectors.positions(map(text_of, self._keys))
        self._made = {n for n, key in enumerate(self._keys) if self._ancestors_of(key)}
        contents = (nodes[key][0].memory.content for key in self._keys)
        self._is_cjk = np.fromiter(map(has_cjk, contents), np.bool_)
        self._lower = settings.scale.cosines(settings.rules.lower, self._is_cjk)
        self._position_of = {
            row.memory.id: n for n, key in enumerate(self._keys) for row in nodes[key]
        }
        self._position = position = {key: n for n, key in enumerate(self._keys)}
        self._distinct = {
            (position[a], position[b]) for _, a, b in distinct if a in position and b in position
        }
        self._kept_twice = {low for _, low, high in distinct if low == high}
        within = (comb(len(rows), 2) for rows in nodes.values())
        below = (settings.rules.lower, settings.lowered) if settings.just_below else ()
        self.bands = Counter(dict.fromkeys((*BANDS, *below), sum(within)))

    @property
    def search(self) -> PairSearch:
        settings = self._settings
        floor, neighbours = settings.rules.lower, settings.neighbours
        if self._unread:
            floor, neighbours = min(floor, 0.0), max(neighbours, NEIGHBOURS)
        return PairSearch(
            tuple(map(text_of, self._keys)),
            self._is_cjk,
            np.array([len(self._nodes[key]) for key in self._keys], np.int64),
            settings.scale,
            settings.rules.upper,
            floor,
            neighbours,
            tuple(self.bands),
        )

    def take(self, found: CandidatePairs) -> None:
        for band, count in zip([*self.bands], found.counts.tolist(), strict=True):
            self.bands[band] += count
        pairs, size = joined([found.upper, found.nearest]), len(self._keys)
        distinct = np.array([low * size + high for low, high in self._distinct], np.int64)
        self._pairs = chosen(pairs, ~np.isin(pairs.i * size + pairs.j, distinct))
        self._scores = self._settings.scale.similarities(
            self._pairs.similarity, self._is_cjk[self._pairs.i] | self._is_cjk[self._pairs.j]
        )

    # --- groups ---

    def groups(self, likeness: Likeness, every_pair: bool) -> list[GroupPlan]:
        close = self._scores >= self._settings.rules.lower
        pairs = chosen(self._pairs, close)
        scores = self._scores[close].tolist()
        edges = list(zip(pairs.i.tolist(), pairs.j.tolist(), scores, strict=True))
        apart: dict[int, set[int]] = {}
        _set_apart(apart, self._distinct)
        found = cohesive(range(len(self._keys)), edges, partial(self._may_join, apart))
        together = [[self._keys[n] for n in group] for group in found]
        together += [[key] for key in self._nodes if text_of(key) not in self._vectors]
        plans = latest = self._plans_of(together, likeness)
        while every_pair and latest:
            _set_apart(apart, (pair for plan in latest for pair in self._settled_by(plan)))
            edges = [edge for edge in edges if edge[1] not in apart.get(edge[0], ())]
            nodes = sorted({n for edge in edges for n in edge[:2]})
            found = cohesive(nodes, edges, partial(self._may_join, apart))
            together = [[self._keys[n] for n in group] for group in found if len(group) > 1]
            latest = self._plans_of(together, likeness)
            plans = [*plans, *latest]
        if self._unread is None:
            return plans
        return [replace(plan, on_pages=True) for plan in plans]

    def _plans_of(self, together: Sequence[Sequence[str]], likeness: Likeness) -> list[GroupPlan]:
        groups = []
        for keys in together:
            rows = [
                row
                for key in keys  # of a text that a person keeps several times, only the newest
                for row in self._nodes[key][-1 if key in self._kept_twice else 0 :]
            ]
            if len(rows) > 1:
                rows.sort(key=lambda row: (row.memory.timestamp, row.seq))
                groups.append(tuple(row.memory for row in rows))
        alike = likeness.groups(groups)
        return self._settings.plan_groups(
            list(zip(groups, alike, strict=True)), self._settings.rules
        )

    def _settled_by(self, plan: GroupPlan) -> Iterator[tuple[int, int]]:
        """Yield the pairs of texts that a plan answers; a question shows not all of a group."""
        asked = plan.question.members if plan.question and not plan.replacement else plan.members
        positions = {self._position_of[one.id] for one in asked if one.id in self._position_of}
        return combinations(sorted(positions), 2)

    def pages(
        self, scope: Scope, groups: Sequence[GroupPlan], again: Sequence[frozenset[str]]
    ) -> tuple[PagePlan, ...]:
        rules = self._settings.pages
        if not self._unread or rules is None:
            return ()
        gone = {name for plan in groups if plan.replacement for name in plan.replacement.retired}
        remaining = [
            [row for row in self._nodes[key] if row.memory.id not in gone] for key in self._keys
        ]
        left = [rows[-1] for rows in remaining if rows]
        is_left = np.array([bool(rows) for rows in remaining], np.bool_)
        position = np.cumsum(is_left) - 1
        pairs = chosen(self._pairs, is_left[self._pairs.i] & is_left[self._pairs.j])
        pairs = Pairs(position[pairs.i], position[pairs.j], pairs.similarity)
        grown = pages(
            np.array([len(row.memory.content) for row in left], np.int64),
            joined([nearest_of(pairs, len(left), NEIGHBOURS), _pairs_to_meet(left, again)]),
            np.array([row.dated_key in self._unread for row in left], np.bool_),
            rules,
        )
        found = ([left[n] for n in page] for page in grown)
        return tuple(
            PagePlan(scope, tuple(row.memory for row in rows))
            for rows in found
            if not self._all_distinct([row.dated_key for row in rows])
        )

    def unshown(self, pages: Sequence[PagePlan]) -> list[str]:
        shown = {member.id for page in pages for member in page.members}
        return [
            key
            for key in self._unread or ()
            if text_of(key) in self._vectors
            and shown.isdisjoint(row.memory.id for row in self._nodes[key])
        ]

    def _all_distinct(self, keys: Collection[str]) -> bool:
        if comb(len(keys), 2) > len(self._distinct):
            return False
        pairs = combinations(sorted(self._position[key] for key in keys), 2)
        return all(pair in self._distinct for pair in pairs)

    def _may_join(
        self, apart: Mapping[int, Set[int]], left: Sequence[int], right: Sequence[int]
    ) -> bool:
        fewer, more = sorted((left, right), key=len)
        if any(not apart[n].isdisjoint(more) for n in fewer if n in apart):
            return False
        if len(left) == len(right) == 1 and self._made.isdisjoint((*left, *right)):
            return True  # they are asked about because they are near enough
        (rows, lower), (columns, least) = self._lineages(left), self._lineages(right)
        return all_alike(self._vectors.matrix, rows, columns, np.maximum.outer(lower, least))

    def _lineages(self, nodes: Sequence[int]) -> tuple[Ints, Floats]:
        """Return the row numbers of a group's vectors, and a minimum cosine for each vector.

        The vectors are those of the group's texts and of their ancestors; see `Snapshot.ancestors`.
        Texts without a vector are left out. `nodes`: the positions of the group's texts in
        `self._keys`. Both arrays have shape (n,). Row numbers are those of `self._vectors.matrix`.

        A text's minimum is the lowest cosine at which its similarity can reach the lower threshold.
        An ancestor has the minimum of its descendant in the group. Two groups may be joined only if
        each vector of one group is near enough to each vector of the other group: their cosine must
        reach the higher of the two minimums.
        """
        if self._made.isdisjoint(nodes):
            return self._rows[nodes], self._lower[nodes]
        keys = [
            (n, key)
            for n in nodes
            for key in dict.fromkeys([text_of(self._keys[n]), *self._ancestors_of(self._keys[n])])
            if key in self._vectors
        ]
        return self._vectors.positions(key for _, key in keys), self._lower[[n for n, _ in keys]]

    def _ancestors_of(self, key: str) -> list[str]:
        return [
            ancestor
            for row in self._nodes[key]
            for ancestor in self._ancestors.get(row.memory.id, ())
        ]


def _set_apart(apart: dict[int, set[int]], pairs: Iterable[tuple[int, int]]) -> None:
    for i, j in pairs:
        apart.setdefault(i, set()).add(j)
        apart.setdefault(j, set()).add(i)


def _pairs_to_meet(rows: Sequence[Row], groups: Iterable[Collection[str]]) -> Pairs:
    position = {row.dated_key: n for n, row in enumerate(rows)}
    found = [sorted(position[key] for key in group if key in position) for group in groups]
    pairs = sorted({pair for numbers in found for pair in combinations(numbers, 2)})
    i, j = np.array(pairs, np.int64).reshape(-1, 2).T
    return Pairs(i, j, np.full(len(i), 2.0))  # above the similarity of all other pairs

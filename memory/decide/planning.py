"""Plan one round of a batch run from a snapshot of the store: similar pairs, groups and pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, groupby
from math import comb
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memory.decide.likeness import (
    Likeness,
    PairSearch,
    PlanExecutor,
    all_alike,
    cohesive,
    connected,
)
from memory.decide.pages import NEIGHBOURS, PageGraph, PagePlan, PageRules, pages
from memory.decide.policy import GroupPlan, plan_group
from memory.ledger import Row, ScopedText, Snapshot, TextPair
from memory.models import PLAIN, JustBelow, Memory, Question, Rules, Scale, Scope
from memory.runtime import Progress
from memory.search import (
    CandidatePairs,
    Pairs,
    chosen,
    joined,
    nearest_of,
)
from memory.text import has_cjk

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
BANDS = (0.98, 0.95, 0.90)
"""Similarities at which an audit counts the pairs."""


@dataclass(frozen=True)
class AskedAgain:
    """Groups of texts that pages must show together, even if a model has already read them."""

    groups: Mapping[str, tuple[frozenset[str], ...]] = field(default_factory=dict)
    """For each scope key, the groups, each as a set of text keys."""
    alone: bool = False
    """Whether pages are made only for the texts of these groups, and not for other unread texts."""


@dataclass(frozen=True)
class Matching:
    """Settings for finding similar pairs and for making pages."""

    scale: Scale = PLAIN
    neighbours: int = 5
    """How many nearest neighbours below the upper threshold are found for each text."""
    pages: PageRules | None = None
    """None if the model is only asked about groups and not about pages."""
    just_below: float = 0.0
    """How far below the lower threshold pairs are counted too, as a difference of similarities."""

    def lowered(self, threshold: float) -> float:
        """Return the threshold minus `just_below`, but at least 0."""
        return max(0.0, round(threshold - self.just_below, 6))


@dataclass(frozen=True)
class RoundPlan:
    """The groups and pages of one round of a batch run, and figures about the store."""

    groups: tuple[GroupPlan, ...]
    likeness: Likeness
    memories: int
    pairs: dict[str, int]
    """For each of `BANDS`, the number of pairs of memories of one scope that reach it.

    The keys are texts such as "0.95".
    """
    revision: int
    waiting: int = 0
    """The number of pairs that wait because a model failed to answer about them.

    The model is not asked about these pairs in this round.
    """
    just_below: JustBelow | None = None
    """The number of pairs just below the lower threshold; None if they are not counted."""
    pages: tuple[PagePlan, ...] = ()
    """The pages; the model reads them after the decisions that need no model were applied."""
    alone: tuple[ScopedText, ...] = ()
    """Texts with a vector that no model has read and that are on none of the pages."""

    @property
    def asked(self) -> list[Question]:
        """The questions about groups, without those that are asked as part of a page."""
        return [one.question for one in self.groups if one.question and not one.on_pages]

    @property
    def questions(self) -> list[Question]:
        """All questions to the model: first those about groups, then those about pages."""
        return [*self.asked, *(page.question for page in self.pages)]

    @property
    def pages_by_scope(self) -> dict[Scope, list[PagePlan]]:
        """The pages of each scope, in the order in which the model reads them."""
        return {scope: list(its) for scope, its in groupby(self.pages, lambda page: page.scope)}


class Planner:
    """Plans the rounds of a batch run; keeps the plan of a scope in which nothing has changed.

    Memories of one scope with the same text are one node of a graph. Its edges are the candidate
    pairs: all pairs that reach the upper threshold, and for each text its nearest neighbours that
    reach the lower threshold. Each connected component is split into groups in which every two
    members reach the lower threshold. For a merged memory, the texts from which it was merged must
    reach the threshold too.

    This has three consequences. A merged memory is similar to every memory that it replaces. Two
    memories are never merged only because a third memory is similar to both. A pair that one round
    splits is also split in later rounds. Groups depend on the texts, not on the order in which they
    arrived.
    """

    def __init__(
        self,
        rules: Rules,
        scope_of: Callable[[Memory], Scope],
        matching: Matching | None = None,
        executor: PlanExecutor | None = None,
        on_compared: Progress | None = None,
    ) -> None:
        """Set the rules and settings of all plans.

        `scope_of`: returns the scope of a memory. `matching`: how similar pairs are found and pages
        are made; None for the defaults. `executor`: searches for pairs and plans groups; if None,
        this process does. `on_compared`: called during the search for pairs with the number of
        texts compared and the number of all texts; None for no reports.
        """
        self._rules = rules
        self._scope_of = scope_of
        self._matching = matching or Matching()
        self._executor = executor or PlanExecutor()
        self._on_compared = on_compared
        self._known: dict[Scope, _ScopePlan] = {}

    def plan(self, snapshot: Snapshot, again: AskedAgain | None = None) -> RoundPlan:
        """Plan the groups and pages of one round, and count the pairs of similar memories.

        The pairs are counted for each similarity in `BANDS`: how many pairs reach it. The groups
        are ordered by their oldest members, oldest first. `again`: groups of texts that pages must
        show together once more, even if a model has already read them; None if there are none.
        """
        order = {row.memory.id: position for position, row in enumerate(snapshot.rows)}
        likeness = Likeness(snapshot, self._matching.scale)
        self._plan_changed(snapshot, likeness, again or AskedAgain())
        found = self._known.values()
        groups = [group for one in found for group in one.groups]
        groups.sort(key=lambda group: order[group.members[0].id])
        bands = sum((one.bands for one in found), Counter[float]())
        lower, just_below = self._rules.lower, None
        if self._matching.just_below:
            low = self._matching.lowered(lower)
            just_below = JustBelow(low=low, high=lower, pairs=bands[low] - bands[lower])
        return RoundPlan(
            tuple(groups),
            likeness,
            len(snapshot.rows),
            {f"{band:.2f}": bands[band] for band in BANDS},
            snapshot.revision,
            snapshot.waiting,
            just_below,
            tuple(page for one in found for page in one.pages),
            tuple(text for one in found for text in one.alone),
        )

    def _plan_changed(self, snapshot: Snapshot, likeness: Likeness, again: AskedAgain) -> None:
        distinct: dict[str, set[TextPair]] = {}
        for pair in snapshot.distinct:
            distinct.setdefault(pair[0], set()).add(pair)
        known: dict[Scope, _ScopePlan] = {}
        changed: dict[Scope, tuple[tuple[object, ...], _Scope]] = {}
        for scope, nodes in _scopes(snapshot.rows, self._scope_of).items():
            pairs = frozenset(distinct.get(scope.key, ()))
            unread = self._unread(scope, nodes, snapshot.read, again)
            rows = tuple((row.seq, row.revision) for rows in nodes.values() for row in rows)
            state: tuple[object, ...] = (rows, pairs, unread)
            if scope in self._known and self._known[scope].state == state:
                known[scope] = self._known[scope]
            else:
                one = _Scope(nodes, snapshot, pairs, self._matching, self._rules, unread)
                changed[scope] = state, one
        searches = [one.search for _, one in changed.values()]
        found = self._executor.find(searches, snapshot.vectors, self._on_compared)
        for (scope, (state, one)), candidates in zip(changed.items(), found, strict=True):
            one.take(candidates)
            groups = one.groups(likeness, self._executor)
            pages = one.pages(scope, groups, again.groups.get(scope.key, ()))
            alone = tuple((scope.key, key) for key in one.unshown(pages))
            known[scope] = _ScopePlan(state, one.bands, tuple(groups), pages, alone)
        self._known = known

    def _unread(
        self, scope: Scope, nodes: _Nodes, read: Collection[ScopedText], again: AskedAgain
    ) -> frozenset[str] | None:
        """Return the keys of the texts of a scope that pages must show, or None if it has no pages.

        `nodes`: for each text key of the scope, its rows. `read`: the texts that a model has
        already read. `again`: groups of texts that pages must show even if a model has read them.
        """
        rules = self._matching.pages
        private = next(iter(nodes.values()))[0].memory.is_private
        if rules is None or (private and not rules.private):
            return None
        asked = {key for group in again.groups.get(scope.key, ()) for key in group}
        return frozenset(
            key for key in nodes if key in asked or not (again.alone or (scope.key, key) in read)
        )


class _ScopePlan(NamedTuple):
    """The plan of one scope, with the state of the scope from which it was made.

    If the state is unchanged, so is the plan. `state` has the number and the revision of each row,
    the pairs of texts judged distinct, and the keys of the texts that pages must show. These keys
    are None if no pages are made.
    """

    state: tuple[object, ...]
    bands: Counter[float]
    groups: tuple[GroupPlan, ...]
    pages: tuple[PagePlan, ...]
    alone: tuple[ScopedText, ...]


def plan_again(snapshot: Snapshot, rules: Rules, scale: Scale = PLAIN) -> RoundPlan:
    """Plan all memories of a snapshot as one group, even if they are not similar.

    Return a plan with exactly this group. It is used for a group that was planned before and may
    have changed. `scale`: turns a cosine into a similarity.
    """
    likeness = Likeness(snapshot, scale)
    members = [row.memory for row in snapshot.rows]
    alike = likeness.group(members)
    plan = alike.with_cosine(plan_group(members, alike.of, rules))
    return RoundPlan((plan,), likeness, len(members), {}, snapshot.revision)


_Nodes = dict[str, list[Row]]
"""For each text key of one scope, the rows of the memories that have this text, oldest first."""


def _scopes(rows: Iterable[Row], scope_of: Callable[[Memory], Scope]) -> dict[Scope, _Nodes]:
    scopes: dict[Scope, _Nodes] = {}
    for row in rows:
        nodes = scopes.setdefault(scope_of(row.memory), {})
        nodes.setdefault(row.text_key, []).append(row)
    return scopes


class _Scope:
    """The texts of one scope and their candidate pairs, from which groups and pages are planned."""

    def __init__(
        self,
        nodes: _Nodes,
        snapshot: Snapshot,
        distinct: frozenset[TextPair],
        matching: Matching,
        rules: Rules,
        unread: frozenset[str] | None,
    ) -> None:
        """Collect the texts of a scope, and the settings on which its groups and pages depend.

        `nodes`: for each text key, its rows. `distinct`: pairs of texts judged distinct. `matching`
        and `rules`: which texts count as similar, and what is done with them. `unread`: the keys of
        the texts that pages must show, or None if no pages are made.
        """
        self._nodes = nodes
        self._unread = unread
        self._vectors = snapshot.vectors
        self._ancestors = snapshot.ancestors
        self._matching = matching
        self._rules = rules
        # Ties go by position: the same groups whatever order they came in.
        self._keys = sorted(key for key in nodes if key in snapshot.vectors)
        self._rows = self._vectors.positions(self._keys)
        self._made = {n for n, key in enumerate(self._keys) if self._ancestors_of(key)}
        """Positions of the texts that belong to a merged memory."""
        contents = (nodes[key][0].memory.content for key in self._keys)
        self._is_cjk = np.fromiter(map(has_cjk, contents), np.bool_)
        self._lower = matching.scale.cosines(rules.lower, self._is_cjk)
        self._position = position = {key: n for n, key in enumerate(self._keys)}
        self._distinct = {
            (position[a], position[b]) for _, a, b in distinct if a in position and b in position
        }
        self._kept_twice = {low for _, low, high in distinct if low == high}
        within = (comb(len(rows), 2) for rows in nodes.values())
        below = (rules.lower, matching.lowered(rules.lower)) if matching.just_below else ()
        self.bands = Counter(dict.fromkeys((*BANDS, *below), sum(within)))
        self._pairs = _NO_PAIRS
        self._scores = self._pairs.similarity

    @property
    def search(self) -> PairSearch:
        matching = self._matching
        floor, neighbours = self._rules.lower, matching.neighbours
        if self._unread:
            floor, neighbours = min(floor, 0.0), max(neighbours, NEIGHBOURS)
        return PairSearch(
            tuple(self._keys),
            self._is_cjk,
            np.array([len(self._nodes[key]) for key in self._keys], np.int64),
            matching.scale,
            self._rules.upper,
            floor,
            neighbours,
            tuple(self.bands),
        )

    def take(self, found: CandidatePairs) -> None:
        """Store the candidate pairs that a search found, and add its counts of pairs to `bands`.

        `bands`: for each of several similarities, the number of pairs of memories that reach it.
        Pairs that were judged distinct are counted but not stored.
        """
        for band, count in zip([*self.bands], found.counts.tolist(), strict=True):
            self.bands[band] += count
        pairs, size = joined([found.upper, found.nearest]), len(self._keys)
        distinct = np.array([low * size + high for low, high in self._distinct], np.int64)
        self._pairs = chosen(pairs, ~np.isin(pairs.i * size + pairs.j, distinct))
        self._scores = self._matching.scale.similarities(
            self._pairs.similarity, self._is_cjk[self._pairs.i] | self._is_cjk[self._pairs.j]
        )

    # --- groups ---

    def groups(self, likeness: Likeness, executor: PlanExecutor) -> list[GroupPlan]:
        """Return the plans of all groups of the scope.

        Every two members of a group have the same text or are similar. `likeness` computes the
        similarities within the groups. `executor` makes the plans, in this process or in others.
        """
        groups = []
        for keys in self._texts_together():
            rows = [
                row
                for key in keys  # of a text that a person keeps several times, only the newest
                for row in self._nodes[key][-1 if key in self._kept_twice else 0 :]
            ]
            if len(rows) > 1:
                rows.sort(key=lambda row: (row.memory.timestamp, row.seq))
                groups.append(tuple(row.memory for row in rows))
        alike = likeness.groups(groups)
        plans = executor.plan(list(zip(groups, alike, strict=True)), self._rules)
        if self._unread is None:
            return plans
        return [replace(plan, on_pages=True) for plan in plans]

    def pages(
        self, scope: Scope, groups: Sequence[GroupPlan], again: Sequence[frozenset[str]]
    ) -> tuple[PagePlan, ...]:
        """Return the pages of the scope; a model reads the memories of a page in one question.

        Memories that a planned replacement retires are left out. `groups`: the plans of the scope's
        groups. `again`: sets of text keys; the texts of each set must be shown on one page.
        """
        rules = self._matching.pages
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
        graph = PageGraph(
            np.array([len(row.memory.content) for row in left], np.int64),
            joined([nearest_of(pairs, len(left), NEIGHBOURS), _meeting(left, again)]),
            np.array([row.text_key in self._unread for row in left], np.bool_),
        )
        grown = pages(graph, thorough=rules.thorough, most=rules.size)
        found = ([left[n] for n in page] for page in grown)
        return tuple(
            PagePlan(scope, tuple(row.memory for row in rows))
            for rows in found
            if not self._all_distinct([row.text_key for row in rows])
        )

    def unshown(self, pages: Sequence[PagePlan]) -> list[str]:
        """Return the keys of the texts that must be on a page, but are on none of `pages`.

        Texts without a vector are left out.
        """
        shown = {member.id for page in pages for member in page.members}
        return [
            key
            for key in self._unread or ()
            if key in self._vectors and shown.isdisjoint(row.memory.id for row in self._nodes[key])
        ]

    def _all_distinct(self, keys: Collection[str]) -> bool:
        """Return whether every two of these texts, given by key, were judged distinct."""
        if comb(len(keys), 2) > len(self._distinct):
            return False
        pairs = combinations(sorted(self._position[key] for key in keys), 2)
        return all(pair in self._distinct for pair in pairs)

    def _texts_together(self) -> list[list[str]]:
        close = self._scores >= self._rules.lower
        pairs = chosen(self._pairs, close)
        scores = self._scores[close].tolist()
        edges = list(zip(pairs.i.tolist(), pairs.j.tolist(), scores, strict=True))
        components = connected(len(self._keys), [(i, j) for i, j, _ in edges])
        component_of = {n: number for number, nodes in enumerate(components) for n in nodes}
        inside: list[list[tuple[int, int, float]]] = [[] for _ in components]
        for edge in edges:
            inside[component_of[edge[0]]].append(edge)
        found = [
            [self._keys[n] for n in group]
            for component, its_edges in zip(components, inside, strict=True)
            for group in cohesive(component, its_edges, self._may_join)
        ]
        return found + [[key] for key in self._nodes if key not in self._vectors]

    def _may_join(self, left: Sequence[int], right: Sequence[int]) -> bool:
        """Return whether two groups of texts may become one group, because all texts are similar.

        Every text of one group must be similar to every text of the other group. No such pair may
        have been judged distinct. For a merged text, the texts from which it was merged must be
        similar too. `left`, `right`: the positions of the texts of each group.
        """
        if self._distinct and any(
            (min(i, j), max(i, j)) in self._distinct for i in left for j in right
        ):
            return False
        if len(left) == len(right) == 1 and self._made.isdisjoint((*left, *right)):
            return True  # they are asked about because they are near enough
        (rows, lower), (columns, least) = self._lineages(left), self._lineages(right)
        return all_alike(self._vectors.matrix, rows, columns, np.maximum.outer(lower, least))

    def _lineages(self, nodes: Sequence[int]) -> tuple[Ints, Floats]:
        """Return the rows of a group's texts and of their sources, with a minimum cosine for each.

        The sources of a text are the texts from which it was merged. The first array has row
        numbers of the vector matrix. The second has, for each row, the cosine that the texts of
        another group must reach, so that the two groups may be joined. Both have shape (n,).
        `nodes`: the positions of the group's texts.
        """
        if self._made.isdisjoint(nodes):
            return self._rows[nodes], self._lower[nodes]
        keys = [
            (n, key)
            for n in nodes
            for key in dict.fromkeys([self._keys[n], *self._ancestors_of(self._keys[n])])
            if key in self._vectors
        ]
        return self._vectors.positions(key for _, key in keys), self._lower[[n for n, _ in keys]]

    def _ancestors_of(self, key: str) -> list[str]:
        made = (self._ancestors.get(row.memory.id, ()) for row in self._nodes[key])
        return [ancestor for of_row in made for ancestor in of_row]


_NO_PAIRS = joined([])


def _meeting(rows: Sequence[Row], groups: Iterable[Collection[str]]) -> Pairs:
    """Return all pairs of rows whose texts must be shown on the same page, as positions in `rows`.

    `groups`: sets of text keys; the texts of each set must be shown on one page. The pairs get a
    similarity above that of all other pairs, so that pages keep them together.
    """
    position = {row.text_key: n for n, row in enumerate(rows)}
    found = [sorted(position[key] for key in group if key in position) for group in groups]
    pairs = sorted({pair for numbers in found for pair in combinations(numbers, 2)})
    i, j = np.array(pairs, np.int64).reshape(-1, 2).T
    return Pairs(i, j, np.full(len(i), 2.0))

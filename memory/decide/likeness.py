"""Compare memories by their vectors, to find candidate pairs and groups of similar memories.

Pairs are searched in this process or on an executor, such as a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from math import comb
from typing import Protocol

import numpy as np
import numpy.typing as npt

from memory.decide.policy import GroupPlan, plan_group
from memory.ledger import Row, Snapshot, VectorTable
from memory.models import COPIES_FROM, Memory, Rules, Scale, Scope, SimilarityHistogram, Vectors
from memory.runtime import Progress
from memory.search import (
    CandidatePairs,
    OnShare,
    candidate_pairs,
    joined,
    scores_of,
    similarities,
    slack,
)
from memory.text import has_cjk, text_key

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Likeness:
    """Computes the similarity of live memories of one snapshot."""

    def __init__(self, snapshot: Snapshot, scale: Scale) -> None:
        self._vectors = snapshot.vectors
        self._scale = scale
        self._rows = snapshot.rows
        self._keys: dict[str, str] = {}

    def lowest(self, members: Sequence[Memory]) -> float:
        """Return the similarity of the two least similar members; 1 if all have the same text."""
        alike = self.among(members)
        return min((alike.of(a, b) for a, b in combinations(members, 2)), default=1.0)

    def among(self, members: Sequence[Memory]) -> AlikeGroup:
        [group] = self.groups([members])
        return group

    def groups(self, groups: Sequence[Sequence[Memory]]) -> list[AlikeGroup]:
        """Compare every two members of each group, and return one result per group, in order.

        All cosines are computed in one pass.
        """
        if not self._keys:
            self._keys = {row.memory.id: row.text_key for row in self._rows}
        keys_of = [
            {one.id: self._keys.get(one.id) or text_key(one.content) for one in members}
            for members in groups
        ]
        is_cjk = {
            keys[one.id]: has_cjk(one.content)
            for keys, members in zip(keys_of, groups, strict=True)
            for one in members
        }
        pairs_of = [
            list(combinations(sorted(key for key in {*keys.values()} if key in self._vectors), 2))
            for keys in keys_of
        ]
        pairs = [pair for own in pairs_of for pair in own]
        i = self._vectors.positions(a for a, _ in pairs)
        j = self._vectors.positions(b for _, b in pairs)
        cosines = scores_of(self._vectors.matrix, i, j)
        either = np.array([is_cjk[a] or is_cjk[b] for a, b in pairs], np.bool_)
        scores = self._scale.similarities(cosines, either).tolist()
        found = iter(zip(cosines.tolist(), scores, strict=True))
        return [
            AlikeGroup(keys, dict(zip(own, islice(found, len(own)), strict=True)))
            for keys, own in zip(keys_of, pairs_of, strict=True)
        ]


@dataclass(frozen=True)
class AlikeGroup:
    """The similarity of every two memories of one group.

    `keys`: the text key of each member, by id. `pairs`: (cosine, similarity) by two text keys, the
    lower key first; a pair is missing if one of its texts has no vector.
    """

    keys: Mapping[str, str]
    pairs: Mapping[tuple[str, str], tuple[float, float]]

    def of(self, a: Memory, b: Memory) -> float:
        """Return the similarity of two members: 1 for the same text, 0 if one has no vector."""
        return self._pair(a, b)[1]

    def _pair(self, a: Memory, b: Memory) -> tuple[float | None, float]:
        left, right = self.keys[a.id], self.keys[b.id]
        if left == right:
            return 1.0, 1.0
        return self.pairs.get((left, right) if left < right else (right, left), (None, 0.0))

    def with_cosine(self, plan: GroupPlan) -> GroupPlan:
        """Return the plan with its question completed: its lowest cosine, and which pairs are
        near-copies.
        """
        if plan.question is None:
            return plan
        found = {
            (n, m): self._pair(a, b)[0]
            for (n, a), (m, b) in combinations(enumerate(plan.question.members), 2)
        }
        cosines = {pair: cosine for pair, cosine in found.items() if cosine is not None}
        question = replace(
            plan.question,
            cosine=min(cosines.values(), default=None),
            copies=frozenset(pair for pair, cosine in cosines.items() if cosine >= COPIES_FROM),
        )
        return replace(plan, question=question)


def all_alike(matrix: Vectors, rows: Ints, columns: Ints, min_cosines: Floats) -> bool:
    """Return whether the cosine of each row with each column is at least the required one.

    `rows` (n,) and `columns` (m,) are row numbers of `matrix`; `min_cosines` has shape (n, m). A
    row always passes with itself. Products are float32; those close to the limit are repeated in
    float64.
    """
    products = matrix[rows] @ matrix[columns].T
    margin = slack(matrix.shape[1])
    products[rows[:, None] == columns] = 2.0
    if (products < min_cosines - margin).any():
        return False
    i, j = np.nonzero(products < min_cosines + margin)
    cosines = similarities(matrix[rows[i]], matrix[columns[j]])
    return bool((cosines >= min_cosines[i, j]).all())


# --- groups -----------------------------------------------------------------------------------


def connected(n: int, edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return the connected components of the nodes 0 to n - 1, each sorted; single nodes included.

    Computed by union-find.
    """
    parent = list(range(n))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for a, b in edges:
        low, high = sorted((root(a), root(b)))
        parent[high] = low
    members: dict[int, list[int]] = {}
    for node in range(n):
        members.setdefault(root(node), []).append(node)
    return list(members.values())


def cohesive(
    component: Sequence[int],
    edges: Sequence[tuple[int, int, float]],
    may_join: Callable[[Sequence[int], Sequence[int]], bool],
) -> list[list[int]]:
    """Split a connected component of nodes into groups in which every two members may be together.

    If a is like b and b is like c, but a is unlike c, the three must not be merged: the merged text
    would claim of a what only c states. Groups are therefore built by complete linkage. They start
    as single nodes and are joined along `edges` (node, node, similarity), the most similar first,
    if `may_join` accepts the members of both. Ties are resolved by the nodes' numbers: if these do
    not depend on the order in which memories arrived, neither do the groups.
    """
    group_of = {member: member for member in component}
    members_of = {member: [member] for member in component}
    apart: set[tuple[int, int]] = set()
    fresh = max(component, default=0) + 1
    for a, b, _ in sorted(edges, key=lambda edge: (-edge[2], edge[0], edge[1])):
        left, right = sorted((group_of[a], group_of[b]))
        if left == right or (left, right) in apart:
            continue
        if not may_join(members_of[left], members_of[right]):
            apart.add((left, right))
            continue
        members_of[fresh] = sorted(members_of.pop(left) + members_of.pop(right))
        group_of.update(dict.fromkeys(members_of[fresh], fresh))
        fresh += 1
    return list(members_of.values())


# --- candidate pairs ---------------------------------------------------------------------------

Alike = tuple[tuple[Memory, ...], AlikeGroup]
"""The members of a group, oldest first, and their similarities."""


@dataclass(frozen=True)
class PairSearch:
    """A search for pairs of similar texts within one scope.

    It finds all pairs at or above `upper` and, below it, the nearest neighbours of each text.
    Arrays have one value per text, shape (n,).
    """

    keys: tuple[str, ...]
    """The text keys."""
    is_cjk: Flags
    """Whether a text has Japanese or Chinese characters."""
    weights: Ints
    """The number of memories that have a text."""
    scale: Scale
    """The curve from cosine to similarity."""
    upper: float
    floor: float
    """The lowest similarity of pairs of nearest neighbours."""
    neighbours: int
    """How many nearest neighbours below `upper` are found for each text."""
    bands: tuple[float, ...]
    """Similarities: for each, the pairs of memories at or above it are counted."""

    def part(self, begin: int, end: int) -> PairSearch:
        """Return a search over the texts at positions `begin` to `end` - 1 only."""
        part = slice(begin, end)
        return replace(
            self, keys=self.keys[part], is_cjk=self.is_cjk[part], weights=self.weights[part]
        )

    def with_rows(self, other: PairSearch) -> PairSearch:
        """Return a search over the texts of both searches; the settings are those of this one."""
        return replace(
            self,
            keys=self.keys + other.keys,
            is_cjk=np.concatenate([self.is_cjk, other.is_cjk]),
            weights=np.concatenate([self.weights, other.weights]),
        )

    def comparisons(self, across: int | None = None) -> int:
        """Return the number of comparisons of `find`, in which each pair counts twice.

        `across` is as in `find`.
        """
        count = len(self.keys)
        return count * count if across is None else 2 * across * (count - across)

    def find(
        self,
        vectors: VectorTable,
        across: int | None = None,
        threads: int | None = None,
        on_share: OnShare | None = None,
    ) -> CandidatePairs:
        """Return the pairs at or above `upper`, and below it each text's nearest at or above
        `floor`.

        Rows are positions in `keys`. With `across`, only pairs of one of the first `across` texts
        with one of the others are found. `threads`: the number of threads, by default one per core;
        `on_share`: is called with the progress.
        """
        if len(self.keys) < 2:
            none = joined([])
            return CandidatePairs(none, none, np.zeros(len(self.bands), np.int64))
        return candidate_pairs(
            vectors.of(self.keys),
            self.scale.cosines(self.upper, self.is_cjk),
            self.neighbours,
            self.scale.cosines(self.floor, self.is_cjk),
            [self.scale.cosines(band, self.is_cjk) for band in self.bands],
            self.weights,
            across=across,
            threads=threads,
            on_share=on_share,
        )


class Compared:
    """Reports the progress of several searches as a number of texts.

    The share of texts that it reports is the share of comparisons that are done.
    """

    def __init__(self, searches: Sequence[PairSearch], tell: Progress | None) -> None:
        self._texts = sum(len(one.keys) for one in searches)
        self._all = max(1, sum(one.comparisons() for one in searches))
        self._done = 0
        self._tell = tell
        self.done(0)

    def done(self, comparisons: int) -> None:
        self._done += comparisons
        self._say(0)

    def share_of(self, comparisons: int) -> OnShare:
        """Return a callback for the search that comes next and has this number of comparisons.

        It is called with the share of them that is done, from 0 to 1.
        """
        return lambda share: self._say(share * comparisons)

    def _say(self, more: float) -> None:
        if self._tell is not None:
            self._tell(int(self._texts * (self._done + more) / self._all), self._texts)


class PlanExecutor(Protocol):
    """Searches for pairs and plans groups, in this process or on other processes."""

    def find(
        self,
        searches: Sequence[PairSearch],
        vectors: VectorTable,
        on_compared: Progress | None = None,
    ) -> Iterable[CandidatePairs]:
        """Return the candidate pairs of each search, in order; report the progress to
        `on_compared`.
        """

    def plan(self, groups: Sequence[Alike], rules: Rules) -> list[GroupPlan]:
        """Return the plan of each group, in order."""


class InProcessExecutor:
    """A `PlanExecutor` that works in this process."""

    def find(
        self,
        searches: Sequence[PairSearch],
        vectors: VectorTable,
        on_compared: Progress | None = None,
    ) -> Iterable[CandidatePairs]:
        compared = Compared(searches, on_compared)
        for one in searches:
            found = one.find(vectors, on_share=compared.share_of(one.comparisons()))
            compared.done(one.comparisons())
            yield found

    def plan(self, groups: Sequence[Alike], rules: Rules) -> list[GroupPlan]:
        return plan_groups(groups, rules)


def plan_groups(groups: Sequence[Alike], rules: Rules) -> list[GroupPlan]:
    """Return the plan of each group, in order, with the cosines of its question."""
    return [alike.with_cosine(plan_group(members, alike.of, rules)) for members, alike in groups]


# --- a whole store ----------------------------------------------------------------------------

_BINS = 40
"""The number of equal bins from 0 to 1, chosen so that 0.90 and 0.95 are edges."""
MOST_PAIRS = 4_000_000
"""The number of pairs that are compared; in a larger store, only a regular sample is compared."""


def similarity_histogram(
    snapshot: Snapshot,
    scope_of: Callable[[Memory], Scope],
    scale: Scale,
    most_pairs: int = MOST_PAIRS,
) -> SimilarityHistogram:
    """Count the pairs of memories that share a scope, by similarity.

    `scope_of` returns the scope of a memory. The counts are estimates if there are more than
    `most_pairs` pairs. Memories without a vector are left out.
    """
    scopes: dict[Scope, list[Row]] = {}
    for row in snapshot.rows:
        if row.text_key in snapshot.vectors:
            scopes.setdefault(scope_of(row.memory), []).append(row)
    pairs = sum(comb(len(rows), 2) for rows in scopes.values())
    share = min(1.0, most_pairs / max(1, pairs))
    either = np.array([False, True])
    edges = np.array([scale.cosines(n / _BINS, either) for n in range(_BINS + 1)]).T
    counts = np.zeros(_BINS)
    for rows in scopes.values():
        matrix = snapshot.vectors.of([row.text_key for row in rows])
        is_cjk = np.array([has_cjk(row.memory.content) for row in rows])
        asked = np.linspace(0, len(rows) - 1, max(2, round(len(rows) * share)), dtype=np.int64)
        weight = len(rows) / len(asked) / 2
        for part in np.array_split(asked, 1 + len(asked) * len(rows) // 1_000_000):
            cosines = np.clip(matrix[part] @ matrix.T, 0.0, 1.0)
            cosines[np.arange(len(part)), part] = -1.0  # not with itself
            has_either = is_cjk[part, None] | is_cjk
            for flag, bins in zip(either, edges, strict=True):
                counts += weight * np.histogram(cosines[has_either == flag], bins)[0]
    whole = tuple(np.rint(counts).astype(int).tolist())
    return SimilarityHistogram(counts=whole, pairs=pairs, exact=share == 1.0)

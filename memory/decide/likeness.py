"""Compare memories by their vectors, to find candidate pairs and groups of similar memories."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, islice
from math import comb
from typing import NamedTuple

import numpy as np

from memory.decide.candidates import CandidatePairs, OnShare, candidate_pairs, joined
from memory.decide.policy import GroupPlan, plan_group
from memory.models import (
    PLAIN,
    Flags,
    Floats,
    Ints,
    Memory,
    Progress,
    Row,
    Rules,
    Scale,
    Scope,
    SimilarityHistogram,
    Snapshot,
    Vectors,
    VectorTable,
    cosines_of,
    scores_of,
    slack,
)
from memory.text import has_cjk, text_key


class Likeness:
    """Computes the similarity of the live memories of one snapshot from their vectors."""

    def __init__(self, snapshot: Snapshot, scale: Scale) -> None:
        self._vectors = snapshot.vectors
        self._scale = scale
        self._keys = {row.memory.id: row.text_key for row in snapshot.rows}

    def lowest(self, members: Sequence[Memory]) -> float:
        alike = self.group(members)
        return min((alike.of(a, b) for a, b in combinations(members, 2)), default=1.0)

    def group(self, members: Sequence[Memory]) -> AlikeGroup:
        return self.groups([members])[0]

    def groups(self, groups: Sequence[Sequence[Memory]]) -> list[AlikeGroup]:
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

    `keys` maps the id of each memory to its text key. `pairs` maps a pair of text keys, the lower
    key first, to the cosine of the two vectors and the similarity of the two texts. Pairs with a
    text that has no vector are missing.
    """

    keys: Mapping[str, str]
    pairs: Mapping[tuple[str, str], tuple[float, float]]

    def of(self, a: Memory, b: Memory) -> float:
        """Return the similarity of two members: 1 for equal texts, 0 if a text has no vector."""
        return self._pair(a, b)[1]

    def _pair(self, a: Memory, b: Memory) -> tuple[float | None, float]:
        left, right = self.keys[a.id], self.keys[b.id]
        if left == right:
            return 1.0, 1.0
        return self.pairs.get((left, right) if left < right else (right, left), (None, 0.0))

    def with_cosine(self, plan: GroupPlan) -> GroupPlan:
        """Return a copy of the plan whose question also has its members' lowest cosine.

        `question.cosine` becomes the lowest cosine of two members; None if there is no cosine.
        Equal texts have the cosine 1. Other pairs with a text that has no vector are ignored. A
        plan without a question is returned unchanged.
        """
        if plan.question is None:
            return plan
        found = (self._pair(a, b)[0] for a, b in combinations(plan.question.members, 2))
        cosine = min((one for one in found if one is not None), default=None)
        return replace(plan, question=replace(plan.question, cosine=cosine))


def all_alike(matrix: Vectors, rows: Ints, columns: Ints, min_cosines: Floats) -> bool:
    """Return whether all cosines between two sets of vectors reach their required minimums.

    `rows`, shape (n,), and `columns`, shape (m,), are row numbers of `matrix`. `min_cosines` has
    the shape (n, m). A row always reaches its minimum with itself. Products are computed in
    float32, and products near their minimum a second time in float64.
    """
    products = matrix[rows] @ matrix[columns].T
    margin = slack(matrix.shape[1])
    products[rows[:, None] == columns] = 2.0
    if (products < min_cosines - margin).any():
        return False
    i, j = np.nonzero(products < min_cosines + margin)
    cosines = cosines_of(matrix[rows[i]], matrix[columns[j]])
    return bool((cosines >= min_cosines[i, j]).all())


# --- groups -----------------------------------------------------------------------------------


def connected(n: int, edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return the connected components of a graph with the nodes 0 to n - 1, each sorted.

    A node without an edge is a component of its own.
    """
    component = {node: [node] for node in range(n)}
    for a, b in edges:
        if component[a] is not component[b]:
            whole = sorted(component[a] + component[b])
            component.update(dict.fromkeys(whole, whole))
    return [members for node, members in component.items() if node == members[0]]


def cohesive(
    nodes: Sequence[int],
    edges: Sequence[tuple[int, int, float]],
    may_join: Callable[[Sequence[int], Sequence[int]], bool],
) -> list[list[int]]:
    """Divide the nodes of a graph into groups, by complete linkage.

    If a is similar to b and b to c, but a is not similar to c, the three must not be merged. So
    groups start as single nodes, and each edge may join the groups of its two nodes.

    `edges`: triples (node, node, similarity) in any order; the most similar are tried first, and
    ties are resolved by node number. `may_join`: called with the nodes of two groups; returns
    whether the groups may become one. Each returned group is sorted.
    """
    group_of = {node: node for node in nodes}
    members_of = {node: [node] for node in nodes}
    apart: set[tuple[int, int]] = set()
    fresh = max(nodes, default=0) + 1
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
"""The members of a group, oldest first, and the similarity of every two of them."""


@dataclass(frozen=True)
class PairSearch:
    """A search for pairs of similar texts within one scope.

    The search finds all pairs with a similarity of at least `upper`. It also finds pairs with a
    similarity from `floor` to `upper`. For each text, it keeps at most `neighbours` of these other
    pairs, the most similar ones.

    `bands`: similarities. For each of them, the search counts the pairs of memories that have
    different texts and are at least this similar.

    `keys`: the keys of the n texts. `is_cjk`: whether each text has Chinese or Japanese characters.
    `weights`: how many memories have each text. Both arrays have shape (n,) and the order of
    `keys`.
    """

    keys: tuple[str, ...]
    is_cjk: Flags
    weights: Ints
    scale: Scale
    upper: float
    floor: float
    neighbours: int
    bands: tuple[float, ...]

    def part(self, positions: Sequence[int]) -> PairSearch:
        return replace(
            self,
            keys=tuple(self.keys[n] for n in positions),
            is_cjk=self.is_cjk[positions],
            weights=self.weights[positions],
        )

    def comparisons(self, across: int | None = None) -> int:
        """Return how much work `find` has, as a number of comparisons.

        `across`: the argument of `find`. Each pair of texts counts as two comparisons. If `across`
        is None, each text also counts as compared with itself.
        """
        count = len(self.keys)
        return count * count if across is None else 2 * across * (count - across)

    def find(
        self,
        vectors: VectorTable,
        across: int | None = None,
        on_share: OnShare | None = None,
    ) -> CandidatePairs:
        """Return the pairs of similar texts, as positions in `keys`.

        `vectors`: by text key. `across`: compare only the first `across` texts with the remaining
        texts; None compares all texts. `on_share`: called with the share of the comparisons
        that is done, from 0 to 1.
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
            on_share=on_share,
        )


class Compared:
    """Reports the progress of several searches together, as a number of texts compared.

    The number is estimated from the number of comparisons made so far. If half of all comparisons
    are made, half of the texts count as compared.
    """

    def __init__(self, searches: Sequence[PairSearch], on_compared: Progress | None) -> None:
        self._texts = sum(len(one.keys) for one in searches)
        self._all = max(1, sum(one.comparisons() for one in searches))
        self._done = 0
        self._on_compared = on_compared
        self.add(0)

    def add(self, comparisons: int) -> None:
        self._done += comparisons
        self.report(0, 0.0)

    def report(self, comparisons: int, share: float) -> None:
        if self._on_compared is not None:
            done = self._done + share * comparisons
            self._on_compared(int(self._texts * done / self._all), self._texts)


FindPairs = Callable[[Sequence[PairSearch], VectorTable, Progress | None], Iterable[CandidatePairs]]
PlanGroups = Callable[[Sequence[Alike], Rules], list[GroupPlan]]


def find_pairs(
    searches: Sequence[PairSearch], vectors: VectorTable, on_compared: Progress | None = None
) -> Iterator[CandidatePairs]:
    """Yield the result of each search; `on_compared` is called as `PlanSettings` says."""
    compared = Compared(searches, on_compared)
    for search in searches:
        found = search.find(vectors, on_share=partial(compared.report, search.comparisons()))
        compared.add(search.comparisons())
        yield found


def plan_groups(groups: Sequence[Alike], rules: Rules) -> list[GroupPlan]:
    """Return the plan of each group, in the order of the groups.

    The questions in the plans include the cosines of their members; see `AlikeGroup.with_cosine`.
    """
    return [alike.with_cosine(plan_group(members, alike.of, rules)) for members, alike in groups]


# --- a whole store ----------------------------------------------------------------------------


def _rows_by_scope(
    snapshot: Snapshot, scope_of: Callable[[Memory], Scope]
) -> dict[Scope, list[Row]]:
    scopes: dict[Scope, list[Row]] = {}
    for row in snapshot.rows:
        if row.text_key in snapshot.vectors:
            scopes.setdefault(scope_of(row.memory), []).append(row)
    return scopes


class NearCopies(NamedTuple):
    """Two live memories of one scope and their similarity.

    >>> copies = [store.new_memory(text, user="Ike") for text in ("Ike rows.", "Ike rows!")]
    >>> count = store.add_batch(copies)
    >>> names = [memory.id for memory in copies]
    >>> [pair] = near_copies(store.snapshot(), names, store.scope_of, 0.9, store.scale)
    >>> pair.older.content, pair.similarity
    ('Ike rows.', 1.0)
    """

    older: Memory
    newer: Memory
    similarity: float


def near_copies(
    snapshot: Snapshot,
    names: Collection[str],
    scope_of: Callable[[Memory], Scope],
    min_similarity: float,
    scale: Scale = PLAIN,
) -> list[NearCopies]:
    """Return the pairs of similar memories that include at least one named memory.

    The most similar pair comes first. Pairs that were judged distinct are left out. `names`: the
    ids of the named memories.

    >>> texts = "Ivy has a cat.", "Ivy has one cat."
    >>> cats = [store.new_memory(text, user="Ivy") for text in texts]
    >>> count = store.add_batch(cats)
    >>> found = near_copies(store.snapshot(), [cats[0].id], store.scope_of, 0.9, store.scale)
    >>> [(pair.older.content, pair.newer.content) for pair in found]
    [('Ivy has a cat.', 'Ivy has one cat.')]
    """
    found: dict[tuple[int, int], NearCopies] = {}
    for scope, rows in _rows_by_scope(snapshot, scope_of).items():
        asked = [n for n, row in enumerate(rows) if row.memory.id in names]
        if not asked:
            continue
        matrix = snapshot.vectors.of([row.text_key for row in rows])
        is_cjk = np.array([has_cjk(row.memory.content) for row in rows], np.bool_)
        for n in asked:
            cosines = cosines_of(matrix, np.broadcast_to(matrix[n], matrix.shape))
            scores = scale.similarities(cosines, is_cjk | is_cjk[n])
            for m in np.flatnonzero(scores >= min_similarity).tolist():
                older, newer = rows[min(n, m)], rows[max(n, m)]
                low, high = sorted((older.dated_key, newer.dated_key))
                if m != n and (scope.key, low, high) not in snapshot.distinct:
                    found[older.seq, newer.seq] = NearCopies(
                        older.memory, newer.memory, float(scores[m])
                    )
    return sorted(found.values(), key=lambda pair: -pair.similarity)


_BINS = 40
"""The number of intervals in a histogram; 0.90 and 0.95 are limits between two intervals."""
MOST_PAIRS = 4_000_000


def similarity_histogram(
    snapshot: Snapshot,
    scope_of: Callable[[Memory], Scope],
    scale: Scale,
    most_pairs: int = MOST_PAIRS,
) -> SimilarityHistogram:
    """Count the pairs of memories of one scope in each interval of similarity, from 0 to 1.

    With more than `most_pairs` pairs, the counts are estimated from a sample. Memories without a
    vector are left out.

    >>> copies = [store.new_memory(text, user="Jan") for text in ("Jan rows.", "Jan rows!")]
    >>> count = store.add_batch(copies)
    >>> found = similarity_histogram(store.snapshot(), store.scope_of, store.scale)
    >>> len(found.counts), sum(found.counts) == found.pairs
    (40, True)
    """
    scopes = _rows_by_scope(snapshot, scope_of)
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

"""How alike memories of a snapshot are, from their vectors, and which of them form a group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, islice
from math import comb

import numpy as np
import numpy.typing as npt

from memory.decide.policy import GroupPlan
from memory.ledger import Row, Snapshot
from memory.models import COPIES_FROM, Memory, Scale, Scope, SimilarityHistogram, Vectors
from memory.search import scores_of, similarities, similarity, slack
from memory.text import has_cjk, text_key

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Likeness:
    """The similarity of any two live memories of a snapshot."""

    def __init__(self, snapshot: Snapshot, scale: Scale) -> None:
        self._snapshot = snapshot
        self._scale = scale
        self._keys: dict[str, str] = {}

    def of(self, a: Memory, b: Memory) -> float:
        """Return the similarity: 1 for the same text, 0 if one has no vector."""
        left, right = self._key(a), self._key(b)
        if left == right:
            return 1.0
        vectors = self._snapshot.vectors
        if left not in vectors or right not in vectors:
            return 0.0
        cosine = similarity(vectors[left], vectors[right])
        return self._scale.similarity(cosine, a.content, b.content)

    def _key(self, memory: Memory) -> str:
        if not self._keys:
            self._keys = {row.memory.id: row.text_key for row in self._snapshot.rows}
        return self._keys.get(memory.id) or text_key(memory.content)

    def among(self, members: Sequence[Memory]) -> AlikeGroup:
        [group] = self.groups([members])
        return group

    def groups(self, groups: Sequence[Sequence[Memory]]) -> list[AlikeGroup]:
        """Compare every two of each group; all cosines are computed in one pass."""
        vectors = self._snapshot.vectors
        keys_of = [{member.id: self._key(member) for member in members} for members in groups]
        known = [
            [key for key in dict.fromkeys(keys.values()) if key in vectors] for keys in keys_of
        ]
        text = {self._key(one): one.content for members in groups for one in members}
        rows = vectors.positions([key for keys in known for key in keys])
        strict = np.array([has_cjk(text[key]) for keys in known for key in keys], np.bool_)
        i, j = _pairs_within([len(keys) for keys in known])
        cosines = scores_of(vectors.matrix, rows[i], rows[j])
        scores = self.on_scale(cosines, strict[i] | strict[j]).tolist()
        pairs = iter(zip(cosines.tolist(), scores, strict=True))
        return [
            AlikeGroup(keys, named, islice(pairs, comb(len(named), 2)))
            for keys, named in zip(keys_of, known, strict=True)
        ]

    def on_scale(self, cosines: Floats, strict: Flags) -> Floats:
        """Return similarities (m,); `strict` marks pairs with kana or Han in either text."""
        return self._scale.similarities(cosines, strict)


def _pairs_within(sizes: Sequence[int]) -> tuple[Ints, Ints]:
    """Return every two rows `i < j` of each group, of groups stored one after the other."""
    starts = np.cumsum([0, *sizes]).tolist()
    every_two = {size: np.array(np.triu_indices(size, 1), np.int64) for size in set(sizes)}
    within = [every_two[size] + start for size, start in zip(sizes, starts, strict=False)]
    whole = np.concatenate([np.zeros((2, 0), np.int64), *within], axis=1)
    return whole[0], whole[1]


class AlikeGroup:
    """The similarity of every two memories of one group."""

    def __init__(
        self, keys: Mapping[str, str], known: Sequence[str], pairs: Iterable[tuple[float, float]]
    ) -> None:
        """Use `Likeness.groups`. `keys` are text keys by member id, `known` those with a vector.

        `pairs` are the cosine and the similarity of every two of these, `i < j`.
        """
        position = {key: n for n, key in enumerate(known)}
        self._keys = keys
        self._position = {name: position.get(key, -1) for name, key in keys.items()}
        self._cosines = [[1.0] * len(known) for _ in known]
        self._scores = [[1.0] * len(known) for _ in known]
        for (i, j), (cosine, score) in zip(combinations(range(len(known)), 2), pairs, strict=True):
            self._cosines[i][j] = self._cosines[j][i] = cosine
            self._scores[i][j] = self._scores[j][i] = score

    def of(self, a: Memory, b: Memory) -> float:
        """Return the similarity: 1 for the same text, 0 if one has no vector."""
        left, right = self._position[a.id], self._position[b.id]
        if min(left, right) < 0:
            return float(self._keys[a.id] == self._keys[b.id])
        return self._scores[left][right]

    def with_cosine(self, plan: GroupPlan) -> GroupPlan:
        """Add to the plan's question its least cosine, and which of its members are copies."""
        if plan.question is None:
            return plan
        positions = [self._position[member.id] for member in plan.question.members]
        pairs = combinations(enumerate(positions), 2)
        cosines = {(n, m): self._cosines[a][b] for (n, a), (m, b) in pairs if min(a, b) >= 0}
        question = replace(
            plan.question,
            cosine=min(cosines.values(), default=None),
            copies=frozenset(pair for pair, cosine in cosines.items() if cosine >= COPIES_FROM),
        )
        return replace(plan, question=question)


def all_alike(matrix: Vectors, rows: Ints, columns: Ints, min_cosines: Floats) -> bool:
    """Whether the cosine of each row with each column reaches `min_cosines` (rows, columns).

    float32 tells most; float64 decides about what lies at the edge. A row is near to itself.
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
    """Return the connected components of n nodes by union-find, each sorted, singles included."""
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
    """Split a component so that within each group every two members belong together.

    A chain a~b~c whose ends are unlike must not be merged on b's word: a merge would state of one
    text what only another said. So groups grow by complete linkage: the closest pair first, and
    two groups join only where `may_join` holds for all of both; of two singles it is
    asked only where they have an edge. Ties go by position,
    so members in a canonical order give the same groups whatever order they arrived in.
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


# --- a whole store ----------------------------------------------------------------------------

_BINS = 40
"""From 0 to 1, so that 0.90 and 0.95 are edges."""
MOST_PAIRS = 4_000_000
"""Pairs that are compared; in a larger store, evenly spaced memories stand for the rest."""


def similarity_histogram(
    snapshot: Snapshot,
    scope_of: Callable[[Memory], Scope],
    scale: Scale,
    most_pairs: int = MOST_PAIRS,
) -> SimilarityHistogram:
    """Count the pairs of memories of one scope, by similarity."""
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
        strict = np.array([has_cjk(row.memory.content) for row in rows])
        asked = np.linspace(0, len(rows) - 1, max(2, round(len(rows) * share)), dtype=np.int64)
        weight = len(rows) / len(asked) / 2
        for part in np.array_split(asked, 1 + len(asked) * len(rows) // 1_000_000):
            cosines = np.clip(matrix[part] @ matrix.T, 0.0, 1.0)
            cosines[np.arange(len(part)), part] = -1.0  # not with itself
            is_strict = strict[part, None] | strict
            for flag, bins in zip(either, edges, strict=True):
                counts += weight * np.histogram(cosines[is_strict == flag], bins)[0]
    whole = tuple(np.rint(counts).astype(int).tolist())
    return SimilarityHistogram(counts=whole, pairs=pairs, exact=share == 1.0)

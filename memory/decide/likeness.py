"""How alike memories of a snapshot are, from their vectors: one pair, a group, two groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from memory.decide.policy import GroupPlan
from memory.index import scores_of, similarities, similarity, slack
from memory.ledger import Row, Snapshot
from memory.models import COPIES_FROM, Memory, Scale, Vectors
from memory.text import has_kana_or_han

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Likeness:
    """Of any two live memories of a snapshot."""

    def __init__(self, snapshot: Snapshot, scale: Scale) -> None:
        self._snapshot = snapshot
        self._scale = scale
        self._keys: dict[str, str] = {}
        self._learned: dict[tuple[str, str], float] = {}

    def learn(self, groups: Iterable[Sequence[Memory]]) -> None:
        """Work out every two of each group together, which is faster than one by one."""
        text: dict[str, str] = {}
        pairs: set[tuple[str, str]] = set()
        for members in groups:
            keys = {self._key(one): one.content for one in members}
            keys = {key: told for key, told in keys.items() if self.has(key)}
            pairs.update(combinations(sorted(keys), 2))
            text.update(keys)
        vectors, order = self._snapshot.vectors, list(pairs)
        i, j = (vectors.places(pair[end] for pair in order) for end in (0, 1))
        strict = {key: has_kana_or_han(told) for key, told in text.items()}
        either = np.array([strict[a] or strict[b] for a, b in order], np.bool_)
        scores = self.on_scale(scores_of(vectors.matrix, i, j), either)
        self._learned = dict(zip(order, scores.tolist(), strict=True))

    def of(self, a: Memory, b: Memory) -> float:
        """On the scale; 1 for the same text, 0 where one has no vector."""
        left, right = self._key(a), self._key(b)
        if left == right:
            return 1.0
        learned = self._learned.get((min(left, right), max(left, right)))
        if learned is not None:
            return learned
        vectors = self._snapshot.vectors
        if left not in vectors or right not in vectors:
            return 0.0
        cosine = similarity(vectors[left], vectors[right])
        return self._scale.similarity(cosine, a.content, b.content)

    def _key(self, memory: Memory) -> str:
        if not self._keys:
            self._keys = {row.memory.id: row.text_key for row in self._snapshot.rows}
        return self._keys[memory.id]

    def cosines(self, keys: Sequence[str]) -> tuple[Ints, Ints, Floats]:
        """Of every two of some texts that have vectors, `i < j`: three arrays (m,)."""
        i, j = np.triu_indices(len(keys), 1)
        of_these = self._snapshot.vectors.of(keys)
        return i, j, scores_of(of_these, i, j)

    def has(self, key: str) -> bool:
        """Whether there is a vector of this text."""
        return key in self._snapshot.vectors

    def on_scale(self, cosines: Floats, strict: Flags) -> Floats:
        """Similarities (m,); `strict` where kana or Han stands in either text of the pair."""
        return self._scale.similarities(cosines, strict)


class AlikeGroup:
    """Of every two rows of one group, worked out together."""

    def __init__(self, rows: Sequence[Row], likeness: Likeness) -> None:
        text = {row.text_key: row.memory.content for row in rows if likeness.has(row.text_key)}
        place = {key: n for n, key in enumerate(text)}
        self._keys = {row.memory.id: row.text_key for row in rows}
        self._place = {row.memory.id: place.get(row.text_key, -1) for row in rows}
        i, j, cosines = likeness.cosines(list(text))
        strict = np.array([has_kana_or_han(one) for one in text.values()], np.bool_)
        self._cosines = _both_ways(len(text), i, j, cosines)
        on_scale = likeness.on_scale(cosines, strict[i] | strict[j])
        self._scores = _both_ways(len(text), i, j, on_scale)

    def of(self, a: Memory, b: Memory) -> float:
        """On the scale; 1 for the same text, 0 where one has no vector."""
        left, right = self._place[a.id], self._place[b.id]
        if min(left, right) < 0:
            return float(self._keys[a.id] == self._keys[b.id])
        return self._scores[left][right]

    def with_cosine(self, plan: GroupPlan) -> GroupPlan:
        """The plan, its question with the least cosine, and which of its members are copies."""
        if plan.question is None:
            return plan
        places = [self._place[member.id] for member in plan.question.members]
        pairs = combinations(enumerate(places), 2)
        cosines = {(n, m): self._cosines[a][b] for (n, a), (m, b) in pairs if min(a, b) >= 0}
        question = replace(
            plan.question,
            cosine=min(cosines.values(), default=None),
            copies=frozenset(pair for pair, cosine in cosines.items() if cosine >= COPIES_FROM),
        )
        return replace(plan, question=question)


def _both_ways(size: int, i: Ints, j: Ints, values: Floats) -> list[list[float]]:
    whole = np.ones((size, size))
    whole[i, j] = whole[j, i] = values
    rows: list[list[float]] = whole.tolist()
    return rows


def all_alike(matrix: Vectors, rows: Ints, columns: Ints, min_cosines: Floats) -> bool:
    """Whether each of these rows is as near as it must be to each of those (rows, columns).

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

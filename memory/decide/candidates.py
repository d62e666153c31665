"""Finds the pairs of similar memories that a batch compares, in one pass over all dot products."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memory.models import Floats, Ints, Vectors, scores_of, slack

OnShare = Callable[[float], None]
"""A callback for progress. It gets the share of the work that is done, from 0 to 1."""
Cosine = float | Floats
"""A threshold: one cosine for all rows, or one for each row (n,).

A pair must reach the higher threshold of its two rows.
"""
_AT_ONCE = 50_000
TILE = 2_048
"""The most rows and columns of a tile, the products that are computed at once: 16 MB."""


class Pairs(NamedTuple):
    """Pairs of rows of a matrix, `i < j`, and their cosines to 6 decimals, as arrays (m,)."""

    i: Ints
    j: Ints
    similarity: Floats


def joined(parts: Iterable[Pairs]) -> Pairs:
    """Return the pairs of all `parts`, in the order of the parts."""
    none = Pairs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    return Pairs(*map(np.concatenate, zip(none, *parts, strict=True)))


def chosen(pairs: Pairs, which: npt.NDArray[np.bool_]) -> Pairs:
    """Return the pairs for which the mask `which`, shape (m,), is true."""
    return Pairs(pairs.i[which], pairs.j[which], pairs.similarity[which])


def in_order(pairs: Pairs) -> Pairs:
    """Return the pairs sorted by (i, j)."""
    order = np.lexsort((pairs.j, pairs.i))
    return Pairs(pairs.i[order], pairs.j[order], pairs.similarity[order])


class CandidatePairs(NamedTuple):
    """The pairs found by `candidate_pairs`, sorted by (i, j).

    A row is one vector of the matrix. `upper`: all pairs that reach the upper threshold. `nearest`:
    for each row, its most similar pairs below the upper threshold. `counts`: how many pairs reach
    each of the thresholds `bands`.
    """

    upper: Pairs
    nearest: Pairs
    counts: Ints


def candidate_pairs(
    vectors: Vectors,
    upper: Cosine,
    k: int,
    min_cosine: Cosine,
    bands: Sequence[Cosine] = (),
    weights: Ints | None = None,
    across: int | None = None,
    on_share: OnShare | None = None,
    tile: int = TILE,
) -> CandidatePairs:
    """Find the pairs of similar rows of `vectors`, shape (n, dim), by their cosines.

    The result has all pairs that reach `upper`. Of the other pairs that reach `min_cosine`, it has
    the `k` nearest of each row. Of equally near rows, the one with the lower position counts
    as nearer. The result is exact.

    - `bands`: more thresholds. The pairs that reach each of them are counted.
    - `weights`, shape (n,): in these counts, a pair adds the product of its two rows' weights.
      None means that each pair adds 1.
    - `across`: if given, a pair must have one row among the first `across` rows, and the other row
      among the rest. None means all pairs.

    >>> rows = np.array([[1, 0], [0.96, 0.28], [0, 1]], np.float32)
    >>> candidate_pairs(rows, upper=0.95, k=1, min_cosine=0.2).upper.similarity
    array([0.96])
    """
    count = len(vectors)
    weights = np.ones(count, np.int64) if weights is None else weights
    levels = [
        np.broadcast_to(np.asarray(x, np.float64), count) for x in (min_cosine, upper, *bands)
    ]
    search = _Search(vectors, levels, weights, k)
    if across is None and k:
        for start in range(0, count, tile):
            search.seed(slice(start, min(start + tile, count)))
    tiles = _tiles(count, tile, across)
    for done, (rows, columns) in enumerate(tiles, 1):
        search.compare(rows, columns)
        if on_share is not None:
            on_share(done / len(tiles))
    nearest = in_order(search.best.pairs())
    return CandidatePairs(in_order(joined(search.found)), nearest, search.counts)


def _tiles(count: int, tile: int, across: int | None) -> list[tuple[slice, slice]]:
    """Return the rows and the columns of each tile; together they hold each wanted pair once."""
    end = count if across is None else across
    return [
        (slice(row, min(row + tile, end)), slice(column, min(column + tile, count)))
        for row in range(0, end, tile)
        for column in range(row if across is None else across, count, tile)
    ]


def nearest_of(pairs: Pairs, rows: int, k: int) -> Pairs:
    """Return the `k` pairs with the highest cosines for each row, sorted by (i, j).

    `pairs` may come from several searches, but must not contain a pair twice. `rows`: the number of
    rows of the matrix.
    """
    best = _Best(rows, k)
    if k and len(pairs.i):
        best.take(pairs)
    return best.pairs()


class _Best:
    """The `k` nearest other rows of each of `count` rows."""

    def __init__(self, count: int, k: int) -> None:
        self.k = k
        self._scores = np.full((count, k), -np.inf)
        self._others = np.full((count, k), -1)

    def take(self, pairs: Pairs) -> tuple[Ints, Floats]:
        """Add pairs; no pair may be added twice.

        Return the rows whose nearest rows may have changed, and the k-th highest cosine of each of
        these rows. The cosine is -inf if the row has fewer than `k` pairs.
        """
        rows, others = np.concatenate([pairs.i, pairs.j]), np.concatenate([pairs.j, pairs.i])
        scores = np.concatenate([pairs.similarity, pairs.similarity])
        near = scores >= self._scores[rows, -1]
        rows, others, scores = rows[near], others[near], scores[near]
        changed = np.unique(rows)
        rows = np.concatenate([np.repeat(changed, self.k), rows])
        others = np.concatenate([self._others[changed].ravel(), others])
        scores = np.concatenate([self._scores[changed].ravel(), scores])
        order = np.lexsort((others, -scores, rows))
        first = np.searchsorted(rows[order], changed)
        kept = order[first[:, None] + np.arange(self.k)]
        self._scores[changed], self._others[changed] = scores[kept], others[kept]
        return changed, scores[kept[:, -1]]

    def pairs(self) -> Pairs:
        rows, rank = np.nonzero(self._others >= 0)
        others, scores = self._others[rows, rank], self._scores[rows, rank]
        i, j = np.minimum(rows, others), np.maximum(rows, others)
        once = np.unique(i * len(self._others) + j, return_index=True)[1]
        return Pairs(i[once], j[once], scores[once])


class _Search:
    """Collects the similar pairs of one tile after another.

    `levels`: arrays (n,) with a threshold for each row. The first array is `min_cosine`, the second
    is `upper`, and each further array is a band.
    """

    def __init__(self, vectors: Vectors, levels: Sequence[Floats], weights: Ints, k: int) -> None:
        self.best = _Best(len(vectors), k)
        self.found: list[Pairs] = []
        self.counts = np.zeros(len(levels) - 2, np.int64)
        self._vectors, self._unit, self._weights = vectors, _unit_rows(vectors), weights
        self._lower, self._upper, *self._bands = levels
        self._slack = slack(vectors.shape[1])
        self._counted = np.min(levels[1:], axis=0) - self._slack
        self._limits = self._upper - self._slack
        floors = np.minimum(self._lower - self._slack, self._limits) if k else self._limits
        self._floors = floors.astype(np.float32)
        """For each row, the lowest product at which a pair is compared exactly; it never falls."""

    def seed(self, rows: slice) -> None:
        """Raise the floors of these rows, so that fewer of their pairs are compared exactly.

        A safe floor for a row is a little below its k-th highest product with the other rows.
        """
        products = self._unit[rows] @ self._unit[rows].T
        np.fill_diagonal(products, -np.inf)
        if len(products) <= self.best.k:
            return
        lower, upper = self._lower[rows] + self._slack, self._limits[rows]
        products[products < np.maximum(lower[:, None], lower)] = -np.inf
        products[products >= np.maximum(upper[:, None], upper)] = -np.inf
        kth = np.partition(products, -self.best.k, axis=1)[:, -self.best.k]
        self._raise(np.arange(rows.start, rows.stop), kth - self._slack)

    def _raise(self, rows: Ints, kth: Floats | Vectors) -> None:
        floors = np.minimum(kth - self._slack, self._limits[rows])
        self._floors[rows] = np.maximum(self._floors[rows], floors)

    def compare(self, rows: slice, columns: slice) -> None:
        """Take what is needed from the products of some rows with some columns."""
        products = self._unit[rows] @ self._unit[columns].T
        least = np.minimum(self._floors, self._counted).astype(np.float32)
        hits = products >= least[rows, None]
        hits |= products >= least[columns]
        if rows == columns:
            hits = np.triu(hits, 1)
        i, j = np.nonzero(hits)
        found = products[i, j]
        i, j = i + rows.start, j + columns.start
        for n, band in enumerate(self._bands):
            self.counts[n] += self._count(np.maximum(band[i], band[j]), found, i, j)
        likely = (found >= self._floors[i]) | (found >= self._floors[j])
        for start in range(0, len(i), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            self._take(i[part][likely[part]], j[part][likely[part]])

    def _take(self, i: Ints, j: Ints) -> None:
        pairs = Pairs(i, j, scores_of(self._vectors, i, j))
        is_upper = pairs.similarity >= np.maximum(self._upper[i], self._upper[j])
        is_near = ~is_upper & (pairs.similarity >= np.maximum(self._lower[i], self._lower[j]))
        self.found.append(chosen(pairs, is_upper))
        if self.best.k:
            self._raise(*self.best.take(chosen(pairs, is_near)))

    def _count(self, levels: Floats, products: Vectors, i: Ints, j: Ints) -> int:
        """Return the weight of the pairs that reach their level; compute a cosine if in doubt."""
        reached = products >= levels + self._slack
        doubtful = np.flatnonzero(~reached & (products >= levels - self._slack))
        cosines = scores_of(self._vectors, i[doubtful], j[doubtful])
        reached[doubtful] = cosines >= levels[doubtful]
        return int((self._weights[i[reached]] * self._weights[j[reached]]).sum())


def _unit_rows(vectors: Vectors) -> Vectors:
    """Return the rows scaled to length 1; the same array if they all have that length."""
    lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64))
    if np.abs(lengths - 1).max(initial=0) < 1e-6:
        return vectors
    unit: Vectors = (vectors / np.maximum(lengths, 1e-30)[:, None]).astype(np.float32)
    return unit

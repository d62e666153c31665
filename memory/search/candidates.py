"""Finds the pairs of similar memories that a batch compares, in one pass over all dot products."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from memory.models import Vectors
from memory.search.products import (
    Blocks,
    Floats,
    Ints,
    OnShare,
    Pairs,
    Positions,
    Products,
    by_strips,
    chosen,
    in_order,
    joined,
    scores_of,
    slack,
    unit_rows,
)

Cosine = float | Floats
"""A cosine as a threshold: one value for all rows, or one value for each row (n,).

A pair must reach the higher threshold of its two rows.
"""
_AT_ONCE = 50_000
"""The number of pairs compared in one call, large enough that numpy does most of the work."""


class CandidatePairs(NamedTuple):
    """The result of `candidate_pairs`: the similar pairs of rows of a matrix.

    `upper` has all pairs at or above the threshold `upper`, and `nearest` each row's nearest pairs
    below it. Both are sorted by (i, j). `counts` has one number for each threshold in `bands`, in
    the same order: how many pairs are at or above this threshold.
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
    blocks: Blocks | None = None,
    across: int | None = None,
    threads: int | None = None,
    on_share: OnShare | None = None,
) -> CandidatePairs:
    """Find the pairs of similar rows of `vectors`, shape (n, dim), by their cosines.

    These are all pairs at or above `upper` and, below it, the nearest pairs of each row: the `k`
    pairs with the highest cosines below `upper`, if these cosines are at or above `min_cosine`. Of
    equally near rows, those with the lower position count as nearer. All thresholds are cosines,
    and the result is exact.

    `bands` are further thresholds. Pairs at or above each of them are counted, but not returned. In
    these counts, a pair counts as the product of its rows' `weights`, shape (n,), if they are
    given. If `across` is given, each pair consists of one of the first `across` rows and one of the
    other rows.

    `blocks` are the sizes in which products are computed; None means sizes that fit. `threads` is
    the number of threads; None means one for each core. `on_share` is called with the share of the
    work done, from 0 to 1. The search needs RAM for about three copies of the vectors. It is slow
    if all rows are equal, because each pair is then compared a second time in float64.
    """
    rows = len(vectors)
    levels = [np.broadcast_to(np.asarray(x, np.float64), rows) for x in (min_cosine, upper, *bands)]
    weights = np.ones(rows, np.int64) if weights is None else weights
    order = np.lexsort(levels)  # so that most tiles have one threshold
    if across is not None:
        order = np.concatenate([order[order < across], order[order >= across]])
    if np.any(order[1:] < order[:-1]):
        vectors, weights = vectors[order], weights[order]
        levels = [level[order] for level in levels]
    blocks = blocks or Blocks.fitting(rows)
    search = _Search(vectors, levels, weights, _Best(order, k), blocks, across)
    upper_pairs, counts = search.run(threads, on_share)
    return CandidatePairs(
        _original_positions(upper_pairs, order),
        _original_positions(search.best.pairs(), order),
        counts,
    )


def nearest_of(pairs: Pairs, rows: int, k: int) -> Pairs:
    """Return the `k` nearest pairs of each row among `pairs`, the results of several searches.

    `rows` is the number of rows of the whole matrix. No pair may be given twice. The result is
    sorted by (i, j).
    """
    best = _Best(np.arange(rows), k)
    if k and len(pairs.i):
        best.take(pairs)
    return best.pairs()


def _original_positions(pairs: Pairs, order: Ints) -> Pairs:
    """Replace positions in a sorted matrix by positions in the original one; sort by (i, j).

    Row `n` of the sorted matrix is row `order[n]` of the original matrix.
    """
    i, j = order[pairs.i], order[pairs.j]
    return in_order(Pairs(np.minimum(i, j), np.maximum(i, j), pairs.similarity))


class _Level:
    """A threshold for each row; a pair must reach the higher threshold of its two rows."""

    def __init__(self, values: Floats, products: Products) -> None:
        self.values = values
        self._padded = products.padded(values.astype(np.float32))
        self._products = products

    def of(self, i: Ints, j: Ints) -> Floats:
        """Return the threshold of each pair (m,), given by its rows `i` and `j` (m,)."""
        stricter: Floats = np.maximum(self.values[i], self.values[j])
        return stricter

    def in_tile(self, row: int, column: int) -> float | Vectors:
        """Return the threshold of each pair of a tile; one number if it is the same for all.

        A tile is a square part of the matrix of all pairs. `row` and `column` are its first row and
        column. If the result is an array, its shape broadcasts with that of `Products.tile`.
        """
        rows = self._products.of_rows(self._padded, row)
        columns = self._products.of_columns(self._padded, column)
        low = max(float(rows.min()), float(columns.min()))
        if low == max(float(rows.max()), float(columns.max())):
            return low
        stricter: Vectors = np.maximum(rows, columns)
        return stricter


class _Best:
    """The `k` nearest other rows of each row, among the pairs that were passed to `take` so far.

    `position` holds a number for each row. Of equally near rows, the row with the lower number
    counts as nearer.
    """

    def __init__(self, position: Ints, k: int) -> None:
        self.k = k
        self._position = position
        self._scores = np.full((len(position), k), -np.inf)
        self._others = np.full((len(position), k), -1)

    def take(self, pairs: Pairs) -> tuple[Ints, Floats]:
        """Add pairs of rows, and update the nearest rows. No pair may be added twice.

        Return the rows whose nearest rows may have changed. Also return, for each of these rows,
        the cosine of its k-th nearest row, or -inf if the row has fewer than `k`.
        """
        rows, others = np.concatenate([pairs.i, pairs.j]), np.concatenate([pairs.j, pairs.i])
        scores = np.concatenate([pairs.similarity, pairs.similarity])
        near = scores >= self._scores[rows, -1]
        rows, others, scores = rows[near], others[near], scores[near]
        changed = np.unique(rows)
        rows = np.concatenate([np.repeat(changed, self.k), rows])
        others = np.concatenate([self._others[changed].ravel(), others])
        scores = np.concatenate([self._scores[changed].ravel(), scores])
        order = np.lexsort((self._position[others], -scores, rows))
        first = np.searchsorted(rows[order], changed)
        kept = order[first[:, None] + np.arange(self.k)]
        self._scores[changed], self._others[changed] = scores[kept], others[kept]
        return changed, scores[kept[:, -1]]

    def pairs(self) -> Pairs:
        """Return the pairs of each row with its nearest rows, each pair once, sorted by (i, j)."""
        rows, rank = np.nonzero(self._others >= 0)
        others, scores = self._others[rows, rank], self._scores[rows, rank]
        i, j = np.minimum(rows, others), np.maximum(rows, others)
        once = np.unique(i * len(self._others) + j, return_index=True)[1]
        return Pairs(i[once], j[once], scores[once])


class _Search:
    """One pass over the products of all pairs of rows, which collects the similar pairs.

    The products are computed in tiles, which are square parts of their matrix. `levels` holds the
    thresholds, each with one value for each row: first the lowest cosine, then the upper threshold,
    then the bands (thresholds for which pairs are only counted). `weights`, `blocks` and `across`
    mean the same as for `candidate_pairs`. `run` returns the pairs from the upper threshold on, and
    puts the nearest pairs below it into `best`.
    """

    def __init__(
        self,
        vectors: Vectors,
        levels: Sequence[Floats],
        weights: Ints,
        best: _Best,
        blocks: Blocks,
        across: int | None,
    ) -> None:
        self.best = best
        self._is_whole = across is None
        self._vectors, self._weights, self._tile = vectors, weights, blocks.tile
        self._products = Products(unit_rows(vectors), blocks, across)
        self._lower, self._upper, *self._bands = (_Level(x, self._products) for x in levels)
        self._is_weighted = bool(np.any(weights != 1))
        self._slack = slack(vectors.shape[1])
        self._limits = levels[1] - self._slack
        floors = levels[0] - self._slack if best.k else self._limits
        floors = np.minimum(floors, self._limits).astype(np.float32)
        self._floors = self._products.padded(floors)
        """For each row, the lowest product at which a pair is compared exactly. It never falls."""
        self._found: list[Pairs] = []
        self._lock = threading.Lock()

    def run(self, threads: int | None, on_share: OnShare | None) -> tuple[Pairs, Ints]:
        """Return all pairs at or above the upper threshold, and a count of pairs for each band.

        A band is a threshold; the pairs at or above it are counted. `threads` is the number of
        threads; None means one for each core. `on_share` is called with the share of the work done,
        from 0 to 1; None means that nothing is called.
        """
        if self._is_whole:
            for _ in by_strips(self._seed, self._products, threads):
                pass
        counts = np.zeros(len(self._bands), np.int64)
        for of_strip in by_strips(self._strip, self._products, threads, on_share):
            counts += of_strip
        upper = joined(self._found)
        for n, band in enumerate(self._bands):
            if self._is_above_upper(band):
                high = chosen(upper, upper.similarity >= band.of(upper.i, upper.j))
                counts[n] = self._weight(high.i, high.j)
        return upper, counts

    def _is_above_upper(self, band: _Level) -> bool:
        """Return whether the threshold `band` is at least the upper threshold in every row.

        All pairs that reach such a band are collected as upper pairs. So `run` counts them at the
        end.
        """
        return bool(np.all(band.values >= self._upper.values))

    def _seed(self, row: int) -> None:
        """Raise the floors of the rows of one tile, so that fewer pairs are compared exactly.

        A row's floor, in `_floors`, is the lowest product at which a pair of this row must be
        compared exactly. It is raised to the row's k-th best product in the tile. The tile is on
        the diagonal of the matrix, and `row` is its first row.
        """
        if not 0 < self.best.k <= self._tile:
            return
        products = self._products.tile(row, row)
        lower, upper = self._lower.in_tile(row, row), self._upper.in_tile(row, row)
        products[(products < lower + self._slack) | (products >= upper - self._slack)] = -np.inf
        square = products.swapaxes(1, 2).reshape(self._tile, self._tile)
        kth = np.partition(np.maximum(square, square.T), -self.best.k, axis=1)[:, -self.best.k]
        rows = np.arange(row, min(row + self._tile, len(self._vectors)))
        self._raise(rows, kth[: len(rows)] - self._slack)

    def _raise(self, rows: Ints, kth: Floats | Vectors) -> None:
        """Raise the floors of these rows to just below `kth`, their k-th best products so far.

        A row's floor, in `_floors`, is the lowest product at which a pair of this row must be
        compared exactly. A floor never exceeds the upper threshold.
        """
        floors = np.minimum(kth - self._slack, self._limits[rows])
        self._floors[rows] = np.maximum(self._floors[rows], floors)

    def _strip(self, row: int) -> Ints:
        """Compare the pairs in a strip of the matrix; return the number of pairs for each band.

        A strip is a horizontal row of tiles, and `row` is its first row. A band is a threshold for
        which pairs are counted. Bands for which `_is_above_upper` is true are not counted here.
        """
        counts = np.zeros(len(self._bands), np.int64)
        bands = [(n, band) for n, band in enumerate(self._bands) if not self._is_above_upper(band)]
        likely: list[Positions] = []
        for column in self._products.columns(row):
            products = self._products.tile(row, column)
            for n, band in bands:
                counts[n] += self._count(band, products, row, column)
            # the pairs that may reach the upper threshold or be among a row's nearest
            hits = products >= self._products.of_rows(self._floors, row)
            hits |= products >= self._products.of_columns(self._floors, column)
            likely.append(self._products.positions(row, column, hits))
            if sum(len(i) for i, _ in likely) > _AT_ONCE:
                self._compare(likely)
                likely.clear()
        if likely:
            self._compare(likely)
        return counts

    def _compare(self, likely: Sequence[Positions]) -> None:
        """Compute the exact cosines of the pairs in `likely`, and keep the similar pairs.

        Each item of `likely` has the rows and the columns of some pairs in the matrix of all pairs.
        Pairs at or above the upper threshold are kept, and each row's nearest pairs below it.
        """
        i, j = (np.concatenate(rows) for rows in zip(*likely, strict=True))
        pairs = Pairs(i, j, scores_of(self._vectors, i, j))
        upper = pairs.similarity >= self._upper.of(i, j)
        near = ~upper & (pairs.similarity >= self._lower.of(i, j))
        with self._lock:
            self._found.append(chosen(pairs, upper))
            if self.best.k:
                self._raise(*self.best.take(chosen(pairs, near)))

    def _count(self, band: _Level, products: Vectors, row: int, column: int) -> int:
        """Return the weight of the pairs of a tile that reach the threshold `band`.

        `products` are the tile's products, and `row` and `column` its first row and column.
        Products close to the threshold are computed a second time in float64.
        """
        level = band.in_tile(row, column)
        maybe = products >= level - self._slack
        many = np.count_nonzero(maybe)
        if not many:
            return 0
        surely = products >= level + self._slack
        weight = int(np.count_nonzero(surely))
        if self._is_weighted:
            weight = self._weight(*self._products.positions(row, column, surely))
        if many == np.count_nonzero(surely):
            return weight
        i, j = self._products.positions(row, column, maybe & ~surely)
        hit = scores_of(self._vectors, i, j) >= band.of(i, j)
        return weight + self._weight(i[hit], j[hit])

    def _weight(self, i: Ints, j: Ints) -> int:
        """Return the sum of the weights of these pairs.

        The weight of a pair is the product of the weights of its rows, `i` and `j` (m,).
        """
        return int((self._weights[i] * self._weights[j]).sum())

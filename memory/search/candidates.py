"""Finds the pairs of similar memories that a batch compares, in one pass over all dot products."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from memory.models import Vectors
from memory.search.scores import Floats, Ints, scores_of, slack, unit_rows

T = TypeVar("T")
N = TypeVar("N", bound=np.generic)
OnShare = Callable[[float], None]
"""A callback for progress. It gets the share of the work that is done, from 0 to 1."""
Positions = tuple[Ints, Ints]
Cosine = float | Floats
"""A threshold: one cosine for all rows, or one for each row (n,).

A pair must reach the higher threshold of its two rows.
"""
_AT_ONCE = 50_000


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
    blocks: Blocks | None = None,
    across: int | None = None,
    threads: int | None = None,
    on_share: OnShare | None = None,
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
    - `threads`: None means one for each core.

    The search needs RAM for about three copies of the vectors. It is slow if all rows are equal.
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
    whole = Blocks() if rows > Blocks().tile else Blocks(*[max(rows, 1)] * 3)
    search = _Search(vectors, levels, weights, _Best(order, k), blocks or whole, across)
    upper_pairs, counts = search.run(threads, on_share)
    return CandidatePairs(
        _original_positions(upper_pairs, order),
        _original_positions(search.best.pairs(), order),
        counts,
    )


def nearest_of(pairs: Pairs, rows: int, k: int) -> Pairs:
    """Return the `k` pairs with the highest cosines for each row, sorted by (i, j).

    `pairs` may come from several searches, but must not contain a pair twice. `rows`: the number of
    rows of the matrix.
    """
    best = _Best(np.arange(rows), k)
    if k and len(pairs.i):
        best.take(pairs)
    return best.pairs()


def _original_positions(pairs: Pairs, order: Ints) -> Pairs:
    i, j = order[pairs.i], order[pairs.j]
    return in_order(Pairs(np.minimum(i, j), np.maximum(i, j), pairs.similarity))


# --- the products, in tiles ---


class Blocks(NamedTuple):
    """The sizes of the tiles and blocks into which a matrix of products is cut.

    A tile is a square of `tile` by `tile` products, and fits into a core's cache. It is cut into
    blocks of `rows` by `columns`, so `tile` is a multiple of both. A block is so small that BLAS
    computes it on the calling thread.
    """

    rows: int = 48
    columns: int = 80
    tile: int = 480


class Products:
    """The dot products of all pairs of rows of a float32 matrix, computed one tile at a time.

    A tile is a square part of the matrix of products, and a strip is a horizontal row of tiles.
    """

    def __init__(self, rows: Vectors, blocks: Blocks, across: int | None = None) -> None:
        """Prepare to compute the products of all pairs of rows of the matrix `rows`.

        - `rows` has the shape (n, dim).
        - `blocks`: the sizes of the tiles and blocks that are computed at once.
        - `across`: if given, one row of each pair is among the first `across` rows, and the other
          row is among the remaining rows. Other pairs are not wanted.
        """
        size, width = rows.shape
        padded = np.zeros((-(-size // blocks.tile) * blocks.tile, width), np.float32)
        padded[:size] = rows
        columns = padded.reshape(-1, blocks.columns, width).swapaxes(1, 2)
        self._rows = padded.reshape(-1, 1, blocks.rows, width)
        self._columns = np.ascontiguousarray(columns)
        self._size = size
        self._blocks = blocks
        self._across = across

    def strips(self) -> range:
        end = self._size if self._across is None else self._across
        return range(0, end, self._blocks.tile)

    def columns(self, row: int) -> range:
        tile = self._blocks.tile
        first = row if self._across is None else max(row, self._across // tile * tile)
        return range(first, self._size, tile)

    def tile(self, row: int, column: int) -> Vectors:
        """Return the products of the tile whose first row and column are `row` and `column`.

        The shape is (row blocks, column blocks, rows per block, columns per block). A product is
        -inf if its row number is at least its column number, or if `across` excludes it.
        """
        rows, columns, tile = self._blocks
        part = self._rows[row // rows : (row + tile) // rows]
        products: Vectors = part @ self._columns[column // columns : (column + tile) // columns]
        across = self._across or 0
        inside = row + tile <= across <= column if across else row != column
        if not inside or column + tile > self._size:
            numbers = np.arange(len(self._columns) * columns)
            i, j = self.of_rows(numbers, row), self.of_columns(numbers, column)
            outside = (i >= j) | (j >= self._size)
            if across:
                outside = outside | (i >= across) | (j < across)
            products[outside] = -np.inf
        return products

    def padded(self, values: npt.NDArray[N]) -> npt.NDArray[N]:
        missing = -len(values) % self._blocks.tile
        return np.concatenate([values, np.repeat(values[-1:], missing)])

    def of_rows(self, values: npt.NDArray[N], row: int) -> npt.NDArray[N]:
        return values[row : row + self._blocks.tile].reshape(-1, 1, self._blocks.rows, 1)

    def of_columns(self, values: npt.NDArray[N], column: int) -> npt.NDArray[N]:
        return values[column : column + self._blocks.tile].reshape(1, -1, 1, self._blocks.columns)

    def positions(self, row: int, column: int, hits: npt.NDArray[np.bool_]) -> Positions:
        found = np.unravel_index(np.flatnonzero(hits), hits.shape)
        return (
            row + found[0] * self._blocks.rows + found[2],
            column + found[1] * self._blocks.columns + found[3],
        )


def by_strips(
    work: Callable[[int], T],
    products: Products,
    threads: int | None = None,
    on_share: OnShare | None = None,
) -> Iterator[T]:
    """Call `work(row)` for each strip of tiles, in threads; yield the results in order.

    `row` is the number of the strip's first row. `threads`: None means one for each core.
    """
    strips = products.strips()
    tiles = [len(products.columns(row)) for row in strips]
    with contextlib.ExitStack() as stack:
        mapped: Callable[..., Iterator[T]] = map
        if len(strips) > 1 and threads != 1:
            mapped = stack.enter_context(ThreadPoolExecutor(threads or os.cpu_count())).map
        for done, answer in zip(itertools.accumulate(tiles), mapped(work, strips), strict=True):
            if on_share is not None:
                on_share(done / sum(tiles))
            yield answer


# --- the search ---


class _Level:
    """A threshold for each row; a pair must reach the higher threshold of its two rows."""

    def __init__(self, values: Floats, products: Products) -> None:
        self.values = values
        self._padded = products.padded(values.astype(np.float32))
        self._products = products

    def of(self, i: Ints, j: Ints) -> Floats:
        return np.maximum(self.values[i], self.values[j])

    def in_tile(self, row: int, column: int) -> float | Vectors:
        rows = self._products.of_rows(self._padded, row)
        columns = self._products.of_columns(self._padded, column)
        low = max(float(rows.min()), float(columns.min()))
        if low == max(float(rows.max()), float(columns.max())):
            return low
        return np.maximum(rows, columns)


class _Best:
    """The `k` nearest other rows of each row.

    `position`: a number for each row. Of equally near rows, the one with the lower number counts
    as nearer.
    """

    def __init__(self, position: Ints, k: int) -> None:
        self.k = k
        self._position = position
        self._scores = np.full((len(position), k), -np.inf)
        self._others = np.full((len(position), k), -1)

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
        order = np.lexsort((self._position[others], -scores, rows))
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
    """One pass over all products, which collects the similar pairs.

    `levels`: arrays (n,) with a threshold for each row. The first array is `min_cosine`, the second
    is `upper`, and each further array is a band.
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
        """For each row, the lowest product at which a pair is compared exactly; it never falls."""
        self._found: list[Pairs] = []
        self._lock = threading.Lock()

    def run(self, threads: int | None, on_share: OnShare | None) -> tuple[Pairs, Ints]:
        if self._is_whole and 0 < self.best.k <= self._tile:
            list(by_strips(self._seed, self._products, threads))
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
        """Return whether each row's threshold in `band` is at least the row's upper threshold."""
        return bool(np.all(band.values >= self._upper.values))

    def _seed(self, row: int) -> None:
        """Raise `_floors` for a tile's rows, so that fewer of their pairs are compared exactly.

        A safe floor for a row is a little below the row's k-th highest product in the tile.
        """
        products = self._products.tile(row, row)
        lower, upper = self._lower.in_tile(row, row), self._upper.in_tile(row, row)
        products[(products < lower + self._slack) | (products >= upper - self._slack)] = -np.inf
        square = products.swapaxes(1, 2).reshape(self._tile, self._tile)
        kth = np.partition(np.maximum(square, square.T), -self.best.k, axis=1)[:, -self.best.k]
        rows = np.arange(row, min(row + self._tile, len(self._vectors)))
        self._raise(rows, kth[: len(rows)] - self._slack)

    def _raise(self, rows: Ints, kth: Floats | Vectors) -> None:
        floors = np.minimum(kth - self._slack, self._limits[rows])
        self._floors[rows] = np.maximum(self._floors[rows], floors)

    def _strip(self, row: int) -> Ints:
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
        i, j = (np.concatenate(rows) for rows in zip(*likely, strict=True))
        pairs = Pairs(i, j, scores_of(self._vectors, i, j))
        upper = pairs.similarity >= self._upper.of(i, j)
        near = ~upper & (pairs.similarity >= self._lower.of(i, j))
        with self._lock:
            self._found.append(chosen(pairs, upper))
            if self.best.k:
                self._raise(*self.best.take(chosen(pairs, near)))

    def _count(self, band: _Level, products: Vectors, row: int, column: int) -> int:
        level = band.in_tile(row, column)
        maybe = products >= level - self._slack
        if not maybe.any():
            return 0
        surely = products >= level + self._slack
        weight = int(np.count_nonzero(surely))
        if self._is_weighted:
            weight = self._weight(*self._products.positions(row, column, surely))
        i, j = self._products.positions(row, column, maybe & ~surely)
        hit = scores_of(self._vectors, i, j) >= band.of(i, j)
        return weight + self._weight(i[hit], j[hit])

    def _weight(self, i: Ints, j: Ints) -> int:
        return int((self._weights[i] * self._weights[j]).sum())

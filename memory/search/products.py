"""Cosines and dot products of vectors: of given pairs, and of all rows of a matrix in tiles."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from memory.models import Vector, Vectors

T = TypeVar("T")
N = TypeVar("N", bound=np.generic)
F = TypeVar("F", np.float32, np.float64)
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
OnShare = Callable[[float], None]
"""A progress callback: called repeatedly with the share of the work done, from 0 to 1."""
Positions = tuple[Ints, Ints]
"""The rows and the columns of some entries of a matrix, as two arrays (m,)."""


_ALONE = {1: 8_192, 2: 480_000}
"""The most multiplications in one product that BLAS computes on the calling thread.

The key is the number of dimensions of the right factor: 1 for a vector, 2 for a matrix.
"""


class Pairs(NamedTuple):
    """Pairs of rows of a matrix, `i < j`, and their cosines, rounded to 6 decimals.

    All three are arrays of shape (m,).
    """

    i: Ints
    j: Ints
    similarity: Floats


def similarity(a: Vector, b: Vector) -> float:
    """Return the cosine of two vectors, computed in float64 and rounded to 6 decimals."""
    return float(similarities(a[None, :], b[None, :])[0])


def similarities(a: Vectors, b: Vectors) -> Floats:
    """Return the cosine of each row of `a` with the same row of `b`.

    The matrices have shape (n, dim), the result (n,). The cosines are computed in float64 and
    rounded to 6 decimals.
    """
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    lengths = np.linalg.norm(a64, axis=1) * np.linalg.norm(b64, axis=1)
    products: Floats = np.einsum("nd,nd->n", a64, b64) / np.maximum(lengths, 1e-30)
    return np.round(products, 6)


def joined(parts: Iterable[Pairs]) -> Pairs:
    """Return one `Pairs` that contains the pairs of all `parts`, in the order of the parts."""
    columns = list(zip(*parts, strict=True)) or [(), (), ()]
    i, j, scores = columns
    return Pairs(
        np.concatenate([np.empty(0, np.int64), *i]),
        np.concatenate([np.empty(0, np.int64), *j]),
        np.concatenate([np.empty(0), *scores]),
    )


def chosen(pairs: Pairs, which: npt.NDArray[np.bool_]) -> Pairs:
    """Return the pairs for which the mask `which`, shape (m,), is true."""
    return Pairs(pairs.i[which], pairs.j[which], pairs.similarity[which])


def in_order(pairs: Pairs) -> Pairs:
    """Return the pairs sorted by (i, j)."""
    order = np.lexsort((pairs.j, pairs.i))
    return Pairs(pairs.i[order], pairs.j[order], pairs.similarity[order])


def scores_of(vectors: Vectors, i: Ints, j: Ints) -> Floats:
    """Return the cosines of m pairs of rows of `vectors`, as an array (m,).

    The pairs are given by the positions of their rows, `i` and `j`, as arrays (m,). Few pairs are
    computed at a time, so that they fit into the processor's cache.
    """
    parts = [similarities(vectors[i[part]], vectors[j[part]]) for part in chunks(len(i))]
    return np.concatenate([np.empty(0), *parts])


def unit_rows(vectors: Vectors) -> Vectors:
    """Return the rows scaled to length 1; the same array if all rows have that length already."""
    lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64))
    if np.abs(lengths - 1).max(initial=0) < 1e-6:
        return vectors
    unit: Vectors = (vectors / np.maximum(lengths, 1e-30)[:, None]).astype(np.float32)
    return unit


def slack(dim: int) -> float:
    """Return the maximum error of a product of two unit vectors in float32.

    The error is the difference from the cosine that is computed in float64 and rounded to 6
    decimals. `dim` is the dimension of the vectors.
    """
    return (dim + 8) * 2.0**-24 + 5e-6


class Blocks(NamedTuple):
    """The sizes of the parts into which a matrix of products is cut: tiles, and blocks in a tile.

    `tile` is the side of a square tile, whose products fit into a core's cache. A tile is cut into
    blocks of `rows` by `columns` products; `tile` is a multiple of both. A block is so small that
    BLAS computes it on the calling thread. If BLAS used threads of its own, they and ours would
    wait for each other.
    """

    rows: int = 48
    columns: int = 80
    tile: int = 480

    @classmethod
    def fitting(cls, size: int) -> Blocks:
        """Return sizes for a matrix of `size` rows and columns.

        A matrix that is not larger than a default tile becomes one tile with one block. For a
        larger matrix, the result has the default sizes.
        """
        return cls() if size > cls().tile else cls(*[max(size, 1)] * 3)


class Products:
    """The dot products of all pairs of rows of a float32 matrix, computed one tile at a time.

    The products form a square matrix. A tile is a square part of it, which is computed when it is
    requested. A strip is a horizontal row of tiles. A tile consists of smaller blocks. Rows and
    columns are numbered from 0.
    """

    def __init__(self, rows: Vectors, blocks: Blocks, across: int | None = None) -> None:
        """Prepare the products of all pairs of these rows, shape (n, dim).

        `blocks` are the sizes of the tiles and blocks. If `across` is given, only pairs of one of
        the first `across` rows with one of the other rows have a product.
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
        """Return the first row of each strip of the product matrix.

        A strip is a horizontal row of tiles.
        """
        end = self._size if self._across is None else self._across
        return range(0, end, self._blocks.tile)

    def columns(self, row: int) -> range:
        """Return the first column of each tile in a strip of the product matrix.

        A strip is a horizontal row of tiles, and `row` is its first row. Tiles to the left of the
        diagonal are left out, because the matrix is symmetric. Tiles that `across` excludes are
        left out too.
        """
        tile = self._blocks.tile
        first = row if self._across is None else max(row, self._across // tile * tile)
        return range(first, self._size, tile)

    def tile(self, row: int, column: int) -> Vectors:
        """Return the products of the tile whose first row and column are `row` and `column`.

        The shape is (row blocks, column blocks, rows of a block, columns of a block). Products that
        are not above the diagonal, or that `across` excludes, are -inf.
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
        """Return the array, extended to a length that is a multiple of a tile's side.

        `values` has one value for each row of the matrix. Its last value is repeated at the end.
        """
        missing = -len(values) % self._blocks.tile
        return np.concatenate([values, np.repeat(values[-1:], missing)])

    def of_rows(self, values: npt.NDArray[N], row: int) -> npt.NDArray[N]:
        """Return the values of a tile's rows, in a shape that broadcasts with the result of `tile`.

        `values` has one value for each row of the matrix, and was extended by `padded`. `row` is
        the first row of the tile.
        """
        return values[row : row + self._blocks.tile].reshape(-1, 1, self._blocks.rows, 1)

    def of_columns(self, values: npt.NDArray[N], column: int) -> npt.NDArray[N]:
        """Return the values of a tile's columns, shaped to broadcast with the result of `tile`.

        `values` has one value for each column of the matrix, and was extended by `padded`. `column`
        is the first column of the tile.
        """
        return values[column : column + self._blocks.tile].reshape(1, -1, 1, self._blocks.columns)

    def positions(self, row: int, column: int, hits: npt.NDArray[np.bool_]) -> Positions:
        """Return the positions, in the whole matrix, of the true entries of `hits`.

        `hits` is a mask over a tile, with the shape that `tile` returns. `row` and `column` are the
        first row and column of that tile.
        """
        found = np.unravel_index(np.flatnonzero(hits), hits.shape)
        i = row + found[0] * self._blocks.rows + found[2]
        j = column + found[1] * self._blocks.columns + found[3]
        return i, j


def multiplied(rows: npt.NDArray[F], others: npt.NDArray[F]) -> npt.NDArray[F]:
    """Return the matrix product `rows @ others`, computed on the calling thread.

    `others` is a vector or a matrix. The product is cut into parts so small that BLAS starts no
    threads of its own. Such threads would keep a core busy for 30 ms after each product.
    """
    block = max(1, _ALONE[others.ndim] // others.size)
    whole = len(rows) // block * block
    blocks = rows[:whole].reshape(-1, block, rows.shape[1]) @ others
    return np.concatenate([blocks.reshape(whole, *others.shape[1:]), rows[whole:] @ others])


def by_strips(
    work: Callable[[int], T],
    products: Products,
    threads: int | None = None,
    on_share: OnShare | None = None,
) -> Iterator[T]:
    """Call `work` for each strip of the product matrix, in threads; yield the results in order.

    `work` is called with the number of the strip's first row. `threads` is the number of threads;
    None means one for each core. `on_share` is called after each strip with the share of the work
    done, from 0 to 1; None means that nothing is called.
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


def chunks(size: int, step: int = 512) -> Iterator[slice]:
    """Yield consecutive slices of `step` rows that together cover `size` rows."""
    return (slice(start, start + step) for start in range(0, size, step))

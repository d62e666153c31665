"""All products of the rows of a matrix, tile by tile, on every core. Pure numpy."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from memory.models import Vectors

T = TypeVar("T")
N = TypeVar("N", bound=np.generic)
F = TypeVar("F", np.float32, np.float64)
Ints = npt.NDArray[np.int64]
OnShare = Callable[[float], None]
"""Called repeatedly with the share of the work that is done, 0 to 1."""
Places = tuple[Ints, Ints]
"""Rows and columns of a matrix, two arrays (m,)."""


_ALONE = {1: 8_192, 2: 480_000}
"""Numbers in a block that BLAS multiplies with a vector, or a matrix, on the calling thread."""


class Blocks(NamedTuple):
    """How the products are cut up: a tile is square, and its side a multiple of both others.

    A tile's products fit into a core's cache. A block is small enough that BLAS multiplies it on
    the calling thread: its own threads and ours would wait for each other.
    """

    rows: int = 48
    columns: int = 80
    tile: int = 480

    @classmethod
    def fitting(cls, size: int) -> Blocks:
        """Return the blocks for a matrix of `size` rows: one block if it is smaller than a tile."""
        return cls() if size > cls().tile else cls(*[max(size, 1)] * 3)


class Products:
    """The products of every two rows of a float32 matrix, each pair once."""

    def __init__(self, rows: Vectors, blocks: Blocks, across: int | None = None) -> None:
        """With `across`, take only products of one of the first `across` rows with the others."""
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
        """Return the first row of each strip of tiles."""
        end = self._size if self._across is None else self._across
        return range(0, end, self._blocks.tile)

    def columns(self, row: int) -> range:
        """Return the first column of each tile of a strip, from the diagonal on."""
        tile = self._blocks.tile
        first = row if self._across is None else max(row, self._across // tile * tile)
        return range(first, self._size, tile)

    def tile(self, row: int, column: int) -> Vectors:
        """Return the products of a tile; those not above the diagonal are -inf.

        The shape is (row blocks, column blocks, rows of a block, columns of a block).
        """
        rows, columns, tile = self._blocks
        part = self._rows[row // rows : (row + tile) // rows]
        products: Vectors = part @ self._columns[column // columns : (column + tile) // columns]
        across = self._across or 0
        inside = row + tile <= across <= column if across else row != column
        if not inside or column + tile > self._size:
            places = np.arange(len(self._columns) * columns)
            i, j = self.of_rows(places, row), self.of_columns(places, column)
            outside = (i >= j) | (j >= self._size)
            if across:
                outside = outside | (i >= across) | (j < across)
            products[outside] = -np.inf
        return products

    def padded(self, values: npt.NDArray[N]) -> npt.NDArray[N]:
        """Repeat the last of the rows' values up to the end of the last tile."""
        missing = -len(values) % self._blocks.tile
        return np.concatenate([values, np.repeat(values[-1:], missing)])

    def of_rows(self, values: npt.NDArray[N], row: int) -> npt.NDArray[N]:
        """Return the `padded` values of a tile's rows, in the shape that goes with its products."""
        return values[row : row + self._blocks.tile].reshape(-1, 1, self._blocks.rows, 1)

    def of_columns(self, values: npt.NDArray[N], column: int) -> npt.NDArray[N]:
        """Return the `padded` values of a tile's columns, as its products lie."""
        return values[column : column + self._blocks.tile].reshape(1, -1, 1, self._blocks.columns)

    def places(self, row: int, column: int, hits: npt.NDArray[np.bool_]) -> Places:
        """Return the rows and columns in the matrix of a tile's hits."""
        found = np.unravel_index(np.flatnonzero(hits), hits.shape)
        i = row + found[0] * self._blocks.rows + found[2]
        j = column + found[1] * self._blocks.columns + found[3]
        return i, j


def multiplied(rows: npt.NDArray[F], others: npt.NDArray[F]) -> npt.NDArray[F]:
    """Return `rows @ others`, a vector or a matrix, computed on the calling thread.

    The blocks are too small for BLAS's threads, which go on spinning for 30 ms after each product.
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
    """Yield the result of `work` for each strip of tiles, in order; `threads` None is all cores."""
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


def together(parts: Iterable[Places]) -> Places:
    """Return the places of all parts, in the order of the parts."""
    kept = list(parts)
    none = np.empty(0, np.int64)
    return np.concatenate([none, *(i for i, _ in kept)]), np.concatenate(
        [none, *(j for _, j in kept)]
    )


def chunks(size: int, step: int = 512) -> Iterator[slice]:
    """Return slices of `step` rows each, in order."""
    return (slice(start, start + step) for start in range(0, size, step))

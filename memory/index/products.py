"""All products of the rows of a matrix, tile by tile, on every core. Pure numpy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from memory.models import Vectors

T = TypeVar("T")


class Blocks(NamedTuple):
    """How the products are cut up: a tile is square, and its side a multiple of both others.

    A tile's products stay in a core's cache. A block is small enough that BLAS multiplies it on
    the thread that asks: its own threads and ours would wait for each other.
    """

    rows: int = 48
    columns: int = 80
    tile: int = 480


class Products:
    """The products of every two rows of a float32 matrix."""

    def __init__(self, rows: Vectors, blocks: Blocks) -> None:
        size, width = rows.shape
        padded = np.zeros((-(-size // blocks.tile) * blocks.tile, width), np.float32)
        padded[:size] = rows
        columns = padded.reshape(-1, blocks.columns, width).swapaxes(1, 2)
        self._rows = padded.reshape(-1, 1, blocks.rows, width)
        self._columns = np.ascontiguousarray(columns)
        self._size = size
        self._blocks = blocks

    def strips(self) -> range:
        """The first row of each tile."""
        return range(0, self._size, self._blocks.tile)

    def columns(self, row: int) -> range:
        """The first column of each tile that lies on the diagonal or above it."""
        return range(row, self._size, self._blocks.tile)

    def tile(self, row: int, column: int) -> Vectors:
        """Products of the rows from `row` with those from `column`.

        Block by block: (row blocks, column blocks, rows in one, columns in one).
        """
        rows, columns, tile = self._blocks
        part = self._rows[row // rows : (row + tile) // rows]
        products: Vectors = part @ self._columns[column // columns : (column + tile) // columns]
        return products

    def places(
        self, row: int, column: int, hits: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Where a tile's hits lie in the matrix, those above the diagonal."""
        found = np.unravel_index(np.flatnonzero(hits), hits.shape)
        i = row + found[0] * self._blocks.rows + found[2]
        j = column + found[1] * self._blocks.columns + found[3]
        above = (i < j) & (j < self._size)
        return i[above], j[above]


def by_strips(work: Callable[[int], T], products: Products) -> Iterator[T]:
    """The work's answer for each strip of tiles, in order, several at once."""
    strips = products.strips()
    if len(strips) < 2:
        yield from map(work, strips)
        return
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        yield from threads.map(work, strips)


def chunks(size: int, step: int = 512) -> Iterator[slice]:
    """Slices of a few rows each, in order."""
    return (slice(start, start + step) for start in range(0, size, step))

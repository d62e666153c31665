"""Upper bounds of a query's products with many unit rows, from a quarter of their numbers.

By Cauchy-Schwarz a product is at most that of both vectors along a few axes, and of the lengths of
what these axes leave out.
"""

from __future__ import annotations

import numpy as np

from memory.models import Vector, Vectors
from memory.search.pairs import slack
from memory.search.products import Ints, multiplied

MIN_ROWS = 20_000
"""Rows from which on bounds are worth their memory."""
_SHARE = 4
"""One axis for so many dimensions."""
_SAMPLE = 500_000
"""Numbers of the rows in which the axes are found."""
_PER_QUERY = 10_000
"""Rows that one query bounds at most, so that no query waits for all."""
_OVERSAMPLING = 4
"""So many times k rows are multiplied to estimate the k-th best score."""


class Bounds:
    """Shortened copies of the first rows of a matrix, made while queries arrive."""

    def __init__(self) -> None:
        self._axes: Vectors = np.empty((0, 0), np.float32)
        """Orthonormal columns (dim, m), near the leading principal axes."""
        self._short: Vectors = np.empty((0, 0), np.float32)
        """(n, m + 1)."""
        self._count = 0

    def likely(self, matrix: Vectors, query: Vector, k: int, rows: Ints | None) -> Ints | None:
        """The rows that may be among the k nearest, in order; None where all may be.

        `rows` are those in question, None is all.
        """
        if not 0 < _OVERSAMPLING * k < len(matrix if rows is None else rows):
            return rows
        self._extend(matrix)
        highest = np.concatenate(
            [
                multiplied(self._short[: self._count], self._shortened(query[None])[0]),
                multiplied(matrix[self._count :], query),
            ]
        )
        if rows is not None:
            highest = highest[rows]
        guessed = np.argpartition(highest, -_OVERSAMPLING * k)[-_OVERSAMPLING * k :]
        near = matrix[guessed if rows is None else rows[guessed]] @ query
        hits = np.flatnonzero(highest >= np.partition(near, -k)[-k] - slack(len(query)))
        return hits if rows is None else rows[hits]

    def replace(self, row: int, matrix: Vectors) -> None:
        """A row has changed, and the matrix (n, dim) may have fewer rows."""
        self._count = min(self._count, len(matrix))
        if row < self._count:
            self._short[row] = self._shortened(matrix[row : row + 1])[0]

    def _extend(self, matrix: Vectors) -> None:
        rows, dim = matrix.shape
        if not self._axes.size:
            some = matrix[:: rows * dim // _SAMPLE + 1].astype(np.float64)
            drawn = np.random.default_rng(0).standard_normal((dim, -(-dim // _SHARE)))
            # One step of a randomised range finder: Halko, Martinsson, Tropp 2011, algorithm 4.3.
            self._axes = np.linalg.qr(some.T @ (some @ drawn))[0].astype(np.float32)
            self._short = np.empty((0, self._axes.shape[1] + 1), np.float32)
        if len(self._short) < rows:
            grown = np.empty((rows + rows // 8, self._axes.shape[1] + 1), np.float32)
            grown[: self._count] = self._short[: self._count]
            self._short = grown
        end = min(rows, self._count + _PER_QUERY)
        self._short[self._count : end] = self._shortened(matrix[self._count : end])
        self._count = end

    def _shortened(self, rows: Vectors) -> Vectors:
        """The rows along the axes, and at least the length of what these leave out."""
        leading = multiplied(rows, self._axes)
        rest = np.vecdot(rows, rows) - np.vecdot(leading, leading)
        lengths = np.sqrt(np.maximum(rest, 0) + slack(rows.shape[1]))
        short: Vectors = np.column_stack([leading, lengths])
        return short


def bytes_of(rows: int, dim: int) -> int:
    """The memory of a matrix, and of its bounds where it is large."""
    width = dim + (dim // _SHARE + 1 if rows >= MIN_ROWS else 0)
    return rows * width * np.dtype(np.float32).itemsize

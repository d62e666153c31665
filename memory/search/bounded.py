"""Exact search in unit vectors that come and go, by shorter rows that rule most of them out.

A query's product with a row is at most that of both along a few axes, and of the lengths of what
these leave out (Cauchy-Schwarz, as in `pairs.bounding_rows`): a quarter of the numbers is read.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from memory.models import Vector, Vectors
from memory.search.pairs import Floats, nearest, slack, with_rest
from memory.search.products import Ints, chunks, multiplied

_WORTH = 4_000
"""Rows from which on bounds are kept."""
_SHARE = 4
"""One axis for so many dimensions: half of them let through too much, twice as many cost more."""
_WIDEST = 1_024
"""Dimensions up to which bounds are kept: finding axes takes their third power."""
_SAMPLE = 1_000_000
"""Numbers of the rows in which the axes are found."""
_GUESSED = 4
"""So many times the wanted rows are looked at first, to know how near the nearest are."""
_TOGETHER = 8
"""From so many queries on, all products at once cost less than bounds one by one."""


class BoundedRows:
    """A matrix of unit rows that grows, and whose last row takes the place of a removed one."""

    def __init__(self) -> None:
        self._count = 0
        self._matrix: Vectors = np.empty((0, 0), np.float32)
        self._axes: Floats = np.empty((0, 0))
        self._bounds: Vectors = np.empty((0, 1), np.float32)
        self._bounded_at = 0
        """How many rows there were when the axes were chosen; 0 while there are none."""

    def __len__(self) -> int:
        return self._count

    @property
    def matrix(self) -> Vectors:
        """(n, dim)."""
        return self._matrix[: self._count]

    @property
    def dim(self) -> int:
        return int(self._matrix.shape[1])

    @property
    def width(self) -> int:
        """How many numbers of a row most queries read."""
        return int(self._bounds.shape[1]) if self._bounded_at else self.dim

    def append(self, rows: Vectors) -> None:
        """(m, dim); of another dimension only where there are none."""
        if not self._count:
            self._matrix, self._bounded_at = np.empty((0, rows.shape[1]), np.float32), 0
        self._matrix = _with_room(self._matrix, self._count, len(rows))
        self._matrix[self._count : self._count + len(rows)] = rows
        self._count += len(rows)
        if self._count >= max(_WORTH, 4 * self._bounded_at) and self.dim <= _WIDEST:
            self._bound_all()
        elif self._bounded_at:
            self._bound(self._count - len(rows))

    def move_last_to(self, row: int) -> None:
        """The last row takes the place of a removed one, which may be itself."""
        self._count -= 1
        self._matrix[row] = self._matrix[self._count]
        if self._bounded_at:
            self._bounds[row] = self._bounds[self._count]

    def nearest(
        self, queries: Vectors, k: int, among: Ints, min_cosine: float
    ) -> Iterator[tuple[Ints, Vectors]]:
        """For each query the rows most like it among some, and their products, at most k.

        `among` are in order, each once. Those below `min_cosine` may be left out.
        """
        if len(queries) >= _TOGETHER:
            yield from nearest(self.matrix, queries, k, among)
            return
        for query in queries:
            likely = self._likely(query, k, among, min_cosine) if self._bounded_at else among
            scores = multiplied(self._of(self._matrix, likely), query)
            best = np.argsort(-scores, kind="stable")[:k]
            yield likely[best], scores[best]

    def _likely(self, query: Vector, k: int, among: Ints, min_cosine: float) -> Ints:
        """Those among which the k nearest are, and of those below `min_cosine` not all."""
        if not 0 < _GUESSED * k < len(among):
            return among
        most = multiplied(self._of(self._bounds, among), self._shortened(query[None])[0])
        guessed = np.argpartition(most, -_GUESSED * k)[-_GUESSED * k :]
        kth = np.partition(self._matrix[among[guessed]] @ query, -k)[-k]
        likely: Ints = among[most >= max(min_cosine, kth) - slack(len(query))]
        return likely

    def _of(self, matrix: Vectors, rows: Ints) -> Vectors:
        """These rows; no copy where they are all."""
        return matrix[: self._count] if len(rows) == self._count else matrix[rows]

    def _bound_all(self) -> None:
        """Choose axes anew, near the leading principal ones of a sample."""
        some = self.matrix[:: self._count * self.dim // _SAMPLE + 1].astype(np.float64)
        drawn = np.random.default_rng(0).standard_normal((self.dim, -(-self.dim // _SHARE)))
        # One step of a randomised range finder: Halko, Martinsson, Tropp 2011, algorithm 4.3.
        self._axes = np.linalg.qr(some.T @ (some @ drawn))[0]
        self._bounds = np.empty((0, self._axes.shape[1] + 1), np.float32)
        self._bounded_at = self._count
        self._bound(0)

    def _bound(self, first: int) -> None:
        self._bounds = _with_room(self._bounds, first, self._count - first)
        fresh, bounds = self._matrix[first : self._count], self._bounds[first : self._count]
        for part in chunks(len(fresh)):
            bounds[part] = self._shortened(fresh[part])

    def _shortened(self, rows: Vectors) -> Vectors:
        wide = rows.astype(np.float64)
        bounds: Vectors = with_rest(wide, multiplied(wide, self._axes)).astype(np.float32)
        return bounds


def _with_room(rows: Vectors, used: int, fresh: int) -> Vectors:
    """The very array, or a larger one with the rows that are used."""
    if used + fresh <= len(rows):
        return rows
    grown = np.empty((max(used + fresh, 2 * used), *rows.shape[1:]), rows.dtype)
    grown[:used] = rows[:used]
    return grown

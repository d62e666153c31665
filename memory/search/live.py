"""The vectors of one user's live memories, or of everybody's, as a matrix in RAM."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from memory.errors import IndexFault
from memory.ledger import Change, LiveRow, Reader, ScopeValues
from memory.models import Scope, Vector, Vectors
from memory.protocols import Query
from memory.search.products import Ints, chunks, multiplied, slack
from memory.search.ranking import Best, Spread, WordScores

_PRODUCTS = 4_000_000
"""The maximum number of dot products held in RAM if many queries are answered together."""
_SCOPES = 16
"""The maximum number of scopes for which the matching rows are remembered."""
BOUNDED_FROM = 10_000
"""From this number of rows on, a single query first computes upper bounds, to skip most rows.

The bounds are computed from a quarter of the numbers that the exact products need.
"""
_AXES = 4
"""Upper bounds are computed along dim / _AXES axes, for vectors of `dim` dimensions."""
_SAMPLE = 2_000
"""The number of rows from which the axes are computed."""
_OVERSAMPLING = 4
"""How many rows are compared for each of the `k` wanted rows, to estimate the k-th best score."""


class LiveVectors:
    """The vectors of all live memories of one owner, as a matrix that is changed in place.

    The owner is a scope: that of one user, of the memories without a user, or the empty scope,
    which holds everybody's memories. After `load`, an object may be shared between threads.
    """

    def __init__(self, owner: Scope, bounded_from: int = BOUNDED_FROM) -> None:
        self.owner = owner
        self._bounded_from = bounded_from
        self._lock = threading.Lock()
        self.nbytes = 0
        """The size in RAM, in bytes."""
        self._ids: list[str] = []
        self.row_of: dict[str, int] = {}
        """The row of each memory by its id."""
        self._matrix: Vectors = np.empty((0, 0), np.float32)
        """One row for each id in `_ids`, then spare rows.

        `_numbers`, `_kinds` and `_short` have an item for each of these rows.
        """
        self._numbers: Ints = np.empty(0, np.int64)
        """For each row, the memory's number in the ledger, which increases by arrival."""
        self._kinds: npt.NDArray[np.int32] = np.empty(0, np.int32)
        """For each row, the position of its scope values in `_values`."""
        self._axes: Vectors = np.empty((0, 0), np.float32)
        """Orthonormal columns (dim, m), near the leading principal axes; empty until needed."""
        self._short: Vectors = np.empty((0, 0), np.float32)
        """For each row, its coordinates along `_axes` and the length of its remainder: (n, m + 1).

        The remainder is the part of the vector that is orthogonal to all axes.
        """
        self._values: list[ScopeValues] = []
        self._kind_of: dict[tuple[object, ...], int] = {}
        self._held: dict[Scope, list[bool]] = {}
        """For each scope, a flag for each item of `_values`: whether it matches the scope.

        A list may be shorter than `_values`; the missing flags are computed when needed.
        """

    def load(self, reader: Reader, fields: Sequence[str], count: int, dim: int) -> None:
        """Read the vectors of all live memories of the owner from the ledger.

        `fields` are the metadata keys that scopes may contain. `count` is the expected number of
        memories, and `dim` the dimension of the vectors.

        Raises: IndexFault if a vector does not have `dim` dimensions.
        """
        keys: list[str] = []
        room = count + count // 16 + 1
        self._matrix = np.empty((room, dim), np.float32)  # `resize` would write zeros first
        self._numbers, self._kinds = np.empty(room, np.int64), np.empty(room, np.int32)
        self.nbytes = bytes_of(room, dim)
        for rows in reader.followers.live(self.owner, fields):
            keys += [row.text_key for row in rows]
            self._append(rows)
        try:
            missing = reader.vectors.fill(self._matrix, keys)
        except ValueError as exc:
            raise _mixed() from exc
        for row in reversed(missing):
            self._remove(self._ids[row])

    def apply(self, changes: Iterable[Change], vectors: Mapping[str, Vector]) -> None:
        """Add, replace or remove the rows of the memories in `changes`.

        `changes` are memories that were written to the ledger since the vectors were loaded.
        `vectors` holds the vectors of those that are live, by text key. A row is removed if its
        memory is no longer live, or no longer belongs to the owner.

        Raises: IndexFault if a vector has another dimension than those in the matrix.
        """
        by_id = {change.id: change for change in changes}
        with self._lock:
            for memory_id in by_id:
                if memory_id in self.row_of:
                    self._remove(memory_id)
            fresh = [
                change
                for change in by_id.values()
                if change.live and change.text_key in vectors and self.owner.holds(change.values)
            ]
            if not fresh:
                return
            start = len(self._ids)
            if not start:
                self._matrix = np.empty((0, len(vectors[fresh[0].text_key])), np.float32)
            self._append(fresh)
            new = slice(start, len(self._ids))
            try:
                self._matrix[new] = [vectors[change.text_key] for change in fresh]
                if self._axes.size:
                    self._short[new] = _shortened(self._matrix[new], self._axes)
            except ValueError as exc:
                raise _mixed() from exc

    def nearest(self, queries: Sequence[Query]) -> list[list[str]]:
        """Return, for each query, the ids of the `query.k` nearest memories, nearest first.

        Only memories in the query's scope are searched. Equally near memories are in the order of
        their rows in the matrix.
        """
        by_scope: dict[Scope, list[int]] = {}
        for position, query in enumerate(queries):
            by_scope.setdefault(query.scope, []).append(position)
        found: list[list[str]] = [[] for _ in queries]
        with self._lock:
            matrix = self._matrix[: len(self._ids)]
            at_once = max(1, _PRODUCTS // max(1, len(matrix)))
            for scope, positions in by_scope.items():
                rows = self._rows(scope)
                if len(positions) == 1 and len(rows) >= self._bounded_from:
                    rows = self._likely(queries[positions[0]], rows)
                    scores = multiplied(matrix[rows], queries[positions[0]].vector)
                    best = best_of(scores, queries[positions[0]].k)
                    found[positions[0]] = [self._ids[row] for row in rows[best]]
                    continue
                for start in range(0, len(positions) if len(rows) else 0, at_once):
                    batch = positions[start : start + at_once]
                    vectors = np.stack([queries[position].vector for position in batch])
                    products = (
                        vectors @ matrix.T if len(batch) > 1 else [multiplied(matrix, vectors[0])]
                    )
                    for position, scores in zip(batch, products, strict=True):
                        best = best_of(scores[rows], queries[position].k)
                        found[position] = [self._ids[row] for row in rows[best]]
        return found

    def _likely(self, query: Query, rows: Ints) -> Ints:
        """Return those of `rows` that may be among the `query.k` nearest, in the given order.

        `rows` are positions in the matrix. A row is left out if an upper bound of its product with
        the query is too low. The bound (Cauchy-Schwarz inequality) is the product along a few axes,
        plus the product of the lengths of both remainders. A remainder is the part of a vector that
        is orthogonal to these axes.
        """
        if not 0 < _OVERSAMPLING * query.k < len(rows):
            return rows
        if not self._axes.size:
            self._shorten_all()
        short = _shortened(query.vector[None], self._axes)[0]
        bounds = multiplied(self._short[: len(self._ids)], short)[rows]
        highest = np.argpartition(bounds, -_OVERSAMPLING * query.k)[-_OVERSAMPLING * query.k :]
        products = self._matrix[rows[highest]] @ query.vector
        least = np.partition(products, -query.k)[-query.k] - slack(len(query.vector))
        likely: Ints = rows[bounds >= least]
        return likely

    def _shorten_all(self) -> None:
        """Compute the axes that the bounds use, and the coordinates of all vectors along them.

        The axes come from one step of a randomised range finder. Source: Halko, Martinsson, Tropp
        2011, algorithm 4.3.
        """
        vectors = self._matrix[: len(self._ids)]
        sample = vectors[:: len(vectors) // _SAMPLE + 1].astype(np.float64)
        drawn = np.random.default_rng(0).standard_normal(
            (sample.shape[1], -(-sample.shape[1] // _AXES))
        )
        self._axes = np.linalg.qr(sample.T @ (sample @ drawn))[0].astype(np.float32)
        self._short = np.empty((len(self._matrix), self._axes.shape[1] + 1), np.float32)
        for part in chunks(len(vectors), 4_096):
            self._short[: len(vectors)][part] = _shortened(vectors[part], self._axes)

    def best(self, query: Query, words: WordScores) -> Best:
        """Return the `query.k` memories in the query's scope that answer the query best.

        They are ranked by the sum of two standard scores (in standard deviations from the mean): of
        the cosine, and of the BM25 score in `words`.
        """
        with self._lock:
            rows = self._rows(query.scope)
            if not len(rows):
                return Best([], Spread(0.0, 0.0))
            cosines = multiplied(self._matrix[: len(self._ids)], query.vector)
            cosines = cosines if len(rows) == len(cosines) else cosines[rows]
            spread = Spread.of(cosines)
            best = best_of(spread.standard(cosines) + words.of(self._numbers[rows]), query.k)
            return Best([self._ids[row] for row in rows[best]], spread)

    def _rows(self, scope: Scope) -> Ints:
        """Return the positions of the rows whose memories are in a scope, in ascending order."""
        if len(self._held) > _SCOPES:
            self._held.clear()
        held = self._held.setdefault(scope, [])
        held += [scope.holds(values) for values in self._values[len(held) :]]
        return np.flatnonzero(np.array(held, np.bool_)[self._kinds[: len(self._ids)]])

    def _append(self, rows: Sequence[LiveRow | Change]) -> None:
        """Add a row for each of these memories, without its vector.

        The caller must then write the vectors into the matrix.
        """
        start, end = len(self._ids), len(self._ids) + len(rows)
        if end > len(self._matrix):
            self._make_room(end + end // 8 + 8)
        self._ids += [row.id for row in rows]
        self.row_of.update(zip(self._ids[start:], range(start, end), strict=True))
        self._numbers[start:end] = [row.number for row in rows]
        different = {id(row.values): row.values for row in rows}
        kinds = {}
        for key, values in different.items():
            kinds[key] = self._kind_of.setdefault(tuple(values.items()), len(self._values))
            if kinds[key] == len(self._values):
                self._values.append(values)
        self._kinds[start:end] = [kinds[id(row.values)] for row in rows]

    def _remove(self, memory_id: str) -> None:
        """Remove a memory's row; the last row moves into its position."""
        row = self.row_of.pop(memory_id)
        last_id = self._ids.pop()
        for column in (self._matrix, self._numbers, self._kinds, self._short):
            if len(column):
                column[row] = column[len(self._ids)]
        if last_id != memory_id:
            self._ids[row] = last_id
            self.row_of[last_id] = row

    def _make_room(self, rows: int) -> None:
        """Enlarge the arrays to this number of rows.

        No view of the arrays may be in use, because they are resized in place.
        """
        self._matrix.resize((rows, self._matrix.shape[1]), refcheck=False)
        self._numbers.resize(rows, refcheck=False)
        self._kinds.resize(rows, refcheck=False)
        if self._axes.size:
            self._short.resize((rows, self._short.shape[1]), refcheck=False)
        self.nbytes = bytes_of(*self._matrix.shape)


def best_of(scores: npt.NDArray[np.floating[Any]], k: int) -> Ints:
    """Return the positions of the `k` highest scores, highest first.

    Of equal scores, the one with the lower position comes first.
    """
    if 0 < k < len(scores):
        least = np.partition(scores, -k)[-k]
        likely = np.flatnonzero(scores >= least)
    else:
        likely = np.arange(len(scores))
    best: Ints = likely[np.argsort(-scores[likely], kind="stable")[: max(k, 0)]]
    return best


def bytes_of(rows: int, dim: int) -> int:
    """Return how many bytes `rows` vectors of `dim` dimensions take in RAM.

    If there are many rows, the result includes the data from which upper bounds are computed.
    """
    bounds = dim // _AXES + 1 if rows >= BOUNDED_FROM else 0
    return rows * (dim + bounds) * np.dtype(np.float32).itemsize


def _shortened(vectors: Vectors, axes: Vectors) -> Vectors:
    """Return the coordinates of the vectors along the axes, with one more column at the end.

    That column is the length, rounded up, of each vector's remainder: its part that is orthogonal
    to all axes. `axes` has shape (dim, m); the result has shape (n, m + 1).
    """
    leading = multiplied(vectors, axes)
    rest = np.vecdot(vectors, vectors) - np.vecdot(leading, leading)
    lengths = np.sqrt(np.maximum(rest, 0) + slack(vectors.shape[1]))
    short: Vectors = np.column_stack([leading, lengths])
    return short


def _mixed() -> IndexFault:
    return IndexFault("its vectors have different dimensions", "run `memory-dedup doctor`")

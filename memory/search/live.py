"""The live vectors of one user, or of everybody, in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from memory.errors import IndexFault
from memory.ledger import Change, LiveRow, Reader, ScopeValues
from memory.models import Scope, Vector, Vectors
from memory.protocols import Query
from memory.search.hybrid import Best, Spread, WordScores
from memory.search.products import Ints, multiplied

_PRODUCTS = 4_000_000
"""Products that are held at once where many queries are answered together."""
_SPARSE = 4
"""Where fewer than one in so many rows is in the scope, only those are multiplied."""
_REMEMBERED = 16
"""Scopes of which it is remembered who is in them."""


class LiveVectors:
    """A matrix of the vectors of one owner's live memories, changed in place.

    The owner is a scope: of one user, or of nothing, which is everybody. Safe to share between
    threads once it is loaded.
    """

    def __init__(self, owner: Scope) -> None:
        self.owner = owner
        self.lock = threading.Lock()
        self._ids: list[str] = []
        self._numbers: Ints = np.empty(0, np.int64)
        """Of the rows, in their order of arrival; longer than the ids."""
        self._row_of: dict[str, int] = {}
        self._matrix: Vectors = np.empty((0, 0), np.float32)
        self._scopes = _ScopeNumbers()

    @property
    def nbytes(self) -> int:
        return self._matrix.nbytes

    def load(self, reader: Reader, fields: Sequence[str], count: int, dim: int) -> None:
        """Read all of them into one array; `fields` are keys of the metadata that scopes name.

        Raises: IndexFault where a vector has another dimension.
        """
        keys: list[str] = []
        self._matrix = np.empty((count + count // 16 + 1, dim), np.float32)
        for rows in reader.followers.live(self.owner, fields):
            keys += [row.text_key for row in rows]
            self._note(rows)
        try:
            missing = reader.vectors.fill(self._matrix, keys)
        except ValueError as exc:
            raise _mixed() from exc
        for row in reversed(missing):
            self._remove(self._ids[row])

    def has_any(self, ids: Set[str]) -> bool:
        return not self._row_of.keys().isdisjoint(ids)

    def held(self, ids: Set[str]) -> Set[str]:
        """Those of the ids that are here."""
        return self._row_of.keys() & ids

    def apply(self, changes: Iterable[Change], vectors: Mapping[str, Vector]) -> None:
        """Take in what the ledger has committed; `vectors` are by text key.

        Raises: IndexFault where the vectors have another dimension than those here.
        """
        by_id = {change.id: change for change in changes}
        for name in by_id:
            self._remove(name)
        fresh = [
            one
            for one in by_id.values()
            if one.live and one.text_key in vectors and self.owner.holds(one.values)
        ]
        if not fresh:
            return
        if not self._ids:
            self._matrix = np.empty((0, len(vectors[fresh[0].text_key])), np.float32)
        start = len(self._ids)
        self._note(fresh)
        self._make_room()
        try:
            self._matrix[start : len(self._ids)] = [vectors[one.text_key] for one in fresh]
        except ValueError as exc:
            raise _mixed() from exc

    def nearest(self, queries: Sequence[Query]) -> list[list[str]]:
        """The ids for each query, nearest first; of equally near ones those that came first."""
        by_scope: dict[Scope, list[int]] = {}
        for position, query in enumerate(queries):
            by_scope.setdefault(query.scope, []).append(position)
        found: list[list[str]] = [[] for _ in queries]
        for scope, positions in by_scope.items():
            rows = self._scopes.rows(scope)
            if not len(self._ids if rows is None else rows):
                continue
            for position, scores in zip(
                positions, self._scores([queries[n].vector for n in positions], rows), strict=True
            ):
                best = best_of(scores, queries[position].k)
                hits = best if rows is None else rows[best]
                found[position] = [self._ids[row] for row in hits]
        return found

    def best(self, query: Query, words: WordScores) -> Best:
        """Return the best by the cosine and by the scores of words, as standard scores, added."""
        rows = self._scopes.rows(query.scope)
        if not len(self._ids if rows is None else rows):
            return Best([], Spread(0.0, 0.0))
        [cosines] = self._scores([query.vector], rows)
        spread = Spread.of(cosines)
        numbers = self._numbers[: len(self._ids)]
        scores = spread.standard(cosines) + words.of(numbers if rows is None else numbers[rows])
        best = best_of(scores, query.k)
        return Best([self._ids[row] for row in (best if rows is None else rows[best])], spread)

    def _scores(self, vectors: Sequence[Vector], rows: Ints | None) -> Iterator[Vectors]:
        """The products of each vector with these rows; None is all of them."""
        matrix = self._matrix[: len(self._ids)]
        sparse = rows is not None and _SPARSE * len(rows) < len(matrix)
        inside = matrix[rows] if sparse else matrix
        at_once = max(1, _PRODUCTS // max(1, len(inside)))
        for start in range(0, len(vectors), at_once):
            some = np.stack(vectors[start : start + at_once])
            products = multiplied(inside, some[0])[None] if len(some) == 1 else some @ inside.T
            yield from products if sparse or rows is None else products[:, rows]

    def _note(self, rows: Sequence[LiveRow | Change]) -> None:
        """More rows, whose vectors follow."""
        start = len(self._ids)
        self._ids += [row.id for row in rows]
        self._row_of.update(zip(self._ids[start:], range(start, len(self._ids)), strict=True))
        if len(self._ids) > len(self._numbers):
            self._numbers = np.concatenate(
                [self._numbers[:start], np.empty(2 * len(self._ids), np.int64)]
            )
        self._numbers[start : len(self._ids)] = [row.number for row in rows]
        self._scopes.append([row.values for row in rows])

    def _remove(self, memory_id: str) -> None:
        """The last row takes the place of the removed one."""
        row = self._row_of.pop(memory_id, None)
        if row is None:
            return
        last_id = self._ids.pop()
        self._matrix[row] = self._matrix[len(self._ids)]
        self._numbers[row] = self._numbers[len(self._ids)]
        self._scopes.move_last_to(row)
        if last_id != memory_id:
            self._ids[row] = last_id
            self._row_of[last_id] = row

    def _make_room(self) -> None:
        """Grow by an eighth, where the system can in place: no other array holds these rows."""
        count, (room, dim) = len(self._ids), self._matrix.shape
        if count > room:
            self._matrix.resize((count + count // 8 + 8, dim), refcheck=False)


class _ScopeNumbers:
    """The values that scopes compare, one number for each row: few rows differ in them."""

    def __init__(self) -> None:
        self._number_of: dict[tuple[object, ...], int] = {}
        self._values: list[ScopeValues] = []
        """Of each number."""
        self._numbers: npt.NDArray[np.int32] = np.empty(0, np.int32)
        self._count = 0
        self._held: dict[Scope, list[bool]] = {}
        """Whether a scope holds the values of each number, as far as that was asked."""

    def append(self, some: Sequence[ScopeValues]) -> None:
        if self._count + len(some) > len(self._numbers):
            grown = np.empty(2 * (self._count + len(some)), np.int32)
            grown[: self._count] = self._numbers[: self._count]
            self._numbers = grown
        numbers = {id(values): self._number(values) for values in {id(x): x for x in some}.values()}
        fresh = [numbers[id(values)] for values in some]
        self._numbers[self._count : self._count + len(some)] = fresh
        self._count += len(some)

    def move_last_to(self, row: int) -> None:
        """The last row takes the place of a removed one, which may be itself."""
        self._count -= 1
        self._numbers[row] = self._numbers[self._count]

    def rows(self, scope: Scope) -> Ints | None:
        """The rows in a scope, in order; None where all are."""
        if len(self._held) > _REMEMBERED:
            self._held.clear()
        held = self._held.setdefault(scope, [])
        held += [scope.holds(values) for values in self._values[len(held) :]]
        if all(held):
            return None
        return np.flatnonzero(np.array(held)[self._numbers[: self._count]])

    def _number(self, values: ScopeValues) -> int:
        key = tuple(values.items())
        number = self._number_of.setdefault(key, len(self._values))
        if number == len(self._values):
            self._values.append(values)
        return number


def best_of(scores: npt.NDArray[np.floating[Any]], k: int) -> Ints:
    """The positions of the k highest, highest first; of equal ones the first."""
    if 0 < k < len(scores):
        least = np.partition(scores, -k)[-k]
        likely = np.flatnonzero(scores >= least)
    else:
        likely = np.arange(len(scores))
    best: Ints = likely[np.argsort(-scores[likely], kind="stable")[: max(k, 0)]]
    return best


def bytes_of(rows: int, dim: int) -> int:
    """Return the memory that so many vectors take."""
    return rows * dim * np.dtype(np.float32).itemsize


def _mixed() -> IndexFault:
    return IndexFault("its vectors have different dimensions", "run `memory-dedup doctor`")

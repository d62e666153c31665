"""Nearest neighbours by exact search over the ledger's vectors, always as of the latest commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from memory.index.pairs import nearest
from memory.ledger import Change, Ledger, Reader
from memory.models import Scope, Vectors
from memory.protocols import Query, Shortlist

_FEW = 2_000
"""Vectors that are compared faster than Chroma answers."""

Ints = npt.NDArray[np.int64]


class ExactIndex:
    """A matrix of all live vectors, caught up from the ledger before each answer."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._live = LiveVectors()

    def nearest(self, queries: Sequence[Query]) -> list[Shortlist]:
        with self._lock:
            self._catch_up()
            found = self._live.nearest(queries)
        return [Shortlist(tuple(name for name, _ in some)) for some in found]

    def answers_at_once(self, scope: Scope) -> bool:
        """Whether its vectors are read already, and few of them are of this scope.

        Not while somebody else is served: that may take as long as reading all of them.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            return self._live.has_begun and self._live.count(scope) <= _FEW
        finally:
            self._lock.release()

    def follow(self) -> None:
        with self._lock:
            self._catch_up()

    def _catch_up(self) -> None:
        with self._ledger.reading() as reader:
            self._live.catch_up(reader)

    @property
    def name(self) -> str:
        return "exact search"

    def disagreement(self) -> str:
        """It reads the ledger before each answer."""
        return ""

    def rebuild(self, on_progress: Callable[[int, int], None] | None = None) -> None:  # noqa: ARG002 - at once
        with self._lock:
            self._live = LiveVectors()

    def scrub(self) -> None:
        """Nothing on disk is held."""

    def close(self) -> None:
        """Nothing on disk is held."""


class LiveVectors:
    """The live vectors of the rows that changed after a revision, in one matrix.

    From revision 0 on these are all; later, the part that another index does not know yet. Not safe
    to share between threads.
    """

    def __init__(self, since: int = 0) -> None:
        self._revision = since
        self._ids: list[str] = []
        self._row_of: dict[str, int] = {}
        self._scopes = _RowsByScope()
        self._matrix: Vectors = np.empty((0, 0), dtype=np.float32)
        self.changed: set[str] = set()
        """Ids of every memory, live or retired, that changed since."""

    def catch_up(self, reader: Reader) -> None:
        """Take in what the ledger has committed."""
        revision = reader.revision()
        if revision == self._revision:
            return
        changes = reader.followers.changes(self._revision)
        self._revision = revision
        if changes:
            self._apply(changes)

    @property
    def has_begun(self) -> bool:
        """Whether anything was read."""
        return bool(self._ids)

    def count(self, scope: Scope) -> int:
        """How many are of this scope."""
        return len(self._scopes.members(scope))

    def nearest(self, queries: Sequence[Query]) -> list[list[tuple[str, float]]]:
        """For each query the ids, nearest first, with their float32 cosines."""
        places: dict[Scope, list[int]] = {}
        for place, query in enumerate(queries):
            places.setdefault(query.scope, []).append(place)
        found: list[list[tuple[str, float]]] = [[] for _ in queries]
        for scope, some in places.items():
            rows = self._scopes.rows(scope)
            if not len(rows):
                continue
            probes = np.stack([queries[place].vector for place in some])
            most = max(queries[place].k for place in some)
            near = nearest(self._matrix[: len(self._ids)], probes, most, rows)
            for place, (hits, cosines) in zip(some, near, strict=True):
                wanted = queries[place].k
                names = (self._ids[row] for row in hits[:wanted])
                found[place] = list(zip(names, cosines[:wanted].tolist(), strict=True))
        return found

    def _apply(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self.changed.add(change.id)
            self._remove(change.id)
        vectors = [one.vector for one in changes if one.live and one.vector is not None]
        if not vectors:
            return
        self._reserve(len(vectors), len(vectors[0]))
        first = len(self._ids)
        self._matrix[first : first + len(vectors)] = np.concatenate(vectors).reshape(
            len(vectors), -1
        )
        for change in changes:
            if change.live and change.vector is not None:
                self._row_of[change.id] = len(self._ids)
                self._ids.append(change.id)
                self._scopes.append(change.values)

    def _remove(self, memory_id: str) -> None:
        """The last row takes the place of the removed one."""
        row = self._row_of.pop(memory_id, None)
        if row is None:
            return
        last_id = self._ids.pop()
        self._scopes.move_last_to(row)
        if last_id != memory_id:
            self._matrix[row] = self._matrix[len(self._ids)]
            self._ids[row] = last_id
            self._row_of[last_id] = row

    def _reserve(self, fresh: int, dim: int) -> None:
        needed = len(self._ids) + fresh
        if dim == self._matrix.shape[1] and needed <= len(self._matrix):
            return
        if not self._ids:  # all may come from another embedder now
            self._matrix = np.empty((0, dim), dtype=np.float32)
        grown = np.empty((max(needed, 2 * len(self._matrix)), dim), np.float32)
        grown[: len(self._ids)] = self._matrix[: len(self._ids)].reshape(-1, grown.shape[1])
        self._matrix = grown


class _RowsByScope:
    """Which rows are in a scope; a change of one row costs the same however many there are."""

    def __init__(self) -> None:
        self._values: list[Mapping[str, Any]] = []
        self._groups: dict[tuple[str, ...], dict[tuple[Any, ...], set[int]]] = {}
        """By the fields that scopes are made of, and their values; as they are asked for."""

    def append(self, values: Mapping[str, Any]) -> None:
        """One more row, with the values of its fields."""
        row = len(self._values)
        self._values.append(values)
        for fields, groups in self._groups.items():
            groups.setdefault(_of(values, fields), set()).add(row)

    def move_last_to(self, row: int) -> None:
        """The last row takes the place of a removed one, which may be itself."""
        last = len(self._values) - 1
        moved = self._values.pop()
        for fields, groups in self._groups.items():
            groups[_of(moved, fields)].discard(last)
            if row != last:
                groups[_of(self._values[row], fields)].discard(row)
                groups.setdefault(_of(moved, fields), set()).add(row)
        if row != last:
            self._values[row] = moved

    def rows(self, scope: Scope) -> Ints:
        """In order."""
        held = self.members(scope)
        return np.sort(np.fromiter(held, dtype=np.int64, count=len(held)))

    def members(self, scope: Scope) -> set[int]:
        """The same in no order."""
        fields = tuple(name for name, _ in scope.values)
        if fields not in self._groups:
            groups: dict[tuple[Any, ...], set[int]] = {}
            for row, values in enumerate(self._values):
                groups.setdefault(_of(values, fields), set()).add(row)
            self._groups[fields] = groups
        return self._groups[fields].get(tuple(value for _, value in scope.values), set())


def _of(values: Mapping[str, Any], fields: tuple[str, ...]) -> tuple[Any, ...]:
    """What a row has there; a missing value reads as None."""
    return tuple(values.get(name) for name in fields)

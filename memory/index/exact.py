"""Nearest neighbours by exact search over the ledger's vectors, always as of the latest commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from memory.index.pairs import nearest
from memory.ledger import Change, Ledger, Reader
from memory.models import Scope, Vector, Vectors
from memory.protocols import Shortlist


class ExactIndex:
    """A matrix of all live vectors, caught up from the ledger before each answer."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._live = LiveVectors()

    def nearest(self, vector: Vector, scope: Scope, k: int, min_cosine: float) -> Shortlist:  # noqa: ARG002 - k suffices here
        with self._lock:
            with self._ledger.reading() as reader:
                self._live.catch_up(reader)
            return Shortlist(self._live.nearest(vector, scope, k))

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
        self._values: list[Mapping[str, Any]] = []
        self._row_of: dict[str, int] = {}
        self._scopes: dict[Scope, list[int]] = {}
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

    def nearest(self, vector: Vector, scope: Scope, k: int) -> tuple[str, ...]:
        """Ids of the k nearest in the scope, nearest first."""
        among = np.array(self._rows_in(scope), dtype=np.int64)
        rows = nearest(self._matrix[: len(self._ids)], vector, k, among)
        return tuple(self._ids[row] for row in rows)

    def _apply(self, changes: Sequence[Change]) -> None:
        self._scopes.clear()
        for change in changes:
            self.changed.add(change.id)
            self._remove(change.id)
        fresh = [change for change in changes if change.live and change.vector is not None]
        self._reserve(fresh)
        for change in fresh:
            assert change.vector is not None
            row = len(self._ids)
            self._matrix[row] = change.vector
            self._row_of[change.id] = row
            self._ids.append(change.id)
            self._values.append(change.values)

    def _remove(self, memory_id: str) -> None:
        """The last row takes the place of the removed one."""
        row = self._row_of.pop(memory_id, None)
        if row is None:
            return
        last_id, last_values = self._ids.pop(), self._values.pop()
        if last_id != memory_id:
            self._matrix[row] = self._matrix[len(self._ids)]
            self._ids[row], self._values[row] = last_id, last_values
            self._row_of[last_id] = row

    def _reserve(self, fresh: Sequence[Change]) -> None:
        needed = len(self._ids) + len(fresh)
        if not fresh:
            return
        assert fresh[0].vector is not None
        if len(fresh[0].vector) == self._matrix.shape[1] and needed <= len(self._matrix):
            return
        if not self._ids:  # all may come from another embedder now
            self._matrix = np.empty((0, len(fresh[0].vector)), dtype=np.float32)
        grown = np.empty((max(needed, 2 * len(self._matrix)), len(fresh[0].vector)), np.float32)
        grown[: len(self._ids)] = self._matrix[: len(self._ids)].reshape(-1, grown.shape[1])
        self._matrix = grown

    def _rows_in(self, scope: Scope) -> list[int]:
        """Scopes are few and asked for again and again: looked through once for each change."""
        if scope not in self._scopes:
            held = (row for row, values in enumerate(self._values) if scope.holds(values))
            self._scopes[scope] = list(held)
        return self._scopes[scope]

"""Live vectors in memory, by scope, as they come and go in the ledger."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from memory.errors import IndexFault
from memory.ledger import Change, Reader, ScopeValues
from memory.models import Scope, Vector
from memory.protocols import Query
from memory.search.bounded import BoundedRows
from memory.search.products import Ints


class LiveVectors:
    """The live vectors of the rows that changed after a revision.

    From revision 0 on these are all; later, the part that another index does not know yet. Not safe
    to share between threads, and of no use after an exception.
    """

    def __init__(self, since: int = 0) -> None:
        self._revision = since
        self._read_to = 0
        """The place of the last row that `read_page` has read."""
        self._ids: list[str] = []
        self._row_of: dict[str, int] = {}
        self._scopes = _RowsByScope()
        self._rows = BoundedRows()
        self.is_whole = False
        """Whether it has had all that the ledger had."""
        self.changed: set[str] = set()
        """Ids of every memory, live or retired, that `catch_up` saw change."""

    def read_page(self, reader: Reader, limit: int) -> int:
        """Take in so many more of all live rows; how many to take next, 0 once none is left.

        What changes meanwhile, `catch_up` takes in: it must follow.
        """
        if not self._read_to:
            self._revision = reader.revision()
        some = reader.followers.live(self._read_to, limit)
        if some is None:
            return 0
        self._append(some.ids, some.vectors, some.values)
        self._read_to = some.last
        return limit

    def catch_up(self, reader: Reader) -> None:
        """Take in what the ledger has committed."""
        revision = reader.revision()
        if revision != self._revision:
            self._apply(reader.followers.changes(self._revision))
        self._revision, self.is_whole = revision, True

    @property
    def numbers(self) -> int:
        """In all of them."""
        return int(self._rows.matrix.size)

    def are_all_of(self, scope: Scope) -> bool:
        return self._scopes.count(scope) == len(self._ids)

    def read_for(self, scope: Scope) -> int:
        """About how many numbers are read to answer a query of this scope."""
        return self._scopes.count(scope) * self._rows.width

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
            least = min(queries[place].min_cosine for place in some)
            near = self._rows.nearest(probes, most, rows, least)
            for place, (hits, cosines) in zip(some, near, strict=True):
                wanted = queries[place].k
                names = (self._ids[row] for row in hits[:wanted])
                found[place] = list(zip(names, cosines[:wanted].tolist(), strict=True))
        return found

    def _apply(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self.changed.add(change.id)
            self._remove(change.id)
        fresh = [one for one in changes if one.live and one.vector is not None]
        if fresh:
            vectors = [one.vector for one in fresh if one.vector is not None]
            self._append([one.id for one in fresh], vectors, [one.values for one in fresh])

    def _append(
        self, ids: Sequence[str], vectors: Sequence[Vector], values: Sequence[ScopeValues]
    ) -> None:
        """Rows of which none is there.

        Raises: IndexFault where the vectors have different dimensions.
        """
        dims = {len(vector) for vector in vectors} | ({self._rows.dim} if self._ids else set())
        if len(dims) > 1:
            raise IndexFault("its vectors have different dimensions", "run `memory-dedup doctor`")
        self._rows.append(np.stack(vectors))
        self._row_of.update(zip(ids, range(len(self._ids), len(self._ids) + len(ids)), strict=True))
        self._ids += ids
        self._scopes.append(values)

    def _remove(self, memory_id: str) -> None:
        """The last row takes the place of the removed one."""
        row = self._row_of.pop(memory_id, None)
        if row is None:
            return
        last_id = self._ids.pop()
        self._scopes.move_last_to(row)
        self._rows.move_last_to(row)
        if last_id != memory_id:
            self._ids[row] = last_id
            self._row_of[last_id] = row


class _RowsByScope:
    """Which rows are in a scope."""

    def __init__(self) -> None:
        self._values: list[ScopeValues] = []
        self._groups: dict[tuple[str, ...], _Groups] = {}
        """By the fields that scopes are made of, as they are asked for."""

    def append(self, some: Sequence[ScopeValues]) -> None:
        """More rows, each with the values of its fields."""
        self._values += some
        for fields, groups in self._groups.items():
            groups.append([_of(values, fields) for values in some])

    def move_last_to(self, row: int) -> None:
        """The last row takes the place of a removed one, which may be itself."""
        self._values[row] = self._values[-1]
        self._values.pop()
        for groups in self._groups.values():
            groups.move_last_to(row)

    def rows(self, scope: Scope) -> Ints:
        """In order."""
        return self._of_fields(scope).rows(_told(scope))

    def count(self, scope: Scope) -> int:
        return self._of_fields(scope).sizes[_told(scope)]

    def _of_fields(self, scope: Scope) -> _Groups:
        fields = tuple(name for name, _ in scope.values)
        if fields not in self._groups:
            self._groups[fields] = groups = _Groups()
            groups.append([_of(values, fields) for values in self._values])
        return self._groups[fields]


class _Groups:
    """The rows that have the same values in some fields: one number for each row."""

    def __init__(self) -> None:
        self._number_of: dict[tuple[Any, ...], int] = {}
        self._values: list[tuple[Any, ...]] = []
        """Of each number."""
        self._numbers = array("q")
        """Of each row the number of its values."""
        self.sizes: Counter[tuple[Any, ...]] = Counter()
        """How many rows have these values."""

    def append(self, some: Sequence[tuple[Any, ...]]) -> None:
        """The values of more rows."""
        for values in some:
            if values not in self._number_of:
                self._number_of[values] = len(self._values)
                self._values.append(values)
            self._numbers.append(self._number_of[values])
        self.sizes.update(some)

    def move_last_to(self, row: int) -> None:
        """The last row takes the place of a removed one, which may be itself."""
        self.sizes[self._values[self._numbers[row]]] -= 1
        self._numbers[row] = self._numbers[-1]
        self._numbers.pop()

    def rows(self, values: tuple[Any, ...]) -> Ints:
        """In order."""
        number = self._number_of.get(values, -1)
        return np.flatnonzero(np.frombuffer(self._numbers, np.int64) == number)


def _told(scope: Scope) -> tuple[Any, ...]:
    return tuple(value for _, value in scope.values)


def _of(values: ScopeValues, fields: tuple[str, ...]) -> tuple[Any, ...]:
    """What a row has there; a missing value reads as None."""
    return tuple(values.get(name) for name in fields)

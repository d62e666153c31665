"""Nearest neighbours by exact search over the ledger's vectors, always as of the latest commit."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from memory.errors import IndexFault, LedgerError
from memory.index.beside import Beside
from memory.index.bounded import BoundedRows, with_room
from memory.index.products import Ints
from memory.ledger import Change, Ledger, Reader, ScopeValues
from memory.models import Scope, Vector
from memory.protocols import Query, Shortlist

logger = logging.getLogger(__name__)

_MOST = 6_500_000
"""Numbers that are read faster than Chroma answers: of 100,000 vectors of 256, by their bounds."""
_KEPT = 25_600_000
"""Numbers in all vectors that are read to be searched exactly: 100 MB, of 100,000 of 256."""
_READ_AT_ONCE = 1_280_000
"""Numbers in vectors that are read while somebody waits: of 5,000, in some 40 ms."""
_PAGE = 100
"""Vectors that are read in one go where nobody waits for them, in some 2 ms."""
_REST = 3.0
"""How long the reading rests after each page, in the time that took it."""


class ExactIndex:
    """All live vectors in memory, caught up from the ledger before each answer."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._live = LiveVectors()
        self._reading = Beside("exact", self._steps, pause=_REST)
        self._numbers: int | None = None
        """In all live vectors, when that was last counted; None before."""
        self._fails = False
        """Whether the vectors could not be read beside others."""

    def nearest(self, queries: Sequence[Query]) -> list[Shortlist]:
        with self._lock:
            self._catch_up()
            found = self._live.nearest(queries)
        return [Shortlist(tuple(name for name, _ in some)) for some in found]

    def begin(self, *, often: bool) -> None:
        """Read the vectors: few at once, and more of them beside others where it is asked often."""
        if self._live.is_whole or self._fails or self._reading.is_under_way:
            return
        if self._numbers is None:
            with self._ledger.reading() as reader:
                self._numbers = reader.followers.count() * (reader.vectors.dim() or 0)
        if self._numbers <= _READ_AT_ONCE:
            self.follow()
        elif often and self._numbers <= _KEPT:
            self._reading.start()

    def answers_at_once(self, scope: Scope) -> bool:
        """Whether its vectors are read, and of this scope are no more than it is the faster with.

        Not while somebody else is served: that may take as long as reading all of them. Where all
        have become many, and those of the scope are, it lets go of them.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            live = self._live
            if not live.is_whole or live.read_for(scope) <= _MOST:
                return live.is_whole
            if live.numbers > _KEPT:
                self._live, self._numbers = LiveVectors(), live.numbers
            return False
        finally:
            self._lock.release()

    def keep_up(self) -> None:
        """Take in what the ledger has committed, where the vectors are read."""
        if self._live.is_whole:
            self.follow()

    def follow(self) -> None:
        with self._lock:
            self._catch_up()

    def _catch_up(self) -> None:
        try:
            with self._ledger.reading() as reader:
                self._live.catch_up(reader)
        except BaseException:  # half of what has changed is worse than nothing
            self._live = LiveVectors()
            raise

    def _steps(self) -> Generator[None, None, None]:
        """Nobody waits for the vectors: whoever needs them meanwhile reads them too.

        Each page is read by itself: a long look would keep the ledger's log from being cleared.
        """
        fresh, page = LiveVectors(), _PAGE
        try:
            while page:
                with self._ledger.reading() as reader:
                    page = fresh.read_page(reader, page)
                yield
            with self._ledger.reading() as reader:
                fresh.catch_up(reader)
            with self._lock:
                if not self._live.is_whole:
                    self._live = fresh
        except (IndexFault, LedgerError) as exc:
            self._fails = True
            logger.warning("the vectors cannot be read to be searched exactly: %s", exc)

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
        """Nothing on disk is held; what is under way ends."""
        self._reading.stop()


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
        if {len(vector) for vector in vectors} | ({self._rows.dim} if self._ids else set()) != {
            len(vectors[0])
        }:
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
        self._numbers = np.empty(0, np.int32)
        self._count = 0
        self.sizes: Counter[tuple[Any, ...]] = Counter()
        """How many rows have these values."""

    def append(self, some: Sequence[tuple[Any, ...]]) -> None:
        """The values of more rows."""
        self._numbers = with_room(self._numbers, self._count, len(some))
        for row, values in enumerate(some, self._count):
            if values not in self._number_of:
                self._number_of[values] = len(self._values)
                self._values.append(values)
            self._numbers[row] = self._number_of[values]
        self._count += len(some)
        self.sizes.update(some)

    def move_last_to(self, row: int) -> None:
        """The last row takes the place of a removed one, which may be itself."""
        self._count -= 1
        self.sizes[self._values[self._numbers[row]]] -= 1
        self._numbers[row] = self._numbers[self._count]

    def rows(self, values: tuple[Any, ...]) -> Ints:
        """In order."""
        number = self._number_of.get(values, -1)
        return np.flatnonzero(self._numbers[: self._count] == number)


def _told(scope: Scope) -> tuple[Any, ...]:
    return tuple(value for _, value in scope.values)


def _of(values: ScopeValues, fields: tuple[str, ...]) -> tuple[Any, ...]:
    """What a row has there; a missing value reads as None."""
    return tuple(values.get(name) for name in fields)

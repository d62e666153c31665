"""Exact search in vectors that are loaded into RAM for one user at a time, up to a limit."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from memory.ledger import Ledger, Reader
from memory.models import SCOPE_FIELDS, Scope
from memory.protocols import Query
from memory.search.live import BOUNDED_FROM, LiveVectors, best_of, bytes_of

EVERYBODY = Scope(())
_NOBODY = Scope((("user", None),))


class VectorsByUser:
    """The vectors of recently searched users, in RAM, kept up to date with the ledger.

    A user's vectors are loaded at the first query. Up to `limit` bytes are held; the users searched
    longest ago are dropped first. An object may be shared between threads: while one thread loads a
    user's vectors, other threads that need these vectors wait.
    """

    def __init__(self, ledger: Ledger, limit: int, bounded_from: int = BOUNDED_FROM) -> None:
        """Hold up to `limit` bytes of vectors.

        If a user has at least `bounded_from` vectors, a query first computes upper bounds of the
        cosines. It then compares only the vectors that may be among the nearest, which is faster.
        """
        self._ledger = ledger
        self._bounded_from = bounded_from
        self._limit = limit
        self._lock = threading.Lock()
        """Held while the fields below change, but never while vectors are loaded."""
        self.loaded: OrderedDict[Scope, LiveVectors] = OrderedDict()
        """The loaded vectors by owner; the owner searched last is at the end."""
        self._used = 0
        """The size of all loaded vectors, in bytes."""
        self._loading: dict[Scope, threading.Lock] = {}
        self._too_large: set[Scope] = set()
        self._revision = 0
        """The ledger's revision that all loaded vectors correspond to."""
        self._fields: tuple[str, ...] = ()
        """The metadata keys that scopes of earlier queries contain."""
        self._nobodys: Scope | None = None
        """The scope that is loaded to search memories without a user.

        None until it is needed.
        """

    def owner(self, scope: Scope) -> Scope:
        """Return the owner of a scope: a larger or equal scope, whose vectors are loaded together.

        To search in `scope`, the owner's vectors must be loaded. The owner is one of these:

        - the memories of one user, if `scope` names this user;
        - the memories that belong to no user, if the field `user` of `scope` is None and fewer than
          half of all memories belong to no user;
        - everybody's memories in all other cases.
        """
        values = dict(scope.values)
        if "user" not in values:
            return EVERYBODY
        if values["user"] is not None:
            return Scope((("user", values["user"]),))
        if self._nobodys is None:
            with self._ledger.reading() as reader:
                most = 2 * reader.followers.count(_NOBODY) >= reader.followers.last_seq()
            self._nobodys = EVERYBODY if most else _NOBODY
        return self._nobodys

    def current(self, owner: Scope, queries: Sequence[Query]) -> LiveVectors | None:
        """Return an owner's vectors as of the latest commit; load them if necessary.

        Return None if the vectors exceed the limit. `owner` is what the method `owner` returns for
        the scope of each query. `queries`, at least one, show which metadata keys must be loaded,
        and which dimension the vectors have.

        Raises: IndexFault, LedgerError.
        """
        fields = {name for query in queries for name, _ in query.scope.values} - {*SCOPE_FIELDS}
        while True:
            with self._lock:
                if fresh := fields.difference(self._fields):
                    self._fields = (*self._fields, *sorted(fresh))
                    self._drop_all()
                is_known = owner in self.loaded or owner in self._too_large
                loading = None if is_known else self._loading.setdefault(owner, threading.Lock())
            with loading or contextlib.nullcontext(), contextlib.ExitStack() as stack:
                with self._lock:
                    if owner in self._too_large:
                        return None
                    # Opened under the lock: no later query sees an earlier state.
                    reader = stack.enter_context(self._ledger.reading())
                    revision = reader.revision()
                    if self.loaded and revision != self._revision:
                        self._catch_up(reader)
                    self._revision = revision
                    if owner in self.loaded:
                        self.loaded.move_to_end(owner)
                        if self._used > self._limit:
                            self._make_room(0)
                        return self.loaded[owner]
                if loading and (
                    vectors := self._load(reader, owner, len(queries[0].vector), revision)
                ):
                    return vectors

    def has_too_large(self) -> bool:
        """Return whether any user's vectors, or those of memories without a user, exceed the limit.

        Raises: LedgerError.
        """
        with self._ledger.reading() as reader:
            most = max(reader.counts().users.values(), default=0)
            return bytes_of(most, reader.vectors.dim() or 0) > self._limit

    def forget_all(self) -> None:
        """Drop all loaded vectors; the next query loads them again."""
        with self._lock:
            self._drop_all()
            self._too_large.clear()

    def _load(self, reader: Reader, owner: Scope, dim: int, revision: int) -> LiveVectors | None:
        """Load an owner's vectors, and return them.

        Return None if the vectors exceed the limit. Also return None if another query needed a
        further metadata key during the loading: the vectors were then loaded without this key, and
        the caller must load them again. `dim` is the dimension of the vectors. `revision` is the
        ledger's revision that `reader` sees.
        """
        vectors, fields = LiveVectors(owner, self._bounded_from), self._fields
        count = reader.followers.count(owner)
        expected = bytes_of(count, dim)
        with self._lock:
            if expected > self._limit:
                self._too_large.add(owner)
                return None
            self._make_room(expected)
        vectors.load(reader, fields, count, dim)
        with self._lock:
            if fields != self._fields:
                return None
            self._revision = min(self._revision, revision)
            self.loaded[owner] = vectors
            self._used += vectors.nbytes
            self._loading.pop(owner, None)
        return vectors

    def _catch_up(self, reader: Reader) -> None:
        """Update all loaded vectors with the changes that the ledger made after `_revision`.

        If the update fails, all loaded vectors are dropped, because some may lack changes.
        """
        try:
            changes = reader.followers.changes(self._revision, fields=self._fields)
            by_id = {change.id: change for change in changes}
            # A memory that has another user now, or none, is still among its last owner's vectors.
            of_owner = {
                owner: [by_id[name] for name in held]
                for owner, vectors in self.loaded.items()
                if (held := vectors.row_of.keys() & by_id.keys())
            }
            for change in changes:
                for owner in (EVERYBODY, Scope((("user", change.values["user"]),))):
                    if owner in self.loaded:
                        of_owner.setdefault(owner, []).append(change)
            theirs = [change for of_one in of_owner.values() for change in of_one if change.live]
            known = reader.vectors.of(change.text_key for change in theirs)
            for owner, of_one in of_owner.items():
                self._used -= self.loaded[owner].nbytes
                self.loaded[owner].apply(of_one, known)
                self._used += self.loaded[owner].nbytes
                if self.loaded[owner].nbytes > self._limit:
                    self._used -= self.loaded.pop(owner).nbytes
                    self._too_large.add(owner)
        except BaseException:  # Ctrl-C too
            self._drop_all()
            raise

    def _make_room(self, expected: int) -> None:
        """Drop loaded vectors until `expected` more bytes fit into the limit.

        The vectors of the owner searched longest ago are dropped first. If `expected` is 0, those
        of the owner searched last are kept, even if they exceed the limit.
        """
        while self._used + expected > self._limit and len(self.loaded) > (not expected):
            self._used -= self.loaded.popitem(last=False)[1].nbytes

    def _drop_all(self) -> None:
        self.loaded.clear()
        self._used = 0


def nearest_in_parts(ledger: Ledger, owner: Scope, queries: Sequence[Query]) -> list[list[str]]:
    """Search an owner's vectors in the ledger in parts: exactly and with little RAM, but slowly.

    `owner` is a scope that contains the scopes of all queries. Return, for each query, the ids of
    the `query.k` nearest memories, nearest first.

    Raises: LedgerError, IndexFault.
    """
    fields = sorted({name for query in queries for name, _ in query.scope.values} - {*SCOPE_FIELDS})
    best: list[list[tuple[float, int, str]]] = [[] for _ in queries]
    with ledger.reading() as reader:
        for part, rows in enumerate(reader.followers.live(owner, fields)):
            known = reader.vectors.of([row.text_key for row in rows])
            rows = [row for row in rows if row.text_key in known]
            if not rows:
                continue
            matrix = np.stack([known[row.text_key] for row in rows])
            for n, query in enumerate(queries):
                inside = np.flatnonzero([query.scope.holds(row.values) for row in rows])
                scores = matrix[inside] @ query.vector
                near = [
                    (-float(scores[m]), part, rows[inside[m]].id) for m in best_of(scores, query.k)
                ]
                best[n] = sorted([*best[n], *near], key=lambda scored: scored[:2])[: query.k]
    return [[memory_id for _, _, memory_id in scored] for scored in best]

"""Exact search in vectors that are loaded by user, within a limit of memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from memory.ledger import Change, Ledger, Reader
from memory.models import SCOPE_FIELDS, Scope
from memory.protocols import Query
from memory.search.live import LiveVectors, best_of

EVERYBODY = Scope(())
_NOBODY = Scope((("user", None),))
_FLOAT = np.dtype(np.float32).itemsize


class VectorsByUser:
    """Each user's vectors, loaded when first asked about and caught up before each answer.

    The most recently asked about stay, up to `limit` bytes. Safe to share between threads: one
    loads, whoever else asks about the same user waits for it.
    """

    def __init__(self, ledger: Ledger, limit: int) -> None:
        self._ledger = ledger
        self._limit = limit
        self._lock = threading.Lock()
        """Held while the fields below change; never while anything is loaded."""
        self._loaded: OrderedDict[Scope, LiveVectors] = OrderedDict()
        self._loading: dict[Scope, threading.Lock] = {}
        self._too_large: set[Scope] = set()
        self._revision = 0
        """What all that is loaded has taken in."""
        self._fields: tuple[str, ...] = ()
        """Keys of the metadata that scopes have named."""
        self._nobodys: Scope | None = None
        """Whose vectors memories without a user are found in, once that was looked up."""

    def owner(self, scope: Scope) -> Scope:
        """Whose vectors a scope is searched in: those of its user, or everybody's.

        Where half of the memories have no user, everybody's serve for those too.
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

    def nearest(self, owner: Scope, queries: Sequence[Query]) -> list[list[str]] | None:
        """The ids for each query, nearest first; None where the owner's vectors are too many.

        Raises: IndexFault, LedgerError.
        """
        self._keep_fields(queries)
        vectors = self._current(owner)
        if vectors is None:
            return None
        with vectors.lock:
            return vectors.nearest(queries)

    def has_too_large(self) -> bool:
        """Whether any user's vectors, or everybody's where they have no user, do not fit."""
        with self._ledger.reading() as reader:
            most = max(reader.counts().users.values(), default=0)
            return self._bytes(reader, most) > self._limit

    def loaded(self) -> dict[Scope, int]:
        """How many bytes each owner's vectors take, those asked about last at the end."""
        with self._lock:
            return {owner: vectors.nbytes for owner, vectors in self._loaded.items()}

    def forget_all(self) -> None:
        """Let go of all vectors."""
        with self._lock:
            self._loaded.clear()
            self._too_large.clear()

    def _keep_fields(self, queries: Sequence[Query]) -> None:
        """Scopes of other metadata than before need vectors loaded with them."""
        named = {name for query in queries for name, _ in query.scope.values}
        if fresh := named.difference(SCOPE_FIELDS, self._fields):
            with self._lock:
                self._fields = (*self._fields, *sorted(fresh))
                self._loaded.clear()

    def _current(self, owner: Scope) -> LiveVectors | None:
        while True:
            with self._lock:
                if owner in self._too_large:
                    return None
                loading = self._loading.setdefault(owner, threading.Lock())
                is_loaded = owner in self._loaded
            if not is_loaded:
                with loading:
                    self._load(owner)
            with self._lock:
                if owner in self._loaded:
                    self._catch_up(owner)
                if owner in self._loaded:
                    self._loaded.move_to_end(owner)
                    return self._loaded[owner]

    def _load(self, owner: Scope) -> None:
        """Unless another thread has done it meanwhile."""
        if owner in self._loaded or owner in self._too_large:
            return
        vectors, fields = LiveVectors(owner), self._fields
        with self._ledger.reading() as reader:
            revision, count = reader.revision(), reader.followers.count(owner)
            expected = self._bytes(reader, count)
            with self._lock:
                if expected > self._limit:
                    self._too_large.add(owner)
                    return
                self._make_room(expected)
            vectors.load(reader, fields, count)
        with self._lock:
            if fields == self._fields:
                self._revision = min(self._revision, revision) if self._loaded else revision
                self._loaded[owner] = vectors
                self._loading.pop(owner, None)

    def _bytes(self, reader: Reader, count: int) -> int:
        return count * _FLOAT * (reader.vectors.dim() or 0)

    def _catch_up(self, owner: Scope) -> None:
        """Take in what the ledger has committed; an owner that is too large now is let go of."""
        try:
            with self._ledger.reading() as reader:
                revision = reader.revision()
                if revision != self._revision:
                    self._take_in(reader)
            self._revision = revision
        except BaseException:  # half of what has changed is worse than nothing
            self._loaded.clear()
            raise
        if self._loaded[owner].nbytes > self._limit:
            del self._loaded[owner]
            self._too_large.add(owner)
        else:
            self._loaded.move_to_end(owner)
            self._make_room(0)

    def _take_in(self, reader: Reader) -> None:
        changes = reader.followers.changes(self._revision, fields=self._fields)
        by_id = {one.id: one for one in changes}
        of: dict[Scope, list[Change]] = {EVERYBODY: changes}
        for one in changes:
            of.setdefault(Scope((("user", one.values["user"]),)), []).append(one)
        keys = {one.text_key for owner in self._loaded for one in of.get(owner, ()) if one.live}
        known = reader.vectors.of(keys) if keys else {}
        for owner, vectors in self._loaded.items():
            with vectors.lock:
                # What is somebody else's now, or was forgotten with its user, is still here.
                left = [by_id[name] for name in vectors.held(by_id.keys())]
                vectors.apply([*left, *of.get(owner, ())], known)

    def _make_room(self, expected: int) -> None:
        """Let go of those asked about longest ago, until so many bytes fit; one stays for none."""
        used = sum(one.nbytes for one in self._loaded.values()) + expected
        while used > self._limit and len(self._loaded) > (not expected):
            _, gone = self._loaded.popitem(last=False)
            used -= gone.nbytes


def nearest_in_parts(ledger: Ledger, owner: Scope, queries: Sequence[Query]) -> list[list[str]]:
    """The same from the ledger, page by page: exact, in little memory, and slow.

    Raises: LedgerError, IndexFault.
    """
    fields = sorted({name for one in queries for name, _ in one.scope.values} - {*SCOPE_FIELDS})
    best: list[list[tuple[float, int, str]]] = [[] for _ in queries]
    with ledger.reading() as reader:
        for number, rows in enumerate(reader.followers.live(owner, fields)):
            known = reader.vectors.of([row.text_key for row in rows])
            rows = [row for row in rows if row.text_key in known]
            if not rows:
                continue
            matrix = np.stack([known[row.text_key] for row in rows])
            for position, query in enumerate(queries):
                inside = np.flatnonzero([query.scope.holds(row.values) for row in rows])
                scores = matrix[inside] @ query.vector
                best[position] += [
                    (-float(scores[n]), number, rows[inside[n]].id)
                    for n in best_of(scores, query.k)
                ]
                best[position] = sorted(best[position], key=lambda one: one[:2])[: query.k]
    return [[name for _, _, name in some] for some in best]

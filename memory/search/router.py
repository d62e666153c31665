"""Nearest neighbours: exactly in RAM, by an approximate index, or directly from the ledger.

Vectors are loaded per user, up to a limit of bytes.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from memory.errors import IndexFault
from memory.ledger import Change, Ledger, LiveRow, Reader
from memory.models import Ints, Query, Scope, Vector, VectorIndex, Vectors, chunks, slack
from memory.search.index import Follower, index_faults
from memory.search.scores import Best, Spread, WordScores, multiplied

EVERYBODY = Scope(())
_PRODUCTS = 4_000_000
_SCOPES = 16
"""The cache `LiveVectors._held` is cleared when it contains more than this many scopes."""
BOUNDED_FROM = 10_000
"""For a single query, `_likely` is used if at least this many memories are in its scope."""
_DIMS_PER_AXIS = 4
_SAMPLE = 2_000
_OVERSAMPLING = 4
_MIXED = "its vectors have different dimensions", "run `memory-dedup doctor`"

_MARGIN = 0.001
"""More than a product of unit vectors in float32 can be wrong by."""


class LiveVectors:
    """The vectors of all live memories in the scope `owner`, as a matrix that is changed in place.

    An object may be shared between threads.
    """

    def __init__(
        self,
        owner: Scope,
        reader: Reader,
        fields: Sequence[str],
        dim: int,
        count: int,
    ) -> None:
        """Read the vectors of the owner's live memories from the ledger.

        `fields`: the metadata keys that scopes may contain. `count`: about how many memories the
        owner has.

        Raises: IndexFault if a vector does not have `dim` dimensions.
        """
        self.owner = owner
        self._lock = threading.Lock()
        self._ids: list[str] = []
        self.row_of: dict[str, int] = {}
        room = count + count // 16 + 1
        self.nbytes = bytes_of(room, dim)
        self._matrix: Vectors = np.empty((room, dim), np.float32)
        """A row for each of `_ids`, then spare rows. `_numbers` and `_kinds` have the same rows."""
        self._numbers: Ints = np.empty(room, np.int64)  # from the ledger, in order of arrival
        self._kinds: npt.NDArray[np.int32] = np.empty(room, np.int32)
        self._axes: Vectors = np.empty((0, 0), np.float32)
        """Orthonormal columns (dim, m), near the leading principal axes; empty until needed."""
        self._short: Vectors = np.empty((0, 0), np.float32)
        """The rows of `_matrix` as `_shortened` by `_axes`, shape (n, m + 1)."""
        self._kind_of: dict[tuple[tuple[str, object], ...], int] = {}
        self._held: dict[Scope, list[bool]] = {}
        keys: list[str] = []
        for rows in reader.followers.live(owner, fields):
            keys += [row.text_key for row in rows]
            self._append(rows)
        try:
            missing = reader.vectors.fill(self._matrix, keys)
        except ValueError as exc:
            raise IndexFault(*_MIXED) from exc
        for row in reversed(missing):
            self._remove(self._ids[row])

    def apply(self, changes: Iterable[Change], vectors: Mapping[str, Vector]) -> None:
        """Add, replace or remove the matrix rows of memories that changed.

        `vectors` maps the `Change.text_key` of live memories to their vectors. A memory without a
        vector gets no row.

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
                raise IndexFault(*_MIXED) from exc

    def nearest(self, queries: Sequence[Query]) -> list[list[str]]:
        """Return the ids of each query's `k` nearest memories in its scope, nearest first.

        Those that are surely below the query's `min_cosine` are left out.
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
                for start in range(0, len(positions) if len(rows) else 0, at_once):
                    batch, likely = positions[start : start + at_once], rows
                    vectors = np.stack([queries[position].vector for position in batch])
                    if len(batch) > 1:
                        products = (vectors @ matrix.T)[:, rows]
                    elif len(rows) >= BOUNDED_FROM:
                        likely = self._likely(queries[batch[0]], rows)
                        products = multiplied(matrix[likely], vectors[0])[None]
                    else:
                        products = multiplied(matrix, vectors[0])[None, rows]
                    for position, scores in zip(batch, products, strict=True):
                        query = queries[position]
                        best = best_of(scores, query.k)
                        near = scores[best] >= query.min_cosine - _MARGIN
                        found[position] = [self._ids[row] for row in likely[best[near]]]
        return found

    def _likely(self, query: Query, rows: Ints) -> Ints:
        """Return `rows` without those that cannot be among the `query.k` nearest.

        A row is dropped if its product with the query is surely less than `query.k` other
        products. The product's upper bound is the product along `_axes`, plus the product of the
        lengths of the parts orthogonal to the axes (Cauchy-Schwarz inequality). The axes come from
        one step of a randomised range finder (Halko, Martinsson, Tropp 2011, algorithm 4.3).
        """
        if not 0 < _OVERSAMPLING * query.k < len(rows):
            return rows
        if not self._axes.size:
            vectors = self._matrix[: len(self._ids)]
            sample = vectors[:: len(vectors) // _SAMPLE + 1].astype(np.float64)
            dim = sample.shape[1]
            drawn = np.random.default_rng(0).standard_normal((dim, -(-dim // _DIMS_PER_AXIS)))
            self._axes = np.linalg.qr(sample.T @ (sample @ drawn))[0].astype(np.float32)
            self._short = np.empty((len(self._matrix), self._axes.shape[1] + 1), np.float32)
            for part in chunks(len(vectors), 4_096):
                self._short[: len(vectors)][part] = _shortened(vectors[part], self._axes)
        short = _shortened(query.vector[None], self._axes)[0]
        bounds = multiplied(self._short[: len(self._ids)], short)[rows]
        highest = np.argpartition(bounds, -_OVERSAMPLING * query.k)[-_OVERSAMPLING * query.k :]
        products = self._matrix[rows[highest]] @ query.vector
        least = np.partition(products, -query.k)[-query.k] - slack(len(query.vector))
        likely: Ints = rows[bounds >= least]
        return likely

    def best(self, query: Query, words: WordScores) -> Best:
        """Return the `query.k` memories in the query's scope that answer the query best.

        They are ranked by a sum: the z-score of the cosine plus the z-score of BM25 (`words`).
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
        if len(self._held) > _SCOPES:
            self._held.clear()
        held = self._held.setdefault(scope, [])
        if len(held) < len(self._kind_of):
            held += [scope.holds(dict(kind)) for kind in islice(self._kind_of, len(held), None)]
        return np.flatnonzero(np.array(held, np.bool_)[self._kinds[: len(self._ids)]])

    def _append(self, rows: Sequence[LiveRow | Change]) -> None:
        start, end = len(self._ids), len(self._ids) + len(rows)
        if end > len(self._matrix):  # enlarged in place: no view may be in use
            room = end + end // 8 + 8
            self._matrix.resize((room, self._matrix.shape[1]), refcheck=False)
            self._numbers.resize(room, refcheck=False)
            self._kinds.resize(room, refcheck=False)
            if self._axes.size:
                self._short.resize((room, self._short.shape[1]), refcheck=False)
            self.nbytes = bytes_of(*self._matrix.shape)
        self._ids += [row.id for row in rows]
        self.row_of.update(zip(self._ids[start:], range(start, end), strict=True))
        self._numbers[start:end] = [row.number for row in rows]
        different = {id(row.values): row.values for row in rows}
        kinds = {
            key: self._kind_of.setdefault(tuple(values.items()), len(self._kind_of))
            for key, values in different.items()
        }
        self._kinds[start:end] = [kinds[id(row.values)] for row in rows]

    def _remove(self, memory_id: str) -> None:
        row = self.row_of.pop(memory_id)
        last_id = self._ids.pop()
        for column in (self._matrix, self._numbers, self._kinds, self._short):
            if len(column):
                column[row] = column[len(self._ids)]
        if last_id != memory_id:
            self._ids[row] = last_id
            self.row_of[last_id] = row


_NOBODY = Scope((("user", None),))


class VectorsByUser:
    """The vectors of recently searched users in RAM, kept up to date with the ledger.

    They take at most `limit` bytes: the users searched longest ago are dropped. An object may be
    shared between threads.
    """

    def __init__(self, ledger: Ledger, limit: int) -> None:
        self._ledger = ledger
        self._limit = limit
        self._lock = threading.Lock()
        """Held while the fields below change, but never while vectors are loaded."""
        self.loaded: OrderedDict[Scope, LiveVectors] = OrderedDict()
        self._loading: dict[Scope, threading.Lock] = {}
        self._too_large: set[Scope] = set()
        self._revision = 0
        self._fields: tuple[str, ...] = ()

    def current(self, owner: Scope, queries: Sequence[Query]) -> LiveVectors | None:
        """Return up-to-date vectors for searches in `owner`; None if they take too many bytes.

        `queries`: the searches, at least one. The vectors are loaded with the metadata keys in the
        scopes of the queries. `owner`: must be `owner_of(query.scope)` for every query.

        Raises: IndexFault, LedgerError.
        """
        fields = {name for query in queries for name in query.scope.metadata_fields}
        while True:
            with self._lock:
                if fresh := fields.difference(self._fields):
                    self._fields = (*self._fields, *sorted(fresh))
                    self.loaded.clear()
                if owner == _NOBODY and EVERYBODY in self.loaded:
                    owner = EVERYBODY  # it contains the memories without a user
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
                        self._evict(0)
                        return self.loaded[owner]
                if loading and (
                    vectors := self._load(reader, owner, len(queries[0].vector), revision)
                ):
                    return vectors

    def has_too_large(self) -> bool:
        with self._ledger.reading() as reader:
            most = max(reader.counts().users.values(), default=0)
            return bytes_of(most, reader.vectors.dim() or 0) > self._limit

    def measure_again(self) -> None:
        """Let owners whose vectors took too many bytes be measured again."""
        with self._lock:
            self._too_large.clear()

    def forget_all(self) -> None:
        with self._lock:
            self.loaded.clear()
            self._too_large.clear()

    def _load(self, reader: Reader, owner: Scope, dim: int, revision: int) -> LiveVectors | None:
        """Load an owner's vectors, as of the reader's `revision`; None if they exceed the limit.

        Also return None if another thread began a search by a further metadata key meanwhile. The
        loaded vectors lack the values of this key, so the caller must load them again.
        """
        fields = self._fields
        count = reader.followers.count(owner)
        expected = bytes_of(count, dim)
        with self._lock:
            if expected > self._limit:
                self._too_large.add(owner)
                return None
            self._evict(expected)
        vectors = LiveVectors(owner, reader, fields, dim, count)
        with self._lock:
            if fields != self._fields:
                return None
            self._revision = min(self._revision, revision)
            self.loaded[owner] = vectors
            self._loading.pop(owner, None)
        return vectors

    def _catch_up(self, reader: Reader) -> None:
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
                self.loaded[owner].apply(of_one, known)
                if self.loaded[owner].nbytes > self._limit:
                    del self.loaded[owner]
                    self._too_large.add(owner)
        except BaseException:  # Ctrl-C too
            self.loaded.clear()
            raise

    def _evict(self, expected: int) -> None:
        """Drop the owners searched longest ago, until `expected` more bytes fit into the limit.

        If `expected` is 0, the owner searched last stays, even if it alone exceeds the limit.
        """
        used = sum(vectors.nbytes for vectors in self.loaded.values())
        while used + expected > self._limit and len(self.loaded) > (not expected):
            used -= self.loaded.popitem(last=False)[1].nbytes


def owner_of(scope: Scope) -> Scope:
    """Return the scope whose vectors must be loaded for a search in `scope`.

    The result has only the field `user`, with its value from `scope`: an id or None. If `scope` has
    no field `user`, the result is EVERYBODY.
    """
    values = dict(scope.values)
    return Scope((("user", values["user"]),)) if "user" in values else EVERYBODY


def nearest_in_parts(ledger: Ledger, owner: Scope, queries: Sequence[Query]) -> list[list[str]]:
    """Return the ids of each query's `k` nearest memories, reading a part of the ledger at a time.

    This needs little RAM, but is slow. `owner`: a scope that contains the scopes of all queries.

    Raises: LedgerError, IndexFault.
    """
    fields = {name for query in queries for name in query.scope.metadata_fields}
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


def best_of(scores: npt.NDArray[np.floating[Any]], k: int) -> Ints:
    """Return the positions of the `k` highest scores, highest first.

    Of equal scores, the one with the lower position comes first.
    """
    if 0 < k < len(scores):
        least = np.partition(scores, -k)[-k]
        likely = np.flatnonzero(scores >= least)
    else:
        likely = np.arange(len(scores))
    return likely[np.argsort(-scores[likely], kind="stable")[: max(k, 0)]]


def bytes_of(rows: int, dim: int) -> int:
    bounds = dim // _DIMS_PER_AXIS + 1 if rows >= BOUNDED_FROM else 0
    return rows * (dim + bounds) * np.dtype(np.float32).itemsize


def _shortened(vectors: Vectors, axes: Vectors) -> Vectors:
    """Return the coordinates of vectors (n, dim) along axes (dim, m), in the shape (n, m + 1).

    The last column is the length, rounded up, of the part that is orthogonal to all axes.
    """
    leading = multiplied(vectors, axes)
    rest = np.vecdot(vectors, vectors) - np.vecdot(leading, leading)
    lengths = np.sqrt(np.maximum(rest, 0) + slack(vectors.shape[1]))
    return np.column_stack([leading, lengths])


# --- which search answers: in RAM, by an index, or from the ledger --------------------------------

logger = logging.getLogger(__name__)

_MEASURED_EVERY = 100
"""After so many searches beyond the limit, it is looked up whether the vectors fit again."""
_REMEDY = "raise memory.search.vectors_mb, or set memory.search.chroma_url"


class SearchRouter:
    """A search for the live memories of a ledger that are nearest to a query.

    It sees the latest commit. If the vectors of the query's user fit into RAM, they are searched
    there; otherwise in an approximate index or, without one, in the ledger. An object may be shared
    between threads.
    """

    def __init__(
        self,
        ledger: Ledger,
        limit: int,
        open_index: Callable[[Ledger], VectorIndex] | None = None,
        *,
        at_once: bool = False,
    ) -> None:
        """Keep at most `limit` bytes of vectors in RAM.

        `open_index` opens the index; None means that there is no index. It is called when a user's
        vectors exceed the limit. With `at_once`, it is called at the first query, so that a
        server's wrong address is noticed early.
        """
        self._ledger = ledger
        self._by_user = VectorsByUser(ledger, limit)
        self._open_index = open_index
        self._at_once = at_once
        self._lock = threading.Lock()
        self._follower: Follower | None = None
        self._searches_beyond = 0
        self._has_warned = False

    @property
    def name(self) -> str:
        """The search in use, as shown to people: "exact search" or the name of the index."""
        return "exact search" if self._follower is None else self._follower.index.name

    @property
    def has_index(self) -> bool:
        """Whether an index is open or could be opened."""
        return self._open_index is not None

    def nearest(self, queries: Sequence[Query]) -> list[list[str]]:
        """Return, for each query, the ids of memories that may be nearest to it.

        The caller must rank them; there may be more than `query.k`.

        Raises: MemoryPipelineError if the ledger cannot be searched.
        """
        if self._at_once:
            self._open_early()
        owners: dict[Scope, list[int]] = {}
        for position, query in enumerate(queries):
            owners.setdefault(owner_of(query.scope), []).append(position)
        found: list[list[str]] = [[] for _ in queries]
        for owner, positions in owners.items():
            theirs = [queries[position] for position in positions]
            vectors = self._by_user.current(owner, theirs)
            answers = vectors.nearest(theirs) if vectors else self._beyond(owner, theirs)
            for position, names in zip(positions, answers, strict=True):
                found[position] = names
        return found

    def best(self, query: Query, words: WordScores) -> Best | None:
        """Return the `query.k` memories that answer a query best by vector and by words.

        Return None if the user's vectors do not fit into RAM.

        Raises: MemoryPipelineError if the ledger cannot be searched.
        """
        if self._at_once:
            self._open_early()
        vectors = self._by_user.current(owner_of(query.scope), [query])
        return vectors.best(query, words) if vectors else None

    def scrub(self) -> None:
        if follower := self._opened():
            follower.scrub()

    def disagreement(self) -> str:
        """Return how the index differs from the ledger, as text; "" if it does not.

        Raises: IndexFault, LedgerError.
        """
        follower = self._opened() if self._by_user.has_too_large() else None
        return "" if follower is None else follower.disagreement()

    def unneeded(self) -> list[str]:
        if self._by_user.has_too_large():
            return []
        with self._ledger.reading() as reader:
            return [place for place in reader.followers.locations() if Path(place).is_dir()]

    def rebuild(self, on_progress: Callable[[int, int], None] | None = None) -> None:
        """Drop the vectors in RAM; if there is an index, refill it from the ledger.

        Raises: IndexFault, LedgerError.
        """
        self._by_user.forget_all()
        if follower := self._opened():
            follower.rebuild(on_progress)

    def close(self) -> None:
        self._by_user.forget_all()
        self._give_up()

    def _open_early(self) -> None:
        self._at_once = False
        self._approximately([])

    def _beyond(self, owner: Scope, queries: Sequence[Query]) -> list[list[str]]:
        self._searches_beyond += 1
        if self._searches_beyond % _MEASURED_EVERY == 0:
            self._by_user.measure_again()
        answers = self._approximately(queries)
        left = [query for query, names in zip(queries, answers, strict=True) if names is None]
        exact = iter(nearest_in_parts(self._ledger, owner, left) if left else ())
        return [next(exact) if names is None else names for names in answers]

    def _approximately(self, queries: Sequence[Query]) -> list[list[str] | None]:
        try:
            if follower := self._opened():
                # One query, as a command makes it, is not worth filling an index.
                return follower.nearest(queries, fill=self._searches_beyond > 1) if queries else []
        except IndexFault as exc:
            self._give_up()
            self._warn_once(f"similarity query failed, searching exactly from here on: {exc}")
        if queries:
            self._warn_once("these memories do not fit into memory, and no index is open for them")
        return [None] * len(queries)

    def _warn_once(self, problem: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning("%s; in large scopes that takes seconds: %s", problem, _REMEDY)

    def _opened(self) -> Follower | None:
        with self._lock:
            if self._follower is None and self._open_index is not None:
                with index_faults():
                    index = self._open_index(self._ledger)
                self._follower = Follower(index, self._ledger)
            return self._follower

    def _give_up(self) -> None:
        with self._lock:
            follower, self._follower, self._open_index = self._follower, None, None
        if follower is not None:
            follower.close()

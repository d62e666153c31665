"""Vectors by text key, and what a vector index needs to follow the ledger.

Memories with the same text share a vector.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.tables import Prepared, ScopeValues, TableGroup, among, in_scope, scope_values_of
from memory.models import SCOPE_FIELDS, Scope, Vector, Vectors, VectorTable


class Change(NamedTuple):
    """A memory that an index must read again, because it was written after a given revision.

    `text_key` is "" for a forgotten memory. `number` is the position in order of arrival.
    """

    id: str
    live: bool
    values: ScopeValues
    text_key: str
    revision: int
    number: int


class LiveRow(NamedTuple):
    """A live memory with the values that decide its scope.

    `number`: the memory's position in order of arrival.
    """

    id: str
    text_key: str
    values: ScopeValues
    number: int


_PAGE = 500
_MANY = 4
"""If more than 1/_MANY of all vectors are wanted, all are read, because that is faster."""
_OF_KEYS = Prepared(sa.select(t.vectors).where(among(t.vectors.c.text_key, "keys")))
_KNOWN = Prepared(sa.select(t.vectors.c.text_key).where(among(t.vectors.c.text_key, "keys")))
_HOLDERS = Prepared(
    sa.select(t.memories.c.id).where(
        among(t.memories.c.text_key, "keys"), t.memories.c.revision + 0 < sa.bindparam("revision")
    )
)
"""Ids of memories that have one of these text keys and were not written by this transaction.

`+ 0` makes SQLite use the index of text keys instead of the index of revisions.
"""
_EVERY = Prepared(sa.select(t.vectors))
_INSERT = Prepared(t.vectors.insert())


class TextVectors(TableGroup):
    def table(self, keys: Iterable[str], known: VectorTable | None = None) -> VectorTable:
        """Return a table of all vectors in `known` and the stored vectors of the text keys `keys`.

        Keys without a stored vector are left out.
        """
        known = known or VectorTable((), np.empty((0, self.dim() or 0), np.float32))
        wanted = sorted({key for key in keys if key not in known})
        matrix = np.empty((len(known) + len(wanted), known.matrix.shape[1]), np.float32)
        matrix[: len(known)] = known.matrix[: len(known)]
        if missing := self.fill(matrix[len(known) :], wanted):
            matrix = np.delete(matrix, [len(known) + row for row in missing], axis=0)
            wanted = np.delete(wanted, missing).tolist()
        return VectorTable([*known, *wanted], matrix)

    def of(self, keys: Iterable[str]) -> dict[str, Vector]:
        wanted = set(keys)
        rows = _OF_KEYS.rows(self._connection, keys=wanted) if wanted else ()
        return {key: np.frombuffer(vector, dtype=np.float32) for key, vector in rows}

    def fill(self, matrix: Vectors, keys: Sequence[str]) -> list[int]:
        """Read the vectors of these text keys into the first rows of `matrix`, in this order.

        Return the numbers of the rows whose key has no vector.

        Raises: ValueError if a vector is longer or shorter than the matrix's rows.
        """
        rows = {key: row for row, key in enumerate(keys)}
        is_known = np.zeros(len(keys), np.bool_)
        for page in self._pages_of(rows):
            found = [(rows[key], vector) for key, vector in page if key in rows]
            if found:
                positions = [row for row, _ in found]
                if any(len(vector) != 4 * matrix.shape[1] for _, vector in found):
                    raise ValueError("vectors of different lengths")
                values = np.frombuffer(b"".join(vector for _, vector in found), np.float32)
                matrix[positions] = values.reshape(len(found), matrix.shape[1])
                is_known[positions] = True
        if len(rows) < len(keys):  # a text that several have
            for row, key in enumerate(keys):
                matrix[row], is_known[row] = matrix[rows[key]], is_known[rows[key]]
        missing: list[int] = np.flatnonzero(~is_known).tolist()
        return missing

    def _pages_of(self, keys: Collection[str]) -> Iterator[Sequence[Any]]:
        """Yield lists of pairs (text key, vector) for these keys.

        If there are many keys, the pairs of all stored vectors are yielded, because this is faster.
        """
        if len(keys) > _PAGE:
            last = self._connection.scalar(sa.select(sa.func.max(t.memories.c.seq))) or 0
            if _MANY * len(keys) > last:
                yield from _EVERY.pages(self._connection, _PAGE)
                return
        wanted = list(keys)
        for start in range(0, len(wanted), _PAGE):
            yield _OF_KEYS.rows(self._connection, keys=wanted[start : start + _PAGE])

    def missing_texts(self) -> list[str]:
        query = (
            sa.select(sa.func.min(t.memories.c.content))
            .outerjoin(t.vectors, t.vectors.c.text_key == t.memories.c.text_key)
            .where(t.vectors.c.text_key.is_(None), t.memories.c.text_key != t.FORGOTTEN_KEY)
            .group_by(t.memories.c.text_key)
        )
        return list(self._connection.scalars(query))

    def dim(self) -> int | None:
        length = self._connection.scalar(sa.select(sa.func.length(t.vectors.c.vector)).limit(1))
        return None if length is None else int(length) // np.dtype(np.float32).itemsize

    def byte_lengths(self) -> dict[int, int]:
        """Count the stored vectors by their length in bytes. All should have the same length."""
        size = sa.func.length(t.vectors.c.vector)
        return self._transaction.counted(sa.select(size, sa.func.count()).group_by(size))

    def put(self, vectors: Mapping[str, Vector]) -> None:
        """Store vectors by text key, except for keys that have a vector already.

        Memories with a new vector get a new revision, so that indexes read the vector.
        """
        known = {row.text_key for row in _KNOWN.rows(self._connection, keys=vectors)}
        fresh = {key: vector for key, vector in vectors.items() if key not in known}
        if not fresh:
            return
        rows = [
            {"text_key": key, "vector": np.ascontiguousarray(vector, np.float32).tobytes()}
            for key, vector in fresh.items()
        ]
        _INSERT.run(self._connection, rows)
        revision = self._transaction.revision
        holders = _HOLDERS.rows(self._connection, keys=fresh, revision=revision)
        self._transaction.touched.update(row.id for row in holders)

    def replace_all(self, vectors: Mapping[str, Vector]) -> None:
        """Replace all vectors by those of another embedder; every memory gets a new revision.

        Vectors of texts that no memory has are not stored.
        """
        held = set(self._connection.scalars(sa.select(t.memories.c.text_key)))
        self._connection.execute(t.vectors.delete())
        revision = self._transaction.revision
        self._connection.execute(t.memories.update().values(revision=revision))
        self._transaction.numbered = True
        self.put({key: vectors[key] for key in sorted(held & {*vectors})})

    def drop_unused(self, keys: Collection[str]) -> set[str]:
        """Delete the vectors of texts that no memory has; return the text keys of these texts.

        Only texts whose keys are in `keys` are checked.
        """
        used = sa.select(t.memories.c.text_key).where(among(t.memories.c.text_key, keys))
        unused = set(keys) - set(self._connection.scalars(used))
        self._connection.execute(t.vectors.delete().where(among(t.vectors.c.text_key, unused)))
        return unused


# --- what an index needs to follow the ledger -----------------------------------------------------

_CHANGES = Prepared(
    sa.select(
        *(
            t.memories.c[name]
            for name in ("id", "live", "revision", "seq", "text_key", "metadata", *SCOPE_FIELDS)
        )
    )
    .where(
        t.memories.c.revision > sa.bindparam("after"), t.memories.c.revision <= sa.bindparam("last")
    )
    .order_by(t.memories.c.revision, t.memories.c.seq)
)
_ROWS_PAGE = 5_000
_SCOPES = sa.select(
    t.memories.c.id, t.memories.c.metadata, *(t.memories.c[name] for name in SCOPE_FIELDS)
).where(among(t.memories.c.id, "ids"), t.memories.c.live)


@cache
def _live(given: frozenset[str], missing: frozenset[str], *, with_metadata: bool) -> Prepared:
    c = t.memories.c
    metadata = c.metadata if with_metadata else sa.literal_column("'{}'")
    columns = (c.id, c.seq, c.text_key, metadata, *(c[name] for name in SCOPE_FIELDS))
    conditions = [c[name] == sa.bindparam(name) for name in sorted(given)]
    conditions += [c[name].is_(None) for name in sorted(missing)]
    return Prepared(sa.select(*columns).where(c.live, *conditions).order_by(c.seq))


class Followers(TableGroup):
    """The data that vector indexes need to stay up to date with the ledger.

    The data are the changed memories, the live memories, and the last revision that each index
    contains.
    """

    def changes(
        self, after: int, limit: int | None = None, fields: Collection[str] = ()
    ) -> list[Change]:
        """Return the memories written after the revision `after`, the lowest revision first.

        `limit`: stop after this many memories; None means no limit. More memories are returned if
        the last revision wrote several, because a revision is never split.
        `fields`: the metadata fields to include in each result's `values`.
        """
        last = None
        if limit is not None:
            revision = t.memories.c.revision
            at_limit = sa.select(revision).where(revision > after).order_by(revision)
            last = self._connection.scalar(at_limit.offset(limit - 1).limit(1))
        rows = _CHANGES.rows(self._connection, after=after, last=last or 2**63 - 1)
        return [
            Change(name, live, scope_values_of(metadata, scope, fields), key, revision, number)
            for name, live, revision, number, key, metadata, *scope in rows
        ]

    def count(self, owner: Scope) -> int:
        return self._transaction.count(t.memories, sa.and_(t.memories.c.live, *in_scope(owner)))

    def live(self, owner: Scope, fields: Collection[str] = ()) -> Iterator[list[LiveRow]]:
        """Yield all live memories in the scope `owner`, in lists, in order of arrival.

        `owner` must have no metadata fields. `fields`: as for `changes`.
        """
        known: dict[tuple[Any, ...], ScopeValues] = {}
        values = {name: value for name, value in owner.values if value is not None}
        missing = frozenset(name for name, value in owner.values if value is None)
        query = _live(frozenset(values), missing, with_metadata=bool(fields))
        for page in query.pages(self._connection, _ROWS_PAGE, **values):
            for scope in {row[3:] for row in page} - known.keys():
                known[scope] = scope_values_of(scope[0], scope[1:], fields)
            yield [LiveRow(row[0], row[2], known[row[3:]], row[1]) for row in page]

    def live_values(self, ids: Collection[str]) -> dict[str, ScopeValues]:
        """Return a mapping from memory id to the values that decide the memory's scope.

        Memories that are not live are left out. The values include all metadata fields.
        """
        found = self._connection.execute(_SCOPES, {"ids": list(ids)}) if ids else ()
        return {name: scope_values_of(metadata, scope) for name, metadata, *scope in found}

    def lag(self, after: int) -> int:
        """Count the memories that an index at the revision `after` must still read."""
        return self._transaction.count(t.memories, t.memories.c.revision > after)

    def state(self, collection: str) -> tuple[int, bool]:
        """Return how far a vector index has followed the ledger; (0, True) if nothing is recorded.

        The first value is the last revision that the index contains. The second is whether the
        index may still hold vectors of forgotten memories.
        """
        state = t.index_state.c
        query = sa.select(state.watermark, state.stale).where(state.collection == collection)
        watermark, stale = self._connection.execute(query).first() or (0, True)
        return watermark, stale

    def locations(self) -> list[str]:
        return list(self._connection.scalars(sa.select(t.index_state.c.place).distinct()))

    def stale(self) -> list[str]:
        locations = sa.select(t.index_state.c.place).distinct()
        return list(self._connection.scalars(locations.where(t.index_state.c.stale)))

    def note(self, collection: str, location: str, watermark: int) -> None:
        """Record that a collection contains all changes up to the revision `watermark`.

        `collection`: the name of a vector index. `location`: where the index is stored.
        """
        values = {"place": location, "watermark": watermark}
        statement = self._transaction.upsert(t.index_state).values(collection=collection, **values)
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=["collection"], set_=values)
        )

    def mark_clean(self, collection: str) -> None:
        this_collection = t.index_state.c.collection == collection
        self._connection.execute(t.index_state.update().where(this_collection).values(stale=False))

    def mark_all_stale(self) -> None:
        self._connection.execute(t.index_state.update().values(stale=True))

    def start_all_again(self) -> None:
        """Record that every index must read all memories from the beginning.

        Call this after all vectors were replaced.
        """
        self._connection.execute(t.index_state.update().values(watermark=0, stale=True))

    def drop_others(self, location: str, collection: str) -> None:
        """Delete the records of all vector indexes at `location` except `collection`."""
        state = t.index_state.c
        gone = t.index_state.delete().where(state.place == location, state.collection != collection)
        self._connection.execute(gone)

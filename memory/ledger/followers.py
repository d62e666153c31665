"""What a vector index needs to follow the ledger: changed rows, and how far it has read them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from functools import cache
from typing import Any

import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.records import Change, IndexState, LiveRow, ScopeValues
from memory.ledger.statements import Prepared, TableGroup, among
from memory.models import SCOPE_FIELDS, Scope, scope_values

_CHANGED = tuple(
    t.memories.c[name]
    for name in ("id", "live", "revision", "seq", "text_key", "metadata", *SCOPE_FIELDS)
)
_ABOVE = t.memories.c.revision > sa.bindparam("after")
_REVISIONS = sa.select(t.memories.c.revision).where(_ABOVE).order_by(t.memories.c.revision)
_NO_END = 2**63 - 1
_CHANGES = Prepared(
    sa.select(*_CHANGED)
    .where(_ABOVE, t.memories.c.revision <= sa.bindparam("last"))
    .order_by(t.memories.c.revision, t.memories.c.seq)
)
_PAGE = 5_000
_SCOPES = sa.select(
    t.memories.c.id, t.memories.c.metadata, *(t.memories.c[name] for name in SCOPE_FIELDS)
).where(among(t.memories.c.id, "ids"), t.memories.c.live)


@cache
def _live(given: frozenset[str], missing: frozenset[str], *, with_metadata: bool) -> Prepared:
    """Return a query for live rows of `memories`, in order of arrival.

    `given`: columns whose value must equal the query's parameter of the same name. `missing`:
    columns whose value must be NULL. Without `with_metadata`, the query returns empty metadata.
    """
    c = t.memories.c
    metadata = c.metadata if with_metadata else sa.literal_column("'{}'")
    columns = (c.id, c.seq, c.text_key, metadata, *(c[name] for name in SCOPE_FIELDS))
    conditions = [c[name] == sa.bindparam(name) for name in sorted(given)]
    conditions += [c[name].is_(None) for name in sorted(missing)]
    return Prepared(sa.select(*columns).where(c.live, *conditions).order_by(c.seq))


class Followers(TableGroup):
    """Read access for vector indexes: changed and live memories, and how far indexes have read."""

    def changes(
        self, after: int, limit: int | None = None, fields: Collection[str] = ()
    ) -> list[Change]:
        """Return the memories with a higher revision than `after`, the lowest revision first.

        `limit`: return about this many, but all or none of the memories of each revision. `fields`:
        the metadata fields that belong to scopes; the results hold no other metadata.
        """
        last = None
        if limit is not None:
            at_limit = _REVISIONS.offset(limit - 1).limit(1)
            last = self._connection.scalar(at_limit, {"after": after})
        rows = _CHANGES.rows(self._connection, after=after, last=last or _NO_END)
        return [
            Change(name, live, _values(metadata, tuple(scope), fields), key, revision, number)
            for name, live, revision, number, key, metadata, *scope in rows
        ]

    def count(self, owner: Scope) -> int:
        """Count the live memories in the scope `owner`, which must have no metadata fields."""
        return self._transaction.count(t.memories, sa.and_(t.memories.c.live, *t.in_scope(owner)))

    def last_seq(self) -> int:
        """Return the number of the memory that arrived last; 0 if there is none.

        Memories are numbered in order of arrival, so there are at most this many.
        """
        return int(self._connection.scalar(sa.select(sa.func.max(t.memories.c.seq))) or 0)

    def live(self, owner: Scope, fields: Collection[str] = ()) -> Iterator[list[LiveRow]]:
        """Yield the live memories in the scope `owner` as lists, in order of arrival.

        `owner` must have no metadata fields. `fields`: the metadata fields that belong to scopes;
        the results hold no other metadata.
        """
        known: dict[tuple[Any, ...], ScopeValues] = {}
        values = {name: value for name, value in owner.values if value is not None}
        missing = frozenset(name for name, value in owner.values if value is None)
        query = _live(frozenset(values), missing, with_metadata=bool(fields))
        for page in query.pages(self._connection, _PAGE, **values):
            for scope in {row[3:] for row in page} - known.keys():
                known[scope] = _values(scope[0], scope[1:], fields)
            yield [LiveRow(row[0], row[2], known[row[3:]], row[1]) for row in page]

    def live_values(self, ids: Collection[str]) -> dict[str, ScopeValues]:
        """Return, by memory id, the values that decide the scope of each live memory in `ids`.

        Ids of other memories, and unknown ids, are left out.
        """
        found = self._connection.execute(_SCOPES, {"ids": ids}) if ids else ()
        return {name: t.scope_values_of(metadata, scope) for name, metadata, *scope in found}

    def lag(self, after: int) -> int:
        """Count the rows with a higher revision than `after`, which an index has still to read."""
        return self._transaction.count(t.memories, t.memories.c.revision > after)

    def state(self, collection: str) -> IndexState | None:
        """Return how far an index's collection has followed the ledger.

        Return None if the collection has never followed this ledger.
        """
        state = t.index_state.c
        query = sa.select(state.watermark, state.stale).where(state.collection == collection)
        found = self._connection.execute(query).first()
        return None if found is None else IndexState(*found)

    def locations(self) -> list[str]:
        """Return the locations of all indexes that have followed the ledger."""
        return list(self._connection.scalars(sa.select(t.index_state.c.place).distinct()))

    def stale(self) -> int:
        """Count the indexes that may still hold vectors of forgotten memories."""
        return self._transaction.count(t.index_state, t.index_state.c.stale)


class FollowersWriter(Followers):
    """Write access to the records of how far vector indexes have followed the ledger."""

    def note(self, collection: str, location: str, watermark: int) -> None:
        """Record that an index's collection contains all changes up to the revision `watermark`.

        `location`: where the index is stored. The record of whether the collection may hold vectors
        of forgotten memories does not change.
        """
        values = {"place": location, "watermark": watermark}
        statement = self._transaction.upsert(t.index_state).values(collection=collection, **values)
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=["collection"], set_=values)
        )

    def mark_clean(self, collection: str) -> None:
        """Record that a collection holds no vectors of forgotten memories."""
        mine = t.index_state.c.collection == collection
        self._connection.execute(t.index_state.update().where(mine).values(stale=False))

    def mark_all_stale(self) -> None:
        """Record that every collection may hold vectors of forgotten memories."""
        self._connection.execute(t.index_state.update().values(stale=True))

    def start_all_again(self) -> None:
        """Record that every index must read all memories from the beginning.

        Call this after all vectors were replaced.
        """
        self._connection.execute(t.index_state.update().values(watermark=0, stale=True))

    def drop_others(self, location: str, collection: str) -> None:
        """Delete the records of this location's earlier collections; keep that of `collection`."""
        state = t.index_state.c
        gone = t.index_state.delete().where(state.place == location, state.collection != collection)
        self._connection.execute(gone)


def _values(metadata: str, scope: tuple[Any, ...], fields: Collection[str]) -> ScopeValues:
    """Return the values that decide a memory's scope, by field name.

    `metadata`: the memory's metadata as JSON. `scope`: its values of the columns SCOPE_FIELDS.
    `fields`: the metadata fields to include.
    """
    values = dict(zip(SCOPE_FIELDS, scope, strict=True))
    if not fields:
        return values
    known = scope_values(json.loads(metadata))
    return values | {name: known.get(name) for name in fields}

"""What a vector index needs to follow the ledger: changed rows, and how far it has read them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from functools import cache
from typing import Any

import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.records import Change, IndexState, LiveRow, ScopeValues
from memory.ledger.statements import Prepared, among
from memory.ledger.transaction import TableGroup
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
    """Return a query for live rows, in order of arrival.

    `given`: columns that must have a value passed as a parameter; `missing`: columns that must be
    NULL.
    """
    c = t.memories.c
    metadata = c.metadata if with_metadata else sa.literal_column("'{}'")
    columns = (c.id, c.seq, c.text_key, metadata, *(c[name] for name in SCOPE_FIELDS))
    conditions = [c[name] == sa.bindparam(name) for name in sorted(given)]
    conditions += [c[name].is_(None) for name in sorted(missing)]
    return Prepared(sa.select(*columns).where(c.live, *conditions).order_by(c.seq))


class Followers(TableGroup):
    """Read access to changed rows, live rows, and how far vector indexes have read them."""

    def changes(
        self, after: int, limit: int | None = None, fields: Collection[str] = ()
    ) -> list[Change]:
        """Return the current state of all rows with a higher revision than `after`, lowest first.

        `limit`: return about this many rows, but never only some of one revision. `fields`: the
        fields of the metadata that scopes consist of; the values of a row hold no others.
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
        """Count the live rows of `owner`, a scope that has no fields of the metadata."""
        return self._transaction.count(t.memories, sa.and_(t.memories.c.live, *t.in_scope(owner)))

    def last_seq(self) -> int:
        """Return the number of the row that arrived last; 0 if there is none.

        There are at most this many rows.
        """
        return int(self._connection.scalar(sa.select(sa.func.max(t.memories.c.seq))) or 0)

    def live(self, owner: Scope, fields: Collection[str] = ()) -> Iterator[list[LiveRow]]:
        """Yield the live rows of `owner` in pages, in order of arrival.

        `owner`: a scope that has no fields of the metadata. `fields`: the fields of the metadata
        that scopes consist of; the values of a row hold no others.
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
        """Return, by id, the values that decide the scopes of those memories that are live."""
        found = self._connection.execute(_SCOPES, {"ids": ids}) if ids else ()
        return {name: t.scope_values_of(metadata, scope) for name, metadata, *scope in found}

    def lag(self, after: int) -> int:
        """Count the rows with a higher revision than `after`, which an index has still to read."""
        return self._transaction.count(t.memories, t.memories.c.revision > after)

    def state(self, collection: str) -> IndexState | None:
        """Return how far an index's collection has followed the ledger; None if it never has."""
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
        """Record that a collection contains all changes up to the revision `watermark`.

        Whether it may hold vectors of forgotten memories stays as recorded before.
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
        """Make every index follow from the start, because all vectors were replaced."""
        self._connection.execute(t.index_state.update().values(watermark=0, stale=True))

    def drop_others(self, location: str, collection: str) -> None:
        """Delete the records of this location's earlier collections; keep that of `collection`."""
        state = t.index_state.c
        gone = t.index_state.delete().where(state.place == location, state.collection != collection)
        self._connection.execute(gone)


def _values(metadata: str, scope: tuple[Any, ...], fields: Collection[str]) -> ScopeValues:
    """Return the values that decide a row's scope: of SCOPE_FIELDS and of these metadata fields."""
    values = dict(zip(SCOPE_FIELDS, scope, strict=True))
    if not fields:
        return values
    known = scope_values(json.loads(metadata))
    return values | {name: known.get(name) for name in fields}

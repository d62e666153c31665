"""Indexes that follow the ledger: what has changed, and how far each of them has come."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.among import among
from memory.ledger.prepared import Prepared
from memory.ledger.records import Change, IndexState, LiveRows, ScopeValues
from memory.ledger.transaction import TableGroup
from memory.models import SCOPE_FIELDS, scope_values

_OF_A_CHANGE = (
    *(t.memories.c[name] for name in ("id", "live", "revision", "metadata")),
    t.vectors.c.vector,
    *(t.memories.c[name] for name in SCOPE_FIELDS),
)


_ABOVE = t.memories.c.revision > sa.bindparam("after")
_REVISIONS = sa.select(t.memories.c.revision).where(_ABOVE).order_by(t.memories.c.revision)
_NO_END = 2**63 - 1
_CHANGES = Prepared(
    sa.select(*_OF_A_CHANGE)
    .outerjoin(t.vectors, t.vectors.c.text_key == t.memories.c.text_key)
    .where(_ABOVE, t.memories.c.revision <= sa.bindparam("last"))
    .order_by(t.memories.c.revision, t.memories.c.seq)
)
_LIVE = Prepared(
    sa.select(
        *(t.memories.c[name] for name in ("seq", "id", "metadata")),
        t.vectors.c.vector,
        *(t.memories.c[name] for name in SCOPE_FIELDS),
    )
    .join(t.vectors, t.vectors.c.text_key == t.memories.c.text_key)
    .where(t.memories.c.live, t.memories.c.seq > sa.bindparam("after"))
    .order_by(t.memories.c.seq)
    .limit(sa.bindparam("count", type_=sa.Integer))
)
_SCOPES = Prepared(
    sa.select(
        t.memories.c.id, t.memories.c.metadata, *(t.memories.c[name] for name in SCOPE_FIELDS)
    ).where(among(t.memories.c.id, "ids"))
)
_STATE = Prepared(
    sa.select(t.index_state).where(t.index_state.c.collection == sa.bindparam("collection"))
)


class Followers(TableGroup):
    """What a follower asks."""

    def changes(self, after: int, limit: int | None = None) -> list[Change]:
        """The current state of the rows above a revision, lowest revision first.

        With `limit`, at least that many where there are, and never part of a revision.
        """
        last = None
        if limit is not None:
            at_limit = _REVISIONS.offset(limit - 1).limit(1)
            last = self._connection.scalar(at_limit, {"after": after})
        rows = _CHANGES.rows(self._connection, after=after, last=last or _NO_END)
        return [_to_change(*row) for row in rows]

    def count(self) -> int:
        """How many rows are live."""
        return self._transaction.count(t.memories, t.memories.c.live)

    def live(self, after: int, limit: int) -> LiveRows | None:
        """The next live rows with a vector behind a place, in order of arrival; None at the end."""
        rows = _LIVE.rows(self._connection, after=after, count=limit)
        if not rows:
            return None
        return LiveRows(
            [row.id for row in rows],
            [np.frombuffer(row.vector, np.float32) for row in rows],
            [_scope_values(row.metadata, row[4:]) for row in rows],
            rows[-1].seq,
        )

    def scope_values(self, ids: Collection[str]) -> dict[str, ScopeValues]:
        """What scopes compare of these memories, live or not, by id."""
        found = _SCOPES.rows(self._connection, ids=ids)
        return {name: _scope_values(metadata, scope) for name, metadata, *scope in found}

    def lag(self, after: int) -> int:
        """How many rows are above a revision."""
        return self._transaction.count(t.memories, t.memories.c.revision > after)

    def state(self, collection: str) -> IndexState | None:
        """How far a collection has followed the ledger; None where it never did."""
        found = _STATE.rows(self._connection, collection=collection)
        return IndexState(found[0].watermark, found[0].stale) if found else None

    def others(self, place: str, collection: str) -> list[IndexState]:
        """Of the collections that were at this place before this one."""
        state = t.index_state.c
        query = sa.select(t.index_state).where(state.place == place, state.collection != collection)
        found = self._connection.execute(query)
        return [IndexState(row.watermark, row.stale) for row in found]

    def stale(self) -> int:
        """How many may still hold the vector of what was forgotten."""
        return self._transaction.count(t.index_state, t.index_state.c.stale)


class FollowersWriter(Followers):
    """What a follower notes, and what is noted about all of them."""

    def note(self, collection: str, place: str, watermark: int) -> None:
        """The collection at a place has followed this far; it is as stale as it was."""
        values = {"place": place, "watermark": watermark}
        statement = self._transaction.upsert(t.index_state).values(collection=collection, **values)
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=["collection"], set_=values)
        )

    def mark_clean(self, collection: str) -> None:
        """A collection holds nothing any more of what was forgotten."""
        mine = t.index_state.c.collection == collection
        self._connection.execute(t.index_state.update().where(mine).values(stale=False))

    def mark_all_stale(self) -> None:
        """Something was forgotten that any of them may hold."""
        self._connection.execute(t.index_state.update().values(stale=True))

    def start_all_again(self) -> None:
        """Every vector is another one now."""
        self._connection.execute(t.index_state.update().values(watermark=0, stale=True))

    def drop_others(self, place: str, collection: str) -> None:
        """At this place there is only this collection now."""
        state = t.index_state.c
        gone = t.index_state.delete().where(state.place == place, state.collection != collection)
        self._connection.execute(gone)


def _to_change(
    name: str, live: bool, revision: int, metadata: str, vector: bytes | None, *scope: Any
) -> Change:
    values = _scope_values(metadata, scope)
    known = None if vector is None else np.frombuffer(vector, dtype=np.float32)
    return Change(name, live, values, known, revision)


def _scope_values(metadata: str, scope: Sequence[Any]) -> ScopeValues:
    values = dict(zip(SCOPE_FIELDS, scope, strict=True))
    if metadata == "{}":
        return values
    with t.naming_damage(f"a memory of {values['user']!r}"):
        return scope_values(json.loads(metadata)) | values

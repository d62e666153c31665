"""Superseded and expired memories: retired, as what they state held only until a stated time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime

import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.memories import Memories
from memory.ledger.records import Row
from memory.ledger.statements import Prepared, among, by_time, in_scope
from memory.models import Scope

_BY = Prepared(
    sa.select(t.memories.c.id).where(
        among(t.memories.c.successor_id, "ids"), t.memories.c.until.is_not(None)
    )
)

_DUE = Prepared(
    sa.select(t.memories.c.id).where(
        t.memories.c.live, by_time(t.memories.c.expires_at) <= sa.bindparam("now")
    )
)
_WITH_TEXTS = Prepared(
    sa.select(t.memories.c.id).where(
        among(t.memories.c.text_key, "keys"), t.memories.c.until.is_not(None)
    )
)


class Superseded(Memories):
    """The superseded memories, which are rows of the table of memories.

    An expired memory is one that no other memory superseded.
    """

    def by(self, *successors: str) -> list[Row]:
        """Return the memories that these superseded, also by way of others."""
        found, todo = dict[str, Row](), list(successors)
        while todo:
            stated = [*todo, *self.ancestors(*todo)]
            names = [row.id for row in _BY.rows(self._connection, ids=stated)]
            rows = self.rows([name for name in names if name not in found])
            found |= rows
            todo = list(rows)
        return [row for name, row in found.items() if name not in successors]

    def within(self, scope: Scope) -> list[Row]:
        """Return all superseded memories of the scope, in order of arrival."""
        ended = t.memories.c.until.is_not(None), *in_scope(scope)
        names = self._connection.scalars(sa.select(t.memories.c.id).where(*ended))
        rows = self.rows(list(names)).values()
        return [row for row in rows if not row.live and scope.has(row.memory)]

    def with_texts(self, keys: Collection[str]) -> list[Row]:
        """Return the superseded memories whose texts have one of these keys (of `text_key`)."""
        names = [row.id for row in _WITH_TEXTS.rows(self._connection, keys=keys)]
        return [row for row in self.rows(names).values() if not row.live]

    def due(self, now: datetime) -> list[Row]:
        """Return the live memories that expired by `now`, in order of arrival."""
        found = _DUE.rows(self._connection, now=now.astimezone(UTC).isoformat())
        return list(self.rows([row.id for row in found]).values())

    def expire(self, rows: Collection[Row]) -> None:
        """Retire memories at their `expires_at`."""
        names = [row.memory.id for row in rows]
        self._links.drop(names)
        ends = {row.memory.id: row.memory.expires_at for row in rows}
        self._update(
            {
                name: {"live": False, "until": at.isoformat()}
                for name, at in ends.items()
                if at is not None
            }
        )

    def prolong(self, memory_id: str, until: datetime | None) -> None:
        """Let a live memory expire at `until`, or never, if that is later than now."""
        alive = self.living(memory_id)
        ends = None if alive is None else alive.memory.expires_at
        if alive is not None and ends is not None and (until is None or until > ends):
            self._update({alive.memory.id: {"expires_at": until and until.isoformat()}})

    def end_of_chain(self, row: Row) -> Row | None:
        """Return the live memory that a superseded one led to; None if it was forgotten."""
        end: Row | None = row
        while end is not None and not end.live:
            alive = self.living(end.memory.id)
            end = alive or (None if end.successor_id is None else self.row(end.successor_id))
        return end

    def end(self, ends: Mapping[str, datetime]) -> None:
        """Record, by their ids, when what retired memories state ceased to hold."""
        self._update({name: {"until": at.isoformat()} for name, at in ends.items()})

    def revive(self, memory_id: str) -> None:
        """Make a superseded memory live again."""
        self._update({memory_id: {"live": True, "successor_id": None, "until": None}})

"""A transaction, and the base of table groups."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import Connection

from memory.ledger import tables as t
from memory.ledger.statements import Prepared, among

_NOW_S = {
    "sqlite": "SELECT (julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "SELECT extract(epoch FROM clock_timestamp())",
}

_LATEST = Prepared(sa.select(t.counter.c.value))
_RAISE = Prepared(t.counter.update().values(value=sa.bindparam("latest")))


class Transaction:
    """A connection and what it has written so far, shared by the table groups."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.touched: set[str] = set()
        """Ids of the memories whose revision must be raised."""
        self.reworded: set[str] = set()
        """Ids of the memories whose terms may have changed: new, changed or retired."""
        self.numbered = False
        """Whether rows were written with this transaction's revision."""

    @property
    def dialect(self) -> str:
        return self.connection.dialect.name

    @cached_property
    def latest(self) -> int:
        """The number of the last committed transaction, 0 for a new ledger."""
        return int(next(iter(_LATEST.scalars(self.connection)), 0))

    @property
    def revision(self) -> int:
        """The number that this transaction will commit under."""
        return self.latest + 1

    @property
    def has_written(self) -> bool:
        """Whether it has written rows that have a revision."""
        return self.numbered or bool(self.touched)

    def take_revision(self) -> None:
        """Write the revision of all touched memories; the last step before the commit."""
        if not self.has_written:
            return
        _RAISE.run(self.connection, [{"latest": self.revision}])
        if self.touched:
            touched = t.memories.update().where(among(t.memories.c.id, sorted(self.touched)))
            self.connection.execute(touched.values(revision=self.revision))

    def now_s(self) -> float:
        """Return the database's clock in seconds since 1970, the same for all processes."""
        return float(self.connection.scalar(sa.text(_NOW_S[self.dialect])))

    def count(self, table: sa.Table, where: sa.ColumnElement[bool]) -> int:
        query = sa.select(sa.func.count()).select_from(table).where(where)
        return int(self.connection.scalar(query) or 0)

    def counted(self, query: sa.Select[Any]) -> dict[Any, int]:
        """Return the result of a query for values and their counts."""
        return {row[0]: row[1] for row in self.connection.execute(query)}

    def upsert(self, table: sa.Table) -> Any:
        """Return an INSERT with `on_conflict_...` methods, in the dialect of this database."""
        if self.dialect == "sqlite":
            return sqlite.insert(table)
        from sqlalchemy.dialects import postgresql  # 0.1 s that only a server is worth

        return postgresql.insert(table)


class TableGroup:
    """Tables that belong together, as one transaction sees them."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._connection = transaction.connection

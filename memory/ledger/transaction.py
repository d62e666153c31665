"""A transaction on the ledger, and the base class of objects that use its tables."""

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
"""SQL for the server's time in seconds since 1970, by dialect."""

_LATEST = Prepared(sa.select(t.counter.c.value))
_RAISE = Prepared(t.counter.update().values(value=sa.bindparam("latest")))


class Transaction:
    """An open transaction: its connection, and the ids of the memories that it has changed.

    All table groups of a Reader or Writer share one.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.touched: set[str] = set()
        """Ids of the memories that must get this transaction's revision."""
        self.reworded: set[str] = set()
        """Ids of the memories that are new, changed or retired: their search terms may differ."""
        self.numbered = False
        """Whether rows were already written with this transaction's revision."""

    @property
    def dialect(self) -> str:
        return self.connection.dialect.name

    @cached_property
    def latest(self) -> int:
        """The revision: the number of the last committed transaction, or 0 for a new ledger."""
        return int(next(iter(_LATEST.scalars(self.connection)), 0))

    @property
    def revision(self) -> int:
        """The revision number that this transaction gets if it writes and commits."""
        return self.latest + 1

    @property
    def has_written(self) -> bool:
        """Whether this transaction has written rows that carry a revision."""
        return self.numbered or bool(self.touched)

    def take_revision(self) -> None:
        """Give all touched memories this transaction's revision; the last step before the commit.

        Does nothing if the transaction has written no rows that carry a revision.
        """
        if not self.has_written:
            return
        _RAISE.run(self.connection, [{"latest": self.revision}])
        if self.touched:
            touched = t.memories.update().where(among(t.memories.c.id, sorted(self.touched)))
            self.connection.execute(touched.values(revision=self.revision))

    def now_s(self) -> float:
        """Return the database's time in seconds since 1970; all processes share this clock."""
        return float(self.connection.scalar(sa.text(_NOW_S[self.dialect])))

    def count(self, table: sa.Table, where: sa.ColumnElement[bool]) -> int:
        query = sa.select(sa.func.count()).select_from(table).where(where)
        return int(self.connection.scalar(query) or 0)

    def counted(self, query: sa.Select[Any]) -> dict[Any, int]:
        """Run a query for values and counts, and return the count of each value."""
        return {row[0]: row[1] for row in self.connection.execute(query)}

    def upsert(self, table: sa.Table) -> Any:
        """Return an INSERT of the database's dialect, which has `on_conflict_...` methods."""
        if self.dialect == "sqlite":
            return sqlite.insert(table)
        from sqlalchemy.dialects import postgresql  # 0.1 s that only a server is worth

        return postgresql.insert(table)


class TableGroup:
    """Base of the classes that read or write some related tables within one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._connection = transaction.connection

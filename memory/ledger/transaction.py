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

    The table groups of one Reader or Writer, such as `memories` and `links`, all use the same one.
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
        """The number of the last committed transaction; 0 for a new ledger."""
        return int(next(iter(_LATEST.scalars(self.connection)), 0))

    @property
    def revision(self) -> int:
        """The revision number that this transaction gets if it writes and commits."""
        return self.latest + 1

    @property
    def has_written(self) -> bool:
        """Whether this transaction has written rows that store the revision of their last write."""
        return self.numbered or bool(self.touched)

    def take_revision(self) -> None:
        """Give all memories in `touched` this transaction's revision, and record it as the latest.

        Call it as the last step before the commit. It does nothing if no row needs a revision.
        """
        if not self.has_written:
            return
        _RAISE.run(self.connection, [{"latest": self.revision}])
        if self.touched:
            touched = t.memories.update().where(among(t.memories.c.id, sorted(self.touched)))
            self.connection.execute(touched.values(revision=self.revision))

    def now_s(self) -> float:
        """Return the time in seconds since 1970 by the database's clock."""
        return float(self.connection.scalar(sa.text(_NOW_S[self.dialect])))

    def count(self, table: sa.Table, where: sa.ColumnElement[bool]) -> int:
        query = sa.select(sa.func.count()).select_from(table).where(where)
        return int(self.connection.scalar(query) or 0)

    def counted(self, query: sa.Select[Any]) -> dict[Any, int]:
        """Run a query whose rows are pairs of a value and a count; return the counts by value."""
        return {row[0]: row[1] for row in self.connection.execute(query)}

    def upsert(self, table: sa.Table) -> Any:
        """Return an INSERT into `table` that has SQLAlchemy's `on_conflict_do_...` methods."""
        if self.dialect == "sqlite":
            return sqlite.insert(table)
        from sqlalchemy.dialects import postgresql  # 0.1 s that only a server is worth

        return postgresql.insert(table)


class TableGroup:
    """Base class of the classes that read or write a group of tables within one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._connection = transaction.connection

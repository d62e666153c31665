"""One transaction: its connection, and what it has written so far."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import Connection

from memory.ledger import tables as t
from memory.ledger.prepared import Prepared, among

_NOW_S = {
    "sqlite": "SELECT (julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "SELECT extract(epoch FROM clock_timestamp())",
}
_LATEST = Prepared(sa.select(t.counter.c.value))
_NUMBER = Prepared(t.counter.update().values(value=sa.bindparam("number")))
_TOUCH = Prepared(
    t.memories.update().where(among(t.memories.c.id, "ids")).values(revision=sa.bindparam("number"))
)


class Transaction:
    """What the table groups share while it lasts."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.touched: set[str] = set()
        """Ids of the memories whose revision is to be raised."""
        self.reworded: set[str] = set()
        """Ids of the memories that are found by other terms now: new, changed or retired."""
        self.numbered = False
        """Whether rows were written that have this transaction's revision already."""

    @property
    def dialect(self) -> str:
        return self.connection.dialect.name

    @cached_property
    def latest(self) -> int:
        """The number of the last transaction that was committed, 0 for a new ledger."""
        return int(next(iter(_LATEST.scalars(self.connection)), 0))

    @property
    def revision(self) -> int:
        """The number that it commits under: writers follow each other, so the next is known."""
        return self.latest + 1

    @property
    def has_written(self) -> bool:
        """Whether it has changed what a revision counts."""
        return self.numbered or bool(self.touched)

    def take_revision(self) -> None:
        """Number what it wrote; the last step before the commit."""
        if not self.has_written:
            return
        _NUMBER.run_all(self.connection, [{"number": self.revision}])
        if self.touched:
            _TOUCH.run_all(
                self.connection, [{"ids": sorted(self.touched), "number": self.revision}]
            )

    def now_s(self) -> float:
        """The database's clock, in seconds since 1970: one for all processes and machines."""
        return float(self.connection.scalar(sa.text(_NOW_S[self.dialect])))

    def count(self, table: sa.Table, where: sa.ColumnElement[bool]) -> int:
        query = sa.select(sa.func.count()).select_from(table).where(where)
        return int(self.connection.scalar(query) or 0)

    def counted(self, query: sa.Select[Any]) -> dict[Any, int]:
        """The answer of a query for values and their counts."""
        return {row[0]: row[1] for row in self.connection.execute(query)}

    def upsert(self, table: sa.Table) -> Any:
        """An INSERT that can say what to do on a conflict, in the dialect of this database."""
        return upsert(self.dialect, table)


class TableGroup:
    """Tables that belong together, as one transaction sees them."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._connection = transaction.connection


def upsert(dialect: str, table: sa.Table) -> Any:
    """An INSERT that can say what to do on a conflict, in this dialect."""
    if dialect == "sqlite":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # 0.1 s that only a server is worth

    return postgresql.insert(table)

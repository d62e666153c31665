"""One transaction: its connection, and what it has written so far."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from memory.ledger import tables as t

_IN = 500
"""Values in one IN (...): far below SQLite's 32,766 variables."""
_NOW_S = {
    "sqlite": "SELECT (julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "SELECT extract(epoch FROM clock_timestamp())",
}
_LATEST = sa.select(t.counter.c.value)


class Transaction:
    """What the table groups share while it lasts."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.touched: set[str] = set()
        """Ids of the memories whose revision is to be raised."""
        self.numbered = False
        """Whether rows were written that have this transaction's revision already."""

    @property
    def dialect(self) -> str:
        return self.connection.dialect.name

    @cached_property
    def revision(self) -> int:
        """The number that it commits under: writers follow each other, so the next is known."""
        return int(self.connection.scalar(_LATEST) or 0) + 1

    def now_s(self) -> float:
        """The database's clock, in seconds since 1970: one for all processes and machines."""
        return float(self.connection.scalar(sa.text(_NOW_S[self.dialect])))

    def count(self, table: sa.Table, where: sa.ColumnElement[bool]) -> int:
        query = sa.select(sa.func.count()).select_from(table).where(where)
        return int(self.connection.scalar(query) or 0)

    def counted(self, query: sa.Select[Any]) -> dict[Any, int]:
        """The answer of a query for values and their counts."""
        return {row[0]: row[1] for row in self.connection.execute(query)}

    def among(self, column: sa.ColumnElement[str], values: Iterable[str]) -> Any:
        """Whether a column has one of these values: the same statement for any number of them."""
        if self.dialect == "postgresql":
            listed = sa.bindparam(None, list(values), postgresql.ARRAY(sa.Text), unique=True)
            return column == sa.any_(listed)
        told = sa.bindparam(None, json.dumps(list(values)), sa.Text, unique=True)
        return column.in_(sa.select(sa.func.json_each(told).table_valued("value").c.value))

    def upsert(self, table: sa.Table) -> Any:
        """An INSERT that can say what to do on a conflict, in the dialect of this database."""
        insert = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
        return insert[self.dialect](table)


class TableGroup:
    """Tables that belong together, as one transaction sees them."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._connection = transaction.connection


def chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    """Few enough at a time for one IN (...)."""
    return (values[start : start + _IN] for start in range(0, len(values), _IN))

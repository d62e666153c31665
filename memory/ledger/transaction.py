"""A transaction, the base of table groups, and conditions with any number of texts."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from functools import cached_property
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import Connection, Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator

from memory.ledger import tables as t

_NOW_S = {
    "sqlite": "SELECT (julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "SELECT extract(epoch FROM clock_timestamp())",
}


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
        return int(self.connection.scalar(sa.select(t.counter.c.value)) or 0)

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
        self.connection.execute(t.counter.update().values(value=self.revision))
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


# --- `column IN (...)` with any number of values in one parameter ---------------------------------

_NEVER_STORED = re.compile("[\0\ud800-\udfff]")
"""Characters that no stored text has: PostgreSQL refuses them, and SQLite's JSON ends at NUL."""


class among(FunctionElement[bool]):  # noqa: N801 - read as the operator that it is
    """Whether a text column has one of these texts, or of those given under this name.

    `column.in_()` has a parameter for each value, and databases refuse more than some 32,000.
    """

    type = sa.Boolean()
    inherit_cache = True

    def __init__(self, column: sa.ColumnElement[Any], texts: str | Collection[str]) -> None:
        """`texts` is the name of a parameter, or the texts themselves."""
        if isinstance(texts, str):
            values = sa.bindparam(texts, type_=_Texts())
        else:
            values = sa.bindparam("texts", texts, type_=_Texts(), unique=True)
        super().__init__(column, values)

    def self_group(self, against: Any = None) -> Any:  # noqa: ARG002 - whatever it stands in
        """Return the condition itself: as `... = 1`, SQLite's boolean, it would use no index."""
        return self


class _Texts(TypeDecorator[Collection[str]]):
    """Any number of texts as a JSON array."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: Collection[str] | None, _dialect: Dialect) -> str:
        return json.dumps([text for text in value or () if not _NEVER_STORED.search(text)])


@compiles(among, "sqlite")
def _in_sqlite(element: among, compiler: SQLCompiler, **settings: Any) -> str:
    column, texts = (compiler.process(part, **settings) for part in element.clauses)
    return f"{column} IN (SELECT value FROM json_each({texts}))"  # noqa: S608 - no value in it


@compiles(among, "postgresql")
def _in_postgresql(element: among, compiler: SQLCompiler, **settings: Any) -> str:
    column, texts = (compiler.process(part, **settings) for part in element.clauses)
    return f"{column} = ANY (ARRAY(SELECT json_array_elements_text(CAST({texts} AS JSON))))"

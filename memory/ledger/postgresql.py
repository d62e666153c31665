"""A ledger on a PostgreSQL server, for many processes on many machines."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection

from memory.errors import LedgerError, install_hint
from memory.ledger import tables as t
from memory.ledger.database import PATIENCE_S, Database, SqliteDatabase

_WRITER_LOCK = 0x6D656D6F7279
"""Number of the advisory lock that a writer holds until its commit (`memory` in ASCII)."""


class PostgresDatabase(Database):
    def __init__(self, url: URL, *, create: bool) -> None:
        self.name = url.render_as_string(hide_password=True)
        self.file = None
        self.read_only = not create
        try:
            self.engine = sa.create_engine(
                url.set(drivername="postgresql+psycopg"),
                connect_args={"connect_timeout": PATIENCE_S},
                pool_pre_ping=True,
            )
        except ImportError as exc:
            raise LedgerError(
                f"the ledger {self.name} needs psycopg", install_hint("postgres")
            ) from exc
        # `postgresql_where` in `tables` would load PostgreSQL's dialect for SQLite ledgers too.
        for table in t.schema.sorted_tables:
            for index in table.indexes:
                where = index.dialect_options["sqlite"]["where"]
                index.dialect_options["postgresql"]["where"] = where

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._mapped(), self.engine.connect() as opened:
            connection = opened.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
            with connection.begin():
                yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        with self._mapped(), self.engine.connect() as opened:
            connection = opened.execution_options(
                isolation_level="READ COMMITTED", postgresql_readonly=self.read_only
            )
            with connection.begin():
                connection.execute(_AS_WRITER)
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_WRITER_LOCK)))
                yield connection

    @contextlib.contextmanager
    def exclusive(self, task: str) -> Iterator[bool]:
        key = sa.func.hashtextextended(f"memory-dedup {task}", 0)
        with self._mapped(), self.engine.connect() as connection:
            connection = connection.execution_options(isolation_level="AUTOCOMMIT")
            taken = bool(connection.scalar(sa.select(sa.func.pg_try_advisory_lock(key))))
            try:
                yield taken
            finally:
                if taken and not connection.invalidated:
                    connection.execute(sa.select(sa.func.pg_advisory_unlock(key)))

    def copy_into(self, target: SqliteDatabase) -> None:
        found = sa.MetaData()
        sa.event.listen(found, "column_reflect", _as_on_any_database)
        with self.reading() as connection, target.writing() as copy:
            found.reflect(connection, only=lambda name, _: name in t.schema.tables)
            found.create_all(copy)
            for table in found.sorted_tables:
                rows = connection.execute(sa.select(table), execution_options={"yield_per": 1_000})
                for page in rows.mappings().partitions():
                    copy.execute(table.insert(), [dict(row) for row in page])

    def _fault(self, message: str) -> tuple[str, str]:
        first_line = message.strip().partition("\n")[0] or "the connection broke"
        for part, problem, remedy in _FAULTS:
            if part in message:
                return f"{problem} ({first_line})", remedy
        return f"failed: {first_line}", ""


_AS_WRITER = sa.select(
    *(
        sa.func.set_config(name, value, True)
        for name, value in (
            ("lock_timeout", f"{PATIENCE_S}s"),
            # A writer finds rows by their keys. Without statistics of a new table the server would
            # scan it, or compile the query first.
            ("enable_seqscan", "off"),
            ("jit", "off"),
        )
    )
)


def _as_on_any_database(_inspector: Any, _table: sa.Table, column: Any) -> None:
    column["type"] = column["type"].as_generic()
    column["default"] = None


_FAULTS = (
    ("password authentication", "refused the login", "check memory.ledger_url"),
    ("does not exist", "is not set up", "create the database and the role in memory.ledger_url"),
    ("failed to resolve", "cannot be reached", "check the host in memory.ledger_url"),
    ("connection is bad", "cannot be reached", "is the server running at memory.ledger_url?"),
    ("connection failed", "cannot be reached", "is the server running at memory.ledger_url?"),
    ("read-only transaction", "cannot be written", "it was opened for reading only"),
    ("permission denied", "refused the access", "grant the role its rights"),
    ("could not extend file", "has no room left on its disk", "make room and try again"),
    ("lock timeout", "is being written by another process", "try again when it has finished"),
    ("terminating connection", "closed the connection", "try again"),
    ("server closed the connection", "closed the connection", "try again"),
    ("connection is lost", "closed the connection", "try again"),
    ("connection is closed", "closed the connection", "try again"),
)

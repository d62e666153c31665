"""Statements that are compiled once for a kind of database, and then left to its driver.

SQLAlchemy writes them for each database; but to execute one takes it five times as long as SQLite
takes to answer, and a write has some thirty. Those that every write has are prepared.
"""

from __future__ import annotations

import contextlib
from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Dialect
from sqlalchemy.types import TypeEngine


class Prepared:
    """A statement whose values are given by name."""

    def __init__(self, statement: sa.Select[Any] | sa.Insert | sa.Update) -> None:
        """An INSERT is of rows that have a value for each column but the number of the row."""
        self._statement = statement
        self._forms: dict[str, _Form] = {}

    def rows(self, connection: Connection, **values: Any) -> list[Any]:
        """The rows of its answer, each a tuple with the columns' names."""
        form = self._form(connection.dialect)
        return form.read(form.execute(connection, values))

    def pages(self, connection: Connection, size: int, **values: Any) -> Iterator[list[Any]]:
        """Its answer as the driver gives it, so many rows at a time; the rest stays over there."""
        form = self._form(connection.dialect)
        with contextlib.closing(form.execute(connection, values, streamed=True)) as cursor:
            while page := cursor.fetchmany(size):
                yield page

    def scalars(self, connection: Connection, **values: Any) -> list[Any]:
        """The first column of its answer."""
        return [row[0] for row in self.rows(connection, **values)]

    def scalar(self, connection: Connection, **values: Any) -> Any:
        """The first value of its answer; None where there is no row."""
        return next(iter(self.scalars(connection, **values)), None)

    def run(self, connection: Connection, **values: Any) -> None:
        """Execute what has no answer."""
        self._form(connection.dialect).execute(connection, values)

    def run_all(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """The same for each of these values."""
        self._form(connection.dialect).execute_all(connection, rows)

    def _form(self, dialect: Dialect) -> _Form:
        found = self._forms.get(dialect.name)
        if found is None:
            found = self._forms[dialect.name] = _Form(self._statement, dialect)
        return found


class _Form:
    """A statement in the words of one database."""

    def __init__(self, statement: sa.Select[Any] | sa.Insert | sa.Update, dialect: Dialect) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=_column_keys(statement))
        self._text = str(compiled)
        self._order: Sequence[str] | None = getattr(compiled, "positiontup", None)
        binds = {name: bind for bind, name in compiled.bind_names.items()}
        given = compiled.params.items()
        self._given = {name: value for name, value in given if not binds[name].required}
        self._names = list(binds)
        kinds = {name: one.type.dialect_impl(dialect) for name, one in binds.items()}
        written = {name: kind.bind_processor(dialect) for name, kind in kinds.items()}
        self._written = {name: one for name, one in written.items() if one is not None}
        chosen = statement.selected_columns if isinstance(statement, sa.Select) else ()
        self._columns = [column.type.dialect_impl(dialect) for column in chosen]
        self._dialect = dialect
        self._reading: _Reading | None = None

    def execute(
        self, connection: Connection, values: Mapping[str, Any], *, streamed: bool = False
    ) -> Any:
        """A cursor that has the answer; streamed, PostgreSQL keeps it and gives it bit by bit."""
        on_server = streamed and self._dialect.name == "postgresql"
        named = {"name": f"pages_{uuid4().hex}"} if on_server else {}
        cursor = connection.connection.cursor(**named)
        told = self._told(values)
        self._announce(connection, cursor, told, many=False)
        cursor.execute(self._text, told)
        return cursor

    def execute_all(self, connection: Connection, rows: Iterable[Mapping[str, Any]]) -> None:
        cursor = connection.connection.cursor()
        told = [self._told(values) for values in rows]
        self._announce(connection, cursor, told, many=True)
        cursor.executemany(self._text, told)

    def read(self, cursor: Any) -> list[Any]:
        """What the driver has found, as SQLAlchemy would give it."""
        if self._reading is None:
            self._reading = _Reading(cursor.description, self._columns, self._dialect)
        return self._reading.rows(cursor.fetchall())

    def _told(self, values: Mapping[str, Any]) -> Any:
        """Raises: KeyError where a value is missing."""
        told = {**self._given, **values}
        for name, written in self._written.items():
            told[name] = written(told[name])
        if self._order is None:
            return {name: told[name] for name in self._names}
        return tuple(told[name] for name in self._order)

    def _announce(self, connection: Connection, cursor: Any, told: Any, *, many: bool) -> None:
        """To whoever listens to SQLAlchemy's statements."""
        listeners = connection.dispatch.before_cursor_execute
        if listeners:
            listeners(connection, cursor, self._text, told, None, many)


class _Reading:
    """How the rows of one answer are read."""

    def __init__(
        self, told: Sequence[Sequence[Any]], kinds: Sequence[TypeEngine[Any]], dialect: Dialect
    ) -> None:
        """`told` is what the driver says of each column: its name, its type, and more."""
        self._record = _record([column[0] for column in told])
        readers = [
            kind.result_processor(dialect, column[1])
            for kind, column in zip(kinds, told, strict=True)
        ]
        self._readers = [(n, one) for n, one in enumerate(readers) if one is not None]

    def rows(self, found: Iterable[Sequence[Any]]) -> list[Any]:
        return [self._record(*self._values(row)) for row in found]

    def _values(self, row: Sequence[Any]) -> Sequence[Any]:
        """Where they are not as the driver gives them."""
        if not self._readers:
            return row
        values = list(row)
        for place, read in self._readers:
            values[place] = read(values[place])
        return values


def _record(names: list[str]) -> Any:
    """A tuple with these names."""
    return namedtuple("Found", names)


def _column_keys(statement: sa.Select[Any] | sa.Insert | sa.Update) -> list[str] | None:
    if not isinstance(statement, sa.Insert):
        return None
    return [column.key for column in statement.table.c if column.key != "seq"]

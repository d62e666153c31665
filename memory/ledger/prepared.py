"""Statements that are compiled once for a kind of database, and then left to its driver.

SQLAlchemy writes them for each database; but to execute one takes it five times as long as SQLite
takes to answer, and a write has some thirty. Those that every write has are prepared.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import namedtuple
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine


class Prepared:
    """A statement whose values are given by name."""

    def __init__(self, statement: sa.Select[Any] | sa.Insert | sa.Update) -> None:
        """An INSERT is of rows that have a value for each column but the number of the row."""
        self._statement = statement
        self._forms: dict[str, _Form] = {}

    def rows(self, connection: Connection, **values: Any) -> list[Any]:
        """The rows of its answer, each a tuple with the columns' names."""
        form, cursor = self._executed(connection, [values])
        if form.record is None:
            form.read_as(cursor.description, connection.dialect)
        assert form.record is not None
        found: list[Any] = cursor.fetchall()
        if form.readers:
            found = [list(row) for row in found]
            for position, read in form.readers:
                for row in found:
                    row[position] = read(row[position])
        return list(map(form.record, found))

    def tuples(self, connection: Connection, **values: Any) -> list[tuple[Any, ...]]:
        """Its answer as the driver gives it, for many rows that need no names."""
        _, cursor = self._executed(connection, [values])
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found

    def pages(self, connection: Connection, size: int, **values: Any) -> Iterator[list[Any]]:
        """Its answer as the driver gives it, so many rows at a time; the rest stays over there."""
        _, opened = self._executed(connection, [values], streamed=True)
        with contextlib.closing(opened) as cursor:
            while page := cursor.fetchmany(size):
                yield page

    def scalars(self, connection: Connection, **values: Any) -> list[Any]:
        """The first column of its answer."""
        return [row[0] for row in self.rows(connection, **values)]

    def run_all(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Execute what has no answer, for each of these values."""
        self._executed(connection, rows, many=True)

    def _executed(
        self,
        connection: Connection,
        rows: Sequence[Mapping[str, Any]],
        *,
        many: bool = False,
        streamed: bool = False,
    ) -> tuple[_Form, Any]:
        """A cursor that has the answer, and how it is read; whoever listens to SQLAlchemy hears it.

        Streamed, PostgreSQL keeps the answer and gives it bit by bit.

        Raises: KeyError where a value is missing.
        """
        form = self._forms.get(connection.dialect.name)
        if form is None:
            form = self._forms[connection.dialect.name] = _Form(self._statement, connection.dialect)
        params: list[Any] = []
        for values in rows:
            given = {**form.given, **values}
            for name, written in form.written:
                given[name] = written(given[name])
            own = [given[name] for name in form.names]
            params.append(
                tuple(own) if form.is_positional else dict(zip(form.names, own, strict=True))
            )
        on_server = streamed and connection.dialect.name == "postgresql"
        named = {"name": f"pages_{uuid4().hex}"} if on_server else {}
        cursor = connection.connection.cursor(**named)
        told = params if many else params[0]
        if listeners := connection.dispatch.before_cursor_execute:
            listeners(connection, cursor, form.text, told, None, many)
        (cursor.executemany if many else cursor.execute)(form.text, told)
        return form, cursor


class _Form:
    """A statement in the words of one database, and how its answer is read."""

    def __init__(self, statement: sa.Select[Any] | sa.Insert | sa.Update, dialect: Dialect) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=_column_keys(statement))
        self.text = str(compiled)
        binds = {name: bind for bind, name in compiled.bind_names.items()}
        order: Sequence[str] | None = getattr(compiled, "positiontup", None)
        self.is_positional = order is not None
        self.names = list(binds) if order is None else order
        given = compiled.params.items()
        self.given = {name: value for name, value in given if not binds[name].required}
        kinds = {name: one.type.dialect_impl(dialect) for name, one in binds.items()}
        written = {name: kind.bind_processor(dialect) for name, kind in kinds.items()}
        self.written = [(name, one) for name, one in written.items() if one is not None]
        chosen = statement.selected_columns if isinstance(statement, sa.Select) else ()
        self._columns = [column.type.dialect_impl(dialect) for column in chosen]
        self.record: Callable[[Iterable[Any]], Any] | None = None
        self.readers: list[tuple[int, Callable[[Any], Any]]] = []

    def read_as(self, columns: Sequence[Sequence[Any]], dialect: Dialect) -> None:
        """`columns` is what the driver says of each: its name, its type, and more."""
        kinds = zip(self._columns, columns, strict=True)
        readers = [kind.result_processor(dialect, column[1]) for kind, column in kinds]
        self.readers = [(n, one) for n, one in enumerate(readers) if one is not None]
        self.record = _record([column[0] for column in columns])._make


def _record(names: list[str]) -> Any:
    """A tuple with these names."""
    return namedtuple("Found", names)


def _column_keys(statement: sa.Select[Any] | sa.Insert | sa.Update) -> list[str] | None:
    if not isinstance(statement, sa.Insert):
        return None
    return [column.key for column in statement.table.c if column.key != "seq"]


# --- `column IN (...)`: all values in one parameter, so that a statement is compiled once ---------

_NEVER_STORED = re.compile("[\0\ud800-\udfff]")
"""What no stored text has: PostgreSQL refuses it, and SQLite's JSON ends at NUL."""


class among(FunctionElement[bool]):  # noqa: N801 - read as the operator that it is
    """Whether a column of texts has one of these texts, or of those given under this name."""

    type = sa.Boolean()
    inherit_cache = True

    def __init__(self, column: sa.ColumnElement[Any], texts: str | Collection[str]) -> None:
        if isinstance(texts, str):
            told = sa.bindparam(texts, type_=_Texts())
        else:
            told = sa.bindparam("texts", texts, type_=_Texts(), unique=True)
        super().__init__(column, told)

    def self_group(self, against: Any = None) -> Any:  # noqa: ARG002 - whatever it stands in
        """As it is: no index would be used for the `... = 1` that SQLite's booleans become."""
        return self


class _Texts(TypeDecorator[Collection[str]]):
    """Any number of texts: a JSON array in SQLite, an array in PostgreSQL."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name != "postgresql":
            return dialect.type_descriptor(sa.Text())
        from sqlalchemy.dialects import postgresql  # 0.1 s that only a server is worth

        return dialect.type_descriptor(postgresql.ARRAY(sa.Text()))

    def process_bind_param(self, value: Collection[str] | None, dialect: Dialect) -> Any:
        texts = [text for text in value or () if not _NEVER_STORED.search(text)]
        return texts if dialect.name == "postgresql" else json.dumps(texts)


@compiles(among, "sqlite")
def _in_sqlite(element: among, compiler: SQLCompiler, **settings: Any) -> str:
    column, texts = (compiler.process(one, **settings) for one in element.clauses)
    return f"{column} IN (SELECT value FROM json_each({texts}))"  # noqa: S608 - no value in it


@compiles(among, "postgresql")
def _in_postgresql(element: among, compiler: SQLCompiler, **settings: Any) -> str:
    column, texts = (compiler.process(one, **settings) for one in element.clauses)
    return f"{column} = ANY ({texts})"

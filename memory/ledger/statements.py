"""SQL statements that are compiled once, and a condition that takes any number of texts."""

from __future__ import annotations

import contextlib
import json
import re
from collections import namedtuple
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator


class Prepared:
    """A statement that is compiled only once for each kind of database, to save time.

    The database's driver executes it directly. That takes about 10 µs on SQLite, and about 80 µs
    through SQLAlchemy. One write to the ledger executes about thirty statements.
    """

    def __init__(self, statement: sa.Select[Any] | sa.Insert | sa.Update) -> None:
        """Take the statement. Rows of an INSERT must give a value to every column but `seq`."""
        self._statement = statement
        self._compiled: dict[str, _Compiled] = {}

    def rows(self, connection: Connection, **values: Any) -> list[Any]:
        """Execute a query with these parameters, and return its rows as named tuples."""
        compiled, cursor = self._execute(connection, [values])
        if compiled.row is None:
            compiled.read_columns(cursor.description, connection.dialect)
        found: list[Any] = cursor.fetchall()
        if compiled.readers:
            found = [list(row) for row in found]
            for position, read in compiled.readers:
                for row in found:
                    row[position] = read(row[position])
        return [compiled.row(row) for row in found]

    def scalars(self, connection: Connection, **values: Any) -> list[Any]:
        """Execute a query with these parameters, and return the first column of its rows."""
        return [row[0] for row in self.rows(connection, **values)]

    def tuples(self, connection: Connection, **values: Any) -> list[tuple[Any, ...]]:
        """Execute a query with these parameters, and return its rows as plain tuples.

        Values are as the driver returns them, without SQLAlchemy's conversions.
        """
        _, cursor = self._execute(connection, [values])
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found

    def pages(
        self, connection: Connection, size: int, **values: Any
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Execute a query with these parameters, and yield its rows in lists of at most `size`.

        Values are as the driver returns them, without SQLAlchemy's conversions. On PostgreSQL, rows
        that were not read yet stay on the server.
        """
        _, opened = self._execute(connection, [values], streamed=True)
        with contextlib.closing(opened) as cursor:
            while page := cursor.fetchmany(size):
                yield page

    def run(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Execute an INSERT or UPDATE once for each mapping of parameters."""
        self._execute(connection, rows, many=True)

    def _execute(
        self,
        connection: Connection,
        rows: Sequence[Mapping[str, Any]],
        *,
        many: bool = False,
        streamed: bool = False,
    ) -> tuple[_Compiled, Any]:
        """Execute the statement, and return its compiled form and the driver's cursor.

        `rows`: mappings of parameters. With `many`, execute the statement once for each mapping,
        otherwise only for the first. `streamed`: on PostgreSQL, keep the result on the server.

        Raises: KeyError if a parameter is missing.
        """
        compiled = self._compiled.get(connection.dialect.name)
        if compiled is None:
            compiled = _Compiled(self._statement, connection.dialect)
            self._compiled[connection.dialect.name] = compiled
        parameters = [compiled.parameters(row) for row in rows]
        given = parameters if many else parameters[0]
        on_server = streamed and connection.dialect.name == "postgresql"
        cursor = connection.connection.cursor(
            **{"name": f"pages_{uuid4().hex}"} if on_server else {}
        )
        if listeners := connection.dispatch.before_cursor_execute:
            listeners(connection, cursor, compiled.text, given, None, many)
        (cursor.executemany if many else cursor.execute)(compiled.text, given)
        return compiled, cursor


class _Compiled:
    """A statement in one database's SQL, with the conversions of its parameters and columns."""

    row: Any = None
    """A function that makes a named tuple of a row's values; None before the first execution."""

    def __init__(self, statement: sa.Select[Any] | sa.Insert | sa.Update, dialect: Dialect) -> None:
        keys = None
        if isinstance(statement, sa.Insert):
            keys = [column.key for column in statement.table.c if column.key != "seq"]
        compiled = statement.compile(dialect=dialect, column_keys=keys)
        self.text = str(compiled)
        binds = {name: bind for bind, name in compiled.bind_names.items()}
        self._order: Sequence[str] | None = getattr(compiled, "positiontup", None)
        self._fixed = {
            name: value for name, value in compiled.params.items() if not binds[name].required
        }
        self._names = [*binds]
        writers = {
            name: bind.type.dialect_impl(dialect).bind_processor(dialect)
            for name, bind in binds.items()
        }
        self._writers = [(name, write) for name, write in writers.items() if write is not None]
        columns = statement.selected_columns if isinstance(statement, sa.Select) else ()
        self._types = [column.type.dialect_impl(dialect) for column in columns]
        self.readers: list[tuple[int, Callable[[Any], Any]]] = []

    def parameters(self, values: Mapping[str, Any]) -> Any:
        """Return the parameters of one execution in the form that the driver expects.

        Raises: KeyError if a parameter is missing.
        """
        given = {**self._fixed, **values}
        for name, write in self._writers:
            given[name] = write(given[name])
        if self._order is None:
            return {name: given[name] for name in self._names}
        return tuple(given[name] for name in self._order)

    def read_columns(self, columns: Sequence[Sequence[Any]], dialect: Dialect) -> None:
        """Set `row` and `readers` for the columns of a result.

        `columns`: the driver's description of them, `cursor.description`.
        """
        readers = [
            kind.result_processor(dialect, column[1])
            for kind, column in zip(self._types, columns, strict=True)
        ]
        self.readers = [(n, read) for n, read in enumerate(readers) if read is not None]
        make: Any = namedtuple
        self.row = make("Found", [column[0] for column in columns])._make


# --- `column IN (...)` with any number of values in one parameter ---------------------------------

_NEVER_STORED = re.compile("[\0\ud800-\udfff]")
"""Characters that no stored text contains.

PostgreSQL refuses them, and SQLite's JSON functions stop reading at NUL.
"""


class among(FunctionElement[bool]):  # noqa: N801 - read as the operator that it is
    """SQL condition that a text column has one of these values, passed as a single parameter.

    `column.in_()` uses a parameter for each value, and databases refuse more than about 32,000.
    """

    type = sa.Boolean()
    inherit_cache = True

    def __init__(self, column: sa.ColumnElement[Any], texts: str | Collection[str]) -> None:
        """`texts`: the values, or the name of a parameter that receives them at execution."""
        if isinstance(texts, str):
            values = sa.bindparam(texts, type_=_Texts())
        else:
            values = sa.bindparam("texts", texts, type_=_Texts(), unique=True)
        super().__init__(column, values)

    def self_group(self, against: Any = None) -> Any:  # noqa: ARG002 - whatever it stands in
        """Return the condition unchanged.

        By default, SQLAlchemy would compare it with 1, and the database would then use no index.
        """
        return self


class _Texts(TypeDecorator[Collection[str]]):
    """A SQL type that passes any number of texts as one JSON array."""

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

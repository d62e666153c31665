"""Read and change PostgreSQL tables with a pgvector column: mem0's, LangChain's or any other.

An import reads the columns of a row as metadata; from a column with a JSON object, it reads the
object's keys. Columns are read as the text that the database prints, so that they can be restored
exactly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from memory.errors import InputError
from memory.interchange.collection import ExternalStore, OpenCollection
from memory.interchange.databases import Postgres, connected, quoted, without_password
from memory.interchange.foreign import ForeignRow, changed_keys
from memory.interchange.undo_file import Kind, Stored, UndoHeader

_PLAIN = ("smallint", "integer", "bigint", "double precision", "real", "boolean")
"""SQL types whose values are kept as JSON values; values of other types are kept as text."""
_DENSE = ("vector", "halfvec")
"""pgvector's types of dense vectors."""
_OF_THE_TEXT = (*_DENSE, "sparsevec", "tsvector")
"""SQL types of columns that are derived from a row's text."""
_JSON = ("json", "jsonb")
_LANGCHAIN, _COLLECTIONS, _COLLECTION = (
    "langchain_pg_embedding", "langchain_pg_collection", "collection_id",
)  # fmt: skip
"""LangChain's table of rows, its table of collections, and the column that links them.

LangChain's PGVector keeps the rows of all collections in one table.
"""
_COLUMNS = """
    SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type, t.typname AS kind,
           coalesce(i.indisprimary, false) AS is_key
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary AND a.attnum = ANY(i.indkey)
    WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0
      AND NOT a.attisdropped AND a.attgenerated = ''
    ORDER BY a.attnum
"""
_WITH_VECTORS = """
    SELECT c.relname AS name FROM pg_class c
    JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid
    WHERE c.relkind IN ('r', 'p') AND pg_table_is_visible(c.oid) AND t.typname = ANY(%s)
"""


@dataclass(frozen=True)
class PgvectorStore(ExternalStore):
    """A table, or a LangChain collection, in a PostgreSQL database.

    `place` is the database's URL; `name` is the table's or the collection's name.
    """

    place: str
    name: str
    kind: ClassVar[Kind] = "pgvector"

    @property
    def address(self) -> str:
        return without_password(self.place)

    def as_read(self, stored: Stored) -> ForeignRow:
        """Return a stored row in the form in which an import reads it.

        The row's metadata has the values of the table's columns. A JSON column is replaced by the
        keys inside it. If a column and such a key have the same name, the column's value is taken.
        LangChain keeps the text in a column `document`; this column becomes the row's document.
        """
        plain = {name: one for name, one in stored.metadata.items() if not _is_json(one)}
        keys: dict[str, Any] = {}
        for name, one in stored.metadata.items():
            if _is_json(one):
                inside = json.loads(one["json"])
                keys |= inside if isinstance(inside, dict) else {name: inside}
        document = plain.pop("document", None)
        plain.pop(_COLLECTION, None)
        columns = {name: one for name, one in plain.items() if one is not None}
        return ForeignRow(stored.id, document, keys | columns)

    @contextmanager
    def looking(self) -> Iterator[OpenCollection]:
        with connected(self.place) as db, db.transaction(writing=False):
            yield _TableRows(self, db, _table(db, self.name))

    @contextmanager
    def opened(self) -> Iterator[OpenCollection]:
        with connected(self.place) as db, db.transaction(writing=False):
            table = _table(db, self.name)
            db.check_rights([table.sql_name])
            yield _TableRows(self, db, table)

    @contextmanager
    def writing(self, header: UndoHeader) -> Iterator[OpenCollection]:  # noqa: ARG002
        """Open the table for writing; each `step()` is a transaction that locks rows it reads."""
        with connected(self.place) as db:
            with db.transaction(writing=False):
                table = _table(db, self.name)
            yield _TableRows(self, db, table, lock=" FOR UPDATE")


@dataclass(frozen=True)
class _Table:
    """A description of a table, or of a LangChain collection in LangChain's table of rows.

    `sql_name`: the table's name in SQL. `key`: the name of the primary key's column. `types`: the
    full SQL type of each other column, such as `vector(384)`, by column name. `kinds`: the short
    types, such as `vector`. `collection`: the id of the LangChain collection; None for any other
    table. `identity`: the id by which later runs recognise the collection.
    """

    sql_name: str
    identity: str
    key: str
    types: dict[str, str]
    kinds: dict[str, str]
    collection: str | None = None

    @property
    def plain(self) -> list[str]:
        """The names of the columns, without the key, that are not derived from the row's text."""
        return [name for name in self.types if self.kinds[name] not in _OF_THE_TEXT]

    @property
    def vectors(self) -> list[str]:
        """The names of the columns that are derived from the row's text: vectors, search words."""
        return [name for name in self.types if self.kinds[name] in _OF_THE_TEXT]

    @property
    def only(self) -> tuple[str, list[str]]:
        """An SQL condition that selects the rows of this collection, and its parameters' values."""
        return (
            ("TRUE", []) if self.collection is None else (f"{_COLLECTION} = %s", [self.collection])
        )

    def select(self, columns: Sequence[str]) -> str:
        """Return an SQL query that selects the key and `columns` of all rows of the collection.

        The query ends with its WHERE condition, so the caller may append ` AND ...`. The values of
        its parameters are the second item of `only`.
        """
        selected = [
            quoted(name)
            if self.types[name] in _PLAIN
            else f"{quoted(name)}::text AS {quoted(name)}"
            for name in columns
        ]
        key = f"{quoted(self.key)}::text AS {quoted(_ROW)}"
        return f"SELECT {', '.join([key, *selected])} FROM {self.sql_name} WHERE {self.only[0]}"  # noqa: S608 - quoted


_ROW = "row of this name"
"""The column name under which a SELECT returns a row's key; no real column has it."""


def _table(db: Postgres, name: str) -> _Table:
    """Return the description of the table, or the LangChain collection, called `name`.

    Raises: InputError if there is no such table or collection, or if the table's primary key is not
    exactly one column.
    """
    sql_name, collection = quoted(name), None
    columns = db.run(_COLUMNS, [sql_name])
    if not columns:
        collection = _langchain_collections(db).get(name)
        sql_name = _LANGCHAIN
        columns = db.run(_COLUMNS, [sql_name]) if collection is not None else []
    if not columns:
        tables = {row["name"] for row in db.run(_WITH_VECTORS, [list(_DENSE)])} - {_LANGCHAIN}
        there = ", ".join(sorted(tables | _langchain_collections(db).keys())) or "none"
        problem = f"has no table or collection {name!r}"
        raise InputError(db.address, problem, f"name one with --collection; there are: {there}")
    keys = [column["name"] for column in columns if column["is_key"]]
    if len(keys) != 1:
        problem = f"{name!r} has no primary key of one column"
        raise InputError(db.address, problem, "see docs/other-stores.md: dump, clean, apply")
    return _Table(
        sql_name,
        f"pgvector:{db.identity(sql_name)}" + ("" if collection is None else f"/{collection}"),
        keys[0],
        {column["name"]: column["type"] for column in columns if column["name"] != keys[0]},
        {column["name"]: column["kind"] for column in columns},
        collection,
    )


def _langchain_collections(db: Postgres) -> dict[str, str]:
    """Return the id of each LangChain collection by its name; empty if LangChain is not used."""
    if not db.has(_COLLECTIONS):
        return {}
    rows = db.run(f"SELECT name, uuid::text AS id FROM {_COLLECTIONS}")  # noqa: S608 - a constant
    return {row["name"]: row["id"] for row in rows}


@dataclass(frozen=True)
class _TableRows(OpenCollection):
    """An open table or LangChain collection; `lock` is appended to a SELECT to lock its rows."""

    db: Postgres
    table: _Table
    lock: str = ""

    @property
    def collection_id(self) -> str:
        return self.table.identity

    def all(self) -> Iterator[ForeignRow]:
        ordered = f"{self.table.select(self.table.plain)} ORDER BY {quoted(self.table.key)}"
        for page in self.db.pages(ordered, self.table.only[1]):
            yield from (self.external.as_read(self._stored(row)) for row in page)

    def step(self) -> AbstractContextManager[None]:
        return self.db.transaction(writing=True)

    def stored(self, names: Sequence[str]) -> dict[str, Stored]:
        if not names:
            return {}
        columns = [*self.table.plain, *self.table.vectors]
        marks = ", ".join(["%s"] * len(names))
        chosen = (
            f"{self.table.select(columns)} AND {quoted(self.table.key)} IN ({marks}){self.lock}"
        )
        found = self.db.run(chosen, [*self.table.only[1], *names])
        return {row[_ROW]: self._stored(row) for row in found}

    def _stored(self, row: Mapping[str, Any]) -> Stored:
        plain = {
            name: {"json": row[name]}
            if self.table.kinds[name] in _JSON and row[name] is not None
            else row[name]
            for name in self.table.plain
        }
        numbers = {
            name: _numbers(row[name]) if self.table.kinds[name] in _DENSE else row[name]
            for name in self.table.vectors
            if row.get(name) is not None
        }
        return Stored(row[_ROW], None, plain, numbers)

    def with_read(self, stored: Stored, row: ForeignRow) -> Stored:
        """Return a copy of `stored`, changed so that an import reads it as `row`.

        A key of the row's metadata is either a column or a key inside a JSON column. A changed key
        stays where it is; a new key goes into the first JSON column.
        """
        before, columns = self.external.as_read(stored), dict(stored.metadata)
        changes = changed_keys(before.metadata, row.metadata)
        if row.document != before.document:
            changes["document"] = row.document  # the column, as it was read
        objects = {name: json.loads(one["json"]) for name, one in columns.items() if _is_json(one)}
        inside: dict[str, dict[str, Any]] = {}
        for key, value in changes.items():
            holder = next((name for name, one in objects.items() if key in one), None)
            if key in self.table.types and key not in objects:
                columns[key] = self._as_written(key, value)
            else:
                inside.setdefault(holder or next(iter(objects)), {})[key] = value
        for name, values in inside.items():
            columns[name] = {"json": self._merged(name, columns[name]["json"], values)}
        return stored.saying(None, columns)

    def _as_written(self, column: str, value: object) -> object:
        kind = self.table.types[column]
        return value if value is None or kind in _PLAIN else self.db.as_written(value, kind)

    def _merged(self, column: str, text: str, values: Mapping[str, Any]) -> str:
        """Return the JSON object `text`, from a JSON column, with `values` set in it.

        A key whose value is None is removed. The result is JSON text. The database computes it,
        because the database keeps each number exactly as it was written.
        """
        gone = [key for key, value in values.items() if value is None]
        new = {key: value for key, value in values.items() if value is not None}
        kind = self.table.kinds[column]
        [found] = self.db.run(
            f"SELECT ((%s::jsonb || %s::jsonb) - %s::text[])::{kind}::text AS merged",
            [text, json.dumps(new), gone],
        )
        return str(found["merged"])

    def put(self, rows: Sequence[Stored], there: Mapping[str, Stored]) -> None:
        for row in rows:
            values = self._values(row)
            if row.id in there:
                now = self._values(there[row.id])
                if changes := changed_keys(now, now | values):
                    self._change(row.id, changes)
                continue
            values = {self.table.key: row.id} | values
            names, marks = ", ".join(map(quoted, values)), ", ".join(["%s"] * len(values))
            self.db.run(
                f"INSERT INTO {self.table.sql_name} ({names})"  # noqa: S608 - quoted
                f" OVERRIDING SYSTEM VALUE VALUES ({marks})",
                list(values.values()),
            )

    def _change(self, name: str, values: Mapping[str, Any]) -> None:
        sets = ", ".join(f"{quoted(column)} = %s" for column in values)
        where = f"{self.table.only[0]} AND {quoted(self.table.key)} = %s"
        self.db.run(
            f"UPDATE {self.table.sql_name} SET {sets} WHERE {where}",  # noqa: S608 - quoted
            [*values.values(), *self.table.only[1], name],
        )

    def _values(self, row: Stored) -> dict[str, Any]:
        """Return the row's columns, by name, in the form in which the database takes them."""
        plain = {name: one["json"] if _is_json(one) else one for name, one in row.metadata.items()}
        vectors = {
            name: self.db.vector(vector) if isinstance(vector, np.ndarray) else vector
            for name, vector in row.vectors.items()
        }
        return plain | vectors

    def delete(self, names: Sequence[str]) -> None:
        marks = ", ".join(["%s"] * len(names))
        where = f"{self.table.only[0]} AND {quoted(self.table.key)} IN ({marks})"
        statement = f"DELETE FROM {self.table.sql_name} WHERE {where}"  # noqa: S608 - quoted
        self.db.run(statement, [*self.table.only[1], *names])


def _is_json(value: object) -> bool:
    return isinstance(value, dict) and "json" in value


def _numbers(printed: str) -> Any:
    return np.array(printed.strip("[]").split(","), dtype=np.float32)

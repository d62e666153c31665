"""Read and change PostgreSQL tables with a pgvector column: mem0's, LangChain's or any other.

An import reads the columns of a row as metadata. If a column has a JSON object, the keys of this
object are read instead of the column. Columns are read as the text that the database prints, so
that they can be restored exactly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar

import numpy as np

from memory.errors import InputError
from memory.interchange.collection import DatabaseStore, OpenTables
from memory.interchange.databases import Postgres, condition, numbers, quoted
from memory.interchange.foreign import ForeignRow
from memory.interchange.undo_file import Kind, Stored

_PLAIN = ("smallint", "integer", "bigint", "double precision", "real", "boolean")
"""SQL types whose values are kept as JSON values; values of other types are kept as text."""
_DENSE = ("vector", "halfvec")
_ROW = "row of this name"  # a SELECT returns the key under it; no real column has it
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
class PgvectorStore(DatabaseStore):
    """A table, or a LangChain collection, in a PostgreSQL database.

    `place` is the database's URL; `name` is the table's or the collection's name.
    """

    kind: ClassVar[Kind] = "pgvector"

    def as_read(self, stored: Stored) -> ForeignRow:
        """Return a stored row in the form in which an import reads it.

        The row's metadata has the values of the table's columns. Instead of a JSON column, it has
        the keys of the object in this column. If a column and such a key have the same name, the
        column's value is taken. A column `document`, in which LangChain keeps the text, becomes the
        row's document.
        """
        keys: dict[str, Any] = {}
        columns: dict[str, Any] = {}
        for name, column in stored.metadata.items():
            if _is_json(column):
                inside = json.loads(column["json"])
                keys |= inside if isinstance(inside, dict) else {name: inside}
            elif column is not None and name != _COLLECTION:
                columns[name] = column
        document = columns.pop("document", None)
        return ForeignRow(stored.id, document, keys | columns)

    def rows_in(self, db: Any) -> OpenTables:
        """Return the table or the LangChain collection called `name`, opened in the database `db`.

        Raises: InputError if there is no such table or collection, or if the table's primary key is
        not exactly one column.
        """
        sql_name, collection = quoted(self.name), None
        columns = db.run(_COLUMNS, [sql_name])
        if not columns:
            collection = _langchain_collections(db).get(self.name)
            sql_name = _LANGCHAIN
            columns = db.run(_COLUMNS, [sql_name]) if collection is not None else []
        if not columns:
            tables = {row["name"] for row in db.run(_WITH_VECTORS, [list(_DENSE)])} - {_LANGCHAIN}
            known = ", ".join(sorted(tables | _langchain_collections(db).keys())) or "none"
            problem = f"has no table or collection {self.name!r}"
            raise InputError(db.name, problem, f"name one with --collection; there are: {known}")
        keys = [column["name"] for column in columns if column["is_key"]]
        if len(keys) != 1:
            problem = f"{self.name!r} has no primary key of one column"
            raise InputError(db.name, problem, "see docs/other-stores.md: dump, clean, apply")
        return _TableRows(
            external=self,
            db=db,
            sql_name=sql_name,
            key=keys[0],
            types={column["name"]: column["type"] for column in columns if not column["is_key"]},
            kinds={column["name"]: column["kind"] for column in columns},
            only={} if collection is None else {_COLLECTION: collection},
        )


def _langchain_collections(db: Postgres) -> dict[str, str]:
    """Return the ids of LangChain's collections by name; {} if LangChain's tables are missing."""
    if not db.has(_COLLECTIONS):
        return {}
    rows = db.run(f"SELECT name, uuid::text AS id FROM {_COLLECTIONS}")  # noqa: S608 - a constant
    return {row["name"]: row["id"] for row in rows}


@dataclass(frozen=True, kw_only=True)
class _TableRows(OpenTables):
    """An open table, or an open LangChain collection in LangChain's table of rows.

    `sql_name`: the table's name in SQL. `key`: the name of the primary key's column. `types`: the
    full SQL type of each other column, such as `vector(384)`, by column name. `kinds`: the short
    types, such as `vector`. `only`: columns and their values that select the collection's rows;
    empty if the collection is the whole table.
    """

    db: Postgres
    sql_name: str
    key: str
    types: dict[str, str]
    kinds: dict[str, str]
    only: dict[str, str]

    @property
    def collection_id(self) -> str:
        return "/".join([f"pgvector:{self.db.identity(self.sql_name)}", *self.only.values()])

    @property
    def tables(self) -> list[str]:
        return [self.sql_name]

    @property
    def plain(self) -> list[str]:
        """The names of the columns, without the key, that are not derived from the row's text."""
        return [name for name in self.types if self.kinds[name] not in _OF_THE_TEXT]

    @property
    def derived(self) -> list[str]:
        """The names of the columns that are derived from the row's text: vectors, search words."""
        return [name for name in self.types if self.kinds[name] in _OF_THE_TEXT]

    def all(self) -> Iterator[ForeignRow]:
        select, values = self._select(self.plain, self.only)
        for page in self.db.pages(f"{select} ORDER BY {quoted(self.key)}", values):
            yield from (self.external.as_read(self._stored(row)) for row in page)

    def stored(self, ids: Sequence[str]) -> dict[str, Stored]:
        if not ids:
            return {}
        wanted = {**self.only, self.key: list(ids)}
        select, values = self._select([*self.plain, *self.derived], wanted)
        rows = self.db.run(f"{select}{self.lock}", values)
        return {row[_ROW]: self._stored(row) for row in rows}

    def _select(self, columns: Sequence[str], wanted: Mapping[str, Any]) -> tuple[str, list[Any]]:
        """Return an SQL query that reads the key and `columns`, and the values for each `%s` in it.

        `wanted` selects the rows, as in `condition`: the wanted values by column name.
        """
        selected = [f"{quoted(self.key)}::text AS {quoted(_ROW)}"]
        for name in columns:
            as_text = "" if self.types[name] in _PLAIN else f"::text AS {quoted(name)}"
            selected.append(quoted(name) + as_text)
        where, values = condition(wanted)
        return f"SELECT {', '.join(selected)} FROM {self.sql_name} WHERE {where}", values  # noqa: S608 - quoted

    def _stored(self, row: Mapping[str, Any]) -> Stored:
        plain = {
            name: {"json": row[name]}
            if self.kinds[name] in _JSON and row[name] is not None
            else row[name]
            for name in self.plain
        }
        vectors = {
            name: numbers(row[name]) if self.kinds[name] in _DENSE else row[name]
            for name in self.derived
            if row.get(name) is not None
        }
        return Stored(row[_ROW], None, plain, vectors)

    def changed(
        self,
        stored: Stored,
        document: str | None,
        changes: Mapping[str, Any],
        now: datetime,  # noqa: ARG002
    ) -> Stored:
        """Return a copy of the row `stored` with other values, but the same vectors.

        `changes` has new values by name. A name is a column, or a key inside a JSON column.
        `document`: the new value of the column `document`; None if it does not change. `now` is not
        used.
        """
        columns = dict(stored.metadata)
        if document is not None:
            changes = {**changes, "document": document}  # the column, as it was read
        inside: dict[str, dict[str, Any]] = {}
        for key, value in changes.items():
            is_column = columns.get(key) is not None and not _is_json(columns[key])
            holders = (name for name, column in columns.items() if key in _keys_in(column))
            holder = None if is_column else next(holders, None)
            if holder is None:
                kind = self.types[key]
                columns[key] = value if kind in _PLAIN else self.db.as_written(value, kind)
            else:
                inside.setdefault(holder, {})[key] = value
        for name, values in inside.items():  # the database keeps each number as it was written
            merge = f"SELECT (%s::jsonb || %s::jsonb)::{self.kinds[name]}::text AS json"
            [columns[name]] = self.db.run(merge, [columns[name]["json"], json.dumps(values)])
        return replace(stored, metadata=columns)

    def put(self, rows: Sequence[Stored], present: Mapping[str, Stored]) -> None:
        for row in rows:
            named, values = {self.key: row.id}, self._values(row)
            if row.id in present:
                before = self._values(present[row.id])
                self.db.update(self.sql_name, self.only | named, before, values)
            else:
                self.db.insert(self.sql_name, named | values)

    def _values(self, row: Stored) -> dict[str, Any]:
        """Return the row's values by column name, vectors included, as SQL parameters."""
        plain = {
            name: column["json"] if _is_json(column) else column
            for name, column in row.metadata.items()
        }
        vectors = {
            name: self.db.vector(vector) if isinstance(vector, np.ndarray) else vector
            for name, vector in row.vectors.items()
        }
        return plain | vectors

    def delete(self, ids: Sequence[str]) -> None:
        self.db.delete(self.sql_name, {**self.only, self.key: list(ids)})


def _is_json(column: object) -> bool:
    return isinstance(column, dict) and "json" in column


def _keys_in(column: Any) -> dict[str, Any]:
    """Return the object in a JSON column; {} if the value is not a JSON object."""
    inside = json.loads(column["json"]) if _is_json(column) else {}
    return inside if isinstance(inside, dict) else {}

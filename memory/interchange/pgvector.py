"""Read and change PostgreSQL tables with a pgvector column: mem0's, LangChain's or any other.

Columns are read as the text that the database prints, so that they can be restored exactly.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar

import numpy as np

from memory.errors import InputError
from memory.interchange.collection import DatabaseStore, Kind, OpenTables, Stored
from memory.interchange.databases import Postgres, condition, numbers, quoted
from memory.interchange.foreign import ForeignRow

# SQL types whose values are kept as JSON values; values of other types are kept as text
_JSON_TYPES = ("smallint", "integer", "bigint", "double precision", "real", "boolean")
_DENSE = ("vector", "halfvec")
_ROW = "row of this name"  # a SELECT returns the key under it; no real column has it
_DERIVED_TYPES = (*_DENSE, "sparsevec", "tsvector")
_JSON_COLUMN_TYPES = ("json", "jsonb")
_LANGCHAIN_ROWS, _LANGCHAIN_COLLECTIONS, _COLLECTION_COLUMN = (
    "langchain_pg_embedding", "langchain_pg_collection", "collection_id",
)  # fmt: skip
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

    >>> PgvectorStore("postgresql://localhost/mem0", "memories").files  # nothing is copied
    []
    """

    kind: ClassVar[Kind] = "pgvector"

    def as_read(self, stored: Stored) -> ForeignRow:
        """Return a stored row in the form in which an import reads it.

        The metadata maps the names of columns to their values. Columns that are NULL are left out.
        If a JSON column holds an object, the metadata has one entry for each key of the object,
        and no entry for the column. If a key is also the name of a column that is not JSON, the
        entry has the value of that column. The value of the column `document`, which LangChain's
        table has, becomes the row's document and is not in the metadata.
        """
        keys: dict[str, Any] = {}
        columns: dict[str, Any] = {}
        for name, column in stored.metadata.items():
            if _is_json(column):
                inside = json.loads(column["json"])
                keys |= inside if isinstance(inside, dict) else {name: inside}
            elif column is not None and name != _COLLECTION_COLUMN:
                columns[name] = column
        return ForeignRow(stored.id, columns.pop("document", None), keys | columns)

    def rows_in(self, db: Any) -> OpenTables:
        sql_name, only = quoted(self.name), {}
        columns = db.run(_COLUMNS, [sql_name])
        if not columns:
            collections = _langchain_collections(db)
            if self.name not in collections:
                tables = {row["name"] for row in db.run(_WITH_VECTORS, [list(_DENSE)])}
                known = sorted(tables - {_LANGCHAIN_ROWS} | collections.keys())
                raise InputError(
                    db.name,
                    f"has no table or collection {self.name!r}",
                    f"name one with --collection; there are: {', '.join(known) or 'none'}",
                )
            sql_name, only = _LANGCHAIN_ROWS, {_COLLECTION_COLUMN: collections[self.name]}
            columns = db.run(_COLUMNS, [sql_name])
        keys = [column["name"] for column in columns if column["is_key"]]
        if len(keys) != 1:
            raise InputError(
                db.name,
                f"{self.name!r} has no primary key of one column",
                "see docs/other-stores.md: dump, clean, apply",
            )
        return _TableRows(
            external=self,
            db=db,
            sql_name=sql_name,
            key=keys[0],
            types={column["name"]: column["type"] for column in columns if not column["is_key"]},
            kinds={column["name"]: column["kind"] for column in columns},
            only=only,
        )


def _langchain_collections(db: Postgres) -> dict[str, str]:
    if not db.has(_LANGCHAIN_COLLECTIONS):
        return {}
    select = f"SELECT name, uuid::text AS id FROM {_LANGCHAIN_COLLECTIONS}"  # noqa: S608 - a constant
    return {row["name"]: row["id"] for row in db.run(select)}


@dataclass(frozen=True, kw_only=True)
class _TableRows(OpenTables):
    """An open table, or an open LangChain collection.

    LangChain keeps the rows of all collections in one table. `only` selects the collection's rows:
    it maps a column to the value that these rows have in it. For any other table, `only` is empty,
    and all rows are selected.

    `sql_name` is the table's name in SQL. `key` is the column of the primary key. `types` maps each
    other column to its full SQL type, such as `vector(384)`. `kinds` maps each column to its short
    type, such as `vector`.
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
        return [name for name in self.types if self.kinds[name] not in _DERIVED_TYPES]

    def all(self) -> Iterator[ForeignRow]:
        select, values = self._select(self.plain, self.only)
        for row in self.db.paged(f"{select} ORDER BY {quoted(self.key)}", values):
            yield self.external.as_read(self._stored(row))

    def stored(self, ids: Sequence[str]) -> dict[str, Stored]:
        select, values = self._select(self.types, {**self.only, self.key: list(ids)})
        return {row[_ROW]: self._stored(row) for row in self.db.run(select + self.lock, values)}

    def _select(self, columns: Iterable[str], wanted: Mapping[str, Any]) -> tuple[str, list[Any]]:
        selected = [
            f"{quoted(self.key)}::text AS {quoted(_ROW)}",
            *(
                quoted(name)
                if self.types[name] in _JSON_TYPES
                else f"{quoted(name)}::text AS {quoted(name)}"
                for name in columns
            ),
        ]
        where, values = condition(wanted)
        return f"SELECT {', '.join(selected)} FROM {self.sql_name} WHERE {where}", values  # noqa: S608 - quoted

    def _stored(self, row: Mapping[str, Any]) -> Stored:
        plain = {
            name: {"json": row[name]}
            if self.kinds[name] in _JSON_COLUMN_TYPES and row[name] is not None
            else row[name]
            for name in self.plain
        }
        vectors = {
            name: numbers(row[name]) if self.kinds[name] in _DENSE else row[name]
            for name in self.types
            if name not in plain and row.get(name) is not None
        }
        return Stored(row[_ROW], None, plain, vectors)

    def changed(
        self,
        stored: Stored,
        document: str | None,
        changes: Mapping[str, Any],
        now: datetime,  # noqa: ARG002
    ) -> Stored:
        """Return a copy of the row `stored` with a new text. The copy still has the old vectors.

        `changes` maps columns, or keys inside a JSON column, to new values. `document` is the new
        value of the column `document`; None if that column does not change.
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
                columns[key] = value if kind in _JSON_TYPES else self.db.as_written(value, kind)
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
                self.db.update(
                    self.sql_name, self.only | named, self._values(present[row.id]), values
                )
            else:
                self.db.insert(self.sql_name, named | values)

    def _values(self, row: Stored) -> dict[str, Any]:
        return {
            name: column["json"] if _is_json(column) else column
            for name, column in row.metadata.items()
        } | {
            name: self.db.vector(vector) if isinstance(vector, np.ndarray) else vector
            for name, vector in row.vectors.items()
        }

    def delete(self, ids: Sequence[str]) -> None:
        self.db.delete(self.sql_name, {**self.only, self.key: list(ids)})


def _is_json(column: object) -> bool:
    return isinstance(column, dict) and "json" in column


def _keys_in(column: Any) -> dict[str, Any]:
    inside = json.loads(column["json"]) if _is_json(column) else {}
    return inside if isinstance(inside, dict) else {}

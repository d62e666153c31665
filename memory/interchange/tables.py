"""Read and change collections in the tables of a database, each item or row as a row here.

These are LangGraph's SqliteStore and PostgresStore, and PostgreSQL tables with a pgvector column:
mem0's, LangChain's or any other. JSON, times and columns are kept in the form that the database
returns, so that they can be restored exactly.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from memory.errors import InputError, installed
from memory.interchange.collection import ExternalStore, Kind, OpenCollection, Stored
from memory.interchange.databases import (
    Postgres,
    Sqlite,
    condition,
    connected,
    is_postgres,
    numbers,
    quoted,
    sqlite_file,
    without_password,
)
from memory.interchange.foreign import TEXT_KEYS, ForeignRow, Reading, expiry_of, grouped

_ITEMS, _VECTORS = "store", "store_vectors"
# The columns of an item that change only when a program writes the item. LangGraph changes the
# other columns, such as the expiry, also when an item is read.
_WRITTEN = ("prefix", "key", "value", "created_at", "updated_at")
_OWN_NAMES = ("prefix", "key", "field_name", "embedding")
Spot = tuple[str, str]  # an item's namespace and its key, which identify it
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
class DatabaseStore(ExternalStore):
    """A collection in tables of a database; `place` is a SQLite file or a PostgreSQL URL."""

    place: Path | str

    @property
    def address(self) -> str:
        return without_password(self.place) if isinstance(self.place, str) else super().address

    @property
    def files(self) -> list[Path]:
        return [self.place] if isinstance(self.place, Path) and self.place.is_file() else []

    @abstractmethod
    def rows_in(self, db: Sqlite | Postgres) -> OpenTables:
        """Return this store's collection in an open database.

        Raises: InputError if the database does not have the collection.
        """

    @contextmanager
    def opened(self, copy: Path | None = None) -> Iterator[OpenTables]:
        with self._database(copy) as db, db.transaction(writing=False):
            yield self.rows_in(db)

    @contextmanager
    def writing(
        self,
        collection_id: str,  # noqa: ARG002
        sync_threshold: int | None,  # noqa: ARG002
    ) -> Iterator[OpenTables]:
        """Open the tables for writing; each `step()` is one transaction.

        In PostgreSQL, `stored()` locks the rows that it returns until the transaction ends.
        """
        with self._database() as db:
            yield replace(self.rows_in(db), lock=db.lock)

    def _database(self, copy: Path | None = None) -> AbstractContextManager[Sqlite | Postgres]:
        place = self.place
        return sqlite_file(place, copy) if isinstance(place, Path) else connected(place)


@dataclass(frozen=True)
class OpenTables(OpenCollection):
    """A collection in tables of an open database.

    `lock` is the SQL that is appended to a SELECT to lock its rows. It is empty for reading.
    """

    db: Sqlite | Postgres
    lock: str = ""

    @property
    @abstractmethod
    def tables(self) -> list[str]:
        """The names of the collection's tables, quoted for SQL where needed."""

    def check_rights(self) -> None:
        self.db.check_rights(self.tables)

    def step(self) -> AbstractContextManager[None]:
        return self.db.transaction(writing=True)


# --- LangGraph's stores ---------------------------------------------------------------------------


@dataclass(frozen=True)
class LangGraphStore(DatabaseStore):
    """A LangGraph store, not opened yet.

    `place` is the file of a SqliteStore, or the URL of a PostgresStore's database.
    """

    name: str = "langgraph"
    kind: ClassVar[Kind] = "langgraph"

    def as_read(self, stored: Stored) -> ForeignRow:
        return _as_row(_decoded(stored.metadata))

    def rows_in(self, db: Sqlite | Postgres) -> OpenTables:
        return _Items(self, db)


def langgraph_at(place: str) -> LangGraphStore:
    """Return the LangGraph store at a SQLite file or a PostgreSQL URL; do not open it.

    >>> langgraph_at("notes.sqlite").kind, langgraph_at("postgresql://localhost/notes").files
    ('langgraph', [])
    """
    return LangGraphStore(place if is_postgres(place) else Path(place))


@dataclass(frozen=True)
class _Items(OpenTables):
    """The items of an open LangGraph store.

    Each item is read as a `Stored`, which has these parts:

    - `metadata` has the columns that change only when a program writes the item.
    - `beside[""]` has the item's other columns, such as the expiry.
    - `vectors` has the item's vectors, which are in a second table.
    - `beside[NAME]` has the second table's remaining columns for the vector NAME.
    """

    @property
    def collection_id(self) -> str:
        return f"langgraph:{self.db.identity(_ITEMS)}"

    @property
    def tables(self) -> list[str]:
        return [_ITEMS, *([_VECTORS] if self.db.has(_VECTORS) else [])]

    def all(self) -> Iterator[ForeignRow]:
        order = "rowid" if isinstance(self.db, Sqlite) else "created_at, prefix, key"
        return map(_as_row, self.db.run(f"SELECT * FROM {_ITEMS} ORDER BY {order}"))  # noqa: S608 - ours

    def stored(self, ids: Sequence[str]) -> dict[str, Stored]:
        spots = {  # namespaces and keys may contain slashes too: any of them may be the border
            name: [(name[:at], name[at + 1 :]) for at, sign in enumerate(name) if sign == "/"]
            for name in ids
        }
        items = {
            _spot(row): row
            for row in self._rows_at(_ITEMS, chain.from_iterable(spots.values()), self.lock)
        }
        has_vectors = _VECTORS in self.tables
        vectors = grouped(self._rows_at(_VECTORS, items) if has_vectors else (), _spot)
        known = {
            name: [spot for spot in possible if spot in items] for name, possible in spots.items()
        }
        return {
            name: _stored(name, items[found[0]], vectors.get(found[0], []))
            for name, found in known.items()
            if len(found) == 1  # a name that fits two items is ambiguous
        }

    def _rows_at(
        self, table: str, spots: Iterable[Spot], lock: str = ""
    ) -> Iterator[dict[str, Any]]:
        for prefix, inside in sorted(grouped(spots, itemgetter(0)).items()):
            where, values = condition({"prefix": prefix, "key": [key for _, key in inside]})
            yield from self.db.run(f"SELECT * FROM {table} WHERE {where}{lock}", values)  # noqa: S608 - ours

    def changed(
        self, stored: Stored, document: str | None, changes: Mapping[str, Any], now: datetime
    ) -> Stored:
        """Return a copy of the row `stored` with a new text. The copy still has the old vectors.

        `changes` maps keys of the item's value to new values. `document` becomes TEXT in langmem's
        form, `{"content": {"content": TEXT}}`; None changes no TEXT. If `changes` has the new text,
        `document` is None or the old TEXT. `now` becomes the time of the last update.
        """
        old = _decoded(stored.metadata)["value"]
        value = json.loads(old) | changes
        if document is not None:
            value["content"] = value["content"] | {"content": document}
        new = self.db.as_written(json.dumps(value, ensure_ascii=False), "jsonb")
        written = {
            "value": new.encode() if isinstance(old, bytes) else new,
            "updated_at": self.db.as_written(now.isoformat(), "timestamptz"),
        }
        return replace(stored, metadata=stored.metadata | _encoded(written))

    def texts(self, stored: Stored, reading: Reading) -> dict[str, str]:  # noqa: ARG002
        """Return the texts that the item's vectors were made from, by the vector's name.

        LangGraph names a vector after the path of its text in the item's value. A vector without a
        text at this path is left out.

        Raises: ConfigError if the item has vectors and LangGraph is not installed.
        """
        value = json.loads(_decoded(stored.metadata)["value"])
        return {
            field: text for field in stored.vectors if (text := _text_at(value, field)) is not None
        }

    def put(self, rows: Sequence[Stored], present: Mapping[str, Stored]) -> None:
        for row in rows:
            item, before = _decoded(row.metadata), present.get(row.id)
            spot = {"prefix": item["prefix"], "key": item["key"]}
            if before is None:
                self.db.insert(_ITEMS, item | _decoded(row.beside[""]))
            else:
                self.db.update(_ITEMS, spot, _decoded(before.metadata), item)
            for field, vector in row.vectors.items():
                named = spot | {"field_name": field}
                new = {"embedding": self.db.vector(vector)}
                if before is None or field not in before.vectors:
                    self.db.insert(_VECTORS, named | new | _decoded(row.beside[field]))
                else:
                    self.db.update(
                        _VECTORS, named, {"embedding": self.db.vector(before.vectors[field])}, new
                    )

    def delete(self, ids: Sequence[str]) -> None:
        rows = self.stored(ids).values()
        for table in reversed(self.tables):
            for row in rows:
                self.db.delete(table, {name: row.metadata[name] for name in ("prefix", "key")})


def _spot(columns: Mapping[str, Any]) -> Spot:
    return str(columns["prefix"]), str(columns["key"])


def _stored(name: str, item: dict[str, Any], vectors: Sequence[dict[str, Any]]) -> Stored:
    written = {column: value for column, value in item.items() if column in _WRITTEN}
    beside = {"": {column: value for column, value in item.items() if column not in _WRITTEN}} | {
        row["field_name"]: {
            column: value for column, value in row.items() if column not in _OWN_NAMES
        }
        for row in vectors
    }
    return Stored(
        name,
        None,
        _encoded(written),
        {row["field_name"]: numbers(row["embedding"]) for row in vectors},
        {field: _encoded(columns) for field, columns in beside.items()},
    )


def _encoded(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {"hex": value.hex()}
        if isinstance(value, bytes)
        else value
        if value is None or isinstance(value, str | int | float)
        else str(value)
        for name, value in columns.items()
    }


def _decoded(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: bytes.fromhex(value["hex"]) if isinstance(value, dict) else value
        for name, value in columns.items()
    }


def _text_at(value: Any, field: str) -> str | None:
    """Return the text that a vector was made from; None if the item's `value` does not have it.

    `field` is the vector's name: the path of the text in `value`. If the path leads to several
    texts, the name ends with a dot and the number of the text, from 0.

    Raises: ConfigError if LangGraph is not installed.
    """
    with installed("langgraph", "the texts of LangGraph's vectors"):
        from langgraph.store.base import get_text_at_path
    texts = get_text_at_path(value, field)
    if len(texts) == 1:
        return str(texts[0])
    path, _, number = field.rpartition(".")
    texts = get_text_at_path(value, path) if number.isdecimal() else []
    return str(texts[int(number)]) if texts and int(number) < len(texts) else None


def _as_row(item: Mapping[str, Any]) -> ForeignRow:
    """Return a LangGraph item, given as its database columns, as a row that an import reads.

    The row's metadata has `namespace`, `key`, and the fields of the item's value. Each label of the
    namespace is there, too, as `namespace.0`, `namespace.1` and so on. If `content` is an object,
    each of its fields that says of which kind the item is stands there as `content.NAME`.
    `created_at` is the time of the last update.
    """
    try:
        value = json.loads(item["value"])
    except (ValueError, RecursionError):
        value = None
    fields = dict(value) if isinstance(value, dict) else {}
    namespace = str(item["prefix"])
    labels = {f"namespace.{n}": label for n, label in enumerate(namespace.split("."))}
    inner = fields.get("content")
    if isinstance(inner, dict):
        named = ((f"content.{name}", value) for name, value in inner.items())
        labels |= {name: value for name, value in named if Reading().keeps_apart(name)}
    created, edited = (_in_utc(item[name]) for name in ("created_at", "updated_at"))
    at = edited or created
    return ForeignRow(
        f"{namespace}/{item['key']}",
        _inner_text(fields),
        {**fields, "namespace": namespace, **labels, "created_at": at, "key": item["key"]},
        expires=expiry_of(item.get("expires_at")),
        created=created,
    )


def _in_utc(time: object) -> str | None:
    """Return a time as text; SQLite's times have no zone and are in UTC."""
    if time is None:
        return None
    text = str(time)
    return text if "+" in text or text.endswith("Z") else text + "+00:00"


def _inner_text(fields: dict[str, Any]) -> str | None:
    """Return the text of an item in langmem's form, `{"content": {"content": TEXT}}`.

    Return None for an item of any other form, and for an item that also has a text directly under
    one of the `TEXT_KEYS`.
    """
    if any(isinstance(fields.get(outer), str) for outer in TEXT_KEYS):
        return None
    inner = fields.get("content")
    text = inner.get("content") if isinstance(inner, dict) else None
    return text if isinstance(text, str) else None


# --- tables with a pgvector column ----------------------------------------------------------------


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

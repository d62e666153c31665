"""Read and change LangGraph's SqliteStore and PostgresStore; each item of a store is a row.

Columns are read as the text that the database prints, so that they can be restored exactly.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from memory.errors import InputError
from memory.interchange.collection import ExternalStore, OpenCollection
from memory.interchange.databases import (
    Postgres,
    Sqlite,
    connected,
    is_postgres,
    quoted,
    sqlite_copy,
    sqlite_file,
    without_password,
)
from memory.interchange.foreign import TEXT_KEYS, ForeignRow, Reading, changed_keys, with_changes
from memory.interchange.undo_file import Kind, Stored, UndoHeader
from memory.models import Vector

_ITEMS, _VECTORS = "store", "store_vectors"
_WRITTEN = ("prefix", "key", "value", "created_at", "updated_at")
"""The columns of an item that change only when a program writes the item.

LangGraph changes the other columns, such as the expiry, also when an item is read.
"""
_EXPIRY = ("expires_at", "ttl_minutes")
_OWN_NAMES = ("prefix", "key", "field_name", "embedding")
"""The columns of a vector that identify its item and its field, and hold its numbers.

All other columns of a vector are kept in `Stored.beside`.
"""
_VECTOR = "vector of "
"""A prefix of keys in `Stored.beside`; the name of a field that has a vector follows.

The value of such a key has the columns of that vector that are not in `_OWN_NAMES`.
"""
Spot = tuple[str, str]
"""An item's namespace and its key; the two together identify the item."""
Tables = Sqlite | Postgres


@dataclass(frozen=True)
class LangGraphStore(ExternalStore):
    """A LangGraph store, not opened yet.

    `place` is the file of a SqliteStore, or the URL of a PostgresStore's database.
    """

    place: Path | str
    name: str = "langgraph"
    kind: ClassVar[Kind] = "langgraph"

    @property
    def address(self) -> str:
        if isinstance(self.place, Path):
            return str(self.place.absolute())
        return without_password(self.place)

    def as_read(self, stored: Stored) -> ForeignRow:
        return as_row(_decoded(stored.metadata))

    @contextmanager
    def looking(self) -> Iterator[OpenCollection]:
        opened = sqlite_copy(self.place) if isinstance(self.place, Path) else self._tables()
        with opened as tables, tables.transaction(writing=False):
            yield _Items(self, tables)

    @contextmanager
    def opened(self) -> Iterator[OpenCollection]:
        with self._tables() as tables, tables.transaction(writing=False):
            tables.check_rights([_ITEMS, *([_VECTORS] if tables.has(_VECTORS) else [])])
            yield _Items(self, tables)

    @contextmanager
    def writing(self, header: UndoHeader) -> Iterator[OpenCollection]:  # noqa: ARG002
        """Open the store for writing; each `step()` is a transaction that locks rows it reads."""
        with self._tables() as tables:
            yield _Items(self, tables, lock=tables.lock)

    def _tables(self) -> AbstractContextManager[Tables]:
        return sqlite_file(self.place) if isinstance(self.place, Path) else connected(self.place)


def langgraph_at(place: str) -> LangGraphStore:
    """Return the LangGraph store at `place`, a SQLite file or a PostgreSQL URL, without opening it.

    Nothing checks that it exists.
    """
    return LangGraphStore(place if is_postgres(place) else Path(place))


@dataclass(frozen=True)
class _Items(OpenCollection):
    """The items of an open LangGraph store; `lock` is appended to a SELECT to lock its rows."""

    tables: Tables
    lock: str = ""

    @property
    def collection_id(self) -> str:
        return f"langgraph:{self.tables.identity(_ITEMS)}"

    def all(self) -> Iterator[ForeignRow]:
        order = "rowid" if isinstance(self.tables, Sqlite) else "created_at, prefix, key"
        return map(as_row, self.tables.run(f"SELECT * FROM {_ITEMS} ORDER BY {order}"))  # noqa: S608 - ours

    def step(self) -> AbstractContextManager[None]:
        return self.tables.transaction(writing=True)

    def stored(self, names: Sequence[str]) -> dict[str, Stored]:
        spots = {name: _spots(name) for name in names}
        wanted = [spot for several in spots.values() for spot in several]
        items = {_spot(row): row for row in self._rows_at(_ITEMS, wanted, self.lock)}
        vectors: dict[Spot, list[dict[str, Any]]] = {}
        if self.tables.has(_VECTORS):
            for row in self._rows_at(_VECTORS, items):
                vectors.setdefault(_spot(row), []).append(row)
        found = {name: [spot for spot in there if spot in items] for name, there in spots.items()}
        return {
            name: _stored(name, items[there[0]], vectors.get(there[0], []))
            for name, there in found.items()
            if len(there) == 1  # a name that fits two items is ambiguous
        }

    def _rows_at(
        self, table: str, spots: Iterable[Spot], lock: str = ""
    ) -> Iterator[dict[str, Any]]:
        keys: dict[str, list[str]] = {}
        for prefix, key in spots:
            keys.setdefault(prefix, []).append(key)
        for prefix, inside in sorted(keys.items()):
            marks = ", ".join(["%s"] * len(inside))
            select = f"SELECT * FROM {table} WHERE prefix = %s AND key IN ({marks}){lock}"  # noqa: S608 - ours
            yield from self.tables.run(select, [prefix, *inside])

    def with_read(self, stored: Stored, row: ForeignRow) -> Stored:
        """Return a copy of `stored`, with its value changed so that an import reads it as `row`.

        If the database holds the value as bytes, it stays bytes; if as text, it stays text.
        """
        before = self.external.as_read(stored)
        if row.says_the_same(before):
            return stored
        old = _decoded(stored.metadata)["value"]
        value = with_changes(json.loads(old), changed_keys(before.metadata, row.metadata))
        if row.document != before.document:
            value["content"] = value["content"] | {"content": row.document}
        new = self.tables.as_written(json.dumps(value, ensure_ascii=False), "jsonb")
        written = _encoded({"value": new.encode() if isinstance(old, bytes) else new})
        return stored.saying(None, stored.metadata | written)

    def rewritten(
        self,
        stored: Stored,
        text: str | None,
        lender: Stored | None,
        reading: Reading,
        now: datetime,
    ) -> Stored:
        after = super().rewritten(stored, text, lender, reading, now)
        beside = dict(stored.beside)
        if lender is not None:
            beside |= {name: lender.beside[name] for name in _EXPIRY if name in lender.beside}
        if after.says_the_same(stored):
            return replace(after, beside=beside)
        at = {"updated_at": self.tables.as_written(now.isoformat(), "timestamptz")}
        for field in changed_keys(self.texts(stored, reading), self.texts(after, reading)):
            beside[_VECTOR + field] = beside[_VECTOR + field] | at
        return replace(after, metadata=after.metadata | at, beside=beside)

    def texts(self, stored: Stored, reading: Reading) -> dict[str, str]:  # noqa: ARG002
        """Return the texts from which an item's vectors were made, by the name of the field.

        Each vector belongs to a field of the item's value. The field's name is a path in the value,
        which LangGraph's own function follows. Fields without a text are left out. `reading` is not
        used.
        """
        if not stored.vectors:
            return {}
        value = json.loads(_decoded(stored.metadata)["value"])
        found = {field: _text_at(value, field) for field in stored.vectors}
        return {field: text for field, text in found.items() if text is not None}

    def put(self, rows: Sequence[Stored], there: Mapping[str, Stored]) -> None:
        for row in rows:
            now = self._records(there[row.id]) if row.id in there else {}
            for field, columns in self._records(row).items():
                table = _VECTORS if field else _ITEMS
                if field not in now:
                    self._add(table, columns)
                elif changes := changed_keys(now[field], now[field] | columns):
                    keys = {"field_name": field} if field else {}
                    self._change(table, _place(columns) | keys, changes)

    def _records(self, row: Stored) -> dict[str, dict[str, Any]]:
        """Return the database columns of an item and of each of its vectors.

        The item's columns are under the key `""`. The columns of a vector are under the name of the
        field from which it was made.
        """
        others = {name: one for name, one in row.beside.items() if not name.startswith(_VECTOR)}
        item = _decoded(row.metadata) | _decoded(others)
        records = {"": item}
        for field, vector in row.vectors.items():
            own = {"field_name": field, "embedding": self.tables.vector(vector)}
            records[field] = _place(item) | own | _decoded(row.beside[_VECTOR + field])
        return records

    def _change(self, table: str, keys: Mapping[str, Any], columns: Mapping[str, Any]) -> None:
        sets = ", ".join(f"{quoted(name)} = %s" for name in columns)
        where = " AND ".join(f"{name} = %s" for name in keys)
        self.tables.run(
            f"UPDATE {table} SET {sets} WHERE {where}",  # noqa: S608 - quoted
            [*columns.values(), *keys.values()],
        )

    def _add(self, table: str, columns: Mapping[str, Any]) -> None:
        names, marks = ", ".join(map(quoted, columns)), ", ".join(["%s"] * len(columns))
        statement = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 - quoted
        self.tables.run(statement, list(columns.values()))

    def delete(self, names: Sequence[str]) -> None:
        """Delete the items with the ids `names`, and their vectors.

        The vectors are deleted explicitly, since SQLite by default would keep them.
        """
        tables = [*([_VECTORS] if self.tables.has(_VECTORS) else []), _ITEMS]
        for one in self.stored(names).values():
            for table in tables:
                delete = f"DELETE FROM {table} WHERE prefix = %s AND key = %s"  # noqa: S608 - ours
                self.tables.run(delete, list(_spot(one.metadata)))


def _spots(name: str) -> list[Spot]:
    """Return the pairs of a namespace and a key that a row's id may stand for.

    The id has the form `NAMESPACE/KEY`. Namespaces and keys may contain slashes too, so there is a
    pair for each slash in the id.
    """
    cuts = [at for at, sign in enumerate(name) if sign == "/"]
    return [(name[:at], name[at + 1 :]) for at in cuts]


def _spot(columns: Mapping[str, Any]) -> Spot:
    return str(columns["prefix"]), str(columns["key"])


def _place(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {"prefix": columns["prefix"], "key": columns["key"]}


def _stored(name: str, item: dict[str, Any], vectors: Sequence[dict[str, Any]]) -> Stored:
    """Return the row with the id `name`, made from database columns.

    `item` has the columns of the row's item; `vectors` has the columns of each of its vectors.
    """
    written = {column: value for column, value in item.items() if column in _WRITTEN}
    beside = {column: value for column, value in item.items() if column not in _WRITTEN}
    numbers: dict[str, Vector] = {}
    of_vectors: dict[str, Any] = {}
    for row in vectors:
        numbers[row["field_name"]] = _numbers(row["embedding"])
        others = {column: value for column, value in row.items() if column not in _OWN_NAMES}
        of_vectors[_VECTOR + row["field_name"]] = _encoded(others)
    return Stored(name, None, _encoded(written), numbers, _encoded(beside) | of_vectors)


def _numbers(stored: bytes | str) -> Vector:
    if isinstance(stored, bytes):
        return np.frombuffer(stored, dtype="<f4").astype(np.float32)
    return np.array(stored.strip("[]").split(","), dtype=np.float32)


def _encoded(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns as JSON values, by name.

    Bytes become `{"hex": ...}`, and values of other types that JSON does not have become text.
    """
    return {name: _as_json(value) for name, value in columns.items()}


def _as_json(value: object) -> object:
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def _decoded(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Undo `_encoded`: return the columns with each value `{"hex": ...}` turned back into bytes."""
    return {
        name: bytes.fromhex(value["hex"]) if isinstance(value, dict) else value
        for name, value in columns.items()
    }


def _text_at(value: Any, field: str) -> str | None:
    """Return the text of an item's value at the path `field`; None if there is none.

    If a path leads to several texts, LangGraph makes a vector for each text. Such a vector's field
    is called PATH.N, and N counts the texts from 0. `field` may be a name of this kind.

    Raises: InputError if LangGraph is not installed.
    """
    try:
        from langgraph.store.base import get_text_at_path
    except ImportError as exc:
        remedy = "pip install '.[langgraph]'"
        problem = "is not installed, and it knows which text a vector is of"
        raise InputError("langgraph", problem, remedy) from exc
    found = get_text_at_path(value, field)
    if len(found) == 1:
        return str(found[0])
    path, _, number = field.rpartition(".")
    several = get_text_at_path(value, path) if number.isdecimal() else []
    return str(several[int(number)]) if several and int(number) < len(several) else None


def as_row(item: Mapping[str, Any]) -> ForeignRow:
    """Return a LangGraph item as a row of the kind that an import reads.

    `item` has the item's database columns. The row's metadata has the fields of the item's value,
    `namespace`, `key`, `created_at`, and each label of the namespace: `namespace.0`, `namespace.1`
    and so on. If the item was updated, `created_at` is the time of the last update.
    """
    try:
        value = json.loads(item["value"])
    except (ValueError, RecursionError):
        value = None
    fields = dict(value) if isinstance(value, dict) else {}
    namespace = str(item["prefix"])
    labels = {f"namespace.{n}": label for n, label in enumerate(namespace.split("."))}
    known = {"namespace": namespace, **labels, "created_at": _utc(item), "key": item["key"]}
    return ForeignRow(
        f"{namespace}/{item['key']}",
        _inner_text(fields),
        fields | known,
        expires=_expiry(item.get("expires_at")),
    )


def _inner_text(fields: dict[str, Any]) -> str | None:
    """Return the text that langmem stores one level down, as `{"content": {"content": TEXT}}`.

    None if a top-level field has the text, or if there is none.
    """
    if any(isinstance(fields.get(outer), str) for outer in TEXT_KEYS):
        return None
    inner = fields.get("content")
    found = inner.get("content") if isinstance(inner, dict) else None
    return found if isinstance(found, str) else None


def _utc(item: Mapping[str, Any]) -> str:
    """Return the time of the item's last update, or of its creation, as text with a time zone.

    SQLite's times have no zone and are in UTC.
    """
    at = str(item["updated_at"] or item["created_at"])
    return at if "+" in at or at.endswith("Z") else f"{at}+00:00"


def _expiry(at: object) -> datetime | None:
    """Return a time of expiry, given as the database holds it, as an aware datetime.

    None if there is none or it cannot be read. A time without a time zone is in UTC.
    """
    try:
        read = datetime.fromisoformat(str(at))
    except ValueError:
        return None
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)

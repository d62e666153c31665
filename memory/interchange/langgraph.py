"""Read and change LangGraph's SqliteStore and PostgresStore; each item of a store is a row.

Columns are read as the text that the database prints, so that they can be restored exactly.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from memory.errors import InputError
from memory.interchange.collection import DatabaseStore, OpenTables
from memory.interchange.databases import Postgres, Sqlite, condition, is_postgres, numbers
from memory.interchange.foreign import TEXT_KEYS, ForeignRow, Reading
from memory.interchange.undo_file import Kind, Stored

_ITEMS, _VECTORS = "store", "store_vectors"
_WRITTEN = ("prefix", "key", "value", "created_at", "updated_at")
"""The columns of an item that change only when a program writes the item.

LangGraph changes the other columns, such as the expiry, also when an item is read.
"""
_OWN_NAMES = ("prefix", "key", "field_name", "embedding")
"""The columns of a vector's row that identify the vector and hold its numbers."""
Spot = tuple[str, str]  # an item's namespace and its key, which identify it


@dataclass(frozen=True)
class LangGraphStore(DatabaseStore):
    """A LangGraph store, not opened yet.

    `place` is the file of a SqliteStore, or the URL of a PostgresStore's database.
    """

    name: str = "langgraph"
    kind: ClassVar[Kind] = "langgraph"

    def as_read(self, stored: Stored) -> ForeignRow:
        return as_row(_decoded(stored.metadata))

    def rows_in(self, db: Sqlite | Postgres) -> OpenTables:
        return _Items(self, db)


def langgraph_at(place: str) -> LangGraphStore:
    """Return the LangGraph store at `place`, a SQLite file or a PostgreSQL URL.

    The store is not opened, and need not exist.
    """
    return LangGraphStore(place if is_postgres(place) else Path(place))


@dataclass(frozen=True)
class _Items(OpenTables):
    """The items of an open LangGraph store.

    An item becomes a `Stored`. Its `metadata` has the item's columns in `_WRITTEN`, and `beside`
    has all other columns: those of the item under the key `""`, and those of each vector of the
    item under the name of the field that the vector was made from.
    """

    @property
    def collection_id(self) -> str:
        return f"langgraph:{self.db.identity(_ITEMS)}"

    @property
    def tables(self) -> list[str]:
        return [_ITEMS, *([_VECTORS] if self.db.has(_VECTORS) else [])]

    def all(self) -> Iterator[ForeignRow]:
        order = "rowid" if isinstance(self.db, Sqlite) else "created_at, prefix, key"
        return map(as_row, self.db.run(f"SELECT * FROM {_ITEMS} ORDER BY {order}"))  # noqa: S608 - ours

    def stored(self, ids: Sequence[str]) -> dict[str, Stored]:
        spots = {name: _spots(name) for name in ids}
        wanted = [spot for possible in spots.values() for spot in possible]
        items = {_spot(row): row for row in self._rows_at(_ITEMS, wanted, self.lock)}
        vectors: dict[Spot, list[dict[str, Any]]] = {}
        if _VECTORS in self.tables:
            for row in self._rows_at(_VECTORS, items):
                vectors.setdefault(_spot(row), []).append(row)
        rows = {}
        for name, possible in spots.items():
            known = [spot for spot in possible if spot in items]
            if len(known) == 1:  # a name that fits two items is ambiguous
                rows[name] = _stored(name, items[known[0]], vectors.get(known[0], []))
        return rows

    def _rows_at(
        self, table: str, spots: Iterable[Spot], lock: str = ""
    ) -> Iterator[dict[str, Any]]:
        keys: dict[str, list[str]] = {}
        for prefix, key in spots:
            keys.setdefault(prefix, []).append(key)
        for prefix, inside in sorted(keys.items()):
            where, values = condition({"prefix": prefix, "key": inside})
            yield from self.db.run(f"SELECT * FROM {table} WHERE {where}{lock}", values)  # noqa: S608 - ours

    def changed(
        self, stored: Stored, document: str | None, changes: Mapping[str, Any], now: datetime
    ) -> Stored:
        """Return a copy of the row `stored` with changed keys in the item's value.

        `changes`: the new values of these keys. `document`: the new text in the form of langmem,
        `{"content": {"content": TEXT}}`; None if the text is among `changes`. `now`: becomes the
        item's time of the last update. A value kept as bytes stays bytes.
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
        """Return the texts from which an item's vectors were made, by the vector's name.

        A vector's name is the path of a field in the item's value, such as `content.content`, and
        the vector was made from the text of this field. Vectors whose field has no text are left
        out. `reading` is not used.
        """
        value = json.loads(_decoded(stored.metadata)["value"])
        texts = {field: _text_at(value, field) for field in stored.vectors}
        return {field: text for field, text in texts.items() if text is not None}

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
                    old = {"embedding": self.db.vector(before.vectors[field])}
                    self.db.update(_VECTORS, named, old, new)

    def delete(self, ids: Sequence[str]) -> None:
        """Delete the items with these ids, and their vectors.

        The vectors are deleted explicitly, since SQLite by default would keep them.
        """
        tables = self.tables[::-1]
        for row in self.stored(ids).values():
            prefix, key = _spot(row.metadata)
            for table in tables:
                self.db.delete(table, {"prefix": prefix, "key": key})


def _spots(name: str) -> list[Spot]:
    """Return all pairs of a namespace and a key that can have the row id `name`.

    A row id has the form `NAMESPACE/KEY`. Namespaces and keys may contain slashes too, so there is
    one pair for each slash in the id.
    """
    cuts = [at for at, sign in enumerate(name) if sign == "/"]
    return [(name[:at], name[at + 1 :]) for at in cuts]


def _spot(columns: Mapping[str, Any]) -> Spot:
    return str(columns["prefix"]), str(columns["key"])


def _stored(name: str, item: dict[str, Any], vectors: Sequence[dict[str, Any]]) -> Stored:
    """Return the row with the id `name`, made from database columns.

    `item` has the columns of the row's item; `vectors` has the columns of each of its vectors.
    """
    written = {column: value for column, value in item.items() if column in _WRITTEN}
    beside = {"": {column: value for column, value in item.items() if column not in _WRITTEN}}
    for row in vectors:
        others = {column: value for column, value in row.items() if column not in _OWN_NAMES}
        beside[row["field_name"]] = others
    return Stored(
        name,
        None,
        _encoded(written),
        {row["field_name"]: numbers(row["embedding"]) for row in vectors},
        {field: _encoded(columns) for field, columns in beside.items()},
    )


def _encoded(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return a database row, given by column name, with values that JSON can hold.

    Bytes become `{"hex": ...}`. Values of other types that JSON does not have become text.
    """
    return {
        name: {"hex": value.hex()}
        if isinstance(value, bytes)
        else value
        if value is None or isinstance(value, str | int | float)
        else str(value)
        for name, value in columns.items()
    }


def _decoded(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns with each value `{"hex": ...}` of `_encoded` turned back into bytes."""
    return {
        name: bytes.fromhex(value["hex"]) if isinstance(value, dict) else value
        for name, value in columns.items()
    }


def _text_at(value: Any, field: str) -> str | None:
    """Return the text at the path `field` in an item's value; None if no text is there.

    If a path leads to several texts, LangGraph makes a vector for each text. The name of such a
    vector is PATH.N, where N counts the texts from 0. `field` may be a name of this kind.

    Raises: InputError if LangGraph is not installed.
    """
    try:
        from langgraph.store.base import get_text_at_path
    except ImportError as exc:
        remedy = "pip install '.[langgraph]'"
        problem = "is not installed, and it knows which text a vector is of"
        raise InputError("langgraph", problem, remedy) from exc
    texts = get_text_at_path(value, field)
    if len(texts) == 1:
        return str(texts[0])
    path, _, number = field.rpartition(".")
    texts = get_text_at_path(value, path) if number.isdecimal() else []
    return str(texts[int(number)]) if texts and int(number) < len(texts) else None


def as_row(item: Mapping[str, Any]) -> ForeignRow:
    """Return a LangGraph item as a row of the kind that an import reads.

    `item` has the item's database columns. The row's metadata has the fields of the item's value,
    `namespace`, `key`, `created_at`, and each label of the namespace: `namespace.0`, `namespace.1`
    and so on. An item that was updated has the time of the last update under `created_at`.
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

    `fields` is the item's value. The result is None if a field at the top level has a text, or if
    the value has no text in langmem's form.
    """
    if any(isinstance(fields.get(outer), str) for outer in TEXT_KEYS):
        return None
    inner = fields.get("content")
    text = inner.get("content") if isinstance(inner, dict) else None
    return text if isinstance(text, str) else None


def _utc(item: Mapping[str, Any]) -> str:
    """Return the time of an item's last update, or else of its creation, as ISO 8601 text.

    A time that has a zone keeps it. A time without one, as in SQLite, is taken as UTC and gets
    "+00:00".
    """
    at = str(item["updated_at"] or item["created_at"])
    return at if "+" in at or at.endswith("Z") else f"{at}+00:00"


def _expiry(at: object) -> datetime | None:
    """Return a time of expiry as an aware datetime; `at` is the value in the database.

    The result is None if `at` is None or not a time. A time without a time zone is in UTC.
    """
    try:
        read = datetime.fromisoformat(str(at))
    except ValueError:
        return None
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)

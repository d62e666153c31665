"""Read and change LangGraph's SqliteStore and PostgresStore.

Each item of a store is one row of an import or a write-back. JSON and times are kept in the form
that the database returns, so that they can be restored exactly.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from memory.errors import installed
from memory.interchange.collection import DatabaseStore, Kind, OpenTables, Stored
from memory.interchange.databases import Postgres, Sqlite, condition, is_postgres, numbers
from memory.interchange.foreign import TEXT_KEYS, ForeignRow, Reading, expiry_of

_ITEMS, _VECTORS = "store", "store_vectors"
# The columns of an item that change only when a program writes the item. LangGraph changes the
# other columns, such as the expiry, also when an item is read.
_WRITTEN = ("prefix", "key", "value", "created_at", "updated_at")
_OWN_NAMES = ("prefix", "key", "field_name", "embedding")
Spot = tuple[str, str]  # an item's namespace and its key, which identify it


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
        vectors: dict[Spot, list[dict[str, Any]]] = {}
        if _VECTORS in self.tables:
            for row in self._rows_at(_VECTORS, items):
                vectors.setdefault(_spot(row), []).append(row)
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
        keys: dict[str, list[str]] = {}
        for prefix, key in spots:
            keys.setdefault(prefix, []).append(key)
        for prefix, inside in sorted(keys.items()):
            where, values = condition({"prefix": prefix, "key": inside})
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

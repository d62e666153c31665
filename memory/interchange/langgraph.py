"""LangGraph's SqliteStore and PostgresStore: an item with a text is a memory of its namespace."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from memory.errors import InputError
from memory.interchange.collection import ExternalStore, OpenCollection, Stored
from memory.interchange.foreign import TEXT_KEYS, ForeignRow, Reading
from memory.interchange.langgraph_tables import (
    Spot,
    Tables,
    add_item,
    add_vector,
    change_item,
    change_vector,
    items,
    items_at,
    postgres_tables,
    remove_item,
    sqlite_copy,
    sqlite_file,
    vectors_at,
)
from memory.interchange.plan_back import Update, rewritten
from memory.interchange.postgres import is_postgres, without_password
from memory.interchange.undo_file import Becomes, Kind, RowBefore, UndoHeader, Vectors

_WRITTEN = ("prefix", "key", "value", "created_at", "updated_at")
"""The columns of an item that change only when somebody writes it."""
_EXPIRY = ("expires_at", "ttl_minutes")
_OWN_NAMES = ("prefix", "key", "field_name", "embedding")
"""The columns of a vector that are kept as its place and its numbers."""


@dataclass(frozen=True)
class LangGraphStore(ExternalStore):
    """The file of a SqliteStore, or the address of a PostgresStore's database."""

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
            tables.check_rights()
            yield _Items(self, tables)

    @contextmanager
    def writing(self, header: UndoHeader) -> Iterator[OpenCollection]:  # noqa: ARG002
        """Each step is a transaction that locks the rows it reads."""
        with self._tables() as tables:
            yield _Items(self, tables, lock=True)

    def _tables(self) -> AbstractContextManager[Tables]:
        if isinstance(self.place, Path):
            return sqlite_file(self.place)
        return postgres_tables(self.place)


def langgraph_at(place: str) -> LangGraphStore:
    """Return the store in a file, or at an address that begins with `postgresql://`."""
    return LangGraphStore(place if is_postgres(place) else Path(place))


@dataclass(frozen=True)
class _Items(OpenCollection):
    tables: Tables
    lock: bool = False

    @property
    def collection_id(self) -> str:
        return f"langgraph:{self.tables.identity()}"

    def all(self) -> Iterator[ForeignRow]:
        return map(as_row, items(self.tables))

    def step(self) -> AbstractContextManager[None]:
        return self.tables.transaction(writing=True)

    def stored(self, names: Sequence[str]) -> dict[str, Stored]:
        spots = {name: _spots(name) for name in names}
        wanted = [spot for some in spots.values() for spot in some]
        there = items_at(self.tables, wanted, lock=self.lock)
        vectors = vectors_at(self.tables, list(there))
        found = {name: [spot for spot in some if spot in there] for name, some in spots.items()}
        return {
            name: _stored(name, there[some[0]], vectors.get(some[0], {}))
            for name, some in found.items()
            if len(some) == 1  # a name that fits two items is ambiguous
        }

    def rewritten(
        self, update: Update, there: Mapping[str, Stored], reading: Reading, now: datetime
    ) -> Becomes:
        stored = there[update.row.id]
        lender = None if update.expires_as is None else there.get(update.expires_as.id)
        beside = _expiry_of(lender) if lender and update.expires_as != update.row else {}
        value = _rewritten_value(_decoded(stored.metadata), update, reading, now)
        if value == _decoded(stored.metadata)["value"]:
            return Becomes(document=None, metadata={}, beside=beside)
        written = {"value": self.tables.told(value), "updated_at": self.tables.time(now)}
        return Becomes(document=None, metadata=_encoded(written), beside=beside)

    def texts(self, stored: Stored, reading: Reading) -> dict[str, str]:  # noqa: ARG002
        """Return the text of each field that has a vector, as LangGraph finds it in the value."""
        if not stored.vectors:
            return {}
        value = json.loads(_decoded(stored.metadata)["value"])
        found = {field: _text_at(value, field) for field in stored.vectors}
        return {field: text for field, text in found.items() if text is not None}

    def update(self, rows: Sequence[RowBefore], vectors: Mapping[str, Vectors]) -> None:
        for row in rows:
            assert row.becomes is not None
            changes = _decoded(row.becomes.metadata)
            change_item(self.tables, _spot(row), changes | _decoded(row.becomes.beside))
            before = row.vectors
            for field, vector in vectors[row.id].items():
                if not np.array_equal(vector, before[field]):
                    columns = {"embedding": vector, "updated_at": changes["updated_at"]}
                    change_vector(self.tables, _spot(row), field, columns)

    def delete(self, names: Sequence[str]) -> None:
        there = self.stored(names)
        for one in there.values():
            remove_item(self.tables, (one.metadata["prefix"], one.metadata["key"]))

    def put_back(self, rows: Sequence[RowBefore], there: Mapping[str, Stored]) -> None:
        """Restore the items; one whose expiry was refreshed since keeps the new expiry."""
        for row in rows:
            columns, beside = _decoded(row.metadata), _vector_columns(row)
            if row.id in there:
                change_item(self.tables, _spot(row), columns | _expiry_before(row, there[row.id]))
                for field, vector in row.vectors.items():
                    change_vector(
                        self.tables, _spot(row), field, beside[field] | {"embedding": vector}
                    )
                continue
            add_item(self.tables, columns | _decoded(_part(row.beside, "item")))
            prefix, key = _spot(row)
            for field, vector in row.vectors.items():
                own = {"prefix": prefix, "key": key, "field_name": field, "embedding": vector}
                add_vector(self.tables, own | beside[field])


def _expiry_of(stored: Stored) -> dict[str, Any]:
    item = stored.beside["item"]
    return {name: item[name] for name in _EXPIRY if name in item}


def _expiry_before(row: RowBefore, there: Stored) -> dict[str, Any]:
    """Return the expiry from before the update, unless somebody changed it since."""
    if row.becomes is None or not there.lives_as(row.becomes):
        return {}
    before = _part(row.beside, "item")
    return _decoded({name: before[name] for name in row.becomes.beside})


def _spots(name: str) -> list[Spot]:
    """Return where an item of this name may be: labels and keys may contain slashes."""
    cuts = [at for at, sign in enumerate(name) if sign == "/"]
    return [(name[:at], name[at + 1 :]) for at in cuts]


def _spot(row: RowBefore) -> Spot:
    return str(row.metadata["prefix"]), str(row.metadata["key"])


def _stored(name: str, item: dict[str, Any], vectors: Mapping[str, dict[str, Any]]) -> Stored:
    said = {column: value for column, value in item.items() if column in _WRITTEN}
    others = {column: value for column, value in item.items() if column not in _WRITTEN}
    beside = {
        field: {column: value for column, value in columns.items() if column not in _OWN_NAMES}
        for field, columns in vectors.items()
    }
    return Stored(
        name,
        None,
        _encoded(said),
        {field: columns["embedding"] for field, columns in vectors.items()},
        {
            "item": _encoded(others),
            "vectors": {field: _encoded(columns) for field, columns in beside.items()},
        },
    )


def _vector_columns(row: RowBefore) -> dict[str, dict[str, Any]]:
    return {name: _decoded(columns) for name, columns in _part(row.beside, "vectors").items()}


def _part(beside: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = beside.get(name)
    return part if isinstance(part, dict) else {}


def _encoded(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns as JSON values: bytes in hexadecimal, other types as strings."""
    return {name: _said(value) for name, value in columns.items()}


def _said(value: object) -> object:
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def _decoded(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: bytes.fromhex(value["hex"]) if isinstance(value, dict) else value
        for name, value in columns.items()
    }


def _text_at(value: Any, field: str) -> str | None:
    """Return the text at a path. Where a path finds several, LangGraph appends their numbers."""
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
    """Return an item as a row. Its namespace is its user; `namespace.0` is its first label."""
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


def unexpired_items(rows: Sequence[ForeignRow], now: datetime) -> Iterator[ForeignRow]:
    """Yield the rows without those that LangGraph may sweep away at any moment."""
    return (row for row in rows if row.expires is None or row.expires > now)


def _rewritten_value(
    item: Mapping[str, Any], update: Update, reading: Reading, now: datetime
) -> str | bytes:
    """Return the item's value after an update, in the type in which it is stored."""
    stored: str | bytes = item["value"]
    becomes = rewritten(as_row(item), update, reading, now)
    if becomes == Becomes(document=None, metadata={}):
        return stored
    value: dict[str, Any] = json.loads(stored)
    if becomes.document is not None:
        value["content"]["content"] = becomes.document
    value |= becomes.metadata | dict.fromkeys(becomes.gone)
    written = json.dumps(value, ensure_ascii=False)
    return written.encode() if isinstance(stored, bytes) else written


def _inner_text(fields: dict[str, Any]) -> str | None:
    """Return the text one level down: langmem stores `{"content": {"content": TEXT}}`."""
    for outer in TEXT_KEYS:
        if isinstance(fields.get(outer), str):
            return None
    inner = fields.get("content")
    if isinstance(inner, dict) and isinstance(inner.get("content"), str):
        return str(inner["content"])
    return None


def _utc(item: Mapping[str, Any]) -> str:
    """Return the item's time; SQLite's are in UTC and name no zone."""
    at = str(item["updated_at"] or item["created_at"])
    return at if "+" in at or at.endswith("Z") else f"{at}+00:00"


def _expiry(at: object) -> datetime | None:
    try:
        read = datetime.fromisoformat(str(at))
    except ValueError:
        return None
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)

"""The two tables of LangGraph's stores, in SQLite or PostgreSQL.

Columns are read as the database prints them, so that they can be put back to the bit.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from memory.errors import InputError
from memory.interchange.copies import copied
from memory.interchange.postgres import PATIENCE_S, Postgres, connected
from memory.models import Vector

Spot = tuple[str, str]
"""Where an item is: its namespace and its key."""
_ITEMS = "store"
_VECTORS = "store_vectors"
_NO_STORE = f"has no table {_ITEMS!r}"
_MAY_NOT, _GRANT = "cannot be written", "grant the right to write it, and its folder"


def items(tables: Tables) -> list[dict[str, Any]]:
    return tables.run(f"SELECT * FROM {_ITEMS} ORDER BY {tables.order}")  # noqa: S608 - ours


def items_at(tables: Tables, spots: Sequence[Spot], *, lock: bool) -> dict[Spot, dict[str, Any]]:
    found = _rows_at(tables, _ITEMS, spots, tables.lock if lock else "")
    return {(row["prefix"], row["key"]): row for row in found}


def vectors_at(tables: Tables, spots: Sequence[Spot]) -> dict[Spot, dict[str, dict[str, Any]]]:
    """Return the rows of vectors by item and field; the embedding as an array."""
    found: dict[Spot, dict[str, dict[str, Any]]] = {}
    for row in _rows_at(tables, _VECTORS, spots, "") if tables.has_vectors() else []:
        row["embedding"] = _numbers(row["embedding"])
        found.setdefault((row["prefix"], row["key"]), {})[row["field_name"]] = row
    return found


def _rows_at(
    tables: Tables, table: str, spots: Sequence[Spot], lock: str
) -> Iterator[dict[str, Any]]:
    keys: dict[str, list[str]] = {}
    for prefix, key in spots:
        keys.setdefault(prefix, []).append(key)
    for prefix, some in sorted(keys.items()):
        marks = ", ".join([tables.mark] * len(some))
        where = f"prefix = {tables.mark} AND key IN ({marks})"
        yield from tables.run(f"SELECT * FROM {table} WHERE {where}{lock}", [prefix, *some])  # noqa: S608 - ours


def _numbers(stored: bytes | str) -> Vector:
    if isinstance(stored, bytes):
        return np.frombuffer(stored, dtype="<f4").astype(np.float32)
    return np.array([float(one) for one in stored.strip("[]").split(",")], dtype=np.float32)


def change_item(tables: Tables, spot: Spot, columns: Mapping[str, Any]) -> None:
    _change(tables, _ITEMS, {"prefix": spot[0], "key": spot[1]}, columns)


def change_vector(tables: Tables, spot: Spot, field: str, columns: Mapping[str, Any]) -> None:
    where = {"prefix": spot[0], "key": spot[1], "field_name": field}
    _change(tables, _VECTORS, where, _encoded(tables, columns))


def _change(
    tables: Tables, table: str, where: Mapping[str, Any], columns: Mapping[str, Any]
) -> None:
    sets = ", ".join(f"{_column(name)} = {tables.mark}" for name in columns)
    wheres = " AND ".join(f"{_column(name)} = {tables.mark}" for name in where)
    values = [*columns.values(), *where.values()]
    tables.run(f"UPDATE {table} SET {sets} WHERE {wheres}", values)  # noqa: S608 - ours


def add_item(tables: Tables, columns: Mapping[str, Any]) -> None:
    _add(tables, _ITEMS, columns)


def add_vector(tables: Tables, columns: Mapping[str, Any]) -> None:
    _add(tables, _VECTORS, _encoded(tables, columns))


def _add(tables: Tables, table: str, columns: Mapping[str, Any]) -> None:
    names = ", ".join(map(_column, columns))
    marks = ", ".join([tables.mark] * len(columns))
    tables.run(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(columns.values()))  # noqa: S608 - ours


def remove_item(tables: Tables, spot: Spot) -> None:
    """Delete an item and its vectors; SQLite does not cascade by default."""
    for table in (*([_VECTORS] if tables.has_vectors() else []), _ITEMS):
        where = f"prefix = {tables.mark} AND key = {tables.mark}"
        tables.run(f"DELETE FROM {table} WHERE {where}", list(spot))  # noqa: S608 - ours


def _encoded(tables: Tables, columns: Mapping[str, Any]) -> dict[str, Any]:
    given = columns.get("embedding")
    return dict(columns) | ({} if given is None else {"embedding": tables.vector(given)})


def _column(name: str) -> str:
    """Raises: ValueError where an undo file names what is no column."""
    if not name.isidentifier():
        raise ValueError(f"{name!r} is no column")
    return f'"{name}"'


# --- SQLite ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sqlite:
    file: Path
    connection: sqlite3.Connection
    mark: ClassVar = "?"
    """The placeholder of a parameter."""
    lock: ClassVar = ""
    """What is appended to a SELECT to lock its rows; a transaction locks the whole file."""
    order: ClassVar = "rowid"

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        with _sqlite_faults(self.file):
            return [dict(row) for row in self.connection.execute(statement, values)]

    @contextmanager
    def transaction(self, *, writing: bool) -> Iterator[None]:
        """Run a transaction; one that writes waits for other writers."""
        self.run("BEGIN IMMEDIATE" if writing else "BEGIN")
        try:
            yield
        except BaseException:  # Ctrl-C too must not leave it half done
            self.connection.rollback()
            raise
        self.run("COMMIT")

    def has_vectors(self) -> bool:
        told = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        return bool(self.run(told, [_VECTORS]))

    def check_rights(self) -> None:
        """Raises: InputError before anything is written, which SQLite itself would not."""
        if not (os.access(self.file, os.W_OK) and os.access(self.file.absolute().parent, os.W_OK)):
            raise InputError(self.file, _MAY_NOT, _GRANT)

    def identity(self) -> str:
        """Return the file's path: it has no other lasting name."""
        return str(self.file.resolve())

    def told(self, value: str | bytes) -> str | bytes:
        """Return a value as it will be read once it has been written."""
        return value

    def time(self, at: datetime) -> str:
        return f"{at:%Y-%m-%d %H:%M:%S}"

    def vector(self, vector: Vector) -> bytes:
        return np.asarray(vector, dtype="<f4").tobytes()


@contextmanager
def sqlite_copy(file: Path) -> Iterator[_Sqlite]:
    """The tables in a copy of a file.

    Raises: InputError.
    """
    _must_be_there(file)
    with (
        copied(file, [file]) as copy,
        closing(_connected(copy / file.name, file)) as connection,
    ):
        yield _Sqlite(file, connection)


@contextmanager
def sqlite_file(file: Path) -> Iterator[_Sqlite]:
    """To write.

    Raises: InputError.
    """
    _must_be_there(file)
    with closing(_connected(file, file)) as connection:
        yield _Sqlite(file, connection)


def _must_be_there(file: Path) -> None:
    if not file.is_file():
        problem = "is a folder" if file.is_dir() else "is not there"
        raise InputError(file, problem, "give the SQLite file, or postgresql://...")


def _connected(file: Path, theirs: Path) -> sqlite3.Connection:
    with _sqlite_faults(theirs):
        connection = sqlite3.connect(
            f"{file.absolute().as_uri()}?mode=rw",
            uri=True, isolation_level=None, timeout=PATIENCE_S,
        )  # fmt: skip
    connection.row_factory = sqlite3.Row
    return connection


@contextmanager
def _sqlite_faults(file: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as exc:
        told = str(exc)
        if "locked" in told:
            raise InputError(file, "is being written by another program", "try again") from exc
        if "readonly" in told:
            raise InputError(file, _MAY_NOT, _GRANT) from exc
        if told == f"no such table: {_ITEMS}":
            raise InputError(file, _NO_STORE, "name the file of LangGraph's SqliteStore") from exc
        raise InputError(file, f"cannot be read or written ({told})", "is it a store?") from exc


# --- PostgreSQL -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Postgres(Postgres):
    mark: ClassVar = "%s"
    lock: ClassVar = " FOR UPDATE"
    order: ClassVar = "created_at, prefix, key"

    def has_vectors(self) -> bool:
        [found] = self.run("SELECT to_regclass(%s) IS NOT NULL AS there", [_VECTORS])
        return bool(found["there"])

    def check_rights(self, tables: Sequence[str] = ()) -> None:
        super().check_rights(tables or [_ITEMS, *([_VECTORS] if self.has_vectors() else [])])

    def identity(self, table: str = _ITEMS) -> str:
        return super().identity(table)

    def told(self, value: object, kind: str = "jsonb") -> str:
        return super().told(value, kind)

    def time(self, at: datetime) -> str:
        return self.told(at.isoformat(), "timestamptz")


@contextmanager
def postgres_tables(url: str) -> Iterator[_Postgres]:
    """Raises: InputError that names the database, and no password."""
    with connected(url, _Postgres) as tables:
        yield tables


Tables = _Sqlite | _Postgres
"""The tables on an open connection."""

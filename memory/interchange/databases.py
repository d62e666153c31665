"""Access to other programs' databases: copies of their files, SQLite files, and PostgreSQL."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import stat
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import numpy as np

from memory.errors import InputError, installed
from memory.models import Vector

_PATIENCE_S = 30  # how long to wait for another program's lock
_SQLITE = b"SQLite format 3\0"
_MODE_AT, _WAL = 18, b"\2"
# Name endings of the files that SQLite puts next to a database file. The first two hold data, so
# they must be copied with it. SQLite can rebuild the third.
_BESIDE = ("-wal", "-journal", "-shm")
_TRIES, _PAUSE_S = 40, 0.25
_RIGHTS = ["SELECT", "INSERT", "UPDATE", "DELETE"]
_SECRETS = ("password", "sslpassword")


@contextmanager
def copied(place: Path, parts: Iterable[Path]) -> Iterator[Path]:
    """Copy the files and folders `parts`; yield a temporary folder with the copies.

    A SQLite file is copied in a consistent state, even while another program writes to it. `place`
    is the path that errors show.

    Raises: InputError if something cannot be copied.
    """
    with tempfile.TemporaryDirectory(prefix="memory-import-") as scratch:
        copy = Path(scratch)
        try:
            for part in parts:
                if part.is_dir():
                    shutil.copytree(part, copy / part.name, copy_function=_copy)
                else:
                    _copy(part, copy / part.name)
            for part in copy.rglob("*"):  # a library may write, even if it is only asked to read
                own = stat.S_IRWXU if part.is_dir() else stat.S_IRUSR | stat.S_IWUSR
                part.chmod(part.stat().st_mode | own)
        except OSError as exc:
            raise InputError(place, f"cannot be copied: {exc}", "is it in use?") from exc
        yield copy


def _copy(source: str | Path, target: str | Path) -> None:
    source, target = Path(source), Path(target)
    ends = [end for end in _BESIDE if source.name.endswith(end)]
    if any(source.with_name(source.name.removesuffix(end)).is_file() for end in ends):
        return
    with source.open("rb") as file:
        header = file.read(_MODE_AT + 1)
    if not header.startswith(_SQLITE):
        shutil.copy2(source, target)
    elif not _backed_up(source, target, in_wal_mode=header.endswith(_WAL)):
        target.unlink(missing_ok=True)
        for end in ("", *(end for end in _BESIDE[:2] if _beside(source, end).is_file())):
            shutil.copy2(_beside(source, end), _beside(target, end))


def _beside(file: Path, end: str) -> Path:
    return file.with_name(file.name + end)


def _backed_up(source: Path, target: Path, *, in_wal_mode: bool) -> bool:
    """Copy a SQLite file with SQLite's backup function; return False if it was not copied.

    If a file is in WAL mode and its `-wal` file is missing, SQLite would create this file beside
    the original. Then the file is not copied.

    Raises: InputError if another program keeps `source` locked.
    """
    if in_wal_mode and not _beside(source, "-wal").is_file():
        return False
    try:
        with (
            closing(
                sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, timeout=0)
            ) as theirs,
            closing(sqlite3.connect(target)) as ours,
        ):
            theirs.backup(ours, progress=busy_limit(source), sleep=_PAUSE_S)
    except sqlite3.Error:  # a writer died: opening a plain copy repairs it
        return False
    return True


def busy_limit(source: Path) -> Callable[[int, int, int], None]:
    """Return a progress callback for SQLite's backup of the file `source`.

    The callback raises InputError when the backup has found the file locked by another program more
    than 40 times.
    """
    tries = count(1)

    def on_progress(status: int, _left: int, _whole: int) -> None:
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and next(tries) > _TRIES:
            raise InputError(source, "is being written by another program", "try again")

    return on_progress


# --- a file that is open --------------------------------------------------------------------------


@dataclass(frozen=True)
class ForeignDatabase(ABC):
    """An open database of another program.

    `name` is the path of its file, or its URL without the password. `lock` is the SQL that, at the
    end of a SELECT, locks the rows. `keeping_ids` is the SQL that lets an INSERT set a row's id.
    """

    name: Path | str
    connection: Any
    lock: ClassVar = ""  # SQL to append to a SELECT to lock its rows
    keeping_ids: ClassVar = ""

    @abstractmethod
    def run(self, statement: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Run an SQL statement and return its rows, each as a dict by column name.

        `values` has a value for each `%s` in the statement, in order.

        Raises: InputError if the statement fails.
        """

    def insert(self, table: str, columns: Mapping[str, Any]) -> None:
        names, marks = ", ".join(map(quoted, columns)), ", ".join(["%s"] * len(columns))
        self.run(
            f"INSERT INTO {table} ({names}){self.keeping_ids} VALUES ({marks})",  # noqa: S608 - quoted
            list(columns.values()),
        )

    def update(
        self,
        table: str,
        wanted: Mapping[str, Any],
        before: Mapping[str, Any],
        after: Mapping[str, Any],
    ) -> None:
        """Update a row: write only the columns that differ between `before` and `after`.

        `before` and `after` map columns to values. `wanted` selects the row, as in `condition`.
        """
        new = {name: value for name, value in after.items() if before.get(name) != value}
        if new:
            sets = ", ".join(f"{quoted(name)} = %s" for name in new)
            where, values = condition(wanted)
            self.run(f"UPDATE {table} SET {sets} WHERE {where}", [*new.values(), *values])  # noqa: S608 - quoted

    def delete(self, table: str, wanted: Mapping[str, Any]) -> None:
        where, values = condition(wanted)
        self.run(f"DELETE FROM {table} WHERE {where}", values)  # noqa: S608 - quoted


def condition(wanted: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """Return an SQL condition that selects rows, and a value for each `%s` in the condition.

    `wanted` maps a column to the value that it must have, or to a list of values that it may have.
    """
    conditions, parameters = ["TRUE"], []
    for column, value in wanted.items():
        several = value if isinstance(value, list) else [value]
        conditions.append(f"{quoted(column)} IN ({', '.join(['%s'] * len(several))})")
        parameters += several
    return " AND ".join(conditions), parameters


def numbers(stored: bytes | str) -> Vector:
    """Return a stored vector as a float32 array (dim,).

    `stored` is little-endian float32 numbers as bytes, or pgvector's text form, such as `[1,2]`.
    """
    if isinstance(stored, bytes):
        return np.frombuffer(stored, dtype="<f4").astype(np.float32)
    return np.array(stored.strip("[]").split(","), dtype=np.float32)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Sqlite(ForeignDatabase):
    name: Path
    connection: sqlite3.Connection

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        with _sqlite_faults(self.name):
            return [
                dict(row) for row in self.connection.execute(statement.replace("%s", "?"), values)
            ]

    def transaction(self, *, writing: bool) -> AbstractContextManager[None]:
        return _transaction(self, "BEGIN IMMEDIATE" if writing else "BEGIN")

    def has(self, table: str) -> bool:
        return bool(self.run("SELECT 1 FROM sqlite_master WHERE name = %s", [table]))

    def check_rights(self, tables: Sequence[str]) -> None:  # noqa: ARG002 - SQLite has no roles
        if not (os.access(self.name, os.W_OK) and os.access(self.name.absolute().parent, os.W_OK)):
            raise _may_not_write(self.name)

    def identity(self, table: str) -> str:  # noqa: ARG002 - the file is the store
        return str(self.name.resolve())

    def as_written(self, value: str, kind: str) -> str:
        """Return the text that a column will contain after `value` is written to it.

        `kind` is the column's SQL type. If it is `jsonb`, `value` is JSON; otherwise, `value` is a
        time in ISO 8601.
        """
        return f"{datetime.fromisoformat(value):%Y-%m-%d %H:%M:%S}" if kind != "jsonb" else value

    def vector(self, vector: Vector) -> bytes:
        return np.asarray(vector, dtype="<f4").tobytes()


@contextmanager
def _transaction(database: ForeignDatabase, *begin: str) -> Iterator[None]:
    try:
        for statement in begin:
            database.run(statement)
        yield
    except BaseException:  # Ctrl-C too must not leave it half done
        database.connection.rollback()
        raise
    database.run("COMMIT")


@contextmanager
def sqlite_file(file: Path, copy: Path | None = None) -> Iterator[Sqlite]:
    """Open a SQLite file, or its copy in the folder `copy`, for reading and writing.

    Raises: InputError if there is no such file, or it cannot be opened.
    """
    if not file.is_file():
        raise InputError(
            file,
            "is a folder" if file.is_dir() else "is not there",
            "give the SQLite file, or postgresql://...",
        )
    opened = (copy or file.parent) / file.name
    with _sqlite_faults(file):
        connection = sqlite3.connect(
            f"{opened.absolute().as_uri()}?mode=rw",
            uri=True, isolation_level=None, timeout=_PATIENCE_S,
        )  # fmt: skip
    connection.row_factory = sqlite3.Row
    with closing(connection):
        yield Sqlite(file, connection)


@contextmanager
def _sqlite_faults(file: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as exc:
        problem = str(exc)
        if "locked" in problem:
            raise InputError(file, "is being written by another program", "try again") from exc
        if "readonly" in problem:
            raise _may_not_write(file) from exc
        if problem.startswith("no such table: "):
            table = problem.removeprefix("no such table: ")
            raise InputError(file, f"has no table {table!r}", "name the file that has it") from exc
        raise InputError(file, f"cannot be read or written ({problem})", "is it a store?") from exc


def _may_not_write(file: Path) -> InputError:
    return InputError(file, "cannot be written", "grant the right to write it, and its folder")


# --- PostgreSQL -----------------------------------------------------------------------------------


def is_postgres(place: str) -> bool:
    """Return whether a text is the URL of a PostgreSQL database.

    >>> is_postgres("postgresql://localhost/notes"), is_postgres("notes.db")
    (True, False)
    """
    return place.startswith(("postgresql://", "postgres://", "postgresql+psycopg://"))


def without_password(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError as exc:
        raise InputError(
            "postgresql",
            f"the address cannot be read: {exc}",
            "give postgresql://USER@HOST/DATABASE",
        ) from exc
    account, at, host = parts.netloc.rpartition("@")
    user = account.partition(":")[0]
    query = [(key, value) for key, value in parse_qsl(parts.query) if key not in _SECRETS]
    shown = urlunsplit(("", f"{user}{at}{host}", parts.path, urlencode(query), ""))
    return f"{parts.scheme}://{shown.removeprefix('//')}"


@dataclass(frozen=True)
class Postgres(ForeignDatabase):
    name: str
    lock: ClassVar = " FOR UPDATE"
    keeping_ids: ClassVar = " OVERRIDING SYSTEM VALUE"

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        with _postgres_faults(self.name):
            cursor = self.connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    def paged(self, statement: str, values: Sequence[Any]) -> Iterator[dict[str, Any]]:
        """Yield the rows of a query, fetched from the server in batches of 1,000.

        Call this in a transaction.
        """
        with _postgres_faults(self.name), self.connection.cursor(name="rows") as cursor:
            cursor.itersize = 1_000
            cursor.execute(statement, values)
            yield from cursor

    def transaction(self, *, writing: bool) -> AbstractContextManager[None]:
        """Return a context manager for a transaction; inside it, times are printed in UTC.

        If `writing` is False, the transaction is read-only and reads one consistent snapshot.
        """
        return _transaction(
            self,
            "BEGIN" if writing else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            "SET LOCAL TIME ZONE 'UTC'",
            "SET LOCAL DateStyle = 'ISO'",
            f"SET LOCAL lock_timeout = '{_PATIENCE_S}s'",
        )

    def check_rights(self, tables: Sequence[str]) -> None:
        [row] = self.run(
            "SELECT bool_and(has_table_privilege(name, needed)) AS may"
            " FROM unnest(%s::text[]) name, unnest(%s::text[]) needed",
            [list(tables), _RIGHTS],
        )
        if not row["may"]:
            raise InputError(
                self.name,
                "cannot be written",
                f"grant this role {', '.join(_RIGHTS)} on {' and '.join(tables)}",
            )

    def has(self, table: str) -> bool:
        [row] = self.run("SELECT to_regclass(%s) IS NOT NULL AS there", [table])
        return bool(row["there"])

    def identity(self, table: str) -> str:
        """Return an id of a table that stays the same if the database's URL changes."""
        [row] = self.run(
            "SELECT system_identifier::text AS server, current_database()::text AS database,"
            " to_regclass(%s)::oid::text AS store FROM pg_control_system()",
            [table],
        )
        return "/".join(map(str, row.values()))

    def as_written(self, value: object, kind: str) -> str:
        [row] = self.run(f"SELECT (%s::{kind})::text AS written", [value])
        return str(row["written"])

    def vector(self, vector: Vector) -> str:
        return f"[{','.join(map(str, np.asarray(vector, dtype=np.float32)))}]"


@contextmanager
def connected(url: str) -> Iterator[Postgres]:
    """Connect to a PostgreSQL database, and yield it. JSON and times are read as text.

    Raises: InputError if the database cannot be reached; ConfigError if psycopg is missing. The
    errors do not show the password.
    """
    address = without_password(url)
    with installed("postgres", address):
        import psycopg
        from psycopg.rows import dict_row
        from psycopg.types.string import TextLoader
    with _postgres_faults(address):
        connection = psycopg.connect(
            url.replace("postgresql+psycopg://", "postgresql://", 1),
            autocommit=True, prepare_threshold=None, row_factory=dict_row,
        )  # fmt: skip
    with closing(connection):
        for name in ("jsonb", "json", "timestamptz", "timestamp"):
            connection.adapters.register_loader(name, TextLoader)
        yield Postgres(address, connection)


@contextmanager
def _postgres_faults(address: str) -> Iterator[None]:
    import psycopg

    try:
        yield
    except psycopg.errors.UndefinedTable as exc:
        names = re.findall(r'"(.+?)"', str(exc)) or ["of this name"]
        raise InputError(
            address,
            f"has no table {names[0]!r}",
            "is it another database, or a schema: ?options=-csearch_path%3DNAME",
        ) from exc
    except psycopg.ProgrammingError as exc:
        raise InputError(
            address, f"failed: {first_line(exc)}", "check the address, and what this role may do"
        ) from exc
    except psycopg.Error as exc:
        raise InputError(
            address,
            f"failed: {first_line(exc)}",
            "is the server there? PGPASSWORD or ~/.pgpass gives a password",
        ) from exc


def first_line(exc: Exception) -> str:
    return next(iter(str(exc).strip().splitlines()), type(exc).__name__)

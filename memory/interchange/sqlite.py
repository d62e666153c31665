"""Other programs' files: temporary copies to read, and SQLite files that are opened to write."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from memory.errors import InputError
from memory.models import Vector

PATIENCE_S = 30
"""How long to wait for another program that writes."""

_OWN = stat.S_IRUSR | stat.S_IWUSR
_SQLITE = b"SQLite format 3\0"
_MODE_AT, _WAL = 18, b"\2"
"""The byte of a SQLite file that gives its journal mode, and its value in WAL mode."""
_BESIDE = ("-wal", "-shm", "-journal")
_KEPT_BESIDE = ("-wal", "-journal")
"""The files that hold data of a SQLite file; `-shm` is rebuilt."""
_TRIES, _PAUSE_S = 40, 0.25


@contextmanager
def copied(place: Path, parts: Iterable[Path]) -> Iterator[Path]:
    """Yield a temporary folder with copies of these files and folders.

    A SQLite file is copied as of one moment, even while another program writes to it.

    Raises: InputError that names the place.
    """
    with tempfile.TemporaryDirectory(prefix="memory-import-") as scratch:
        copy = Path(scratch) / "copy"
        try:
            copy.mkdir()
            for part in parts:
                if part.is_dir():
                    shutil.copytree(part, copy / part.name, copy_function=_copy)
                else:
                    _copy(part, copy / part.name)
            _make_writable(copy)
        except OSError as exc:
            raise InputError(place, f"cannot be copied: {exc}", "is it in use?") from exc
        yield copy


def _copy(source: str | Path, target: str | Path) -> None:
    """Copy a file; a SQLite file together with its journal, if that is needed."""
    source, target = Path(source), Path(target)
    if any(source.with_name(source.name.removesuffix(end)).is_file() for end in _ends_of(source)):
        return
    if not _is_sqlite(source):
        shutil.copy2(source, target)
    elif not _taken(source, target):
        target.unlink(missing_ok=True)
        for end in ("", *filter(lambda end: _beside(source, end).is_file(), _KEPT_BESIDE)):
            shutil.copy2(_beside(source, end), _beside(target, end))


def _ends_of(file: Path) -> list[str]:
    return [end for end in _BESIDE if file.name.endswith(end)]


def _beside(file: Path, end: str) -> Path:
    return file.with_name(file.name + end)


def _is_sqlite(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(_SQLITE)) == _SQLITE


def _taken(source: Path, target: Path) -> bool:
    """Copy through SQLite's backup; return False where reading would write beside the file.

    Raises: InputError where another program does not stop writing.
    """
    with source.open("rb") as file:
        file.seek(_MODE_AT)
        in_wal_mode = file.read(1) == _WAL
    if in_wal_mode and not _beside(source, "-wal").is_file():
        return False
    try:
        with (
            closing(_read_only(source)) as theirs,
            closing(sqlite3.connect(target)) as ours,
        ):
            theirs.backup(ours, progress=patient(source), sleep=_PAUSE_S)
    except sqlite3.Error:  # a writer died: opening a plain copy repairs it
        return False
    return True


def _read_only(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=0)


def patient(source: Path, most: int = _TRIES) -> Callable[[int, int, int], None]:
    """Return the progress callback of a backup, which gives up after `most` busy tries.

    Raises: InputError, from the callback.
    """
    tries = count(1)

    def on_progress(status: int, _left: int, _whole: int) -> None:
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and next(tries) > most:
            raise InputError(source, "is being written by another program", "try again")

    return on_progress


def _make_writable(copy: Path) -> None:
    """Make copies of read-only files writable: a database writes to what it reads."""
    for part in copy.rglob("*"):
        part.chmod(part.stat().st_mode | (stat.S_IRWXU if part.is_dir() else _OWN))


# --- a file that is open --------------------------------------------------------------------------


@dataclass(frozen=True)
class Sqlite:
    """An open SQLite file, with the methods of `Postgres` that a LangGraph store needs."""

    file: Path
    connection: sqlite3.Connection
    lock: ClassVar = ""
    """What is appended to a SELECT to lock its rows; a transaction locks the whole file."""

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Run a statement with `%s` for each value."""
        with _sqlite_faults(self.file):
            found = self.connection.execute(statement.replace("%s", "?"), values)
            return [dict(row) for row in found]

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

    def has(self, table: str) -> bool:
        return bool(self.run("SELECT 1 FROM sqlite_master WHERE name = %s", [table]))

    def check_rights(self, tables: Sequence[str]) -> None:  # noqa: ARG002
        """Raises: InputError before anything is written, which SQLite itself would not."""
        if not (os.access(self.file, os.W_OK) and os.access(self.file.absolute().parent, os.W_OK)):
            raise _may_not_write(self.file)

    def identity(self, table: str) -> str:  # noqa: ARG002
        """Return the file's path: it has no other lasting name."""
        return str(self.file.resolve())

    def as_written(self, value: str, kind: str) -> str:
        """Return a value of a type as it will be read once it has been written."""
        return f"{datetime.fromisoformat(value):%Y-%m-%d %H:%M:%S}" if kind != "jsonb" else value

    def vector(self, vector: Vector) -> bytes:
        return np.asarray(vector, dtype="<f4").tobytes()


@contextmanager
def sqlite_copy(file: Path) -> Iterator[Sqlite]:
    """Open a copy of a file.

    Raises: InputError that names the file.
    """
    _must_be_there(file)
    with copied(file, [file]) as copy, _connected(copy / file.name, file) as opened:
        yield opened


@contextmanager
def sqlite_file(file: Path) -> Iterator[Sqlite]:
    """Open a file to write.

    Raises: InputError.
    """
    _must_be_there(file)
    with _connected(file, file) as opened:
        yield opened


def _must_be_there(file: Path) -> None:
    if not file.is_file():
        problem = "is a folder" if file.is_dir() else "is not there"
        raise InputError(file, problem, "give the SQLite file, or postgresql://...")


@contextmanager
def _connected(file: Path, named: Path) -> Iterator[Sqlite]:
    with _sqlite_faults(named):
        connection = sqlite3.connect(
            f"{file.absolute().as_uri()}?mode=rw",
            uri=True, isolation_level=None, timeout=PATIENCE_S,
        )  # fmt: skip
    connection.row_factory = sqlite3.Row
    with closing(connection):
        yield Sqlite(named, connection)


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
            remedy = "name the file that has it"
            raise InputError(file, f"has no table {table!r}", remedy) from exc
        raise InputError(file, f"cannot be read or written ({problem})", "is it a store?") from exc


def _may_not_write(file: Path) -> InputError:
    return InputError(file, "cannot be written", "grant the right to write it, and its folder")

"""Temporary copies of other programs' files and folders; the originals are not changed."""

from __future__ import annotations

import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from memory.errors import InputError

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


def read_table(file: Path, table: str) -> list[dict[str, Any]]:
    """Return every row of a table in another program's SQLite file.

    Raises: InputError.
    """
    if not file.is_file():
        raise InputError(file, "is not there", "give the SQLite file")
    with copied(file, [file]) as copy:
        try:
            with closing(sqlite3.connect(copy / file.name)) as connection:
                connection.row_factory = sqlite3.Row
                rows = connection.execute(f'SELECT * FROM "{table}" ORDER BY rowid')  # noqa: S608 - ours
                return [dict(row) for row in rows]
        except sqlite3.Error as exc:
            raise InputError(file, f"cannot be read ({exc})", f"has it a table {table!r}?") from exc

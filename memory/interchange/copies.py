"""Files and folders of other programs, read from a copy: theirs stay as they are."""

from __future__ import annotations

import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from memory.errors import InputError

_OWN = stat.S_IRUSR | stat.S_IWUSR


@contextmanager
def copied(place: Path, parts: Iterable[Path]) -> Iterator[Path]:
    """A temporary folder with copies of these files and folders, gone after the block.

    Raises: InputError that names the place.
    """
    with tempfile.TemporaryDirectory(prefix="memory-import-") as scratch:
        copy = Path(scratch) / "copy"
        try:
            copy.mkdir()
            for part in parts:
                (shutil.copytree if part.is_dir() else shutil.copy2)(part, copy / part.name)
            _make_writable(copy)
        except OSError as exc:
            raise InputError(place, f"cannot be copied: {exc}", "is it in use?") from exc
        yield copy


def _make_writable(copy: Path) -> None:
    """Of files that may only be read, too: a database writes to what it reads."""
    for part in copy.rglob("*"):
        part.chmod(part.stat().st_mode | (stat.S_IRWXU if part.is_dir() else _OWN))


def read_table(file: Path, table: str) -> list[dict[str, Any]]:
    """Every row of a table in somebody else's SQLite file; the only SQL outside of the ledger.

    Raises: InputError.
    """
    if not file.is_file():
        raise InputError(file, "is not there", "give the SQLite file")
    beside = [file.with_name(file.name + ending) for ending in ("-wal", "-journal")]
    with copied(file, [file, *filter(Path.is_file, beside)]) as copy:
        try:
            with closing(sqlite3.connect(copy / file.name)) as connection:
                connection.row_factory = sqlite3.Row
                rows = connection.execute(f'SELECT * FROM "{table}" ORDER BY rowid')  # noqa: S608 - ours
                return [dict(row) for row in rows]
        except sqlite3.Error as exc:
            raise InputError(file, f"cannot be read ({exc})", f"has it a table {table!r}?") from exc

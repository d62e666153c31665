"""Helpers that the benchmarks share: read the rows of a file, print a table of results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from memory.errors import InputError
from memory.runtime import read_objects

Row = dict[str, Any]


def read_rows(path: Path) -> list[Row]:
    """Return the objects of a JSON Lines file; never skip a line, since that would change figures.

    Raises: SystemExit, with a message of one line, if the file or a line of it cannot be read.
    """
    try:
        return list(_rows(path))
    except InputError as error:
        raise SystemExit(f"error: {error}") from error


def _rows(path: Path) -> Iterator[Row]:
    for number, row in read_objects(path):
        if isinstance(row, ValueError):
            raise InputError(path, str(row), "correct this line", number)
        yield row


def print_table(rows: Sequence[Mapping[str, object]]) -> None:
    """Print rows as a Markdown table; the first row's keys are the columns."""
    if rows:
        print("| " + " | ".join(name.replace("_", " ") for name in rows[0]) + " |")
        print("|---" * len(rows[0]) + "|")
    for row in rows:
        print("| " + " | ".join(str(value) for value in row.values()) + " |")

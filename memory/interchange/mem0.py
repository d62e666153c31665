"""mem0's folder: a Chroma or a local Qdrant, and the history beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from memory.errors import InputError
from memory.interchange.collection import Found
from memory.interchange.copies import read_table
from memory.interchange.foreign import ForeignRow
from memory.interchange.qdrant import is_qdrant

MEM0_COLLECTION = "mem0"
"""mem0's default collection."""
_OWN_RECORDS = "migrations_"
"""The beginning of the names of mem0's stores that hold no memories."""


def with_history(found: Found, path: Path) -> Found:
    """Return the rows, those without a time with the one that `history.db` has for them.

    Earlier and deleted wordings in the history are not read.

    Raises: InputError.
    """
    return replace(found, rows=_with_times(found.rows, _history(path, vector_folder(path))))


def vector_folder(path: Path) -> Path:
    """Return the folder of the vectors: the folder itself, or the only store inside it.

    Raises: InputError where there is none, or several.
    """
    if not path.is_dir():
        problem = "is not a folder" if path.exists() else "there is no such folder"
        raise InputError(path, problem, "give mem0's folder, or its Chroma or Qdrant folder")
    inside = sorted(path.iterdir())
    inside = [one for one in inside if one.is_dir() and not one.name.startswith(_OWN_RECORDS)]
    found = [one for one in [path, *inside] if _is_store(one)]
    if path in found:
        return path
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(one.name for one in found)
        raise InputError(path, f"holds several stores: {names}", "name one of these folders")
    raise InputError(
        path, "holds no store of mem0", "give its Chroma or Qdrant folder; by default /tmp/qdrant"
    )


def unexpired(rows: Sequence[ForeignRow], today: date) -> Iterator[ForeignRow]:
    """Yield the rows without the memories that have expired for mem0."""
    for row in rows:
        if not _expired(row.metadata.get("expiration_date"), today):
            yield row


def _expired(given: Any, today: date) -> bool:
    try:
        return date.fromisoformat(str(given)) < today
    except ValueError:
        return False


def _is_store(folder: Path) -> bool:
    return (folder / "chroma.sqlite3").is_file() or is_qdrant(folder)


def _history(path: Path, folder: Path) -> dict[str, str]:
    """Return when each memory was last written, by id; empty if there is no history."""
    for file in (path / "history.db", folder.parent / "history.db"):
        if file.is_file():
            rows = read_table(file, "history")
            times = {row["memory_id"]: row["updated_at"] or row["created_at"] for row in rows}
            return {name: at for name, at in times.items() if at}
    return {}


def _with_times(rows: list[ForeignRow], times: dict[str, str]) -> list[ForeignRow]:
    return [
        row
        if row.metadata.get("updated_at") or row.metadata.get("created_at")
        else replace(row, metadata=row.metadata | _time(times.get(row.id)))
        for row in rows
    ]


def _time(at: str | None) -> dict[str, str]:
    return {"created_at": at} if at is not None else {}

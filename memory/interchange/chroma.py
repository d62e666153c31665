"""Collections that somebody else made, read from a copy."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory.errors import IndexFault, InputError
from memory.index import Client, chroma_faults, persistent_client

_PAGE = 1_000


@dataclass(frozen=True)
class ForeignRow:
    """What somebody else's collection holds for one id."""

    id: str
    document: str | None
    metadata: dict[str, Any]


def read_collection(path: Path, name: str) -> Iterator[ForeignRow]:
    """Every row of a collection somebody else made, from a copy of its folder.

    Opening a Chroma folder may write to it, so theirs is left alone.

    Raises: InputError.
    """
    if not (path / "chroma.sqlite3").is_file():
        raise InputError(path, "is not a Chroma folder", "give the folder with chroma.sqlite3")
    with tempfile.TemporaryDirectory(prefix="memory-import-") as scratch:
        copy = Path(scratch) / "chroma"
        shutil.copytree(path, copy)
        try:
            client = persistent_client(copy)
            yield from _rows(client, path, name)
            client.close()
        except IndexFault as exc:
            raise InputError(path, exc.problem, "is it complete, and not in use?") from exc


def _rows(client: Client, path: Path, name: str) -> Iterator[ForeignRow]:
    with chroma_faults():
        names = [collection.name for collection in client.list_collections()]
    if name not in names:
        there = ", ".join(sorted(names)) or "none"
        raise InputError(path, f"has no collection {name!r}", f"there are: {there}")
    with chroma_faults():
        collection = client.get_collection(name, embedding_function=None)
        total = collection.count()
    for offset in range(0, total, _PAGE):
        with chroma_faults():
            page = collection.get(limit=_PAGE, offset=offset, include=["documents", "metadatas"])
        for row in zip(page["ids"], page["documents"], page["metadatas"], strict=True):
            yield ForeignRow(row[0], row[1], dict(row[2] or {}))

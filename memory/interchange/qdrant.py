"""The only `qdrant_client` import: a folder of Qdrant's local mode, read from a copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memory.errors import InputError
from memory.interchange.copies import copied
from memory.interchange.foreign import ForeignRow

_PAGE = 1_000


def is_qdrant(folder: Path) -> bool:
    return (folder / "meta.json").is_file() and (folder / "collection").is_dir()


def read_points(folder: Path, name: str) -> list[ForeignRow]:
    """Every point of a collection, its payload as the metadata.

    The points lie there as pickles, which their own library reads: a folder must be trusted.

    Raises: InputError.
    """
    try:
        from qdrant_client import QdrantClient
    except ImportError as exc:
        remedy = "pip install 'memory-dedup[qdrant]'"
        raise InputError(folder, "is Qdrant's, and its library is not installed", remedy) from exc
    with copied(folder, [folder / "meta.json", folder / "collection"]) as copy:
        client: Any = QdrantClient(path=str(copy))
        try:
            names = sorted(one.name for one in client.get_collections().collections)
            if name not in names:
                there = ", ".join(names) or "none"
                raise InputError(folder, f"has no collection {name!r}", f"there are: {there}")
            return _points(client, name)
        finally:
            client.close()


def _points(client: Any, name: str) -> list[ForeignRow]:
    rows: list[ForeignRow] = []
    offset = None
    while True:
        page, offset = client.scroll(name, limit=_PAGE, offset=offset, with_payload=True)
        rows += [ForeignRow(str(point.id), None, dict(point.payload or {})) for point in page]
        if offset is None:
            return rows

"""Collections that somebody else made: a folder is read from a copy, a server as it is."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memory.errors import IndexFault, InputError
from memory.interchange.copies import copied
from memory.interchange.foreign import ForeignRow
from memory.interchange.theirs import Found
from memory.search import (
    ChromaClient,
    ChromaCollection,
    ChromaProcess,
    ChromaServer,
    chroma_faults,
    close_client,
    http_client,
)

_PAGE = 1_000
_MAY_NOT = "readonly database"
"""What Chroma says of a folder that it may not write to."""

Place = Path | ChromaServer
"""Where somebody's Chroma is: a folder, or a server."""


def read_collection(place: Place, name: str) -> Found:
    """Every row of a collection somebody else made; nothing of theirs is changed.

    Raises: InputError.
    """
    with looking_into(place) as client:
        collection = named_collection(client, place, name)
        return Found(str(collection.id), list(_rows(collection)))


def said(place: Place) -> str:
    return f"{place.host}:{place.port}" if isinstance(place, ChromaServer) else str(place)


@contextmanager
def opened(place: Place, copy: Path | None = None) -> Iterator[ChromaClient]:
    """Open their own Chroma, or a copy of it; what fails there is an InputError that names theirs.

    A folder is opened in a process of its own: a crash of Chroma does not end ours, and nothing
    that our memory holds gets into their files.

    Raises: InputError.
    """
    if isinstance(place, ChromaServer):
        remedy = "does a Chroma server listen there?"
    elif (place / "chroma.sqlite3").is_file():
        remedy = "is it complete, and not in use?"
    else:
        raise InputError(place, "is not a Chroma folder", "give the folder with chroma.sqlite3")
    try:
        client: ChromaClient
        if isinstance(place, ChromaServer):
            client = http_client(place)
        else:
            client = ChromaProcess(copy or place, lock=None if copy else _lock_of(place))
        try:
            yield client
        finally:
            close_client(client)
    except IndexFault as exc:
        if _MAY_NOT in exc.problem:
            remedy = "grant the right to write it, and its folder"
            raise InputError(said(place), "cannot be written", remedy) from exc
        raise InputError(said(place), exc.problem, remedy) from exc


def _lock_of(folder: Path) -> Path:
    """Return the lock on somebody's folder: not beside it, and another one for each user.

    After a kill, the next process waits until the process of the killed one has closed the folder.
    """
    user = getattr(os, "getuid", int)()
    name = hashlib.sha256(f"{user} {folder.resolve()}".encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"memory-dedup-{name}.open"


@contextmanager
def looking_into(place: Place) -> Iterator[ChromaClient]:
    """A copy of a folder, since opening it may write to it; a server as it is.

    Raises: InputError.
    """
    if isinstance(place, ChromaServer) or not (place / "chroma.sqlite3").is_file():
        with opened(place) as client:
            yield client
        return
    with copied(place, _parts(place)) as copy, opened(place, copy) as client:
        yield client


def _parts(folder: Path) -> list[Path]:
    """What is Chroma's in a folder; other programs may keep things beside it."""
    segments = [path.parent for path in folder.glob("*/*.bin")]
    return [*folder.glob("chroma.sqlite3*"), *dict.fromkeys(segments)]


def named_collection(client: ChromaClient, place: Place, name: str) -> ChromaCollection:
    """Raises: InputError where there is none of this name, IndexFault."""
    with chroma_faults():
        names = [collection.name for collection in client.list_collections()]
    if name not in names:
        there = ", ".join(sorted(names)) or "none"
        raise InputError(said(place), f"has no collection {name!r}", f"there are: {there}")
    with chroma_faults():
        return client.get_collection(name, embedding_function=None)


def _rows(collection: ChromaCollection) -> Iterator[ForeignRow]:
    with chroma_faults():
        total = collection.count()
    for offset in range(0, total, _PAGE):
        with chroma_faults():
            page = collection.get(limit=_PAGE, offset=offset, include=["documents", "metadatas"])
        for row in zip(page["ids"], page["documents"], page["metadatas"], strict=True):
            yield ForeignRow(row[0], row[1], dict(row[2] or {}))

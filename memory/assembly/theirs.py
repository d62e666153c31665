"""What somebody else has: their Chroma, and their collections to read or to write to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from memory.assembly.access import chroma_headers
from memory.errors import InputError

if TYPE_CHECKING:
    from memory.interchange import Kind, Theirs
    from memory.search import ChromaServer


def their_collection(kind: Kind, place: str, name: str) -> Theirs:
    """Somebody else's collection, to write to.

    Raises: InputError.
    """
    from memory.interchange import (
        TheirChroma,
        TheirPgvector,
        TheirQdrant,
        is_address,
        is_postgres,
        langgraph_at,
    )

    if kind == "langgraph":
        return langgraph_at(place)
    if kind == "pgvector":
        if not is_postgres(place):
            raise InputError(place, "is no address of a PostgreSQL", "give postgresql://...")
        return TheirPgvector(place, name)
    if kind == "qdrant":
        return TheirQdrant(place.rstrip("/") if is_address(place) else Path(place), name)
    return TheirChroma(_chroma_place(place), name)


def mem0_store(place: str) -> tuple[Kind, str]:
    """Which store mem0 keeps its memories in, and where: a database, a server, or a folder.

    Raises: InputError.
    """
    from memory.interchange import is_address, is_postgres, is_qdrant, vector_folder

    if is_postgres(place):
        return "pgvector", place
    if is_address(place):
        return "qdrant", place
    folder = vector_folder(Path(place))
    return ("qdrant" if is_qdrant(folder) else "chroma"), str(folder)


def _chroma_place(given: str) -> Path | ChromaServer:
    """Where somebody else's Chroma is: a folder, or the server at `http://HOST:PORT`.

    Raises: InputError.
    """
    if not given.startswith(("http://", "https://")):
        return Path(given)
    from memory.search import ChromaServer

    url = urlsplit(given)
    try:
        port = url.port or (443 if url.scheme == "https" else 8000)
    except ValueError as exc:
        raise InputError(given, f"has no port ({exc})", "give http://HOST:PORT") from exc
    if not url.hostname or url.path.strip("/") or url.query:
        raise InputError(given, "is no address of a Chroma server", "give http://HOST:PORT")
    return ChromaServer(
        host=url.hostname,
        port=port,
        ssl=url.scheme == "https",
        tenant="default_tenant",
        database="default_database",
        headers=chroma_headers(),
    )

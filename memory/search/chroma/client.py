"""The only `chromadb` import, loaded when first needed: clients, collections, faults."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from memory.errors import IndexFault

ChromaClient = Any
"""A client of chromadb's, or a `ChromaProcess`; chromadb's types do not fit what it accepts."""
ChromaCollection = Any
"""A collection of chromadb's, or a `CollectionHandle`."""
COLLECTION = "memories"
_PATIENCE_S = 5.0
"""How long a server may take to say that it is there; Chroma's own client waits for ever."""
_CALL_S = 30.0
"""How long a server may take for one call."""


@dataclass(frozen=True)
class ChromaServer:
    """Where a Chroma server listens."""

    host: str
    port: int
    ssl: bool
    tenant: str
    database: str
    headers: dict[str, str] = field(repr=False)


def persistent_client(folder: Path) -> ChromaClient:
    """Return a client in this process, whose memory may end up in Chroma's files.

    Only for a process that has nothing else in its memory.

    Raises: IndexFault.
    """
    with chroma_faults():
        chromadb, settings = load_chroma()
        path = str(folder.absolute())
        client: ChromaClient = chromadb.PersistentClient(path=path, settings=settings)
        return client


def http_client(server: ChromaServer) -> ChromaClient:
    """Raises: IndexFault where nothing answers there."""
    heartbeat(server)
    with chroma_faults():
        chromadb, settings = load_chroma()
        client: ChromaClient = chromadb.HttpClient(
            host=server.host,
            port=server.port,
            ssl=server.ssl,
            tenant=server.tenant,
            database=server.database,
            headers=server.headers,
            settings=settings,
        )
        for session in _sessions(client):
            session.timeout = _CALL_S
        return client


def heartbeat(server: ChromaServer) -> None:
    """Raises: IndexFault where nothing answers there."""
    import httpx2  # a tenth of a second that stores without a server do without

    with chroma_faults():
        scheme = "https" if server.ssl else "http"
        beat = f"{scheme}://{server.host}:{server.port}/api/v2/heartbeat"
        httpx2.get(beat, headers=server.headers, timeout=_PATIENCE_S).raise_for_status()


def close_client(client: ChromaClient) -> None:
    """Let go of files and connections, whatever state they are in."""
    with contextlib.suppress(Exception):  # nothing is left to save
        client.close()
    for session in _sessions(client):
        with contextlib.suppress(Exception):
            session.close()


def _sessions(client: Any) -> list[Any]:
    """Return the HTTP sessions of a client, where time limits are set and connections closed."""
    servers = [
        getattr(part, "_server", None) for part in (client, getattr(client, "_admin_client", None))
    ]
    found = (getattr(server, "_session", None) for server in servers)
    return [session for session in found if session is not None]  # only a server's client has one


def load_chroma() -> tuple[Any, Any]:
    import chromadb  # 0.5 s and 80 MB that most commands do without
    from chromadb.config import Settings

    return chromadb, Settings(anonymized_telemetry=False, chroma_server_ssl_verify=True)


@contextlib.contextmanager
def chroma_faults() -> Iterator[None]:
    try:
        yield
    except IndexFault:
        raise
    except Exception as exc:  # Chroma raises its own, httpx's, pydantic's and bare Exceptions
        first_line = (str(exc) or type(exc).__name__).splitlines()[0]
        raise IndexFault(f"Chroma failed: {first_line}") from exc


@cache
def load_minilm() -> Any:
    """Load Chroma's default embedding function once, for `MiniLMEmbedder`."""
    from chromadb.utils.embedding_functions import ONNXMiniLM_L6_V2

    return ONNXMiniLM_L6_V2()


def own_embedding(collection: ChromaCollection) -> Any | None:
    """Return the embedding function that a collection names; None if it names none.

    Raises: IndexFault if it is not installed here.
    """
    named = collection.configuration_json.get("embedding_function") or {}
    if named.get("type") != "known":
        return None
    from chromadb.utils.embedding_functions import known_embedding_functions

    with chroma_faults():
        return known_embedding_functions[named["name"]].build_from_config(named["config"])

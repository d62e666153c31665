"""Clients of Chroma. Only this file imports `chromadb`, and only when it is first needed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from memory.errors import IndexFault

ChromaClient = Any
"""A client of chromadb or a `ChromaProcess`. Any, because chromadb's own types are too narrow."""
ChromaCollection = Any
"""A collection of chromadb or a `CollectionHandle`."""
COLLECTION = "memories"
_PATIENCE_S = 5.0
"""How many seconds a server may take to answer a heartbeat. Chroma's own client has no limit."""
_CALL_S = 30.0
"""How many seconds a server may take for one call."""


@dataclass(frozen=True)
class ChromaServer:
    """The address of a Chroma server, with the tenant, database and headers for requests."""

    host: str
    port: int
    ssl: bool
    tenant: str
    database: str
    headers: dict[str, str] = field(repr=False)


def persistent_client(folder: Path) -> ChromaClient:
    """Open Chroma on a folder inside this process.

    Chroma may write parts of this process's memory into its files. So use it only in a process that
    holds no other texts and no keys.

    Raises: IndexFault.
    """
    with chroma_faults():
        chromadb, settings = load_chroma()
        path = str(folder.absolute())
        client: ChromaClient = chromadb.PersistentClient(path=path, settings=settings)
        return client


def http_client(server: ChromaServer) -> ChromaClient:
    """Connect to a Chroma server, with a time limit for each call.

    Raises: IndexFault if no server answers.
    """
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
    """Check that a Chroma server answers.

    Raises: IndexFault if no server answers.
    """
    import httpx2  # a tenth of a second that stores without a server do without

    with chroma_faults():
        scheme = "https" if server.ssl else "http"
        beat = f"{scheme}://{server.host}:{server.port}/api/v2/heartbeat"
        httpx2.get(beat, headers=server.headers, timeout=_PATIENCE_S).raise_for_status()


def close_client(client: ChromaClient) -> None:
    """Close a client's files and connections. Errors are ignored."""
    with contextlib.suppress(Exception):  # nothing is left to save
        client.close()
    for session in _sessions(client):
        with contextlib.suppress(Exception):
            session.close()


def _sessions(client: Any) -> list[Any]:
    """Return a client's HTTP sessions; a client of a local folder has none."""
    servers = [
        getattr(part, "_server", None) for part in (client, getattr(client, "_admin_client", None))
    ]
    sessions = (getattr(server, "_session", None) for server in servers)
    return [session for session in sessions if session is not None]


def load_chroma() -> tuple[Any, Any]:
    """Import chromadb; return the module, and settings that switch its telemetry off."""
    import chromadb  # 0.5 s and 80 MB that most commands do without
    from chromadb.config import Settings

    return chromadb, Settings(anonymized_telemetry=False, chroma_server_ssl_verify=True)


@contextlib.contextmanager
def chroma_faults() -> Iterator[None]:
    """Turn every exception inside the block into an IndexFault."""
    try:
        yield
    except IndexFault:
        raise
    except Exception as exc:  # Chroma raises its own, httpx's, pydantic's and bare Exceptions
        first_line = (str(exc) or type(exc).__name__).splitlines()[0]
        raise IndexFault(f"Chroma failed: {first_line}") from exc


@cache
def load_minilm() -> Any:
    """Return Chroma's default embedding function for `MiniLMEmbedder`. It is loaded only once."""
    from chromadb.utils.embedding_functions import ONNXMiniLM_L6_V2

    return ONNXMiniLM_L6_V2()


def own_embedding(collection: ChromaCollection) -> Any | None:
    """Return the embedding function that a collection is configured with; None if there is none.

    Raises: IndexFault if the function cannot be loaded.
    """
    named = collection.configuration_json.get("embedding_function") or {}
    if named.get("type") != "known":
        return None
    from chromadb.utils.embedding_functions import known_embedding_functions

    with chroma_faults():
        return known_embedding_functions[named["name"]].build_from_config(named["config"])

"""The only `chromadb` import, loaded when first needed: clients, collections, faults."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from memory.errors import IndexFault

COLLECTION = "memories"
HNSW: dict[str, Any] = {"space": "cosine"}
"""How a new collection is set up."""
SLACK = 1e-5
"""How far Chroma's float32 similarity may lie from ours."""
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


def persistent_client(folder: Path, *, again: bool = False) -> Any:
    """Chroma keeps what it opened, even broken, by the path's spelling; `again` spells it new."""
    path = str(folder.absolute()) + (os.sep if again else "")
    with chroma_faults():
        chromadb, settings = load_chroma()
        return chromadb.PersistentClient(path=path, settings=settings)


def http_client(server: ChromaServer) -> Any:
    with chroma_faults():
        scheme = "https" if server.ssl else "http"
        beat = f"{scheme}://{server.host}:{server.port}/api/v2/heartbeat"
        httpx2.get(beat, headers=server.headers, timeout=_PATIENCE_S).raise_for_status()
        chromadb, settings = load_chroma()
        client = chromadb.HttpClient(
            host=server.host,
            port=server.port,
            ssl=server.ssl,
            tenant=server.tenant,
            database=server.database,
            headers=server.headers,
            settings=settings,
        )
        for session in sessions(client):
            session.timeout = _CALL_S
        return client


def sessions(client: Any) -> list[Any]:
    """Chroma has no other way to say how long its calls may take, nor to close its connections."""
    return [part._server._session for part in (client, client._admin_client)]


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


def open_collection(client: Any, name: str) -> Any:
    with chroma_faults():
        collection = client.get_or_create_collection(
            name, configuration={"hnsw": HNSW}, embedding_function=None
        )
        space = collection.configuration_json["hnsw"]["space"]
    if space != "cosine":
        raise IndexFault(f"collection {name!r} has space {space!r}, not cosine")
    return collection


def load_minilm() -> Any:
    """Chroma's default embedding function, for `MiniLMEmbedder`."""
    from chromadb.utils.embedding_functions import ONNXMiniLM_L6_V2

    return ONNXMiniLM_L6_V2()

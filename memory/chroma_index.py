"""Nearest neighbours by Chroma: the only `chromadb` import, loaded when first needed.

Chroma holds ids, vectors and the few values that scopes are made of; no text. It follows the
ledger: rows above its watermark are searched exactly until there are enough to copy in one go.
Whatever is wrong with it, the ledger can make it again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import filelock
import httpx2
import numpy as np

from memory.errors import IndexFault, InputError
from memory.index import ExactIndex
from memory.ledger import Change, Ledger
from memory.models import Scope, Vector
from memory.protocols import Shortlist

logger = logging.getLogger(__name__)

_BATCH = 100
"""Rows in one write: Chroma's writes hold the GIL, and 100 rows are 20 to 40 ms."""
_LAG = 1_000
"""Rows that may be searched exactly before they are copied into Chroma."""
_WIDER = 4
"""How many more neighbours than wanted are asked for, since some are out of scope or retired."""

_SLACK = 1e-5
"""How far Chroma's float32 similarity may lie from ours."""


_PATIENCE_S = 5.0
"""How long a server may take to say that it is there; Chroma's own client waits for ever."""


@dataclass(frozen=True)
class ChromaServer:
    """Where a Chroma server listens."""

    host: str
    port: int
    ssl: bool
    tenant: str
    database: str
    headers: dict[str, str] = field(repr=False)


class ChromaIndex:
    """The promise of `Index` on one Chroma collection that follows one ledger."""

    def __init__(self, client: Any, name: str, ledger: Ledger, release: Callable[[], None]) -> None:
        """Use `embedded` or `served`."""
        self._client = client
        self._ledger = ledger
        self._release = release
        self._lock = threading.Lock()
        self._collection = _collection(client, name)
        self._follow_from(self._watermark())

    @classmethod
    def embedded(cls, folder: Path, ledger: Ledger) -> ChromaIndex | None:
        """Chroma in this process; None where another process has this folder.

        A folder that Chroma cannot open is set aside, and made again from the ledger.

        Raises: IndexFault.
        """
        with _mapped():
            _load()
        lock = filelock.FileLock(folder.with_suffix(".lock"))
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire(blocking=False)
        except filelock.Timeout:
            return None
        except OSError as exc:
            raise IndexFault(f"no lock on {folder}: {exc.strerror}") from exc
        try:
            return cls._open_or_rebuild(folder, ledger, lock.release)
        except BaseException:  # Ctrl-C too must not leave the folder locked
            lock.release()
            raise

    @classmethod
    def _open_or_rebuild(
        cls, folder: Path, ledger: Ledger, release: Callable[[], None]
    ) -> ChromaIndex:
        try:
            return cls(_persistent_client(folder), "memories", ledger, release)
        except IndexFault as exc:
            with _mapped():
                aside = _set_aside(folder)
            logger.warning("the index is damaged (%s); set aside as %s, made again", exc, aside)
            return cls(_persistent_client(folder, again=True), "memories", ledger, release)

    @classmethod
    def served(cls, server: ChromaServer, ledger: Ledger, store_id: str) -> ChromaIndex:
        """A collection of this store's own on a Chroma server.

        Raises: IndexFault.
        """
        try:
            return cls(_http_client(server), f"memories-{store_id}", ledger, lambda: None)
        except IndexFault as exc:
            where = f"the Chroma server at {server.host}:{server.port} gave no answer"
            raise IndexFault(f"{where} ({exc})", "check memory.chroma.host and port") from exc

    def nearest(self, vector: Vector, scope: Scope, k: int, floor: float) -> Shortlist:
        """Chroma's nearest, without its slow filter, and the nearest of what it does not know yet.

        Incomplete where all that Chroma named is out of scope, and as similar as the floor.
        """
        with self._lock:
            self._catch_up()
            changed = self._recent.changed()
            found = self._query(vector, _WIDER * k)
            recent = self._recent.nearest(vector, scope, k, floor)
        fits = [name for name, values, _ in found if name not in changed and scope.holds(values)]
        exhausted = len(found) < _WIDER * k or found[-1][2] < floor - _SLACK
        return Shortlist((*fits[:k], *recent.ids), complete=bool(fits) or exhausted)

    def close(self) -> None:
        """Copy what Chroma does not know yet, and let go of the folder."""
        with self._lock:
            if self._client is None:
                return
            try:
                self._copy_changes()
            except IndexFault as exc:
                logger.warning("the index is behind (%s); the next start catches up", exc)
            finally:
                client, self._client = self._client, None
                with contextlib.suppress(Exception):  # nothing is left to save
                    client.close()
                self._release()

    def _watermark(self) -> int:
        """Where following starts: 0, with an empty collection, where Chroma's is not our own."""
        with self._ledger.reading() as reader:
            known = reader.index_watermark(str(self._collection.id))
        with _mapped():
            count = self._collection.count()
            if known is None and count:
                self._client.delete_collection(self._collection.name)
                self._collection = _collection(self._client, self._collection.name)
        return known or 0

    def _follow_from(self, revision: int) -> None:
        self._seen = revision
        self._recent = ExactIndex(self._ledger, since=revision)

    def _catch_up(self) -> None:
        with self._ledger.reading() as reader:
            lag = reader.lag(self._seen)
        if lag > _LAG:
            self._copy_changes()

    def _copy_changes(self) -> None:
        """Copy revision by revision, and note how far it got after each batch."""
        while True:
            with self._ledger.reading() as reader:
                changes = reader.changes(self._seen, limit=_LAG)
            if not changes:
                return
            self._write(changes)
            self._follow_from(changes[-1].revision)
            with self._ledger.writing() as writer:
                writer.set_index_watermark(str(self._collection.id), self._seen)

    def _write(self, changes: Sequence[Change]) -> None:
        live = [change for change in changes if change.live and change.vector is not None]
        gone = [change.id for change in changes if not change.live or change.vector is None]
        with _mapped():
            for some in _batches(live):
                self._collection.upsert(
                    ids=[change.id for change in some],
                    embeddings=np.stack([change.vector for change in some]),
                    metadatas=[_scope_values(change) for change in some],
                )
            for some in _batches(gone):
                self._collection.delete(ids=list(some))

    def _query(self, vector: Vector, k: int) -> list[tuple[str, dict[str, Any], float]]:
        with _mapped():
            answer = self._collection.query(
                query_embeddings=[vector], n_results=k, include=["metadatas", "distances"]
            )
        found = zip(answer["ids"][0], answer["metadatas"][0], answer["distances"][0], strict=True)
        return [(name, values or {}, 1.0 - distance) for name, values, distance in found]


def _scope_values(change: Change) -> dict[str, str | bool]:
    """Chroma's metadata: it cannot hold None, and a scope reads what is missing as None."""
    return {name: value for name, value in change.values.items() if value is not None}


def _batches(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (items[start : start + _BATCH] for start in range(0, len(items), _BATCH))


def _collection(client: Any, name: str) -> Any:
    with _mapped():
        collection = client.get_or_create_collection(
            name, configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )
        space = collection.configuration_json["hnsw"]["space"]
    if space != "cosine":
        raise IndexFault(f"collection {name!r} has space {space!r}, not cosine")
    return collection


def _persistent_client(folder: Path, *, again: bool = False) -> Any:
    """Chroma keeps what it opened, even broken, by the path's spelling; `again` spells it new."""
    path = str(folder.absolute()) + (os.sep if again else "")
    with _mapped():
        chromadb, settings = _load()
        return chromadb.PersistentClient(path=path, settings=settings)


def _http_client(server: ChromaServer) -> Any:
    with _mapped():
        scheme = "https" if server.ssl else "http"
        beat = f"{scheme}://{server.host}:{server.port}/api/v2/heartbeat"
        httpx2.get(beat, headers=server.headers, timeout=_PATIENCE_S).raise_for_status()
        chromadb, settings = _load()
        return chromadb.HttpClient(
            host=server.host,
            port=server.port,
            ssl=server.ssl,
            tenant=server.tenant,
            database=server.database,
            headers=server.headers,
            settings=settings,
        )


def _load() -> tuple[Any, Any]:
    import chromadb  # 0.5 s and 80 MB that most commands do without
    from chromadb.config import Settings

    return chromadb, Settings(anonymized_telemetry=False, chroma_server_ssl_verify=True)


@contextlib.contextmanager
def _mapped() -> Iterator[None]:
    try:
        yield
    except IndexFault:
        raise
    except Exception as exc:  # Chroma raises its own, httpx's, pydantic's and bare Exceptions
        first_line = (str(exc) or type(exc).__name__).splitlines()[0]
        raise IndexFault(f"Chroma failed: {first_line}") from exc


def _set_aside(folder: Path) -> Path:
    if not folder.exists():
        raise IndexFault(f"there is no folder {folder} to set aside")
    number = 1
    while (aside := folder.with_name(f"{folder.name}.damaged-{number}")).exists():
        number += 1
    folder.rename(aside)
    return aside


def load_minilm() -> Any:
    """Chroma's default embedding function, for `MiniLMEmbedder`."""
    from chromadb.utils.embedding_functions import ONNXMiniLM_L6_V2

    return ONNXMiniLM_L6_V2()


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
            client = _persistent_client(copy)
            yield from _rows(client, path, name)
            client.close()
        except IndexFault as exc:
            raise InputError(path, exc.problem, "is it complete, and not in use?") from exc


def _rows(client: Any, path: Path, name: str) -> Iterator[ForeignRow]:
    with _mapped():
        names = [collection.name for collection in client.list_collections()]
    if name not in names:
        there = ", ".join(sorted(names)) or "none"
        raise InputError(path, f"has no collection {name!r}", f"there are: {there}")
    with _mapped():
        collection = client.get_collection(name, embedding_function=None)
        total = collection.count()
    for offset in range(0, total, _LAG):
        with _mapped():
            page = collection.get(limit=_LAG, offset=offset, include=["documents", "metadatas"])
        for row in zip(page["ids"], page["documents"], page["metadatas"], strict=True):
            yield ForeignRow(row[0], row[1], dict(row[2] or {}))

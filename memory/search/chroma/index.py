"""`VectorIndex` implemented by one Chroma collection, in a local folder or on a server."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import filelock
import numpy as np

from memory.errors import IndexFault
from memory.models import Vector, Vectors
from memory.runtime import files
from memory.search.chroma.client import (
    COLLECTION,
    ChromaClient,
    ChromaCollection,
    ChromaServer,
    chroma_faults,
    close_client,
    heartbeat,
    http_client,
)
from memory.search.chroma.process import ChromaProcess, alone_at, closed_record, state_of

logger = logging.getLogger(__name__)

_BATCH = 1_000
"""The number of rows in one read or write."""
_TOLERANCE = 1e-5
"""Two vectors count as equal if no coordinate differs by more than this.

Chroma returns vectors with relative errors up to 1e-6.
"""
_ID = "memory-dedup.id"
"""A file that marks a folder as our index. It holds an id, which is new after each clearing."""
_RECORD_BYTES = 1_000_000
"""The maximum size of the file that records a folder's state. A larger file is not ours."""


class _ChromaIndex:
    """A `VectorIndex` in a Chroma collection; base class of the index in a folder and on a server.

    The collection is opened when it is first needed.
    """

    settings: Mapping[str, Any] = {"space": "cosine"}
    """Settings of the HNSW graph of a new collection."""

    def __init__(self, collection_name: str) -> None:
        self._collection_name = collection_name
        self._client: ChromaClient | None = None
        self._opened: ChromaCollection | None = None

    def put(self, ids: Sequence[str], vectors: Vectors) -> None:
        """Store vectors, shape (n, dim), under their ids (n,).

        A vector that is stored already is not written a second time. If another vector is stored
        under the same id, it is deleted first: if hnswlib changes a vector in place, other vectors
        may no longer be found.
        """
        with chroma_faults():
            for start in range(0, len(ids), _BATCH):
                names, batch = list(ids[start : start + _BATCH]), vectors[start : start + _BATCH]
                page = self._collection.get(ids=names, include=["embeddings"])
                known = dict(zip(page["ids"], page["embeddings"], strict=True))
                new = [
                    n
                    for n, name in enumerate(names)
                    if name not in known
                    or not np.allclose(known[name], batch[n], rtol=0, atol=_TOLERANCE)
                ]
                self.remove([names[n] for n in new if names[n] in known])
                if new:
                    self._collection.upsert(ids=[names[n] for n in new], embeddings=batch[new])

    def remove(self, ids: Sequence[str]) -> None:
        with chroma_faults():
            for start in range(0, len(ids), _BATCH):
                self._collection.delete(ids=list(ids[start : start + _BATCH]))

    def nearest(self, vector: Vector, k: int) -> list[tuple[str, float]]:
        with chroma_faults():
            answer = self._collection.query(
                query_embeddings=[vector], n_results=k, include=["distances"]
            )
        found = zip(answer["ids"][0], answer["distances"][0], strict=True)
        return [(name, 1.0 - distance) for name, distance in found]

    def pages(self) -> Iterator[tuple[list[str], Vectors]]:
        offset = 0
        while True:
            with chroma_faults():
                page = self._collection.get(limit=_BATCH, offset=offset, include=["embeddings"])
            if not page["ids"]:
                return
            yield page["ids"], np.asarray(page["embeddings"], np.float32)
            offset += _BATCH

    def close(self) -> None:
        client, self._client, self._opened = self._client, None, None
        if client is not None:
            close_client(client)

    @property
    def _collection(self) -> ChromaCollection:
        if self._client is None:
            self._client = self._connect()
        if self._opened is None:
            with chroma_faults():
                self._opened = self._client.get_or_create_collection(
                    self._collection_name,
                    configuration={"hnsw": self.settings},
                    embedding_function=None,
                )
        return self._opened

    def _connect(self) -> ChromaClient:
        raise NotImplementedError


class EmbeddedChroma(_ChromaIndex):
    """A vector index in a folder that only this process uses, read and written by a Chroma process.

    The Chroma process starts when it is first needed. Chroma is not crash-safe: a folder that was
    not closed properly is deleted, and the index must be filled again.
    """

    name = "Chroma"
    shared = False

    def __init__(self, folder: Path) -> None:
        """Lock the folder; if its index was not closed properly, delete the folder.

        A folder that is not an index of memory-dedup is renamed.

        Raises: IndexFault if another process has the folder open, or it cannot be locked.
        """
        super().__init__(COLLECTION)
        self._folder = folder
        self._lock = files.own_lock(folder.with_suffix(".lock"))
        try:
            folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock.acquire(blocking=False)
        except filelock.Timeout as exc:
            raise IndexFault(f"{folder} is in use by another process") from exc
        except OSError as exc:
            raise IndexFault(f"{folder} cannot be locked: {exc.strerror}") from exc
        try:
            with alone_at(folder):
                if folder.exists() and not self._is_whole():
                    logger.warning(
                        "the index in %s was not closed in order; it is made again", folder
                    )
                    self._discard()
        except BaseException:  # Ctrl-C too must not leave the folder locked
            self._lock.release()
            raise

    @property
    def place(self) -> str:
        return str(self._folder.absolute())

    @property
    def id(self) -> str:
        try:
            return files.read_bounded(self._folder / _ID, 100).decode()
        except OSError:
            return ""

    def clear(self) -> None:
        """Delete the folder, and make a new one with a new id.

        Deleting rows would not be enough, because Chroma's files keep deleted data.

        Raises: IndexFault.
        """
        super().close()
        with alone_at(self._folder):
            self._discard()
        try:
            self._folder.mkdir(mode=0o700)
            files.write_whole(self._folder / _ID, uuid4().hex.encode())
        except OSError as exc:
            raise IndexFault(f"{self._folder} cannot be made: {exc.strerror}") from exc

    def close(self) -> None:
        super().close()
        self._lock.release()

    def _connect(self) -> ChromaClient:
        if not self._lock.is_locked:
            raise IndexFault("the index is closed")
        return ChromaProcess(self._folder, is_ours=True)

    def _is_whole(self) -> bool:
        """Return whether Chroma closed the folder properly, and no file has changed after that.

        Also return True if the folder is new and holds nothing but its id.
        """
        if self.id and [path.name for path in self._folder.iterdir()] == [_ID]:
            return True
        try:
            record = json.loads(files.read_bounded(closed_record(self._folder), _RECORD_BYTES))
        except (OSError, ValueError):
            return False
        return bool(self.id) and bool(record == state_of(self._folder))

    def _discard(self) -> None:
        """Delete the folder if it is an index of memory-dedup; otherwise rename it.

        Raises: IndexFault.
        """
        closed_record(self._folder).unlink(missing_ok=True)
        if not self._folder.exists():
            return
        try:
            if self.id:
                shutil.rmtree(self._folder)
                return
            aside = files.set_aside(self._folder, "foreign")
        except OSError as exc:
            raise IndexFault(f"{self._folder} cannot be cleared: {exc.strerror}") from exc
        logger.warning("%s is not this store's index; it is now %s", self._folder, aside)


class ServedChroma(_ChromaIndex):
    """A vector index in a collection of its own on a Chroma server, shared by several processes."""

    name = "Chroma server"
    shared = True

    def __init__(self, server: ChromaServer, store_id: str) -> None:
        """Use the collection for `store_id`, the id of the ledger's store.

        Raises: IndexFault if no server answers.
        """
        super().__init__(f"{COLLECTION}-{store_id}")
        self._server = server
        try:
            heartbeat(server)
        except IndexFault as exc:
            where = f"the Chroma server at {server.host}:{server.port} gave no answer"
            raise IndexFault(f"{where} ({exc})", "check memory.chroma.host and port") from exc

    @property
    def place(self) -> str:
        return self._collection_name

    @property
    def id(self) -> str:
        """The id of the collection, which changes when the index is cleared.

        It is read from the server each time, since another process may have cleared the index.
        """
        self._opened = None
        return str(self._collection.id)

    def clear(self) -> None:
        _ = self._collection
        assert self._client is not None
        with chroma_faults():
            self._client.delete_collection(self._collection_name)
        self._opened = None

    def _connect(self) -> ChromaClient:
        return http_client(self._server)

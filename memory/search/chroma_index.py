"""`VectorIndex` implemented by one Chroma collection, in a local folder or on a server."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import filelock
import numpy as np

from memory.errors import IndexFault
from memory.models import Vector, Vectors
from memory.runtime import files
from memory.search.chroma_client import (
    COLLECTION,
    ChromaClient,
    ChromaCollection,
    ChromaProcess,
    ChromaServer,
    alone_at,
    chroma_faults,
    close_client,
    closed_record,
    heartbeat,
    http_client,
    state_of,
)

logger = logging.getLogger(__name__)

_BATCH = 1_000
_TOLERANCE = 1e-5
"""Two vectors are equal if no coordinate differs by more than this. Chroma's errors reach 1e-6."""
_ID = "memory-dedup.id"
"""The file that marks a folder as our index. It holds the id of the index."""
_RECORD_BYTES = 1_000_000


class _ChromaIndex:
    settings: Mapping[str, Any] = {"space": "cosine"}

    def __init__(self, collection_name: str, connect: Callable[[], ChromaClient]) -> None:
        self._collection_name = collection_name
        self._connect = connect
        self._client: ChromaClient | None = None
        self._opened: ChromaCollection | None = None

    def put(self, ids: Sequence[str], vectors: Vectors) -> None:
        """Store vectors, shape (n, dim), under their ids (n,).

        A changed vector is deleted first: if hnswlib changes a vector in place, other vectors may
        no longer be found.
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
        for offset in count(step=_BATCH):
            with chroma_faults():
                page = self._collection.get(limit=_BATCH, offset=offset, include=["embeddings"])
            if not page["ids"]:
                return
            yield page["ids"], np.asarray(page["embeddings"], np.float32)

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


class EmbeddedChroma(_ChromaIndex):
    """A vector index in a folder that only this process uses, through a `ChromaProcess`.

    Chroma is not crash-safe: a folder that was not closed properly is deleted and must be filled
    again.
    """

    name = "Chroma"
    shared = False

    def __init__(self, folder: Path) -> None:
        """Lock the folder; delete it if its index was not closed properly.

        A folder that is not an index of memory-dedup is renamed.

        Raises: IndexFault if another process has the folder open, or it cannot be locked.
        """
        super().__init__(COLLECTION, self._open_folder)
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
        """Replace the folder by an empty one with a new id.

        Deleting the vectors would not do: Chroma's files keep what was deleted.

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

    def _open_folder(self) -> ChromaProcess:
        if not self._lock.is_locked:
            raise IndexFault("the index is closed")
        return ChromaProcess(self._folder, is_ours=True)

    def _is_whole(self) -> bool:
        if self.id and [path.name for path in self._folder.iterdir()] == [_ID]:
            return True
        try:
            record = json.loads(files.read_bounded(closed_record(self._folder), _RECORD_BYTES))
        except (OSError, ValueError):
            return False
        return bool(self.id) and bool(record == state_of(self._folder))

    def _discard(self) -> None:
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
        super().__init__(f"{COLLECTION}-{store_id}", partial(http_client, server))
        try:
            heartbeat(server)
        except IndexFault as exc:
            where = f"the Chroma server at {server.host}:{server.port} gave no answer"
            raise IndexFault(f"{where} ({exc})", "check memory.search.chroma_url") from exc

    @property
    def place(self) -> str:
        return self._collection_name

    @property
    def id(self) -> str:
        """The id of the collection, read each time: another process may have cleared the index."""
        self._opened = None
        return str(self._collection.id)

    def clear(self) -> None:
        _ = self._collection
        assert self._client is not None
        with chroma_faults():
            self._client.delete_collection(self._collection_name)
        self._opened = None

"""The promise of `VectorIndex` on Chroma: one collection, in a folder or on a server."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import filelock

from memory.errors import IndexFault
from memory.models import Vector, Vectors
from memory.runtime import files
from memory.search.chroma.client import (
    COLLECTION,
    ChromaServer,
    Client,
    chroma_faults,
    close_client,
    heartbeat,
    http_client,
    open_collection,
)
from memory.search.chroma.process import ChromaProcess, alone_at, closed_record, state_of
from memory.search.chroma.rows import ChromaRows

logger = logging.getLogger(__name__)

_ID = "memory-dedup.id"
"""The file in a folder that says that it is ours, and which making of it."""
_RECORD_BYTES = 1_000_000
"""More than any record of ours: a larger one is somebody else's."""


class EmbeddedChroma:
    """Chroma on a folder that this process alone has; its process starts when first needed.

    A folder that was not closed in order is deleted, and filled again: Chroma is not crash-safe.
    """

    name = "Chroma"
    shared = False

    def __init__(
        self, folder: Path, *, is_ours: bool = False, sync_threshold: int | None = None
    ) -> None:
        """`is_ours`: the ledger knows an index at this folder, so it may be deleted.

        Chroma rewrites its files after `sync_threshold` writes; None leaves that to Chroma.

        Raises: IndexFault where another process has the folder.
        """
        self._folder = folder
        self._is_ours = is_ours
        self._sync_threshold = sync_threshold
        self._process: ChromaProcess | None = None
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

    def put(self, ids: Sequence[str], vectors: Vectors) -> None:
        self._opened.ask("put", ids, vectors)

    def remove(self, ids: Sequence[str]) -> None:
        self._opened.ask("remove", ids)

    def nearest(self, vector: Vector, k: int) -> list[tuple[str, float]]:
        found: list[tuple[str, float]] = self._opened.ask("nearest", vector, k)
        return found

    def pages(self) -> Iterator[tuple[list[str], Vectors]]:
        return _pages(lambda offset: self._opened.ask("page", offset))

    def clear(self) -> None:
        """Delete the folder: Chroma's files keep what it deletes, and what its memory held."""
        self._end()
        with alone_at(self._folder):
            self._discard()
        for aside in files.all_set_aside(self._folder, "damaged"):  # by earlier versions
            shutil.rmtree(aside, ignore_errors=True)
        try:
            self._folder.mkdir(mode=0o700)
            files.write_whole(self._folder / _ID, uuid4().hex.encode())
        except OSError as exc:
            raise IndexFault(f"{self._folder} cannot be made: {exc.strerror}") from exc

    def close(self) -> None:
        self._end()
        self._lock.release()

    @property
    def _opened(self) -> ChromaProcess:
        if not self._lock.is_locked:
            raise IndexFault("the index is closed")
        if self._process is None:
            self._process = ChromaProcess(self._folder, self._sync_threshold)
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def _is_whole(self) -> bool:
        """Whether the files are as they were when Chroma closed them, or never opened."""
        if self.id and [path.name for path in self._folder.iterdir()] == [_ID]:
            return True
        try:
            record = json.loads(files.read_bounded(closed_record(self._folder), _RECORD_BYTES))
        except (OSError, ValueError):
            return False
        return bool(self.id) and bool(record == state_of(self._folder))

    def _discard(self) -> None:
        """Delete the folder; one that is somebody else's is renamed."""
        closed_record(self._folder).unlink(missing_ok=True)
        if not self._folder.exists():
            return
        try:
            if self.id or self._is_ours:
                shutil.rmtree(self._folder)
                return
            aside = files.set_aside(self._folder, "foreign")
        except OSError as exc:
            raise IndexFault(f"{self._folder} cannot be cleared: {exc.strerror}") from exc
        logger.warning("%s is not this store's index; it is now %s", self._folder, aside)


class ServedChroma:
    """A collection of a store's own on a Chroma server, which several processes share."""

    name = "Chroma server"
    shared = True

    def __init__(
        self, server: ChromaServer, store_id: str, sync_threshold: int | None = None
    ) -> None:
        """Raises: IndexFault where no server answers there."""
        self._server = server
        self._sync_threshold = sync_threshold
        self._collection = f"{COLLECTION}-{store_id}"
        self._client: Client | None = None
        self._rows: ChromaRows | None = None
        self._id = ""
        try:
            heartbeat(server)
        except IndexFault as exc:
            where = f"the Chroma server at {server.host}:{server.port} gave no answer"
            raise IndexFault(f"{where} ({exc})", "check memory.chroma.host and port") from exc

    @property
    def place(self) -> str:
        return self._collection

    @property
    def id(self) -> str:
        """As it is now: another process may have cleared it."""
        self._rows = None
        _ = self._opened
        return self._id

    def put(self, ids: Sequence[str], vectors: Vectors) -> None:
        self._opened.put(ids, vectors)

    def remove(self, ids: Sequence[str]) -> None:
        self._opened.remove(ids)

    def nearest(self, vector: Vector, k: int) -> list[tuple[str, float]]:
        return self._opened.nearest(vector, k)

    def pages(self) -> Iterator[tuple[list[str], Vectors]]:
        return _pages(self._opened.page)

    def clear(self) -> None:
        _ = self._opened
        assert self._client is not None
        with chroma_faults():
            self._client.delete_collection(self._collection)
        self._rows = None

    def close(self) -> None:
        client, self._client, self._rows = self._client, None, None
        if client is not None:
            close_client(client)

    @property
    def _opened(self) -> ChromaRows:
        if self._client is None:
            self._client = http_client(self._server)
        if self._rows is None:
            collection = open_collection(self._client, self._collection, self._sync_threshold)
            self._rows, self._id = ChromaRows(collection), str(collection.id)
        return self._rows


def _pages(
    page: Callable[[int], tuple[list[str], Vectors]],
) -> Iterator[tuple[list[str], Vectors]]:
    offset = 0
    while True:
        ids, vectors = page(offset)
        if not ids:
            return
        yield ids, vectors
        offset += len(ids)

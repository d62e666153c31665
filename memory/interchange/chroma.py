"""Read and change Chroma collections of other programs, in a folder or on a server.

To read a folder, a copy of it is opened; to change it, the folder itself is opened.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import ClassVar

import numpy as np

from memory.errors import IndexFault, InputError
from memory.interchange.collection import Embed, ExternalStore, OpenCollection
from memory.interchange.foreign import ForeignRow
from memory.interchange.undo_file import Kind, Stored, UndoHeader
from memory.search import (
    ChromaClient,
    ChromaCollection,
    ChromaProcess,
    ChromaServer,
    chroma_faults,
    close_client,
    http_client,
    own_embedding,
)

_PAGE = 1_000
_MAY_NOT = "readonly database"  # part of Chroma's error message
_NEVER = 10**9
"""A number of writes that is never reached; it keeps Chroma from rewriting its index files."""
_USUAL = 1_000  # Chroma's default number of such writes


@dataclass(frozen=True)
class ChromaStore(ExternalStore):
    """A Chroma collection of another program, not opened yet.

    `place` is the collection's folder or server, `name` the collection's name.
    """

    place: Path | ChromaServer
    name: str
    kind: ClassVar[Kind] = "chroma"

    @property
    def address(self) -> str:
        if isinstance(self.place, Path):
            return super().address
        return f"http{'s' if self.place.ssl else ''}://{self.place.host}:{self.place.port}"

    @property
    def files(self) -> list[Path]:
        if isinstance(self.place, ChromaServer) or not (self.place / "chroma.sqlite3").is_file():
            return []
        segments = {path.parent for path in self.place.glob("*/*.bin")}
        return [*self.place.glob("chroma.sqlite3*"), *segments]

    @contextmanager
    def opened(self, copy: Path | None = None) -> Iterator[ChromaRows]:
        """Open the collection itself or, if `copy` is given, the copy of its folder at this path.

        A folder is opened in a separate process. So a crash of Chroma does not end this process,
        and nothing from this process's memory gets into Chroma's files.

        Raises: InputError if Chroma fails; the error names the original place, not the copy.
        """
        place = self.place
        if isinstance(place, ChromaServer):
            remedy = "does a Chroma server listen there?"
        elif (place / "chroma.sqlite3").is_file():
            remedy = "is it complete, and not in use?"
        else:
            raise InputError(place, "is not a Chroma folder", "give the folder with chroma.sqlite3")
        shown = place if isinstance(place, Path) else f"{place.host}:{place.port}"
        try:
            client: ChromaClient
            if isinstance(place, ChromaServer):
                client = http_client(place)
            else:
                client = ChromaProcess(copy or place, lock=None if copy else _lock_of(place))
            try:
                yield ChromaRows(self, _named_collection(client, str(shown), self.name))
            finally:
                close_client(client)
        except IndexFault as exc:
            if _MAY_NOT in exc.problem:
                remedy = "grant the right to write it, and its folder"
                raise InputError(shown, "cannot be written", remedy) from exc
            raise InputError(shown, exc.problem, remedy) from exc

    @contextmanager
    def writing(self, header: UndoHeader) -> Iterator[OpenCollection]:
        """Open the collection for writing; `header` is the first line of the undo file.

        If Chroma is killed while it rewrites its index files, the collection cannot be opened
        afterwards. So for a collection in a folder, this method keeps Chroma from rewriting these
        files until the collection is closed. Changes go into Chroma's SQLite file, and later writes
        by the collection's owner bring the index files up to date. For a collection on a server,
        nothing is prevented, because the server keeps running if this process is killed.

        Raises: InputError if Chroma fails, or if the collection is not the one that `header` names.
        """
        with self.opened() as rows:
            if rows.collection_id != header.collection_id:
                raise InputError(self.address, f"{self.name!r} is another collection now")
            if isinstance(self.place, Path):
                rows.set_sync_threshold(_NEVER)
        with self.opened() as rows:
            try:
                yield rows
            finally:
                if isinstance(self.place, Path):
                    rows.set_sync_threshold(header.sync_threshold or _USUAL)


@dataclass(frozen=True)
class ChromaRows(OpenCollection):
    """An open Chroma collection of another program; `collection` is Chroma's object for it."""

    collection: ChromaCollection

    @property
    def collection_id(self) -> str:
        return str(self.collection.id)

    @property
    def sync_threshold(self) -> int | None:
        """The number of writes after which Chroma rewrites its index files, as the owner set it.

        It is None if the owner set no number. It is also None if the owner's number is unknown,
        because a write-back replaced it and was killed before it restored it.
        """
        known = (self.collection.configuration_json.get("hnsw") or {}).get("sync_threshold")
        return None if known is None or known >= _NEVER else int(known)

    def set_sync_threshold(self, writes: int) -> None:
        """Set the number of writes after which Chroma rewrites its index files."""
        with chroma_faults():
            self.collection.modify(configuration={"hnsw": {"sync_threshold": writes}})

    def all(self) -> Iterator[ForeignRow]:
        parts = ["documents", "metadatas"]
        with chroma_faults():
            total = self.collection.count()
        for offset in range(0, total, _PAGE):
            with chroma_faults():
                page = self.collection.get(limit=_PAGE, offset=offset, include=parts)
            for row in zip(page["ids"], page["documents"], page["metadatas"], strict=True):
                yield ForeignRow(row[0], row[1], dict(row[2] or {}))

    def stored(self, ids: Sequence[str]) -> dict[str, Stored]:
        parts = ["documents", "metadatas", "embeddings"]
        with chroma_faults():
            page = self.collection.get(ids=list(ids), include=parts)
        columns = (page["ids"], page["documents"], page["metadatas"], page["embeddings"])
        return {
            name: Stored(name, document, dict(metadata or {}), {"": np.asarray(vector, np.float32)})
            for name, document, metadata, vector in zip(*columns, strict=True)
        }

    def own_embedder(self) -> Embed | None:
        return own_embedding(self.collection)

    def put(self, rows: Sequence[Stored], present: Mapping[str, Stored]) -> None:
        # A call of Chroma takes either rows with a document or rows without one.
        for exists, in_document in product((True, False), repeat=2):
            wanted = (exists, in_document)
            batch = [row for row in rows if (row.id in present, row.document is not None) == wanted]
            if not batch:
                continue
            with chroma_faults():
                (self.collection.update if exists else self.collection.add)(
                    ids=[row.id for row in batch],
                    embeddings=np.stack([row.vectors[""] for row in batch]),
                    documents=[row.document or "" for row in batch] if in_document else None,
                    metadatas=[row.metadata or None for row in batch],
                )

    def delete(self, ids: Sequence[str]) -> None:
        with chroma_faults():
            self.collection.delete(ids=list(ids))


def _lock_of(folder: Path) -> Path:
    """Return the path of the lock file that this program uses while it has `folder` open.

    `folder` is a Chroma folder. The lock file is in the directory for temporary files, and each
    user of the operating system has another one. If this process is killed, its Chroma process may
    run a little longer and keep the lock. The next run of this program waits for the lock.
    """
    user = getattr(os, "getuid", int)()
    name = hashlib.sha256(f"{user} {folder.resolve()}".encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"memory-dedup-{name}.open"


def _named_collection(client: ChromaClient, shown: str, name: str) -> ChromaCollection:
    """Return the collection called `name`. Errors call the store `shown`.

    Raises: InputError if there is no such collection; IndexFault if Chroma fails.
    """
    with chroma_faults():
        names = [collection.name for collection in client.list_collections()]
    if name not in names:
        present = ", ".join(sorted(names)) or "none"
        raise InputError(shown, f"has no collection {name!r}", f"there are: {present}")
    with chroma_faults():
        return client.get_collection(name, embedding_function=None)

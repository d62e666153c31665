"""Chroma collections of other programs, in a folder or on a server.

A folder is copied to be read, and opened itself to be changed.
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
from typing import Any, ClassVar

import numpy as np

from memory.errors import IndexFault, InputError
from memory.interchange.collection import Embed, ExternalStore, OpenCollection
from memory.interchange.databases import copied
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
_MAY_NOT = "readonly database"
"""Part of Chroma's error message for a folder to which it may not write."""
_NEVER = 10**9
"""A `sync_threshold` (see `ChromaRows`) that is never reached."""
_USUAL = 1_000
"""Chroma's default number of writes before it rewrites its files."""


@dataclass(frozen=True)
class ChromaStore(ExternalStore):
    """A Chroma collection in a folder, or on a server."""

    place: Path | ChromaServer
    name: str
    kind: ClassVar[Kind] = "chroma"

    @property
    def address(self) -> str:
        if isinstance(self.place, Path):
            return str(self.place.absolute())
        return f"http{'s' if self.place.ssl else ''}://{self.place.host}:{self.place.port}"

    @contextmanager
    def looking(self) -> Iterator[OpenCollection]:
        """Open the collection for reading; copy a folder first, since Chroma may write to it."""
        folder = self.place
        if isinstance(folder, ChromaServer) or not (folder / "chroma.sqlite3").is_file():
            with self.opened() as rows:
                yield rows
            return
        segments = {path.parent for path in folder.glob("*/*.bin")}
        with (
            copied(folder, [*folder.glob("chroma.sqlite3*"), *segments]) as copy,
            self.opened(copy) as rows,
        ):
            yield rows

    @contextmanager
    def opened(self, copy: Path | None = None) -> Iterator[ChromaRows]:
        """Open the collection; if `copy` is given, open it in this copy of its folder instead.

        A folder is opened in a process of its own, so that a crash of Chroma does not end this one,
        and nothing from this process's memory gets into Chroma's files.

        Raises: InputError; it names the original place, not the copy.
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
        """Open the collection for writing; in a folder, Chroma rewrites no index files meanwhile.

        If Chroma is killed while it rewrites them, the collection cannot be opened any more. The
        changes are in its SQLite file, and the owner's next writes bring the index files up to
        date. A server does not need this, since it is not killed together with this process.

        Raises: InputError, also if the collection was replaced by another one of the same name.
        """
        with self.opened() as rows:
            if rows.collection_id != header.collection_id:
                raise InputError(self.address, f"{self.name!r} is another collection now")
            if isinstance(self.place, Path):
                rows.wait_for(_NEVER)
        with self.opened() as rows:
            try:
                yield rows
            finally:
                if isinstance(self.place, Path):
                    rows.wait_for(header.sync_threshold or _USUAL)


@dataclass(frozen=True)
class ChromaRows(OpenCollection):
    """An open Chroma collection.

    Its `sync_threshold` is the number of writes after which Chroma rewrites its index files.
    """

    collection: ChromaCollection

    @property
    def collection_id(self) -> str:
        return str(self.collection.id)

    @property
    def sync_threshold(self) -> int | None:
        """The owner's setting of how many writes Chroma makes before it rewrites its index files.

        None if there is none, or if a killed write-back has replaced it.
        """
        known = (self.collection.configuration_json.get("hnsw") or {}).get("sync_threshold")
        return None if known is None or known >= _NEVER else int(known)

    def wait_for(self, writes: int) -> None:
        """Make Chroma rewrite its index files only after this number of writes."""
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

    def stored(self, names: Sequence[str]) -> dict[str, Stored]:
        parts = ["documents", "metadatas", "embeddings"]
        with chroma_faults():
            page = self.collection.get(ids=list(names), include=parts)
        columns = (page["ids"], page["documents"], page["metadatas"], page["embeddings"])
        return {
            name: Stored(name, document, dict(metadata or {}), {"": np.asarray(vector, np.float32)})
            for name, document, metadata, vector in zip(*columns, strict=True)
        }

    def own_embedder(self) -> Embed | None:
        return own_embedding(self.collection)

    def put(self, rows: Sequence[Stored], there: Mapping[str, Stored]) -> None:
        """Update the rows that are in `there`, and add the others.

        Rows with and without a document need separate calls of Chroma.
        """
        for exists, in_document in product((True, False), repeat=2):
            wanted = (exists, in_document)
            batch = [row for row in rows if (row.id in there, row.document is not None) == wanted]
            if not batch:
                continue
            with chroma_faults():
                (self.collection.update if exists else self.collection.add)(
                    ids=[row.id for row in batch],
                    embeddings=np.stack([row.vectors[""] for row in batch]),
                    documents=[row.document or "" for row in batch] if in_document else None,
                    metadatas=[_metadata(row, there.get(row.id)) for row in batch],
                )

    def delete(self, names: Sequence[str]) -> None:
        with chroma_faults():
            self.collection.delete(ids=list(names))


def _lock_of(folder: Path) -> Path:
    """Return the path of a lock file for another program's folder.

    It is outside the folder, and differs for each user of the operating system. If this process is
    killed, the next one waits for the lock until the killed one's Chroma process has ended.
    """
    user = getattr(os, "getuid", int)()
    name = hashlib.sha256(f"{user} {folder.resolve()}".encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"memory-dedup-{name}.open"


def _named_collection(client: ChromaClient, shown: str, name: str) -> ChromaCollection:
    """Return the collection called `name`; `shown` names the store in errors.

    Raises: InputError if there is no such collection, IndexFault.
    """
    with chroma_faults():
        names = [collection.name for collection in client.list_collections()]
    if name not in names:
        there = ", ".join(sorted(names)) or "none"
        raise InputError(shown, f"has no collection {name!r}", f"there are: {there}")
    with chroma_faults():
        return client.get_collection(name, embedding_function=None)


def _metadata(row: Stored, there: Stored | None) -> dict[str, Any] | None:
    """Return the row's metadata for an update by Chroma; None as a value removes the key.

    `there` is the row that Chroma holds now, None if it holds none.
    """
    gone = {} if there is None else dict.fromkeys(there.metadata.keys() - row.metadata.keys())
    return {**row.metadata, **gone} or None

"""Read and change Chroma collections of other programs, in a folder or on a server."""

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
from memory.interchange.collection import Embed, ExternalStore, Kind, OpenCollection, Stored
from memory.interchange.foreign import ForeignRow
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
_NEVER = 10**9  # writes before Chroma rewrites its index files; this number is never reached


@dataclass(frozen=True)
class ChromaStore(ExternalStore):
    """A Chroma collection of another program, not opened yet.

    >>> theirs = ChromaStore(Path("notes"), "memories")
    >>> theirs.kind, theirs.files  # nothing is there, and nothing was opened
    ('chroma', [])
    """

    place: Path | ChromaServer
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
        return [
            *self.place.glob("chroma.sqlite3*"),
            *{path.parent for path in self.place.glob("*/*.bin")},
        ]

    @contextmanager
    def opened(self, copy: Path | None = None) -> Iterator[ChromaRows]:
        """Open the collection. If `copy` is given, open this copy of the folder instead.

        A folder is opened in another process, so that a crash of Chroma ends only that process.
        """
        place = self.place
        if isinstance(place, ChromaServer):
            shown, remedy = f"{place.host}:{place.port}", "does a Chroma server listen there?"
        else:
            shown, remedy = str(place), "is it complete, and not in use?"
            if not (place / "chroma.sqlite3").is_file():
                raise InputError(
                    place, "is not a Chroma folder", "give the folder with chroma.sqlite3"
                )
        try:
            client: ChromaClient = (
                http_client(place)
                if isinstance(place, ChromaServer)
                else ChromaProcess(copy or place, lock=None if copy else _lock_of(place))
            )
            try:
                yield ChromaRows(self, _named_collection(client, shown, self.name))
            finally:
                close_client(client)
        except IndexFault as exc:
            if "readonly database" in exc.problem:
                raise InputError(
                    shown, "cannot be written", "grant the right to write it, and its folder"
                ) from exc
            raise InputError(shown, exc.problem, remedy) from exc

    @contextmanager
    def writing(self, collection_id: str, sync_threshold: int | None) -> Iterator[OpenCollection]:
        """Open the collection for writing, and keep Chroma from rewriting a folder's index files.

        If Chroma is killed while it rewrites these files, the collection can never be opened again.
        So the changes are written only to Chroma's SQLite file. This is not needed for a server: it
        keeps running if this process is killed.

        Chroma's setting `sync_threshold` is the number of writes after which it rewrites the index
        files. While a folder's collection is open, the setting is a huge number. At the end, it is
        set to the parameter `sync_threshold`; None stands for Chroma's default.

        Raises: InputError if Chroma fails, or if the collection's id is not `collection_id`.
        """
        with self.opened() as rows:
            if rows.collection_id != collection_id:
                raise InputError(self.address, f"{self.name!r} is another collection now")
            if isinstance(self.place, Path):
                rows.set_sync_threshold(_NEVER)
        with self.opened() as rows:
            try:
                yield rows
            finally:
                if isinstance(self.place, Path):
                    rows.set_sync_threshold(sync_threshold or 1_000)  # Chroma's default


@dataclass(frozen=True)
class ChromaRows(OpenCollection):
    collection: ChromaCollection

    @property
    def collection_id(self) -> str:
        return str(self.collection.id)

    @property
    def sync_threshold(self) -> int | None:
        known = (self.collection.configuration_json.get("hnsw") or {}).get("sync_threshold")
        return None if known is None or known >= _NEVER else int(known)

    def set_sync_threshold(self, writes: int) -> None:
        with chroma_faults():
            self.collection.modify(configuration={"hnsw": {"sync_threshold": writes}})

    def all(self) -> Iterator[ForeignRow]:
        with chroma_faults():
            for offset in range(0, self.collection.count(), _PAGE):
                page = self.collection.get(
                    limit=_PAGE, offset=offset, include=["documents", "metadatas"]
                )
                for row in zip(page["ids"], page["documents"], page["metadatas"], strict=True):
                    yield ForeignRow(row[0], row[1], dict(row[2] or {}))

    def stored(self, ids: Sequence[str]) -> dict[str, Stored]:
        parts = ["documents", "metadatas", "embeddings"]
        with chroma_faults():
            page = self.collection.get(ids=list(ids), include=parts)
        columns = (page[part] for part in ("ids", *parts))
        return {
            name: Stored(name, document, dict(metadata or {}), {"": np.asarray(vector, np.float32)})
            for name, document, metadata, vector in zip(*columns, strict=True)
        }

    def own_embedder(self) -> Embed | None:
        return own_embedding(self.collection)

    def put(self, rows: Sequence[Stored], present: Mapping[str, Stored]) -> None:
        # A call of Chroma takes either rows with a document or rows without one.
        for exists, in_document in product((True, False), repeat=2):
            batch = [
                row
                for row in rows
                if (row.id in present) == exists and (row.document is not None) == in_document
            ]
            if batch:
                with chroma_faults():
                    (self.collection.update if exists else self.collection.add)(
                        ids=[row.id for row in batch],
                        embeddings=np.stack([row.vectors[""] for row in batch]),
                        documents=[row.document or "" for row in batch] if in_document else None,
                        metadatas=[_whole(row, present.get(row.id)) or None for row in batch],
                    )

    def delete(self, ids: Sequence[str]) -> None:
        with chroma_faults():
            self.collection.delete(ids=list(ids))


def _whole(row: Stored, present: Stored | None) -> dict[str, Any]:
    """Return a row's metadata, with None for the keys that Chroma is to remove."""
    gone = present.metadata.keys() - row.metadata.keys() if present is not None else ()
    return {**dict.fromkeys(gone), **row.metadata}


def _lock_of(folder: Path) -> Path:
    """Return the path of the lock file that this program uses while it has a Chroma folder open.

    If this process is killed, its Chroma process may run on and keep the lock. The next run waits
    until the Chroma process has ended.
    """
    user = getattr(os, "getuid", int)()
    name = hashlib.sha256(f"{user} {folder.resolve()}".encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"memory-dedup-{name}.open"


def _named_collection(client: ChromaClient, shown: str, name: str) -> ChromaCollection:
    with chroma_faults():
        names = sorted(collection.name for collection in client.list_collections())
        if name in names:
            return client.get_collection(name, embedding_function=None)
    raise InputError(
        shown, f"has no collection {name!r}", f"there are: {', '.join(names) or 'none'}"
    )

"""Rows of somebody's Chroma changed and put back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from memory.errors import InputError
from memory.interchange.chroma import (
    Place,
    looking_into,
    named_collection,
    opened,
    read_collection,
    said,
)
from memory.interchange.foreign import ForeignRow, Reading, text_of
from memory.interchange.plan_back import Update, rewritten
from memory.interchange.theirs import Embed, Found, Rows, Stored
from memory.interchange.undo_file import Becomes, Kind, RowBefore, UndoHeader, Vectors
from memory.search import ChromaCollection, chroma_faults, own_embedding

_NEVER = 10**9
_USUAL = 1_000
"""How many writes Chroma waits by itself before it rewrites its files."""


@dataclass(frozen=True)
class TheirChroma:
    """A collection in a folder, or on a server."""

    place: Place
    name: str
    kind: ClassVar[Kind] = "chroma"

    @property
    def address(self) -> str:
        if isinstance(self.place, Path):
            return str(self.place.absolute())
        return f"http{'s' if self.place.ssl else ''}://{self.place.host}:{self.place.port}"

    def found(self) -> Found:
        return read_collection(self.place, self.name)

    def as_read(self, stored: Stored) -> ForeignRow:
        return _as_read(stored)

    @contextmanager
    def looking(self) -> Iterator[Rows]:
        with looking_into(self.place) as client:
            yield _ChromaRows(named_collection(client, self.place, self.name))

    @contextmanager
    def opened(self) -> Iterator[_ChromaRows]:
        with opened(self.place) as client:
            yield _ChromaRows(named_collection(client, self.place, self.name))

    @contextmanager
    def writing(self, header: UndoHeader) -> Iterator[Rows]:
        """A folder's collection rewrites none of its files until the block is over.

        A kill while Chroma rewrites them leaves a collection that never opens again. What is
        written meanwhile is in its SQLite file; the owner's next writes bring the others up to
        date. A server lives on when this process dies.
        """
        with self.opened() as rows:
            if rows.collection_id != header.collection_id:
                raise InputError(said(self.place), f"{self.name!r} is another collection now")
            if isinstance(self.place, Path):
                rows.wait_for(_NEVER)
        with self.opened() as rows:
            try:
                yield rows
            finally:
                if isinstance(self.place, Path):
                    rows.wait_for(header.sync_threshold or _USUAL)


@dataclass(frozen=True)
class _ChromaRows:
    collection: ChromaCollection

    @property
    def collection_id(self) -> str:
        return str(self.collection.id)

    @property
    def sync_threshold(self) -> int | None:
        """What is set for good; not what a write-back that was killed has left."""
        known = (self.collection.configuration_json.get("hnsw") or {}).get("sync_threshold")
        return None if known is None or known >= _NEVER else int(known)

    def wait_for(self, writes: int) -> None:
        with chroma_faults():
            self.collection.modify(configuration={"hnsw": {"sync_threshold": writes}})

    def step(self) -> AbstractContextManager[None]:
        return nullcontext()

    def stored(self, names: Sequence[str]) -> dict[str, Stored]:
        parts = ["documents", "metadatas", "embeddings"]
        with chroma_faults():
            page = self.collection.get(ids=list(names), include=parts)
        columns = (page["ids"], page["documents"], page["metadatas"], page["embeddings"])
        return {
            name: Stored(name, document, dict(metadata or {}), {"": np.asarray(vector, np.float32)})
            for name, document, metadata, vector in zip(*columns, strict=True)
        }

    def as_read(self, stored: Stored) -> ForeignRow:
        return _as_read(stored)

    def rewritten(
        self, update: Update, there: Mapping[str, Stored], reading: Reading, now: datetime
    ) -> Becomes:
        return rewritten(_as_read(there[update.row.id]), update, reading, now)

    def texts(self, stored: Stored, reading: Reading) -> dict[str, str]:
        return {"": text_of(self.as_read(stored), reading)}

    def own_embedder(self) -> Embed | None:
        return own_embedding(self.collection)

    def update(self, rows: Sequence[RowBefore], vectors: Mapping[str, Vectors]) -> None:
        """Rows whose text is their document, and rows whose text is elsewhere, are two calls."""
        for in_document in (True, False):
            some = [row for row in rows if row.becomes and _in_document(row) is in_document]
            if some:
                changes = [_changes(row.becomes) for row in some if row.becomes]
                texts = [row.becomes.document or "" for row in some if row.becomes]
                with chroma_faults():
                    self.collection.update(
                        ids=[row.id for row in some],
                        embeddings=np.stack([vectors[row.id][""] for row in some]),
                        documents=texts if in_document else None,
                        metadatas=changes,
                    )

    def delete(self, names: Sequence[str]) -> None:
        with chroma_faults():
            self.collection.delete(ids=list(names))

    def put_back(self, rows: Sequence[RowBefore], there: Mapping[str, Stored]) -> None:
        """Rows with a document and rows without are two calls; so are those that are gone."""
        for kind in product((True, False), repeat=2):
            some = [row for row in rows if (row.id in there, row.document is not None) == kind]
            if not some:
                continue
            changed, in_document = kind
            documents = [row.document or "" for row in some]
            with chroma_faults():
                (self.collection.update if changed else self.collection.add)(
                    ids=[row.id for row in some],
                    embeddings=np.stack([row.vectors[""] for row in some]),
                    documents=documents if in_document else None,
                    metadatas=[_metadata_before(row, there.get(row.id)) for row in some],
                )


def _as_read(stored: Stored) -> ForeignRow:
    return ForeignRow(stored.id, stored.document, stored.metadata)


def _changes(becomes: Becomes) -> dict[str, Any] | None:
    return {**becomes.metadata, **dict.fromkeys(becomes.gone)} or None


def _in_document(row: RowBefore) -> bool:
    return row.becomes is not None and row.becomes.document is not None


def _metadata_before(row: RowBefore, there: Stored | None) -> dict[str, Any] | None:
    """What was not there then goes again: None takes a key away."""
    added = {} if there is None else dict.fromkeys(there.metadata.keys() - row.metadata.keys())
    return {**row.metadata, **added} or None

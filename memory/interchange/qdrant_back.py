"""Points of somebody's local Qdrant read, changed and put back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from memory.interchange.foreign import ForeignRow, Reading, text_of
from memory.interchange.plan_back import Update, rewritten
from memory.interchange.qdrant import (
    looking_into_qdrant,
    opened_qdrant,
    point,
    point_id,
    qdrant_faults,
    vectors_of,
)
from memory.interchange.theirs import Embed, Found, Rows, Stored
from memory.interchange.undo_file import Becomes, Kind, RowBefore, UndoHeader, Vectors

_PAGE = 1_000


@dataclass(frozen=True)
class TheirQdrant:
    """A collection in a folder. It has no lasting id of its own but where it lies."""

    folder: Path
    name: str
    kind: ClassVar[Kind] = "qdrant"

    @property
    def address(self) -> str:
        return str(self.folder.absolute())

    def found(self) -> Found:
        """Every point, its payload as the metadata."""
        rows: list[ForeignRow] = []
        offset = None
        with looking_into_qdrant(self.folder, self.name) as client, qdrant_faults(self.folder):
            while True:
                page, offset = client.scroll(self.name, limit=_PAGE, offset=offset)
                rows += [ForeignRow(str(one.id), None, dict(one.payload or {})) for one in page]
                if offset is None:
                    return Found(self._collection_id, rows)

    @property
    def _collection_id(self) -> str:
        return f"qdrant:{self.folder.resolve()}:{self.name}"

    def as_read(self, stored: Stored) -> ForeignRow:
        return _as_read(stored)

    @contextmanager
    def looking(self) -> Iterator[Rows]:
        with looking_into_qdrant(self.folder, self.name) as client:
            yield _Points(self.folder, self.name, self._collection_id, client)

    @contextmanager
    def opened(self) -> Iterator[Rows]:
        with opened_qdrant(self.folder, self.name) as client:
            yield _Points(self.folder, self.name, self._collection_id, client)

    def writing(self, header: UndoHeader) -> AbstractContextManager[Rows]:  # noqa: ARG002
        """Its library locks the folder, and writes each point in a transaction of its own."""
        return self.opened()


@dataclass(frozen=True)
class _Points:
    folder: Path
    name: str
    collection_id: str
    client: Any
    sync_threshold: None = None

    def step(self) -> AbstractContextManager[None]:
        return nullcontext()

    def stored(self, names: Sequence[str]) -> dict[str, Stored]:
        with qdrant_faults(self.folder):
            found = self.client.retrieve(
                self.name, [point_id(name) for name in names], with_vectors=True
            )
        return {row.id: row for row in map(_stored, found)}

    def as_read(self, stored: Stored) -> ForeignRow:
        return _as_read(stored)

    def rewritten(
        self, update: Update, there: Mapping[str, Stored], reading: Reading, now: datetime
    ) -> Becomes:
        return rewritten(_as_read(there[update.row.id]), update, reading, now)

    def texts(self, stored: Stored, reading: Reading) -> dict[str, str]:
        """Each of its vectors is of its text."""
        return dict.fromkeys(stored.vectors, text_of(self.as_read(stored), reading))

    def own_embedder(self) -> Embed | None:
        return None

    def update(self, rows: Sequence[RowBefore], vectors: Mapping[str, Vectors]) -> None:
        self._write([point(row.id, vectors[row.id], row.after[1]) for row in rows])

    def delete(self, names: Sequence[str]) -> None:
        with qdrant_faults(self.folder):
            self.client.delete(self.name, [point_id(name) for name in names])

    def put_back(self, rows: Sequence[RowBefore], there: Mapping[str, Stored]) -> None:  # noqa: ARG002
        self._write([point(row.id, row.vectors, row.metadata) for row in rows])

    def _write(self, points: Sequence[Any]) -> None:
        if points:
            with qdrant_faults(self.folder):
                self.client.upsert(self.name, list(points))


def _as_read(stored: Stored) -> ForeignRow:
    return ForeignRow(stored.id, stored.document, stored.metadata)


def _stored(found: Any) -> Stored:
    return Stored(str(found.id), None, dict(found.payload or {}), vectors_of(found))

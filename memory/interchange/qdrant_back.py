"""Points of somebody's Qdrant read, changed and put back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from memory.interchange.foreign import ForeignRow, Reading, text_of
from memory.interchange.plan_back import Update, rewritten
from memory.interchange.qdrant import (
    Place,
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
    """A collection in a folder, or on a server. It has no lasting id but where it lies."""

    place: Place
    name: str
    kind: ClassVar[Kind] = "qdrant"

    @property
    def address(self) -> str:
        return self.place if isinstance(self.place, str) else str(self.place.absolute())

    def found(self) -> Found:
        """Every point, its payload as the metadata."""
        rows: list[ForeignRow] = []
        offset = None
        with looking_into_qdrant(self.place, self.name) as client, qdrant_faults(self.place):
            while True:
                page, offset = client.scroll(self.name, limit=_PAGE, offset=offset)
                rows += [_as_read(Stored(str(one.id), None, one.payload or {}, {})) for one in page]
                if offset is None:
                    return Found(self._collection_id, rows)

    @property
    def _collection_id(self) -> str:
        place = self.place if isinstance(self.place, str) else self.place.resolve()
        return f"qdrant:{place}:{self.name}"

    def as_read(self, stored: Stored) -> ForeignRow:
        return _as_read(stored)

    @contextmanager
    def looking(self) -> Iterator[Rows]:
        with looking_into_qdrant(self.place, self.name) as client:
            yield _Points(self.place, self.name, self._collection_id, client)

    @contextmanager
    def opened(self) -> Iterator[Rows]:
        with opened_qdrant(self.place, self.name) as client:
            yield _Points(self.place, self.name, self._collection_id, client)

    def writing(self, header: UndoHeader) -> AbstractContextManager[Rows]:  # noqa: ARG002
        """Each point is written whole; its library locks a folder, and waits for a server."""
        return self.opened()


@dataclass(frozen=True)
class _Points:
    place: Place
    name: str
    collection_id: str
    client: Any
    sync_threshold: None = None

    def step(self) -> AbstractContextManager[None]:
        return nullcontext()

    def stored(self, names: Sequence[str]) -> dict[str, Stored]:
        with qdrant_faults(self.place):
            found = self.client.retrieve(
                self.name, [point_id(name) for name in names], with_vectors=True
            )
        return {row.id: row for row in map(_stored, found)}

    def as_read(self, stored: Stored) -> ForeignRow:
        return _as_read(stored)

    def rewritten(
        self, update: Update, there: Mapping[str, Stored], reading: Reading, now: datetime
    ) -> Becomes:
        """What LangChain keeps in `metadata` changes there."""
        stored = there[update.row.id]
        becomes = rewritten(_as_read(stored), update, reading, now)
        nested = _nested(stored.metadata)
        inner = {key for key in nested if key not in stored.metadata}
        within = {key: value for key, value in becomes.metadata.items() if key in inner}
        outside = {key: value for key, value in becomes.metadata.items() if key not in inner}
        if within or inner & set(becomes.gone):
            changed = nested | within
            left = {key: value for key, value in changed.items() if key not in becomes.gone}
            outside["metadata"] = left
        gone = tuple(key for key in becomes.gone if key not in inner)
        return Becomes(document=None, metadata=outside, gone=gone)

    def texts(self, stored: Stored, reading: Reading) -> dict[str, str]:
        """Each of its vectors is of its text."""
        return dict.fromkeys(stored.vectors, text_of(self.as_read(stored), reading))

    def own_embedder(self) -> Embed | None:
        return None

    def update(self, rows: Sequence[RowBefore], vectors: Mapping[str, Vectors]) -> None:
        self._write([point(row.id, vectors[row.id], row.after[1]) for row in rows])

    def delete(self, names: Sequence[str]) -> None:
        with qdrant_faults(self.place):
            self.client.delete(self.name, [point_id(name) for name in names])

    def put_back(self, rows: Sequence[RowBefore], there: Mapping[str, Stored]) -> None:  # noqa: ARG002
        self._write([point(row.id, row.vectors, row.metadata) for row in rows])

    def _write(self, points: Sequence[Any]) -> None:
        if points:
            with qdrant_faults(self.place):
                self.client.upsert(self.name, list(points))


def _as_read(stored: Stored) -> ForeignRow:
    """LangChain keeps a text in `page_content`, and all else in `metadata`."""
    nested = _nested(stored.metadata)
    others = {
        key: value for key, value in stored.metadata.items() if not nested or key != "metadata"
    }
    return ForeignRow(stored.id, stored.document, nested | others)


def _nested(payload: Mapping[str, Any]) -> dict[str, Any]:
    nested = payload.get("metadata")
    return nested if isinstance(nested, dict) else {}


def _stored(found: Any) -> Stored:
    return Stored(str(found.id), None, dict(found.payload or {}), vectors_of(found))

"""The interface to a collection in another program's store.

Each kind of store implements `ExternalStore` and `OpenCollection` in a file of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import md5
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import numpy as np
from pydantic import BeforeValidator, PlainSerializer

from memory.interchange.databases import (
    copied,
)
from memory.interchange.foreign import (
    MILLISECONDS_FROM,
    SAID,
    UNKNOWN,
    UPDATED,
    ForeignRow,
    PlainRow,
    Reading,
    said_of,
    text_key_of,
    text_of,
)
from memory.text import periods

Embed = Callable[[list[str]], Any]  # embeds n texts and returns an array of shape (n, dim)
T = TypeVar("T")
Kind = Literal["chroma", "qdrant", "langgraph", "pgvector"]
# The vectors of a row by name; the name is "" in a store whose vectors have no names. Dense vectors
# are float32 arrays (dim,). Sparse and multiple vectors are JSON values.
Vectors = dict[str, Any]


def _as_shortest_decimals(vectors: Vectors) -> dict[str, Any]:
    return {
        name: [float(str(number)) for number in np.asarray(vector, dtype=np.float32)]
        if isinstance(vector, np.ndarray)
        else vector
        for name, vector in vectors.items()
    }


def _as_vectors(given: dict[str, Any]) -> Vectors:
    return {
        name: np.asarray(vector, dtype=np.float32)
        if isinstance(vector, list) and not any(isinstance(part, list) for part in vector)
        else vector
        for name, vector in given.items()
    }


@dataclass(frozen=True, eq=False)
class Stored(PlainRow):
    """A row of another program's store, with everything that is needed to restore it.

    Each kind of store decides what `document` and `metadata` hold. `vectors` maps the names of the
    row's vectors to the vectors. `beside` has values that the store may change by itself, such as
    the row's expiry. These values are written only if a deleted row or vector is added again.
    """

    vectors: Annotated[
        Vectors, BeforeValidator(_as_vectors), PlainSerializer(_as_shortest_decimals)
    ] = field(default_factory=dict)
    beside: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CollectionRows:
    """All rows of another program's collection.

    Later runs recognise the collection by `collection_id`.

    >>> found = notes.opened()[0].found()
    >>> found.collection_id[:10], len(found.rows)
    ('langgraph:', 2)
    """

    collection_id: str
    rows: list[ForeignRow]


@dataclass(frozen=True)
class ExternalStore(ABC):
    """A collection in another program's store, not opened yet.

    `place` is the folder, file, server or URL of the store. `name` is the collection's name in it.

    >>> theirs, _ = notes.opened()
    >>> theirs.kind, [row.id for row in theirs.found().rows]
    ('langgraph', ['memories.noa/1', 'memories.noa/2'])
    """

    place: Any
    name: str
    kind: ClassVar[Kind]

    @property
    def address(self) -> str:
        return str(self.place.absolute() if isinstance(self.place, Path) else self.place)

    @property
    def files(self) -> list[Path]:
        """The files and folders to copy before the store is read; none for a server."""
        return []

    @abstractmethod
    def opened(self, copy: Path | None = None) -> AbstractContextManager[OpenCollection]:
        """Open the collection. If `copy` is given, open the copy of `files` in that folder instead.

        Raises: InputError if the collection cannot be opened; the error names the original place.
        """

    @contextmanager
    def looking(self) -> Iterator[OpenCollection]:
        """Open the collection for reading, without changing the store.

        Opening may change a store's files, so a copy of them is opened.
        """
        files = self.files
        with (
            copied(self.place, files) if files else nullcontext() as copy,
            self.opened(copy) as rows,
        ):
            yield rows

    def writing(
        self,
        collection_id: str,  # noqa: ARG002 - only Chroma uses both
        sync_threshold: int | None,  # noqa: ARG002
    ) -> AbstractContextManager[OpenCollection]:
        """Open the collection for writing, so that a kill of this process does not damage it.

        Only Chroma uses the parameters. `collection_id`: the id that the collection must have.
        `sync_threshold`: the value that Chroma's setting of this name gets at the end; None stands
        for Chroma's default.
        """
        return self.opened()

    def found(self) -> CollectionRows:
        """Read all rows of the collection, without changing the store.

        Raises: InputError if the rows cannot be read.
        """
        with self.looking() as rows:
            return CollectionRows(rows.collection_id, list(rows.all()))

    def as_read(self, stored: Stored) -> ForeignRow:
        return ForeignRow(stored.id, stored.document, stored.metadata)


@dataclass(frozen=True)
class OpenCollection(ABC):
    """An open collection of another program's store.

    If the store fails, the methods raise InputError. Chroma's methods raise IndexFault instead; if
    it leaves the `with` block of `ExternalStore.opened`, it becomes an InputError.
    """

    external: ExternalStore

    @property
    @abstractmethod
    def collection_id(self) -> str:
        """The id by which later runs recognise this collection."""

    @property
    def sync_threshold(self) -> int | None:
        """The number of writes after which Chroma rewrites its index files; None if unknown."""
        return None

    @abstractmethod
    def all(self) -> Iterable[ForeignRow]:
        """Return every row without its vectors, in the form that an import reads."""

    def check_rights(self) -> None:  # noqa: B027 - most stores tell it only at a write
        """Check that this program may write to the collection.

        Some stores show this only when they are written to. For these, nothing is checked.

        Raises: InputError if a right is missing.
        """

    def step(self) -> AbstractContextManager[None]:
        """Return a context manager that makes its block one transaction, if the store can."""
        return nullcontext()

    @abstractmethod
    def stored(self, ids: Sequence[str]) -> dict[str, Stored]:
        """Return the rows with these ids, by id; unknown ids are left out."""

    def changed(
        self,
        stored: Stored,
        document: str | None,
        changes: Mapping[str, Any],
        now: datetime,  # noqa: ARG002 - only LangGraph keeps a time outside of the metadata
    ) -> Stored:
        """Return a copy of the row `stored` with a new text. The copy still has the old vectors.

        `document` is the document of the copy; None if the row has no document. `changes` maps
        metadata keys to their new values. `now` is the time of the change.
        """
        return replace(stored, document=document, metadata={**stored.metadata, **changes})

    def texts(self, stored: Stored, reading: Reading) -> dict[str, str]:
        """Return the texts that the row's vectors were made from, by the vector's name.

        A vector whose text is not known is left out. `reading` says how to find the row's text.
        """
        return dict.fromkeys(stored.vectors, text_of(self.external.as_read(stored), reading))

    def own_embedder(self) -> Embed | None:
        """Return the collection's configured embedding function; None if it is not known."""
        return None

    @abstractmethod
    def put(self, rows: Sequence[Stored], present: Mapping[str, Stored]) -> None:
        """Write `rows`: update the rows that the store has, and add all others.

        `present` maps ids to the rows that the store holds now. `Stored.beside`, the values that
        the store may change by itself, is written only for rows and vectors that are added.
        """

    @abstractmethod
    def delete(self, ids: Sequence[str]) -> None:
        """Delete the rows with these ids."""


# --- rows -----------------------------------------------------------------------------------------


def batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + 100] for start in range(0, len(items), 100))


def all_stored(rows: OpenCollection, ids: Sequence[str]) -> dict[str, Stored]:
    return {name: row for batch in batches(ids) for name, row in rows.stored(batch).items()}


def changes_for(
    row: ForeignRow, text: str, said_at: datetime | None, reading: Reading, now: datetime
) -> tuple[str | None, dict[str, Any]]:
    """Return the document and the metadata values to write if a row's text becomes `text`.

    `reading` says how to find the row's text. If this text is a metadata value, `text` becomes this
    value, and the document stays as it is (it may be None).

    If the row's metadata has the time of the last update, this time becomes `now`. If it has values
    that mem0 derives from the text, such as a hash, they are derived again. If `text` has relative
    words and they do not count from the row's own time, the key `said` gets `said_at`. Metadata
    values that stay the same are not returned.

    Raises: ValueError if the row has no text.
    """
    changes = touched(row.metadata, now)
    said = UNKNOWN if said_at is None else said_at.isoformat()
    relative = any(period.relative for period in periods(text, said_at))
    if (relative or SAID in row.metadata) and said != (said_of(row, reading) or UNKNOWN):
        changes[SAID] = said
    key = text_key_of(row, reading)
    if key is None:
        return text, changes
    changes[key] = text
    if key == "data":  # mem0 derives these from the text
        derived = {
            "hash": md5(text.encode(), usedforsecurity=False).hexdigest(),
            "text_lemmatized": text,
        }
        changes |= {name: value for name, value in derived.items() if name in row.metadata}
    return row.document, changes


def touched(fields: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return the times of the last update that `fields` has, each as `now` in the same form."""
    return {
        name: _same_kind(fields[name], now)
        for name in UPDATED
        if fields.get(name) not in (None, "")
    }


def _same_kind(value: object, now: datetime) -> object:
    if isinstance(value, str):
        return now.isoformat()
    seconds = now.timestamp()
    if isinstance(value, int):
        return int(seconds * 1000) if value >= MILLISECONDS_FROM else int(seconds)
    return seconds

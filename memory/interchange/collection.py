"""The interface to a collection in another program's store: open it, read and write its rows.

Each kind of store implements `ExternalStore` and `OpenCollection` in a file of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import md5
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from memory.interchange.databases import (
    Postgres,
    Sqlite,
    connected,
    copied,
    sqlite_file,
    without_password,
)
from memory.interchange.foreign import (
    MILLISECONDS_FROM,
    UPDATED,
    ForeignRow,
    Reading,
    text_key_of,
    text_of,
)
from memory.interchange.undo_file import Kind, Stored, UndoHeader

Embed = Callable[[list[str]], Any]
"""A function that embeds n texts and returns their vectors as an array of shape (n, dim)."""
T = TypeVar("T")

_BATCH = 100


@dataclass(frozen=True)
class Found:
    """All rows of another program's collection, and the id by which later runs recognise it."""

    collection_id: str
    rows: list[ForeignRow]


@dataclass(frozen=True)
class ExternalStore(ABC):
    """A collection in another program's store, not opened yet.

    `place` is the folder, file, server or URL of the store; `name` is the collection's name in it.
    """

    place: Any
    name: str
    kind: ClassVar[Kind]

    @property
    def address(self) -> str:
        """`place` as text for messages and undo files: an absolute path, or a URL.

        The password is left out of a PostgreSQL URL.
        """
        return str(self.place.absolute() if isinstance(self.place, Path) else self.place)

    @property
    def files(self) -> list[Path]:
        """The files and folders to copy before the store is read; empty for a server.

        Opening a store may change its files. So to read a store, only a copy of them is opened.
        """
        return []

    @abstractmethod
    def opened(self, copy: Path | None = None) -> AbstractContextManager[OpenCollection]:
        """Open the collection itself or, if `copy` is given, the copy of `files` in this folder.

        Raises: InputError if the collection cannot be opened; the error names the original place.
        """

    @contextmanager
    def looking(self) -> Iterator[OpenCollection]:
        """Open the collection for reading only, without changing the store.

        If the store has `files`, they are copied, and the copy is opened. A collection on a server
        is opened itself.
        """
        files = self.files
        if not files:
            with self.opened() as rows:
                yield rows
            return
        with copied(self.place, files) as copy, self.opened(copy) as rows:
            yield rows

    def writing(self, header: UndoHeader) -> AbstractContextManager[OpenCollection]:  # noqa: ARG002
        """Open the collection for writing; it stays usable even if this process is killed.

        `header` is the first line of the undo file, which names the collection and its settings.
        """
        return self.opened()

    def found(self) -> Found:
        """Read all rows of the collection, without changing the store.

        Raises: InputError if the rows cannot be read.
        """
        with self.looking() as rows:
            return Found(rows.collection_id, list(rows.all()))

    def as_read(self, stored: Stored) -> ForeignRow:
        """Return a stored row in the form in which an import reads it, without vectors."""
        return ForeignRow(stored.id, stored.document, stored.metadata)


@dataclass(frozen=True)
class OpenCollection(ABC):
    """An open collection of another program's store.

    `external` says which store and collection it is. Each method may raise InputError if the store
    cannot be read or written; Chroma's methods may also raise IndexFault.
    """

    external: ExternalStore

    @property
    @abstractmethod
    def collection_id(self) -> str:
        """The id by which later runs recognise this collection."""

    @property
    def sync_threshold(self) -> int | None:
        """The number of writes after which Chroma rewrites its index files.

        None if the number is unknown or the store is not Chroma's.
        """
        return None

    @abstractmethod
    def all(self) -> Iterable[ForeignRow]:
        """Return every row, in the form in which an import reads it, without vectors."""

    def check_rights(self) -> None:  # noqa: B027 - most stores tell it only at a write
        """Check that the collection may be written, if the store tells this before a write.

        Raises: InputError if a right is missing.
        """

    def step(self) -> AbstractContextManager[None]:
        """Return a context manager that makes all reads and writes inside it one transaction.

        It does nothing if the store has no transactions.
        """
        return nullcontext()

    @abstractmethod
    def stored(self, ids: Sequence[str]) -> dict[str, Stored]:
        """Return the rows with these ids, by id; ids that do not exist are left out."""

    def changed(
        self,
        stored: Stored,
        document: str | None,
        changes: Mapping[str, Any],
        now: datetime,  # noqa: ARG002 - only LangGraph keeps a time outside of the metadata
    ) -> Stored:
        """Return a copy of the row `stored` with another text and metadata, but the same vectors.

        `document` and `changes` are in the form in which an import reads the row. `document`: the
        row's new document; None if the row has no document. `changes`: new values of metadata keys
        that the row has already. `now`: the time of the last update, for a store that keeps this
        time outside of the metadata.
        """
        return replace(stored, document=document, metadata={**stored.metadata, **changes})

    def texts(self, stored: Stored, reading: Reading) -> dict[str, str]:
        """Return the text from which each vector of a row was made, by the vector's name.

        `reading` says which metadata key holds the row's text. Vectors whose text is not known are
        left out.
        """
        return dict.fromkeys(stored.vectors, text_of(self.external.as_read(stored), reading))

    def own_embedder(self) -> Embed | None:
        """Return the collection's configured embedding function; None if it is not known."""
        return None

    @abstractmethod
    def put(self, rows: Sequence[Stored], present: Mapping[str, Stored]) -> None:
        """Write rows to the collection: update the rows that exist, and add all others.

        `present` has the rows that exist, by id, as the store holds them now. The values in
        `Stored.beside` are written only for rows that are added.
        """

    @abstractmethod
    def delete(self, ids: Sequence[str]) -> None:
        """Delete the rows with these ids."""


# --- collections in the tables of a database ------------------------------------------------------


@dataclass(frozen=True)
class DatabaseStore(ExternalStore):
    """A collection in tables of a database; `place` is a SQLite file or a PostgreSQL URL."""

    place: Path | str

    @property
    def address(self) -> str:
        return without_password(self.place) if isinstance(self.place, str) else super().address

    @property
    def files(self) -> list[Path]:
        return [self.place] if isinstance(self.place, Path) and self.place.is_file() else []

    @abstractmethod
    def rows_in(self, db: Sqlite | Postgres) -> OpenTables:
        """Return this store's collection, opened in the database `db`.

        Raises: InputError if the database does not have the collection.
        """

    @contextmanager
    def opened(self, copy: Path | None = None) -> Iterator[OpenTables]:
        with self._database(copy) as db, db.transaction(writing=False):
            yield self.rows_in(db)

    @contextmanager
    def writing(self, header: UndoHeader) -> Iterator[OpenTables]:  # noqa: ARG002
        """Open the tables for writing; each `step()` is one transaction.

        In PostgreSQL, `stored()` locks the rows that it returns until the transaction ends.
        """
        with self._database() as db:
            yield replace(self.rows_in(db), lock=db.lock)

    def _database(self, copy: Path | None = None) -> AbstractContextManager[Sqlite | Postgres]:
        if isinstance(self.place, Path):
            return sqlite_file(self.place, copy)
        return connected(self.place)


@dataclass(frozen=True)
class OpenTables(OpenCollection):
    """A collection in tables of an open database.

    `lock` is SQL that is appended to a SELECT so that it locks the rows; `""` for no lock.
    """

    db: Sqlite | Postgres
    lock: str = ""

    @property
    @abstractmethod
    def tables(self) -> list[str]:
        """The names of the tables that hold the collection, quoted for SQL where needed."""

    def check_rights(self) -> None:
        self.db.check_rights(self.tables)

    def step(self) -> AbstractContextManager[None]:
        return self.db.transaction(writing=True)


# --- rows -----------------------------------------------------------------------------------------


def batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the items in order, in batches of at most 100, which any store takes in one call."""
    return (items[start : start + _BATCH] for start in range(0, len(items), _BATCH))


def all_stored(rows: OpenCollection, ids: Sequence[str]) -> dict[str, Stored]:
    """Return the rows with these ids, by id, read in batches; unknown ids are left out."""
    return {name: row for batch in batches(ids) for name, row in rows.stored(batch).items()}


def changes_for(
    row: ForeignRow, text: str, reading: Reading, now: datetime
) -> tuple[str | None, dict[str, Any]]:
    """Return the document and the metadata changes by which `row` gets the text `text`.

    The document is None if the row has no document. The changes are new values of metadata keys
    that the row has: the text and what mem0 derived from the text, if they are in the metadata, and
    the time of the last update, which becomes `now`. `reading` says which key holds the text.

    Raises: ValueError if the row has no text.
    """
    changes = {
        name: _same_kind(row.metadata[name], now)
        for name in UPDATED
        if row.metadata.get(name) not in (None, "")
    }
    key = text_key_of(row, reading)
    if key is None:
        return text, changes
    changes[key] = text
    if key == "data":  # mem0 derives these from the text
        digest = md5(text.encode(), usedforsecurity=False).hexdigest()
        derived = {"hash": digest, "text_lemmatized": text}
        changes |= {name: value for name, value in derived.items() if name in row.metadata}
    return row.document, changes


def _same_kind(value: object, now: datetime) -> object:
    """Return `now` in the same form as the time `value`.

    For text, the result is ISO 8601 text. For an integer, it is an integer in the same unit,
    seconds or milliseconds since 1970. For a float, it is seconds since 1970.
    """
    if isinstance(value, str):
        return now.isoformat()
    seconds = now.timestamp()
    if isinstance(value, int):
        return int(seconds * 1000) if value >= MILLISECONDS_FROM else int(seconds)
    return seconds

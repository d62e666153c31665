"""The interface to a collection in another program's store: open it, read and write its rows.

Each kind of store implements `ExternalStore` and `OpenCollection` in a file of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import md5
from typing import Any, ClassVar, TypeVar

from memory.interchange.foreign import (
    EXPIRY,
    MILLISECONDS_FROM,
    UPDATED,
    ForeignRow,
    Reading,
    text_key_of,
    text_of,
    with_changes,
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

    `place` is the folder, file, server or URL of the store; `name` is the collection's name in it;
    `kind` says which program's store it is.
    """

    place: Any
    name: str
    kind: ClassVar[Kind]

    @property
    @abstractmethod
    def address(self) -> str:
        """The place as text for messages and undo files: an absolute path, or a URL.

        A password in a PostgreSQL URL is removed.
        """

    @abstractmethod
    def looking(self) -> AbstractContextManager[OpenCollection]:
        """Open the collection for reading only.

        A store that could be changed by opening it is copied, and the copy is opened.
        """

    @abstractmethod
    def opened(self) -> AbstractContextManager[OpenCollection]:
        """Open the collection itself, not a copy.

        A write-back does this first, to read the rows that it is going to change.

        Raises: InputError if the collection cannot be opened, or is known to be read-only.
        """

    def writing(self, header: UndoHeader) -> AbstractContextManager[OpenCollection]:  # noqa: ARG002
        """Open the collection for writing, in a way that keeps it usable if this process is killed.

        `header` is the first line of the undo file, which names the collection and its settings.
        """
        return self.opened()

    def found(self) -> Found:
        """Read all rows of the collection, without changing the store.

        Raises: InputError if they cannot be read.
        """
        with self.looking() as rows:
            return Found(rows.collection_id, list(rows.all()))

    def as_read(self, stored: Stored) -> ForeignRow:
        """Return a row in the form in which an import reads it, without vectors.

        `stored` is the row as its store keeps it.
        """
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
        """The number of writes after which the store rewrites its index files.

        None if it is unknown, or if the store has no such setting. Only Chroma has one.
        """
        return None

    @abstractmethod
    def all(self) -> Iterable[ForeignRow]:
        """Return every row, in the form in which an import reads it, without vectors."""

    def step(self) -> AbstractContextManager[None]:
        """Return a context manager that makes all reads and writes inside it one transaction.

        It does nothing if the store has no transactions.
        """
        return nullcontext()

    @abstractmethod
    def stored(self, names: Sequence[str]) -> dict[str, Stored]:
        """Return the rows with the ids `names`, by id; ids that do not exist are left out."""

    def with_read(self, stored: Stored, row: ForeignRow) -> Stored:
        """Return a copy of `stored`, changed so that an import reads it as `row`.

        The vectors stay the same.
        """
        return stored.saying(row.document, row.metadata)

    def rewritten(
        self,
        stored: Stored,
        text: str | None,
        lender: Stored | None,
        reading: Reading,
        now: datetime,
    ) -> Stored:
        """Return a copy of `stored` with another text, another time of expiry, or both.

        `text`: the new text; None keeps the old text. `lender`: the row from which the time of
        expiry is copied; None keeps the old time. `reading`: says which metadata key holds the
        text. `now`: becomes the time of the last update if the text is new. The copy keeps the
        vectors of the old text.
        """
        lends = None if lender is None else self.external.as_read(lender)
        row = rewritten(self.external.as_read(stored), text, lends, reading, now)
        return self.with_read(stored, row)

    def texts(self, stored: Stored, reading: Reading) -> dict[str, str]:
        """Return the text from which each vector of a row was made, by the vector's name.

        `reading` says which metadata key holds the row's text. The result leaves out a vector if
        the text from which it was made is not known.
        """
        return dict.fromkeys(stored.vectors, text_of(self.external.as_read(stored), reading))

    def own_embedder(self) -> Embed | None:
        """Return the embedding function that the collection is configured with, None if unknown."""
        return None

    @abstractmethod
    def put(self, rows: Sequence[Stored], there: Mapping[str, Stored]) -> None:
        """Write rows to the collection: update the rows that exist already, and add the new ones.

        `there` has the existing rows as the store holds them now, by id.
        """

    @abstractmethod
    def delete(self, names: Sequence[str]) -> None:
        """Delete the rows with the ids `names`."""


def parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the items in order, in batches of at most 100, which any store takes in one call."""
    return (items[start : start + _BATCH] for start in range(0, len(items), _BATCH))


def all_stored(rows: OpenCollection, names: Sequence[str]) -> dict[str, Stored]:
    """Return the rows of an open collection with the ids `names`, by id.

    Ids that do not exist are left out. There may be any number of ids: they are read in batches.
    """
    return {name: one for batch in parts(names) for name, one in rows.stored(batch).items()}


# --- what an update changes -----------------------------------------------------------------------


def rewritten(
    row: ForeignRow, text: str | None, lender: ForeignRow | None, reading: Reading, now: datetime
) -> ForeignRow:
    """Return a copy of `row` with another text, another time of expiry, or both.

    `text`: the new text; None keeps the old text. `lender`: the row from which the time of expiry
    is copied; None keeps the old time. `reading`: says which metadata key holds the text. If the
    text is new, metadata keys for the time of the last update are set to `now`; a key that the row
    does not have is not added.
    """
    changes: dict[str, Any] = {}
    if lender is not None:
        changes = {name: lender.metadata.get(name) for name in EXPIRY}
    if text is None:
        return replace(row, metadata=with_changes(row.metadata, changes))
    key = text_key_of(row, reading)
    if key is None:
        row = replace(row, document=text)
    else:
        changes[key] = text
    made = {"hash": md5(text.encode(), usedforsecurity=False).hexdigest(), "text_lemmatized": text}
    if key == "data":  # mem0 derives these from the text
        changes |= {name: value for name, value in made.items() if name in row.metadata}
    for name in UPDATED:
        if row.metadata.get(name) not in (None, ""):
            changes[name] = _same_kind(row.metadata[name], now)
    return replace(row, metadata=with_changes(row.metadata, changes))


def _same_kind(value: object, now: datetime) -> object:
    """Return `now` in the form of `value`: ISO 8601 text, or seconds or milliseconds since 1970."""
    if isinstance(value, str):
        return now.isoformat()
    seconds = now.timestamp()
    if isinstance(value, int):
        return int(seconds * 1000) if value >= MILLISECONDS_FROM else int(seconds)
    return seconds

"""A collection in somebody else's store: opened, read, changed and put back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar, TypeVar

from memory.interchange.foreign import ForeignRow, Reading, text_of
from memory.interchange.plan_back import Update, rewritten
from memory.interchange.undo_file import Becomes, Kind, RowBefore, UndoHeader, Vectors

Embed = Callable[[list[str]], Any]
"""Return the vectors of texts, `(n, dim)`."""
T = TypeVar("T")

_BATCH = 100


@dataclass(frozen=True)
class Found:
    """All rows of a collection, and its lasting name."""

    collection_id: str
    rows: list[ForeignRow]


@dataclass(frozen=True)
class Stored:
    """A row as it stands in the collection."""

    id: str
    document: str | None
    metadata: dict[str, Any]
    vectors: Vectors
    beside: dict[str, Any] = field(default_factory=dict)
    """What the store keeps with the row and may change by itself, such as its expiry."""

    def changed(self, becomes: Becomes) -> Stored:
        document, metadata = becomes.applied_to(self.document, self.metadata)
        return replace(self, document=document, metadata=metadata)

    def says(self, document: str | None, metadata: Mapping[str, Any]) -> bool:
        return self.document == document and self.metadata == metadata

    def lives_as(self, becomes: Becomes) -> bool:
        """Whether the row has the expiry that an update gave it."""
        now = self.beside.get("item", {})
        return bool(becomes.beside) and now | becomes.beside == now


@dataclass(frozen=True)
class ExternalStore(ABC):
    """Where a collection is: its store's place, and its name there."""

    place: Any
    name: str
    kind: ClassVar[Kind]

    @property
    @abstractmethod
    def address(self) -> str:
        """The place as messages and undo files show it: absolute, without a password."""

    @abstractmethod
    def looking(self) -> AbstractContextManager[OpenCollection]:
        """Open it to read only; a copy, where a store cannot be read without being changed."""

    @abstractmethod
    def opened(self) -> AbstractContextManager[OpenCollection]:
        """Open it to read before writing.

        Raises: InputError where it may not be written.
        """

    def writing(self, header: UndoHeader) -> AbstractContextManager[OpenCollection]:  # noqa: ARG002
        """Open it so that a kill at any moment leaves it whole."""
        return self.opened()

    def found(self) -> Found:
        """Read all rows, and change nothing.

        Raises: InputError.
        """
        with self.looking() as rows:
            return Found(rows.collection_id, list(rows.all()))

    def as_read(self, stored: Stored) -> ForeignRow:
        """Return the row as an import reads it."""
        return ForeignRow(stored.id, stored.document, stored.metadata)


@dataclass(frozen=True)
class OpenCollection(ABC):
    """A collection that is open. Each method may raise InputError or IndexFault."""

    external: ExternalStore

    @property
    @abstractmethod
    def collection_id(self) -> str: ...

    @property
    def sync_threshold(self) -> int | None:
        """The number of writes after which the store rewrites its files; None if it never does."""
        return None

    @abstractmethod
    def all(self) -> Iterable[ForeignRow]:
        """Yield every row as an import reads it."""

    def step(self) -> AbstractContextManager[None]:
        """Make what is read and written inside one transaction, where the store has them."""
        return nullcontext()

    @abstractmethod
    def stored(self, names: Sequence[str]) -> dict[str, Stored]:
        """Return those of these rows that exist, by id."""

    def as_read(self, stored: Stored) -> ForeignRow:
        """Return the row as an import reads it."""
        return self.external.as_read(stored)

    def rewritten(
        self, update: Update, there: Mapping[str, Stored], reading: Reading, now: datetime
    ) -> Becomes:
        """Return what an update changes; `there` holds the rows that it names."""
        return rewritten(self.as_read(there[update.row.id]), update, reading, now)

    def texts(self, stored: Stored, reading: Reading) -> dict[str, str]:
        """Return the text that each vector of a row was made from, as far as it is known."""
        return dict.fromkeys(stored.vectors, text_of(self.as_read(stored), reading))

    def own_embedder(self) -> Embed | None:
        """Return what makes the collection's vectors, where the collection names it."""
        return None

    @abstractmethod
    def update(self, rows: Sequence[RowBefore], vectors: Mapping[str, Vectors]) -> None:
        """Carry out each row's `becomes`, with these vectors by row id."""

    @abstractmethod
    def delete(self, names: Sequence[str]) -> None: ...

    @abstractmethod
    def put_back(self, rows: Sequence[RowBefore], there: Mapping[str, Stored]) -> None:
        """Restore each row as it was; `there` holds those that still exist."""


def parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the items in batches of the size that a store is asked about at once."""
    return (items[start : start + _BATCH] for start in range(0, len(items), _BATCH))


def all_stored(rows: OpenCollection, names: Sequence[str]) -> dict[str, Stored]:
    """Return those of any number of rows that exist, by id."""
    return {name: one for some in parts(names) for name, one in rows.stored(some).items()}

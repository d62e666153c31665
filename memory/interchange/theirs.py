"""What a write-back asks of a store that is somebody else's: rows found, changed, put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol, TypeVar

from memory.interchange.foreign import ForeignRow, Reading
from memory.interchange.plan_back import Update
from memory.interchange.undo_file import Becomes, Kind, RowBefore, UndoHeader, Vectors

Embed = Callable[[list[str]], Any]
T = TypeVar("T")

_AT_ONCE = 100


@dataclass(frozen=True)
class Found:
    """What a collection holds, and its lasting name."""

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

    def changed(self, becomes: Becomes) -> Stored:
        document = self.document if becomes.document is None else becomes.document
        changed = self.metadata | becomes.metadata
        left = {name: value for name, value in changed.items() if name not in becomes.gone}
        return replace(self, document=document, metadata=left)

    def says(self, document: str | None, metadata: Mapping[str, Any]) -> bool:
        return self.document == document and self.metadata == metadata

    def lives_as(self, becomes: Becomes) -> bool:
        """Whether it has the expiry that an update gave it."""
        now = self.beside.get("item", {})
        return bool(becomes.beside) and now | becomes.beside == now


class Rows(Protocol):
    """A collection that is open.

    Raises: InputError or IndexFault, from each.
    """

    @property
    def collection_id(self) -> str: ...

    @property
    def sync_threshold(self) -> int | None:
        """After how many writes its files are rewritten; None where it does no such thing."""

    def step(self) -> AbstractContextManager[None]:
        """What is looked at and written inside is one, where the store can do so."""

    def stored(self, names: Sequence[str]) -> dict[str, Stored]:
        """Those of these rows that are there."""

    def as_read(self, stored: Stored) -> ForeignRow:
        """As an import reads it."""

    def rewritten(
        self, update: Update, there: Mapping[str, Stored], reading: Reading, now: datetime
    ) -> Becomes:
        """What an update changes, where these rows are there."""

    def texts(self, stored: Stored, reading: Reading) -> dict[str, str]:
        """Of a row that says this: the text that each of its vectors is of, as far as known."""

    def own_embedder(self) -> Embed | None:
        """Who makes the collection's vectors, where it names somebody."""

    def update(self, rows: Sequence[RowBefore], vectors: Mapping[str, Vectors]) -> None:
        """Each becomes what it is to become, with these vectors."""

    def delete(self, names: Sequence[str]) -> None: ...

    def put_back(self, rows: Sequence[RowBefore], there: Mapping[str, Stored]) -> None:
        """Each as it was, whether it is there or gone."""


class Theirs(Protocol):
    """Where a collection is."""

    @property
    def kind(self) -> Kind: ...

    @property
    def address(self) -> str: ...

    @property
    def name(self) -> str: ...

    def found(self) -> Found:
        """All rows; nothing of theirs is changed."""

    def as_read(self, stored: Stored) -> ForeignRow:
        """As an import reads it."""

    def looking(self) -> AbstractContextManager[Rows]:
        """To read only: a copy, where a store cannot be read without being changed."""

    def opened(self) -> AbstractContextManager[Rows]: ...

    def writing(self, header: UndoHeader) -> AbstractContextManager[Rows]:
        """Opened so that a kill at any moment leaves it whole."""


def parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """As many at a time as a store is asked about, or told, in one go."""
    return (items[start : start + _AT_ONCE] for start in range(0, len(items), _AT_ONCE))


def all_stored(rows: Rows, names: Sequence[str]) -> dict[str, Stored]:
    """Those of any number of rows that are there.

    Raises: InputError or IndexFault.
    """
    return {name: one for some in parts(names) for name, one in rows.stored(some).items()}

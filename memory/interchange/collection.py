"""A collection in somebody else's store: its rows, how it is opened, read and written."""

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
"""Return the vectors of texts, `(n, dim)`."""
T = TypeVar("T")

_BATCH = 100


@dataclass(frozen=True)
class Found:
    """All rows of a collection, and its lasting name."""

    collection_id: str
    rows: list[ForeignRow]


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

    def with_read(self, stored: Stored, row: ForeignRow) -> Stored:
        """Change a stored row so that an import reads it as `row`; its vectors stay."""
        return stored.saying(row.document, row.metadata)

    def rewritten(
        self,
        stored: Stored,
        text: str | None,
        lender: Stored | None,
        reading: Reading,
        now: datetime,
    ) -> Stored:
        """Return a row with another text, a lender's expiry, or both; its vectors stay."""
        lends = None if lender is None else self.external.as_read(lender)
        row = rewritten(self.external.as_read(stored), text, lends, reading, now)
        return self.with_read(stored, row)

    def texts(self, stored: Stored, reading: Reading) -> dict[str, str]:
        """Return the text that each vector of a row was made from, as far as it is known."""
        return dict.fromkeys(stored.vectors, text_of(self.external.as_read(stored), reading))

    def own_embedder(self) -> Embed | None:
        """Return what makes the collection's vectors, where the collection names it."""
        return None

    @abstractmethod
    def put(self, rows: Sequence[Stored], there: Mapping[str, Stored]) -> None:
        """Make each row what it is here; `there` holds those that exist, the others are added."""

    @abstractmethod
    def delete(self, names: Sequence[str]) -> None: ...


def parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the items in batches of the size that a store is asked about at once."""
    return (items[start : start + _BATCH] for start in range(0, len(items), _BATCH))


def all_stored(rows: OpenCollection, names: Sequence[str]) -> dict[str, Stored]:
    """Return those of any number of rows that exist, by id."""
    return {name: one for batch in parts(names) for name, one in rows.stored(batch).items()}


# --- what an update changes -----------------------------------------------------------------------


def rewritten(
    row: ForeignRow, text: str | None, lender: ForeignRow | None, reading: Reading, now: datetime
) -> ForeignRow:
    """Return a row with another text, the expiry of another row, or both; None changes nothing."""
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
    """Return the time in the form of `value`: ISO 8601, seconds or milliseconds."""
    if isinstance(value, str):
        return now.isoformat()
    seconds = now.timestamp()
    if isinstance(value, int):
        return int(seconds * 1000) if value >= MILLISECONDS_FROM else int(seconds)
    return seconds

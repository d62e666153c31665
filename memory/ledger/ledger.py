"""The record: every memory, live and retired, with vector, links and decisions.

A `Reader` sees one consistent state; a `Writer` is one transaction that happens wholly or not at
all. Each writing transaction takes the next revision as its last step, so revision order is commit
order, and whoever follows the ledger asks for the rows above the revision it has seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from uuid import uuid4

from memory.errors import LedgerError, LedgerMissing
from memory.ledger import tables as t
from memory.ledger.database import Database, open_database
from memory.ledger.state import Reader, Writer


class Ledger:
    """An open ledger; `with` closes it. Safe to share between threads."""

    def __init__(self, database: Database) -> None:
        """Use `open` or `create`."""
        self._database = database

    @classmethod
    def open(cls, url: str) -> Ledger:
        """An existing ledger, for reading only: nothing on disk is created or changed.

        Raises: LedgerMissing, LedgerError.
        """
        with cls(open_database(url, create=False))._closed_on_fault() as ledger:
            ledger._check_schema()
        return ledger

    @classmethod
    def create(cls, url: str) -> Ledger:
        """The ledger at the URL, made where there is none, for reading and writing.

        Raises: LedgerError.
        """
        with cls(open_database(url, create=True))._closed_on_fault() as ledger:
            with ledger.writing() as writer:
                writer.prepare_schema()
            ledger._check_schema()
        return ledger

    @contextmanager
    def _closed_on_fault(self) -> Iterator[Ledger]:
        try:
            yield self
        except BaseException:  # Ctrl-C too must not leave it open
            self.close()
            raise

    @property
    def name(self) -> str:
        """Where it is, as people are shown it."""
        return self._database.name

    def _check_schema(self) -> None:
        with self.reading() as reader:
            version = reader.meta("schema_version") if reader.has_schema() else None
        if version is None:
            raise LedgerMissing(f"there are no memories in {self.name} yet", "import some first")
        if version != t.SCHEMA_VERSION:
            raise LedgerError(
                f"{self.name} has schema {version!r}, this version reads {t.SCHEMA_VERSION!r}",
                "use the version that wrote it",
            )

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """One consistent state of the ledger.

        Raises: LedgerError.
        """
        with self._database.reading() as connection:
            yield Reader(connection)

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """One transaction: committed at the end of the block, or wholly undone by an exception.

        Raises: LedgerError.
        """
        with self._database.writing() as connection:
            writer = Writer(connection)
            yield writer
            writer.take_revision()

    def store_id(self) -> str:
        """A name for this store that no other store has; made once."""
        with self.writing() as writer:
            known = writer.meta("store_id")
            if known is None:
                known = uuid4().hex[:12]
                writer.set_meta("store_id", known)
        return known

    def exclusive(self, task: str) -> AbstractContextManager[bool]:
        """While the block runs, no other process does this task; False where one does already.

        Raises: LedgerError.
        """
        return self._database.exclusive(task)

    def checkpoint(self) -> bool:
        """Empty the log that may hold what was erased; False where another process reads it."""
        return self._database.checkpoint()

    def set_aside_files(self) -> list[str]:
        """Damaged ledgers beside this one, that a restore has renamed; they may hold anything."""
        return self._database.set_aside_files()

    def problems(self) -> list[str]:
        """What the database finds wrong with its own files."""
        return self._database.problems()

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""A database with connections and transactions: what SQLite and PostgreSQL promise alike.

A reader sees one committed state; writers follow each other, one by one; a transaction happens
wholly or not at all; every fault of theirs is a LedgerError.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from memory.errors import LedgerDamaged, LedgerError

PATIENCE_S = 30
"""How long a writer waits for the one before it."""
RESTORE = "restore a backup with `memory-dedup restore`, or set memory.data_dir elsewhere"


class Database(ABC):
    """An open database; safe to share between threads."""

    _reads: Mapping[str, Any] = {}
    """Options of a connection for a transaction that reads."""
    _writes: Mapping[str, Any] = {}

    def __init__(self, engine: Engine, name: str, *, read_only: bool) -> None:
        """Use `open_database`; `name` is shown to people."""
        self.engine = engine
        self.name = name
        self.read_only = read_only

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one committed state.

        Raises: LedgerError.
        """
        with self._mapped(), self.engine.connect() as opened:
            connection = opened.execution_options(**self._reads) if self._reads else opened
            with connection.begin():
                yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """The only writing transaction, once those before it have ended.

        Raises: LedgerError, also where the commit went to files that are no longer at their path.
        """
        with self._mapped(), self.engine.connect() as opened:
            connection = opened.execution_options(**self._writes)
            with connection.begin():
                self._begin_writing(connection)
                yield connection
            self._check_place()

    def close(self) -> None:
        self.engine.dispose()

    def checkpoint(self) -> bool:
        """Empty the log that still holds what was erased; whether it is empty now."""
        return True

    @abstractmethod
    def exclusive(self, task: str) -> contextlib.AbstractContextManager[bool]:
        """While the block runs, no other process does this task; False where one does already.

        The lock ends with its process, however that ends.

        Raises: LedgerError.
        """

    def set_aside_files(self) -> list[str]:
        """Beside this ledger: damaged ones that a restore has renamed, and copies of upgrades."""
        return []

    @abstractmethod
    def place(self, folder: Path) -> Path:
        """The ledger's file; where it has none, what a file of it would be called in the folder."""

    @abstractmethod
    def copy_into(self, target: Database, tables: Collection[str]) -> None:
        """The committed state of these tables, in whatever version they are, into an empty file.

        Raises: LedgerError.
        """

    @abstractmethod
    def problems(self) -> list[str]:
        """What the database finds wrong with its own files."""

    @abstractmethod
    def _begin_writing(self, connection: Connection) -> None:
        """Wait until those before have ended.

        Raises: LedgerError where what is open is not what is found at the ledger's path.
        """

    @abstractmethod
    def _check_place(self) -> None:
        """Raises: LedgerError where what is open is not what is found at the ledger's path."""

    @abstractmethod
    def _fault(self, told: str) -> tuple[str, str]:
        """What a driver's message means, and what to do about it."""

    @contextlib.contextmanager
    def _mapped(self) -> Iterator[None]:
        try:
            yield
        except (sa.exc.DBAPIError, self.engine.dialect.loaded_dbapi.Error) as exc:
            told = exc.orig if isinstance(exc, sa.exc.DBAPIError) else exc
            problem, remedy = self._fault(str(told))
            kind = LedgerDamaged if remedy == RESTORE else LedgerError
            raise kind(f"the ledger {self.name} {problem}", remedy) from exc
        except UnicodeDecodeError as exc:  # in the schema, or in what the driver says of it
            raise LedgerDamaged(f"the ledger {self.name} is damaged", RESTORE) from exc
        except sa.exc.TimeoutError as exc:
            raise LedgerError(f"the ledger {self.name} is busy", "try again") from exc

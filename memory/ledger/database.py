"""A database with connections and transactions, as SQLite and PostgreSQL both implement it.

A reader sees one committed state; there is one writer at a time; a transaction commits wholly or
not at all; every error of a driver becomes a LedgerError.
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
"""How long a writer waits for the one before it, in seconds."""
RESTORE = "restore a backup with `memory-dedup restore`, or set memory.data_dir elsewhere"


class Database(ABC):
    """An open database; safe to share between threads."""

    _reads: Mapping[str, Any] = {}
    """Options of a connection that reads."""
    _writes: Mapping[str, Any] = {}

    def __init__(self, engine: Engine, name: str, *, read_only: bool) -> None:
        """Use `open_database`; `name` is shown to people."""
        self.engine = engine
        self.name = name
        self.read_only = read_only

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that reads one committed state.

        Raises: LedgerError.
        """
        with self._mapped(), self.engine.connect() as opened:
            connection = opened.execution_options(**self._reads) if self._reads else opened
            with connection.begin():
                yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open the only writing transaction, once earlier ones have ended.

        Raises: LedgerError, also if the commit went to files that are no longer at their path.
        """
        with self._mapped(), self.engine.connect() as opened:
            connection = opened.execution_options(**self._writes)
            with connection.begin():
                self._begin_writing(connection)
                yield connection
            self._check_location()

    def close(self) -> None:
        self.engine.dispose()

    def checkpoint(self) -> bool:
        """Empty the log, which may hold erased rows; False if it could not be emptied."""
        return True

    @abstractmethod
    def exclusive(self, task: str) -> contextlib.AbstractContextManager[bool]:
        """Lock a task for the block; False if another process has it.

        The lock ends with its process, even if that is killed.

        Raises: LedgerError.
        """

    def set_aside_files(self) -> list[str]:
        """Return damaged ledgers renamed by a restore, and copies of upgrades, next to this one."""
        return []

    @abstractmethod
    def file_in(self, folder: Path) -> Path:
        """Return the ledger's file, or the file in the folder that a copy of it would have."""

    @abstractmethod
    def copy_into(self, target: Database, tables: Collection[str]) -> None:
        """Copy the committed state of these tables, of any version, into an empty database.

        Raises: LedgerError.
        """

    @abstractmethod
    def problems(self) -> list[str]:
        """Return the faults that the database finds in its own files."""

    @abstractmethod
    def _begin_writing(self, connection: Connection) -> None:
        """Wait for earlier writers.

        Raises: LedgerError if the open files are not those at the ledger's path.
        """

    @abstractmethod
    def _check_location(self) -> None:
        """Raises: LedgerError if the open files are not those at the ledger's path."""

    @abstractmethod
    def _fault(self, message: str) -> tuple[str, str]:
        """Return what a driver's message means, and what to do about it."""

    @contextlib.contextmanager
    def _mapped(self) -> Iterator[None]:
        try:
            yield
        except (sa.exc.DBAPIError, self.engine.dialect.loaded_dbapi.Error) as exc:
            cause = exc.orig if isinstance(exc, sa.exc.DBAPIError) else exc
            problem, remedy = self._fault(str(cause))
            kind = LedgerDamaged if remedy == RESTORE else LedgerError
            raise kind(f"the ledger {self.name} {problem}", remedy) from exc
        except UnicodeDecodeError as exc:  # in the schema, or in what the driver says of it
            raise LedgerDamaged(f"the ledger {self.name} is damaged", RESTORE) from exc
        except sa.exc.TimeoutError as exc:
            raise LedgerError(f"the ledger {self.name} is busy", "try again") from exc

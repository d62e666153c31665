"""The interface that the ledger's SQLite and PostgreSQL databases both implement.

A reader sees one committed state. There is one writer at a time. A transaction commits completely
or not at all. Every error of a driver becomes a LedgerError.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from memory.errors import LedgerDamaged, LedgerError

PATIENCE_S = 30
"""Seconds that a writer waits for an earlier writer to commit or roll back."""
RESTORE = "restore a backup with `memory-dedup restore`, or set memory.data_dir elsewhere"
"""The advice that a LedgerDamaged error gives to the user."""


class Database(ABC):
    """The open database of a ledger: a SQLite file or a PostgreSQL database.

    It is safe to share between threads.
    """

    engine: Engine
    name: str
    """The path or the URL, without its password, as shown to people."""

    @abstractmethod
    def reading(self) -> contextlib.AbstractContextManager[Connection]:
        """Yield a connection in a transaction that sees one committed state and writes nothing.

        Raises: LedgerError.
        """

    @abstractmethod
    def writing(self) -> contextlib.AbstractContextManager[Connection]:
        """Yield a connection in a writing transaction, after earlier writers have finished.

        The transaction is committed after the block; an exception rolls it back.

        Raises: LedgerError, also if the ledger's files were moved or replaced since it was opened.
        """

    def close(self) -> None:
        """Close all connections.

        A connection that a thread is still using is closed when the thread has finished with it.
        """
        sa.event.listen(self.engine.pool, "checkin", lambda _, entry: entry.close())
        self.engine.dispose()

    def checkpoint(self) -> bool:
        """Empty the write-ahead log, which may hold erased rows. Return whether that succeeded.

        It fails if another process is reading the log.
        """
        return True

    @abstractmethod
    def exclusive(self, task: str) -> contextlib.AbstractContextManager[bool]:
        """Try to lock a task for the block, without waiting. Yield whether the lock was taken.

        Yield False if the lock is held elsewhere; the block then runs without it. `task`: a name,
        such as `index-1`; tasks with different names can be locked at the same time. The lock also
        ends when the process that holds it ends or is killed.

        Raises: LedgerError.
        """

    def set_aside_files(self) -> list[str]:
        """Return the paths of older ledger files that are kept next to this ledger.

        These are damaged ledgers that a restore renamed, and copies made before an upgrade.
        """
        return []

    @abstractmethod
    def file_in(self, folder: Path) -> Path:
        """Return the path from which the paths of this ledger's copies are made.

        A copy's path is this path with an ending such as `.before-8-1`. For SQLite, the path is
        that of the ledger's file, and `folder` is not used. For PostgreSQL, it is `ledger.db` in
        `folder`.
        """

    @abstractmethod
    def copy_into(self, target: Database, tables: Collection[str]) -> None:
        """Copy the committed state of some tables into `target`, which must be empty.

        `tables`: the names of the tables. The copy has the same schema version as the ledger, also
        if that is not the current version.

        Raises: LedgerError.
        """

    @abstractmethod
    def problems(self) -> list[str]:
        """Check the database's files. Return one message for each fault; [] if there is none."""

    @abstractmethod
    def _fault(self, message: str) -> tuple[str, str]:
        """Return a pair of texts: what happened, and what to do about it ("" if unknown).

        `message`: the error message of the database's driver.
        """

    @contextlib.contextmanager
    def _mapped(self) -> Iterator[None]:
        """Turn the driver's errors in the block into LedgerError or LedgerDamaged."""
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

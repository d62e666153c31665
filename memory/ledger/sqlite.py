"""A ledger in one SQLite file, with a write-ahead log next to it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import filelock
import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine

from memory.errors import LedgerDamaged, LedgerError, LedgerMissing
from memory.ledger.database import PATIENCE_S, RESTORE, Database
from memory.runtime import files

_SHORT_PATIENCE_S = 1
"""Seconds that emptying the log waits for readers."""
_DAMAGED = "damaged"
_LOG_PAGES = 1_000
"""If the write-ahead log has this many pages, a writer moves it into the file after a commit."""
_MOST_LOG_PAGES = 4_000
"""If the write-ahead log has this many pages, SQLite moves it into the file during a commit.

Other writers wait until that is done.
"""
_PAGES_OF_A_TRANSACTION = 12
"""Estimated pages that a transaction writes to the log, besides one page for each row."""


class SqliteDatabase(Database):
    """A SQLite file in write-ahead mode, for several processes of one machine."""

    def __init__(self, path: Path, *, create: bool, untouched: bool = False) -> None:
        """Open the ledger's file for reading only, or with `create` also for writing.

        With `create`, a missing file is made. SQLite makes two more files next to an open file.
        With `untouched`, these are not made, unless the file has a write-ahead log already.

        Raises: LedgerMissing, LedgerError.
        """
        if create:
            _make_file(path)
        elif not path.is_file():
            raise LedgerMissing(f"there are no memories at {path} yet", "import some first")
        self.name = str(path)
        self._path = path
        self._untouched = untouched
        self._file = path.stat()
        self._view = _view_of(path, read_only=not create, untouched=untouched)
        self._write_lock = threading.Lock()
        self._log_pages = 0
        """Estimated pages that this process has written since it last moved the log."""
        self.engine = self._new_engine(read_only=not create)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        if self._view.query["mode"] == "ro":
            self._reopen_if_changed()
        try:
            with self._mapped(), self.engine.connect() as connection, connection.begin():
                connection.exec_driver_sql("BEGIN")
                yield connection
        except LedgerDamaged as exc:
            self._check_unchanged(exc)
            raise
        if self._view.unwritten is not None:
            self._check_unchanged()

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection in a writing transaction, after earlier writers have finished.

        The transaction is committed after the block; an exception rolls it back. Threads of this
        process wait for a lock first, since SQLite would only poll. After the lock is released, a
        long write-ahead log is moved into the file.

        Raises: LedgerError.
        """
        if not self._write_lock.acquire(timeout=PATIENCE_S):
            raise LedgerError(f"the ledger {self.name} is busy", "try again")
        try:
            with self._mapped(), self.engine.connect() as connection, connection.begin():
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                self._check_location()
                driver: Any = connection.connection.driver_connection
                before = driver.total_changes
                yield connection
                rows = driver.total_changes - before
            self._check_location()
            self._log_pages += rows + _PAGES_OF_A_TRANSACTION if rows else 0
        finally:
            self._write_lock.release()
        if self._log_pages >= _LOG_PAGES:
            self._shorten_log()

    def _shorten_log(self) -> None:
        """Move the part of the write-ahead log that no reader needs into the ledger's file.

        Errors are ignored: the commits are safe in the log, and a later writer will move them.
        """
        self._log_pages = 0
        failed = sqlite3.Error, sa.exc.SQLAlchemyError, LedgerError
        with contextlib.suppress(*failed), self._driver() as driver:
            driver.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def _reopen_if_changed(self) -> None:
        """Reopen the file if another process has started or stopped writing it since it was opened.

        A file with a write-ahead log is opened in another way than a file without one.
        """
        view = _view_of(self._path, read_only=True, untouched=self._untouched)
        if view != self._view:
            self._view = view
            self.engine.dispose()
            self.engine = self._new_engine(read_only=True)

    def _check_unchanged(self, cause: LedgerDamaged | None = None) -> None:
        """Check that no process wrote to the file while it was read without locks.

        `cause`: the damage that reading seemed to find, if any; a change of the file would explain
        it.

        Raises: LedgerError, with `cause` as its cause, if the file has changed.
        """
        if self._view.unwritten not in (None, _state_of(self._path)):
            raise LedgerError(
                f"the ledger {self.name} was written by another process while it was read",
                "try again",
            ) from cause

    def checkpoint(self) -> bool:
        """Move the write-ahead log into the ledger's file, and empty it.

        Return whether that succeeded. It fails if another process is reading the log.
        """
        with self._mapped(), self._driver() as driver:
            driver.execute(f"PRAGMA busy_timeout={1_000 * _SHORT_PATIENCE_S}")
            busy, _, _ = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            driver.execute(f"PRAGMA busy_timeout={1_000 * PATIENCE_S}")
        return not busy

    @contextlib.contextmanager
    def exclusive(self, task: str) -> Iterator[bool]:
        path = self._path.with_name(f"{self._path.name}.{task}.lock")
        lock = files.own_lock(path)
        try:
            lock.acquire(blocking=False)
        except filelock.Timeout:
            yield False
            return
        except OSError as exc:
            raise LedgerError(f"{path} cannot be locked: {exc.strerror}") from exc
        try:
            yield True
        finally:
            lock.release()

    def set_aside_files(self) -> list[str]:
        found = [files.all_set_aside(self._path.absolute(), kind) for kind in (_DAMAGED, "before")]
        return sorted(str(path) for paths in found for path in paths)

    def file_in(self, folder: Path) -> Path:  # noqa: ARG002 - the other database needs it
        return self._path.absolute()

    def copy_into(self, target: Database, tables: Collection[str]) -> None:  # noqa: ARG002
        """Copy the whole file into another SQLite ledger; `tables` is not used."""
        assert isinstance(target, SqliteDatabase), "a copy is a file"
        with self._mapped(), self._driver() as source, target._driver() as copy:
            source.backup(copy)

    def problems(self) -> list[str]:
        with self.reading() as connection:
            found = connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
        return [problem for problem in found if problem != "ok"]

    @contextlib.contextmanager
    def _driver(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(self.engine.raw_connection()) as raw:
            assert isinstance(raw.driver_connection, sqlite3.Connection)
            yield raw.driver_connection

    def _new_engine(self, *, read_only: bool) -> Engine:
        name = f"file:{quote(str(self._path.absolute()))}"
        url = URL.create("sqlite", database=name, query={"uri": "true", **self._view.query})
        engine = sa.create_engine(url, connect_args={"timeout": PATIENCE_S})

        @sa.event.listens_for(engine, "connect")
        def _configure(connection: Any, _record: Any) -> None:
            try:
                self._check_location()
            except LedgerError:
                connection.close()
                raise
            connection.isolation_level = None  # `reading` and `writing` begin the transactions
            pragmas = ["foreign_keys=ON", "synchronous=FULL", "secure_delete=ON"]
            log = ["journal_mode=WAL", f"wal_autocheckpoint={_MOST_LOG_PAGES}"]
            for pragma in [*pragmas, *(["query_only=ON"] if read_only else log)]:
                connection.execute(f"PRAGMA {pragma}")

        return engine

    def _check_location(self) -> None:
        """Check that the file at the ledger's path is the open one.

        Without this check, SQLite would write to a file that was moved or deleted.

        Raises: LedgerError.
        """
        try:
            is_open_file = os.path.samestat(self._path.stat(), self._file)
        except OSError:
            is_open_file = False
        if not is_open_file:
            raise LedgerError(
                f"the ledger {self.name} was moved, deleted or replaced while it was open",
                "put it back, or start again",
            )

    def _fault(self, message: str) -> tuple[str, str]:
        for part, problem, remedy in _FAULTS:
            if part in message:
                return problem, remedy
        return f"failed: {message}", ""


def set_aside(url: str) -> Path:
    """Rename a damaged SQLite ledger and its log, and return the new path of the ledger.

    `url`: the ledger's URL, `sqlite:///FILE`. The new name is `NAME.damaged-1`, or has the next
    free number.

    Raises: LedgerError.
    """
    path = Path(url.partition(":///")[2])
    try:
        return files.set_aside(path, _DAMAGED, beside=("-wal", "-shm"))
    except OSError as exc:
        raise LedgerError(f"{path} cannot be set aside: {exc.strerror}") from exc


def _make_file(path: Path) -> None:
    """Make an empty file and its folder if they are missing, accessible only to their owner.

    Raises: LedgerError.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as exc:
        raise LedgerError(
            f"the ledger {path} cannot be opened: {exc.strerror}",
            "check memory.data_dir and its permissions",
        ) from exc


@dataclass(frozen=True)
class _View:
    """The way in which SQLite opens the ledger's file."""

    query: Mapping[str, str]
    """Parameters of SQLite's URI, such as `mode`."""
    unwritten: tuple[int, int] | None = None
    """Size and modification time of the file when it was opened, if it is read without locks.

    None if locks are used. If size or time change during reading, what was read may be wrong.
    """


def _view_of(path: Path, *, read_only: bool, untouched: bool) -> _View:
    """Choose how SQLite opens a ledger's file, so that a reader (`read_only`) does not change it.

    - A reader opens a file with a write-ahead log in mode `ro`. In mode `rw`, SQLite would move a
      log that a crash left into the file on closing.
    - Otherwise, with `untouched` or for a reader in a folder that is not writable, the file is read
      without locks, because SQLite must not or cannot make files next to it.
    - In all other cases, the mode is `rw`, which does not create a missing file.
    """
    state = _state_of(path)
    if read_only and path.with_name(path.name + "-wal").exists():
        return _View({"mode": "ro"})
    if untouched or (read_only and not os.access(path.parent, os.W_OK)):
        return _View({"mode": "ro", "immutable": "1"}, state)
    return _View({"mode": "rw"})


def _state_of(path: Path) -> tuple[int, int]:
    """Return a file's size and its time of change in nanoseconds; zeros if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns


_FAULTS = (
    ("readonly", "cannot be written", "make the data folder writable"),
    ("unable to open", "cannot be opened", "check the folder and its permissions"),
    ("database or disk is full", "has no room left on its disk", "make room and try again"),
    ("disk I/O error", "cannot be read or written (disk I/O error)", "is its disk full?"),
    ("locked", "is being written by another process", "try again when it has finished"),
    ("not a database", "is not a ledger", RESTORE),
    ("malformed", "is damaged", RESTORE),
)
"""Parts of SQLite's error messages, what each means, and what to do about it."""

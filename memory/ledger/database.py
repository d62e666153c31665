"""The interface of a ledger's database, and its implementations for SQLite and PostgreSQL.

There is one writer at a time. Every error of a driver becomes a LedgerError.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import filelock
import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine

from memory.errors import LedgerDamaged, LedgerError, LedgerMissing, install_hint
from memory.ledger import tables as t
from memory.ledger.gaps import GapEraser, NotErased, gap_eraser
from memory.ledger.tables import RESTORE
from memory.runtime import files

PATIENCE_S = 30


class Database(ABC):
    """The open database of a ledger. It is safe to share between threads.

    `file`: the path of the ledger's own file; None if a server holds the ledger.
    """

    engine: Engine
    name: str
    file: Path | None
    read_only: bool

    @abstractmethod
    def reading(self) -> contextlib.AbstractContextManager[Connection]:
        """Yield a connection in a transaction that sees one committed state and cannot write.

        Raises: LedgerError.
        """

    @abstractmethod
    def writing(self) -> contextlib.AbstractContextManager[Connection]:
        """Yield a connection in a writing transaction, after earlier writers have finished.

        The transaction is committed after the block; an exception rolls it back.

        Raises: LedgerError.
        """

    def close(self) -> None:
        # A connection that a thread is still using is closed when the thread has finished.
        sa.event.listen(self.engine.pool, "checkin", lambda _, entry: entry.close())
        self.engine.dispose()

    def checkpoint(self) -> bool:
        """Empty the write-ahead log, which may hold erased rows; return whether that succeeded.

        It fails if another process is reading the log.
        """
        return True

    def erase_remains(self) -> bool:
        """Overwrite what the database's own files still hold of erased rows.

        Return whether that succeeded. On a server this does nothing and returns True: the server's
        files are not ours.
        """
        return True

    @abstractmethod
    def exclusive(self, task: str) -> contextlib.AbstractContextManager[bool]:
        """Try once to lock a task for the `with` block; yield whether that succeeded.

        The block also runs if the task could not be locked. If the process ends, its lock ends too.
        `task`: a name such as `index-1`.

        Raises: LedgerError.
        """

    def set_aside_files(self) -> list[str]:
        return []

    @abstractmethod
    def copy_into(self, target: SqliteDatabase) -> None:
        """Copy the committed state into `target`, which must be empty.

        Raises: LedgerError.
        """

    def problems(self) -> list[str]:
        return []

    @abstractmethod
    def _fault(self, message: str) -> tuple[str, str]: ...

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


# --- SQLite ---------------------------------------------------------------------------------------

_DAMAGED = "damaged"
_LOG_PAGES = 1_000
"""After about this many new pages in the write-ahead log, a writer copies the log into the file.

It does this after its commit, so other writers do not wait.
"""
_MOST_LOG_PAGES = 4_000
"""If the log has this many pages, SQLite copies it during a commit, and other writers wait."""
_CHECKPOINTS, _CHECKPOINT_PAUSE_S = 10, 0.05
_PAGES_ERASED_AT_ONCE = 200
_MOST_ATTEMPTS = 20
_PAGES_OF_A_TRANSACTION = 12
"""An estimate: a transaction adds this many pages to the log, plus one for each changed row."""


class SqliteDatabase(Database):
    def __init__(self, path: Path, *, create: bool, untouched: bool = False) -> None:
        """Open the ledger's file for reading only, or with `create` also for writing.

        With `create`, a missing file is made. With `untouched`, SQLite makes no files next to it;
        see `Ledger.open`.

        Raises: LedgerMissing, LedgerError.
        """
        if create:
            _make_file(path)
        elif not path.is_file():
            raise LedgerMissing(f"there are no memories at {path} yet", "remember or import some")
        self.name = str(path)
        self.file = path.absolute()
        self._path = path
        self._untouched = untouched
        self._stat = path.stat()
        self.read_only = not create
        self._view = _view_of(path, read_only=self.read_only, untouched=untouched)
        self._write_lock = threading.Lock()
        self._log_pages = 0
        self.engine = self._new_engine()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        if self._view.query["mode"] == "ro":
            view = _view_of(self._path, read_only=True, untouched=self._untouched)
            if view != self._view:  # another process has started or stopped writing the file
                self._view = view
                self.engine.dispose()
                self.engine = self._new_engine()
        try:
            with self._mapped(), self.engine.connect() as connection, connection.begin():
                connection.exec_driver_sql("BEGIN")
                driver: Any = connection.connection.driver_connection
                before = driver.total_changes
                yield connection
                if driver.total_changes != before:
                    raise LedgerError(f"the ledger {self.name} cannot be written by a reader")
        except LedgerDamaged as exc:
            self._check_unchanged(exc)
            raise
        if self._view.unlocked_state is not None:
            self._check_unchanged()

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection in a writing transaction, as `Database.writing` says.

        Threads of this process first wait for a lock, which wakes a waiting thread at once. SQLite
        would only try again at intervals.
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
            self._log_pages = 0
            with (  # if it fails, a later writer tries again
                contextlib.suppress(sqlite3.Error, sa.exc.SQLAlchemyError, LedgerError),
                self._driver() as driver,
            ):
                driver.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def _check_unchanged(self, cause: LedgerDamaged | None = None) -> None:
        """Check that no process wrote to the file while it was read without locks.

        `cause`: the damage that reading found, if any. A concurrent write would explain the damage.

        Raises: LedgerError, caused by `cause`.
        """
        if self._view.unlocked_state not in (None, _state_of(self._path)):
            raise LedgerError(
                f"the ledger {self.name} was written by another process while it was read",
                "try again",
            ) from cause

    def checkpoint(self) -> bool:
        with self._mapped(), self._driver() as driver:
            driver.execute("PRAGMA busy_timeout=50")  # while it waits for readers, writers wait
            for attempt in range(_CHECKPOINTS):
                if attempt:
                    time.sleep(_CHECKPOINT_PAUSE_S)
                busy, _, _ = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if not busy:
                    break
            driver.execute(f"PRAGMA busy_timeout={1_000 * PATIENCE_S}")
        return not busy

    def erase_remains(self) -> bool:
        """Overwrite the write-ahead log and the unused bytes of the file's pages.

        It fails if another process is reading the log. Each transaction is short.
        """
        try:
            if not self.checkpoint():
                return False
            with gap_eraser(self._path) as eraser:
                attempts = 0
                while eraser.left:
                    done = self._erase_some(eraser)
                    attempts = 0 if done else attempts + 1
                    if attempts > _MOST_ATTEMPTS or not self.checkpoint():
                        return False
        except NotErased:
            return False
        return True

    def _erase_some(self, eraser: GapEraser) -> bool:
        """Overwrite the gaps of some pages; return False if another writer has come first.

        The connection is a new one, and it changes the file's header. So every connection, in this
        process or another, reads the pages again before it writes.
        """
        if not self._write_lock.acquire(timeout=PATIENCE_S):
            return False
        try:
            with self._mapped(), self._driver(self._new_engine(poolclass=sa.NullPool)) as driver:
                driver.execute("BEGIN IMMEDIATE")
                if self._log_size():
                    return False
                eraser.erase(_PAGES_ERASED_AT_ONCE)
                [version] = driver.execute("PRAGMA user_version").fetchone()
                driver.execute(f"PRAGMA user_version={(version + 1) % 2**31}")
                driver.execute("COMMIT")
        finally:
            self._write_lock.release()
        return True

    def _log_size(self) -> int:
        log = self._path.with_name(self._path.name + "-wal")
        return log.stat().st_size if log.exists() else 0

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

    def copy_into(self, target: SqliteDatabase) -> None:
        with self._mapped(), self._driver() as source, target._driver() as copy:
            source.backup(copy)

    def problems(self) -> list[str]:
        with self.reading() as connection:
            found = connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
        return [problem for problem in found if problem != "ok"]

    @contextlib.contextmanager
    def _driver(self, engine: Engine | None = None) -> Iterator[sqlite3.Connection]:
        with contextlib.closing((engine or self.engine).raw_connection()) as raw:
            assert isinstance(raw.driver_connection, sqlite3.Connection)
            yield raw.driver_connection

    def _new_engine(self, **options: Any) -> Engine:
        name = f"file:{quote(str(self._path.absolute()))}"
        url = URL.create("sqlite", database=name, query={"uri": "true", **self._view.query})
        engine = sa.create_engine(url, connect_args={"timeout": PATIENCE_S}, **options)

        @sa.event.listens_for(engine, "connect")
        def _configure(connection: Any, _record: Any) -> None:
            try:
                self._check_location()
                self._check_owner(connection)
            except BaseException:
                connection.close()
                raise
            connection.isolation_level = None  # `reading` and `writing` begin the transactions
            pragmas = ["foreign_keys=ON", "synchronous=FULL", "secure_delete=ON"]
            log = ["journal_mode=WAL", f"wal_autocheckpoint={_MOST_LOG_PAGES}"]
            for pragma in [*pragmas, *(["query_only=ON"] if self.read_only else log)]:
                connection.execute(f"PRAGMA {pragma}")

        return engine

    def _check_location(self) -> None:
        """Check that the open file is still the one at the ledger's path.

        Without this check, SQLite would write to a file that was moved or deleted.

        Raises: LedgerError.
        """
        try:
            is_open_file = os.path.samestat(self._path.stat(), self._stat)
        except OSError:
            is_open_file = False
        if not is_open_file:
            raise LedgerError(
                f"the ledger {self.name} was moved, deleted or replaced while it was open",
                "put it back, or start again",
            )

    def _check_owner(self, connection: sqlite3.Connection) -> None:
        """Check, before the first write, that the tables in the file are not another program's.

        Raises: LedgerError.
        """
        found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        names = {name for (name,) in found}
        if not self.read_only and names and t.meta.name not in names:
            raise LedgerError(f"{self.name} is another program's database", "name another file")

    def _fault(self, message: str) -> tuple[str, str]:
        for part, problem, remedy in _FAULTS:
            if part in message:
                return problem, remedy
        return f"failed: {message}", ""


def set_aside(url: str) -> Path:
    """Rename a damaged SQLite ledger and its log, and return the ledger's new path.

    The new name ends in `.damaged-1`, or in the next number that is free. `url`: `sqlite:///FILE`.

    Raises: LedgerError.
    """
    path = Path(url.partition(":///")[2])
    try:
        return files.set_aside(path, _DAMAGED, beside=("-wal", "-shm"))
    except OSError as exc:
        raise LedgerError(f"{path} cannot be set aside: {exc.strerror}") from exc


def _make_file(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():  # closing the file would release the locks of this process's SQLite
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as exc:
        raise LedgerError(
            f"the ledger {path} cannot be opened: {exc.strerror}",
            "check memory.data_dir and its permissions",
        ) from exc


@dataclass(frozen=True)
class _View:
    query: Mapping[str, str]
    unlocked_state: tuple[int, int] | None = None
    """Size and modification time of a file that is read without locks; None if locks are used.

    If they change during reading, what was read may be wrong.
    """


def _view_of(path: Path, *, read_only: bool, untouched: bool) -> _View:
    """Choose the options with which SQLite opens a ledger's file.

    `read_only`: the ledger is opened for reading only. `untouched`: SQLite must also not make files
    in the ledger's folder.

    For reading only:

    - If there is a write-ahead log, the mode is `ro`. In mode `rw`, SQLite would copy the log of a
      crashed process into the file.
    - If there is no log and SQLite must not or cannot make files in the folder, the mode is `ro`
      without locks.
    - Otherwise the mode is `rw`.

    For writing, the mode is `rw`.
    """
    state = _state_of(path)
    if read_only and path.with_name(path.name + "-wal").exists():
        return _View({"mode": "ro"})
    if untouched or (read_only and not os.access(path.parent, os.W_OK)):
        return _View({"mode": "ro", "immutable": "1"}, state)
    return _View({"mode": "rw"})


def _state_of(path: Path) -> tuple[int, int]:
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


# --- PostgreSQL: many processes on many machines --------------------------------------------------

_WRITER_LOCK = 0x6D656D6F7279
"""Number of the advisory lock that a writer holds until its commit (`memory` in ASCII)."""


class PostgresDatabase(Database):
    def __init__(self, url: URL, *, create: bool) -> None:
        self.name = url.render_as_string(hide_password=True)
        self.file = None
        self.read_only = not create
        try:
            self.engine = sa.create_engine(
                url.set(drivername="postgresql+psycopg"),
                connect_args={"connect_timeout": PATIENCE_S},
                pool_pre_ping=True,
            )
        except ImportError as exc:
            raise LedgerError(
                f"the ledger {self.name} needs psycopg", install_hint("postgres")
            ) from exc
        # `postgresql_where` in `tables` would load PostgreSQL's dialect for SQLite ledgers too.
        for table in t.schema.sorted_tables:
            for index in table.indexes:
                where = index.dialect_options["sqlite"]["where"]
                index.dialect_options["postgresql"]["where"] = where

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._mapped(), self.engine.connect() as opened:
            connection = opened.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
            with connection.begin():
                yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        with self._mapped(), self.engine.connect() as opened:
            connection = opened.execution_options(
                isolation_level="READ COMMITTED", postgresql_readonly=self.read_only
            )
            with connection.begin():
                connection.execute(_AS_WRITER)
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_WRITER_LOCK)))
                yield connection

    @contextlib.contextmanager
    def exclusive(self, task: str) -> Iterator[bool]:
        key = sa.func.hashtextextended(f"memory-dedup {task}", 0)
        with self._mapped(), self.engine.connect() as connection:
            connection = connection.execution_options(isolation_level="AUTOCOMMIT")
            taken = bool(connection.scalar(sa.select(sa.func.pg_try_advisory_lock(key))))
            try:
                yield taken
            finally:
                if taken and not connection.invalidated:
                    connection.execute(sa.select(sa.func.pg_advisory_unlock(key)))

    def copy_into(self, target: SqliteDatabase) -> None:
        found = sa.MetaData()
        sa.event.listen(found, "column_reflect", _as_on_any_database)
        with self.reading() as connection, target.writing() as copy:
            found.reflect(connection, only=lambda name, _: name in t.schema.tables)
            found.create_all(copy)
            for table in found.sorted_tables:
                rows = connection.execute(sa.select(table), execution_options={"yield_per": 1_000})
                for page in rows.mappings().partitions():
                    copy.execute(table.insert(), [dict(row) for row in page])

    def _fault(self, message: str) -> tuple[str, str]:
        first_line = message.strip().partition("\n")[0] or "the connection broke"
        for part, problem, remedy in _SERVER_FAULTS:
            if part in message:
                return f"{problem} ({first_line})", remedy
        return f"failed: {first_line}", ""


_AS_WRITER = sa.select(
    *(
        sa.func.set_config(name, value, True)
        for name, value in (
            ("lock_timeout", f"{PATIENCE_S}s"),
            # A writer finds rows by their keys. Without statistics of a new table the server would
            # scan it, or compile the query first.
            ("enable_seqscan", "off"),
            ("jit", "off"),
        )
    )
)


def _as_on_any_database(_inspector: Any, _table: sa.Table, column: Any) -> None:
    column["type"] = column["type"].as_generic()
    column["default"] = None


_SERVER_FAULTS = (
    ("password authentication", "refused the login", "check memory.ledger_url"),
    ("does not exist", "is not set up", "create the database and the role in memory.ledger_url"),
    ("failed to resolve", "cannot be reached", "check the host in memory.ledger_url"),
    ("connection is bad", "cannot be reached", "is the server running at memory.ledger_url?"),
    ("connection failed", "cannot be reached", "is the server running at memory.ledger_url?"),
    ("read-only transaction", "cannot be written", "it was opened for reading only"),
    ("permission denied", "refused the access", "grant the role its rights"),
    ("could not extend file", "has no room left on its disk", "make room and try again"),
    ("lock timeout", "is being written by another process", "try again when it has finished"),
    ("terminating connection", "closed the connection", "try again"),
    ("server closed the connection", "closed the connection", "try again"),
    ("connection is lost", "closed the connection", "try again"),
    ("connection is closed", "closed the connection", "try again"),
)

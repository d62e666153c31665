"""The ledger: the database of every memory, live and retired, with vector, links and decisions.

A `Reader` sees one committed state. A `Writer` is one transaction, which commits completely or not
at all. The last step of each writing transaction takes the next revision, so revisions are in
commit order: an index that follows the ledger asks for the rows above the last revision it has
seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url

from memory.errors import LedgerError, LedgerMissing, LedgerOutdated
from memory.ledger import migrations
from memory.ledger import tables as t
from memory.ledger.database import Database
from memory.ledger.postgresql import PostgresDatabase
from memory.ledger.sqlite import SqliteDatabase
from memory.ledger.state import Reader, Writer


class Ledger:
    """An open ledger. It is safe to share between threads; a `with` statement closes it."""

    def __init__(self, database: Database) -> None:
        """Call `open` or `create` instead."""
        self._database = database

    @classmethod
    def open(cls, url: str, *, untouched: bool = False) -> Ledger:
        """Open an existing ledger for reading only.

        SQLite makes two files next to an open ledger, which remain if the process is killed. With
        `untouched`, they are not made, unless the ledger has a write-ahead log already.

        Raises: LedgerMissing, LedgerOutdated, LedgerError.
        """
        with (
            cls(open_database(url, create=False, untouched=untouched))._closed_on_fault() as ledger,
            ledger._database.reading() as connection,
        ):
            ledger._check_version(migrations.version_of(connection))
        return ledger

    @classmethod
    def create(cls, url: str) -> Ledger:
        """Open a ledger for reading and writing, and create it if there is none at this URL.

        Raises: LedgerOutdated, LedgerError.
        """
        with (
            cls(open_database(url, create=True))._closed_on_fault() as ledger,
            ledger._database.writing() as connection,
        ):
            migrations.make_schema(connection)
            ledger._check_version(migrations.stored_version(connection))
        return ledger

    @classmethod
    def upgrade(cls, url: str, folder: Path) -> Path | None:
        """Upgrade an existing ledger to the current schema, after copying it.

        Return the path of the copy; None if the schema was current already. The copy is a SQLite
        ledger, which `memory-dedup restore` reads. The copy of a SQLite ledger lies next to it; the
        copy of a PostgreSQL ledger lies in `folder`.

        Raises: LedgerMissing, LedgerError.
        """
        try:
            cls.open(url).close()
        except LedgerOutdated:
            with closing(open_database(url, create=True)) as database:
                return migrations.upgrade(
                    database, lambda version: migrations.copy_before(version, database, folder)
                )
        return None

    @classmethod
    def upgraded_copy(cls, url: str, file: Path, *, untouched: bool = False) -> Ledger:
        """Copy an older ledger into a new file, upgrade the copy and open it for reading.

        The older ledger stays as it is. With `untouched`, SQLite also makes no files next to it,
        unless it has a write-ahead log already.

        Raises: LedgerMissing, LedgerError.
        """
        with closing(open_database(url, create=False, untouched=untouched)) as database:
            migrations.copy_as_it_is(database, file)
        with closing(open_database(f"sqlite:///{file}", create=True)) as copy:
            migrations.upgrade(copy, lambda _: Path(database.name))
        return cls.open(f"sqlite:///{file}")

    @contextmanager
    def _closed_on_fault(self) -> Iterator[Ledger]:
        """Yield the ledger; close it if the block raises an exception."""
        try:
            yield self
        except BaseException:  # also after Ctrl-C
            self.close()
            raise

    @property
    def name(self) -> str:
        """The ledger's path or URL, without its password, as shown to people."""
        return self._database.name

    def _check_version(self, stored: str | None) -> None:
        """Check that the ledger's schema, of version `stored`, is the current one.

        Raises: LedgerMissing, LedgerOutdated, LedgerError.
        """
        if stored is None:
            raise LedgerMissing(f"there are no memories in {self.name} yet", "import some first")
        if stored in migrations.STEPS:
            raise LedgerOutdated(self.name, stored, t.SCHEMA_VERSION)
        if stored != t.SCHEMA_VERSION:
            raise LedgerError(
                f"{self.name} has schema {stored}, this version knows {t.SCHEMA_VERSION} at most",
                "use the version of memory-dedup that wrote it",
            )

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """Yield a reader that sees one committed state of the ledger.

        Raises: LedgerError.
        """
        with self._database.reading() as connection:
            yield Reader(connection)

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """Yield a writer whose changes are committed together at the end of the block.

        An exception in the block rolls them back.

        Raises: LedgerError, also if a later version has upgraded the ledger after it was opened.
        """
        with self._database.writing() as connection:
            writer = Writer(connection)
            if (stored := writer.meta("schema_version")) != t.SCHEMA_VERSION:
                self._check_version(stored)
            yield writer
            writer.terms.follow(writer.transaction.reworded)
            writer.transaction.take_revision()

    def store_id(self) -> str:
        """Return the random identifier of this store; the first call makes and stores it."""
        with self.writing() as writer:
            known = writer.meta("store_id")
            if known is None:
                known = uuid4().hex[:12]
                writer.set_meta("store_id", known)
        return known

    def exclusive(self, task: str) -> AbstractContextManager[bool]:
        """Lock a named task for the block. Yield False if another process holds the lock.

        Raises: LedgerError.
        """
        return self._database.exclusive(task)

    def checkpoint(self) -> bool:
        """Empty the write-ahead log, which may hold erased rows. Return whether that succeeded.

        It fails if another process is reading the log.
        """
        return self._database.checkpoint()

    def set_aside_files(self) -> list[str]:
        """Return the paths of older copies of this ledger that still exist.

        These are damaged ledgers that a restore renamed, and copies made before an upgrade.
        """
        with self._database.reading() as connection:
            noted = migrations.noted_copies(connection)
        existing = {name for name in noted if Path(name).exists()}
        return sorted(existing.union(self._database.set_aside_files()))

    def problems(self) -> list[str]:
        """Return the faults that the database finds in its own files, as messages."""
        return self._database.problems()

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_database(url: str, *, create: bool, untouched: bool = False) -> Database:
    """Open the database at a URL for reading only, or with `create` also for writing.

    With `create`, a missing SQLite file is made. SQLite makes two more files next to an open file.
    With `untouched`, these are not made, unless the file has a write-ahead log already.

    Raises: LedgerMissing, LedgerError.
    """
    parsed = _parsed(url)
    if parsed.get_backend_name() == "postgresql":
        return PostgresDatabase(parsed, create=create)
    if parsed.get_backend_name() == "sqlite" and parsed.database:
        file = Path(url.partition(":///")[2])
        return SqliteDatabase(file, create=create, untouched=untouched)
    shown = parsed.render_as_string(hide_password=True)
    raise LedgerError(
        f"ledger URL {shown} is neither sqlite:///FILE nor postgresql+psycopg://...",
        "set memory.ledger_url",
    )


def _parsed(url: str) -> URL:
    try:
        return make_url(url)
    except sa.exc.ArgumentError as exc:
        raise LedgerError(
            "memory.ledger_url is not a valid URL",
            "write sqlite:///FILE or postgresql+psycopg://...",
        ) from exc

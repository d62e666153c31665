"""A ledger as it is, of whatever version, in a file beside it: what an upgrade leaves behind."""

from __future__ import annotations

import contextlib
import json
from itertools import count
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memory.errors import LedgerError
from memory.ledger import tables as t
from memory.ledger.database import Database
from memory.ledger.sqlite import SqliteDatabase
from memory.runtime import replacing_alone

UPGRADE_COPIES = "upgrade_copies"
"""Set in a ledger that was upgraded: the files that hold it as it was before."""
_NOTE = t.meta.c.key == UPGRADE_COPIES


def copy_before(version: str, database: Database, folder: Path) -> Path:
    """A copy, whole or not there, before an upgrade: `ledger.db.before-2-1`, or the next number.

    Beside a SQLite ledger, else in the folder.

    Raises: LedgerError.
    """
    place = database.place(folder)
    names = (place.with_name(f"{place.name}.before-{version}-{number}") for number in count(1))
    file = next(name for name in names if not name.exists())
    try:
        with replacing_alone(file) as part:
            copy_as_it_is(database, part)
    except OSError as exc:
        raise LedgerError(f"no copy can be written to {file}: {exc.strerror}") from exc
    return file


def copy_as_it_is(database: Database, file: Path) -> None:
    """The committed state as a new SQLite ledger of the same version.

    Raises: LedgerError.
    """
    with contextlib.closing(SqliteDatabase.open(file, create=True)) as target:
        database.copy_into(target, list(t.schema.tables))


def note_copy(connection: Connection, copy: Path) -> None:
    """Forgetting names the copy: it holds what is forgotten later."""
    told = json.dumps([*noted_copies(connection), str(copy)])
    connection.execute(t.meta.delete().where(_NOTE))
    connection.execute(t.meta.insert().values(key=UPGRADE_COPIES, value=told))


def noted_copies(connection: Connection) -> list[str]:
    """Where upgrades kept the ledger as it was."""
    noted = connection.scalar(sa.select(t.meta.c.value).where(_NOTE))
    return [] if noted is None else list(json.loads(noted))

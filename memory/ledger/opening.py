"""The database at a URL."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url

from memory.errors import LedgerError
from memory.ledger.database import Database
from memory.ledger.postgresql import PostgresDatabase
from memory.ledger.sqlite import SqliteDatabase


def open_database(url: str, *, create: bool, untouched: bool = False) -> Database:
    """The database at a URL: with `create` made where it is missing, else for reading only.

    `untouched`: not even for a moment is a file made beside a SQLite file that has no log.

    Raises: LedgerMissing, LedgerError.
    """
    parsed = _parsed(url)
    if parsed.get_backend_name() == "postgresql":
        return PostgresDatabase.open(parsed, create=create)
    if parsed.get_backend_name() == "sqlite" and parsed.database:
        file = Path(url.partition(":///")[2])
        return SqliteDatabase.open(file, create=create, untouched=untouched)
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

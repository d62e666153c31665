"""A ledger of schema 8, as commit e64dc8b left it, on either database; and any ledger row by row.

Nothing here uses the package's own tables: they have moved on.
"""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from memory.text import text_key

FOLDER = Path(__file__).parent / "fixtures"
LEDGER = FOLDER / "version_8.db"
DUMP = FOLDER / "version_8.sql"
"""The same ledger, as PostgreSQL's `pg_dump` wrote it."""
Dump = dict[str, list[dict[str, Any]]]
LIVE = 25
"""Memories that live in the fixture."""
NEWEST = "9"
"""The schema that an upgrade leads to."""
TERMS = ("postings", "term_lists", "term_totals")
"""What follows from the memories alone: `tests/ledger/test_terms.py` compares it."""


def put_at(url: str) -> None:
    """The fixture as the ledger at the URL."""
    if url.startswith("sqlite"):
        path = Path(url.partition(":///")[2])
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(LEDGER, path)
    else:
        engine = sa.create_engine(url)
        with engine.begin() as connection:
            connection.exec_driver_sql(DUMP.read_text(encoding="utf-8"))
        engine.dispose()


def _tables(connection: sa.Connection) -> dict[str, sa.Table]:
    found = sa.MetaData()
    with warnings.catch_warnings():  # SQLAlchemy reflects no index of an expression
        warnings.simplefilter("ignore", sa.exc.SAWarning)
        found.reflect(connection)
    return {table.name: table for table in found.sorted_tables}


def dump_of(url: str) -> Dump:
    """Every row of every table, in an order of its own."""
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        found = {
            name: sorted(
                (dict(row) for row in connection.execute(sa.select(table)).mappings()), key=str
            )
            for name, table in _tables(connection).items()
        }
    engine.dispose()
    return found


KEYED = (
    ("memories", "text_key"), ("vectors", "text_key"), ("readings", "text_key"),
    ("distinct_pairs", "low_key", "high_key"), ("attempts", "low_key", "high_key"),
)  # fmt: skip
"""The tables and columns that hold keys of texts."""


def as_newest(dump: Dump, *copies: Path) -> Dump:
    """What an upgrade that left these copies makes of all rows of schema 8."""
    expected = {name: [dict(row) for row in rows] for name, rows in dump.items()}
    for row in expected["meta"]:
        if row["key"] == "schema_version":
            row["value"] = NEWEST
    moves = {
        row["text_key"]: text_key(row["content"]) for row in expected["memories"] if row["content"]
    }
    for name, *columns in KEYED:
        for row in expected[name]:
            for column, key in zip(
                columns, sorted(moves.get(row[one], row[one]) for one in columns), strict=True
            ):
                row[column] = key
    for row in expected["memories"]:
        row |= {"said": row["timestamp"] if row["content"] else None, "when": "", "until": None}
        row |= {"expires_at": None}
    for row in expected["items"]:
        row |= {"ttl_minutes": None, "expires_at": None}
    for row in expected["decisions"]:
        row["refused"] = ""
        if row["undone"] and row["action"] != "keep_both":
            row["before"] = {"rows": {}, "links": []}
    expected["meta"].append(
        {"key": "upgrade_copies", "value": json.dumps([str(copy) for copy in copies])}
    )
    return comparable(expected)


def comparable(dump: Dump) -> Dump:
    """The same rows whatever the order of their columns, JSON read."""
    for row in dump["decisions"]:
        if isinstance(row["before"], str):
            row["before"] = json.loads(row["before"])
    return {
        name: sorted((dict(sorted(row.items())) for row in rows), key=_stable)
        for name, rows in sorted(dump.items())
        if name not in {"sqlite_sequence", *TERMS}
    }


def _stable(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, default=str)


def version_at(url: str) -> str:
    [version] = [row["value"] for row in dump_of(url)["meta"] if row["key"] == "schema_version"]
    return str(version)

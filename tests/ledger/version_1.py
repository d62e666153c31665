"""A ledger of version 1, as version 1 left it, on either database; and any ledger row by row.

Nothing here uses the package's own tables: they have moved on.
"""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import sqlalchemy as sa

FOLDER = Path(__file__).parent / "fixtures"
LEDGER = FOLDER / "version_1.db"
BACKUP = FOLDER / "version_1_backup.db"
DUMP = FOLDER / "version_1.json"
Dump = dict[str, list[dict[str, Any]]]
NEWEST = "8"
"""The version that an upgrade leads to."""
TERMS = ("postings", "term_lists", "term_totals")
"""What follows from the memories alone: `tests/ledger/test_terms.py` compares it."""
BY = {
    "kept by a person": "person",
    "values conflict": "offline",
    "said in one text": "offline",
    "sold, then bought": "model",
}


def put_at(url: str) -> None:
    """The fixture as the ledger at the URL."""
    if url.startswith("sqlite"):
        path = Path(url.partition(":///")[2])
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(LEDGER, path)
    else:
        _load(url)


def _load(url: str) -> None:
    dump = json.loads(DUMP.read_text(encoding="utf-8"))
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for statement in dump["postgresql"]:
            connection.exec_driver_sql(statement)
        tables = _tables(connection)
        for name, rows in dump["rows"].items():
            table = tables[name]
            connection.execute(table.insert(), [_from_json(row) for row in rows])
            if "seq" in table.c:
                last = max(row["seq"] for row in rows)
                sequence = sa.func.pg_get_serial_sequence(name, "seq")
                connection.execute(sa.select(sa.func.setval(sequence, last)))
    engine.dispose()


def _from_json(row: dict[str, Any]) -> dict[str, Any]:
    return {
        key: base64.b64decode(value["base64"]) if isinstance(value, dict) else value
        for key, value in row.items()
    }


def _tables(connection: sa.Connection) -> dict[str, sa.Table]:
    found = sa.MetaData()
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


def as_newest(dump: Dump, *copies: Path) -> Dump:
    """What an upgrade that left these copies makes of all rows of version 1."""
    expected = {name: [dict(row) for row in rows] for name, rows in dump.items()}
    for row in expected["memories"]:
        row["identity_hash"] = row.pop("arrival")
    for row in expected["distinct_pairs"]:
        row["by"] = BY[row["reason"]]
    for row in expected["decisions"]:
        before = json.loads(row["before"])
        for image in before["rows"].values():
            if image is not None:
                image["identity_hash"] = image.pop("arrival")
        row |= {"before": before, "cosine": None, "verified": None}
    for row in expected["turns"]:
        row["heard_at"] = 0.0
    users = {row["id"]: row["user"] for row in expected["memories"] if row["text_key"]}
    held = []
    for row in expected["episodes"]:
        ids = json.loads(row.pop("memory_ids"))
        owners = {users[name] for name in ids if name in users}
        row["user"] = owners.pop() if len(owners) == 1 else None
        held += [
            {"episode_id": row["id"], "memory_id": name, "position": position}
            for position, name in enumerate(ids)
        ]
    for row in expected["meta"]:
        if row["key"] == "schema_version":
            row["value"] = NEWEST
    last = max(row["seq"] for row in expected["turns"])
    expected["meta"].append({"key": "last_turn_with_defaults", "value": str(last)})
    expected["meta"].append(
        {"key": "upgrade_copies", "value": json.dumps([str(copy) for copy in copies])}
    )
    fresh: Dump = {"attempts": [], "items": [], "leases": [], "readings": []}
    fresh["episode_memories"] = held
    return comparable(expected | fresh)


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

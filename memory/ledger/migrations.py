"""The step that upgrades a ledger of the previous schema, on SQLite and PostgreSQL.

The step changes tables by statements of its own, but makes keys, times and search terms by the
present rules, which may change later. A process that still runs the previous version fails at its
next write after the step, because it checks the schema's version before each write.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from itertools import count
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memory.errors import LedgerError
from memory.ledger import tables as t
from memory.ledger.database import Database, SqliteDatabase
from memory.ledger.search_data import fill_terms
from memory.runtime import replacing_alone
from memory.text import dated_key, periods, text_key, text_of, to_json

PREVIOUS = "8"
"""The only earlier schema that this version can upgrade."""
UNFINISHED = "9 without all its columns"
"""What `stored_version` calls a ledger of schema 9 that an unreleased commit made."""
OLDER = (PREVIOUS, UNFINISHED)
_VERSION = t.meta.c.key == "schema_version"
UPGRADE_COPIES = "upgrade_copies"
"""Key in the table `meta` for the paths of copies made before upgrades.

A copy still contains memories that are forgotten later, so a user may want to delete the copy.
"""
_NOTE = t.meta.c.key == UPGRADE_COPIES


def version_of(connection: Connection) -> str | None:
    return stored_version(connection) if sa.inspect(connection).has_table(t.meta.name) else None


def stored_version(connection: Connection) -> str | None:
    """Return the stored schema version, or `UNFINISHED`. The table `meta` must exist."""
    version = connection.scalar(sa.select(t.meta.c.value).where(_VERSION))
    return UNFINISHED if version == t.SCHEMA_VERSION and _missing(connection) else version


def _missing(connection: Connection) -> list[tuple[str, str, str]]:
    """Return the columns of `_NEW_COLUMNS` that the ledger does not have."""
    have = {
        table: connection.exec_driver_sql(f"SELECT * FROM {table} LIMIT 0").keys()  # noqa: S608
        for table in {table for table, _, _ in _NEW_COLUMNS}
    }
    return [new for new in _NEW_COLUMNS if new[1] not in have[new[0]]]


def make_schema(connection: Connection) -> None:
    if not sa.inspect(connection).has_table(t.meta.name):
        t.schema.create_all(connection)
        connection.execute(t.counter.insert().values(value=0))
        connection.execute(t.meta.insert().values(key="schema_version", value=t.SCHEMA_VERSION))


def upgrade(database: Database, keep_copy: Callable[[], Path]) -> Path | None:
    """Copy a ledger of a schema in `OLDER`, upgrade it, and return the copy's path.

    If the ledger has another schema, do nothing and return None. `keep_copy` makes the copy and
    returns its path. Copy and upgrade are one transaction, so no process can write in between.

    Raises: LedgerError if the copy or the step fails. The ledger is unchanged then.
    """
    with database.writing() as connection:
        if stored_version(connection) not in OLDER:
            return None
        copy = keep_copy()
        files = json.dumps([*noted_copies(connection), str(copy)])
        connection.execute(t.meta.delete().where(_NOTE))
        connection.execute(t.meta.insert().values(key=UPGRADE_COPIES, value=files))
        _to_9(connection)
        connection.execute(t.meta.update().where(_VERSION).values(value=t.SCHEMA_VERSION))
    return copy


_NEW_COLUMNS = (
    ("memories", "said", "TEXT"),
    ("memories", "when", "TEXT NOT NULL DEFAULT ''"),
    ("memories", "until", "TEXT"),
    ("memories", "expires_at", "TEXT"),
    ("decisions", "refused", "TEXT NOT NULL DEFAULT ''"),
    ("items", "ttl_minutes", "FLOAT"),
    ("items", "expires_at", "TEXT"),
)
"""The table, name and type of each column that schema 8 does not have."""


def _to_9(connection: Connection) -> None:
    """Add when each memory was said, the periods of its text, and what a decision refused.

    The time of a stored memory is that of its text, since texts were never changed in place without
    their time. Also index verdicts by the texts in their keys, to which dates are added, renew the
    keys and search terms of all texts again, and delete a note that only schemas before 8 needed,
    and what undone decisions had saved.

    What a ledger of schema 9 has already stays as it is.
    """
    connection.exec_driver_sql("DELETE FROM meta WHERE key = 'last_turn_with_defaults'")
    connection.exec_driver_sql(
        """UPDATE decisions SET before = '{"rows": {}, "links": []}' """
        "WHERE undone AND action <> 'keep_both'"
    )
    for table, column, kind in _missing(connection):
        connection.exec_driver_sql(f'ALTER TABLE {table} ADD COLUMN "{column}" {kind}')
        if column == "said":
            connection.exec_driver_sql("UPDATE memories SET said = timestamp WHERE content <> ''")
    for table in ("memories", "items"):
        connection.exec_driver_sql(
            f"CREATE INDEX IF NOT EXISTS ix_{table}_expires_at ON {table} (expires_at) "
            "WHERE expires_at IS NOT NULL"
        )
    for column, index, columns in (
        (
            "distinct_pairs_low_key",
            "distinct_pairs_low_text",
            "distinct_pairs (substr(low_key, 1, 32))",
        ),
        (
            "distinct_pairs_high_key",
            "distinct_pairs_high_text",
            "distinct_pairs (substr(high_key, 1, 32))",
        ),
        ("readings_text_key", "readings_text", "readings (substr(text_key, 1, 32))"),
    ):
        connection.exec_driver_sql(f"DROP INDEX IF EXISTS ix_{column}")
        connection.exec_driver_sql(f"CREATE INDEX IF NOT EXISTS ix_{index} ON {columns}")
    _renew_text_keys(connection)
    connection.exec_driver_sql("DELETE FROM postings")
    connection.exec_driver_sql("DELETE FROM term_lists")
    connection.exec_driver_sql("DELETE FROM term_totals")
    fill_terms(connection)
    resolve_times(connection)


def _renew_text_keys(connection: Connection) -> None:
    """Compute the keys of all texts with the present rule, and move what is stored by key.

    Texts that had one key may have two now: "the turkey" and "the Turkey". What was stored by the
    old key then holds for each of them.
    """
    rows = connection.exec_driver_sql(
        "SELECT DISTINCT text_key, content FROM memories WHERE content <> ''"
    ).all()
    keys = [
        {"old": row.text_key, "new": text_key(row.content), "content": row.content} for row in rows
    ]
    stay = {key["old"] for key in keys if key["old"] == key["new"]}
    keys = [key for key in keys if key["old"] != key["new"]]
    if not keys:
        return
    gone = [{"old": old} for old in sorted({key["old"] for key in keys} - stay)]
    connection.execute(
        sa.text("UPDATE memories SET text_key = :new WHERE text_key = :old AND content = :content"),
        keys,
    )
    for copy, delete in _BY_TEXT_KEY:
        connection.execute(sa.text(copy), keys)
        if gone:
            connection.execute(sa.text(delete), gone)
    connection.exec_driver_sql(
        "UPDATE attempts SET low_key = high_key, high_key = low_key WHERE low_key > high_key"
    )


_BY_TEXT_KEY = tuple(
    (
        f"INSERT INTO {table} ({column}, {others}) SELECT :new, {others} FROM {table} "  # noqa: S608 - only the names below
        f"WHERE {column} = :old ON CONFLICT DO NOTHING",
        f"DELETE FROM {table} WHERE {column} = :old",  # noqa: S608
    )
    for table, column, others in (
        ("vectors", "text_key", "vector"),
        ("readings", "text_key", "scope, model, thorough"),
        ("distinct_pairs", "low_key", 'scope, high_key, reason, "by"'),
        ("distinct_pairs", "high_key", 'scope, low_key, reason, "by"'),
        ("attempts", "low_key", "scope, high_key, model, attempts, next_at"),
        ("attempts", "high_key", "scope, low_key, model, attempts, next_at"),
    )
)
"""Statements that copy what is stored by a key to a new key, and that delete it."""


def resolve_times(connection: Connection) -> None:
    """Compute the column `when` of all memories with the present tables of time words.

    Verdicts and the record of texts that a model has read stay with the dates of the only memory
    that has the text. If several memories have it, a model's verdict on it no longer counts,
    because it is not known which of them the model saw. A person's verdict without dates counts for
    all of them.
    """
    rows = connection.exec_driver_sql(
        """SELECT id, text_key, content, said, "when" FROM memories WHERE content <> ''"""
    ).all()
    changed, moves = list[dict[str, str]](), set[tuple[str, str]]()
    for row in rows:
        found = periods(row.content, row.said and datetime.fromisoformat(row.said))
        when = to_json(found) if found else ""
        moves.add((dated_key(row.text_key, row.when), dated_key(row.text_key, when)))
        if when != row.when:
            changed.append({"id": row.id, "when": when})
    old, new = (Counter(keys) for keys in zip(*moves, strict=True)) if moves else (Counter(),) * 2
    moved = [
        {"old": a, "text": text_of(a), "new": b}
        for a, b in sorted(moves)
        if a != b and old[a] == new[b] == 1
    ]
    for statement, values in (
        ('UPDATE memories SET "when" = :when WHERE id = :id', changed),
        (_MOVE.format("readings", "text_key"), moved),
        (_MOVE.format("distinct_pairs", "low_key") + _UNLESS_UNDATED, moved),
        (_MOVE.format("distinct_pairs", "high_key") + _UNLESS_UNDATED, moved),
    ):
        if values:
            connection.execute(sa.text(statement), values)
    connection.exec_driver_sql(
        "UPDATE distinct_pairs SET low_key = high_key, high_key = low_key WHERE low_key > high_key"
    )


_MOVE = "UPDATE {0} SET {1} = :new WHERE substr({1}, 1, 32) = :text AND {1} = :old"
_UNLESS_UNDATED = """ AND ("by" <> 'person' OR :old <> :text)"""


# --- the copy of an upgrade -----------------------------------------------------------------------


def copy_before_upgrade(database: Database, folder: Path) -> Path:
    """Copy a ledger before its upgrade, and return the path of the copy.

    The copy of a SQLite ledger lies next to the ledger. The copy of a PostgreSQL ledger lies in
    `folder`. A copy's name is, for example, `ledger.db.before-9-1`, where 9 is the schema after the
    upgrade. The last number is the lowest that gives an unused name.

    Raises: LedgerError. An unfinished copy is deleted then.
    """
    ledger = database.file or folder.absolute() / "ledger.db"
    stem = f"{ledger.name}.before-{t.SCHEMA_VERSION}"
    names = (ledger.with_name(f"{stem}-{number}") for number in count(1))
    file = next(name for name in names if not name.exists())
    try:
        with replacing_alone(file) as part:
            copy_as_it_is(database, part)
    except OSError as exc:
        raise LedgerError(f"no copy can be written to {file}: {exc.strerror}") from exc
    return file


def copy_as_it_is(database: Database, file: Path) -> None:
    with contextlib.closing(SqliteDatabase(file, create=True)) as target:
        database.copy_into(target)


def noted_copies(connection: Connection) -> list[str]:
    noted = connection.scalar(sa.select(t.meta.c.value).where(_NOTE))
    return [] if noted is None else list(json.loads(noted))

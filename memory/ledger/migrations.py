"""Steps that upgrade an older ledger, one schema version each, on SQLite and PostgreSQL.

Each step is one transaction. It uses SQL and table definitions of its own, and nothing from
`tables`, which changes later. A process of the previous version that is still running must fail at
its next write: versions from 2 on check the schema's version before each write, and step 2 makes
version 1 fail.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memory.errors import LedgerError
from memory.ledger import tables as t
from memory.ledger.database import Database
from memory.ledger.rekeying import replace_text_keys
from memory.ledger.sqlite import SqliteDatabase
from memory.ledger.terms import fill_terms
from memory.runtime import replacing_alone

_PAGE = 1_000
_VERSION = t.meta.c.key == "schema_version"
UPGRADE_COPIES = "upgrade_copies"
"""Key in the table `meta` for the paths of copies that were made before upgrades.

A copy still contains memories that are forgotten later, so a user may want to delete it.
"""
_NOTE = t.meta.c.key == UPGRADE_COPIES


def version_of(connection: Connection) -> str | None:
    """Return the schema's version; None if the database has no tables."""
    return stored_version(connection) if sa.inspect(connection).has_table(t.meta.name) else None


def stored_version(connection: Connection) -> str | None:
    """Return the recorded schema version of a database that has tables; None if none is recorded.

    It is cheap enough to be called at every write.
    """
    return connection.scalar(sa.select(t.meta.c.value).where(_VERSION))


def make_schema(connection: Connection) -> None:
    """Create the tables of the current version, unless the database has tables already."""
    if not sa.inspect(connection).has_table(t.meta.name):
        t.schema.create_all(connection)
        connection.execute(t.counter.insert().values(value=0))
        connection.execute(t.meta.insert().values(key="schema_version", value=t.SCHEMA_VERSION))


def upgrade(database: Database, keep_copy: Callable[[str], Path]) -> Path | None:
    """Upgrade the ledger to the current schema, after copying it. Return the copy's path.

    `keep_copy` makes the copy and returns its path. Its argument is the schema version after the
    first step. No process can write between the copy and the first step. If the schema is current,
    `keep_copy` is not called, and the result is None.

    Raises: LedgerError if a step fails. Steps completed before that stay applied.
    """
    copy: Path | None = None
    while True:
        with database.writing() as connection:
            found = stored_version(connection)
            if found is None or found not in STEPS:
                return copy
            following = str(int(found) + 1)
            if copy is None:
                copy = keep_copy(following)
                files = json.dumps([*noted_copies(connection), str(copy)])
                connection.execute(t.meta.delete().where(_NOTE))
                connection.execute(t.meta.insert().values(key=UPGRADE_COPIES, value=files))
            STEPS[found](connection)
            connection.execute(t.meta.update().where(_VERSION).values(value=following))


# --- the copy of an upgrade -----------------------------------------------------------------------


def copy_before(version: str, database: Database, folder: Path) -> Path:
    """Copy a ledger before its upgrade to `version`, and return the path of the copy.

    For version 2, the copy is named `ledger.db.before-2-1`; if that exists, the last number is
    raised. The copy of a SQLite ledger lies next to it. The copy of a PostgreSQL ledger lies in
    `folder`. If copying fails, no file is left.

    Raises: LedgerError.
    """
    ledger = database.file_in(folder)
    names = (ledger.with_name(f"{ledger.name}.before-{version}-{number}") for number in count(1))
    file = next(name for name in names if not name.exists())
    try:
        with replacing_alone(file) as part:
            copy_as_it_is(database, part)
    except OSError as exc:
        raise LedgerError(f"no copy can be written to {file}: {exc.strerror}") from exc
    return file


def copy_as_it_is(database: Database, file: Path) -> None:
    """Copy the committed state into a new SQLite ledger with the same schema version.

    Raises: LedgerError.
    """
    with contextlib.closing(SqliteDatabase(file, create=True)) as target:
        database.copy_into(target, list(t.schema.tables))


def noted_copies(connection: Connection) -> list[str]:
    """Return the paths of the copies that were made before upgrades, oldest first."""
    noted = connection.scalar(sa.select(t.meta.c.value).where(_NOTE))
    return [] if noted is None else list(json.loads(noted))


# --- the steps ----------------------------------------------------------------------------------


_WORDS: Mapping[str, Mapping[str, str]] = {
    "sqlite": {
        "$seq": "INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT",
        "$blob": "BLOB",
        "$keyed": " WITHOUT ROWID",
    },
    "postgresql": {"$seq": "SERIAL PRIMARY KEY", "$blob": "BYTEA", "$keyed": ""},
}
"""The SQL that each placeholder in a step's statements stands for, by database."""


def _execute(connection: Connection, statements: Sequence[str]) -> None:
    for statement in statements:
        for placeholder, word in _WORDS[connection.dialect.name].items():
            statement = statement.replace(placeholder, word)
        connection.exec_driver_sql(statement)


def _to_2(connection: Connection) -> None:
    """Rename the column `arrival` to `identity_hash`; add the tables `attempts` and `leases`.

    Also add columns to `decisions`, `distinct_pairs` and `turns`. A running process of version 1
    fails from now on, because it still uses the column `arrival`.
    """
    _execute(connection, _TO_2)
    _rename_in_images(connection, "arrival", "identity_hash")


_TO_2 = (
    # Early ledgers of version 1 had no episodes.
    "CREATE TABLE IF NOT EXISTS episodes (seq $seq, id TEXT NOT NULL UNIQUE, "
    "summary TEXT NOT NULL, memory_ids TEXT NOT NULL, start_time TEXT NOT NULL, "
    "end_time TEXT NOT NULL, importance INTEGER NOT NULL)",
    "ALTER TABLE memories RENAME COLUMN arrival TO identity_hash",
    "DROP INDEX ix_memories_arrival",
    "CREATE INDEX ix_memories_identity_hash ON memories (identity_hash)",
    'CREATE TABLE judged_pairs (scope TEXT NOT NULL, low_key TEXT NOT NULL, '
    'high_key TEXT NOT NULL, reason TEXT NOT NULL, "by" TEXT NOT NULL, '
    "PRIMARY KEY (scope, low_key, high_key))",
    "INSERT INTO judged_pairs SELECT scope, low_key, high_key, reason, CASE "
    "WHEN reason = 'kept by a person' THEN 'person' "
    "WHEN reason IN ('values conflict', 'said in one text') THEN 'offline' "
    "ELSE 'model' END FROM distinct_pairs",
    "DROP TABLE distinct_pairs",
    "ALTER TABLE judged_pairs RENAME TO distinct_pairs",
    "CREATE TABLE attempts (scope TEXT NOT NULL, low_key TEXT NOT NULL, high_key TEXT NOT NULL, "
    "model TEXT NOT NULL, attempts INTEGER NOT NULL, next_at TEXT, "
    "PRIMARY KEY (scope, low_key, high_key))",
    "ALTER TABLE decisions ADD COLUMN cosine FLOAT",
    "ALTER TABLE decisions ADD COLUMN verified TEXT",
    "CREATE TABLE leases (conversation TEXT NOT NULL PRIMARY KEY, token TEXT NOT NULL, "
    "holder TEXT NOT NULL, expires_at FLOAT NOT NULL)",
    "ALTER TABLE turns ADD COLUMN heard_at FLOAT DEFAULT 0 NOT NULL",
    "CREATE INDEX ix_turns_told ON turns (conversation) WHERE turn IS NOT NULL",
)  # fmt: skip


def _rename_in_images(connection: Connection, old: str, new: str) -> None:
    """Rename a column of `memories` in the saved states that undo restores."""
    decisions = sa.table("decisions", sa.column("seq"), sa.column("before"))
    naming = sa.select(decisions).where(decisions.c.before.contains(f'"{old}"'))
    for row in connection.execute(naming).all():
        before: dict[str, Any] = json.loads(row.before)
        before["rows"] = {
            name: columns and {new if key == old else key: columns[key] for key in columns}
            for name, columns in before["rows"].items()
        }
        changed = decisions.update().where(decisions.c.seq == row.seq)
        connection.execute(changed.values(before=json.dumps(before)))


_TO_3 = (
    "CREATE TABLE items (id TEXT NOT NULL PRIMARY KEY, namespace TEXT NOT NULL, "
    "key TEXT NOT NULL, value TEXT NOT NULL, memory_id TEXT, created_at TEXT NOT NULL, "
    "updated_at TEXT NOT NULL)",
    "CREATE INDEX ix_items_namespace ON items (namespace)",
    "CREATE INDEX ix_items_memory_id ON items (memory_id)",
)  # fmt: skip


def _to_4(connection: Connection) -> None:
    """Give episodes an owner and a table of their memories, and index the decisions of a person.

    The owner is the user of the episode's memories, if they all have the same user. If one of the
    memories was forgotten, the summary may still contain what it said. In this case, the summary is
    erased, and the episode gets no owner.
    """
    _execute(connection, _TO_4)
    names = ("id", "memory_ids", "user", "summary")
    episodes = sa.table("episodes", *(sa.column(name) for name in names))
    held = sa.table(
        "episode_memories",
        sa.column("episode_id"), sa.column("memory_id"), sa.column("position"),
    )  # fmt: skip
    for name, memory_ids in connection.execute(
        sa.select(episodes.c.id, episodes.c.memory_ids)
    ).all():
        ids = list(dict.fromkeys(json.loads(memory_ids)))
        rows = [
            {"episode_id": name, "memory_id": memory_id, "position": n}
            for n, memory_id in enumerate(ids)
        ]
        if rows:
            connection.execute(held.insert(), rows)
        changed = episodes.update().where(episodes.c.id == name)
        memories = set(_users_and_keys(connection, ids))
        users = {user for user, _ in memories}
        if any(key == "" for _, key in memories):
            connection.execute(changed.values(summary="(forgotten)"))
        elif len(users) == 1:
            connection.execute(changed.values(user=users.pop()))
    connection.exec_driver_sql("ALTER TABLE episodes DROP COLUMN memory_ids")


_TO_4 = (
    'ALTER TABLE episodes ADD COLUMN "user" TEXT',
    'CREATE INDEX ix_episodes_user ON episodes ("user")',
    "CREATE TABLE episode_memories (episode_id TEXT NOT NULL, memory_id TEXT NOT NULL, "
    "position INTEGER NOT NULL, PRIMARY KEY (episode_id, memory_id))",
    "CREATE INDEX ix_episode_memories_memory_id ON episode_memories (memory_id)",
    "CREATE INDEX ix_decisions_by_person ON decisions (seq) WHERE model = 'person'",
)  # fmt: skip


def _users_and_keys(connection: Connection, ids: list[str]) -> Iterator[tuple[str | None, str]]:
    """Yield the user and the text key of each memory in `ids`, in any order.

    A forgotten memory's key is empty. Unknown ids are left out.
    """
    memories = sa.table("memories", *(sa.column(name) for name in ("id", "user", "text_key")))
    for start in range(0, len(ids), _PAGE):
        named = memories.c.id.in_(ids[start : start + _PAGE])
        for row in connection.execute(sa.select(memories).where(named)):
            yield row.user, row.text_key


_TO_5 = (
    "CREATE TABLE readings (scope TEXT NOT NULL, text_key TEXT NOT NULL, model TEXT NOT NULL, "
    "thorough BOOLEAN NOT NULL, PRIMARY KEY (scope, text_key, model))",
    "CREATE INDEX ix_readings_text_key ON readings (text_key)",
)  # fmt: skip


def _to_7(connection: Connection) -> None:
    """Move the turns of the default conversation, which all users shared, to their speakers.

    Each speaker gets a conversation with the speaker's name. If the default conversation has only
    one human speaker, the bot's turns move to that person's conversation. Turns whose text was
    erased stay where they are, since their speaker is unknown. The number of the last turn stored
    before this step is recorded under `last_turn_with_defaults` in the table `meta`.
    """
    names = ("seq", "conversation", "name", "digest", "turn")
    turns = sa.table("turns", *(sa.column(name) for name in names))
    last = connection.scalar(sa.select(sa.func.max(turns.c.seq)))
    if last is None:
        return
    note = {"key": "last_turn_with_defaults", "value": str(last)}
    connection.execute(sa.table("meta", sa.column("key"), sa.column("value")).insert(), note)
    shared = turns.c.conversation == "default"
    rows = connection.execute(sa.select(turns).where(shared, turns.c.turn.is_not(None))).all()
    parsed = [(row, json.loads(row.turn)) for row in rows]
    people = {turn["speaker"] for _, turn in parsed if not turn["is_bot"]}
    for row, turn in parsed:
        owner = min(people) if turn["is_bot"] and len(people) == 1 else turn["speaker"]
        same = turns.c.conversation == owner, turns.c.digest == row.digest
        taken = connection.scalar(sa.select(turns.c.seq).where(*same, turns.c.name == row.name))
        moved = turns.update().where(turns.c.seq == row.seq)
        connection.execute(
            moved.values(
                conversation=owner,
                name=row.name if taken is None else f"{row.name}~{row.seq}",
                turn=json.dumps(turn | {"conversation": owner}, ensure_ascii=False),
            )
        )


def _to_8(connection: Connection) -> None:
    """Add the search terms of live memories, for ranking by words, and two missing indexes."""
    _execute(connection, _TO_8)
    fill_terms(connection)


_TO_8 = (
    "CREATE TABLE postings (owner TEXT NOT NULL, term TEXT NOT NULL, block INTEGER NOT NULL, "
    "entries $blob NOT NULL, PRIMARY KEY (owner, term, block))$keyed",
    "CREATE TABLE term_lists (memory INTEGER NOT NULL PRIMARY KEY, owner TEXT NOT NULL, "
    "terms TEXT NOT NULL)",
    "CREATE TABLE term_totals (owner TEXT NOT NULL PRIMARY KEY, memories INTEGER NOT NULL, "
    "terms BIGINT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS ix_distinct_pairs_low_key ON distinct_pairs (low_key)",
    "CREATE INDEX IF NOT EXISTS ix_distinct_pairs_high_key ON distinct_pairs (high_key)",
)  # fmt: skip


STEPS: Mapping[str, Callable[[Connection], None]] = {
    "1": _to_2,
    "2": partial(_execute, statements=_TO_3),  # items
    "3": _to_4,
    "4": partial(_execute, statements=_TO_5),  # readings of pages
    "5": replace_text_keys,
    "6": _to_7,
    "7": _to_8,
}
"""The steps, by the schema version that each of them upgrades."""

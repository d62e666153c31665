"""Steps that upgrade an older ledger, one schema version each, on SQLite and PostgreSQL.

A step uses nothing from `tables`, which changes later. A process that still runs the previous
version must fail at its next write after a step. Processes of version 2 and later fail because they
check the schema's version before each write. Processes of version 1 fail because the step to
version 2 renames a column that they use.
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
from memory.ledger.database import Database, SqliteDatabase
from memory.ledger.terms import fill_terms
from memory.runtime import replacing_alone
from memory.text import text_key

_PAGE = 1_000
_VERSION = t.meta.c.key == "schema_version"
UPGRADE_COPIES = "upgrade_copies"
"""Key in the table `meta` for the paths of copies made before upgrades.

A copy still contains memories that are forgotten later, so a user may want to delete the copy.
"""
_NOTE = t.meta.c.key == UPGRADE_COPIES


def version_of(connection: Connection) -> str | None:
    return stored_version(connection) if sa.inspect(connection).has_table(t.meta.name) else None


def stored_version(connection: Connection) -> str | None:
    """Return the stored schema version. The table `meta` must exist."""
    return connection.scalar(sa.select(t.meta.c.value).where(_VERSION))


def make_schema(connection: Connection) -> None:
    if not sa.inspect(connection).has_table(t.meta.name):
        t.schema.create_all(connection)
        connection.execute(t.counter.insert().values(value=0))
        connection.execute(t.meta.insert().values(key="schema_version", value=t.SCHEMA_VERSION))


def upgrade(database: Database, keep_copy: Callable[[str], Path]) -> Path | None:
    """Copy the ledger, upgrade it to the current schema, and return the copy's path.

    If the schema is current, no copy is made, and the result is None. `keep_copy` makes the copy
    and returns its path. Its argument is the ledger's schema version plus 1. No process can write
    between the copy and the first upgrade step.

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

    The copy of a SQLite ledger lies next to the ledger. The copy of a PostgreSQL ledger lies in
    `folder`. A copy's name is, for example, `ledger.db.before-2-1`, where 2 is `version`. The last
    number is the lowest that gives an unused name.

    Raises: LedgerError. An unfinished copy is deleted then.
    """
    ledger = database.file or folder.absolute() / "ledger.db"
    names = (ledger.with_name(f"{ledger.name}.before-{version}-{number}") for number in count(1))
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


# --- the steps ----------------------------------------------------------------------------------


_OLD = sa.MetaData()
_MEMORIES = sa.Table(
    "memories", _OLD, sa.Column("seq", sa.Integer), sa.Column("id", sa.Text),
    sa.Column("user", sa.Text), sa.Column("text_key", sa.Text), sa.Column("content", sa.Text),
)  # fmt: skip
_VECTORS = sa.Table(
    "vectors", _OLD, sa.Column("text_key", sa.Text), sa.Column("vector", sa.LargeBinary)
)
_DECISIONS = sa.Table(
    "decisions", _OLD, sa.Column("seq", sa.Integer), sa.Column("action", sa.Text),
    sa.Column("model", sa.Text), sa.Column("survivors", sa.Text), sa.Column("before", sa.Text),
    sa.Column("pending", sa.Boolean), sa.Column("undone", sa.Boolean),
)  # fmt: skip
_DISTINCT = sa.Table(
    "distinct_pairs", _OLD, sa.Column("scope", sa.Text), sa.Column("low_key", sa.Text),
    sa.Column("high_key", sa.Text), sa.Column("reason", sa.Text), sa.Column("by", sa.Text),
)  # fmt: skip
_READINGS = sa.Table("readings", _OLD, sa.Column("text_key", sa.Text))
_ATTEMPTS = sa.Table(
    "attempts", _OLD, sa.Column("low_key", sa.Text), sa.Column("high_key", sa.Text)
)
_WORDS: Mapping[str, Mapping[str, str]] = {
    "sqlite": {
        "$seq": "INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT",
        "$blob": "BLOB",
        "$keyed": " WITHOUT ROWID",
    },
    "postgresql": {"$seq": "SERIAL PRIMARY KEY", "$blob": "BYTEA", "$keyed": ""},
}


def _execute(connection: Connection, statements: Sequence[str]) -> None:
    for statement in statements:
        for placeholder, word in _WORDS[connection.dialect.name].items():
            statement = statement.replace(placeholder, word)
        connection.exec_driver_sql(statement)


def _to_2(connection: Connection) -> None:
    """Rename the column `arrival`; add tables, and columns to other tables.

    A running process of version 1 fails from now on, because it still uses the column `arrival`.
    """
    _execute(connection, _TO_2)
    c = _DECISIONS.c
    naming = sa.select(c.seq, c.before).where(c.before.contains('"arrival"'))
    for row in connection.execute(naming).all():
        before: dict[str, Any] = json.loads(row.before)
        for columns in before["rows"].values():
            if columns and "arrival" in columns:
                columns["identity_hash"] = columns.pop("arrival")
        changed = _DECISIONS.update().where(c.seq == row.seq)
        connection.execute(changed.values(before=json.dumps(before)))


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


_TO_3 = (
    "CREATE TABLE items (id TEXT NOT NULL PRIMARY KEY, namespace TEXT NOT NULL, "
    "key TEXT NOT NULL, value TEXT NOT NULL, memory_id TEXT, created_at TEXT NOT NULL, "
    "updated_at TEXT NOT NULL)",
    "CREATE INDEX ix_items_namespace ON items (namespace)",
    "CREATE INDEX ix_items_memory_id ON items (memory_id)",
)  # fmt: skip


def _to_4(connection: Connection) -> None:
    """Add an owner to each episode, a table that links episodes to memories, and indexes.

    If all memories of an episode have the same user, this user is its owner; otherwise it has none.
    If one of the memories was forgotten, the episode has no owner either, and its summary is
    erased, since it may quote that memory. One of the indexes is on the decisions of people.
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
        found = set[tuple[str | None, str]]()
        for start in range(0, len(ids), _PAGE):
            query = sa.select(_MEMORIES.c.user, _MEMORIES.c.text_key)
            page = connection.execute(query.where(_MEMORIES.c.id.in_(ids[start : start + _PAGE])))
            found.update((user, key) for user, key in page)
        users = {user for user, _ in found}
        if any(key == "" for _, key in found):
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


_TO_5 = (
    "CREATE TABLE readings (scope TEXT NOT NULL, text_key TEXT NOT NULL, model TEXT NOT NULL, "
    "thorough BOOLEAN NOT NULL, PRIMARY KEY (scope, text_key, model))",
    "CREATE INDEX ix_readings_text_key ON readings (text_key)",
)  # fmt: skip


def _to_6(connection: Connection) -> None:
    """Replace every stored text key by the one that `text_key` returns now.

    Texts with the same old key may get different new keys, such as texts with "mW" and "MW".

    - Each new key gets a copy of the old key's vector.
    - Verdicts that two texts are distinct are stored under the new keys. One pair of old keys may
      become several pairs of new keys. Then only a person's verdict is kept, for all these pairs.
    - If the key of a text changes, models are shown the text again.
    - A decision may have replaced a memory by another because the two old keys were equal. If the
      new keys differ, the decision becomes pending; a person's decision stays.
    """
    keys = _Rekeyed(connection)
    if keys.changed:
        keys.copy_vectors()
        keys.rename_distinct()
        keys.drop_readings_and_attempts()
        keys.rename_in_images()
        keys.reopen()


class _Rekeyed:
    """The memories whose text keys change. Creating the object stores their new keys.

    `changed` maps each old key that at least one memory loses to a dict. The dict counts all
    memories that had the old key: it maps each of their present keys to the number of these
    memories. A memory that keeps the old key is counted under the old key.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._was: dict[str, str] = {}
        self._is: dict[str, str] = {}
        self.changed: dict[str, dict[str, int]] = {}
        for row in self._pages(_MEMORIES, _MEMORIES.c.text_key != ""):
            new = text_key(row.content)
            if new != row.text_key:
                self._was[row.id], self._is[row.id] = row.text_key, new
                of_old = self.changed.setdefault(row.text_key, {})
                of_old[new] = of_old.get(new, 0) + 1
        named = _MEMORIES.update().where(_MEMORIES.c.id == sa.bindparam("name"))
        if self._is:
            self._connection.execute(
                named.values({"text_key": sa.bindparam("new")}),
                [{"name": name, "new": new} for name, new in self._is.items()],
            )
        for old, instead in self.changed.items():  # memories that keep a key which others lost
            query = sa.select(_MEMORIES.c.id).where(_MEMORIES.c.text_key == old)
            for name in self._connection.scalars(query):
                self._was[name] = self._is[name] = old
                instead[old] = instead.get(old, 0) + 1

    def _pages(self, table: sa.Table, *where: sa.ColumnElement[bool]) -> Iterator[Any]:
        last = 0
        while True:
            query = sa.select(table).where(table.c.seq > last, *where).order_by(table.c.seq)
            page = self._connection.execute(query.limit(_PAGE)).all()
            yield from page
            if len(page) < _PAGE:
                return
            last = page[-1].seq

    def copy_vectors(self) -> None:
        for old, instead in self.changed.items():
            vector = self._connection.scalar(
                sa.select(_VECTORS.c.vector).where(_VECTORS.c.text_key == old)
            )
            old_and_new = _VECTORS.delete().where(_VECTORS.c.text_key.in_([old, *instead]))
            self._connection.execute(old_and_new)
            if vector is not None:
                rows = [{"text_key": new, "vector": vector} for new in instead]
                self._connection.execute(_VECTORS.insert(), rows)

    def rename_distinct(self) -> None:
        pairs = _DISTINCT.c
        for row in self._connection.execute(sa.select(_DISTINCT)).all():
            if row.low_key not in self.changed and row.high_key not in self.changed:
                continue
            same_pair = sa.and_(
                pairs.scope == row.scope,
                pairs.low_key == row.low_key,
                pairs.high_key == row.high_key,
            )
            self._connection.execute(_DISTINCT.delete().where(same_pair))
            new = self._pairs(row.low_key, row.high_key)
            if row.by == "person" or len(new) == 1:
                for low, high in new:
                    keys = {"low_key": low, "high_key": high}
                    self._connection.execute(_DISTINCT.insert().values({**row._asdict(), **keys}))

    def _pairs(self, low: str, high: str) -> list[tuple[str, str]]:
        """Return the pairs of new keys that replace a pair of old keys.

        A pair of a key with itself means that a person keeps two memories with this text. If the
        key becomes several keys, a new key is paired with itself only if several memories have it.
        """
        first, second = (self.changed.get(old, {old: 1}) for old in (low, high))
        found = {(min(a, b), max(a, b)) for a in first for b in second}
        return sorted(
            (a, b) for a, b in found if low != high or a != b or first[a] > 1 or len(first) == 1
        )

    def drop_readings_and_attempts(self) -> None:
        for old in self.changed:
            self._connection.execute(_READINGS.delete().where(_READINGS.c.text_key == old))
            either = sa.or_(_ATTEMPTS.c.low_key == old, _ATTEMPTS.c.high_key == old)
            self._connection.execute(_ATTEMPTS.delete().where(either))

    def rename_in_images(self) -> None:
        for row in self._pages(_DECISIONS):
            before = json.loads(row.before)
            for columns in before["rows"].values():
                if columns and columns["text_key"]:
                    columns["text_key"] = text_key(columns["content"])
            if before.get("distinct"):
                before["distinct"] = [
                    [scope, *pair, *verdict]
                    for scope, low, high, *verdict in before["distinct"]
                    for pair in self._pairs(low, high)
                ]
            if before != json.loads(row.before):
                self._change(row.seq, before=json.dumps(before))

    def reopen(self) -> None:
        replaced = (_DECISIONS.c.action == "replace", sa.not_(_DECISIONS.c.undone))
        for row in self._pages(_DECISIONS, *replaced):
            if row.model != "person" and any(
                self._was.get(end := survivor["id"], "") == self._was.get(name)
                and self._is[end] != self._is[name]
                for survivor in json.loads(row.survivors)
                for name in survivor["stands_for"]
            ):
                self._change(row.seq, pending=True)

    def _change(self, seq: int, **values: object) -> None:
        self._connection.execute(_DECISIONS.update().where(_DECISIONS.c.seq == seq).values(values))


def _to_7(connection: Connection) -> None:
    """Move the turns of the shared conversation `default` to conversations of their speakers.

    If there is only one human speaker, the bot's turns move to that person's conversation too.
    Turns whose text was erased stay, since their speaker is unknown. `meta` records the number of
    the last turn stored before this step.
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
    "5": _to_6,
    "6": _to_7,
    "7": _to_8,
}

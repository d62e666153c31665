"""The tables of the ledger, and the conversion between rows and memories."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from memory.errors import LedgerDamaged
from memory.ledger.database import RESTORE
from memory.ledger.records import Row, ScopeValues
from memory.models import SCOPE_FIELDS, Memory, MemoryLink, Scope, scope_values
from memory.text import text_key

SCHEMA_VERSION = "8"
"""The version of the tables below. To change one, raise this number and add a migration step."""

FORGOTTEN_KEY = ""
"""The text key of a forgotten memory, whose row stays as a tombstone without its text."""

schema = sa.MetaData()

meta = sa.Table(
    "meta",
    schema,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
counter = sa.Table("revision", schema, sa.Column("value", sa.BigInteger, nullable=False))
memories = sa.Table(
    "memories",
    schema,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("id", sa.Text, nullable=False, unique=True),
    sa.Column("revision", sa.BigInteger, nullable=False, default=0, index=True),
    sa.Column("live", sa.Boolean, nullable=False),
    sa.Column("successor_id", sa.Text, index=True),
    sa.Column("text_key", sa.Text, nullable=False, index=True),
    sa.Column("identity_hash", sa.Text, nullable=False, index=True),
    sa.Column("external_id", sa.Text),
    sa.Column("content", sa.Text, nullable=False),
    sa.Column("user", sa.Text, index=True),
    sa.Column("category", sa.Text, nullable=False),
    sa.Column("intensity", sa.Float, nullable=False),
    sa.Column("importance", sa.Integer, nullable=False),
    sa.Column("emotion", sa.Text, nullable=False),
    sa.Column("tags", sa.Text, nullable=False),
    sa.Column("is_private", sa.Boolean, nullable=False),
    sa.Column("timestamp", sa.Text, nullable=False),
    sa.Column("merged_from", sa.Text, nullable=False),
    sa.Column("metadata", sa.Text, nullable=False),
    sqlite_autoincrement=True,
)
vectors = sa.Table(
    "vectors",
    schema,
    sa.Column("text_key", sa.Text, primary_key=True),
    sa.Column("vector", sa.LargeBinary, nullable=False),
)
links = sa.Table(
    "links",
    schema,
    sa.Column("low_id", sa.Text, primary_key=True),
    sa.Column("high_id", sa.Text, primary_key=True, index=True),
    sa.Column("link_type", sa.Text, nullable=False),
    sa.Column("note", sa.Text, nullable=False),
    sa.Column("confidence", sa.Float, nullable=False),
)
decisions = sa.Table(
    "decisions",
    schema,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("run", sa.Text, index=True),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("similarity", sa.Float),
    sa.Column("cosine", sa.Float),
    sa.Column("candidates", sa.Text, nullable=False),
    sa.Column("members", sa.Text, nullable=False),
    sa.Column("survivors", sa.Text, nullable=False),
    sa.Column("before", sa.Text, nullable=False),
    sa.Column("pending", sa.Boolean, nullable=False, index=True),
    sa.Column("undone", sa.Boolean, nullable=False, default=False),
    sa.Column("model", sa.Text),
    sa.Column("verified", sa.Text),
    sa.Column("usage", sa.Text, nullable=False),
    sqlite_autoincrement=True,
)
_by_person: sa.ColumnElement[bool] = sa.literal_column("model = 'person'")
sa.Index("ix_decisions_by_person", decisions.c.seq, sqlite_where=_by_person)
mentions = sa.Table(
    "mentions",
    schema,
    sa.Column("memory_id", sa.Text, primary_key=True),
    sa.Column("decision", sa.Integer, primary_key=True),
    sa.Column("involved", sa.Boolean, nullable=False),
)
"""The memories that each decision mentions.

`involved`: true if the decision is about the memory, or if the memory is one of its results. False
if the memory was only compared with such a memory or linked to one.
"""
distinct_pairs = sa.Table(
    "distinct_pairs",
    schema,
    sa.Column("scope", sa.Text, primary_key=True),
    sa.Column("low_key", sa.Text, primary_key=True, index=True),
    sa.Column("high_key", sa.Text, primary_key=True, index=True),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("by", sa.Text, nullable=False),
)
attempts = sa.Table(
    "attempts",
    schema,
    sa.Column("scope", sa.Text, primary_key=True),
    sa.Column("low_key", sa.Text, primary_key=True),
    sa.Column("high_key", sa.Text, primary_key=True),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("next_at", sa.Text),
)
"""How often a model failed to judge a pair of texts.

`next_at`: the time from which the model may be asked about the pair again; NULL means never.
"""
readings = sa.Table(
    "readings",
    schema,
    sa.Column("scope", sa.Text, primary_key=True),
    sa.Column("text_key", sa.Text, primary_key=True, index=True),
    sa.Column("model", sa.Text, primary_key=True),
    sa.Column("thorough", sa.Boolean, nullable=False),
)
"""The texts that a model has read on a page, a question that shows it many memories at once.

`thorough`: whether it has read the text together with all its nearest neighbours.
"""
turns = sa.Table(
    "turns",
    schema,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("conversation", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("pending", sa.Boolean, nullable=False, index=True),
    sa.Column("attempts", sa.Integer, nullable=False, default=0),
    sa.Column("turn", sa.Text),
    sa.Column("candidates", sa.Text),
    sa.Column("heard_at", sa.Float, nullable=False, server_default=sa.text("0")),
    sa.UniqueConstraint("conversation", "name", "digest"),
    sqlite_autoincrement=True,
)
"""Turns of conversations.

`heard_at`: when the turn was stored, in seconds since 1970 by the database's clock. `turn`: the
turn as JSON, which is erased some time after extraction.
"""
sa.Index("ix_turns_told", turns.c.conversation, sqlite_where=turns.c.turn.is_not(None))
leases = sa.Table(
    "leases",
    schema,
    sa.Column("conversation", sa.Text, primary_key=True),
    sa.Column("token", sa.Text, nullable=False),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("expires_at", sa.Float, nullable=False),
)
"""The conversations that a process is extracting now, so that no other process does.

`token` identifies the lease. `holder` names the machine and process, for people only. `expires_at`
is in seconds since 1970 by the database's clock.
"""
episodes = sa.Table(
    "episodes",
    schema,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("id", sa.Text, nullable=False, unique=True),
    sa.Column("user", sa.Text, index=True),
    sa.Column("summary", sa.Text, nullable=False),
    sa.Column("start_time", sa.Text, nullable=False),
    sa.Column("end_time", sa.Text, nullable=False),
    sa.Column("importance", sa.Integer, nullable=False),
    sqlite_autoincrement=True,
)
"""Summaries, each of several memories, with the start and end of the time that they cover.

`user`: the user whom all memories of the episode are about; NULL means no owner.
"""
episode_memories = sa.Table(
    "episode_memories",
    schema,
    sa.Column("episode_id", sa.Text, primary_key=True),
    sa.Column("memory_id", sa.Text, primary_key=True, index=True),
    sa.Column("position", sa.Integer, nullable=False),
)
"""The memories of each episode, by the ids that they had when the episode was stored."""
items = sa.Table(
    "items",
    schema,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("namespace", sa.Text, nullable=False, index=True),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("value", sa.Text, nullable=False),
    sa.Column("memory_id", sa.Text, index=True),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("updated_at", sa.Text, nullable=False),
)
"""Values, each stored under a namespace and a key.

`memory_id`: the memory in which the value's text is also stored; NULL if there is none.
"""
postings = sa.Table(
    "postings",
    schema,
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("term", sa.Text, primary_key=True),
    sa.Column("block", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("entries", sa.LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
"""For each user and search term, the live memories that contain the term.

`owner` is a hash of the user, and `term` a hash of the term. `entries` holds the memories of one
block (128 rows of `memories`) in binary form.
"""
term_lists = sa.Table(
    "term_lists",
    schema,
    sa.Column("memory", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("terms", sa.Text, nullable=False),
)
"""The search terms of each live memory in `postings`, as hashes; `memory` is the row's `seq`."""
term_totals = sa.Table(
    "term_totals",
    schema,
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("memories", sa.Integer, nullable=False),
    sa.Column("terms", sa.BigInteger, nullable=False),
)
"""For each owner (the hash of a user), the number of live memories and of all terms in them."""
index_state = sa.Table(
    "index_state",
    schema,
    sa.Column("collection", sa.Text, primary_key=True),
    sa.Column("place", sa.Text, nullable=False),
    sa.Column("watermark", sa.BigInteger, nullable=False),
    sa.Column("stale", sa.Boolean, nullable=False, default=False),
)
"""How far each collection of a vector index has followed the ledger.

`watermark`: the last revision of the ledger that the collection contains. `stale`: whether the
collection may still hold vectors of forgotten memories.
"""


# --- rows and memories ----------------------------------------------------------------------------


def identity_hash(memory: Memory, external_id: str | None = None) -> str:
    """Return a hash by which a memory is recognised if it arrives a second time.

    The hash covers external id, user, privacy, time and text. `external_id`, if given, is used
    instead of the memory's own. The hashes are stored, so this function must never change.
    """
    identity = [
        external_id or memory.external_id,
        memory.user,
        memory.is_private,
        memory.timestamp.isoformat(),
        memory.content,
    ]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]


def to_columns(memory: Memory) -> dict[str, Any]:
    """Return a memory's values by column name, without its links, which are in another table."""
    return {
        **{name: getattr(memory, name) for name in _PLAIN},
        "text_key": text_key(memory.content),
        "timestamp": memory.timestamp.isoformat(),
        "tags": json.dumps(memory.tags),
        "merged_from": json.dumps(memory.merged_from),
        "metadata": json.dumps(memory.metadata),
    }


def in_scope(scope: Scope) -> list[sa.ColumnElement[bool]]:
    """Return the SQL conditions on the table `memories` that all memories in a scope meet.

    A row must meet every condition. Fields of the metadata are not covered: the caller must check
    them with `Scope.has`.
    """
    return [memories.c[name] == value for name, value in scope.values if name in SCOPE_FIELDS]


def scope_values_of(
    metadata: str, columns: Sequence[Any], fields: Collection[str] | None = None
) -> ScopeValues:
    """Return the values that decide a memory's scope, by field name.

    `metadata`: the memory's metadata as JSON. `columns`: its values of the columns SCOPE_FIELDS, in
    the order of SCOPE_FIELDS. `fields`: the metadata fields to include, or None for all.

    Raises: LedgerDamaged.
    """
    values = dict(zip(SCOPE_FIELDS, columns, strict=True))
    if metadata == "{}" if fields is None else not fields:
        return values
    with naming_damage(f"a memory of {values['user']!r}"):
        known = scope_values(json.loads(metadata))
    return values | (known if fields is None else {name: known.get(name) for name in fields})


TOMBSTONE: dict[str, Any] = {
    "live": False, "successor_id": None, "text_key": FORGOTTEN_KEY, "identity_hash": "",
    "external_id": None, "content": "", "user": None, "category": "", "emotion": "",
    "intensity": 0.0, "importance": 1, "tags": "[]", "merged_from": "[]", "metadata": "{}",
}  # fmt: skip
"""The values that a forgotten memory's columns get; its id stays."""
_PLAIN = {
    "id", "external_id", "content", "user", "category", "intensity", "importance", "emotion",
    "is_private",
}  # fmt: skip


@contextmanager
def naming_damage(of: str) -> Iterator[None]:
    """Turn errors of parsing a row in the block into LedgerDamaged.

    `of`: a name for the row, for the error message.
    """
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        raise LedgerDamaged(f"the ledger's row of {of} is damaged", RESTORE) from exc


def to_row(values: sa.RowMapping | Mapping[str, Any], links: tuple[MemoryLink, ...]) -> Row:
    """Convert a row of the table `memories`, with the memory's links, into a Row.

    Raises: LedgerDamaged.
    """
    with naming_damage(repr(values.get("id"))):
        memory = Memory.model_construct(
            **{name: values[name] for name in _PLAIN},
            timestamp=datetime.fromisoformat(values["timestamp"]),
            tags=tuple(json.loads(values["tags"])),
            merged_from=tuple(json.loads(values["merged_from"])),
            metadata=json.loads(values["metadata"]),
            linked_ids=links,
        )
    return Row(
        memory=memory,
        live=values["live"],
        successor_id=values["successor_id"],
        text_key=values["text_key"],
        identity_hash=values["identity_hash"],
        seq=values["seq"],
        revision=values["revision"],
    )

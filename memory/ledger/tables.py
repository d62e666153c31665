"""The tables of the ledger."""

from __future__ import annotations

import sqlalchemy as sa

SCHEMA_VERSION = "9"
"""The version of the tables below. `_to_9` in `migrations` makes these tables of schema 8."""

FORGOTTEN_KEY = ""

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
    sa.Column("said", sa.Text),  # with the speaker's offset; None if it is unknown
    sa.Column("when", sa.Text, nullable=False, server_default=""),  # periods as JSON, "" if none
    sa.Column("until", sa.Text),  # when a memory ceased to hold; None for all others
    sa.Column("expires_at", sa.Text),  # from when it is hidden; None if never
    sa.Column("merged_from", sa.Text, nullable=False),
    sa.Column("metadata", sa.Text, nullable=False),
    sqlite_autoincrement=True,
)
sa.Index(
    "ix_memories_expires_at",
    memories.c.expires_at,
    sqlite_where=memories.c.expires_at.is_not(None),
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
    sa.Column("refused", sa.Text, nullable=False, server_default=""),  # as JSON, "" if none
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

`involved`: true if the decision is about the memory or created the memory. False if the memory was
only compared with, or linked to, an involved memory.
"""
distinct_pairs = sa.Table(
    "distinct_pairs",
    schema,
    sa.Column("scope", sa.Text, primary_key=True),
    sa.Column("low_key", sa.Text, primary_key=True),
    sa.Column("high_key", sa.Text, primary_key=True),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("by", sa.Text, nullable=False),
)
"""Verdicts that two texts of a scope are distinct.

The keys here, in `attempts` and in `readings` are those of the texts and the dates that they mean
(`dated_key`). An index finds them by the part of the text alone (`LOW_TEXT`, `HIGH_TEXT`).
"""
LOW_TEXT: sa.ColumnElement[str] = sa.literal_column("substr(low_key, 1, 32)", sa.Text)
HIGH_TEXT: sa.ColumnElement[str] = sa.literal_column("substr(high_key, 1, 32)", sa.Text)
READ_TEXT: sa.ColumnElement[str] = sa.literal_column("substr(text_key, 1, 32)", sa.Text)
sa.Index("ix_distinct_pairs_low_text", LOW_TEXT, _table=distinct_pairs)
sa.Index("ix_distinct_pairs_high_text", HIGH_TEXT, _table=distinct_pairs)
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

`next_at`: when the model may be asked again; NULL means never.
"""
readings = sa.Table(
    "readings",
    schema,
    sa.Column("scope", sa.Text, primary_key=True),
    sa.Column("text_key", sa.Text, primary_key=True),
    sa.Column("model", sa.Text, primary_key=True),
    sa.Column("thorough", sa.Boolean, nullable=False),
)
sa.Index("ix_readings_text", READ_TEXT, _table=readings)
"""The texts that each model has read on a page.

A page is a question that shows a model many memories. `thorough`: whether the model has read the
text together with all its nearest neighbours.
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
"""Turns of conversations. `heard_at`: when the turn was stored, by the database's clock.

`turn`: the turn as JSON, which is erased some time after extraction.
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
"""Conversations from which a process is extracting memories; no other process may do so.

`holder` names the machine and process, for people only. `expires_at` is in seconds since 1970 by
the database's clock.
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
episode_memories = sa.Table(
    "episode_memories",
    schema,
    sa.Column("episode_id", sa.Text, primary_key=True),
    sa.Column("memory_id", sa.Text, primary_key=True, index=True),
    sa.Column("position", sa.Integer, nullable=False),
)
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
    sa.Column("ttl_minutes", sa.Float),  # for which it is kept after an access; None for ever
    sa.Column("expires_at", sa.Text),  # when it is deleted; None if never
)
sa.Index(
    "ix_items_expires_at",
    items.c.expires_at,
    sqlite_where=items.c.expires_at.is_not(None),
)
postings = sa.Table(
    "postings",
    schema,
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("term", sa.Text, primary_key=True),
    sa.Column("block", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("entries", sa.LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
"""For each user and term (word), the live memories that contain the term.

`owner` is a hash of the user, and `term` a hash of the term. Each row lists the memories of one
block, a range of 128 values of `memories.seq`. `entries` is this list, in binary form.
"""
term_lists = sa.Table(
    "term_lists",
    schema,
    sa.Column("memory", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("terms", sa.Text, nullable=False),
)
"""The hashed terms (words) of each live memory.

`memory` is the memory's number in the column `memories.seq`.
"""
term_totals = sa.Table(
    "term_totals",
    schema,
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("memories", sa.Integer, nullable=False),
    sa.Column("terms", sa.BigInteger, nullable=False),
)
"""For each hashed user, the number of live memories and of all terms in them."""
index_state = sa.Table(
    "index_state",
    schema,
    sa.Column("collection", sa.Text, primary_key=True),
    sa.Column("place", sa.Text, nullable=False),
    sa.Column("watermark", sa.BigInteger, nullable=False),
    sa.Column("stale", sa.Boolean, nullable=False, default=False),
)
"""How far each collection (a vector index stored at `place`) has followed the ledger.

`watermark`: the last revision that the collection contains. `stale`: whether it may still hold
vectors of forgotten memories.
"""

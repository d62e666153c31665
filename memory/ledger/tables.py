"""The tables of the ledger, and what all SQL on them needs.

Statements are compiled once; `among` and `by_time` are conditions; a `Transaction` counts what it
writes.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import namedtuple
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import Connection, Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator

from memory.errors import LedgerDamaged
from memory.models import SCOPE_FIELDS, Scope, scope_values

SCHEMA_VERSION = "9"
"""The version of the tables below. `_to_9` in `migrations` makes these tables of schema 8."""

FORGOTTEN_KEY = ""
RESTORE = "restore a backup with `memory-dedup store restore`, or set memory.data_dir elsewhere"
ScopeValues = Mapping[str, Any]
"""A memory's values in the fields that can define a scope, by field name."""

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


# --- statements that are compiled once ------------------------------------------------------------

Statement = sa.Select[Any] | sa.Insert | sa.Update


class Prepared:
    """A statement that is compiled once for each kind of database, to save time.

    The driver executes it directly, in about 10 µs on SQLite instead of 80 µs through SQLAlchemy.
    One write to the ledger executes about thirty statements.
    """

    def __init__(self, statement: Statement | Callable[[str], Statement]) -> None:
        """Prepare a statement, which is compiled at its first execution.

        `statement`: it may be a function that returns the statement for a kind of database, such
        as "sqlite". Each row given to an INSERT must have a value for every column except `seq`.
        """
        self._statement = statement
        self._compiled: dict[str, _Compiled] = {}

    def rows(self, connection: Connection, **values: Any) -> list[Any]:
        """Execute a query and return its rows as named tuples. `values`: its parameters."""
        cursor = self.run(connection, [values])
        compiled = self._compiled[connection.dialect.name]
        if compiled.row is None:
            compiled.read_columns(cursor.description, connection.dialect)
        found: list[Any] = cursor.fetchall()
        if compiled.readers:
            found = [list(row) for row in found]
            for position, read in compiled.readers:
                for row in found:
                    row[position] = read(row[position])
        return [compiled.row(row) for row in found]

    def pages(
        self, connection: Connection, size: int, **values: Any
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Execute a query and yield its rows in lists of at most `size` rows.

        The values are as the driver returns them, without SQLAlchemy's conversions. On PostgreSQL,
        unread rows stay on the server.
        """
        with contextlib.closing(self.run(connection, [values], streamed=True)) as cursor:
            while page := cursor.fetchmany(size):
                yield page

    def run(
        self,
        connection: Connection,
        rows: Sequence[Mapping[str, Any]],
        *,
        streamed: bool = False,
    ) -> Any:
        """Execute the statement once for each row of parameters, and return the driver's cursor.

        With `streamed`, rows that are not read yet stay on a PostgreSQL server.

        Raises: KeyError if a parameter is missing.
        """
        compiled = self._compiled.get(connection.dialect.name)
        if compiled is None:
            statement, name = self._statement, connection.dialect.name
            statement = statement(name) if callable(statement) else statement
            compiled = self._compiled[name] = _Compiled(statement, connection.dialect)
        parameters: list[Any] = []
        for row in rows:
            values = {**compiled.fixed, **row}
            for name, write in compiled.writers:
                values[name] = write(values[name])
            if compiled.is_positional:
                parameters.append(tuple(values[name] for name in compiled.names))
            else:
                parameters.append({name: values[name] for name in compiled.names})
        many = len(rows) != 1
        given = parameters if many else parameters[0]
        on_server = streamed and connection.dialect.name == "postgresql"
        cursor = connection.connection.cursor(
            **{"name": f"pages_{uuid4().hex}"} if on_server else {}
        )
        if listeners := connection.dispatch.before_cursor_execute:
            listeners(connection, cursor, compiled.text, given, None, many)
        (cursor.executemany if many else cursor.execute)(compiled.text, given)
        return cursor


class _Compiled:
    def __init__(self, statement: Statement, dialect: Dialect) -> None:
        keys = None
        if isinstance(statement, sa.Insert):
            keys = [column.key for column in statement.table.c if column.key != "seq"]
        compiled = statement.compile(dialect=dialect, column_keys=keys)
        self.text = str(compiled)
        binds = {name: bind for bind, name in compiled.bind_names.items()}
        self.is_positional = bool(compiled.positional)
        self.names = list(compiled.positiontup or binds)
        self.fixed = {
            name: value for name, value in compiled.params.items() if not binds[name].required
        }
        writers = {
            name: bind.type.dialect_impl(dialect).bind_processor(dialect)
            for name, bind in binds.items()
        }
        self.writers = [(name, write) for name, write in writers.items() if write is not None]
        columns = statement.selected_columns if isinstance(statement, sa.Select) else ()
        self._types = [column.type.dialect_impl(dialect) for column in columns]
        self.readers: list[tuple[int, Callable[[Any], Any]]] = []
        self.row: Any = None  # makes a named tuple of a row's values; set at the first execution

    def read_columns(self, columns: Sequence[Sequence[Any]], dialect: Dialect) -> None:
        readers = [
            kind.result_processor(dialect, column[1])
            for kind, column in zip(self._types, columns, strict=True)
        ]
        self.readers = [(n, read) for n, read in enumerate(readers) if read is not None]
        make: Any = namedtuple
        self.row = make("Found", [column[0] for column in columns])._make


# --- `column IN (...)` with any number of values in one parameter ---------------------------------

_NEVER_STORED = re.compile("[\0\ud800-\udfff]")
"""Characters that no stored text contains.

PostgreSQL refuses them, and SQLite's JSON functions stop reading at NUL.
"""


class among(FunctionElement[bool]):  # noqa: N801 - read as the operator that it is
    """SQL condition that a text column has one of these values, passed as a single parameter.

    `column.in_()` uses a parameter for each value, and databases refuse more than about 32,000.
    """

    type = sa.Boolean()
    inherit_cache = True

    def __init__(self, column: sa.ColumnElement[Any], texts: str | Collection[str]) -> None:
        """Make the condition that `column` has one of the values `texts`.

        `texts` may also be the name of a parameter that receives the values at execution.
        """
        if isinstance(texts, str):
            values = sa.bindparam(texts, type_=_Texts())
        else:
            values = sa.bindparam("texts", texts, type_=_Texts(), unique=True)
        super().__init__(column, values)

    def self_group(self, against: Any = None) -> Any:  # noqa: ARG002 - whatever it stands in
        """Return the condition unchanged.

        By default, SQLAlchemy would compare it with 1, and the database would use no index.
        """
        return self


class _Texts(TypeDecorator[Collection[str]]):
    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: Collection[str] | None, _dialect: Dialect) -> str:
        return json.dumps([text for text in value or () if not _NEVER_STORED.search(text)])


@compiles(among, "sqlite")
def _in_sqlite(element: among, compiler: SQLCompiler, **settings: Any) -> str:
    column, texts = (compiler.process(part, **settings) for part in element.clauses)
    return f"{column} IN (SELECT value FROM json_each({texts}))"  # noqa: S608 - no value in it


@compiles(among, "postgresql")
def _in_postgresql(element: among, compiler: SQLCompiler, **settings: Any) -> str:
    column, texts = (compiler.process(part, **settings) for part in element.clauses)
    return f"{column} = ANY (ARRAY(SELECT json_array_elements_text(CAST({texts} AS JSON))))"


class by_time(FunctionElement[str]):  # noqa: N801 - as `among`
    """A column of times as text, compared and sorted by time.

    PostgreSQL would compare it by the rules of a language.
    """

    type = sa.Text()
    inherit_cache = True


@compiles(by_time)
def _as_it_is(element: by_time, compiler: SQLCompiler, **settings: Any) -> str:
    return compiler.process(*element.clauses, **settings)


@compiles(by_time, "postgresql")
def _by_bytes(element: by_time, compiler: SQLCompiler, **settings: Any) -> str:
    return f'{compiler.process(*element.clauses, **settings)} COLLATE "C"'


# --- a transaction --------------------------------------------------------------------------------

_NOW_S = {
    "sqlite": "SELECT (julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "SELECT extract(epoch FROM clock_timestamp())",
}

_LATEST = Prepared(sa.select(counter.c.value))


@dataclass(eq=False)
class Transaction:
    """An open transaction, and the ids of the memories that it has changed.

    `touched`: ids of the memories that must get this transaction's revision. `reworded`: ids of the
    memories whose search terms may have changed. `numbered`: whether rows were already written with
    this transaction's revision.
    """

    connection: Connection
    touched: set[str] = field(default_factory=set)
    reworded: set[str] = field(default_factory=set)
    numbered: bool = False

    @property
    def dialect(self) -> str:
        return self.connection.dialect.name

    @cached_property
    def revision(self) -> int:
        """The number that this transaction gets if it writes: the latest revision plus 1."""
        found = _LATEST.rows(self.connection)
        return int(found[0].value) + 1 if found else 1

    def now_s(self) -> float:
        return float(self.connection.scalar(sa.text(_NOW_S[self.dialect])))

    def count(self, table: sa.Table, where: sa.ColumnElement[bool]) -> int:
        query = sa.select(sa.func.count()).select_from(table).where(where)
        return int(self.connection.scalar(query) or 0)

    def counted(self, query: sa.Select[Any]) -> dict[Any, int]:
        return {row[0]: row[1] for row in self.connection.execute(query)}

    def upsert(self, table: sa.Table) -> Any:
        return upsert(table, self.dialect)


def upsert(table: sa.Table, dialect: str) -> Any:
    """Return an INSERT with the methods `on_conflict_do_update` and `on_conflict_do_nothing`."""
    if dialect == "sqlite":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # 0.1 s that only a server is worth

    return postgresql.insert(table)


@dataclass(eq=False)
class TableGroup:
    _transaction: Transaction
    _connection: Connection


# --- columns that several tables use --------------------------------------------------------------


def in_scope(scope: Scope) -> list[sa.ColumnElement[bool]]:
    """Return the SQL conditions that memories in a scope meet.

    They do not cover fields of the metadata; check those with `Scope.has`.
    """
    return [memories.c[name] == value for name, value in scope.values if name in SCOPE_FIELDS]


def scope_values_of(
    metadata: str, columns: Sequence[Any], fields: Collection[str] | None = None
) -> ScopeValues:
    """Return the values that decide a memory's scope, by field name.

    `metadata`: JSON. `columns`: the values of SCOPE_FIELDS. `fields`: the metadata fields to
    include; None means all.

    Raises: LedgerDamaged.
    """
    values = dict(zip(SCOPE_FIELDS, columns, strict=True))
    if metadata == "{}" if fields is None else not fields:
        return values
    with naming_damage(f"a memory of {values['user']!r}"):
        known = scope_values(json.loads(metadata))
    return values | (known if fields is None else {name: known.get(name) for name in fields})


@contextlib.contextmanager
def naming_damage(of: str) -> Iterator[None]:
    """Raise LedgerDamaged if the block cannot parse a row; `of` describes the row."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        raise LedgerDamaged(f"the ledger's row of {of} is damaged", RESTORE) from exc

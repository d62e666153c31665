"""The record: every memory, live and retired, with vector, links and decisions. The only SQL.

A `Reader` sees one consistent state; a `Writer` is one transaction that happens wholly or not at
all. Each writing transaction takes the next revision as its last step, so revision order is commit
order, and whoever follows the ledger asks for the rows above the revision it has seen.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import sqlalchemy as sa
from pydantic import TypeAdapter
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.engine import URL, Connection, Engine, make_url

from memory.errors import LedgerError, LedgerMissing
from memory.models import (
    INVERSE_LINK,
    Action,
    Candidate,
    Decision,
    Memory,
    MemoryLink,
    Scope,
    Turn,
    Vector,
    text_key,
)

SCHEMA_VERSION = "1"
_PAGE = 2_000
_CANDIDATES = TypeAdapter(tuple[Candidate, ...])
_IN = 500
"""Values in one IN (...): far below SQLite's 32,766 variables."""

_schema = sa.MetaData()

_meta = sa.Table(
    "meta",
    _schema,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
_counter = sa.Table("revision", _schema, sa.Column("value", sa.BigInteger, nullable=False))
_memories = sa.Table(
    "memories",
    _schema,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("id", sa.Text, nullable=False, unique=True),
    sa.Column("revision", sa.BigInteger, nullable=False, default=0, index=True),
    sa.Column("live", sa.Boolean, nullable=False),
    sa.Column("successor_id", sa.Text),
    sa.Column("text_key", sa.Text, nullable=False, index=True),
    sa.Column("arrival", sa.Text, nullable=False, index=True),
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
_vectors = sa.Table(
    "vectors",
    _schema,
    sa.Column("text_key", sa.Text, primary_key=True),
    sa.Column("vector", sa.LargeBinary, nullable=False),
)
_links = sa.Table(
    "links",
    _schema,
    sa.Column("low_id", sa.Text, primary_key=True),
    sa.Column("high_id", sa.Text, primary_key=True, index=True),
    sa.Column("link_type", sa.Text, nullable=False),
    sa.Column("note", sa.Text, nullable=False),
    sa.Column("confidence", sa.Float, nullable=False),
)
_low, _high = _memories.alias("low"), _memories.alias("high")
_LIVE_LINKS = (
    sa.select(_links)
    .join(_low, sa.and_(_low.c.id == _links.c.low_id, _low.c.live))
    .join(_high, sa.and_(_high.c.id == _links.c.high_id, _high.c.live))
)
_decisions = sa.Table(
    "decisions",
    _schema,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("run", sa.Text, index=True),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("similarity", sa.Float),
    sa.Column("candidates", sa.Text, nullable=False),
    sa.Column("members", sa.Text, nullable=False),
    sa.Column("survivors", sa.Text, nullable=False),
    sa.Column("before", sa.Text, nullable=False),
    sa.Column("pending", sa.Boolean, nullable=False, index=True),
    sa.Column("undone", sa.Boolean, nullable=False, default=False),
    sa.Column("model", sa.Text),
    sa.Column("usage", sa.Text, nullable=False),
    sqlite_autoincrement=True,
)
_distinct = sa.Table(
    "distinct_pairs",
    _schema,
    sa.Column("scope", sa.Text, primary_key=True),
    sa.Column("low_key", sa.Text, primary_key=True),
    sa.Column("high_key", sa.Text, primary_key=True),
    sa.Column("reason", sa.Text, nullable=False),
)
_turns = sa.Table(
    "turns",
    _schema,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("conversation", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("pending", sa.Boolean, nullable=False, index=True),
    sa.Column("attempts", sa.Integer, nullable=False, default=0),
    sa.Column("turn", sa.Text),
    sa.Column("candidates", sa.Text),
    sa.UniqueConstraint("conversation", "name", "digest"),
    sqlite_autoincrement=True,
)
_index_state = sa.Table(
    "index_state",
    _schema,
    sa.Column("collection", sa.Text, primary_key=True),
    sa.Column("watermark", sa.BigInteger, nullable=False),
)


@dataclass(frozen=True)
class Row:
    """A memory as the ledger holds it."""

    memory: Memory
    live: bool
    successor_id: str | None
    text_key: str
    seq: int
    """Order of arrival."""
    revision: int


@dataclass(frozen=True)
class Change:
    """The current state of a row, for whoever follows; no vector where none could be made."""

    id: str
    live: bool
    values: dict[str, Any]
    """The fields a scope can be made of."""
    vector: Vector | None
    revision: int


@dataclass(frozen=True)
class Recorded:
    """A decision as the ledger holds it; `before` is the state that undo goes back to, as JSON."""

    number: int
    run: str | None
    at: datetime
    action: Action
    reason: str
    similarity: float | None
    members: tuple[str, ...]
    survivors: tuple[str, ...]
    before: str
    pending: bool
    undone: bool
    model: str | None

    @property
    def scrubbed(self) -> bool:
        """Whether a member was forgotten since."""
        return None in json.loads(self.before)["rows"].values()


@dataclass(frozen=True)
class KeptTurn:
    """A turn that waits to be extracted, under the name that makes it known again.

    `candidates` is what a model found in it, once one was asked.
    """

    seq: int
    name: str
    turn: Turn
    attempts: int
    candidates: tuple[Candidate, ...] | None


@dataclass(frozen=True)
class Counts:
    """What the ledger holds."""

    live: int
    retired: int
    users: dict[str | None, int]
    decisions: dict[str, int]
    pending: int
    turns: int
    """Turns that wait to be extracted."""


class Ledger:
    """An open ledger; `with` closes it. Safe to share between threads."""

    def __init__(self, engine: Engine, name: str) -> None:
        """Use `open` or `create`."""
        self._engine = engine
        self.name = name

    @classmethod
    def open(cls, url: str) -> Ledger:
        """An existing ledger, for reading only: nothing on disk is created or changed.

        Raises: LedgerMissing, LedgerError.
        """
        path = _sqlite_path(url)
        if not path.is_file():
            raise LedgerMissing(f"there are no memories at {path} yet", "import some first")
        ledger = cls(_engine(path, read_only=True), str(path))
        ledger._check_schema()
        return ledger

    @classmethod
    def create(cls, url: str) -> Ledger:
        """The ledger at the URL, made where there is none, for reading and writing.

        Raises: LedgerError.
        """
        path = _sqlite_path(url)
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as exc:
            raise LedgerError(
                f"the ledger {path} cannot be opened: {exc.strerror}",
                "check memory.data_dir and its permissions",
            ) from exc
        ledger = cls(_engine(path, read_only=False), str(path))
        with ledger.writing() as writer:
            writer.prepare_schema()
        ledger._check_schema()
        return ledger

    def _check_schema(self) -> None:
        with self.reading() as reader:
            version = reader.meta("schema_version") if reader.has_schema() else "none"
        if version != SCHEMA_VERSION:
            raise LedgerError(
                f"{self.name} has schema {version!r}, this version reads {SCHEMA_VERSION!r}",
                "use the version that wrote it",
            )

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """One consistent state of the ledger.

        Raises: LedgerError.
        """
        with _mapped(self.name), self._engine.connect() as connection, connection.begin():
            yield Reader(connection)

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """One transaction: committed at the end of the block, or wholly undone by an exception.

        Raises: LedgerError.
        """
        with (
            _mapped(self.name),
            self._engine.connect().execution_options(ledger_writes=True) as connection,
            connection.begin(),
        ):
            writer = Writer(connection)
            yield writer
            writer.take_revision()

    def checkpoint(self) -> None:
        """Move what the write-ahead log holds into the file, and empty the log.

        Where another process reads just then, the log is emptied by a later one.
        """
        raw = self._engine.raw_connection()
        try:
            raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            raw.close()

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Reader:
    """Questions to one state of the ledger."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def revision(self) -> int:
        """The latest committed transaction's number, 0 for a new ledger."""
        return int(self._connection.scalar(sa.select(_counter.c.value)) or 0)

    def has_schema(self) -> bool:
        """Whether the tables are there."""
        return sa.inspect(self._connection).has_table(_meta.name)

    def meta(self, key: str) -> str | None:
        """A fact about the store itself; None where it was never set."""
        return self._connection.scalar(sa.select(_meta.c.value).where(_meta.c.key == key))

    # --- memories ---

    def row(self, memory_id: str) -> Row | None:
        return self.rows([memory_id]).get(memory_id)

    def rows(self, ids: Sequence[str]) -> dict[str, Row]:
        """Live and retired, by id; unknown ids are left out."""
        found: dict[str, Row] = {}
        for some in _chunks(ids):
            query = sa.select(_memories).where(_memories.c.id.in_(some))
            found |= {row.memory.id: row for row in self._to_rows(query)}
        return found

    def all_rows(self, *, live_only: bool) -> Iterator[Row]:
        """Every memory in order of arrival, page by page."""
        last = 0
        while True:
            query = sa.select(_memories).where(_memories.c.seq > last)
            if live_only:
                query = query.where(_memories.c.live)
            page = self._to_rows(query.limit(_PAGE))
            yield from page
            if len(page) < _PAGE:
                return
            last = page[-1].seq

    def live_in_time_order(self) -> list[Row]:
        """Every live memory, oldest first: by timestamp, then by order of arrival."""
        return sorted(self.all_rows(live_only=True), key=lambda row: row.memory.timestamp)

    def live_with_text(self, key: str, scope: Scope) -> list[Row]:
        """Live memories of the scope with this normalised text, newest first."""
        query = sa.select(_memories).where(
            _memories.c.text_key == key, _memories.c.live, *_in_scope(scope)
        )
        return sorted(self._to_rows(query), key=lambda row: row.memory.timestamp, reverse=True)

    def live_in_scope_after(self, revision: int, scope: Scope) -> list[Row]:
        """Live memories of the scope that were written after the revision."""
        query = sa.select(_memories).where(
            _memories.c.revision > revision, _memories.c.live, *_in_scope(scope)
        )
        return self._to_rows(query)

    def arrived_before(self, memory: Memory) -> Row | None:
        """The row of an earlier arrival of this very memory.

        That is one with its id, about the same user, that says or once said the same; or one of
        the same external id (or none), user, privacy, time and text.
        """
        here = self.row(memory.id)
        if here is not None and self._once_said(here, memory):
            return here
        query = sa.select(_memories).where(_memories.c.arrival == _arrival_of(memory)).limit(1)
        return next(iter(self._to_rows(query)), None)

    def _once_said(self, row: Row, memory: Memory) -> bool:
        known = row.memory
        if (known.user, known.is_private) != (memory.user, memory.is_private):
            return False
        if known.content == memory.content:
            return True
        version = sa.and_(
            _memories.c.successor_id == known.id, _memories.c.content == memory.content
        )
        return bool(self._count(_memories, version))

    def ancestors(self, memory_id: str) -> list[str]:
        """Ids of every retired memory that this one stands for, directly or not."""
        found: list[str] = []
        todo = [memory_id]
        while todo:
            query = sa.select(_memories.c.id).where(_memories.c.successor_id.in_(todo[:_IN]))
            fresh = [name for name in self._connection.scalars(query) if name not in found]
            found += fresh
            todo = todo[_IN:] + fresh
        return found

    def living(self, row: Row) -> Row | None:
        """The live memory that stands for a row today; None where there is none."""
        seen: set[str] = set()
        while not row.live and row.successor_id and row.successor_id not in seen:
            seen.add(row.successor_id)
            successor = self.row(row.successor_id)
            if successor is None:
                return None
            row = successor
        return row if row.live else None

    def _to_rows(self, query: sa.Select[Any]) -> list[Row]:
        """Rows of a query on memories, in order of arrival."""
        found = self._connection.execute(query.order_by(_memories.c.seq)).mappings().all()
        links = self._links_of([row["id"] for row in found])
        return [_to_row(row, links.get(row["id"], ())) for row in found]

    def _links_of(self, ids: Sequence[str]) -> dict[str, tuple[MemoryLink, ...]]:
        ends: dict[str, list[MemoryLink]] = {}
        wanted = set(ids)
        for link in self._link_rows(ids):
            seen_from = ((link.low_id, link.high_id, False), (link.high_id, link.low_id, True))
            for source, target, inverse in seen_from:
                if source in wanted:
                    kind = INVERSE_LINK[link.link_type] if inverse else link.link_type
                    end = MemoryLink(
                        target_id=target,
                        link_type=kind,
                        note=link.note,
                        confidence=link.confidence,
                    )
                    ends.setdefault(source, []).append(end)
        return {source: tuple(found) for source, found in ends.items()}

    def _link_rows(self, ids: Sequence[str], *, dangling: bool = False) -> list[sa.Row[Any]]:
        """Links that touch these memories; the dangling ones lead to what has not arrived yet."""
        links = sa.select(_links) if dangling else _LIVE_LINKS
        found: dict[tuple[str, str], sa.Row[Any]] = {}
        for some in _chunks(ids):
            touching = sa.or_(_links.c.low_id.in_(some), _links.c.high_id.in_(some))
            for link in self._connection.execute(links.where(touching)):
                found[link.low_id, link.high_id] = link
        return [found[key] for key in sorted(found)]

    # --- vectors ---

    def vectors(self, keys: Iterable[str]) -> dict[str, Vector]:
        """Known vectors by text key; unknown ones are left out."""
        found: dict[str, Vector] = {}
        for some in _chunks(list(dict.fromkeys(keys))):
            query = sa.select(_vectors).where(_vectors.c.text_key.in_(some))
            for row in self._connection.execute(query):
                found[row.text_key] = np.frombuffer(row.vector, dtype=np.float32)
        return found

    def texts_without_vector(self) -> list[str]:
        """One text for each key that no vector is known for."""
        query = (
            sa.select(sa.func.min(_memories.c.content))
            .outerjoin(_vectors, _vectors.c.text_key == _memories.c.text_key)
            .where(_vectors.c.text_key.is_(None))
            .group_by(_memories.c.text_key)
        )
        return list(self._connection.scalars(query))

    def changes(self, after: int, limit: int | None = None) -> list[Change]:
        """The current state of the rows above a revision, lowest revision first.

        With `limit`, at least that many where there are, and never part of a revision.
        """
        above = _memories.c.revision > after
        last = None
        if limit is not None:
            at_limit = sa.select(_memories.c.revision).where(above)
            at_limit = at_limit.order_by(_memories.c.revision).offset(limit - 1).limit(1)
            last = self._connection.scalar(at_limit)
        query = (
            sa.select(_memories, _vectors.c.vector)
            .outerjoin(_vectors, _vectors.c.text_key == _memories.c.text_key)
            .where(above if last is None else sa.and_(above, _memories.c.revision <= last))
            .order_by(_memories.c.revision, _memories.c.seq)
        )
        return [_to_change(row) for row in self._connection.execute(query)]

    def lag(self, after: int) -> int:
        """How many rows are above a revision."""
        return self._count(_memories, _memories.c.revision > after)

    # --- what is known to be different ---

    def told_apart(self, scope: Scope, key: str) -> set[str]:
        """Keys of the texts that were judged to differ from this one."""
        low, high = _distinct.c.low_key, _distinct.c.high_key
        query = sa.select(low, high).where(
            _distinct.c.scope == scope.key, sa.or_(low == key, high == key)
        )
        return {a if b == key else b for a, b in self._connection.execute(query)}

    def rows_told_apart(self, scope: Scope, keys: Iterable[str]) -> int:
        """How many live memories of the scope have one of these texts."""
        among = [_memories.c.text_key.in_(some) for some in _chunks(sorted(keys))]
        inside = _in_scope(scope)
        return sum(self._count(_memories, sa.and_(_memories.c.live, one, *inside)) for one in among)

    def all_told_apart(self) -> set[tuple[str, str, str]]:
        """(scope key, lower text key, higher text key) of every pair judged different."""
        query = sa.select(_distinct.c.scope, _distinct.c.low_key, _distinct.c.high_key)
        return {(row.scope, row.low_key, row.high_key) for row in self._connection.execute(query)}

    # --- decisions ---

    def decision(self, number: int) -> Recorded | None:
        query = sa.select(_decisions).where(_decisions.c.seq == number)
        return next(iter(self._recorded_by(query)), None)

    def decisions(self, memory_id: str | None = None) -> list[Recorded]:
        """Decisions about a memory, or all but plain additions, oldest first."""
        plain = _decisions.c.action == Action.ADD.value
        wanted = sa.not_(plain) if memory_id is None else _mentions(memory_id)
        return self._recorded_by(sa.select(_decisions).where(wanted))

    def pending_decisions(self) -> list[Recorded]:
        """Decisions made for want of a model's answer, oldest first."""
        return self._recorded_by(sa.select(_decisions).where(_decisions.c.pending))

    def decisions_after(self, recorded: Recorded) -> list[int]:
        """Numbers of the later decisions that stand on what this one left."""
        involved = {*recorded.members, *recorded.survivors}
        later = sa.and_(_decisions.c.seq > recorded.number, sa.not_(_decisions.c.undone))
        about = sa.or_(*map(_mentions, involved))
        query = sa.select(_decisions).where(later, about)
        reversible = {Action.REPLACE, Action.MERGE, Action.UPDATE}
        return [one.number for one in self._recorded_by(query) if one.action in reversible]

    def _recorded_by(self, query: sa.Select[Any]) -> list[Recorded]:
        return [
            Recorded(
                number=row.seq,
                run=row.run,
                at=datetime.fromisoformat(row.at),
                action=Action(row.action),
                reason=row.reason,
                similarity=row.similarity,
                members=tuple(json.loads(row.members)),
                survivors=tuple(one["id"] for one in json.loads(row.survivors)),
                before=row.before,
                pending=row.pending,
                undone=row.undone,
                model=row.model,
            )
            for row in self._connection.execute(query.order_by(_decisions.c.seq))
        ]

    # --- turns ---

    def kept_turns(self) -> list[KeptTurn]:
        """Turns that wait to be extracted, in the order in which they were kept."""
        query = sa.select(_turns).where(_turns.c.pending).order_by(_turns.c.seq)
        return [
            KeptTurn(
                seq=row.seq,
                name=row.name,
                turn=Turn.model_validate_json(row.turn),
                attempts=row.attempts,
                candidates=_CANDIDATES.validate_json(row.candidates) if row.candidates else None,
            )
            for row in self._connection.execute(query)
        ]

    # --- the rest ---

    def counts(self) -> Counts:
        count = sa.func.count()
        live = sa.select(_memories.c.user, count).where(_memories.c.live)
        actions = sa.select(_decisions.c.action, count).group_by(_decisions.c.action)
        users = self._counted(live.group_by(_memories.c.user).order_by(count.desc()))
        return Counts(
            live=sum(users.values()),
            retired=self._count(_memories, sa.not_(_memories.c.live)),
            users=users,
            decisions=self._counted(actions),
            pending=self._count(_decisions, _decisions.c.pending),
            turns=self._count(_turns, _turns.c.pending),
        )

    def replaced_and_judged(self) -> tuple[int, int]:
        """Decisions that retired something without a model, and decisions that a model made."""
        automatic = sa.and_(_decisions.c.action == "replace", _decisions.c.model.is_(None))
        return self._count(_decisions, automatic), self._count(
            _decisions, _decisions.c.model.is_not(None)
        )

    def _count(self, table: sa.Table, where: sa.ColumnElement[bool]) -> int:
        query = sa.select(sa.func.count()).select_from(table).where(where)
        return int(self._connection.scalar(query) or 0)

    def _counted(self, query: sa.Select[Any]) -> dict[Any, int]:
        return {row[0]: row[1] for row in self._connection.execute(query)}

    def index_watermark(self, collection: str) -> int | None:
        """The revision up to which a collection follows the ledger; None where it is not ours."""
        query = sa.select(_index_state.c.watermark)
        return self._connection.scalar(query.where(_index_state.c.collection == collection))


class Writer(Reader):
    """One transaction."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._touched: set[str] = set()
        self._recorded: list[int] = []

    def prepare_schema(self) -> None:
        """Make the tables where they are missing."""
        if self.has_schema():
            return
        _schema.create_all(self._connection)
        self._connection.execute(_counter.insert().values(value=0))
        self.set_meta("schema_version", SCHEMA_VERSION)

    def set_meta(self, key: str, value: str) -> None:
        statement = upsert(_meta).values(key=key, value=value)
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=["key"], set_={"value": value})
        )

    def insert(self, memory: Memory) -> None:
        """A new live memory, with its links."""
        columns = {"live": True, "arrival": _arrival_of(memory), **_to_columns(memory)}
        self._connection.execute(_memories.insert().values(columns))
        self._put_links(memory)
        self._touched.add(memory.id)

    def rewrite(self, memory: Memory) -> None:
        """New values for an existing memory; its links stay as they are."""
        self._connection.execute(
            _memories.update().where(_memories.c.id == memory.id).values(**_to_columns(memory))
        )
        self._touched.add(memory.id)

    def retire(self, memory_id: str, successor_id: str) -> None:
        """Keep a memory's text and vector, and say who stands for it now and inherits its links."""
        for link in self._link_rows([memory_id], dangling=True):
            other = link.high_id if link.low_id == memory_id else link.low_id
            kind = link.link_type if link.low_id == memory_id else INVERSE_LINK[link.link_type]
            if other != successor_id:
                end = MemoryLink(
                    target_id=other, link_type=kind, note=link.note, confidence=link.confidence
                )
                self._put_link(successor_id, end, replace=False)
        self._unlink(memory_id)
        self._connection.execute(
            _memories.update()
            .where(_memories.c.id == memory_id)
            .values(live=False, successor_id=successor_id)
        )
        self._touched.add(memory_id)

    def _unlink(self, memory_id: str) -> None:
        for link in self._link_rows([memory_id], dangling=True):
            self._touched |= {link.low_id, link.high_id}
        touching = sa.or_(_links.c.low_id == memory_id, _links.c.high_id == memory_id)
        self._connection.execute(_links.delete().where(touching))

    def _put_links(self, memory: Memory) -> None:
        for link in memory.linked_ids:
            self._put_link(memory.id, link, replace=True)

    def _put_link(self, memory_id: str, link: MemoryLink, *, replace: bool) -> None:
        target = self._heir(link.target_id)
        if target == memory_id:
            return
        self._touched |= {memory_id, target}
        low, high = sorted((memory_id, target))
        kind = link.link_type if low == memory_id else INVERSE_LINK[link.link_type]
        values = {"link_type": kind, "note": link.note, "confidence": link.confidence}
        statement = upsert(_links).values(low_id=low, high_id=high, **values)
        ends = ["low_id", "high_id"]
        if replace:
            statement = statement.on_conflict_do_update(index_elements=ends, set_=values)
        else:
            statement = statement.on_conflict_do_nothing(index_elements=ends)
        self._connection.execute(statement)

    def _heir(self, memory_id: str) -> str:
        row = self.row(memory_id)
        alive = self.living(row) if row is not None else None
        return alive.memory.id if alive is not None else memory_id

    def forget(self, memory_id: str) -> None:
        """Erase a memory and all it was made from, for good; tombstones keep the ids.

        Text, metadata, vectors, links, remembered pairs, and what decisions about it recorded of
        them go. A vector or a pair that another memory's same text needs stays.
        """
        ids = [memory_id, *self.ancestors(memory_id)]
        rows = self.rows(ids)
        self._forget_turns([row.memory for row in rows.values()])
        for name in ids:
            self._unlink(name)
            self._connection.execute(
                _memories.update().where(_memories.c.id == name).values(**_TOMBSTONE)
            )
        self._touched |= set(ids)
        for key in {row.text_key for row in rows.values()}:
            if not self._count(_memories, _memories.c.text_key == key):
                self._connection.execute(_vectors.delete().where(_vectors.c.text_key == key))
                either = sa.or_(_distinct.c.low_key == key, _distinct.c.high_key == key)
                self._connection.execute(_distinct.delete().where(either))
        self._scrub_decisions(set(ids))

    def _forget_turns(self, memories: Sequence[Memory]) -> None:
        """Turns that wait, and were read already, neither keep the text nor bring it back."""
        contents = {memory.content for memory in memories}
        for kept in self.kept_turns():
            if kept.candidates is None or not contents & {one.content for one in kept.candidates}:
                continue
            left = [one for one in kept.candidates if one.content not in contents]
            silent = kept.turn.model_copy(update={"text": ""})
            self.keep_candidates(kept.seq, left)
            self._connection.execute(
                _turns.update()
                .where(_turns.c.seq == kept.seq)
                .values(turn=silent.model_dump_json())
            )

    def _scrub_decisions(self, ids: set[str]) -> None:
        """Decisions keep who was involved; what they recorded of the forgotten goes."""
        for name in ids:
            query = sa.select(_decisions.c.seq, _decisions.c.before).where(_mentions(name))
            for row in self._connection.execute(query).all():
                before = json.loads(row.before)
                before["rows"] = {
                    key: None if key in ids else kept for key, kept in before["rows"].items()
                }
                before["links"] = [link for link in before["links"] if not ids & set(link[:2])]
                scrubbed = {"before": json.dumps(before), "reason": "forgotten", "pending": False}
                self._connection.execute(
                    _decisions.update().where(_decisions.c.seq == row.seq).values(**scrubbed)
                )

    def put_vector(self, text: str, vector: Vector) -> None:
        """Remember a text's vector; a known one stays. Whoever follows reads its rows again."""
        blob = np.ascontiguousarray(vector, dtype=np.float32).tobytes()
        statement = upsert(_vectors).values(text_key=text_key(text), vector=blob)
        if self._connection.execute(statement.on_conflict_do_nothing()).rowcount:
            holders = sa.select(_memories.c.id).where(_memories.c.text_key == text_key(text))
            self._touched |= set(self._connection.scalars(holders))

    def drop_vectors(self) -> None:
        """Forget every vector, and every index of them: the next come from another embedder."""
        self._connection.execute(_vectors.delete())
        self._connection.execute(_index_state.delete())
        self._touched |= set(self._connection.scalars(sa.select(_memories.c.id)))

    def tell_apart(self, scope: Scope, text_a: str, text_b: str, reason: str) -> None:
        """Two texts say different things in this scope: never ask again."""
        low, high = sorted((text_key(text_a), text_key(text_b)))
        statement = upsert(_distinct).values(
            scope=scope.key, low_key=low, high_key=high, reason=reason
        )
        self._connection.execute(statement.on_conflict_do_nothing())

    def record(self, decision: Decision, before: str, at: datetime, run: str | None) -> None:
        """What was decided and why, with the state that undo goes back to."""
        survivors = [
            {"id": survivor.memory.id, "stands_for": survivor.stands_for}
            for survivor in decision.survivors
        ]
        result = self._connection.execute(
            _decisions.insert().values(
                revision=0,
                run=run,
                at=at.isoformat(),
                action=decision.action.value,
                reason=decision.reason,
                similarity=decision.similarity,
                candidates=json.dumps(decision.candidates),
                members=json.dumps([member.id for member in decision.members]),
                survivors=json.dumps(survivors),
                before=before,
                pending=decision.pending,
                model=decision.model,
                usage=decision.usage.model_dump_json(),
            )
        )
        self._recorded.append(result.lastrowid)

    def close_pending(self, ids: Iterable[str]) -> None:
        """Open questions about these very memories are answered."""
        members = json.dumps(list(ids))
        statement = _decisions.update().where(_decisions.c.pending, _decisions.c.members == members)
        self._connection.execute(statement.values(pending=False))

    def take_back(self, recorded: Recorded) -> None:
        """Restore the rows and links of a decision's members; what it synthesised is gone."""
        before = json.loads(recorded.before)
        created = [name for name in recorded.survivors if name not in recorded.members]
        for name in (*recorded.members, *created):
            self._unlink(name)
        for name in created:
            self._connection.execute(_memories.delete().where(_memories.c.id == name))
        for name, columns in before["rows"].items():
            kept = {key: value for key, value in columns.items() if key not in ("seq", "revision")}
            self._connection.execute(_memories.update().where(_memories.c.id == name).values(kept))
        for link in before["links"]:
            values = dict(zip(_links.c.keys(), link, strict=True))
            self._connection.execute(upsert(_links).values(values).on_conflict_do_nothing())
            self._touched |= {values["low_id"], values["high_id"]}
        self._touched |= set(recorded.members)
        undone = _decisions.update().where(_decisions.c.seq == recorded.number)
        self._connection.execute(undone.values(undone=True, pending=False))

    def keep_turn(self, turn: Turn, name: str) -> bool:
        """Keep a turn until it is extracted; whether it was not known before."""
        digest = hashlib.sha256(turn.text.encode()).hexdigest()[:32]
        statement = upsert(_turns).values(
            conversation=turn.conversation,
            name=name,
            digest=digest,
            pending=True,
            turn=turn.model_dump_json(),
        )
        return bool(self._connection.execute(statement.on_conflict_do_nothing()).rowcount)

    def keep_candidates(self, seq: int, candidates: Sequence[Candidate]) -> None:
        """What a model found in a turn: after a crash it need not be asked again."""
        found = _CANDIDATES.dump_json(tuple(candidates)).decode()
        self._connection.execute(
            _turns.update().where(_turns.c.seq == seq).values(candidates=found)
        )

    def count_attempt(self, seq: int) -> None:
        """A turn could not be extracted this time."""
        attempts = _turns.c.attempts + 1
        self._connection.execute(
            _turns.update().where(_turns.c.seq == seq).values(attempts=attempts)
        )

    def finish_turn(self, seq: int) -> None:
        """A turn is extracted: all that stays of it is how it is known again."""
        self._connection.execute(
            _turns.update()
            .where(_turns.c.seq == seq)
            .values(pending=False, turn=None, candidates=None)
        )

    def image(self, ids: Sequence[str]) -> str:
        """The rows and links of these memories as they are now, as JSON; None for unknown ids."""
        rows: dict[str, Any] = dict.fromkeys(ids)
        for some in _chunks(ids):
            query = sa.select(_memories).where(_memories.c.id.in_(some))
            for row in self._connection.execute(query).mappings():
                rows[row["id"]] = dict(row)
        links = [list(link) for link in self._link_rows(ids, dangling=True)]
        return json.dumps({"rows": rows, "links": links})

    def set_index_watermark(self, collection: str, revision: int) -> None:
        statement = upsert(_index_state).values(collection=collection, watermark=revision)
        self._connection.execute(
            statement.on_conflict_do_update(
                index_elements=["collection"], set_={"watermark": revision}
            )
        )

    def take_revision(self) -> None:
        """Number what this transaction wrote; the last step before the commit."""
        if not (self._touched or self._recorded):
            return
        self._connection.execute(_counter.update().values(value=_counter.c.value + 1))
        number = self.revision()
        for some in _chunks(sorted(self._touched)):
            written = _memories.update().where(_memories.c.id.in_(some))
            self._connection.execute(written.values(revision=number))
        decided = _decisions.update().where(_decisions.c.seq.in_(self._recorded))
        self._connection.execute(decided.values(revision=number))


# --- rows and memories: one pair of functions ---------------------------------------------------


def _arrival_of(memory: Memory) -> str:
    """What makes two arrivals under an external id the same one; it never changes."""
    told = [
        memory.external_id,
        memory.user,
        memory.is_private,
        memory.timestamp.isoformat(),
        memory.content,
    ]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]


def _to_columns(memory: Memory) -> dict[str, Any]:
    return {
        **memory.model_dump(include=_PLAIN),
        "text_key": text_key(memory.content),
        "timestamp": memory.timestamp.isoformat(),
        "tags": json.dumps(memory.tags),
        "merged_from": json.dumps(memory.merged_from),
        "metadata": json.dumps(memory.metadata),
    }


_TOMBSTONE: dict[str, Any] = {
    "live": False, "successor_id": None, "text_key": "", "arrival": "", "external_id": None,
    "content": "", "user": None, "category": "", "emotion": "", "intensity": 0.0, "importance": 1,
    "tags": "[]", "merged_from": "[]", "metadata": "{}",
}  # fmt: skip
_PLAIN = {
    "id", "external_id", "content", "user", "category", "intensity", "importance", "emotion",
    "is_private",
}  # fmt: skip


def _to_row(values: sa.RowMapping, links: tuple[MemoryLink, ...]) -> Row:
    return Row(
        memory=_to_memory(values, links),
        live=values["live"],
        successor_id=values["successor_id"],
        text_key=values["text_key"],
        seq=values["seq"],
        revision=values["revision"],
    )


def _to_memory(values: sa.RowMapping, links: tuple[MemoryLink, ...]) -> Memory:
    return Memory.model_construct(
        **{name: values[name] for name in _PLAIN},
        timestamp=datetime.fromisoformat(values["timestamp"]),
        tags=tuple(json.loads(values["tags"])),
        merged_from=tuple(json.loads(values["merged_from"])),
        metadata=json.loads(values["metadata"]),
        linked_ids=links,
    )


def _to_change(row: sa.Row[Any]) -> Change:
    return Change(
        id=row.id,
        live=row.live,
        values={
            "user": row.user,
            "is_private": row.is_private,
            "category": row.category,
            "emotion": row.emotion,
        },
        vector=None if row.vector is None else np.frombuffer(row.vector, dtype=np.float32),
        revision=row.revision,
    )


def _chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    return (values[start : start + _IN] for start in range(0, len(values), _IN))


def _mentions(memory_id: str) -> sa.ColumnElement[bool]:
    """Decisions that a memory was a member or a survivor of."""
    return sa.or_(
        _decisions.c.members.contains(memory_id), _decisions.c.survivors.contains(memory_id)
    )


def _in_scope(scope: Scope) -> list[sa.ColumnElement[bool]]:
    return [_memories.c[name].is_not_distinct_from(value) for name, value in scope.values]


# --- the database -----------------------------------------------------------------------------


def _sqlite_path(url: str) -> Path:
    try:
        parsed = make_url(url)
    except sa.exc.ArgumentError as exc:
        raise LedgerError("the ledger URL is no URL", "set memory.ledger_url") from exc
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        shown = parsed.render_as_string(hide_password=True)
        raise LedgerError(f"ledger URL {shown} is not sqlite:///FILE", "set memory.ledger_url")
    return Path(url.partition(":///")[2])


def _engine(path: Path, *, read_only: bool) -> Engine:
    """After an unclean end an ordinary connection would tidy up when it closes, and so write."""
    url = URL.create("sqlite", database=str(path))
    unclean = path.with_name(path.name + "-wal").exists()
    if read_only and (unclean or not os.access(path.parent, os.W_OK)):
        query = _READ_ONLY if unclean else {**_READ_ONLY, "immutable": "1"}
        url = URL.create("sqlite", database=f"file:{quote(str(path))}", query=query)
    engine = sa.create_engine(url, connect_args={"timeout": 30})

    @sa.event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # SQLAlchemy's begin event opens the transactions
        pragmas = ["foreign_keys=ON", "synchronous=FULL", "secure_delete=ON"]
        for pragma in [*pragmas, "query_only=ON" if read_only else "journal_mode=WAL"]:
            connection.execute(f"PRAGMA {pragma}")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("ledger_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


_READ_ONLY = {"mode": "ro", "uri": "true"}
_SQLITE_FAULTS = (
    ("readonly", "cannot be written", "make the data folder writable"),
    ("unable to open", "cannot be opened", "check the folder and its permissions"),
    ("database or disk is full", "has no room left on its disk", "make room and try again"),
    ("locked", "is being written by another process", "try again when it has finished"),
    ("not a database", "is not a ledger", "restore a backup, or set memory.data_dir elsewhere"),
    ("malformed", "is damaged", "restore a backup"),
)


@contextmanager
def _mapped(name: str) -> Iterator[None]:
    """Faults of the database as LedgerError."""
    try:
        yield
    except sa.exc.DBAPIError as exc:
        told = str(exc.orig)
        for part, problem, remedy in _SQLITE_FAULTS:
            if part in told:
                raise LedgerError(f"the ledger {name} {problem}", remedy) from exc
        raise LedgerError(f"the ledger {name} failed: {told}") from exc

"""The record: every memory, live and retired, with vector, links and decisions.

A `Reader` sees one consistent state; a `Writer` is one transaction that happens wholly or not at
all. Each writing transaction takes the next revision as its last step, so revision order is commit
order, and whoever follows the ledger asks for the rows above the revision it has seen.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import sqlalchemy as sa
from pydantic import TypeAdapter
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from memory import tables as t
from memory.database import Database, open_database
from memory.errors import LedgerError, LedgerMissing
from memory.models import (
    INVERSE_LINK,
    Action,
    Candidate,
    Decision,
    Episode,
    LinkType,
    Memory,
    MemoryLink,
    Scope,
    Turn,
    Vector,
    text_key,
)

SCHEMA_VERSION = "1"
FORGOTTEN_KEY = ""
"""What a tombstone has in place of the key of a text."""
RESTORED = "restored"
"""Set in a ledger that came from a backup until it has an index: what lies there is its own."""
REVERSIBLE = (Action.REPLACE, Action.MERGE, Action.UPDATE)
"""What can be taken back."""
FORGOTTEN_SUMMARY = "(forgotten)"
"""What an episode says that quoted a memory since forgotten."""
_PAGE = 2_000
_CANDIDATES = TypeAdapter(tuple[Candidate, ...])
_HIGHEST_NUMBER = 2**31 - 1
"""PostgreSQL's integers end here."""
_IN = 500
"""Values in one IN (...): far below SQLite's 32,766 variables."""


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

    @property
    def forgotten(self) -> bool:
        """Whether only the id is left of it."""
        return self.text_key == FORGOTTEN_KEY


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
    survivors: tuple[tuple[str, tuple[str, ...]], ...]
    """Ids of those that lived on, each with the ids of those it stands for."""
    before: str
    pending: bool
    undone: bool
    model: str | None

    @property
    def scrubbed(self) -> bool:
        """Whether a member was forgotten since."""
        return None in json.loads(self.before)["rows"].values()

    @property
    def created(self) -> tuple[str, ...]:
        """Ids of the rows that this decision made and its members did not have before."""
        involved = [name for heir, retired in self.survivors for name in (heir, *retired)]
        return tuple(name for name in dict.fromkeys(involved) if name not in self.members)


@dataclass(frozen=True)
class Run:
    """What one batch or import decided."""

    name: str
    began_at: datetime
    decisions: dict[str, int]
    """How many of each action."""
    pending: int
    undone: int


@dataclass(frozen=True)
class IndexState:
    """How far an index has followed, and whether it may still hold what was forgotten."""

    watermark: int
    stale: bool


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

    def __init__(self, database: Database) -> None:
        """Use `open` or `create`."""
        self._database = database

    @classmethod
    def open(cls, url: str) -> Ledger:
        """An existing ledger, for reading only: nothing on disk is created or changed.

        Raises: LedgerMissing, LedgerError.
        """
        with cls(open_database(url, create=False))._closed_on_fault() as ledger:
            ledger._check_schema()
        return ledger

    @classmethod
    def create(cls, url: str) -> Ledger:
        """The ledger at the URL, made where there is none, for reading and writing.

        Raises: LedgerError.
        """
        with cls(open_database(url, create=True))._closed_on_fault() as ledger:
            with ledger.writing() as writer:
                writer.prepare_schema()
            ledger._check_schema()
        return ledger

    @contextmanager
    def _closed_on_fault(self) -> Iterator[Ledger]:
        try:
            yield self
        except BaseException:  # Ctrl-C too must not leave it open
            self.close()
            raise

    @property
    def name(self) -> str:
        """Where it is, as people are shown it."""
        return self._database.name

    def _check_schema(self) -> None:
        with self.reading() as reader:
            version = reader.meta("schema_version") if reader.has_schema() else None
        if version is None:
            raise LedgerMissing(f"there are no memories in {self.name} yet", "import some first")
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
        with self._database.reading() as connection:
            yield Reader(connection)

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """One transaction: committed at the end of the block, or wholly undone by an exception.

        Raises: LedgerError.
        """
        with self._database.writing() as connection:
            writer = Writer(connection)
            yield writer
            writer.take_revision()

    def exclusive(self, task: str) -> AbstractContextManager[bool]:
        """While the block runs, no other process does this task; False where one does already.

        Raises: LedgerError.
        """
        return self._database.exclusive(task)

    def checkpoint(self) -> bool:
        """Empty the log that may hold what was erased; False where another process reads it."""
        return self._database.checkpoint()

    def problems(self) -> list[str]:
        """What the database finds wrong with its own files."""
        return self._database.problems()

    def close(self) -> None:
        self._database.close()

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
        return int(self._connection.scalar(sa.select(t.counter.c.value)) or 0)

    def has_schema(self) -> bool:
        """Whether the tables are there."""
        return sa.inspect(self._connection).has_table(t.meta.name)

    def meta(self, key: str) -> str | None:
        """A fact about the store itself; None where it was never set."""
        return self._connection.scalar(sa.select(t.meta.c.value).where(t.meta.c.key == key))

    # --- memories ---

    def row(self, memory_id: str) -> Row | None:
        return self.rows([memory_id]).get(memory_id)

    def rows(self, ids: Sequence[str]) -> dict[str, Row]:
        """Live and retired, by id; unknown ids are left out."""
        found: dict[str, Row] = {}
        for some in _chunks(ids):
            query = sa.select(t.memories).where(t.memories.c.id.in_(some))
            found |= {row.memory.id: row for row in self._to_rows(query)}
        return found

    def all_rows(self, *, live_only: bool) -> Iterator[Row]:
        """Every memory in order of arrival, page by page."""
        last = 0
        while True:
            query = sa.select(t.memories).where(t.memories.c.seq > last)
            if live_only:
                query = query.where(t.memories.c.live)
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
        query = sa.select(t.memories).where(
            t.memories.c.text_key == key, t.memories.c.live, *_in_scope(scope)
        )
        return sorted(self._to_rows(query), key=lambda row: row.memory.timestamp, reverse=True)

    def live_in_scope_after(self, revision: int, scope: Scope) -> list[Row]:
        """Live memories of the scope that were written after the revision."""
        query = sa.select(t.memories).where(
            t.memories.c.revision > revision, t.memories.c.live, *_in_scope(scope)
        )
        return self._to_rows(query)

    def arrived_before(self, memory: Memory) -> Row | None:
        """The row of an earlier arrival of this very memory.

        That is one with its id, about the same user, that says or once said the same, or was
        forgotten; or one of the same external id (or none), user, privacy, time and text, which
        includes the one that was stored under another id because this one's was taken.
        """
        here = self.row(memory.id)
        if here is not None and (here.forgotten or self._once_said(here, memory)):
            return here
        renamed = memory.model_copy(update={"external_id": memory.external_id or memory.id})
        arrivals = [t.arrival_of(memory)] + ([t.arrival_of(renamed)] if here is not None else [])
        query = sa.select(t.memories).where(t.memories.c.arrival.in_(arrivals)).limit(1)
        return next(iter(self._to_rows(query)), None)

    def _once_said(self, row: Row, memory: Memory) -> bool:
        known = row.memory
        if (known.user, known.is_private) != (memory.user, memory.is_private):
            return False
        if known.content == memory.content:
            return True
        version = sa.and_(
            t.memories.c.successor_id == known.id, t.memories.c.content == memory.content
        )
        return bool(self._count(t.memories, version))

    def ancestors(self, memory_id: str) -> list[str]:
        """Ids of every retired memory that this one stands for, directly or not."""
        found: list[str] = []
        todo = [memory_id]
        while todo:
            query = sa.select(t.memories.c.id).where(t.memories.c.successor_id.in_(todo[:_IN]))
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
        found = self._connection.execute(query.order_by(t.memories.c.seq)).mappings().all()
        links = self._links_of([row["id"] for row in found])
        return [_to_row(row, links.get(row["id"], ())) for row in found]

    def _links_of(self, ids: Sequence[str]) -> dict[str, tuple[MemoryLink, ...]]:
        ends: dict[str, list[MemoryLink]] = {}
        wanted = set(ids)
        for link in self._link_rows(ids):
            for source in wanted & {link.low_id, link.high_id}:
                ends.setdefault(source, []).append(_seen_from(source, link))
        return {source: tuple(found) for source, found in ends.items()}

    def _link_rows(self, ids: Sequence[str], *, dangling: bool = False) -> list[sa.Row[Any]]:
        """Links that touch these memories; the dangling ones lead to what has not arrived yet."""
        links = sa.select(t.links) if dangling else t.LIVE_LINKS
        found: dict[tuple[str, str], sa.Row[Any]] = {}
        for some in _chunks(ids):
            touching = sa.or_(t.links.c.low_id.in_(some), t.links.c.high_id.in_(some))
            for link in self._connection.execute(links.where(touching)):
                found[link.low_id, link.high_id] = link
        return [found[key] for key in sorted(found)]

    # --- vectors ---

    def vectors(self, keys: Iterable[str]) -> dict[str, Vector]:
        """Known vectors by text key; unknown ones are left out."""
        found: dict[str, Vector] = {}
        for some in _chunks(list(dict.fromkeys(keys))):
            query = sa.select(t.vectors).where(t.vectors.c.text_key.in_(some))
            for row in self._connection.execute(query):
                found[row.text_key] = np.frombuffer(row.vector, dtype=np.float32)
        return found

    def texts_without_vector(self) -> list[str]:
        """One text for each key that no vector is known for."""
        query = (
            sa.select(sa.func.min(t.memories.c.content))
            .outerjoin(t.vectors, t.vectors.c.text_key == t.memories.c.text_key)
            .where(t.vectors.c.text_key.is_(None), t.memories.c.text_key != FORGOTTEN_KEY)
            .group_by(t.memories.c.text_key)
        )
        return list(self._connection.scalars(query))

    def changes(self, after: int, limit: int | None = None) -> list[Change]:
        """The current state of the rows above a revision, lowest revision first.

        With `limit`, at least that many where there are, and never part of a revision.
        """
        above = t.memories.c.revision > after
        last = None
        if limit is not None:
            at_limit = sa.select(t.memories.c.revision).where(above)
            at_limit = at_limit.order_by(t.memories.c.revision).offset(limit - 1).limit(1)
            last = self._connection.scalar(at_limit)
        query = (
            sa.select(t.memories, t.vectors.c.vector)
            .outerjoin(t.vectors, t.vectors.c.text_key == t.memories.c.text_key)
            .where(above if last is None else sa.and_(above, t.memories.c.revision <= last))
            .order_by(t.memories.c.revision, t.memories.c.seq)
        )
        return [_to_change(row) for row in self._connection.execute(query)]

    def lag(self, after: int) -> int:
        """How many rows are above a revision."""
        return self._count(t.memories, t.memories.c.revision > after)

    # --- what is known to be different ---

    def told_apart(self, scope: Scope, key: str) -> set[str]:
        """Keys of the texts that were judged to differ from this one."""
        low, high = t.distinct_pairs.c.low_key, t.distinct_pairs.c.high_key
        query = sa.select(low, high).where(
            t.distinct_pairs.c.scope == scope.key, sa.or_(low == key, high == key)
        )
        return {a if b == key else b for a, b in self._connection.execute(query)}

    def rows_told_apart(self, scope: Scope, keys: Iterable[str]) -> int:
        """How many live memories of the scope have one of these texts."""
        among = [t.memories.c.text_key.in_(some) for some in _chunks(sorted(keys))]
        inside = _in_scope(scope)
        return sum(
            self._count(t.memories, sa.and_(t.memories.c.live, one, *inside)) for one in among
        )

    def all_told_apart(self) -> set[tuple[str, str, str]]:
        """(scope key, lower text key, higher text key) of every pair judged different."""
        query = sa.select(
            t.distinct_pairs.c.scope, t.distinct_pairs.c.low_key, t.distinct_pairs.c.high_key
        )
        return {(row.scope, row.low_key, row.high_key) for row in self._connection.execute(query)}

    # --- decisions ---

    def decision(self, number: int) -> Recorded | None:
        if number > _HIGHEST_NUMBER:
            return None
        query = sa.select(t.decisions).where(t.decisions.c.seq == number)
        return next(iter(self._recorded_by(query)), None)

    def decisions(self, memory_id: str | None = None) -> list[Recorded]:
        """Decisions about a memory, or all but plain additions, oldest first."""
        plain = t.decisions.c.action == Action.ADD.value
        wanted = sa.not_(plain) if memory_id is None else _about([memory_id])
        return self._recorded_by(sa.select(t.decisions).where(wanted))

    def pending_decisions(self) -> list[Recorded]:
        """Decisions made for want of a model's answer, oldest first."""
        return self._recorded_by(sa.select(t.decisions).where(t.decisions.c.pending))

    def decisions_of(self, run: str) -> list[Recorded]:
        """What a run decided, oldest first."""
        return self._recorded_by(sa.select(t.decisions).where(t.decisions.c.run == run))

    def decisions_after(self, recorded: Recorded) -> list[int]:
        """Numbers of the later decisions, not undone, that stand on what this one left."""
        later = sa.select(t.decisions.c.seq).where(
            t.decisions.c.seq > recorded.number,
            sa.not_(t.decisions.c.undone),
            t.decisions.c.action.in_(REVERSIBLE),
        )
        found: set[int] = set()
        for some in _chunks([*recorded.members, *recorded.created]):
            found |= set(self._connection.scalars(later.where(_about(some))))
        return sorted(found)

    def runs(self) -> list[Run]:
        """Every run that decided something, oldest first."""
        of_run = t.decisions.c.run.is_not(None)
        query = sa.select(t.decisions).where(of_run)
        found: dict[str, list[Recorded]] = {}
        for recorded in self._recorded_by(query):
            found.setdefault(str(recorded.run), []).append(recorded)
        return [
            Run(
                name=name,
                began_at=decided[0].at,
                decisions=dict(Counter(one.action.value for one in decided)),
                pending=sum(one.pending for one in decided),
                undone=sum(one.undone for one in decided),
            )
            for name, decided in found.items()
        ]

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
                survivors=tuple(
                    (one["id"], tuple(one["stands_for"])) for one in json.loads(row.survivors)
                ),
                before=row.before,
                pending=row.pending,
                undone=row.undone,
                model=row.model,
            )
            for row in self._connection.execute(query.order_by(t.decisions.c.seq))
        ]

    # --- turns ---

    def kept_turns(self) -> list[KeptTurn]:
        """Turns that wait to be extracted, in the order in which they were kept."""
        query = sa.select(t.turns).where(t.turns.c.pending).order_by(t.turns.c.seq)
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
        live = sa.select(t.memories.c.user, count).where(t.memories.c.live)
        actions = sa.select(t.decisions.c.action, count).group_by(t.decisions.c.action)
        users = self._counted(live.group_by(t.memories.c.user).order_by(count.desc()))
        return Counts(
            live=sum(users.values()),
            retired=self._count(
                t.memories,
                sa.and_(sa.not_(t.memories.c.live), t.memories.c.text_key != FORGOTTEN_KEY),
            ),
            users=users,
            decisions=self._counted(actions),
            pending=self._count(t.decisions, t.decisions.c.pending),
            turns=self._count(t.turns, t.turns.c.pending),
        )

    def replaced_and_judged(self) -> tuple[int, int]:
        """Decisions that retired something without a model, and decisions that a model made."""
        automatic = sa.and_(t.decisions.c.action == Action.REPLACE, t.decisions.c.model.is_(None))
        return self._count(t.decisions, automatic), self._count(
            t.decisions, t.decisions.c.model.is_not(None)
        )

    def _count(self, table: sa.Table, where: sa.ColumnElement[bool]) -> int:
        query = sa.select(sa.func.count()).select_from(table).where(where)
        return int(self._connection.scalar(query) or 0)

    def _counted(self, query: sa.Select[Any]) -> dict[Any, int]:
        return {row[0]: row[1] for row in self._connection.execute(query)}

    def index_state(self, collection: str) -> IndexState | None:
        """How far a collection has followed the ledger; None where it never did."""
        query = sa.select(t.index_state).where(t.index_state.c.collection == collection)
        row = self._connection.execute(query).first()
        return None if row is None else IndexState(row.watermark, row.stale)

    def other_indexes(self, place: str, collection: str) -> list[IndexState]:
        """Of the collections that were at this place before this one."""
        state = t.index_state.c
        query = sa.select(t.index_state).where(state.place == place, state.collection != collection)
        found = self._connection.execute(query)
        return [IndexState(row.watermark, row.stale) for row in found]

    def stale_indexes(self) -> int:
        """How many indexes may still hold the vector of what was forgotten."""
        return self._count(t.index_state, t.index_state.c.stale)

    # --- episodes and time, for the agent ---

    def episode(self, episode_id: str) -> Episode | None:
        """As it was told: its ids may be of memories since retired or forgotten."""
        return next(iter(self.episodes(t.episodes.c.id == episode_id)), None)

    def episodes(self, where: sa.ColumnElement[bool] | None = None) -> list[Episode]:
        """Every episode, in the order in which they were made."""
        query = sa.select(t.episodes).order_by(t.episodes.c.seq)
        found = self._connection.execute(query if where is None else query.where(where))
        return [
            Episode.model_construct(
                id=row.id,
                summary=row.summary,
                memory_ids=tuple(json.loads(row.memory_ids)),
                start_time=datetime.fromisoformat(row.start_time),
                end_time=datetime.fromisoformat(row.end_time),
                importance=row.importance,
            )
            for row in found
        ]

    def living_ids(self, ids: Iterable[str]) -> dict[str, str]:
        """Who stands for each of these memories today; those that nobody stands for are left out.

        In the given order.
        """
        wanted = list(dict.fromkeys(ids))
        rows = self.rows(wanted)
        found = {}
        for name in wanted:
            alive = self.living(rows[name]) if name in rows else None
            if alive is not None:
                found[name] = alive.memory.id
        return found

    def newest(self, limit: int, scope: Scope, since: datetime | None = None) -> list[Row]:
        """The live memories of the scope that were recorded last, newest first."""
        written: sa.ColumnElement[str] = t.memories.c.timestamp
        if self._connection.dialect.name == "postgresql":
            written = written.collate("C")  # in time, not as a language sorts
        recorded = [] if since is None else [written >= since.astimezone(UTC).isoformat()]
        query = sa.select(t.memories.c.id).where(t.memories.c.live, *_in_scope(scope), *recorded)
        query = query.order_by(written.desc(), t.memories.c.seq.desc())
        names = list(self._connection.scalars(query.limit(limit)))
        rows = self.rows(names)
        return [rows[name] for name in names]

    # --- what must hold ---

    def successions(self) -> dict[str, str | None]:
        """Who stands for each retired memory that was not forgotten."""
        query = sa.select(t.memories.c.id, t.memories.c.successor_id).where(
            sa.not_(t.memories.c.live), t.memories.c.text_key != FORGOTTEN_KEY
        )
        return {row.id: row.successor_id for row in self._connection.execute(query)}

    def links_of_the_retired(self) -> int:
        """How many links lead to a memory that somebody stands for."""
        retired = sa.select(t.memories.c.id).where(sa.not_(t.memories.c.live))
        ends = sa.or_(t.links.c.low_id.in_(retired), t.links.c.high_id.in_(retired))
        return self._count(t.links, ends)

    def vector_bytes(self) -> dict[int, int]:
        """How many vectors there are of each length in bytes."""
        size = sa.func.length(t.vectors.c.vector)
        return self._counted(sa.select(size, sa.func.count()).group_by(size))

    def highest_revision(self) -> int:
        """The highest that a row has; never above `revision`."""
        return int(self._connection.scalar(sa.select(sa.func.max(t.memories.c.revision))) or 0)

    # --- all of it ---

    def dump(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """Every row of every table but what indexes have seen, page by page, with its table."""
        for table in t.schema.sorted_tables:
            if table is not t.index_state:
                pages = self._connection.execute(sa.select(table)).mappings().partitions(_PAGE)
                yield from ((table.name, [dict(row) for row in page]) for page in pages)


class Writer(Reader):
    """One transaction."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._touched: set[str] = set()
        self._recorded: list[int] = []

    def _upsert(self, table: sa.Table) -> Any:
        """An INSERT that can say what to do on a conflict, in the dialect of this database."""
        insert = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
        return insert[self._connection.dialect.name](table)

    def prepare_schema(self) -> None:
        """Make the tables where they are missing."""
        if self.has_schema():
            t.episodes.create(self._connection, checkfirst=True)  # came after the others
            return
        t.schema.create_all(self._connection)
        self._connection.execute(t.counter.insert().values(value=0))
        self.set_meta("schema_version", SCHEMA_VERSION)

    def set_meta(self, key: str, value: str) -> None:
        statement = self._upsert(t.meta).values(key=key, value=value)
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=["key"], set_={"value": value})
        )

    def drop_meta(self, key: str) -> None:
        self._connection.execute(t.meta.delete().where(t.meta.c.key == key))

    def insert(self, memory: Memory) -> None:
        """A new live memory, with its links."""
        columns = {"live": True, "arrival": t.arrival_of(memory), **t.to_columns(memory)}
        self._connection.execute(t.memories.insert().values(columns))
        self._put_links(memory)
        self._touched.add(memory.id)

    def rewrite(self, memory: Memory) -> None:
        """New values for an existing memory; its links stay as they are."""
        self._connection.execute(
            t.memories.update().where(t.memories.c.id == memory.id).values(**t.to_columns(memory))
        )
        self._touched.add(memory.id)

    def retire(self, memory_id: str, successor_id: str) -> None:
        """Keep a memory's text and vector, and say who stands for it now and inherits its links."""
        for link in self._link_rows([memory_id], dangling=True):
            end = _seen_from(memory_id, link)
            if end.target_id != successor_id:
                self._put_link(successor_id, end, replace=False)
        self._unlink(memory_id)
        self._connection.execute(
            t.memories.update()
            .where(t.memories.c.id == memory_id)
            .values(live=False, successor_id=successor_id)
        )
        self._touched.add(memory_id)

    def _unlink(self, memory_id: str) -> None:
        for link in self._link_rows([memory_id], dangling=True):
            self._touched |= {link.low_id, link.high_id}
        touching = sa.or_(t.links.c.low_id == memory_id, t.links.c.high_id == memory_id)
        self._connection.execute(t.links.delete().where(touching))

    def _put_links(self, memory: Memory) -> None:
        for link in memory.linked_ids:
            self._put_link(memory.id, link, replace=True)

    def _put_link(self, memory_id: str, link: MemoryLink, *, replace: bool) -> None:
        target = self._heir(link.target_id)
        if target is None or target == memory_id:
            return
        self._touched |= {memory_id, target}
        low, high = sorted((memory_id, target))
        kind = link.link_type if low == memory_id else INVERSE_LINK[link.link_type]
        values = {"link_type": kind, "note": link.note, "confidence": link.confidence}
        statement = self._upsert(t.links).values(low_id=low, high_id=high, **values)
        ends = ["low_id", "high_id"]
        if replace:
            statement = statement.on_conflict_do_update(index_elements=ends, set_=values)
        else:
            statement = statement.on_conflict_do_nothing(index_elements=ends)
        self._connection.execute(statement)

    def _heir(self, memory_id: str) -> str | None:
        """Who lives for a memory; itself where it has not arrived yet, None where it is forgotten.

        What is being retired has no heir that lives, and is named itself.
        """
        row = self.row(memory_id)
        if row is not None and row.forgotten:
            return None
        alive = self.living(row) if row is not None else None
        return alive.memory.id if alive is not None else memory_id

    def forget(self, memory_id: str) -> None:
        """Erase a memory and all it was made from, for good; tombstones keep the ids.

        Text, metadata, vectors, links, remembered pairs, turns that wait, and what decisions
        recorded of them go. A vector or a pair that another memory's same text needs stays.
        Every index is marked as stale: an earlier state of the memory may have been copied.
        """
        ids = [memory_id, *self.ancestors(memory_id)]
        rows = self.rows(ids)
        self._forget_turns([row.memory for row in rows.values()])
        self.forget_in_episodes({row.memory.content for row in rows.values()})
        self._bury(ids)
        self._drop_unused({row.text_key for row in rows.values()})
        self._scrub_decisions(set(ids))
        self._connection.execute(t.index_state.update().values(stale=True))

    def _bury(self, ids: Sequence[str]) -> None:
        """Only the ids stay, so that nobody takes them and whoever follows hears of it."""
        for name in ids:
            self._unlink(name)
            self._connection.execute(
                t.memories.update().where(t.memories.c.id == name).values(**t.TOMBSTONE)
            )
        self._touched |= set(ids)

    def _drop_unused(self, keys: Iterable[str]) -> None:
        """Vectors and remembered pairs of texts that no memory has any more."""
        for key in keys:
            if not self._count(t.memories, t.memories.c.text_key == key):
                self._connection.execute(t.vectors.delete().where(t.vectors.c.text_key == key))
                pairs = t.distinct_pairs.c
                either = sa.or_(pairs.low_key == key, pairs.high_key == key)
                self._connection.execute(t.distinct_pairs.delete().where(either))

    def _forget_turns(self, memories: Sequence[Memory]) -> None:
        """Turns that wait neither keep the text nor bring it back."""
        contents = {memory.content for memory in memories}
        for kept in self.kept_turns():
            found = kept.candidates or ()
            left = [one for one in found if one.content not in contents]
            said = any(content in kept.turn.text for content in contents)
            if said or len(left) < len(found):
                silent = kept.turn.model_copy(update={"text": ""})
                self.keep_candidates(kept.seq, left)
                self._connection.execute(
                    t.turns.update()
                    .where(t.turns.c.seq == kept.seq)
                    .values(turn=silent.model_dump_json())
                )

    def _scrub_decisions(self, ids: set[str]) -> None:
        """Decisions keep who was involved; what they recorded of the forgotten goes."""
        about: dict[int, Recorded] = {}
        for some in _chunks(sorted(ids)):
            query = sa.select(t.decisions).where(_about(some, involved_only=False))
            about |= {recorded.number: recorded for recorded in self._recorded_by(query)}
        for number, recorded in about.items():
            before = json.loads(recorded.before)
            before["rows"] = {
                key: None if key in ids else kept for key, kept in before["rows"].items()
            }
            before["links"] = [link for link in before["links"] if not ids & set(link[:2])]
            scrubbed = {
                "before": json.dumps(before),
                "reason": "forgotten",
                "pending": recorded.pending and not ids & set(recorded.members),
            }
            self._connection.execute(
                t.decisions.update().where(t.decisions.c.seq == number).values(**scrubbed)
            )

    def put_vector(self, text: str, vector: Vector) -> None:
        """Remember a text's vector; a known one stays. Whoever follows reads its rows again."""
        blob = np.ascontiguousarray(vector, dtype=np.float32).tobytes()
        statement = self._upsert(t.vectors).values(text_key=text_key(text), vector=blob)
        if self._connection.execute(statement.on_conflict_do_nothing()).rowcount:
            holders = sa.select(t.memories.c.id).where(t.memories.c.text_key == text_key(text))
            self._touched |= set(self._connection.scalars(holders))

    def drop_vectors(self) -> None:
        """Forget every vector, and start every index again: the next come from another embedder."""
        self._connection.execute(t.vectors.delete())
        self._connection.execute(t.index_state.update().values(watermark=0, stale=True))
        self._touched |= set(self._connection.scalars(sa.select(t.memories.c.id)))

    def tell_apart(self, scope: Scope, text_a: str, text_b: str, reason: str) -> None:
        """Two texts say different things in this scope: never ask again."""
        low, high = sorted((text_key(text_a), text_key(text_b)))
        statement = self._upsert(t.distinct_pairs).values(
            scope=scope.key, low_key=low, high_key=high, reason=reason
        )
        self._connection.execute(statement.on_conflict_do_nothing())

    def record(self, decision: Decision, before: str, at: datetime, run: str | None) -> None:
        """What was decided and why, with the state that undo goes back to."""
        survivors = [
            {"id": survivor.memory.id, "stands_for": survivor.stands_for}
            for survivor in decision.survivors
        ]
        result: Any = self._connection.execute(
            t.decisions.insert().values(
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
        number = int(result.inserted_primary_key[0])
        self._recorded.append(number)
        involved = {member.id for member in decision.members} | {
            name for one in decision.survivors for name in (one.memory.id, *one.stands_for)
        }
        linked = {end for link in json.loads(before)["links"] for end in link[:2]}
        compared = ({name for name, _ in decision.candidates} | linked) - involved
        self._connection.execute(
            t.mentions.insert(),
            [
                {"decision": number, "memory_id": name, "involved": name in involved}
                for name in sorted(involved | compared)
            ],
        )

    def close_pending(self, numbers: Iterable[int]) -> None:
        """These open questions are answered."""
        closed = t.decisions.update().where(t.decisions.c.seq.in_(list(numbers)))
        self._connection.execute(closed.values(pending=False))

    def close_pending_about(self, ids: Collection[str]) -> None:
        """Open questions about these memories, and no others, are answered."""
        open_ones = sa.select(t.decisions).where(t.decisions.c.pending)
        for some in _chunks(sorted(ids)):
            about = self._recorded_by(open_ones.where(_about(some)))
            self.close_pending(one.number for one in about if set(one.members) <= set(ids))

    def take_back(self, recorded: Recorded, *, keep_pending: bool = False) -> None:
        """Restore the rows and links of a decision's members; what it made is gone.

        Links that came later stay with whom they led to: where that row goes, with the newest
        member. `keep_pending` leaves its question open.
        """
        before = json.loads(recorded.before)
        later = self._links_since(recorded, before["links"])
        made = {row.text_key for row in self.rows(recorded.created).values()}
        changed = {row.text_key for row in self.rows(recorded.members).values()}
        for name in recorded.members:
            self._unlink(name)
        self._bury(recorded.created)
        for name, columns in before["rows"].items():
            kept = {key: value for key, value in columns.items() if key not in ("seq", "revision")}
            self._connection.execute(
                t.memories.update().where(t.memories.c.id == name).values(kept)
            )
        for source, end in [*_links_of_image(before["links"]), *later]:
            self._restore_link(source, end)
        self._touched |= set(recorded.members)
        self._drop_unused(made | changed)
        undone = t.decisions.update().where(t.decisions.c.seq == recorded.number)
        self._connection.execute(undone.values(undone=True, pending=keep_pending))

    def _links_since(
        self, recorded: Recorded, before: Sequence[Sequence[Any]]
    ) -> list[tuple[str, MemoryLink]]:
        """Links of the survivors that the decision did not find, with whom they stay."""
        heir_of = {name: heir for heir, retired in recorded.survivors for name in retired}
        found = {
            frozenset(heir_of.get(end) or self._heir(end) for end in link[:2]) for link in before
        }
        instead = dict.fromkeys(recorded.created, recorded.members[-1])
        heirs = [heir for heir, _ in recorded.survivors]
        later = []
        for link in self._link_rows(heirs, dangling=True):
            if frozenset((link.low_id, link.high_id)) not in found:
                end = _seen_from(link.low_id, link)
                target = instead.get(end.target_id, end.target_id)
                moved = end.model_copy(update={"target_id": target})
                later.append((instead.get(link.low_id, link.low_id), moved))
        return later

    def _restore_link(self, source: str, end: MemoryLink) -> None:
        """Between those who stand for its ends today; none that leads to a forgotten one."""
        if (heir := self._heir(source)) is not None:
            self._put_link(heir, end, replace=False)

    def keep_turn(self, turn: Turn, name: str) -> bool:
        """Keep a turn until it is extracted; whether it was not known before."""
        digest = hashlib.sha256(turn.text.encode()).hexdigest()[:32]
        statement = self._upsert(t.turns).values(
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
            t.turns.update().where(t.turns.c.seq == seq).values(candidates=found)
        )

    def count_attempt(self, seq: int) -> None:
        """A turn could not be extracted this time."""
        attempts = t.turns.c.attempts + 1
        self._connection.execute(
            t.turns.update().where(t.turns.c.seq == seq).values(attempts=attempts)
        )

    def finish_turn(self, seq: int) -> None:
        """A turn is extracted: all that stays of it is how it is known again."""
        self._connection.execute(
            t.turns.update()
            .where(t.turns.c.seq == seq)
            .values(pending=False, turn=None, candidates=None)
        )

    def image(self, ids: Sequence[str]) -> str:
        """The rows and links of these memories as they are now, as JSON; None for unknown ids."""
        rows: dict[str, Any] = dict.fromkeys(ids)
        for some in _chunks(ids):
            query = sa.select(t.memories).where(t.memories.c.id.in_(some))
            for row in self._connection.execute(query).mappings():
                rows[row["id"]] = dict(row)
        links = [list(link) for link in self._link_rows(ids, dangling=True)]
        return json.dumps({"rows": rows, "links": links})

    # --- links and episodes, for the agent ---

    def link(
        self, source_id: str, target_id: str, kind: LinkType, note: str = "", *, replace: bool
    ) -> bool:
        """Link two memories; whether they were not linked before.

        A link that is there keeps its confidence, and with `replace` takes the new kind and note.
        """
        known = self._link_between(source_id, target_id)
        confidence = known.confidence if known else MemoryLink(target_id=target_id).confidence
        end = MemoryLink(target_id=target_id, link_type=kind, note=note, confidence=confidence)
        if known is None or replace:
            self._put_link(source_id, end, replace=replace)
        return known is None

    def bump_confidence(self, a: str, b: str, by: float) -> bool:
        """Trust a link more, up to 1; False where there is none."""
        known = self._link_between(a, b)
        if known is None:
            return False
        raised = min(1.0, round(known.confidence + by, 6))
        here = sa.and_(t.links.c.low_id == known.low_id, t.links.c.high_id == known.high_id)
        self._connection.execute(t.links.update().where(here).values(confidence=raised))
        self._touched |= {a, b}
        return True

    def _link_between(self, a: str, b: str) -> sa.Row[Any] | None:
        low, high = sorted((a, b))
        query = sa.select(t.links).where(t.links.c.low_id == low, t.links.c.high_id == high)
        return self._connection.execute(query).first()

    def put_episode(self, episode: Episode) -> None:
        """Store an episode, or new values for it."""
        values = {
            "summary": episode.summary,
            "memory_ids": json.dumps(episode.memory_ids),
            "start_time": episode.start_time.isoformat(),
            "end_time": episode.end_time.isoformat(),
            "importance": episode.importance,
        }
        statement = self._upsert(t.episodes).values(id=episode.id, **values)
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=["id"], set_=values)
        )

    def forget_in_episodes(self, contents: Collection[str]) -> None:
        """Summaries that quote a text lose their words; the ids are filtered by who reads."""
        for episode in self.episodes():
            if any(content in episode.summary for content in contents):
                self.put_episode(episode.model_copy(update={"summary": FORGOTTEN_SUMMARY}))

    def set_index_state(self, collection: str, place: str, watermark: int) -> None:
        """The collection at a place has followed this far; it is as stale as it was."""
        values = {"place": place, "watermark": watermark}
        statement = self._upsert(t.index_state).values(collection=collection, **values)
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=["collection"], set_=values)
        )

    def index_is_clean(self, collection: str) -> None:
        """A collection holds nothing any more of what was forgotten."""
        mine = t.index_state.c.collection == collection
        self._connection.execute(t.index_state.update().where(mine).values(stale=False))

    def drop_other_indexes(self, place: str, collection: str) -> None:
        """At this place there is only this collection now."""
        state = t.index_state.c
        gone = t.index_state.delete().where(state.place == place, state.collection != collection)
        self._connection.execute(gone)

    def load(self, table_name: str, rows: Sequence[dict[str, Any]]) -> None:
        """Rows as `dump` gave them, into the same tables, which are empty or hold one row."""
        table = t.schema.tables[table_name]
        if table in (t.meta, t.counter):
            self._connection.execute(table.delete())
        self._connection.execute(table.insert(), rows)
        if self._connection.dialect.name == "postgresql" and "seq" in table.c:
            last = sa.select(sa.func.max(table.c.seq)).scalar_subquery()
            sequence = sa.func.pg_get_serial_sequence(table.name, "seq")
            self._connection.execute(sa.select(sa.func.setval(sequence, last)))

    def take_revision(self) -> None:
        """Number what this transaction wrote; the last step before the commit."""
        if not (self._touched or self._recorded):
            return
        self._connection.execute(t.counter.update().values(value=t.counter.c.value + 1))
        number = self.revision()
        for some in _chunks(sorted(self._touched)):
            written = t.memories.update().where(t.memories.c.id.in_(some))
            self._connection.execute(written.values(revision=number))
        decided = t.decisions.update().where(t.decisions.c.seq.in_(self._recorded))
        self._connection.execute(decided.values(revision=number))


# --- small parts --------------------------------------------------------------------------------


def _to_row(values: sa.RowMapping, links: tuple[MemoryLink, ...]) -> Row:
    return Row(
        memory=t.to_memory(values, links),
        live=values["live"],
        successor_id=values["successor_id"],
        text_key=values["text_key"],
        seq=values["seq"],
        revision=values["revision"],
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


def _links_of_image(links: Iterable[Sequence[Any]]) -> Iterator[tuple[str, MemoryLink]]:
    for low_id, high_id, link_type, note, confidence in links:
        yield (
            low_id,
            MemoryLink(target_id=high_id, link_type=link_type, note=note, confidence=confidence),
        )


def _seen_from(memory_id: str, link: sa.Row[Any]) -> MemoryLink:
    """The end of a link that one of its two memories carries."""
    low = link.low_id == memory_id
    return MemoryLink(
        target_id=link.high_id if low else link.low_id,
        link_type=link.link_type if low else INVERSE_LINK[link.link_type],
        note=link.note,
        confidence=link.confidence,
    )


def _chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    return (values[start : start + _IN] for start in range(0, len(values), _IN))


def _about(ids: Sequence[str], *, involved_only: bool = True) -> sa.ColumnElement[bool]:
    """Decisions that a memory was a member or a survivor of, or else was compared in."""
    query = sa.select(t.mentions.c.decision).where(t.mentions.c.memory_id.in_(ids))
    if involved_only:
        query = query.where(t.mentions.c.involved)
    return t.decisions.c.seq.in_(query)


def _in_scope(scope: Scope) -> list[sa.ColumnElement[bool]]:
    columns = t.memories.c
    return [
        columns[name].is_(value) if value is None else columns[name] == value
        for name, value in scope.values
    ]

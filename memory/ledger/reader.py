"""Questions to one state of the ledger."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import sqlalchemy as sa
from pydantic import TypeAdapter
from sqlalchemy.engine import Connection

from memory.ledger import tables as t
from memory.ledger.records import (
    FORGOTTEN_KEY,
    REVERSIBLE,
    Change,
    Counts,
    DecisionRecord,
    IndexState,
    PendingTurn,
    Row,
    Run,
)
from memory.models import (
    INVERSE_LINK,
    Action,
    Candidate,
    Episode,
    Memory,
    MemoryLink,
    Scope,
    Turn,
    Vector,
)

_PAGE = 2_000
_CANDIDATES = TypeAdapter(tuple[Candidate, ...])
_HIGHEST_NUMBER = 2**31 - 1
"""PostgreSQL's integers end here."""
_IN = 500
"""Values in one IN (...): far below SQLite's 32,766 variables."""


class Reader:
    """Questions to one state of the ledger."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def revision(self) -> int:
        """The latest committed transaction's number, 0 for a new ledger."""
        return int(self._connection.scalar(sa.select(t.counter.c.value)) or 0)

    def meta(self, key: str) -> str | None:
        """A fact about the store itself; None where it was never set."""
        return self._connection.scalar(sa.select(t.meta.c.value).where(t.meta.c.key == key))

    # --- memories ---

    def row(self, memory_id: str) -> Row | None:
        return self.rows([memory_id]).get(memory_id)

    def rows(self, ids: Sequence[str]) -> dict[str, Row]:
        """Live and retired, by id; unknown ids are left out."""
        found: dict[str, Row] = {}
        for some in chunks(ids):
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
        same = [memory, renamed] if here is not None else [memory]
        hashes = [t.identity_hash(one) for one in same]
        query = sa.select(t.memories).where(t.memories.c.identity_hash.in_(hashes)).limit(1)
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
                ends.setdefault(source, []).append(seen_from(source, link))
        return {source: tuple(found) for source, found in ends.items()}

    def _link_rows(self, ids: Sequence[str], *, dangling: bool = False) -> list[sa.Row[Any]]:
        """Links that touch these memories; the dangling ones lead to what has not arrived yet."""
        links = sa.select(t.links) if dangling else t.LIVE_LINKS
        found: dict[tuple[str, str], sa.Row[Any]] = {}
        for some in chunks(ids):
            touching = sa.or_(t.links.c.low_id.in_(some), t.links.c.high_id.in_(some))
            for link in self._connection.execute(links.where(touching)):
                found[link.low_id, link.high_id] = link
        return [found[key] for key in sorted(found)]

    # --- vectors ---

    def vectors(self, keys: Iterable[str]) -> dict[str, Vector]:
        """Known vectors by text key; unknown ones are left out."""
        found: dict[str, Vector] = {}
        for some in chunks(list(dict.fromkeys(keys))):
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

    def distinct_from(self, scope: Scope, key: str) -> set[str]:
        """Keys of the texts that were judged to differ from this one."""
        low, high = t.distinct_pairs.c.low_key, t.distinct_pairs.c.high_key
        query = sa.select(low, high).where(
            t.distinct_pairs.c.scope == scope.key, sa.or_(low == key, high == key)
        )
        return {a if b == key else b for a, b in self._connection.execute(query)}

    def rows_with_texts(self, scope: Scope, keys: Iterable[str]) -> int:
        """How many live memories of the scope have one of these texts."""
        among = [t.memories.c.text_key.in_(some) for some in chunks(sorted(keys))]
        inside = _in_scope(scope)
        return sum(
            self._count(t.memories, sa.and_(t.memories.c.live, one, *inside)) for one in among
        )

    def distinct_pairs(self) -> set[tuple[str, str, str]]:
        """(scope key, lower text key, higher text key) of every pair judged different."""
        query = sa.select(
            t.distinct_pairs.c.scope, t.distinct_pairs.c.low_key, t.distinct_pairs.c.high_key
        )
        return {(row.scope, row.low_key, row.high_key) for row in self._connection.execute(query)}

    # --- decisions ---

    def decision(self, number: int) -> DecisionRecord | None:
        if number > _HIGHEST_NUMBER:
            return None
        query = sa.select(t.decisions).where(t.decisions.c.seq == number)
        return next(iter(self._recorded_by(query)), None)

    def decisions(self, memory_id: str | None = None) -> list[DecisionRecord]:
        """Decisions about a memory, or all but plain additions, oldest first."""
        plain = t.decisions.c.action == Action.ADD.value
        wanted = sa.not_(plain) if memory_id is None else decisions_about([memory_id])
        return self._recorded_by(sa.select(t.decisions).where(wanted))

    def pending_decisions(self) -> list[DecisionRecord]:
        """Decisions made for want of a model's answer, oldest first."""
        return self._recorded_by(sa.select(t.decisions).where(t.decisions.c.pending))

    def decisions_of(self, run: str) -> list[DecisionRecord]:
        """What a run decided, oldest first."""
        return self._recorded_by(sa.select(t.decisions).where(t.decisions.c.run == run))

    def decisions_after(self, recorded: DecisionRecord) -> list[int]:
        """Numbers of the later decisions, not undone, that stand on what this one left."""
        later = sa.select(t.decisions.c.seq).where(
            t.decisions.c.seq > recorded.number,
            sa.not_(t.decisions.c.undone),
            t.decisions.c.action.in_(REVERSIBLE),
        )
        found: set[int] = set()
        for some in chunks([*recorded.members, *recorded.created]):
            found |= set(self._connection.scalars(later.where(decisions_about(some))))
        return sorted(found)

    def runs(self) -> list[Run]:
        """Every run that decided something, oldest first."""
        of_run = t.decisions.c.run.is_not(None)
        query = sa.select(t.decisions).where(of_run)
        found: dict[str, list[DecisionRecord]] = {}
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

    def _recorded_by(self, query: sa.Select[Any]) -> list[DecisionRecord]:
        return [
            DecisionRecord(
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

    def kept_turns(self) -> list[PendingTurn]:
        """Turns that wait to be extracted, in the order in which they were kept."""
        query = sa.select(t.turns).where(t.turns.c.pending).order_by(t.turns.c.seq)
        return [
            PendingTurn(
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


def seen_from(memory_id: str, link: sa.Row[Any]) -> MemoryLink:
    """The end of a link that one of its two memories carries."""
    low = link.low_id == memory_id
    return MemoryLink(
        target_id=link.high_id if low else link.low_id,
        link_type=link.link_type if low else INVERSE_LINK[link.link_type],
        note=link.note,
        confidence=link.confidence,
    )


def chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    return (values[start : start + _IN] for start in range(0, len(values), _IN))


def decisions_about(ids: Sequence[str], *, involved_only: bool = True) -> sa.ColumnElement[bool]:
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

"""Memories, live and retired, and who lives for whom."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from operator import attrgetter
from typing import Any

import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.links import (
    Links,
    LinksWriter,
    State,
    end_of,
    inherited,
    lived_for,
    resolved_link,
)
from memory.ledger.records import Row
from memory.ledger.transaction import TableGroup, among
from memory.models import SCOPE_FIELDS, Memory, MemoryLink, Scope

_PAGE = 2_000
_NEVER_RESTORED = {"seq", "revision"}

_AMONG_IDS = among(t.memories.c.id, "ids")
_ARRIVALS = sa.or_(_AMONG_IDS, among(t.memories.c.identity_hash, "hashes"))
_EVERY = (
    sa.select(t.memories)
    .where(t.memories.c.seq > sa.bindparam("after"))
    .order_by(t.memories.c.seq)
    .limit(_PAGE)
)
_OF_IDS = sa.select(t.memories).where(_AMONG_IDS)
_ARRIVED = sa.select(t.memories).where(_ARRIVALS)
_RETIRED_FOR = sa.select(t.memories.c.id).where(among(t.memories.c.successor_id, "ids"))
_STATES = sa.select(
    t.memories.c.id, t.memories.c.live, t.memories.c.successor_id, t.memories.c.text_key
).where(_AMONG_IDS)
_UPDATE = t.memories.update().where(_AMONG_IDS)


class Memories(TableGroup):
    """What is remembered; each row comes with its links."""

    @cached_property
    def _links(self) -> Links:
        return Links(self._transaction)

    def row(self, memory_id: str) -> Row | None:
        return self.rows([memory_id]).get(memory_id)

    def rows(self, ids: Sequence[str]) -> dict[str, Row]:
        """Live and retired, by id; unknown ids are left out."""
        if not ids:
            return {}
        return {row.memory.id: row for row in self._found(_OF_IDS, ids=ids)}

    def named(self, name: str) -> list[Row]:
        """Return the memory with this id; else those that came under it, the live ones alone.

        Where none of the latter lives, all of them.
        """
        if (row := self.row(name)) is not None:
            return [row]
        query = sa.select(t.memories.c.id).where(t.memories.c.external_id == name)
        found = list(self.rows(list(self._connection.scalars(query))).values())
        return [row for row in found if row.live] or found

    def all(self) -> Iterator[Row]:
        """Live, retired and forgotten, in order of arrival, page by page."""
        return self._pages(_EVERY)

    def live(self) -> Iterator[Row]:
        """In order of arrival, page by page."""
        return self._pages(_EVERY.where(t.memories.c.live))

    def first_of(self, user: str, limit: int) -> list[Row]:
        """The first memories about a user, live and retired, in order of arrival."""
        query = sa.select(t.memories.c.id).where(t.memories.c.user == user)
        names = list(self._connection.scalars(query.order_by(t.memories.c.seq).limit(limit)))
        return list(self.rows(names).values())

    def live_with_texts(self, keys: Collection[str], scope: Scope) -> list[Row]:
        """Live memories of the scope with one of these texts, newest first."""
        found = self._found(sa.select(t.memories).where(*_have_texts(keys, scope)))
        if scope.of_metadata:
            found = _held(scope, found)
        return sorted(found, key=lambda row: row.memory.timestamp, reverse=True)

    def live_written_after(self, revision: int, scope: Scope) -> list[Row]:
        """Live memories of the scope above a revision, in order of arrival.

        They are few, however many the scope has: in no order, SQLite finds them by the revision.
        """
        newer = t.memories.c.revision > revision
        query = sa.select(t.memories.c.id).where(newer, t.memories.c.live, *_same_in(scope))
        names = list(self._connection.scalars(query))
        return _held(scope, list(self.rows(names).values()))

    def newest(self, limit: int | None, scope: Scope, since: datetime | None = None) -> list[Row]:
        """The live memories of the scope that were recorded last, newest first."""
        written: sa.ColumnElement[str] = t.memories.c.timestamp
        if self._transaction.dialect == "postgresql":
            written = written.collate("C")  # in time, not as a language sorts
        recorded = [] if since is None else [written >= since.astimezone(UTC).isoformat()]
        query = sa.select(t.memories.c.id).where(t.memories.c.live, *_in_scope(scope), *recorded)
        query = query.order_by(written.desc(), t.memories.c.seq.desc())
        names = list(self._connection.scalars(query.limit(None if scope.of_metadata else limit)))
        rows = self.rows(names)
        return _held(scope, [rows[name] for name in names])[:limit]

    def count_with_texts(self, keys: Iterable[str], scope: Scope) -> int:
        """How many live memories of the scope have one of these texts."""
        wanted = set(keys)
        if not wanted:
            return 0
        if scope.of_metadata:
            return len(self.live_with_texts(wanted, scope))
        return self._transaction.count(t.memories, sa.and_(*_have_texts(wanted, scope)))

    def earlier_arrivals(self, memories: Sequence[Memory]) -> list[tuple[Row | None, bool]]:
        """The row of an earlier arrival of each of these very memories, and if its id is taken.

        That is one with its id, about the same user, that says or once said the same, or was
        forgotten; or one of the same external id (or none), user, privacy, time and text, which
        includes the one that was stored under another id because this one's was taken.
        """
        told = [_identities(memory) for memory in memories]
        names = [memory.id for memory in memories]
        hashes = {name for both in told for name in both}
        rows = self._found(_ARRIVED, ids=names, hashes=hashes)
        by_id = {row.memory.id: row for row in rows}
        by_identity = {row.identity_hash: row for row in reversed(rows)}
        found: list[tuple[Row | None, bool]] = []
        for memory, (own, under_another_id) in zip(memories, told, strict=True):
            here = by_id.get(memory.id)
            if here is not None and (here.forgotten or self._once_said(here, memory)):
                found.append((here, True))
                continue
            identities = (own,) if here is None else (own, under_another_id)
            known = [by_identity[name] for name in identities if name in by_identity]
            earlier = min(known, key=attrgetter("seq"), default=None)
            found.append((earlier, here is not None))
        return found

    def has_arrived(self, memory: Memory) -> bool:
        """Whether its id is taken, or the same arrival is here under another one."""
        same = t.memories.c.identity_hash == t.identity_hash(memory)
        query = sa.select(t.memories.c.seq).where(sa.or_(t.memories.c.id == memory.id, same))
        return self._connection.scalar(query.limit(1)) is not None

    def _once_said(self, row: Row, memory: Memory) -> bool:
        known = row.memory
        if (known.user, known.is_private) != (memory.user, memory.is_private):
            return False
        if known.content == memory.content:
            return True
        version = sa.and_(
            t.memories.c.successor_id == known.id, t.memories.c.content == memory.content
        )
        return bool(self._transaction.count(t.memories, version))

    # --- who lives for whom ---

    def living(self, row: Row) -> Row | None:
        """The live memory that stands for a row today; None where there is none."""
        if row.live:
            return row
        alive = self.living_ids([row.memory.id]).get(row.memory.id)
        return self.row(alive) if alive is not None else None

    def living_ids(self, ids: Iterable[str]) -> dict[str, str]:
        """Who lives for each of these memories today, in the given order.

        Those for whom nobody lives, and unknown ones, are left out.
        """
        wanted = list(dict.fromkeys(ids))
        states = self._states(wanted)
        ends = {name: end_of(name, states) for name in wanted}
        return {name: end for name, end in ends.items() if end is not None and states[end].live}

    def resolved(self, ids: Iterable[str]) -> dict[str, str]:
        """As `living_ids`; what has not arrived yet, or is being retired, is named itself.

        What was forgotten is left out.
        """
        wanted = list(dict.fromkeys(ids))
        return lived_for(wanted, self._states(wanted))

    def ancestors(self, *ids: str) -> list[str]:
        """Ids of the other memories, retired, that these stand for, directly or not."""
        found = dict.fromkeys(ids)
        todo = list(ids)
        while todo:
            retired = self._connection.scalars(_RETIRED_FOR, {"ids": todo})
            todo = [name for name in dict.fromkeys(retired) if name not in found]
            found |= dict.fromkeys(todo)
        return list(found)[len(set(ids)) :]

    def successions(self) -> dict[str, str | None]:
        """Who stands for each retired memory that was not forgotten."""
        query = sa.select(t.memories.c.id, t.memories.c.successor_id).where(
            sa.not_(t.memories.c.live), t.memories.c.text_key != t.FORGOTTEN_KEY
        )
        return {row.id: row.successor_id for row in self._connection.execute(query)}

    def highest_revision(self) -> int:
        """The highest that a row has; never above the ledger's."""
        return int(self._connection.scalar(sa.select(sa.func.max(t.memories.c.revision))) or 0)

    # --- inside ---

    def _states(self, ids: Iterable[str]) -> dict[str, State]:
        """Of these memories, and of all that stand for them."""
        found: dict[str, State] = {}
        asked: set[str] = set()
        todo = list(ids)
        while todo:
            asked.update(todo)
            fresh = self._states_of(todo)
            found |= fresh
            ends = {state.successor_id for state in fresh.values() if not state.live}
            todo = [name for name in ends if name is not None and name not in asked]
        return found

    def _states_of(self, ids: Sequence[str]) -> dict[str, State]:
        return {
            row.id: State(row.live, row.successor_id, row.text_key == t.FORGOTTEN_KEY)
            for row in self._connection.execute(_STATES, {"ids": ids})
        }

    def _pages(self, query: sa.Select[Any]) -> Iterator[Row]:
        last = 0
        while True:
            page = self._rows(self._connection.execute(query, {"after": last}).all())
            yield from page
            if len(page) < _PAGE:
                return
            last = page[-1].seq

    def _found(self, query: sa.Select[Any], **values: Any) -> list[Row]:
        """Rows of a query on memories, in order of arrival, each with its links.

        Where the query itself asks for an order, SQLite reads the whole table in that order.
        """
        found = self._rows(self._connection.execute(query, values).all())
        return sorted(found, key=attrgetter("seq"))

    def _rows(self, found: Sequence[Any]) -> list[Row]:
        links = self._links.of([row.id for row in found])
        return [t.to_row(row._asdict(), links.get(row.id, ())) for row in found]


class MemoriesWriter(Memories):
    """Memories, to be stored, changed and retired; each one counts as touched."""

    @cached_property
    def _links(self) -> LinksWriter:
        return LinksWriter(self._transaction)

    def insert(self, memory: Memory) -> None:
        """A new live memory, with its links."""
        self.insert_all([memory])

    def insert_all(self, memories: Sequence[Memory]) -> None:
        """New live memories, in this order, with their links."""
        transaction = self._transaction
        written = {"live": True, "successor_id": None, "revision": transaction.revision}
        rows = [
            written | {"identity_hash": t.identity_hash(memory)} | t.to_columns(memory)
            for memory in memories
        ]
        self._connection.execute(t.memories.insert(), rows)
        transaction.numbered = True
        transaction.reworded |= {memory.id for memory in memories}
        links = [(memory.id, link) for memory in memories for link in memory.linked_ids]
        if not links:
            return
        targets = self.resolved(link.target_id for _, link in links)
        self._links.put_all([found for link in links for found in resolved_link(*link, targets)])

    def rewrite(self, memories: Sequence[Memory]) -> None:
        """New values for existing memories; their links stay as they are."""
        self._update_each({memory.id: t.to_columns(memory) for memory in memories})

    def retire(self, successions: Sequence[tuple[str, str]]) -> None:
        """Keep their texts and vectors, and say who stands for each now and inherits its links.

        Each is given by its id and its successor's, in this order.
        """
        links = self._links.touching([retired for retired, _ in successions])
        if links:
            self._hand_on(links, successions)
        self._update_each(
            {name: {"live": False, "successor_id": successor} for name, successor in successions}
        )

    def _hand_on(
        self, links: Sequence[sa.Row[Any]], successions: Sequence[tuple[str, str]]
    ) -> None:
        """The links of those who are about to be retired go to their successors."""
        ends = {name for link in links for name in (link.low_id, link.high_id)}
        states = self._states(ends.union(*successions))
        kept = self._links.touching(sorted({successor for _, successor in successions}))
        new = inherited([*links, *kept], successions, states)
        self._links.drop(sorted({retired for retired, _ in successions}))
        self._links.put_all(new)

    def restore_links(self, links: Sequence[tuple[str, MemoryLink]]) -> None:
        """Each between those who live for its ends today; none that leads to a forgotten one."""
        ends = {name for source, end in links for name in (source, end.target_id)}
        alive = self.resolved(ends)
        for source, end in links:
            if source in alive:
                self._put_if_new(alive[source], end, alive)

    def _put_if_new(self, memory_id: str, end: MemoryLink, targets: dict[str, str]) -> None:
        for link in resolved_link(memory_id, end, targets):
            self._links.put_if_new(*link)

    def bury(self, ids: Sequence[str]) -> None:
        """Only the ids stay, so that nobody takes them and whoever follows hears of it."""
        self._links.drop(ids)
        self._update(ids, t.TOMBSTONE)

    def image(self, ids: Sequence[str]) -> str:
        """The rows and links of these memories as they are now, as JSON; None for unknown ids."""
        return self.images([ids])[0]

    def images(self, wanted: Sequence[Sequence[str]]) -> list[str]:
        """The same for several groups of memories."""
        ids = list(dict.fromkeys(name for some in wanted for name in some))
        found = self._connection.execute(_OF_IDS, {"ids": ids}) if ids else ()
        rows = {row.id: row._asdict() for row in found}
        links = [list(link) for link in self._links.touching(ids)]
        images = []
        for some in wanted:
            touching = [link for link in links if not {*link[:2]}.isdisjoint(some)]
            image = {"rows": {name: rows.get(name) for name in some}, "links": touching}
            images.append(json.dumps(image))
        return images

    def restore(self, image: str) -> None:
        """The rows of an image as they were; their links are another matter."""
        for name, columns in json.loads(image)["rows"].items():
            self._update([name], {key: columns[key] for key in columns.keys() - _NEVER_RESTORED})

    def _update(self, ids: Sequence[str], values: dict[str, Any]) -> None:
        self._connection.execute(_UPDATE.values(values), {"ids": ids})
        self._transaction.touched |= set(ids)
        self._transaction.reworded |= set(ids)

    def _update_each(self, values: Mapping[str, Mapping[str, Any]]) -> None:
        """Values of the same columns for each id, in one statement."""
        if values:
            update = t.memories.update().where(t.memories.c.id == sa.bindparam("of_id"))
            self._connection.execute(update, [{"of_id": name, **values[name]} for name in values])
        self._transaction.touched |= values.keys()
        self._transaction.reworded |= values.keys()


def strangers(new: Sequence[Memory]) -> Iterator[slice]:
    """Cut new memories, in order, so that in no part one can be an earlier arrival of another."""
    start, seen = 0, set[str]()
    for position, memory in enumerate(new if len(new) > 1 else ()):
        names = {memory.id, *_identities(memory)}
        if names & seen:
            yield slice(start, position)
            start, seen = position, set()
        seen |= names
    if new:
        yield slice(start, len(new))


def _identities(memory: Memory) -> tuple[str, str]:
    """What makes it known again, as it is and where another had its id."""
    if memory.external_id is not None:
        told = t.identity_hash(memory)
        return told, told
    return t.identity_hash(memory), t.identity_hash(memory, memory.id)


# --- scopes: what columns can say of one; `_held` looks at the rest ------------------------------


def _in_scope(scope: Scope) -> list[sa.ColumnElement[bool]]:
    return [t.memories.c[name] == value for name, value in scope.values if name in SCOPE_FIELDS]


def _have_texts(keys: Collection[str], scope: Scope) -> Iterator[sa.ColumnElement[bool]]:
    yield among(t.memories.c.text_key, keys)
    yield t.memories.c.live
    yield from _same_in(scope)


def _same_in(scope: Scope) -> Iterator[sa.ColumnElement[bool]]:
    """By no index: another condition finds fewer rows; SQLite takes every user for a rare one."""
    for name, value in scope.values:
        if name in SCOPE_FIELDS:
            column: sa.ColumnElement[Any] = t.memories.c[name]
            is_text = isinstance(column.type, sa.Text)
            yield (column.concat("") if is_text else column).is_not_distinct_from(value)


def _held(scope: Scope, rows: list[Row]) -> list[Row]:
    return [row for row in rows if scope.has(row.memory)] if scope.of_metadata else rows

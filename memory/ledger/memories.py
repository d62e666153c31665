"""The table of memories, live and retired, with their links and successors."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, cached_property
from operator import attrgetter
from typing import Any

import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.links import (
    LinksWriter,
    State,
    inherited,
    live_end,
    of_live_memories,
    resolved_ids,
    resolved_link,
)
from memory.ledger.records import Row
from memory.ledger.statements import Prepared, TableGroup, among
from memory.models import SCOPE_FIELDS, Memory, MemoryLink, Scope

_PAGE = 2_000
_NEVER_RESTORED = {"seq", "revision"}

_AMONG_IDS = among(t.memories.c.id, "ids")
_ARRIVALS = sa.or_(_AMONG_IDS, among(t.memories.c.identity_hash, "hashes"))
_AFTER = (
    sa.select(t.memories)
    .where(t.memories.c.seq > sa.bindparam("after"))
    .order_by(t.memories.c.seq)
    .limit(_PAGE)
)
_EVERY = Prepared(_AFTER)
_LIVE = Prepared(_AFTER.where(t.memories.c.live))
_OF_IDS = Prepared(sa.select(t.memories).where(_AMONG_IDS))
_ARRIVED = Prepared(sa.select(t.memories).where(_ARRIVALS))
_RETIRED_FOR = sa.select(t.memories.c.id).where(among(t.memories.c.successor_id, "ids"))
_STATES = Prepared(
    sa.select(
        t.memories.c.id, t.memories.c.live, t.memories.c.successor_id, t.memories.c.text_key
    ).where(_AMONG_IDS)
)
_INSERT = Prepared(t.memories.insert())


class Memories(TableGroup):
    """Read access to memories; each row comes with the memory's links."""

    def row(self, memory_id: str) -> Row | None:
        return self.rows([memory_id]).get(memory_id)

    def rows(self, ids: Sequence[str]) -> dict[str, Row]:
        """Return live, retired and forgotten memories by id; unknown ids are left out."""
        if not ids:
            return {}
        return {row.memory.id: row for row in self._found(_OF_IDS, ids=ids)}

    def named(self, name: str) -> list[Row]:
        """Return the memory whose id is `name`; if none, the memories whose external id is `name`.

        An external id may have several memories. If any of them are live, only those are returned.
        """
        if (row := self.row(name)) is not None:
            return [row]
        query = sa.select(t.memories.c.id).where(t.memories.c.external_id == name)
        found = list(self.rows(list(self._connection.scalars(query))).values())
        return [row for row in found if row.live] or found

    def all(self) -> Iterator[Row]:
        """Yield live, retired and forgotten memories in order of arrival."""
        return self._pages(_EVERY)

    def live(self) -> Iterator[Row]:
        return self._pages(_LIVE)

    def first_of(self, user: str, limit: int) -> list[Row]:
        """Return the first `limit` memories about a user, live and retired, in order of arrival."""
        query = sa.select(t.memories.c.id).where(t.memories.c.user == user)
        names = list(self._connection.scalars(query.order_by(t.memories.c.seq).limit(limit)))
        return list(self.rows(names).values())

    def live_with_texts(self, keys: Collection[str], scope: Scope) -> list[Row]:
        """Return the live memories of the scope that have one of these text keys, newest first."""
        values = _column_values(scope)
        found = self._found(_with_texts(tuple(values)), keys=keys, **values)
        return sorted(_held(scope, found), key=lambda row: row.memory.timestamp, reverse=True)

    def live_written_after(self, revision: int, scope: Scope) -> list[Row]:
        """Return the scope's live memories with a revision above `revision`, in order of arrival.

        Rows are sorted in Python: with ORDER BY, SQLite would not use the index of revisions.
        """
        values = _column_values(scope)
        newer = _written_after(tuple(values))
        names = [row.id for row in newer.rows(self._connection, after=revision, **values)]
        return _held(scope, list(self.rows(names).values()))

    def newest(self, limit: int | None, scope: Scope, since: datetime | None = None) -> list[Row]:
        """Return the newest live memories of the scope, newest first.

        At most `limit` memories are returned, or all if `limit` is None.
        Memories with a time before `since` are left out.
        """
        written: sa.ColumnElement[str] = t.memories.c.timestamp
        if self._transaction.dialect == "postgresql":
            written = written.collate("C")  # in time, not as a language sorts
        recorded = [] if since is None else [written >= since.astimezone(UTC).isoformat()]
        query = sa.select(t.memories.c.id).where(t.memories.c.live, *t.in_scope(scope), *recorded)
        query = query.order_by(written.desc(), t.memories.c.seq.desc())
        names = list(self._connection.scalars(query.limit(None if scope.of_metadata else limit)))
        rows = self.rows(names)
        return _held(scope, [rows[name] for name in names])[:limit]

    def earlier_arrivals(self, memories: Sequence[Memory]) -> list[tuple[Row | None, bool]]:
        """Look up which of these memories are stored already.

        Return a pair for each given memory, in order. Its first value is the row in which the same
        memory is stored, or None. Its second value is whether a row has the given memory's id. A
        stored memory is the same as the given memory if one of these is true:

        - It has the same id, user and privacy, and it has or once had the same text.
        - It has the same id, and it was forgotten.
        - It has the same user, privacy, time, text and external id; two memories without an
          external id agree in it. This also finds a memory that was stored under a new id, because
          another memory had taken its id.
        """
        identities = [_identities(memory) for memory in memories]
        names = [memory.id for memory in memories]
        hashes = {name for both in identities for name in both}
        rows = self._found(_ARRIVED, ids=names, hashes=hashes)
        by_id = {row.memory.id: row for row in rows}
        by_identity = {row.identity_hash: row for row in reversed(rows)}
        found: list[tuple[Row | None, bool]] = []
        for memory, (own, under_another_id) in zip(memories, identities, strict=True):
            same_id = by_id.get(memory.id)
            if same_id is not None and (same_id.forgotten or self._once_said(same_id, memory)):
                found.append((same_id, True))
                continue
            possible = (own,) if same_id is None else (own, under_another_id)
            known = [by_identity[name] for name in possible if name in by_identity]
            earlier = min(known, key=attrgetter("seq"), default=None)
            found.append((earlier, same_id is not None))
        return found

    def _once_said(self, row: Row, memory: Memory) -> bool:
        """Return whether `row` has the user and privacy of `memory`, and has or had its text.

        An earlier text is that of a retired memory whose successor is `row`.
        """
        known = row.memory
        if (known.user, known.is_private) != (memory.user, memory.is_private):
            return False
        if known.content == memory.content:
            return True
        version = sa.and_(
            t.memories.c.successor_id == known.id, t.memories.c.content == memory.content
        )
        return bool(self._transaction.count(t.memories, version))

    # --- successors ---

    def living(self, row: Row) -> Row | None:
        """Return the row of a memory's live successor; None if there is none.

        A live memory is its own successor.
        """
        if row.live:
            return row
        alive = self.living_ids([row.memory.id]).get(row.memory.id)
        return self.row(alive) if alive is not None else None

    def living_ids(self, ids: Iterable[str]) -> dict[str, str]:
        """Return, by id, the id of each memory's live successor; a live memory maps to itself.

        The result has the order of `ids`. Unknown ids and memories without a live successor are
        left out.
        """
        wanted = list(dict.fromkeys(ids))
        states = self._states(wanted)
        return {name: end for name in wanted if (end := live_end(name, states)) is not None}

    def living_rows(self, ids: Iterable[str]) -> dict[str, Row]:
        """Return, by id, the row of each memory's live successor; see `living_ids`."""
        ends = self.living_ids(ids)
        rows = self.rows(list(dict.fromkeys(ends.values())))
        return {name: rows[end] for name, end in ends.items()}

    def resolved(self, ids: Iterable[str]) -> dict[str, str]:
        """Map each id to the id of the live memory that has replaced this memory.

        A live memory, an unknown id, and a memory without a live successor map to themselves. Ids
        of forgotten memories are left out.
        """
        wanted = list(dict.fromkeys(ids))
        return resolved_ids(wanted, self._states(wanted))

    def ancestors(self, *ids: str) -> list[str]:
        """Return the ids of all retired memories that the memories `ids` have replaced.

        These memories were replaced directly, or their successors were replaced in turn.
        """
        found = dict.fromkeys(ids)
        todo = list(ids)
        while todo:
            retired = self._connection.scalars(_RETIRED_FOR, {"ids": todo})
            todo = [name for name in dict.fromkeys(retired) if name not in found]
            found |= dict.fromkeys(todo)
        return list(found)[len(set(ids)) :]

    def successions(self) -> dict[str, str | None]:
        """Map the id of each retired memory to its successor's id (None if it has none).

        Forgotten memories are left out.
        """
        query = sa.select(t.memories.c.id, t.memories.c.successor_id).where(
            sa.not_(t.memories.c.live), t.memories.c.text_key != t.FORGOTTEN_KEY
        )
        return {row.id: row.successor_id for row in self._connection.execute(query)}

    def highest_revision(self) -> int:
        """Return the highest revision of a memory; 0 if there is none."""
        return int(self._connection.scalar(sa.select(sa.func.max(t.memories.c.revision))) or 0)

    # --- inside ---

    def _states(self, ids: Iterable[str]) -> dict[str, State]:
        """Return, by id, the state of each of these memories and of all their successors."""
        found: dict[str, State] = {}
        seen: set[str] = set()
        todo = list(ids)
        while todo:
            seen.update(todo)
            fresh = {
                row.id: State(row.live, row.successor_id, row.text_key == t.FORGOTTEN_KEY)
                for row in _STATES.rows(self._connection, ids=todo)
            }
            found |= fresh
            ends = {state.successor_id for state in fresh.values() if not state.live}
            todo = [name for name in ends if name is not None and name not in seen]
        return found

    def _pages(self, query: Prepared) -> Iterator[Row]:
        """Yield all rows of a query, reading one page at a time.

        The query must return the first rows whose number is above its parameter `after`.
        """
        last = 0
        while True:
            page = self._found(query, after=last)
            yield from page
            if len(page) < _PAGE:
                return
            last = page[-1].seq

    def _found(self, query: Prepared, **values: Any) -> list[Row]:
        """Return the rows of a query on memories, sorted in order of arrival.

        Rows are sorted in Python: with ORDER BY, SQLite would read the whole table in that order.
        """
        found = query.rows(self._connection, **values)
        links = of_live_memories([row.id for row in found], self._connection) if found else {}
        rows = [t.to_row(row._asdict(), links.get(row.id, ())) for row in found]
        return sorted(rows, key=attrgetter("seq"))


class MemoriesWriter(Memories):
    """Write access to memories. Each memory that is written gets a new revision."""

    @cached_property
    def _links(self) -> LinksWriter:
        return LinksWriter(self._transaction)

    def insert_all(self, memories: Sequence[Memory]) -> None:
        """Store new live memories, in this order, with their links.

        A link to a retired memory goes to its live successor instead.
        """
        transaction = self._transaction
        written = {"live": True, "successor_id": None, "revision": transaction.revision}
        rows = [
            written | {"identity_hash": t.identity_hash(memory)} | t.to_columns(memory)
            for memory in memories
        ]
        _INSERT.run(self._connection, rows)
        transaction.numbered = True
        transaction.reworded |= {memory.id for memory in memories}
        links = [(memory.id, link) for memory in memories for link in memory.linked_ids]
        if links:
            targets = self.resolved(link.target_id for _, link in links)
            resolved = [found for link in links for found in resolved_link(*link, targets)]
            self._links.put(resolved)

    def rewrite(self, memories: Sequence[Memory]) -> None:
        """Replace the values of existing memories, found by id; their links stay as they are."""
        self._update({memory.id: t.to_columns(memory) for memory in memories})

    def retire(self, successions: Sequence[tuple[str, str]]) -> None:
        """Retire memories, one after the other. `successions`: pairs (memory id, successor's id).

        The retired memories keep their texts and vectors. The successors inherit their links.
        """
        retired = [name for name, _ in successions]
        if links := self._links.touching(retired):
            ends = {name for link in links for name in (link.low_id, link.high_id)}
            states = self._states(ends.union(*successions))
            kept = self._links.touching(sorted({successor for _, successor in successions}))
            new = inherited([*links, *kept], successions, states)
            self._links.drop(retired)
            self._links.put(new)
        self._update(
            {name: {"live": False, "successor_id": successor} for name, successor in successions}
        )

    def restore_links(self, links: Sequence[tuple[str, MemoryLink]]) -> None:
        """Restore links between memories. `links`: pairs of a memory's id and its link.

        If either end was retired, the link goes to its live successor instead. Links of forgotten
        memories are not restored, and existing links stay as they are.
        """
        alive = self.resolved({name for source, end in links for name in (source, end.target_id)})
        restored = [
            link
            for source, end in links
            if source in alive
            for link in resolved_link(alive[source], end, alive)
        ]
        self._links.put(restored, replace_old=False)

    def tombstone(self, ids: Sequence[str]) -> None:
        """Erase memories and their links for good; only their ids stay.

        The ids stay for two reasons: no new memory can take them, and indexes that follow the
        ledger see that they must remove the memories' vectors.
        """
        self._links.drop(ids)
        self._update(dict.fromkeys(ids, t.TOMBSTONE))

    def images(self, wanted: Sequence[Sequence[str]]) -> list[str]:
        """Return, for each group of memory ids in `wanted`, the present rows and links as JSON.

        A decision saves this JSON, so that undo can restore the memories. The row of an unknown id
        is null.
        """
        ids = list(dict.fromkeys(name for group in wanted for name in group))
        found = _OF_IDS.rows(self._connection, ids=ids) if ids else ()
        rows = {row.id: row._asdict() for row in found}
        links = [list(link) for link in self._links.touching(ids)]
        images = []
        for group in wanted:
            touching = [link for link in links if not {*link[:2]}.isdisjoint(group)]
            image = {"rows": {name: rows.get(name) for name in group}, "links": touching}
            images.append(json.dumps(image))
        return images

    def restore(self, image: str) -> None:
        """Write the rows in `image` back to the table. `image`: JSON that `images` returned.

        The links in it are not restored; `restore_links` does that.
        """
        for name, columns in json.loads(image)["rows"].items():
            kept = columns.keys() - _NEVER_RESTORED
            self._update({name: {key: columns[key] for key in kept}})

    def _update(self, values: Mapping[str, Mapping[str, Any]]) -> None:
        """Update rows of memories in one statement.

        `values`: by memory id, the new values by column name; all rows must have the same columns.
        """
        if values:
            update = t.memories.update().where(t.memories.c.id == sa.bindparam("of_id"))
            self._connection.execute(update, [{"of_id": name, **values[name]} for name in values])
        self._transaction.touched |= values.keys()
        self._transaction.reworded |= values.keys()


def split_repeats(new: Sequence[Memory]) -> Iterator[slice]:
    """Split new memories into consecutive slices, each of which can be stored in one step.

    Within a slice, no two memories have the same id, and no two would be recognised as the same
    memory. Together the slices cover all of `new`.
    """
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
    """Return the two identity hashes under which a memory may already be in the ledger.

    The first is the memory's own hash. The second is its hash if it was stored under a new id,
    because another memory had taken its id. In this case, the memory's original id was stored as
    its external id. A memory that already has an external id keeps it, and both hashes are equal.
    """
    own = t.identity_hash(memory)
    return own, own if memory.external_id else t.identity_hash(memory, memory.id)


# --- scopes: conditions on columns; `_held` checks the metadata -----------------------------------


@cache
def _with_texts(parameters: tuple[str, ...]) -> Prepared:
    texts = among(t.memories.c.text_key, "keys")
    return Prepared(sa.select(t.memories).where(texts, t.memories.c.live, *_in_columns(parameters)))


@cache
def _written_after(parameters: tuple[str, ...]) -> Prepared:
    newer = t.memories.c.revision > sa.bindparam("after")
    query = sa.select(t.memories.c.id).where(newer, t.memories.c.live, *_in_columns(parameters))
    return Prepared(query)


def _column_values(scope: Scope) -> dict[str, Any]:
    """Return the values that a scope has for columns, by parameter name.

    The parameter for the column `user` is `scope_user`, and so on. Metadata fields are left out.
    """
    return {f"scope_{name}": value for name, value in scope.values if name in SCOPE_FIELDS}


def _in_columns(parameters: Iterable[str]) -> Iterator[sa.ColumnElement[bool]]:
    """Yield, for each parameter name, the SQL condition that the column has the parameter's value.

    For `scope_user`, the column is `user`. The conditions are written so that SQLite uses no index
    for these columns. It would otherwise prefer the index of users to better ones, because it
    assumes that each user has few rows.
    """
    for name in parameters:
        column: sa.ColumnElement[Any] = t.memories.c[name.removeprefix("scope_")]
        value = sa.bindparam(name, type_=column.type)
        is_text = isinstance(column.type, sa.Text)
        yield (column.concat("") if is_text else column).is_not_distinct_from(value)


def _held(scope: Scope, rows: list[Row]) -> list[Row]:
    """Return those of `rows` that are in the scope.

    Only fields of the metadata are checked. The query that found the rows must already have
    compared their columns with the scope.
    """
    return [row for row in rows if scope.has(row.memory)] if scope.of_metadata else rows

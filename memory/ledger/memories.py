"""The table of memories, live and retired."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from itertools import chain
from operator import attrgetter
from typing import Any

import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.links import Links, Successors, inherited, resolved_link, seen_from
from memory.ledger.tables import Prepared, among, by_time, in_scope, naming_damage
from memory.models import SCOPE_FIELDS, Memory, MemoryLink, Row, Scope
from memory.text import dated_key, periods, text_key, to_json

_PAGE = 2_000

_AMONG_IDS = among(t.memories.c.id, "ids")
_AFTER = (
    sa.select(t.memories)
    .where(t.memories.c.seq > sa.bindparam("after"))
    .order_by(t.memories.c.seq)
    .limit(_PAGE)
)
_EVERY = Prepared(_AFTER)
_LIVE = Prepared(_AFTER.where(t.memories.c.live))
_OF_IDS = Prepared(sa.select(t.memories).where(_AMONG_IDS))
_ARRIVED = Prepared(
    sa.select(t.memories).where(sa.or_(_AMONG_IDS, among(t.memories.c.identity_hash, "hashes")))
)
_WITH_TEXTS = sa.select(t.memories).where(among(t.memories.c.text_key, "keys"), t.memories.c.live)
_WRITTEN_AFTER = sa.select(t.memories).where(
    t.memories.c.revision > sa.bindparam("after"), t.memories.c.live
)
_LIVE_ONES = sa.select(t.memories).where(t.memories.c.live)
_INSERT = Prepared(t.memories.insert())
_UPDATE = t.memories.update().where(t.memories.c.id == sa.bindparam("of_id"))
_LOW, _HIGH = t.memories.alias("low"), t.memories.alias("high")
_LIVE_LINKS = Prepared(
    sa.select(t.links)
    .join(_LOW, sa.and_(_LOW.c.id == t.links.c.low_id, _LOW.c.live))
    .join(_HIGH, sa.and_(_HIGH.c.id == t.links.c.high_id, _HIGH.c.live))
    .where(sa.or_(among(t.links.c.low_id, "ids"), among(t.links.c.high_id, "ids")))
)


@dataclass(eq=False)
class MemoryRows(Successors):
    """The table of memories; each row comes with the memory's links to other live memories."""

    _links: Links

    def row(self, memory_id: str) -> Row | None:
        return self.rows([memory_id]).get(memory_id)

    def rows(self, ids: Sequence[str]) -> dict[str, Row]:
        return {row.memory.id: row for row in self._found(_OF_IDS, ids=ids)} if ids else {}

    def named(self, name: str) -> list[Row]:
        """Return the memory with the id `name`; if there is none, those with this external id.

        If some memories with the external id are live, only these are returned.
        """
        if (row := self.row(name)) is not None:
            return [row]
        query = sa.select(t.memories.c.id).where(t.memories.c.external_id == name)
        found = list(self.rows(list(self._connection.scalars(query))).values())
        return [row for row in found if row.live] or found

    def all(self) -> Iterator[Row]:
        return self._pages(_EVERY)

    def live(self) -> Iterator[Row]:
        return self._pages(_LIVE)

    def first_of(self, user: str, limit: int | None) -> list[Row]:
        query = sa.select(t.memories.c.id).where(t.memories.c.user == user)
        names = list(self._connection.scalars(query.order_by(t.memories.c.seq).limit(limit)))
        return list(self.rows(names).values())

    def live_with_texts(self, keys: Collection[str], scope: Scope) -> list[Row]:
        """Return the live memories of the scope whose texts have one of these keys, newest first.

        `keys`: results of `text_key`.
        """
        found = self._live_in(scope, _WITH_TEXTS, keys=keys)
        return sorted(found, key=lambda row: row.memory.timestamp, reverse=True)

    def live_written_after(self, revision: int, scope: Scope) -> list[Row]:
        """Return the live memories of the scope that were written after the revision.

        They are in order of arrival.
        """
        return self._live_in(scope, _WRITTEN_AFTER, after=revision)

    def newest(self, limit: int | None, scope: Scope, since: datetime | None = None) -> list[Row]:
        """Return the newest live memories of the scope, newest first; all if `limit` is None.

        Memories with a time before `since` are left out.
        """
        written = by_time(t.memories.c.timestamp)
        recorded = [] if since is None else [written >= since.astimezone(UTC).isoformat()]
        query = sa.select(t.memories.c.id).where(t.memories.c.live, *in_scope(scope), *recorded)
        query = query.order_by(written.desc(), t.memories.c.seq.desc())
        is_exact = not scope.metadata_fields
        names = list(self._connection.scalars(query.limit(limit if is_exact else None)))
        rows = self.rows(names)
        if not is_exact:
            names = [name for name in names if scope.has(rows[name].memory)]
        return [rows[name] for name in names[:limit]]

    def fitting(self, scope: Scope, fits: Callable[[Memory], bool]) -> set[str]:
        """Return the ids of the live memories of the scope for which `fits` returns True.

        `fits` sees no links. Ids of other scopes may be among them if the scope has metadata.
        """
        own = {f"scope_{name}": value for name, value in scope.values if name in SCOPE_FIELDS}
        found = _with_columns(_LIVE_ONES, tuple(own)).rows(self._connection, **own)
        return {row.id for row in found if fits(to_row(row._asdict(), ()).memory)}

    def earlier_arrivals(self, memories: Sequence[Memory]) -> list[tuple[Row | None, bool]]:
        """Look up which of these memories are stored already.

        Return a pair for each given memory, in order. The first value is the row of the stored
        memory that is the same; None if there is none. The second value is whether a stored memory
        has the given memory's id. A stored memory is the same in each of these cases:

        - It has the same id, and it was forgotten.
        - It has the same id, user, privacy and text.
        - It has the same id, user and privacy. It had this text before an update, or it directly
          replaced a memory with this text.
        - It arrived with the same user, privacy, time, text and external id, unless the words of
          the text mean another day where it was said. If the given memory has a taken id and no
          external id, its id is compared as its external id.
        """
        identities = [(identity_hash(one), identity_hash(one, one.id)) for one in memories]
        ids, hashes = [memory.id for memory in memories], {*chain(*identities)}
        rows = self._found(_ARRIVED, ids=ids, hashes=hashes)
        by_id = {row.memory.id: row for row in rows}
        by_identity = {row.identity_hash: row for row in reversed(rows)}
        found: list[tuple[Row | None, bool]] = []
        for memory, (own, under_another_id) in zip(memories, identities, strict=True):
            same_id = by_id.get(memory.id)
            if same_id is not None and (same_id.forgotten or self._once_said(same_id, memory)):
                found.append((same_id, True))
                continue
            possible = (own,) if same_id is None else (own, under_another_id)
            known = [
                row
                for name in possible
                if (row := by_identity.get(name)) and not _of_another_day(row.memory, memory)
            ]
            earlier = min(known, key=attrgetter("seq"), default=None)
            found.append((earlier, same_id is not None))
        return found

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

    # --- successors ---

    def living(self, memory_id: str) -> Row | None:
        """Return the row of a memory's live successor; a live memory is its own successor."""
        return self.living_rows([memory_id]).get(memory_id)

    def living_rows(self, ids: Iterable[str]) -> dict[str, Row]:
        ends = self.living_ids(ids)
        rows = self.rows(list(dict.fromkeys(ends.values())))
        return {name: rows[end] for name, end in ends.items()}

    # --- writing: each memory that is written gets a new revision ---

    def insert_all(self, memories: Sequence[Memory]) -> None:
        """Store new live memories, in this order, with their links.

        A link to a retired memory goes to its live successor instead.
        """
        transaction = self._transaction
        written = {
            "live": True, "successor_id": None, "until": None, "revision": transaction.revision
        }  # fmt: skip
        rows = [
            written | {"identity_hash": identity_hash(memory)} | to_columns(memory)
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
        self._update({memory.id: to_columns(memory) for memory in memories})

    def retire(self, successions: Sequence[tuple[str, str]]) -> None:
        """Retire memories in the given order; `successions` are pairs (memory id, successor's id).

        The successors inherit the links. Texts and vectors of the retired memories stay.
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
        """Restore links; `links` are pairs of a memory's id and a link from this memory.

        At both ends of a link, a retired memory is replaced by its live successor. Links of
        forgotten memories are not restored, and existing links stay as they are.
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

        Because the ids stay, no new memory can take them. Search indexes read from the ledger that
        these memories were forgotten, and then remove their vectors.
        """
        self._links.drop(ids)
        self._update(dict.fromkeys(ids, TOMBSTONE))

    def image(self, ids: Sequence[str]) -> str:
        """Return the state of a group of memories as JSON, from which undo can restore it.

        The JSON has two keys. `rows` maps each id to the memory's columns; null if no memory has
        this id. `links` lists all links that start or end at a memory of the group.
        """
        rows = {row.id: row._asdict() for row in _OF_IDS.rows(self._connection, ids=ids)}
        links = [list(link) for link in self._links.touching(ids)]
        return json.dumps({"rows": {name: rows.get(name) for name in ids}, "links": links})

    def restore(self, image: str) -> None:
        """Write the rows of an image, from the method `image`, to the table; ignore its links."""
        for name, columns in json.loads(image)["rows"].items():
            columns = _with_times(columns)
            kept = columns.keys() - {"seq", "revision"}
            self._update({name: {key: columns[key] for key in kept}})

    def _update(self, values: Mapping[str, Mapping[str, Any]]) -> None:
        if values:
            written = {"revision": self._transaction.revision}
            rows = [{"of_id": name, **written, **values[name]} for name in values]
            self._connection.execute(_UPDATE, rows)
        self._transaction.numbered |= bool(values)
        self._transaction.reworded |= values.keys()

    def _pages(self, query: Prepared) -> Iterator[Row]:
        last = 0
        while True:
            page = self._found(query, after=last)
            yield from page
            if len(page) < _PAGE:
                return
            last = page[-1].seq

    def _live_in(self, scope: Scope, query: sa.Select[Any], **values: Any) -> list[Row]:
        """Execute a query on live memories; return the rows of memories in the scope.

        SQL compares the scope's values that have columns. Python then compares the scope's values
        that are in the metadata.
        """
        own = {f"scope_{name}": value for name, value in scope.values if name in SCOPE_FIELDS}
        rows = self._found(_with_columns(query, tuple(own)), **own, **values)
        return [row for row in rows if scope.has(row.memory)] if scope.metadata_fields else rows

    def _found(self, query: Prepared, **values: Any) -> list[Row]:
        """Return the rows of a query on memories, sorted in order of arrival.

        Python sorts the rows because SQLite, for an ORDER BY, would read the whole table in order.
        """
        found = query.rows(self._connection, **values)
        ids = {row.id for row in found}
        links: dict[str, list[MemoryLink]] = {}
        for link in sorted(_LIVE_LINKS.rows(self._connection, ids=ids)) if ids else ():
            for name in ids & {link.low_id, link.high_id}:
                links.setdefault(name, []).append(seen_from(name, link))
        rows = [to_row(row._asdict(), tuple(links.get(row.id, ()))) for row in found]
        return sorted(rows, key=attrgetter("seq"))


# --- superseded and expired memories -----------------------------------------------------------

_BY = Prepared(
    sa.select(t.memories.c.id).where(
        among(t.memories.c.successor_id, "ids"), t.memories.c.until.is_not(None)
    )
)

_DUE = Prepared(
    sa.select(t.memories.c.id).where(
        t.memories.c.live, by_time(t.memories.c.expires_at) <= sa.bindparam("now")
    )
)
_ENDED_WITH_TEXTS = Prepared(
    sa.select(t.memories.c.id).where(
        among(t.memories.c.text_key, "keys"), t.memories.c.until.is_not(None)
    )
)


class Superseded(MemoryRows):
    """The superseded memories, which are rows of the table of memories.

    An expired memory is one that no other memory superseded.
    """

    def by(self, *successors: str) -> list[Row]:
        """Return the memories that these superseded, also by way of others."""
        found, todo = dict[str, Row](), list(successors)
        while todo:
            stated = [*todo, *self.ancestors(*todo)]
            names = [row.id for row in _BY.rows(self._connection, ids=stated)]
            rows = self.rows([name for name in names if name not in found])
            found |= rows
            todo = list(rows)
        return [row for name, row in found.items() if name not in successors]

    def within(self, scope: Scope) -> list[Row]:
        """Return all superseded memories of the scope, in order of arrival."""
        ended = t.memories.c.until.is_not(None), *in_scope(scope)
        names = self._connection.scalars(sa.select(t.memories.c.id).where(*ended))
        rows = self.rows(list(names)).values()
        return [row for row in rows if not row.live and scope.has(row.memory)]

    def replaced(self, scope: Scope, fits: Callable[[Memory], bool]) -> list[tuple[Row, Row]]:
        """Return the memories of the scope that live or superseded ones stand for, each with it.

        Only those for which `fits` returns True, while it returns False for all that replaced them.
        """
        replaced = sa.not_(t.memories.c.live), t.memories.c.until.is_(None), *in_scope(scope)
        query = sa.select(t.memories.c.id).where(t.memories.c.successor_id.is_not(None), *replaced)
        retired = known = self.rows(list(self._connection.scalars(query)))
        todo: set[str] = {row.successor_id or "" for row in retired.values()} - known.keys()
        while todo:
            fresh = self.rows(list(todo))
            known = known | fresh
            todo = {row.successor_id or "" for row in fresh.values() if _is_replaced(row)}
            todo -= known.keys()
        found = []
        for row in retired.values():
            if not (scope.has(row.memory) and fits(row.memory)):
                continue
            end = known.get(row.successor_id or "")
            for _ in known:  # a damaged ledger may lead back
                if end is None or fits(end.memory) or not _is_replaced(end):
                    break
                end = known.get(end.successor_id or "")
            if end is not None and not (fits(end.memory) or _is_replaced(end)):
                found.append((row, end))
        return found

    def with_texts(self, keys: Collection[str]) -> list[Row]:
        """Return the superseded memories whose texts have one of these keys (of `text_key`)."""
        names = [row.id for row in _ENDED_WITH_TEXTS.rows(self._connection, keys=keys)]
        return [row for row in self.rows(names).values() if not row.live]

    def due(self, now: datetime) -> list[Row]:
        """Return the live memories that expired by `now`, in order of arrival."""
        found = _DUE.rows(self._connection, now=now.astimezone(UTC).isoformat())
        return list(self.rows([row.id for row in found]).values())

    def expire(self, rows: Collection[Row]) -> None:
        """Retire memories at their `expires_at`."""
        names = [row.memory.id for row in rows]
        self._links.drop(names)
        ends = {row.memory.id: row.memory.expires_at for row in rows}
        self._update(
            {
                name: {"live": False, "until": at.isoformat()}
                for name, at in ends.items()
                if at is not None
            }
        )

    def prolong(self, memory_id: str, until: datetime | None) -> None:
        """Let a live memory expire at `until`, or never, if that is later than now."""
        alive = self.living(memory_id)
        ends = None if alive is None else alive.memory.expires_at
        if alive is not None and ends is not None and (until is None or until > ends):
            self._update({alive.memory.id: {"expires_at": until and until.isoformat()}})

    def end_of_chain(self, row: Row) -> Row | None:
        """Return the live memory that a superseded one led to; None if it was forgotten."""
        end: Row | None = row
        while end is not None and not end.live:
            alive = self.living(end.memory.id)
            end = alive or (None if end.successor_id is None else self.row(end.successor_id))
        return end

    def end(self, ends: Mapping[str, datetime]) -> None:
        """Record, by their ids, when what retired memories state ceased to hold."""
        self._update({name: {"until": at.isoformat()} for name, at in ends.items()})

    def revive(self, memory_id: str) -> None:
        """Make a superseded memory live again."""
        self._update({memory_id: {"live": True, "successor_id": None, "until": None}})


def _is_replaced(row: Row) -> bool:
    return not row.live and row.until is None


# --- the same memory again ---------------------------------------------------------------------


def split_repeats(new: Sequence[Memory]) -> Iterator[slice]:
    """Split new memories into consecutive slices, none of which contains a memory twice.

    Within a slice, no two memories have the same id or would be recognised as the same memory.
    """
    start, seen = 0, set[str]()
    for position, memory in enumerate(new if len(new) > 1 else ()):
        names = {memory.id, identity_hash(memory), identity_hash(memory, memory.id)}
        if names & seen:
            yield slice(start, position)
            start, seen = position, set()
        seen |= names
    if new:
        yield slice(start, len(new))


# --- memories and their rows ----------------------------------------------------------------------

TOMBSTONE: dict[str, Any] = {
    "live": False, "successor_id": None, "text_key": t.FORGOTTEN_KEY, "identity_hash": "",
    "external_id": None, "content": "", "user": None, "category": "", "emotion": "",
    "intensity": 0.0, "importance": 1, "tags": "[]", "merged_from": "[]", "metadata": "{}",
    "said": None, "when": "", "until": None, "expires_at": None,
}  # fmt: skip
_PLAIN = {
    "id", "external_id", "content", "user", "category", "intensity", "importance", "emotion",
    "is_private",
}  # fmt: skip


def _of_another_day(a: Memory, b: Memory) -> bool:
    return a.content == b.content and a.when != b.when


def identity_hash(memory: Memory, taken_id: str | None = None) -> str:
    """Return a hash by which a memory is recognised if it arrives a second time.

    `taken_id`: the memory's own id if another memory has it. The memory then gets a new id, and its
    own one becomes its external id, unless it has one. The hash includes the external id, but not
    the id. The hashes are stored, so this function must never change.
    """
    identity = [
        memory.external_id or taken_id,
        memory.user,
        memory.is_private,
        memory.timestamp.isoformat(),
        memory.content,
    ]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]


def to_columns(memory: Memory) -> dict[str, Any]:
    return {
        **{name: getattr(memory, name) for name in _PLAIN},
        "text_key": text_key(memory.content),
        "timestamp": memory.timestamp.isoformat(),
        "said": memory.said and memory.said.isoformat(),
        "when": memory.when,
        "expires_at": memory.expires_at and memory.expires_at.isoformat(),
        "tags": json.dumps(memory.tags),
        "merged_from": json.dumps(memory.merged_from),
        "metadata": json.dumps(memory.metadata),
    }


def _with_times(columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a memory; give those of schema 8 the times and key of today's rules."""
    text = columns["content"]
    if "said" in columns or not text:
        return {"said": None, "when": "", **columns}
    found = periods(text, _moment(columns["timestamp"]))
    times = {"said": columns["timestamp"], "when": to_json(found) if found else ""}
    return {**columns, **times, "text_key": text_key(text)}


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


@lru_cache(maxsize=4_096)
def _strings(column: str) -> tuple[str, ...]:
    return tuple(json.loads(column))


_BLANK = Memory(content=".", timestamp=datetime(1, 1, 2, tzinfo=UTC))


def to_row(values: sa.RowMapping | Mapping[str, Any], links: tuple[MemoryLink, ...]) -> Row:
    """Convert a row of the table `memories`. Raises: LedgerDamaged."""
    with naming_damage(repr(values.get("id"))):
        metadata = values["metadata"]
        memory = _BLANK.model_copy(  # takes half the time of `model_construct`
            update={
                **{name: values[name] for name in _PLAIN},
                "timestamp": datetime.fromisoformat(values["timestamp"]),
                "said": _moment(values.get("said", values["timestamp"])),
                "expires_at": _moment(values.get("expires_at")),
                "tags": _strings(values["tags"]),
                "merged_from": _strings(values["merged_from"]),
                "metadata": {} if metadata == "{}" else json.loads(metadata),
                "linked_ids": links,
            }
        )
    return Row(
        memory=memory,
        live=values["live"],
        successor_id=values["successor_id"],
        text_key=values["text_key"],
        dated_key=dated_key(values["text_key"], values.get("when", "")),
        until=_moment(values.get("until")),
        identity_hash=values["identity_hash"],
        seq=values["seq"],
        revision=values["revision"],
    )


@cache
def _with_columns(query: sa.Select[Any], parameters: tuple[str, ...]) -> Prepared:
    """Add a condition for each parameter to a query, and prepare the query.

    For example, the condition for the parameter `scope_user` is that the column `user` equals it.
    The conditions are written so that SQLite uses no index of a text column for them. SQLite would
    prefer such an index to a better one, because it assumes that each user has few rows.
    """
    for name in parameters:
        column: sa.ColumnElement[Any] = t.memories.c[name.removeprefix("scope_")]
        value = sa.bindparam(name, type_=column.type)
        is_text = isinstance(column.type, sa.Text)
        equal = (column.concat("") if is_text else column).is_not_distinct_from(value)
        query = query.where(equal)
    return Prepared(query)

"""What the ledger holds besides memories: episodes, items, turns of conversations, and leases.

An episode is a summary of several memories. An item is a JSON value that another program stores
under a namespace and a key. A turn waits until its facts are extracted; a lease says which process
extracts a conversation now.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa
from pydantic import TypeAdapter

from memory.errors import LeaseLost
from memory.ledger import tables as t
from memory.ledger.tables import Prepared, TableGroup, among, by_time, naming_damage
from memory.models import Episode, KeptCandidate, Turn


@dataclass(frozen=True)
class PendingTurn:
    """A turn that waits for extraction.

    `name`: the turn's id, or its position or time. `attempts`: the number of failed extractions.
    `candidates`: the facts that a model found in the turn, with None in place of each forgotten
    fact; None if no model has answered yet.
    """

    seq: int
    name: str
    turn: Turn
    attempts: int
    candidates: tuple[KeptCandidate | None, ...] | None


@dataclass(frozen=True)
class Waiting:
    """A conversation, the number of its turns that wait, and how long the first has waited."""

    conversation: str
    turns: int
    waited_s: float


@dataclass(frozen=True)
class Lease:
    """The right of one process to extract memories from a conversation.

    It is valid as long as the ledger stores its `token` for the conversation.
    """

    conversation: str
    token: str


@dataclass(frozen=True)
class StoredItem:
    """A value stored under a namespace and a key. `value` is JSON, byte for byte as given.

    It is deleted at `expires_at`, and kept for `ttl_minutes` after each access; None is for ever.

    >>> with store.ledger.writing() as writer:
    ...     writer.items.put(("app",), "k", '{"a":  1}', None, datetime.now(UTC))
    ...     writer.items.get(("app",), "k").value
    '{"a":  1}'
    """

    namespace: tuple[str, ...]
    key: str
    value: str
    memory_id: str | None
    created_at: datetime
    updated_at: datetime
    ttl_minutes: float | None = None
    expires_at: datetime | None = None


FORGOTTEN_SUMMARY = "(forgotten)"


class Episodes(TableGroup):
    """The table of episodes; an episode is a summary of several memories.

    Lists have the order in which the episodes were stored. An episode keeps the ids of its
    memories, even if these are retired later.
    """

    def get(self, episode_id: str) -> Episode | None:
        return next(iter(self._found(t.episodes.c.id == episode_id)), None)

    def owned_by(self, user: str) -> list[Episode]:
        return self._found(t.episodes.c.user == user)

    def forgotten_members(self) -> dict[str, list[str]]:
        """Map the id of each episode that lacks memories to the ids of its forgotten memories.

        An episode lacks memories if some of them were forgotten. It also lacks memories if the
        table has no memory ids for it; then its list is empty. Episodes whose summary was erased
        are left out.
        """
        held, has_summary = t.episode_memories.c, t.episodes.c.summary != FORGOTTEN_SUMMARY
        gone = sa.and_(t.memories.c.id == held.memory_id, t.memories.c.text_key == t.FORGOTTEN_KEY)
        query = (
            sa.select(t.episodes.c.id, t.memories.c.id)
            .outerjoin(t.episode_memories, held.episode_id == t.episodes.c.id)
            .outerjoin(t.memories, gone)
            .where(has_summary, sa.or_(held.memory_id.is_(None), t.memories.c.id.is_not(None)))
            .order_by(t.episodes.c.seq, held.position)
        )
        found: dict[str, list[str]] = {}
        for episode_id, memory_id in self._connection.execute(query):
            found.setdefault(episode_id, []).extend([] if memory_id is None else [memory_id])
        return found

    def with_forgotten(self, user: str | None) -> dict[str, list[str]]:
        """Map the id of each episode that holds forgotten memories to the ids of these memories.

        Only episodes of `user` are looked at; all if it is None. No summary is read.
        """
        held, memories = t.episode_memories.c, t.memories.c
        forgotten = sa.and_(memories.id == held.memory_id, memories.text_key == t.FORGOTTEN_KEY)
        query = sa.select(held.episode_id, held.memory_id).join(t.memories, forgotten)
        if user is not None:
            query = query.join(t.episodes, t.episodes.c.id == held.episode_id)
            query = query.where(t.episodes.c.user == user)
        found: dict[str, list[str]] = {}
        for episode_id, memory_id in self._connection.execute(query):
            found.setdefault(episode_id, []).append(memory_id)
        return found

    def put(self, episode: Episode) -> None:
        self._connection.execute(
            t.episodes.insert().values(
                id=episode.id,
                user=episode.user,
                summary=episode.summary,
                start_time=episode.start_time.isoformat(),
                end_time=episode.end_time.isoformat(),
                importance=episode.importance,
            )
        )
        rows = [
            {"episode_id": episode.id, "memory_id": name, "position": position}
            for position, name in enumerate(episode.memory_ids)
        ]
        self._connection.execute(t.episode_memories.insert(), rows)

    def drop_memories(self, episode_id: str, memory_ids: Collection[str]) -> None:
        held = t.episode_memories.c
        leaving = sa.and_(held.episode_id == episode_id, among(held.memory_id, memory_ids))
        self._connection.execute(t.episode_memories.delete().where(leaving))

    def forget(self, memory_ids: Collection[str]) -> None:
        """Erase the summaries of all episodes that contain one of these memories."""
        held = t.episode_memories.c
        holding = self._connection.scalars(
            sa.select(held.episode_id).where(among(held.memory_id, memory_ids))
        )
        self.forget_summaries(holding)

    def forget_summaries(self, episode_ids: Iterable[str]) -> None:
        forgotten = t.episodes.update().where(among(t.episodes.c.id, list(episode_ids)))
        self._connection.execute(forgotten.values(summary=FORGOTTEN_SUMMARY))

    def forget_user(self, user: str) -> None:
        owned = sa.select(t.episodes.c.id).where(t.episodes.c.user == user)
        held = t.episode_memories
        self._connection.execute(held.delete().where(held.c.episode_id.in_(owned)))
        self._connection.execute(t.episodes.delete().where(t.episodes.c.user == user))

    def _found(self, where: sa.ColumnElement[bool]) -> list[Episode]:
        held = t.episode_memories.c
        wanted = sa.select(t.episodes.c.id).where(where)
        ids: dict[str, list[str]] = {}
        query = sa.select(held.episode_id, held.memory_id).where(held.episode_id.in_(wanted))
        for episode_id, memory_id in self._connection.execute(query.order_by(held.position)):
            ids.setdefault(episode_id, []).append(memory_id)
        episodes = sa.select(t.episodes).where(where).order_by(t.episodes.c.seq)
        return [_episode(row, ids.get(row.id, ())) for row in self._connection.execute(episodes)]


def _episode(row: sa.Row[Any], memory_ids: Sequence[str]) -> Episode:
    with naming_damage(f"episode {row.id!r}"):
        return Episode.model_construct(
            id=row.id,
            user=row.user,
            summary=row.summary,
            memory_ids=tuple(memory_ids),
            start_time=datetime.fromisoformat(row.start_time),
            end_time=datetime.fromisoformat(row.end_time),
            importance=row.importance,
        )


# --- items ----------------------------------------------------------------------------------------

Namespace = tuple[str, ...]
_BETWEEN = "."
_LATEST_FIRST = t.items.c.updated_at.desc(), t.items.c.namespace, t.items.c.key


class ItemPlace(NamedTuple):
    """A stored item and the memory made from its text; value and text only if asked for.

    `memory_id` is None if no memory was made from the item, or not yet.

    >>> with store.ledger.writing() as writer:
    ...     writer.items.put(("app",), "k", "{}", None, datetime.now(UTC))
    ...     [(place.namespace, place.value) for place in writer.items.under(("app",))]
    [(('app',), None)]
    """

    id: str
    namespace: Namespace
    memory_id: str | None
    is_live: bool
    """Whether the memory is live."""
    value: str | None = None
    """JSON."""
    text: str | None = None
    """The text of the memory."""


class Items(TableGroup):
    """The table of items: JSON values, each stored under a namespace and a key.

    The text of an item may also be stored as a memory.
    """

    def get(self, namespace: Namespace, key: str) -> StoredItem | None:
        return next(self._found(t.items.c.id == _id(namespace, key)), None)

    def under(self, prefix: Namespace, *, values: bool = False) -> list[ItemPlace]:
        """Return the items in a namespace and those inside it, the latest put first.

        `values`: with their values and texts.
        """
        columns = [t.items.c.id, t.items.c.namespace, t.memories.c.id, t.memories.c.live]
        query = (
            sa.select(*columns, *([t.items.c.value, t.memories.c.content] if values else []))
            .outerjoin(t.memories, t.memories.c.id == t.items.c.memory_id)
            .order_by(*_LATEST_FIRST)
        )
        if prefix:
            name = _escaped(_BETWEEN.join(prefix))
            below = name + _BETWEEN
            namespace = t.items.c.namespace
            inside = sa.func.substr(namespace, 1, len(below)) == below
            query = query.where(sa.or_(namespace == name, inside))
        rows = self._connection.execute(query).all()
        labels = {name: _labels(name) for name in {row[1] for row in rows}}
        return [
            ItemPlace(name, labels[namespace], memory_id, bool(is_live), *more)
            for name, namespace, memory_id, is_live, *more in rows
        ]

    def at(self, ids: Collection[str]) -> dict[str, StoredItem]:
        query = sa.select(t.items).where(among(t.items.c.id, ids))
        return {row.id: _as_item(row) for row in self._connection.execute(query)}

    def namespaces(self) -> list[Namespace]:
        query = sa.select(t.items.c.namespace).distinct()
        return sorted(_labels(name) for name in self._connection.scalars(query))

    def of_memories(self, ids: Sequence[str]) -> list[StoredItem]:
        """Return the items of which these memories were made, the latest put first."""
        return list(self._found(among(t.items.c.memory_id, ids)))

    def unplaced(self) -> list[StoredItem]:
        """Return the items whose text should be stored as a memory but is not.

        Such an item is left by a process that ended before it stored the memory.
        """
        arrived = sa.select(t.memories.c.id).where(t.memories.c.id == t.items.c.memory_id)
        return list(self._found(sa.and_(t.items.c.memory_id.is_not(None), ~arrived.exists())))

    def due(self, now: datetime) -> list[StoredItem]:
        """Return the items that expired by `now`."""
        return list(self._found(by_time(t.items.c.expires_at) <= now.astimezone(UTC).isoformat()))

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: str,
        memory_id: str | None,
        at: datetime,
        ttl_minutes: float | None = None,
    ) -> None:
        """Store a value under a namespace and a key; replace the earlier value there, if any.

        `value`: JSON. `memory_id`: the id of the memory made from the value's text, if any.
        """
        new = {
            "value": value,
            "memory_id": memory_id,
            "updated_at": at.isoformat(),
            "ttl_minutes": ttl_minutes,
            "expires_at": _after(at, ttl_minutes),
        }
        statement = self._transaction.upsert(t.items).values(
            id=_id(namespace, key),
            namespace=_escaped(_BETWEEN.join(namespace)),
            key=_escaped(key),
            created_at=at.isoformat(),
            **new,
        )
        self._connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=new))

    def touch(self, item: StoredItem, now: datetime) -> None:
        """Keep an item for its whole time to live from `now` on."""
        of_item = t.items.c.id == _id(item.namespace, item.key)
        until = _after(now, item.ttl_minutes)
        self._connection.execute(t.items.update().where(of_item).values(expires_at=until))

    def delete(self, namespace: Namespace, key: str) -> None:
        self._connection.execute(t.items.delete().where(t.items.c.id == _id(namespace, key)))

    def forget(self, memory_ids: Collection[str]) -> None:
        self._connection.execute(t.items.delete().where(among(t.items.c.memory_id, memory_ids)))

    def _found(self, condition: sa.ColumnElement[bool]) -> Iterator[StoredItem]:
        query = sa.select(t.items).where(condition).order_by(*_LATEST_FIRST)
        return map(_as_item, self._connection.execute(query))


def _as_item(row: sa.Row[Any]) -> StoredItem:
    with naming_damage(f"item {row.key!r}"):
        return StoredItem(
            namespace=_labels(row.namespace),
            key=_unescaped(row.key),
            value=row.value,
            memory_id=row.memory_id,
            created_at=datetime.fromisoformat(row.created_at),
            updated_at=datetime.fromisoformat(row.updated_at),
            ttl_minutes=row.ttl_minutes,
            expires_at=row.expires_at and datetime.fromisoformat(row.expires_at),
        )


def _after(at: datetime, minutes: float | None) -> str | None:
    if minutes is None:
        return None
    return (at.astimezone(UTC) + timedelta(minutes=minutes)).isoformat()


def _id(namespace: Namespace, key: str) -> str:
    """Return the id of an item: a hash, since an index cannot hold very long keys."""
    return hashlib.sha256(json.dumps([_BETWEEN.join(namespace), key]).encode()).hexdigest()


def _labels(name: str) -> Namespace:
    return tuple(_unescaped(name).split(_BETWEEN))


def _escaped(text: str) -> str:
    """Escape a text as JSON does, because no database stores NUL or a lone surrogate."""
    return json.dumps(text)[1:-1]


def _unescaped(text: str) -> str:
    return str(json.loads(f'"{text}"'))


# --- turns that wait for extraction ---------------------------------------------------------------

_CANDIDATES = TypeAdapter(tuple[KeptCandidate | None, ...])
_HEARD = Prepared(
    sa.select(t.turns.c.seq).where(
        *(t.turns.c[key] == sa.bindparam(key) for key in ("conversation", "name", "digest"))
    )
)
_DONE = sa.and_(sa.not_(t.turns.c.pending), t.turns.c.turn.is_not(None))


def turn_of(column: str) -> Turn:
    with naming_damage("a turn"):
        return Turn.model_validate_json(column)


class Turns(TableGroup):
    def waiting(self, read: Callable[[str], Turn] = turn_of) -> list[PendingTurn]:
        """Return all waiting turns, oldest first. `read` parses a turn's column."""
        return self._found(t.turns.c.pending, read=read)

    def to_extract(
        self, conversation: str, most_attempts: int, after: int, limit: int
    ) -> list[PendingTurn]:
        """Return the first `limit` waiting turns of a conversation.

        Only turns with a number above `after` are returned. Turns whose extraction failed
        `most_attempts` times are left out.
        """
        return self._found(
            _worth_a_try(most_attempts),
            t.turns.c.conversation == conversation,
            t.turns.c.seq > after,
            limit=limit,
        )

    def conversations(self, most_attempts: int) -> list[Waiting]:
        """Return the conversations with waiting turns, the one that has waited longest first.

        Turns whose extraction failed `most_attempts` times do not count.
        """
        first = sa.func.min(t.turns.c.heard_at)
        query = (
            sa.select(t.turns.c.conversation, sa.func.count(), first)
            .where(_worth_a_try(most_attempts))
            .group_by(t.turns.c.conversation)
            .order_by(first, sa.func.min(t.turns.c.seq))
        )
        now_s = self._transaction.now_s()
        return [
            Waiting(conversation, count, abs(now_s - heard_at))  # also where the clock was set back
            for conversation, count, heard_at in self._connection.execute(query)
        ]

    def extracted_before(self, conversation: str, seq: int, limit: int) -> list[Turn]:
        """Return the last `limit` extracted turns before turn number `seq`, oldest first.

        Turns whose text was erased are left out.
        """
        query = sa.select(t.turns.c.turn).where(
            _DONE, t.turns.c.conversation == conversation, t.turns.c.seq < seq
        )
        last = self._connection.scalars(query.order_by(t.turns.c.seq.desc()).limit(limit)).all()
        return [turn_of(column) for column in reversed(last)]

    def extracted(self) -> list[Turn]:
        """Return the extracted turns whose text is still stored, in no order."""
        query = sa.select(t.turns.c.turn).where(_DONE)
        return [turn_of(column) for column in self._connection.scalars(query)]

    def count_waiting(self) -> int:
        return self._transaction.count(t.turns, t.turns.c.pending)

    def _found(
        self,
        *where: sa.ColumnElement[bool],
        limit: int | None = None,
        read: Callable[[str], Turn] = turn_of,
    ) -> list[PendingTurn]:
        query = sa.select(t.turns).where(*where).order_by(t.turns.c.seq).limit(limit)
        return [_pending_turn(row, read) for row in self._connection.execute(query)]

    def keep(self, turn: Turn, name: str) -> bool:
        """Store a turn for later extraction; return False if the same turn was stored before.

        Two turns are the same if their conversations, texts and names are equal. `name` is the
        turn's id. If the turn has no id, `name` is made from the turn's position or time.
        """
        digest, hidden = _digest(turn.text), _digest(turn.conversation)
        if _HEARD.rows(self._connection, conversation=hidden, name=name, digest=digest):
            return False
        statement = self._transaction.upsert(t.turns).values(
            conversation=turn.conversation,
            name=name,
            digest=digest,
            pending=True,
            turn=turn.model_dump_json(),
            heard_at=self._transaction.now_s(),
        )
        fresh = statement.on_conflict_do_nothing().returning(t.turns.c.seq)
        return self._connection.scalar(fresh) is not None

    def keep_candidates(self, seq: int, candidates: Sequence[KeptCandidate | None]) -> None:
        """Store the facts that a model found in a turn, so that a crash does not lose them.

        `seq`: the turn's number. None takes the place of a fact that was forgotten, so that the
        other facts keep their positions.
        """
        found = _CANDIDATES.dump_json(tuple(candidates)).decode()
        self._update(t.turns.c.seq == seq, candidates=found)

    def count_attempt(self, seq: int) -> None:
        self._update(t.turns.c.seq == seq, attempts=t.turns.c.attempts + 1)

    def finish(self, seq: int) -> None:
        self._update(t.turns.c.seq == seq, pending=False, candidates=None)

    def clear(self, conversation: str, but: int, older_than_s: float) -> None:
        """Erase the texts of extracted turns that are no longer needed as context.

        Two kinds of extracted turns lose their texts: all turns of `conversation` except the last
        `but`, and the turns of any conversation that were stored more than `older_than_s` seconds
        ago. The hash of each text stays, so that a turn is recognised if it is sent again.
        """
        done = sa.select(t.turns.c.seq).where(_DONE, t.turns.c.conversation == conversation)
        earlier = done.order_by(t.turns.c.seq.desc()).offset(but)
        self._update(t.turns.c.seq.in_(earlier), turn=None)
        old = t.turns.c.heard_at < self._transaction.now_s() - older_than_s
        self._update(sa.and_(_DONE, old), turn=None)

    def reword(self, seq: int, turn: Turn) -> None:
        """Replace a waiting turn by `turn`, which has another text.

        If the turn is sent again with its old text, it is still recognised.
        """
        self._update(t.turns.c.seq == seq, turn=turn.model_dump_json())

    def drop(self, seq: int) -> None:
        """Erase a waiting turn without extracting it. It is recognised if it is sent again."""
        self._update(t.turns.c.seq == seq, pending=False, turn=None, candidates=None)

    def forget_name(self, conversation: str) -> None:
        """Replace a conversation's name by its hash, but for turns that wait.

        A turn is still recognised if it is sent again.
        """
        done = sa.and_(t.turns.c.conversation == conversation, sa.not_(t.turns.c.pending))
        self._update(done, conversation=_digest(conversation))

    def clear_extracted(self, conversations: Collection[str] | None = None) -> None:
        where = _DONE
        if conversations is not None:
            where = sa.and_(_DONE, among(t.turns.c.conversation, conversations))
        self._update(where, turn=None)

    def _update(self, where: sa.ColumnElement[bool], **values: Any) -> None:
        self._connection.execute(t.turns.update().where(where).values(**values))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _worth_a_try(most_attempts: int) -> sa.ColumnElement[bool]:
    return sa.and_(t.turns.c.pending, t.turns.c.attempts < most_attempts)


def _pending_turn(row: sa.Row[Any], read: Callable[[str], Turn]) -> PendingTurn:
    with naming_damage(f"turn {row.seq}"):
        return PendingTurn(
            seq=row.seq,
            name=row.name,
            turn=read(row.turn),
            attempts=row.attempts,
            candidates=_CANDIDATES.validate_json(row.candidates) if row.candidates else None,
        )


# --- leases: who extracts a conversation, until when by the database's clock ----------------------


class Leases(TableGroup):
    """The leases. Only the holder of a conversation's lease may extract memories from it."""

    def is_held(self, conversation: str, seconds: float) -> bool:
        """Return whether a process holds the lease of a conversation.

        `seconds`: the normal length of a lease. A lease does not count if it ends more than
        `seconds` from now, because the database's clock must then have been set back.
        """
        now_s = self._transaction.now_s()
        ends = t.leases.c.expires_at
        valid = sa.and_(ends > now_s, ends <= now_s + seconds)
        in_conversation = t.leases.c.conversation == conversation
        return self._transaction.count(t.leases, sa.and_(in_conversation, valid)) > 0

    def check(self, lease: Lease) -> None:
        """Check that no other process has taken over the conversation of this lease.

        An expired lease stays valid until another process takes it.

        Raises: LeaseLost.
        """
        if not self._transaction.count(t.leases, _is(lease)):
            raise LeaseLost(lease.conversation)

    def claim(self, lease: Lease, seconds: float) -> bool:
        if self.is_held(lease.conversation, seconds):
            return False
        self.free(lease.conversation)
        self._connection.execute(
            t.leases.insert().values(
                conversation=lease.conversation,
                token=lease.token,
                holder=f"{platform.node()}:{os.getpid()}",
                expires_at=self._transaction.now_s() + seconds,
            )
        )
        return True

    def renew(self, lease: Lease, seconds: float) -> None:
        self.check(lease)
        until = self._transaction.now_s() + seconds
        self._connection.execute(t.leases.update().where(_is(lease)).values(expires_at=until))

    def release(self, lease: Lease) -> None:
        self._connection.execute(t.leases.delete().where(_is(lease)))

    def free(self, conversation: str) -> None:
        self._connection.execute(t.leases.delete().where(t.leases.c.conversation == conversation))

    def free_all(self) -> None:
        """End all leases, so that extractions under way cannot store their results.

        Call this when turns are erased: an extraction may have read them before.
        """
        self._connection.execute(t.leases.delete())


def _is(lease: Lease) -> sa.ColumnElement[bool]:
    return sa.and_(t.leases.c.conversation == lease.conversation, t.leases.c.token == lease.token)

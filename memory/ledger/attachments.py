"""The tables of episodes and of items.

An episode is a summary of several memories. An item is a JSON value that another program stores
under a namespace and a key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.records import StoredItem
from memory.ledger.statements import TableGroup, among, by_time, naming_damage
from memory.models import Episode

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

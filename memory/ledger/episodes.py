"""The table of episodes: summaries of several memories, each with at most one owner."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.statements import TableGroup, among
from memory.models import Episode

FORGOTTEN_SUMMARY = "(forgotten)"
"""The summary that an episode gets if one of its memories is forgotten."""


class Episodes(TableGroup):
    """Read access to episodes, in the order in which they were stored.

    An episode names its memories by the ids that they had when it was stored.
    """

    def get(self, episode_id: str) -> Episode | None:
        return next(iter(self._found(t.episodes.c.id == episode_id)), None)

    def all(self) -> list[Episode]:
        return self._found(sa.true())

    def owned_by(self, user: str) -> list[Episode]:
        return self._found(t.episodes.c.user == user)

    def without_some(self) -> dict[str, list[str]]:
        """Return the episodes that still have a summary, although a memory of theirs was forgotten.

        The result maps an episode's id to the ids of its forgotten memories. Episodes that have a
        summary but no memories at all are included, with an empty list.
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

    def _found(self, where: sa.ColumnElement[bool]) -> list[Episode]:
        held = t.episode_memories.c
        wanted = sa.select(t.episodes.c.id).where(where)
        ids: dict[str, list[str]] = {}
        query = sa.select(held.episode_id, held.memory_id).where(held.episode_id.in_(wanted))
        for episode_id, memory_id in self._connection.execute(query.order_by(held.position)):
            ids.setdefault(episode_id, []).append(memory_id)
        rows = self._connection.execute(
            sa.select(t.episodes).where(where).order_by(t.episodes.c.seq)
        )
        return [_episode(row, ids.get(row.id, ())) for row in rows]


def _episode(row: sa.Row[Any], memory_ids: Sequence[str]) -> Episode:
    with t.naming_damage(f"episode {row.id!r}"):
        return Episode.model_construct(
            id=row.id,
            user=row.user,
            summary=row.summary,
            memory_ids=tuple(memory_ids),
            start_time=datetime.fromisoformat(row.start_time),
            end_time=datetime.fromisoformat(row.end_time),
            importance=row.importance,
        )


class EpisodesWriter(Episodes):
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
        holding = sa.select(held.episode_id).where(among(held.memory_id, memory_ids))
        self._forget_summaries(t.episodes.c.id.in_(holding))

    def forget_summaries(self, episode_ids: Iterable[str]) -> None:
        """Erase the summaries of these episodes."""
        self._forget_summaries(among(t.episodes.c.id, list(episode_ids)))

    def _forget_summaries(self, where: sa.ColumnElement[bool]) -> None:
        forgotten = t.episodes.update().where(where)
        self._connection.execute(forgotten.values(summary=FORGOTTEN_SUMMARY))

    def forget_user(self, user: str) -> None:
        """Delete all episodes that a user owns."""
        owned = sa.select(t.episodes.c.id).where(t.episodes.c.user == user)
        held = t.episode_memories
        self._connection.execute(held.delete().where(held.c.episode_id.in_(owned)))
        self._connection.execute(t.episodes.delete().where(t.episodes.c.user == user))

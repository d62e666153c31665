"""Episodes as they were told: their ids may be of memories since retired or forgotten."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.transaction import TableGroup
from memory.models import Episode

FORGOTTEN_SUMMARY = "(forgotten)"
"""What an episode says that quoted a memory since forgotten."""


class Episodes(TableGroup):
    """What belongs together in time."""

    def get(self, episode_id: str) -> Episode | None:
        query = sa.select(t.episodes).where(t.episodes.c.id == episode_id)
        return next(iter(self._found(query)), None)

    def all(self) -> list[Episode]:
        """In the order in which they were made."""
        return self._found(sa.select(t.episodes))

    def _found(self, query: sa.Select[tuple[object, ...]]) -> list[Episode]:
        return [
            Episode.model_construct(
                id=row.id,
                summary=row.summary,
                memory_ids=tuple(json.loads(row.memory_ids)),
                start_time=datetime.fromisoformat(row.start_time),
                end_time=datetime.fromisoformat(row.end_time),
                importance=row.importance,
            )
            for row in self._connection.execute(query.order_by(t.episodes.c.seq))
        ]


class EpisodesWriter(Episodes):
    """Episodes, to be stored."""

    def put(self, episode: Episode) -> None:
        """Store an episode, or new values for it."""
        values = {
            "summary": episode.summary,
            "memory_ids": json.dumps(episode.memory_ids),
            "start_time": episode.start_time.isoformat(),
            "end_time": episode.end_time.isoformat(),
            "importance": episode.importance,
        }
        statement = self._transaction.upsert(t.episodes).values(id=episode.id, **values)
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=["id"], set_=values)
        )

    def forget(self, contents: Collection[str]) -> None:
        """Summaries that quote one of these texts lose their words."""
        for episode in self.all():
            if any(content in episode.summary for content in contents):
                self.put(episode.model_copy(update={"summary": FORGOTTEN_SUMMARY}))

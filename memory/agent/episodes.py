"""Episodes: memories that belong together in time, made from ids and read with those that live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from memory.agent.memory_store import MemoryStore
from memory.errors import InputError
from memory.models import Episode, Memory, first_problem


@dataclass(frozen=True)
class EpisodeView:
    """An episode with the ids of memories that live today, and how many are gone.

    A memory that was merged into another counts as that other one.
    """

    episode: Episode
    gone: int


async def create_episode(
    store: MemoryStore, memory_ids: Sequence[str], summary: str, importance: int = 3
) -> Episode:
    """An episode of these memories, over the time in which they were recorded.

    It belongs to the one user that all of them are about; otherwise to nobody, and only an agent
    that serves everyone can read it.

    Raises: MemoryNotFound, InputError.
    """

    def tell(memories: Sequence[Memory]) -> Episode:
        times = [memory.timestamp for memory in memories]
        users = {memory.user for memory in memories}
        try:
            return Episode(
                user=users.pop() if len(users) == 1 else None,
                summary=summary,
                memory_ids=tuple(memory.id for memory in memories),
                start_time=min(times),
                end_time=max(times),
                importance=importance,
            )
        except ValidationError as exc:
            raise InputError("create_episode", str(first_problem(exc))) from exc

    return await store.put_episode(list(dict.fromkeys(memory_ids)), tell)


async def get_episode(store: MemoryStore, episode_id: str) -> EpisodeView | None:
    """None for an unknown id."""
    found = await store.episode(episode_id)
    if found is None:
        return None
    episode, alive = found
    gone = len(episode.memory_ids) - len(alive)
    today = tuple(dict.fromkeys(alive.values()))
    return EpisodeView(episode.model_copy(update={"memory_ids": today}), gone)

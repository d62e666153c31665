"""Episodes: memories that belong together in time, made from ids and read with those that live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from memory.agent.memory_store import MemoryStore
from memory.errors import InputError, MemoryNotFound
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

    Raises: MemoryNotFound, InputError.
    """
    memories = [await _existing(store, name) for name in dict.fromkeys(memory_ids)]
    times = [memory.timestamp for memory in memories]
    try:
        episode = Episode(
            summary=summary,
            memory_ids=tuple(memory.id for memory in memories),
            start_time=min(times),
            end_time=max(times),
            importance=importance,
        )
    except ValidationError as exc:
        raise InputError("create_episode", str(first_problem(exc))) from exc
    await store.put_episode(episode)
    return episode


async def _existing(store: MemoryStore, memory_id: str) -> Memory:
    memory = await store.get_by_id(memory_id)
    if memory is None:
        raise MemoryNotFound(memory_id)
    return memory


async def get_episode(store: MemoryStore, episode_id: str) -> EpisodeView | None:
    """None for an unknown id."""
    found = await store.episode(episode_id)
    if found is None:
        return None
    episode, alive = found
    told = len(episode.memory_ids)
    gone = told - await store.count_living(episode.memory_ids)
    return EpisodeView(episode.model_copy(update={"memory_ids": alive}), gone)

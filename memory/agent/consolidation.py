"""Consolidation: replay what happened close together, and propose what might be one memory.

It proposes only: nothing is merged or deleted here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any

from memory.agent.memory_store import MemoryStore
from memory.errors import MemoryNotFound
from memory.models import Memory, Scope

_SNIPPET = 100
_NEIGHBOURS = 3
"""How many of the nearest memories are looked at for each."""
_MOST = 1_000
"""How many recent memories one run looks at, where `window` does not say."""


@dataclass(frozen=True)
class MergeCandidate:
    """A pair of memories that are near-duplicates."""

    memory_a_id: str
    memory_b_id: str
    distance: float
    snippet_a: str
    snippet_b: str


@dataclass(frozen=True)
class ConsolidationStats:
    """Summary of a consolidation run."""

    replay_events: int
    coactivation_updates: int
    link_updates: int
    refreshed_memories: int
    merge_candidates: tuple[MergeCandidate, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "replay_events": self.replay_events,
            "coactivation_updates": self.coactivation_updates,
            "link_updates": self.link_updates,
            "refreshed_memories": self.refreshed_memories,
            "merge_candidates": [asdict(candidate) for candidate in self.merge_candidates],
        }


class ConsolidationEngine:
    """Replays recent memories and finds near-duplicates among them."""

    async def run(
        self,
        store: MemoryStore,
        window: int | None = None,
        window_hours: int = 24,
        max_replay_events: int = 100,
        merge_threshold: float = 0.10,
        max_merge_candidates: int = 5,
    ) -> ConsolidationStats:
        """Look at the memories of the last hours, or with `window` at that many of them at most.

        Neighbours in time are linked and their links trusted more; pairs at a distance below
        `merge_threshold` are named, closest first; forgotten memories leave their episodes.
        """
        since = store.now() - timedelta(hours=window_hours)
        recent = await store.list_recent(_MOST if window is None else window, since=since)
        pairs = _neighbours_in_time(recent)[:max_replay_events]
        fresh = [await _replay(store, earlier, later) for earlier, later in pairs]
        replayed = [pair for pair, new in zip(pairs, fresh, strict=True) if new is not None]
        candidates = await _near_duplicates(store, recent, merge_threshold)
        await store.drop_forgotten_from_episodes()
        return ConsolidationStats(
            replay_events=len(replayed),
            coactivation_updates=len(replayed),
            link_updates=fresh.count(True),
            refreshed_memories=len({memory.id for pair in replayed for memory in pair}),
            merge_candidates=candidates[:max_merge_candidates],
        )


def _neighbours_in_time(newest_first: Sequence[Memory]) -> list[tuple[Memory, Memory]]:
    """Each memory with the next one of its user and privacy, newest pairs first."""
    by_scope: dict[Scope, list[Memory]] = {}
    for memory in newest_first:
        by_scope.setdefault(Scope.of(memory, ("user",)), []).append(memory)
    pairs = [(old, new) for same in by_scope.values() for new, old in pairwise(same)]
    return sorted(pairs, key=lambda pair: pair[1].timestamp, reverse=True)


async def _replay(store: MemoryStore, earlier: Memory, later: Memory) -> bool | None:
    """Remember that two came together: whether they were not linked before; None if one is gone."""
    try:
        fresh = await store.link_memories(earlier.id, later.id, "related", replace=False)
    except MemoryNotFound:  # another server merged or forgot it meanwhile
        return None
    await store.bump_link_confidence(earlier.id, later.id, delta=0.1)
    return fresh


async def _near_duplicates(
    store: MemoryStore, recent: Sequence[Memory], threshold: float
) -> tuple[MergeCandidate, ...]:
    found: dict[tuple[str, ...], MergeCandidate] = {}
    for memory in recent:
        for hit in await store.near_copies(memory, _NEIGHBOURS):
            pair = tuple(sorted((memory.id, hit.memory.id)))
            if hit.distance < threshold and pair not in found:
                found[pair] = MergeCandidate(
                    memory_a_id=memory.id,
                    memory_b_id=hit.memory.id,
                    distance=hit.distance,
                    snippet_a=memory.content[:_SNIPPET],
                    snippet_b=hit.memory.content[:_SNIPPET],
                )
    return tuple(sorted(found.values(), key=lambda candidate: candidate.distance))

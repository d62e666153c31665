"""Consolidation: link recent memories that are close in time, and propose near-copies to merge.

Nothing is merged or deleted here; the agent decides about each proposal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any

from memory.agent.memory_store import AgentMemory
from memory.agent.schemas import MergeCandidate, MergeProposal
from memory.models import Memory, Scope

_SNIPPET = 100
_DEFAULT_WINDOW = 1_000
Propose = Callable[[Scope], Awaitable[str | None]]


@dataclass(frozen=True)
class ConsolidationStats:
    """The result of a consolidation run.

    `replay_events` and `coactivation_updates` both count the pairs of memories whose link was added
    or became stronger. `link_updates` counts only the added links. `refreshed_memories` counts the
    memories that are in at least one of the pairs. `merge_candidates` are pairs of near-copies,
    closest first. `proposals`: groups that a model would merge; None without a model. `unread`: why
    the model has not read all new memories.
    """

    replay_events: int
    coactivation_updates: int
    link_updates: int
    refreshed_memories: int
    merge_candidates: tuple[MergeCandidate, ...] = ()
    proposals: tuple[MergeProposal, ...] | None = None
    unread: str = ""

    def to_dict(self) -> dict[str, Any]:
        stats = asdict(self) | {"merge_candidates": [asdict(one) for one in self.merge_candidates]}
        if self.proposals is None:
            del stats["proposals"], stats["unread"]
        return stats


class ConsolidationEngine:
    """Links recent memories that are close in time, and proposes near-copies to merge.

    `propose`: has a model read the new memories of a scope; see `Proposer`.
    """

    def __init__(self, propose: Propose | None = None) -> None:
        self._propose = propose

    async def run(
        self,
        store: AgentMemory,
        window: int | None = None,
        window_hours: int = 24,
        max_replay_events: int = 100,
        merge_threshold: float = 0.10,
        max_merge_candidates: int = 5,
    ) -> ConsolidationStats:
        """Link recent memories that are close in time, and find near-copies of recent memories.

        Recent memories are those of the last `window_hours` hours, but at most the `window` newest
        (1000 if `window` is None). Each recent memory is linked with the next older recent memory
        of the same user; private memories are linked only with private ones. At most
        `max_replay_events` pairs are linked, newest first. An existing link gains confidence.

        Two memories are near-copies if their distance (`1 - similarity`) is below
        `merge_threshold`. At least one of the two memories is recent. At most
        `max_merge_candidates` pairs of near-copies are returned, closest first.

        If a model reads pages, it also reads those memories of the recent ones' scopes that it has
        not read, and proposes groups to merge. A pair inside a proposed group is left out.

        The run also removes forgotten memories from episodes (groups of memories with a summary).
        """
        since = store.now() - timedelta(hours=window_hours)
        most = _DEFAULT_WINDOW if window is None else window
        recent, alike = await store.recent_near_copies(most, since, merge_threshold)
        replayed = await store.replay(
            [(old.id, new.id) for old, new in _neighbours_in_time(recent)[:max_replay_events]]
        )
        proposals, unread = await self._proposals(store, recent, max_merge_candidates)
        candidates = [
            MergeCandidate(
                memory_a_id=pair.older.id,
                memory_b_id=pair.newer.id,
                distance=round(1.0 - pair.similarity, 6),
                snippet_a=pair.older.content[:_SNIPPET],
                snippet_b=pair.newer.content[:_SNIPPET],
            )
            for pair in alike
        ]
        close = [
            one
            for one in candidates
            if one.distance < merge_threshold
            and not any(
                {one.memory_a_id, one.memory_b_id} <= group.members.keys()
                for group in proposals or ()
            )
        ]
        return ConsolidationStats(
            replay_events=len(replayed),
            coactivation_updates=len(replayed),
            link_updates=sum(replayed.values()),
            refreshed_memories=len({name for pair in replayed for name in pair}),
            merge_candidates=tuple(close[:max_merge_candidates]),
            proposals=proposals,
            unread=unread,
        )

    async def _proposals(
        self, store: AgentMemory, recent: Sequence[Memory], most: int
    ) -> tuple[tuple[MergeProposal, ...] | None, str]:
        """Return the groups that a model would merge, and why something is left unread.

        The first value is None if no model reads pages, and none has proposed anything before.
        """
        unread = None
        if self._propose is not None:
            for scope in dict.fromkeys(map(store.scope_of, recent)):
                unread = unread or await self._propose(scope)
        found = await store.proposals()
        if unread is None and not found:
            return None, ""
        return tuple(found[:most]), unread or ""


def _neighbours_in_time(newest_first: Sequence[Memory]) -> list[tuple[Memory, Memory]]:
    """Pair each memory with the next older one of its scope: (older, newer), newest pair first."""
    by_scope: dict[Scope, list[Memory]] = {}
    for memory in newest_first:
        by_scope.setdefault(Scope.of(memory, ("user",)), []).append(memory)
    pairs = [(old, new) for same in by_scope.values() for new, old in pairwise(same)]
    return sorted(pairs, key=lambda pair: pair[1].timestamp, reverse=True)

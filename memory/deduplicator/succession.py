"""Supersede what a model says newer memories have ended, if a second reading finds nothing lost."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from memory.decide import Part, checked
from memory.deduplicator.judging import Judging
from memory.errors import ModelError
from memory.models import (
    MOST_READ,
    PERSON,
    Condition,
    Decision,
    Memory,
    ProposedMerge,
    Succession,
)
from memory.providers import Asking
from memory.runtime import in_thread
from memory.store import MemoryStore

logger = logging.getLogger(__name__)


class SuccessionReading:
    """Reads again what a model named as ended, and returns the decisions.

    A memory is superseded whole or not at all. If the newer one does not say all that still holds,
    the model is asked once for a text that does, and this text is checked as a merge.
    """

    def __init__(self, store: MemoryStore, judging: Judging) -> None:
        self._store = store
        self._judging = judging

    async def decide(self, named: Sequence[Succession], asking: Asking) -> list[Decision]:
        """Return a decision for each pair that can be superseded, the oldest memory's first.

        Apply them in order. A memory that was merged meanwhile counts as the memory that it became.

        Raises: ModelError if the model gives no second reading.
        """
        parts, revision = await in_thread(self._parts, named)
        parts = await self._judging.without_repeats(parts)
        settled: list[Part] = []
        for start in range(0, len(parts), MOST_READ):
            settled += await self._judging.settle(parts[start : start + MOST_READ], asking)
        decisions = []
        for part in await self._judging.mended(settled, asking):
            if part.is_refused:
                part = replace(part, is_final=True)
            decision = self._judging.join(part, None)
            bound_by = (PERSON,) if decision.survivors else None
            decisions.append(replace(decision, condition=Condition(revision, bound_by)))
        return decisions

    async def decided(self, named: Sequence[Succession], asking: Asking) -> list[Decision]:
        """Return what `decide` returns; if the model fails, log it and return no decision.

        The pairs then stay as they are: recall shows the newer memory first.
        """
        try:
            return await self.decide(named, asking) if named else []
        except ModelError as exc:
            logger.warning("what the model called outdated stays: %s", exc)
            return []

    def _parts(self, named: Sequence[Succession]) -> tuple[list[Part], int]:
        """Return a part for each pair that may be superseded, and the ledger's revision."""
        found: dict[tuple[str, str], Part] = {}
        with self._store.ledger.reading() as reader:
            for one in named:
                older, newer = map(reader.memories.living, (one.older_id, one.newer_id))
                if older is None or newer is None or (older.memory.id, newer.memory.id) in found:
                    continue
                if not self._is_later(older.memory, newer.memory):
                    logger.info("%s does not end %s", newer.memory.id, older.memory.id)
                    continue
                scope = self._store.scope_of(newer.memory)
                [apart] = reader.distinct.of_all([(scope, newer.dated_key)], (PERSON,))
                if older.dated_key in apart:
                    continue
                merge = ProposedMerge((older.memory, newer.memory), newer.memory.content, ends=True)
                found[merge.members[0].id, merge.members[1].id] = replace(
                    checked(merge), why=one.why
                )
            revision = reader.revision()
        return sorted(found.values(), key=lambda part: part.merge.members[0].timestamp), revision

    def _is_later(self, older: Memory, newer: Memory) -> bool:
        known = older.said is not None and newer.said is not None
        same = self._store.scope_of(older) == self._store.scope_of(newer)
        later = older.timestamp < newer.timestamp and newer.lasts_as_long_as(older)
        return known and same and later

"""Merged texts that the program cannot tell true are read by a model, many in one call."""

from __future__ import annotations

from collections.abc import Sequence

from memory.decide import Part, as_read, unread
from memory.models import MOST_READ, MergeReading
from memory.protocols import LanguageModel
from memory.providers import Budget, Spent
from memory.text import Belief


class SecondReader:
    """Settles parts of verdicts: by a second reading where the model has one."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    async def settle(self, parts: Sequence[Part], budget: Budget, spent: Spent) -> tuple[Part, ...]:
        """The same parts, all of one scope, each believed or refused; up to 16 go into one call.

        Raises: ModelError.
        """
        doubtful = [part for part in parts if part.belief is Belief.DOUBTFUL]
        if not doubtful:
            return tuple(parts)
        if not self._model.page_size:
            return tuple(unread(part) if part in doubtful else part for part in parts)
        readings = iter(await self._read(doubtful, budget, spent))
        return tuple(
            as_read(part, next(readings)) if part.belief is Belief.DOUBTFUL else part
            for part in parts
        )

    async def _read(
        self, parts: Sequence[Part], budget: Budget, spent: Spent
    ) -> list[MergeReading | None]:
        """One reading for each, None where the model gave none."""
        readings: list[MergeReading | None] = []
        for start in range(0, len(parts), MOST_READ):
            merges = [part.merge for part in parts[start : start + MOST_READ]]
            answer = await budget.wait_for(self._model.reread, merges)
            spent.usage += answer.usage
            readings += (*answer.readings[: len(merges)], *[None] * len(merges))[: len(merges)]
        return readings

"""Search the candidate pairs of scopes, in this process or on an executor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from memory.decide.likeness import AlikeGroup
from memory.decide.policy import GroupPlan, plan_group
from memory.ledger import VectorTable
from memory.models import Memory, Rules, Scale
from memory.runtime import Progress
from memory.search import CandidatePairs, OnShare, candidate_pairs, joined

Ints = npt.NDArray[np.int64]
Alike = tuple[tuple[Memory, ...], AlikeGroup]
"""The members of a group, oldest to newest, and how alike they are."""


@dataclass(frozen=True)
class PairLimits:
    """Thresholds of a search, and the bands in which pairs are counted."""

    scale: Scale
    upper: float
    floor: float
    neighbours: int
    bands: tuple[float, ...]


@dataclass(frozen=True)
class PairSearch:
    """The texts of a scope whose pairs are searched; arrays have one value a text (n,)."""

    keys: tuple[str, ...]
    strict: npt.NDArray[np.bool_]
    """Whether the text has kana or Han."""
    weights: Ints
    """Number of memories with the text."""
    limits: PairLimits

    def part(self, begin: int, end: int) -> PairSearch:
        part = slice(begin, end)
        return replace(
            self, keys=self.keys[part], strict=self.strict[part], weights=self.weights[part]
        )

    def with_rows(self, other: PairSearch) -> PairSearch:
        return replace(
            self,
            keys=self.keys + other.keys,
            strict=np.concatenate([self.strict, other.strict]),
            weights=np.concatenate([self.weights, other.weights]),
        )

    def comparisons(self, across: int | None = None) -> int:
        """Count the comparisons, each pair from both sides; `across` is as in `find`."""
        count = len(self.keys)
        return count * count if across is None else 2 * across * (count - across)

    def find(
        self,
        vectors: VectorTable,
        across: int | None = None,
        threads: int | None = None,
        on_share: OnShare | None = None,
    ) -> CandidatePairs:
        """Return the pairs at or above the floor.

        With `across`, only those of the first `across` texts with the others. `threads` is by
        default one for each core.
        """
        limits = self.limits
        scale = limits.scale
        if len(self.keys) < 2:
            none = joined([])
            return CandidatePairs(none, none, np.zeros(len(limits.bands), np.int64))
        return candidate_pairs(
            vectors.of(self.keys),
            scale.cosines(limits.upper, self.strict),
            limits.neighbours,
            scale.cosines(limits.floor, self.strict),
            [scale.cosines(band, self.strict) for band in limits.bands],
            self.weights,
            across=across,
            threads=threads,
            on_share=on_share,
        )


class Compared:
    """Reports progress in texts: the share of all texts equals the share of all comparisons."""

    def __init__(self, searches: Sequence[PairSearch], tell: Progress | None) -> None:
        self._texts = sum(len(one.keys) for one in searches)
        self._all = max(1, sum(one.comparisons() for one in searches))
        self._done = 0
        self._tell = tell
        self.done(0)

    def done(self, comparisons: int) -> None:
        self._done += comparisons
        self._say(0)

    def share_of(self, comparisons: int) -> OnShare:
        """Return a callback for the share of the next `comparisons` that is done."""
        return lambda share: self._say(share * comparisons)

    def _say(self, more: float) -> None:
        if self._tell is not None:
            self._tell(int(self._texts * (self._done + more) / self._all), self._texts)


class PlanExecutor(Protocol):
    """Searches pairs and plans groups, in this process or on others."""

    def find(
        self,
        searches: Sequence[PairSearch],
        vectors: VectorTable,
        on_compared: Progress | None = None,
    ) -> Iterable[CandidatePairs]:
        """Return the candidate pairs of each search, in order."""

    def plan(self, groups: Sequence[Alike], rules: Rules) -> list[GroupPlan]:
        """Plan each group, in order."""


class InProcessExecutor:
    def find(
        self,
        searches: Sequence[PairSearch],
        vectors: VectorTable,
        on_compared: Progress | None = None,
    ) -> Iterable[CandidatePairs]:
        compared = Compared(searches, on_compared)
        for one in searches:
            found = one.find(vectors, on_share=compared.share_of(one.comparisons()))
            compared.done(one.comparisons())
            yield found

    def plan(self, groups: Sequence[Alike], rules: Rules) -> list[GroupPlan]:
        return plan_groups(groups, rules)


def plan_groups(groups: Sequence[Alike], rules: Rules) -> list[GroupPlan]:
    """Plan each group, in order."""
    return [alike.with_cosine(plan_group(members, alike.of, rules)) for members, alike in groups]

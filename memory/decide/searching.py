"""Which pairs of a scope are looked for, and who does the work of a plan: here, or elsewhere."""

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
class Terms:
    """From which similarity on pairs count, and in which bands they are counted."""

    scale: Scale
    upper: float
    floor: float
    neighbours: int
    bands: tuple[float, ...]


@dataclass(frozen=True)
class PairSearch:
    """The texts of a scope whose pairs are looked for; arrays of one value a text (n,)."""

    keys: tuple[str, ...]
    strict: npt.NDArray[np.bool_]
    """Where kana or Han stands in it."""
    weights: Ints
    """How many rows have the text."""
    terms: Terms

    def part(self, begin: int, end: int) -> PairSearch:
        """Some of the texts."""
        part = slice(begin, end)
        return replace(
            self, keys=self.keys[part], strict=self.strict[part], weights=self.weights[part]
        )

    def with_rows(self, other: PairSearch) -> PairSearch:
        """These texts, and behind them the other's."""
        return replace(
            self,
            keys=self.keys + other.keys,
            strict=np.concatenate([self.strict, other.strict]),
            weights=np.concatenate([self.weights, other.weights]),
        )

    def comparisons(self, across: int | None = None) -> int:
        """How many it takes, each pair from both sides; with `across`, as in `find`."""
        count = len(self.keys)
        return count * count if across is None else 2 * across * (count - across)

    def find(
        self,
        vectors: VectorTable,
        across: int | None = None,
        threads: int | None = None,
        on_share: OnShare | None = None,
    ) -> CandidatePairs:
        """The pairs above the floor; with `across`, of so many first texts with the others.

        `threads` None is one for each core.
        """
        terms = self.terms
        scale = terms.scale
        if len(self.keys) < 2:
            none = joined([])
            return CandidatePairs(none, none, np.zeros(len(terms.bands), np.int64))
        return candidate_pairs(
            vectors.of(self.keys),
            scale.cosines(terms.upper, self.strict),
            terms.neighbours,
            scale.cosines(terms.floor, self.strict),
            [scale.cosines(band, self.strict) for band in terms.bands],
            self.weights,
            across=across,
            threads=threads,
            on_share=on_share,
        )


class Compared:
    """Tells how many of all texts were compared: as large a share of them as of their pairs."""

    def __init__(self, searches: Sequence[PairSearch], tell: Progress | None) -> None:
        self._texts = sum(len(one.keys) for one in searches)
        self._all = max(1, sum(one.comparisons() for one in searches))
        self._done = 0
        self._tell = tell
        self.done(0)

    def done(self, comparisons: int) -> None:
        """So many more are done."""
        self._done += comparisons
        self._say(0)

    def share_of(self, comparisons: int) -> OnShare:
        """To be told the share of so many more that is done already."""
        return lambda share: self._say(share * comparisons)

    def _say(self, more: float) -> None:
        if self._tell is not None:
            self._tell(int(self._texts * (self._done + more) / self._all), self._texts)


class PlanExecutor(Protocol):
    """Who does the work of a plan that can be parted: here, or on other processes."""

    def find(
        self,
        searches: Sequence[PairSearch],
        vectors: VectorTable,
        on_compared: Progress | None = None,
    ) -> Iterable[CandidatePairs]:
        """The candidate pairs of each search, in order."""

    def plan(self, groups: Sequence[Alike], rules: Rules) -> list[GroupPlan]:
        """What to do about each group, in order."""


class InProcessExecutor:
    """The work is done at once, by this process."""

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
    """What to do about each group, in order."""
    return [alike.with_cosine(plan_group(members, alike.of, rules)) for members, alike in groups]

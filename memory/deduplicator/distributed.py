"""Search for pairs and plan groups of a batch on local worker processes or on a cluster.

Workers read vectors from the ledger and write nothing. The results are the same as those of a local
run. If a task fails, because its worker died or cannot reach the ledger, this process does the
task's work.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import ParamSpec, TypeVar

import numpy as np

from memory.decide import (
    Alike,
    CandidatePairs,
    Compared,
    GroupPlan,
    Pairs,
    PairSearch,
    in_order,
    joined,
    nearest_of,
    plan_groups,
)
from memory.ledger import Ledger
from memory.models import Progress, Rules, VectorTable

logger = logging.getLogger(__name__)

ROWS = 15_840
"""Number of texts in one range. A task compares the texts of two ranges, in about two seconds.

The vectors of one range take 16 MB if they have 256 dimensions.
"""
_GROUPS_OF_A_TASK = 250

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class _Block:
    """A piece of a search: it compares two ranges of texts, or the texts of one range.

    `search`: which of the searches the block belongs to, by position. `part`: a search among only
    the texts of the block. `across`: number of texts in the first range; None if the block has one
    range. `left`, `right`: positions in the whole search at which the first and the second range
    start; equal if the block has one range.
    """

    search: int
    part: PairSearch
    across: int | None
    left: int
    right: int


class DistributedExecutor:
    """Searches for pairs and plans groups in tasks on worker processes or a cluster.

    `ledger_url`: the address at which workers open the ledger. `rows`: the maximum
    number of texts in a range. The texts of each search are divided into ranges. A task compares
    ranges with at most twice this many texts in total.
    """

    def __init__(self, executor: Executor, ledger_url: str, rows: int = ROWS) -> None:
        self._executor = executor
        self._url = ledger_url
        self._rows = rows

    def find_pairs(
        self,
        searches: Sequence[PairSearch],
        vectors: VectorTable,
        on_compared: Progress | None = None,
    ) -> Iterator[CandidatePairs]:
        blocks = [block for n, one in enumerate(searches) for block in self._blocks(n, one)]
        runs = _runs(blocks, 2 * self._rows)
        futures = [self._submit(_find_all, self._url, run) for run in runs]
        found: list[list[tuple[_Block, CandidatePairs]]] = [[] for _ in searches]
        compared = Compared(searches, on_compared)
        for run, future in zip(runs, futures, strict=True):
            answer: list[CandidatePairs] = _answer(future, _found_in, run, vectors)
            for block, pairs in zip(run, answer, strict=True):
                found[block.search].append((block, pairs))
            compared.add(sum(block.part.comparisons(block.across) for block in run))
        return (_combined(one, parts) for one, parts in zip(searches, found, strict=True))

    def plan_groups(self, groups: Sequence[Alike], rules: Rules) -> list[GroupPlan]:
        parts = [
            groups[start : start + _GROUPS_OF_A_TASK]
            for start in range(0, len(groups), _GROUPS_OF_A_TASK)
        ]
        if len(parts) < 2:
            return plan_groups(groups, rules)
        futures = [self._submit(plan_groups, part, rules) for part in parts]
        return [
            plan
            for part, future in zip(parts, futures, strict=True)
            for plan in _answer(future, plan_groups, part, rules)
        ]

    def _submit(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T] | None:
        try:
            return self._executor.submit(call, *args, **kwargs)
        except Exception as exc:  # each pool and cluster has errors of its own
            logger.warning("no worker takes a task (%s): it is done here", type(exc).__name__)
            return None

    def _blocks(self, number: int, search: PairSearch) -> Iterator[_Block]:
        count = len(search.keys)
        starts = range(0, max(count, 1), self._rows)
        for left, right in combinations_with_replacement(starts, 2):
            first = [*range(left, min(left + self._rows, count))]
            if left == right:
                yield _Block(number, search.part(first), None, left, left)
            else:
                second = range(right, min(right + self._rows, count))
                yield _Block(number, search.part([*first, *second]), len(first), left, right)


def _runs(blocks: Sequence[_Block], rows: int) -> list[list[_Block]]:
    runs: list[list[_Block]] = []
    room = 0
    for block in blocks:
        if not runs or len(block.part.keys) > room:
            runs.append([])
            room = rows
        runs[-1].append(block)
        room -= len(block.part.keys)
    return runs


def _find_all(url: str, run: Sequence[_Block]) -> list[CandidatePairs]:
    with Ledger.open(url) as ledger, ledger.reading() as reader:
        vectors = reader.vectors.table(key for block in run for key in block.part.keys)
    return _found_in(run, vectors)


def _found_in(run: Sequence[_Block], vectors: VectorTable) -> list[CandidatePairs]:
    return [block.part.find(vectors, block.across) for block in run]


def _answer(
    future: Future[T] | None, fallback: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    try:
        if future is not None:
            return future.result()
    except Exception as exc:  # a lost worker raises what its pool or cluster defines
        logger.warning("a worker's task failed (%s): it is done here", type(exc).__name__)
    return fallback(*args, **kwargs)


def _combined(search: PairSearch, parts: Sequence[tuple[_Block, CandidatePairs]]) -> CandidatePairs:
    upper = joined(_renumbered(block, found.upper) for block, found in parts)
    near = joined(_renumbered(block, found.nearest) for block, found in parts)
    counts = np.sum([found.counts for _, found in parts], axis=0)
    nearest = nearest_of(near, len(search.keys), search.neighbours)
    return CandidatePairs(in_order(upper), nearest, counts)


def _renumbered(block: _Block, pairs: Pairs) -> Pairs:
    second = block.left if block.across is None else block.right - block.across
    return Pairs(pairs.i + block.left, pairs.j + second, pairs.similarity)

"""Which of the hits of a search are shown, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from memory.coverage import may_outdate
from memory.ledger import Ledger
from memory.models import PERSON, Memory, Scope, SearchResult
from memory.search import folded, newer_first

PastHit = tuple[SearchResult, str]
"""A superseded memory that a search found, and the id of the one that superseded it."""


def said_by(memory: Memory, moment: datetime) -> bool:
    return (memory.said or memory.timestamp) <= moment


def with_past(
    shown: Sequence[SearchResult], past: Sequence[PastHit], k: int, *, only_best: bool = False
) -> list[SearchResult]:
    """Return the first `k` hits, with superseded memories among them.

    `only_best`: only those that are more similar to the query than the last of the `k` hits.

    A superseded memory stands directly under the one that superseded it. If that one is not shown,
    it stands above the first hit that is less similar to the query.
    """
    found = list(shown)
    if only_best and len(found) >= k:
        least = found[k - 1].similarity
        past = [one for one in past if one[0].similarity > least]
    for hit, successor in past:
        ids = [one.memory.id for one in found]
        below = (n for n, one in enumerate(found) if one.similarity < hit.similarity)
        place = ids.index(successor) + 1 if successor in ids else next(below, len(found))
        found.insert(place, hit)
    return found[:k]


class Showing:
    """Arranges the hits of a search. `folds`: if false, all hits are shown in their order."""

    def __init__(
        self, ledger: Ledger, scope_of: Callable[[Memory], Scope], *, folds: bool = True
    ) -> None:
        self._ledger = ledger
        self._scope_of = scope_of
        self.folds = folds

    def arranged(self, hits: Sequence[SearchResult], k: int | None = None) -> list[SearchResult]:
        """Return the `k` hits that are shown, of hits that are ranked best first.

        Hits that state the same are folded into one; its `also` names the others. They stay apart
        if their scopes differ, or if a person or a model called them distinct. A hit that may be
        outdated stands directly below the newer one, at the better of their two ranks.
        """
        if not self.folds:
            return list(hits[:k])
        return newer_first(folded(hits, self._may_fold), k, self.is_suspect)

    def is_suspect(self, newer: Memory, older: Memory) -> bool:
        """Return whether `older` may be outdated by `newer`, and no person said that both hold."""
        scope = self._scope_of(newer)
        if scope != self._scope_of(older) or not may_outdate(newer, older):
            return False
        with self._ledger.reading() as reader:
            [distinct] = reader.distinct.of_all([(scope, newer.dated_key)], (PERSON,))
        return older.dated_key not in distinct

    def _may_fold(self, a: Memory, b: Memory) -> bool:
        scope = self._scope_of(a)
        if scope != self._scope_of(b):
            return False
        with self._ledger.reading() as reader:
            [distinct] = reader.distinct.of_all([(scope, a.dated_key)], ("person", "model"))
        return b.dated_key not in distinct - {a.dated_key}

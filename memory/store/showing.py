"""Which of the hits of a search are shown, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memory.ledger import Ledger
from memory.models import Memory, Scope, SearchResult
from memory.search import folded


class Showing:
    """Arranges the hits of a search. `folds`: whether restatements are folded into one hit."""

    def __init__(
        self, ledger: Ledger, scope_of: Callable[[Memory], Scope], *, folds: bool = True
    ) -> None:
        self._ledger = ledger
        self._scope_of = scope_of
        self.folds = folds

    def arranged(self, hits: Sequence[SearchResult]) -> list[SearchResult]:
        """Fold hits, best first, that state the same into one; its `also` names the others.

        Hits stay apart if their scopes differ, or if a person or a model called them distinct.
        """
        return folded(hits, self._may_fold) if self.folds else list(hits)

    def _may_fold(self, a: Memory, b: Memory) -> bool:
        scope = self._scope_of(a)
        if scope != self._scope_of(b):
            return False
        with self._ledger.reading() as reader:
            [distinct] = reader.distinct.of_all([(scope, a.dated_key)], ("person", "model"))
        return b.dated_key not in distinct - {a.dated_key}

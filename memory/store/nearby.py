"""What a new memory is compared with: the memories near it, and those stored meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from memory.ledger import Reader
from memory.models import (
    Decision,
    Embedded,
    Judge,
    Memory,
    Scope,
    SearchResult,
    Vector,
    Vectors,
    slack,
)
from memory.store.asking import NOBODY


@dataclass(frozen=True)
class Nearby:
    """The stored memories that a new one is compared with: the `k` most similar ones of its scope.

    They have at least `min_similarity`. Memories whose texts a judge in `bound_by` called distinct
    from the new text are left out. `cohesive`: also leave out a memory that replaced a memory whose
    similarity to the new one is below `min_similarity`. `k` = 0: compare with no memory.

    >>> outcome = memories.remember("Kim has a cat.", user="Kim")
    >>> new = store.new_memory("Kim has a red cat.", user="Kim")
    >>> wide, narrow = Nearby(k=5, min_similarity=0.5), Nearby(k=5, min_similarity=0.99)
    >>> [len(store.prepare([new], nearby)[0].near) for nearby in (wide, narrow)]
    [1, 0]
    """

    k: int
    min_similarity: float
    bound_by: tuple[Judge, ...] = NOBODY.bound_by
    cohesive: bool = False


@dataclass(frozen=True)
class NewMemory:
    """A memory that is not stored yet, with its vector, and what may be near it.

    `vector` is None if the embedder failed. `near`: ids of the memories that a search found at the
    ledger's `revision`. If the search failed, `fault` is the reason. `matches`: the stored memories
    that the new one is compared with, those with the same text first, then the most similar; they
    are looked up in the transaction that stores the new memory. `left_out`: whether a match is
    missing because of `Nearby.cohesive`. `shown`: keys of the texts that the model saw when it
    wrote the memory.

    >>> outcome = memories.remember("Leo has a cat.", user="Leo")
    >>> new = store.new_memory("Leo has a red cat.", user="Leo")
    >>> [prepared] = store.prepare([new], Nearby(k=5, min_similarity=0.8))
    >>> prepared.near == (outcome.memory.id,), prepared.vector.shape, store.get(new.id)
    (True, (256,), None)
    """

    memory: Memory
    vector: Vector | None
    near: tuple[str, ...] = ()
    revision: int = 0
    fault: str = ""
    matches: tuple[SearchResult, ...] = ()
    left_out: bool = False
    shown: frozenset[str] = frozenset()


class Arrivals:
    """The memories that were stored after some new memories were prepared, with their vectors.

    `MemoryStore.write` keeps it up to date. Use one object for all calls about memories that were
    prepared together.
    """

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._vectors: Vectors = np.empty((0, 0), np.float32)
        self._revisions: dict[Scope, int] = {}
        self._own: set[int] = set()

    def near(
        self, reader: Reader, scope: Scope, vector: Vector, prepared_at: int, min_cosine: float
    ) -> list[str]:
        """Return the ids of the memories with at least about this cosine to a vector.

        Memories that other transactions have stored in `scope` after the revision `prepared_at` are
        read from the ledger.
        """
        since, now = self._revisions.get(scope, prepared_at), reader.revision()
        self._revisions[scope] = now
        if not self._own.issuperset(range(since + 1, now + 1)):
            rows = reader.memories.live_written_after(since, scope)
            known = reader.vectors.of(row.text_key for row in rows)
            for row in rows:
                self._add(row.memory.id, known.get(row.text_key))
        if not self._ids:
            return []
        cosines = self._vectors[: len(self._ids)] @ vector
        found = np.flatnonzero(cosines >= min_cosine - slack(len(vector)))
        return [self._ids[row] for row in found.tolist()]

    def add(self, decision: Decision, made: Mapping[str, Embedded], revision: int) -> None:
        """Add what a decision stores in the transaction `revision`.

        `made`: the vectors of new texts, by memory id. All decisions of the transaction must be
        added.
        """
        self._own.add(revision)
        stored = [made[one.memory.id] for one in decision.survivors if one.memory.id in made]
        for one in (*stored, *([decision.arrival] if decision.arrival else ())):
            self._add(one.memory.id, one.vector)

    def _add(self, memory_id: str, vector: Vector | None) -> None:
        if vector is None:
            return
        count = len(self._ids)
        if count == len(self._vectors):
            grown = np.empty((2 * count + 8, len(vector)), np.float32)
            if count:
                grown[:count] = self._vectors
            self._vectors = grown
        self._vectors[count] = vector
        self._ids.append(memory_id)

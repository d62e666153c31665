"""What a new memory is compared with, and which pairs of texts a model need not be asked about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import cached_property

import numpy as np

from memory.ledger import Reader, TextPair
from memory.models import (
    JUDGES,
    OFFLINE,
    Decision,
    Embedded,
    Judge,
    Memory,
    Scope,
    ScopeField,
    SearchResult,
    Vector,
    Vectors,
)
from memory.search import slack
from memory.text import text_of


class RetryPolicy(Enum):
    """The rule for asking a model again about pairs of texts.

    - WHEN_DUE: ask about pairs that the model failed to judge, after a pause that grows each time.
      After too many failures, do not ask again.
    - NOW: the same as WHEN_DUE, but without the pause.
    - AGAIN: ask about all pairs, except those that a person called distinct.
    """

    WHEN_DUE = "what failed is asked again at growing distance"
    NOW = "what failed is asked again at once, unless it failed too often"
    AGAIN = "all is asked again, but for what a person told apart"


@dataclass(frozen=True)
class Asker:
    """A model that is asked about pairs of texts, and the rule for asking it again.

    `model`: the model's name. `thorough`: if true, the model also reads again each text that it has
    not seen together with all the text's nearest neighbours.
    """

    model: str
    retry: RetryPolicy = RetryPolicy.WHEN_DUE
    thorough: bool = False

    @cached_property
    def bound_by(self) -> tuple[Judge, ...]:
        """The judges whose verdicts count: the model is not asked about pairs they call distinct.

        The offline judge's verdicts count only if the model is the offline judge. If `retry` is
        AGAIN, only a person's verdicts count.
        """
        if self.retry is RetryPolicy.AGAIN:
            return ("person",)
        return JUDGES if self.model == OFFLINE else ("model", "person")

    def distinct(self, reader: Reader, fields: tuple[ScopeField, ...]) -> set[TextPair]:
        """Return the pairs of texts that a judge in `bound_by` called distinct, each with a scope.

        `fields`: the fields that form a scope now. A person's verdict may be older than these
        fields. Its pair is then also returned with present scopes, as by `kept_apart`.
        """
        return reader.distinct.all(self.bound_by) | kept_apart(reader, fields)

    def waiting(self, reader: Reader, now: datetime) -> set[TextPair]:
        """Return the pairs of texts that the model must not be asked about at the time `now`.

        The model failed too often to judge these pairs, or the pause after its last failure is not
        over. If `retry` is AGAIN, there are no such pairs.
        """
        if self.retry is RetryPolicy.AGAIN:
            return set()
        due = now if self.retry is RetryPolicy.WHEN_DUE else None
        return reader.attempts.waiting(self.model, due)


def kept_apart(reader: Reader, fields: tuple[ScopeField, ...]) -> set[TextPair]:
    """Return the pairs of texts that a person called distinct, each with the verdict's scope.

    `fields`: the fields that form a scope now. A verdict's scope may have other fields. Its pair is
    then also returned with the scope of each live memory that has one of the two texts. Scopes that
    contradict the verdict's scope (see `Scope.agrees_with`) are left out.
    """
    names = {*fields, "is_private"}
    pairs = reader.distinct.all(("person",))
    distinct: dict[str, list[tuple[Scope, TextPair]]] = {}
    for pair in pairs:
        scope = Scope.from_key(pair[0])
        if {name for name, _ in scope.values} != names:
            for key in set(pair[1:]):
                distinct.setdefault(key, []).append((scope, pair))
    return pairs | {
        (now.key, low, high)
        for row in reader.memories.live_with_texts({*map(text_of, distinct)}, Scope(()))
        for now in (Scope.of(row.memory, fields),)
        for scope, (_, low, high) in distinct.get(row.dated_key, ())
        if scope.agrees_with(now)
    }


NOBODY = Asker(model="")
"""The Asker of callers that ask no model.

Its `bound_by` names persons and models, but not the offline judge.
"""


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

    `MemoryStore.prepare` makes it. `vector` is None if the embedder failed. `near`: ids of the
    memories that a search for `nearby` found at the ledger's `revision`. If the search failed,
    `fault` is the reason. `arrivals`: shared by memories that were prepared together.

    The caller may add two fields. `shown`: keys of the texts that the model saw when it wrote the
    memory. `decided`: the decision about the memory, if it is made before the memory is written.

    Two fields are looked up in the transaction that stores the memory. `matches`: the stored
    memories that it is compared with, those with the same text first, then the most similar.
    `left_out`: whether a match is missing because of `Nearby.cohesive`.

    >>> outcome = memories.remember("Leo has a cat.", user="Leo")
    >>> new = store.new_memory("Leo has a red cat.", user="Leo")
    >>> [prepared] = store.prepare([new], Nearby(k=5, min_similarity=0.8))
    >>> prepared.near == (outcome.memory.id,), prepared.vector.shape, store.get(new.id)
    (True, (256,), None)
    """

    memory: Memory
    vector: Vector | None
    nearby: Nearby = Nearby(0, 1.0)
    near: tuple[str, ...] = ()
    revision: int = 0
    fault: str = ""
    arrivals: Arrivals | None = None
    shown: frozenset[str] = frozenset()
    decided: Decision | None = None
    matches: tuple[SearchResult, ...] = ()
    left_out: bool = False


class Arrivals:
    """The memories that were stored after some new memories were prepared, with their vectors.

    `MemoryStore.write` keeps it up to date.
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

"""New memories that are decided one after the other, and stored together. Pure.

Each is to be decided as if those before it were stored already. Where they only add to what it
resembles, that is known without asking the store again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from memory.models import Decision, Embedded, Memory, Scale, Scope, SearchResult
from memory.search import similarities
from memory.text import has_kana_or_han, text_key


@dataclass(frozen=True)
class _Waiting:
    new: Embedded
    scope: Scope
    decision: Decision

    @property
    def names(self) -> set[str]:
        """Ids of the stored memories that it changes."""
        touched = {name for one in self.decision.survivors for name in one.stands_for}
        return touched | {one.memory.id for one in self.decision.survivors}

    @property
    def makes_a_text(self) -> bool:
        members = {member.id for member in self.decision.members}
        return any(one.memory.id not in members for one in self.decision.survivors)

    @property
    def told_apart(self) -> set[str]:
        """Keys of the texts that it says are different."""
        if not self.decision.distinct:
            return set()
        return {text_key(one.content) for one in self.decision.members}


class PendingWrites:
    """Decisions that are made and not applied yet, as those after them must see them."""

    def __init__(self, scale: Scale, scope_of: Callable[[Memory], Scope], floor: float) -> None:
        """`floor` is the similarity below which nobody is a match."""
        self._scale = scale
        self._scope_of = scope_of
        self._floor = floor
        self._waiting: list[_Waiting] = []

    def add(self, new: Embedded, decision: Decision) -> None:
        self._waiting.append(_Waiting(new, self._scope_of(new.memory), decision))

    def seen_by(
        self, new: Embedded, matches: Sequence[SearchResult], distinct: Collection[str]
    ) -> list[SearchResult] | None:
        """Its matches once all that waits is stored, most similar first, however many.

        `distinct` are the keys of the texts that it was told apart from. None where only the store
        can tell: what it resembles is changed by one before it, or says the same.
        """
        scope, key = self._scope_of(new.memory), text_key(new.memory.content)
        before = [one for one in self._waiting if one.scope == scope]
        if any(key in (text_key(one.new.memory.content), *one.told_apart) for one in before):
            return None
        changed = {name for one in before for name in one.names}
        if any(one.makes_a_text for one in before) or changed & {hit.memory.id for hit in matches}:
            return None
        near = self._near(new, before)
        if any(one.decision.survivors or distinct for one, _ in near):
            return None
        return sorted([*matches, *(hit for _, hit in near)], key=_same_text_first)

    def _near(
        self, new: Embedded, before: Sequence[_Waiting]
    ) -> list[tuple[_Waiting, SearchResult]]:
        others = [(one, one.new.vector) for one in before if one.new.vector is not None]
        if new.vector is None or not others:
            return []
        vectors = np.stack([vector for _, vector in others])
        cosines = similarities(vectors, np.broadcast_to(new.vector, vectors.shape))
        strict = np.array([has_kana_or_han(one.new.memory.content) for one, _ in others])
        scores = self._scale.similarities(cosines, strict | has_kana_or_han(new.memory.content))
        return [
            (one, SearchResult(one.new.memory, score, cosine))
            for (one, _), score, cosine in zip(
                others, scores.tolist(), cosines.tolist(), strict=True
            )
            if score >= self._floor
        ]


def _same_text_first(hit: SearchResult) -> tuple[bool, float, float]:
    """The same text was found without a vector, so it has no cosine; then the newest."""
    return hit.cosine is not None, -hit.similarity, -hit.memory.timestamp.timestamp()

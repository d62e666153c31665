"""Finds the pairs of texts that a model need not be asked about, and the texts it has read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import cached_property

from memory.ledger import Reader, TextPair
from memory.models import JUDGES, OFFLINE, Judge, Scope, ScopeField


class RetryPolicy(Enum):
    """The rule for asking a model again about pairs of texts that it failed to judge or has judged.

    - WHEN_DUE: the model is asked again about failed pairs after a pause. The pause grows with each
      failure, until the model has failed too often.
    - NOW: the same as WHEN_DUE, but without the pause.
    - AGAIN: the model is asked again about all pairs, even if it has failed too often or has called
      the texts distinct. Only the verdicts of a person still count.
    """

    WHEN_DUE = "what failed is asked again at growing distance"
    NOW = "what failed is asked again at once, unless it failed too often"
    AGAIN = "all is asked again, but for what a person told apart"


@dataclass(frozen=True)
class Asker:
    """The model that is asked about pairs of texts, and the rule for asking it again.

    `model` is the name of the model.
    """

    model: str
    retry: RetryPolicy = RetryPolicy.WHEN_DUE
    thorough: bool = False
    """Whether a text counts as read only if the model saw it with all its nearest neighbours."""

    @cached_property
    def bound_by(self) -> tuple[Judge, ...]:
        """The kinds of judge whose verdicts are final for the model.

        The model is not asked about pairs of texts that such a judge called distinct. A verdict of
        the offline judge is final only for the offline judge itself.
        """
        if self.retry is RetryPolicy.AGAIN:
            return ("person",)
        return JUDGES if self.model == OFFLINE else ("model", "person")

    def distinct(self, reader: Reader, fields: tuple[ScopeField, ...]) -> set[TextPair]:
        """Return the pairs of texts that were called distinct by a judge in `bound_by`.

        `fields` are the fields that scopes consist of now. A person's verdict counts even if scopes
        had other fields when it was given.
        """
        return reader.distinct.all(self.bound_by) | kept_apart(reader, fields)

    def waiting(self, reader: Reader, now: datetime) -> set[TextPair]:
        """Return the pairs of texts that the model failed to judge and must not judge yet at `now`.

        `retry` decides whether a pause after a failure counts. With AGAIN, the result is empty.
        """
        if self.retry is RetryPolicy.AGAIN:
            return set()
        due = now if self.retry is RetryPolicy.WHEN_DUE else None
        return reader.attempts.waiting(self.model, due)


def kept_apart(reader: Reader, fields: tuple[ScopeField, ...]) -> set[TextPair]:
    """Return the pairs of texts that a person called distinct, with the scopes of the verdicts.

    `fields` are the fields that scopes consist of now. If scopes had other fields when a verdict
    was given, its pair is also returned with present scopes. These are the scopes of the live
    memories that have one of the two texts. A present scope is left out if it has another value
    than the earlier scope in a field that both have.
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
        for row in reader.memories.live_with_texts(list(distinct), Scope(()))
        for now in (Scope.of(row.memory, fields),)
        for scope, (_, low, high) in distinct[row.text_key]
        if scope.agrees_with(now)
    }


NOBODY = Asker(model="")
"""The asker of callers that ask no model. Verdicts of a person or a model still count."""

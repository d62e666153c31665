"""Finds the pairs of texts that a model need not be asked about, and the texts it has read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import cached_property

from memory.ledger import Reader, TextPair
from memory.models import JUDGES, OFFLINE, Judge, Scope, ScopeField


class RetryPolicy(Enum):
    """The rule that says about which pairs of texts a model is asked again.

    - WHEN_DUE: about pairs that the model failed to judge, after a pause that grows with each
      failure. After too many failures, the model is not asked again.
    - NOW: the same as WHEN_DUE, but without the pause.
    - AGAIN: about all pairs, even if the model failed too often or called the texts distinct. Only
      pairs that a person called distinct are left out.
    """

    WHEN_DUE = "what failed is asked again at growing distance"
    NOW = "what failed is asked again at once, unless it failed too often"
    AGAIN = "all is asked again, but for what a person told apart"


@dataclass(frozen=True)
class Asker:
    """The model that is asked about pairs of texts, and the rule for asking it again.

    `model` is the name of the model, and `retry` is the rule.
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
        """Return the pairs of texts that the model must not be asked about at the time `now`.

        These are the pairs at which the model failed too often and, if `retry` is WHEN_DUE, those
        whose pause after a failure is not over. If `retry` is AGAIN, the result is empty.
        """
        if self.retry is RetryPolicy.AGAIN:
            return set()
        due = now if self.retry is RetryPolicy.WHEN_DUE else None
        return reader.attempts.waiting(self.model, due)


def kept_apart(reader: Reader, fields: tuple[ScopeField, ...]) -> set[TextPair]:
    """Return the pairs of texts that a person called distinct, each with the verdict's scope.

    `fields` are the fields that scopes consist of now. If scopes had other fields when a person
    gave the verdict, the pair is also returned with present scopes: those of live memories that
    have one of the two texts. A present scope does not count if it has another value than the
    verdict's scope in a field that both have.
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

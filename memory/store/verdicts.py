"""Decides which pairs of texts a model need not be asked about."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import cached_property

from memory.ledger import Reader
from memory.models import (
    JUDGES,
    OFFLINE,
    Judge,
    Scope,
    ScopeField,
    TextPair,
)
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
        return reader.attempts.waiting(
            self.model, now if self.retry is RetryPolicy.WHEN_DUE else None
        )


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

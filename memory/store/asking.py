"""Which pairs of texts and which pages a model need not be asked about."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import cached_property

from memory.ledger import Reader, ScopedText, TextPair
from memory.models import JUDGES, OFFLINE, Judge, Scope, ScopeField


class Insistence(Enum):
    """How soon a model is asked again about a pair of texts.

    WHEN_DUE: after a pause, which grows with each failure. NOW: at once, unless the model failed at
    the pair too often. AGAIN: about every pair, except those that a person called distinct.
    """

    WHEN_DUE = "what failed is asked again at growing distance"
    NOW = "what failed is asked again at once, unless it failed too often"
    AGAIN = "all is asked again, but for what a person told apart"


@dataclass(frozen=True)
class Asker:
    """A model that will be asked about pairs of texts, and how soon it is asked again."""

    model: str
    insistence: Insistence = Insistence.WHEN_DUE
    thorough: bool = False
    """Whether only texts that the model has read thoroughly count as read."""

    @cached_property
    def bound_by(self) -> tuple[Judge, ...]:
        """The kinds of judge whose verdicts are final: the model is not asked about those pairs.

        A verdict of the offline judge is final only for the offline judge itself.
        """
        if self.insistence is Insistence.AGAIN:
            return ("person",)
        return JUDGES if self.model == OFFLINE else ("model", "person")

    def distinct(self, reader: Reader, fields: tuple[ScopeField, ...]) -> set[TextPair]:
        """Return the pairs of texts that judges in `bound_by` called distinct.

        `fields` are the fields of scopes today. A person's verdict from before a change of these
        fields still counts.
        """
        return reader.distinct.all(self.bound_by) | _distinct_in_other_scopes(reader, fields)

    def kept_apart(self, reader: Reader, fields: tuple[ScopeField, ...]) -> set[TextPair]:
        """Return the pairs of texts that a person called distinct; `fields` as for `distinct`."""
        return reader.distinct.all(("person",)) | _distinct_in_other_scopes(reader, fields)

    def read(self, reader: Reader) -> set[ScopedText]:
        """Return the texts that the model has read on pages."""
        return reader.readings.all(self.model, thorough=self.thorough)

    def waiting(self, reader: Reader, now: datetime) -> set[TextPair]:
        """Return the pairs that the model failed to judge and is not asked about at time `now`."""
        if self.insistence is Insistence.WHEN_DUE:
            return reader.attempts.waiting(self.model, now)
        if self.insistence is Insistence.NOW:
            return reader.attempts.exhausted(self.model)
        return set()


def _distinct_in_other_scopes(reader: Reader, fields: tuple[ScopeField, ...]) -> set[TextPair]:
    """Return the pairs that a person called distinct while scopes had other fields than today.

    Each pair is returned for every scope of today that holds one of its texts, unless that scope
    contradicts the earlier one in the value of a field.
    """
    names = {*fields, "is_private"}
    distinct: dict[str, list[tuple[Scope, TextPair]]] = {}
    for pair in reader.distinct.all(("person",)):
        scope = Scope.from_key(pair[0])
        if {name for name, _ in scope.values} != names:
            for key in set(pair[1:]):
                distinct.setdefault(key, []).append((scope, pair))
    return {
        (now.key, low, high)
        for row in reader.memories.live_with_texts(list(distinct), Scope(()))
        for now in (Scope.of(row.memory, fields),)
        for scope, (_, low, high) in distinct[row.text_key]
        if scope.agrees_with(now)
    }


NOBODY = Asker(model="")
"""Asks no model. What a person or a model called distinct still counts as distinct."""

"""A model that is asked about pairs of texts, and the pairs that it is not asked about."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import cached_property

from memory.ledger import Reader, ScopedText, TextPair
from memory.models import JUDGES, OFFLINE, Judge, Scope, ScopeField


class Insistence(Enum):
    """How often the same question is asked again."""

    WHEN_DUE = "what failed is asked again at growing distance"
    NOW = "what failed is asked again at once, unless it failed too often"
    AGAIN = "all is asked again, but for what a person told apart"


@dataclass(frozen=True)
class Asker:
    """A model, and how insistently it is asked."""

    model: str
    insistence: Insistence = Insistence.WHEN_DUE
    thorough: bool = False
    """Whether a page leaves out only texts that this model has read thoroughly."""

    @cached_property
    def bound_by(self) -> tuple[Judge, ...]:
        """The judges whose verdicts it accepts: only the offline judge accepts its own."""
        if self.insistence is Insistence.AGAIN:
            return ("person",)
        return JUDGES if self.model == OFFLINE else ("model", "person")

    def distinct(self, reader: Reader, fields: tuple[ScopeField, ...]) -> set[TextPair]:
        """Return the pairs called distinct by a judge whose verdict it accepts.

        `fields` are what scopes consist of now; a person's verdict outlives a change of them.
        """
        return reader.distinct.all(self.bound_by) | _told_in_other_scopes(reader, fields)

    def kept_apart(self, reader: Reader, fields: tuple[ScopeField, ...]) -> set[TextPair]:
        """Return the pairs that a person keeps apart."""
        return reader.distinct.all(("person",)) | _told_in_other_scopes(reader, fields)

    def read(self, reader: Reader) -> set[ScopedText]:
        """Return the texts that it has read."""
        return reader.readings.all(self.model, thorough=self.thorough)

    def waiting(self, reader: Reader, now: datetime) -> set[TextPair]:
        """Return the pairs that this model failed at and is not asked about now."""
        if self.insistence is Insistence.WHEN_DUE:
            return reader.attempts.waiting(self.model, now)
        if self.insistence is Insistence.NOW:
            return reader.attempts.exhausted(self.model)
        return set()


def _told_in_other_scopes(reader: Reader, fields: tuple[ScopeField, ...]) -> set[TextPair]:
    """Return pairs that a person called distinct in scopes of other fields, in today's scopes."""
    names = {*fields, "is_private"}
    told: dict[str, list[tuple[Scope, TextPair]]] = {}
    for pair in reader.distinct.all(("person",)):
        scope = Scope.from_key(pair[0])
        if {name for name, _ in scope.values} != names:
            for key in set(pair[1:]):
                told.setdefault(key, []).append((scope, pair))
    return {
        (now.key, low, high)
        for row in reader.memories.live_with_texts(list(told), Scope(()))
        for now in (Scope.of(row.memory, fields),)
        for scope, (_, low, high) in told[row.text_key]
        if scope.agrees_with(now)
    }


NOBODY = Asker(model="")
"""No model is asked: what a person or a model called distinct stays apart."""

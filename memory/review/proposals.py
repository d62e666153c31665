"""What a judge proposes about a group, shown to a person before anything is done."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from memory.decide import RoundPlan
from memory.judging import Judging
from memory.models import Decision, Memory, Question
from memory.providers import Asking, Budget, CallBudget

_CALLS = 8
"""How often a model may be asked for one proposal, retries among them."""
Place = tuple[str, frozenset[str]]
"""A card's key, and the ids of those that are left out."""


@dataclass(frozen=True)
class Proposal:
    """A decision that is not made yet; a person who applies it names its token."""

    by: str
    decision: Decision

    @property
    def token(self) -> str:
        """16 hex digits that name just this proposal."""
        told = [self.by, self.decision.action.value, *(m.id for m in self.decision.members)]
        for survivor in self.decision.survivors:
            told += [survivor.memory.id, survivor.memory.content, *survivor.stands_for]
        return hashlib.sha256("\0".join(told).encode()).hexdigest()[:16]

    @property
    def failed(self) -> bool:
        """Whether the judge gave no answer that can be believed."""
        return self.decision.pending

    @property
    def texts(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The texts that would live, each with the ids of those it would stand for."""
        return tuple(
            (survivor.memory.content, survivor.stands_for) for survivor in self.decision.survivors
        )


class Proposals:
    """Asks judges, and remembers the last answer about each group."""

    def __init__(self, judges: Mapping[str, Judging], budget_s: float) -> None:
        """`judges` by name, the one that costs nothing first."""
        self.judges = tuple(judges)
        self._judges = judges
        self._budget_s = budget_s
        self._latest: dict[Place, Proposal] = {}

    def latest(self, place: Place) -> Proposal | None:
        """What was proposed last."""
        return self._latest.get(place)

    async def ask(self, by: str, place: Place, plan: RoundPlan) -> Proposal:
        """Ask one judge once about the one group of a plan; a failure is a proposal too."""
        judging = self._judges[by]
        question = question_about(plan)
        asking = Asking(CallBudget(_CALLS), Budget(self._budget_s))
        decision = await judging.decide(question, asking, most_answers=1)
        proposal = Proposal(by, decision)
        self._latest[place] = proposal
        return proposal


def question_about(plan: RoundPlan) -> Question:
    """What is to be asked about the one group of a plan, even where the rules need no judge."""
    [group] = plan.groups
    if group.question is not None and group.replacement is None:
        return group.question
    return Question(group.members, "a person asks", _lowest(plan, group.members))


def _lowest(plan: RoundPlan, members: tuple[Memory, ...]) -> float:
    pairs = ((a, b) for n, a in enumerate(members) for b in members[n + 1 :])
    return min((plan.likeness.of(a, b) for a, b in pairs), default=1.0)

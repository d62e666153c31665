"""What a judge proposes about a group, shown to a person before anything is done."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from memory.decide import RoundPlan
from memory.deduplicator import Judging
from memory.models import Decision, Memory, Question, Usage
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

    def page_size(self, by: str) -> int:
        """Return how many memories one question may show a judge; 0 where it reads no pages."""
        return self._judges[by].model.page_size

    def has_asked(self, by: str, place: Place) -> bool:
        latest = self._latest.get(place)
        return latest is not None and latest.by == by

    async def ask(self, by: str, place: Place, plan: RoundPlan) -> Proposal:
        """Ask one judge once about the one group of a plan; a failure is a proposal too."""
        question = question_about(plan)
        decision = await self._judges[by].decide(question, self._asking(), most_answers=1)
        return self._keep(by, place, decision)

    async def ask_together(self, by: str, plans: Mapping[Place, RoundPlan]) -> set[Place]:
        """Ask one judge about several groups of one scope as one page; return those it answered.

        A group that the answer joins with another one has no proposal yet: it is asked alone.

        Raises: ModelError.
        """
        questions, asking = [question_about(plan) for plan in plans.values()], self._asking()
        decisions = await self._judges[by].decide_together(questions, asking)
        usage = asking.usage
        for place, decision in zip(plans, decisions, strict=True):
            if decision is not None:
                self._keep(by, place, replace(decision, usage=usage))
                usage = Usage()
        return {place for place, one in zip(plans, decisions, strict=True) if one is not None}

    def _keep(self, by: str, place: Place, decision: Decision) -> Proposal:
        self._latest[place] = Proposal(by, decision)
        return self._latest[place]

    def _asking(self) -> Asking:
        return Asking(CallBudget(_CALLS), Budget(self._budget_s))


def question_about(plan: RoundPlan) -> Question:
    """What is to be asked about the one group of a plan, even where the rules need no judge."""
    [group] = plan.groups
    if group.question is not None and group.replacement is None:
        return group.question
    return Question(group.members, "a person asks", _lowest(plan, group.members))


def _lowest(plan: RoundPlan, members: tuple[Memory, ...]) -> float:
    pairs = ((a, b) for n, a in enumerate(members) for b in members[n + 1 :])
    return min((plan.likeness.of(a, b) for a, b in pairs), default=1.0)

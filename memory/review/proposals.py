"""What a judge proposes about a group, shown to a person before anything is done."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from memory.decide import RoundPlan
from memory.deduplicator import Judging
from memory.models import Decision, Question, Usage
from memory.providers import Asking, Budget, CallBudget

_CALLS = 8
"""How often a model may be called for one proposal, retries included."""
Selection = tuple[str, frozenset[str]]
"""A card's key, and the ids of the members that are left out."""


@dataclass(frozen=True)
class Proposal:
    """A decision that is not made yet; a person who applies it sends its token."""

    by: str
    decision: Decision

    @property
    def token(self) -> str:
        """Return 16 hex digits that identify the content of this proposal."""
        parts = [self.by, self.decision.action.value, *(m.id for m in self.decision.members)]
        for survivor in self.decision.survivors:
            parts += [survivor.memory.id, survivor.memory.content, *survivor.stands_for]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    @property
    def failed(self) -> bool:
        """Whether the judge gave no usable answer."""
        return self.decision.pending


class Proposals:
    """Asks judges about groups, and keeps the latest answer about each selection."""

    def __init__(self, judges: Mapping[str, Judging], budget_s: float) -> None:
        """`judges` by name, the one that costs nothing first."""
        self.judges = judges
        self.latest: dict[Selection, Proposal] = {}
        self._budget_s = budget_s

    def is_by(self, by: str, selection: Selection) -> bool:
        """Whether the latest proposal about a selection is this judge's."""
        return selection in self.latest and self.latest[selection].by == by

    async def ask(self, by: str, selection: Selection, plan: RoundPlan) -> Proposal:
        """Ask one judge once about the one group of a plan; a failure is a proposal too."""
        question = _question_about(plan)
        decision = await self.judges[by].decide(question, self._asking(), most_answers=1)
        self.latest[selection] = Proposal(by, decision)
        return self.latest[selection]

    async def ask_together(self, by: str, plans: Mapping[Selection, RoundPlan]) -> set[Selection]:
        """Ask one judge about several groups of one scope as one page; return those it answered.

        A group that the answer joins with another one gets no proposal.

        Raises: ModelError.
        """
        questions, asking = list(map(_question_about, plans.values())), self._asking()
        decisions = await self.judges[by].decide_together(questions, asking)
        answered = {of: one for of, one in zip(plans, decisions, strict=True) if one is not None}
        usage = asking.usage
        for selection, decision in answered.items():
            self.latest[selection] = Proposal(by, replace(decision, usage=usage))
            usage = Usage()
        return set(answered)

    def _asking(self) -> Asking:
        return Asking(CallBudget(_CALLS), Budget(self._budget_s))


def _question_about(plan: RoundPlan) -> Question:
    """Return the question about the one group of a plan, even if the rules need no judge."""
    [group] = plan.groups
    if group.question is not None and group.replacement is None:
        return group.question
    return Question(group.members, "a person asks", plan.likeness.lowest(group.members))

"""A review: people answer the groups of a plan one by one, and each answer is applied."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, TypeVar

from memory.decide import (
    GroupPlan,
    Planner,
    PlanSettings,
    RoundPlan,
    certainty,
    plan_again,
)
from memory.deduplicator import Audit, Judging
from memory.ledger import DecisionRecord, Reader, Row, Snapshot, TextPair, snapshot_of
from memory.models import PERSON, Decision, Question, Rules
from memory.providers import Asking, Budget, CallBudget
from memory.review.answers import (
    Answered,
    AnswerResult,
    Answers,
    Given,
    Refused,
    ReviewAnswer,
    changes_since,
    only,
)
from memory.review.cards import Card, card_key, cards_of, content_hash
from memory.runtime import in_thread
from memory.store import MemoryStore

logger = logging.getLogger(__name__)

T = TypeVar("T")
State = Literal["rules", "judge", "later"]


Selection = tuple[str, frozenset[str]]  # the key of a group's card, and the ids left out of it
_CALLS = 8


@dataclass(frozen=True)
class Proposal:
    by: str
    decision: Decision

    @property
    def token(self) -> str:
        """A hash of the proposal. The web page sends this hash back with the person's answer."""
        parts = [self.by, self.decision.action.value, *(m.id for m in self.decision.members)]
        for survivor in self.decision.survivors:
            parts += [survivor.memory.id, survivor.memory.content, *survivor.stands_for]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class PlannedGroup:
    group: GroupPlan
    plan: RoundPlan

    @property
    def key(self) -> str:
        return card_key((member.id, content_hash(member.content)) for member in self.group.members)

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(member.id for member in self.group.members)

    @property
    def similarity(self) -> float:
        known = (
            part.similarity
            for part in (self.group.question, self.group.replacement)
            if part and part.similarity is not None
        )
        return min(known, default=1.0)


@dataclass(frozen=True)
class ShownGroup:
    """A group as the web page shows it to a person.

    `left_out`: the ids of the members that the person left out. `retired`: the ids of the members
    that the rules would retire. `needs_reader`: whether a model or a person must decide.
    `proposal`: None if `needs_reader` is False. `later`: whether the group was postponed. `note`:
    what has changed since the group was planned or last shown, or "".
    """

    card: Card
    left_out: frozenset[str]
    retired: tuple[str, ...]
    proposal: Proposal | None
    needs_reader: bool
    later: bool
    note: str


@dataclass(frozen=True)
class ReviewProgress:
    """How many groups are answered, still to be answered (`left`), and postponed (`later`).

    `can_go_back`: whether this review has an answer to undo.
    """

    answered: int
    left: int
    later: int
    can_go_back: bool


class Review:
    """A review of a store's groups of near-copies. Several people may answer at the same time."""

    def __init__(
        self,
        store: MemoryStore,
        rules: Rules,
        audit: Callable[[], Awaitable[Audit]],
        judges: Mapping[str, Judging],
        budget_s: float,
        answers: Answers,
        follow_undo: Callable[[Sequence[DecisionRecord]], str],
        *,
        blind: bool = False,
    ) -> None:
        """Start without groups; call `look` to plan them.

        `audit`: plans the groups of the store. `judges`: the judges by name; the first must need no
        model. `budget_s`: the most seconds for one proposal. `follow_undo`: receives undone
        decisions, and updates the agent's files; returns an error message to log, or "". `blind`:
        whether people answer without seeing similarities, plans and proposals.
        """
        self.store = store
        self.blind = blind
        self.judges = judges
        self._budget_s = budget_s
        self._proposals: dict[Selection, Proposal] = {}
        self._rules = rules
        self._audit = audit
        self._answers = answers
        self._follow_undo = follow_undo
        self._left: dict[str, PlannedGroup] = {}
        self._later: set[frozenset[str]] = set()
        self._answered = 0
        self._given = 0
        self._revision = -1
        self._one_at_a_time = asyncio.Lock()

    def read(self, look: Callable[[Reader], T]) -> T:
        with self.store.ledger.reading() as reader:
            return look(reader)

    # --- looking ---

    async def look(self) -> None:
        """Plan the groups of the store as it is now. Call this before the first group is shown."""
        plan = (await self._audit()).plan
        records = await in_thread(self.read, lambda reader: reader.decisions.by_person())
        self._later = {frozenset(record.members) for record in records if record.pending}
        self._answered = sum(not record.left_for_later for record in records)
        # The least certain first; in a blind review the order must not show how certain they are.
        left = sorted(
            (PlannedGroup(group, plan) for group in plan.groups),
            key=lambda planned: (0.0 if self.blind else certainty(planned.group), planned.key),
        )
        self._left = {planned.key: planned for planned in left}
        self._revision = plan.snapshot.revision

    def progress(self) -> ReviewProgress:
        later = sum(planned.ids in self._later for planned in self._left.values())
        return ReviewProgress(self._answered, len(self._left) - later, later, self._given > 0)

    async def next_key(self) -> str | None:
        """Return the key of the group to show next; None if no group is left.

        If only postponed groups are left and the store has changed, the groups are planned again.
        """
        waits = all(planned.ids in self._later for planned in self._left.values())
        if waits and await in_thread(self.read, lambda reader: reader.revision()) != self._revision:
            async with self._one_at_a_time:
                await self.look()
        return next(iter(self.keys()), None)

    def keys(self) -> list[str]:
        return sorted(self._left, key=lambda key: self._left[key].ids in self._later)

    def groups(self) -> list[tuple[PlannedGroup, State]]:
        return [(self._left[key], self._state(self._left[key])) for key in self.keys()]

    def _state(self, planned: PlannedGroup) -> State:
        if planned.ids in self._later:
            return "later"
        return "rules" if planned.group.question is None else "judge"

    def after(self, key: str) -> str | None:
        keys = self.keys()
        following = keys.index(key) + 1 if key in keys else 0
        return keys[following % len(keys)] if keys else None

    async def show(self, key: str, left_out: frozenset[str] = frozenset()) -> ShownGroup | None:
        """Return a group in its present state; None if it was answered or can no longer be merged.

        `left_out`: the ids of the members that the person left out. If the group has changed,
        `card.key` of the result differs from `key`. If the rules cannot decide, the first judge is
        asked for a proposal.
        """
        planned = self._left.get(key)
        if planned is None:
            return None
        current, note = await in_thread(self._current, planned)
        if current is None:
            self._left.pop(key, None)
            return None
        if current is not planned:
            self._left = dict(
                (current.key, current) if k == key else (k, v) for k, v in self._left.items()
            )
        rest = await in_thread(self._rest, current, left_out)
        [card] = await in_thread(cards_of, replace(current.plan, groups=(current.group,)))
        replacement = rest.groups[0].replacement
        needs_reader = len(rest.snapshot.rows) > 1 and replacement is None
        proposal = None
        if needs_reader:
            selection, first_judge = (current.key, left_out), next(iter(self.judges))
            proposal = self._proposals.get(selection) or await self._ask(
                first_judge, selection, rest
            )
        return ShownGroup(
            card=card,
            left_out=left_out,
            retired=replacement.retired if replacement is not None else (),
            proposal=proposal,
            needs_reader=needs_reader,
            later=current.ids in self._later,
            note=note,
        )

    async def propose(self, key: str, left_out: frozenset[str], by: str) -> None:
        """Ask the judge called `by` about a group, without the members `left_out`.

        Nothing happens if there is no such group or judge.
        """
        planned = self._left.get(key)
        if planned is not None and by in self.judges:
            await self._ask(by, (key, left_out), await in_thread(self._rest, planned, left_out))

    async def _ask(self, by: str, selection: Selection, plan: RoundPlan) -> Proposal:
        [group] = plan.groups
        question = group.question
        if question is None or group.replacement is not None:
            question = Question(group.members, "a person asks", plan.likeness.lowest(group.members))
        asking = Asking(CallBudget(_CALLS), Budget(self._budget_s))
        decision = await self.judges[by].decide(question, asking)
        self._proposals[selection] = Proposal(by, decision)
        return self._proposals[selection]

    # --- answering ---

    async def answer(self, answered: Answered, token: str = "") -> AnswerResult:
        """Apply a person's answer, or refuse it.

        `token`: the token of the proposal that the person saw; "" if there was no proposal. If the
        person accepts this proposal but it has changed since, the answer is refused.
        """
        answered = answered.plain
        async with self._one_at_a_time:
            decision = None
            if token and answered.takes_plan:
                proposal = self._proposals.get((answered.key, frozenset(answered.left_out)))
                if proposal is None or proposal.token != token or proposal.decision.pending:
                    return Refused("the proposal has changed since: look at it again")
                decision = proposal.decision
            outcome = await in_thread(self._answers.give, answered, decision)
            if isinstance(outcome, Given):
                await self._settle(answered, new=not outcome.repeated)
            return outcome

    async def take_back(self) -> DecisionRecord | None:
        """Undo the last answer of this review, and make its group the next one to show.

        Return the undone decision; None if there was no answer.

        Raises: CannotUndo.
        """
        async with self._one_at_a_time:
            record = await in_thread(self._answers.take_back)
            self._given = 0 if record is None else self._given - 1
            if record is not None:
                await in_thread(self._after_undo, [record])
                ids = frozenset(record.members)
                self._later.discard(ids)
                self._answered -= not record.left_for_later
                self._left = {key: v for key, v in self._left.items() if not v.ids <= ids}
                self._put_first(await in_thread(self._live_group, ids))
            return record

    async def undo(self, number: int) -> None:
        """Undo a decision and plan all groups again.

        From then on, no batch will merge the memories that the decision had merged.

        Raises: CannotUndo.
        """
        async with self._one_at_a_time:
            await in_thread(self._after_undo, await in_thread(self.store.undo, number))
            await self.look()

    # --- inside ---

    def _after_undo(self, undone: Sequence[DecisionRecord]) -> None:
        if problem := self._follow_undo(undone):
            logger.warning("%s", problem)

    def _current(self, planned: PlannedGroup) -> tuple[PlannedGroup | None, str]:
        current = self._live_group(planned.ids)
        if current is not None and current.key == planned.key:
            return planned, ""
        shown = ((member.id, content_hash(member.content)) for member in planned.group.members)
        now = self.read(lambda reader: snapshot_of(reader, sorted(planned.ids)))
        why = "; ".join(changes_since(shown, now)) or "a person keeps some of these apart"
        return current, f"{why}: this is the group as it is now"

    def _live_group(self, ids: frozenset[str]) -> PlannedGroup | None:
        """Return the live memories among `ids` as a group; None if fewer than two can be merged.

        If a person called two of them distinct, the planner forms groups that do not contain
        both. Only the first of these groups is returned.
        """
        snapshot = self._live_snapshot(ids)
        if apart := self._kept_apart(snapshot.rows):
            planner = Planner(self.store.scope_of, PlanSettings(self._rules, self.store.scale))
            plan = planner.plan(replace(snapshot, distinct=apart, ancestors=dict.fromkeys(ids, ())))
            return PlannedGroup(plan.groups[0], plan) if plan.groups else None
        plan = plan_again(snapshot, self._rules, self.store.scale)
        return PlannedGroup(plan.groups[0], plan) if len(plan.snapshot.rows) > 1 else None

    def _rest(self, planned: PlannedGroup, left_out: frozenset[str]) -> RoundPlan:
        return plan_again(
            self._live_snapshot(planned.ids - left_out), self._rules, self.store.scale
        )

    def _live_snapshot(self, ids: frozenset[str]) -> Snapshot:
        snapshot = self.read(lambda reader: snapshot_of(reader, sorted(ids)))
        return only(snapshot, {row.memory.id for row in snapshot.rows if row.live})

    def _kept_apart(self, rows: Sequence[Row]) -> frozenset[TextPair]:
        keys = [(self.store.scope_of(row.memory), row.dated_key) for row in rows]
        distinct = self.read(lambda reader: reader.distinct.of_all(keys, (PERSON,)))
        return frozenset(
            (scope.key, min(key, other), max(key, other))
            for (n, (scope, key)), (_, (_, other)) in combinations(enumerate(keys), 2)
            if other in distinct[n]
        )

    async def _settle(self, answered: Answered, *, new: bool) -> None:
        self._given += new
        planned = self._left.pop(answered.key, None)
        ids = frozenset(member.id for member in answered.members)
        if answered.answer is ReviewAnswer.LATER:
            self._later.add(ids)
            if planned is not None:
                self._left[planned.key] = planned
            return
        self._answered += new
        self._later.discard(ids)
        asks_next = planned is not None and planned.group.replacement and planned.group.question
        if asks_next and answered.takes_plan:
            self._put_first(await in_thread(self._live_group, ids - set(answered.left_out)))

    def _put_first(self, planned: PlannedGroup | None) -> None:
        if planned is not None:
            self._left = {planned.key: planned, **self._left}

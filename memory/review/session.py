"""A review: people answer the groups of a plan one by one, and each answer is applied."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, TypeVar

from memory.decide import (
    MOST_CHARACTERS,
    MOST_ON_PAGE,
    GroupPlan,
    Matching,
    Planner,
    RoundPlan,
    certainty,
    plan_again,
)
from memory.ledger import DecisionRecord, Reader, Row, Snapshot, TextPair, snapshot_of
from memory.models import PERSON, Memory, Rules
from memory.review.answers import (
    AnswerResult,
    Answers,
    Given,
    Proposal,
    Proposals,
    Refused,
    Selection,
    change_since,
    only,
)
from memory.review.cards import Card, card_key, cards_of, content_hash
from memory.review.decisions_file import Answered, ReviewAnswer
from memory.runtime import in_thread
from memory.store import MemoryStore

logger = logging.getLogger(__name__)

T = TypeVar("T")
State = Literal["rules", "judge", "later"]
"""The state of a group that is not answered yet.

`rules`: the rules can settle it; `judge`: a model or a person must decide; `later`: a person
postponed it.
"""


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
    def newest(self) -> Memory:
        return self.group.members[-1]

    @property
    def similarity(self) -> float:
        """The similarity of the two least similar members."""
        parts = (self.group.question, self.group.replacement)
        known = (part.similarity for part in parts if part is not None)
        return min((value for value in known if value is not None), default=1.0)


@dataclass(frozen=True)
class ShownGroup:
    """A group in its present state, with everything that a person needs to decide about it."""

    card: Card
    left_out: frozenset[str] = frozenset()
    retired: tuple[str, ...] = ()
    """The ids of the members that the rules would retire if the members in `left_out` stay."""
    proposal: Proposal | None = None
    """The judge's proposal that the page shows; the answer *Apply* carries it out.

    None unless `needs_reader` is true.
    """
    needs_reader: bool = False
    """Whether a model or a person must decide about the members that are not left out."""
    later: bool = False
    note: str = ""
    """How the group has changed after it was planned, in words; "" if it has not changed."""


@dataclass(frozen=True)
class ReviewProgress:
    """The numbers of groups that people have answered and postponed, and of those left to answer.

    `left` does not include postponed groups.
    """

    answered: int
    left: int
    later: int
    can_go_back: bool
    """Whether an answer of this review can be undone."""


class Review:
    """A review of a store's groups. Several people may answer at the same time."""

    def __init__(
        self,
        store: MemoryStore,
        rules: Rules,
        plan: Callable[[], Awaitable[RoundPlan]],
        proposals: Proposals,
        answers: Answers,
        follow_undo: Callable[[Sequence[DecisionRecord]], str],
        *,
        blind: bool = False,
    ) -> None:
        """Start without groups; call `look` to plan them.

        `plan`: plans the groups of the store as it is now; called without arguments. `proposals`:
        asks judges for proposals. `answers`: applies people's answers. `follow_undo`: called with
        undone decisions, to update other copies of the memories; returns "", or a description of a
        problem, which is logged. `blind`: do not show similarities and the plan.
        """
        self.store = store
        self.blind = blind
        self.proposals = proposals
        self._rules = rules
        self._plan = plan
        self._answers = answers
        self._follow_undo = follow_undo
        self._left: dict[str, PlannedGroup] = {}
        self._later: set[frozenset[str]] = set()
        self._answered = 0
        self._given = 0
        self._revision = -1
        self._one_at_a_time = asyncio.Lock()

    def read(self, look: Callable[[Reader], T]) -> T:
        """Call `look` with a reader of the ledger, in one transaction, and return its result.

        This blocks the thread.
        """
        with self.store.ledger.reading() as reader:
            return look(reader)

    # --- looking ---

    async def look(self) -> None:
        """Plan the groups of the store as it is now, and replace this review's groups with them.

        Call this once before the first group is shown.
        """
        plan = await self._plan()
        records = await in_thread(self.read, lambda reader: reader.decisions.by_person())
        self._later = {frozenset(record.members) for record in records if record.pending}
        self._answered = sum(not record.left_for_later for record in records)
        left = [PlannedGroup(group, plan) for group in plan.groups]
        # The least certain first; in a blind review the order must not show how certain they are.
        left.sort(
            key=lambda planned: (0.0 if self.blind else certainty(planned.group), planned.key)
        )
        self._left = {planned.key: planned for planned in left}
        self._revision = plan.revision

    async def progress(self) -> ReviewProgress:
        later = sum(planned.ids in self._later for planned in self._left.values())
        return ReviewProgress(self._answered, len(self._left) - later, later, self._given > 0)

    async def next_key(self) -> str | None:
        """Return the key of the group to show next; None if no group is left.

        If only postponed groups are left, and the store has changed after they were planned, this
        method first calls `look`.
        """
        if all(planned.ids in self._later for planned in self._left.values()):
            now = await in_thread(self.read, lambda reader: reader.revision())
            if now != self._revision:
                async with self._one_at_a_time:
                    await self.look()
        return next(iter(self.keys()), None)

    def keys(self) -> list[str]:
        """Return the keys of the groups that are not answered yet, the postponed ones last."""
        return sorted(self._left, key=lambda key: self._left[key].ids in self._later)

    def groups(self) -> list[tuple[PlannedGroup, State]]:
        """Return the groups that are not answered yet, with their states; postponed ones last."""
        ordered: list[tuple[PlannedGroup, State]] = []
        for key in self.keys():
            planned = self._left[key]
            state: State = "rules" if planned.group.question is None else "judge"
            ordered.append((planned, "later" if planned.ids in self._later else state))
        return ordered

    def after(self, key: str) -> str | None:
        """Return the key of the group that follows the group `key`; None if no group is left.

        The last group is followed by the first one.
        """
        keys = self.keys()
        following = keys.index(key) + 1 if key in keys else 0
        return keys[following % len(keys)] if keys else None

    async def show(self, key: str, left_out: frozenset[str] = frozenset()) -> ShownGroup | None:
        """Return a group in its present state; None if it was answered or can no longer be merged.

        `key` is the key of the group's card, and `left_out` has the ids of the members that the
        person left out. If the group has changed, its new card has another key. If the rules cannot
        decide about the group, the first judge, which needs no model, is asked for a proposal.
        """
        planned = self._left.get(key)
        if planned is None:
            return None
        current, note = await in_thread(self._current, planned)
        if current is None:
            self._left.pop(key, None)
            return None
        if current is not planned:
            order = ((current.key, current) if k == key else (k, v) for k, v in self._left.items())
            self._left = dict(order)
        rest = await in_thread(self._rest, current, left_out)
        [card] = await in_thread(cards_of, replace(current.plan, groups=(current.group,)))
        replacement = rest.groups[0].replacement
        needs_reader = rest.memories > 1 and replacement is None
        selection = current.key, left_out
        proposal = self.proposals.latest.get(selection) if needs_reader else None
        if needs_reader and proposal is None:
            first_judge = next(iter(self.proposals.judges))
            proposal = await self.proposals.ask(first_judge, selection, rest)
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
        """Ask the judge called `by` about the group `key`, without the members `left_out`.

        The proposal is kept in `proposals.latest`. If the group is gone or there is no such judge,
        nothing is asked. If no member is left out and the group is not private, later groups are
        put into the same question, as many as the model can read at once.
        """
        planned = self._left.get(key)
        if planned is None or by not in self.proposals.judges:
            return
        selection, rest = (key, left_out), await in_thread(self._rest, planned, left_out)
        others = {}
        if not (left_out or planned.newest.is_private):
            others = await in_thread(self._waiting_with, key, planned, by)
        answered = await self.proposals.ask_together(by, {selection: rest, **others})
        if selection not in answered:
            await self.proposals.ask(by, selection, rest)

    def _waiting_with(self, key: str, first: PlannedGroup, by: str) -> dict[Selection, RoundPlan]:
        """Return the plans of later groups to ask about in the same question as the group `first`.

        `key` is the key of `first`. A later group is included if the judge `by` has made no
        proposal about it, if it is in the same scope as `first`, and if it fits into the question.
        """
        found: dict[Selection, RoundPlan] = {}
        members = list(first.group.members)
        scope = self.store.scope_of(members[0])
        most = min(self.proposals.judges[by].model.page_size, MOST_ON_PAGE)
        keys = self.keys()
        for other in keys[keys.index(key) + 1 :]:
            group, selection = self._left[other].group, (other, frozenset[str]())
            known = self.proposals.latest.get(selection)
            asks = group.question is not None and group.replacement is None
            if not asks or (known is not None and known.by == by):
                continue
            together = [*members, *group.members]
            characters = sum(len(member.content) for member in together)
            fits = len(together) <= most and characters <= MOST_CHARACTERS
            if fits and self.store.scope_of(group.members[0]) == scope:
                rest = self._rest(self._left[other], frozenset())
                if rest.memories == len(group.members):
                    found[selection] = rest
                    members = together
        return found

    # --- answering ---

    async def answer(self, answered: Answered, token: str = "") -> AnswerResult:
        """Apply an answer; return the number of the decision, or the reason for a refusal.

        `token` identifies the proposal that the page showed; "" if it showed no proposal.
        """
        answered = answered.plain
        async with self._one_at_a_time:
            decision = None
            if token and answered.takes_plan:
                selection = answered.key, frozenset(answered.left_out)
                proposal = self.proposals.latest.get(selection)
                if proposal is None or proposal.token != token or proposal.failed:
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
        """Undo the decision with this number, and plan all groups again.

        The memories that the decision had merged are recorded as distinct, so that they are not
        merged again.

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
        """Return a group in its present state, and a description of what has changed about it.

        If nothing has changed, return `planned` itself and "". If fewer than two members can still
        be merged, return None in place of the group.
        """
        current = self._live_group(planned.ids)
        if current is not None and current.key == planned.key:
            return planned, ""
        rows = {row.memory.id: row for row in self._snapshot(planned.ids).rows}
        changes = (
            change_since(m.id, content_hash(m.content), rows.get(m.id))
            for m in planned.group.members
        )
        why = "; ".join(filter(None, changes)) or "a person keeps some of these apart"
        return current, f"{why}: this is the group as it is now"

    def _live_group(self, ids: frozenset[str]) -> PlannedGroup | None:
        """Return a group of the memories with the ids `ids`; None if fewer than two can be merged.

        Only live memories are in the group. Two memories that a person called distinct are never in
        the same group. If this divides the memories into several groups, only the first group is
        returned; the next call of `look` finds the other groups.
        """
        snapshot = self._snapshot(ids, live=True)
        apart = frozenset(self.read(lambda reader: self._kept_apart(reader, snapshot.rows)))
        if apart:
            known = replace(snapshot, distinct=apart, ancestors=dict.fromkeys(ids, ()))
            matching = Matching(self.store.scale)
            plan = Planner(self._rules, self.store.scope_of, matching).plan(known)
            return PlannedGroup(plan.groups[0], plan) if plan.groups else None
        plan = plan_again(snapshot, self._rules, self.store.scale)
        return PlannedGroup(plan.groups[0], plan) if plan.memories > 1 else None

    def _rest(self, planned: PlannedGroup, left_out: frozenset[str]) -> RoundPlan:
        rest = self._snapshot(planned.ids - left_out, live=True)
        return plan_again(rest, self._rules, self.store.scale)

    def _snapshot(self, ids: frozenset[str], *, live: bool = False) -> Snapshot:
        snapshot = self.read(lambda reader: snapshot_of(reader, sorted(ids)))
        return only(snapshot, {row.memory.id for row in snapshot.rows if row.live or not live})

    def _kept_apart(self, reader: Reader, rows: Sequence[Row]) -> list[TextPair]:
        """Return the pairs of texts, among the texts of `rows`, that a person called distinct.

        Each pair is a triple: the scope's key, and the two text keys in ascending order.
        """
        keys = [(self.store.scope_of(row.memory), row.text_key) for row in rows]
        distinct = reader.distinct.of_all(keys, (PERSON,))
        return [
            (scope.key, min(key, other), max(key, other))
            for (n, (scope, key)), (_, (_, other)) in combinations(enumerate(keys), 2)
            if other in distinct[n]
        ]

    async def _settle(self, answered: Answered, *, new: bool) -> None:
        """Remove an answered group from the groups that are left, or mark it as postponed.

        `new`: whether a person gives this answer for the first time; only then is it counted. If
        the rules' plan was applied and some members still need a decision, these members become the
        next group.
        """
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

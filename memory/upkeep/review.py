"""A review: people answer the groups of a plan one by one, and each answer is applied."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import NamedTuple, TypeVar

from memory.decide import (
    GroupPlan,
    Planner,
    PlanSettings,
    RoundPlan,
    certainty,
    plan_again,
)
from memory.deduplicator import Audit
from memory.errors import InputError, MemoryNotFound
from memory.ledger import DecisionRecord, Reader, snapshot_of
from memory.models import PERSON, Decision, Question, Row, Rules, Snapshot, TextPair
from memory.runtime import in_thread
from memory.store import Holds, MemoryStore, Suspect, answer, suspects
from memory.upkeep.answers import (
    Answered,
    AnswerResult,
    Answers,
    Given,
    Refused,
    ReviewAnswer,
    changes_since,
    only,
)
from memory.upkeep.cards import (
    Card,
    MemoryHistory,
    card_key,
    cards_of,
    content_hash,
    memory_history,
    open_card,
    question_cards,
    recorded_cards,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

Selection = tuple[str, frozenset[str]]  # the key of a group's card, and the ids left out of it


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


@dataclass(frozen=True)
class ShownGroup:
    """A group in its present state, without the members that a person left out.

    `retired`: the ids of the members that the rules would retire. `needs_reader`: whether a model
    or a person must decide. `proposal`: None if `needs_reader` is False. `note`: what has changed
    since the group was planned or last shown, or "".

    >>> copies = [store.new_memory(text, user="Ben") for text in ("I row.", "I row!")]
    >>> count = store.add_batch(copies)
    >>> review = build_review(store, config, model)
    >>> await review.look()
    >>> shown = await review.show(review.keys()[0])
    >>> shown.needs_reader, len(shown.retired)
    (True, 0)
    """

    card: Card
    retired: tuple[str, ...]
    proposal: Proposal | None
    needs_reader: bool
    note: str


class ReviewProgress(NamedTuple):
    """The number of groups answered, still to be answered (`left`), and postponed (`later`).

    `last`: the number of this review's last answer that is not undone; None if there is none.
    """

    answered: int
    left: int
    later: int
    last: int | None


class Review:
    """A review of a store's groups of near-copies. Several people may answer at the same time.

    >>> cats = [store.new_memory(f"Dee has {n} cats.", user="Dee") for n in (2, 3)]
    >>> count = store.add_batch(cats)
    >>> review = build_review(store, config, model)
    >>> await review.look()
    >>> [card.reason for card in await review.cards(9) if card.user == "Dee"]
    ['similarity between 0.90 and 0.95']
    """

    def __init__(
        self,
        store: MemoryStore,
        rules: Rules,
        audit: Callable[[], Awaitable[Audit]],
        judges: Mapping[str, Callable[[Question], Awaitable[Decision]]],
        answers: Answers,
        follow_undo: Callable[[Sequence[DecisionRecord]], str],
        *,
        blind: bool = False,
    ) -> None:
        """Start without groups; call `look` to plan them.

        `audit`: plans the groups of the store. `judges`: what asks a judge, by its name; the first
        must need no model. `follow_undo`: receives undone
        decisions, and updates the agent's files; returns an error message to log, or "". `blind`:
        whether people answer without seeing similarities, plans and proposals.
        """
        self.store = store
        self.blind = blind
        self.judges = judges
        self._proposals: dict[Selection, Proposal] = {}
        self._rules = rules
        self._audit = audit
        self._answers = answers
        self._follow_undo = follow_undo
        self._left: dict[str, PlannedGroup] = {}
        self._later: set[frozenset[str]] = set()
        self._answered = 0
        self._given: dict[int, frozenset[str]] = {}  # own answers: the members of their groups
        self._revision = -1
        self._one_at_a_time = asyncio.Lock()

    # --- other pages ---

    def questions(self, most: int) -> tuple[list[Card], int]:
        """Return the cards of at most `most` open questions of each kind, and their number."""
        return self._read(lambda reader: question_cards(reader, most))

    def history(self, most: int, below: int | None = None) -> list[Card]:
        """Return the cards of the latest decisions, newest first.

        `below`: only those with a lower number.
        """
        return self._read(
            lambda reader: recorded_cards(reader, reader.decisions.latest(most, below))[::-1]
        )

    def memory(self, memory_id: str) -> MemoryHistory | None:
        return self._read(lambda reader: memory_history(reader, memory_id))

    def conflicts(self) -> list[Card]:
        """Return a card for each pair of memories of which the older one may be outdated."""
        why = "the newer one may say what holds now"
        return [open_card(pair, "conflict", why) for pair in suspects(self.store)]

    async def answer_conflict(
        self, older_id: str, newer_id: str, holds: Holds, *, insist: bool = False
    ) -> AnswerResult:
        """Record which memory of a pair holds now.

        `insist`: retire the other one even if it states more. Without it, that is refused.
        """
        async with self._one_at_a_time:
            found = await in_thread(self._pair, older_id, newer_id)
            if found is None:
                return Refused("one of the two was retired or forgotten since")
            try:
                done = await in_thread(partial(answer, self.store, found, holds, force=insist))
            except InputError as exc:
                return Refused(exc.problem, may_insist=not insist)
            except MemoryNotFound as exc:
                return Refused(str(exc))
            self._given[done.number] = frozenset()
            return Given(done.number)

    def _pair(self, older_id: str, newer_id: str) -> Suspect | None:
        older, newer = self.store.get(older_id), self.store.get(newer_id)
        return Suspect(older, newer) if older is not None and newer is not None else None

    def _read(self, look: Callable[[Reader], T]) -> T:
        with self.store.ledger.reading() as reader:
            return look(reader)

    # --- looking ---

    async def look(self) -> None:
        """Plan the groups of the store as it is now. Call this before the first group is shown."""
        plan = (await self._audit()).plan
        records = await in_thread(self._read, lambda reader: reader.decisions.by_person())
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
        last = next(reversed(self._given), None)
        return ReviewProgress(self._answered, len(self._left) - later, later, last)

    async def cards(self, most: int) -> list[Card]:
        """Return the cards of the first `most` groups that are left; postponed groups come last.

        If only postponed groups are left and the store has changed, the groups are planned again.
        """
        waits = all(planned.ids in self._later for planned in self._left.values())
        if waits and await in_thread(self._read, Reader.revision) != self._revision:
            async with self._one_at_a_time:
                await self.look()
        left = [self._left[key] for key in self.keys()[:most]]
        return await in_thread(self._cards, left)

    def _cards(self, left: Sequence[PlannedGroup]) -> list[Card]:
        by_plan: dict[int, list[PlannedGroup]] = {}
        for planned in left:
            by_plan.setdefault(id(planned.plan), []).append(planned)
        found: dict[str, Card] = {}
        for some in by_plan.values():
            groups = tuple(planned.group for planned in some)
            found |= {card.key: card for card in cards_of(replace(some[0].plan, groups=groups))}
        later = {"action": "later"}
        return [
            found[one.key].model_copy(update=later if one.ids in self._later else None)
            for one in left
        ]

    def keys(self) -> list[str]:
        """Return the keys of the groups that are left, in the order in which they are shown."""
        return sorted(self._left, key=lambda key: self._left[key].ids in self._later)

    async def follow_ups(self, answered: Answered) -> list[Card]:
        """Return the cards of other groups with members of the group that was answered."""
        ids = {member.id for member in answered.members}
        left = [
            planned
            for key, planned in self._left.items()
            if key != answered.key and planned.ids & ids
        ]
        return await in_thread(self._cards, left)

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
        [card] = await in_thread(self._cards, [current])
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
            retired=replacement.retired if replacement is not None else (),
            proposal=proposal,
            needs_reader=needs_reader,
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
        self._proposals[selection] = Proposal(by, await self.judges[by](question))
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
                await self._settle(answered, outcome)
            return outcome

    async def undo(self, number: int, *, reopen: bool = False) -> None:
        """Undo a decision.

        `reopen`: the group is asked about again, if the decision is an answer of this review.
        Otherwise, all groups are planned again, and no batch will merge these memories any more.

        Raises: CannotUndo.
        """
        async with self._one_at_a_time:
            undo = partial(self.store.undo, number, keep_apart=not reopen)
            undone = await in_thread(undo)
            if problem := await in_thread(self._follow_undo, undone):
                logger.warning("%s", problem)
            ids = self._given.pop(number, None)
            if not reopen or ids is None:
                await self.look()
            elif ids:
                self._later.discard(ids)
                self._answered -= sum(not record.left_for_later for record in undone)
                self._left = {key: v for key, v in self._left.items() if not v.ids <= ids}
                self._put_first(await in_thread(self._live_group, ids))

    # --- inside ---

    def _current(self, planned: PlannedGroup) -> tuple[PlannedGroup | None, str]:
        current = self._live_group(planned.ids)
        if current is not None and current.key == planned.key:
            return planned, ""
        shown = ((member.id, content_hash(member.content)) for member in planned.group.members)
        now = self._snapshot(planned.ids)
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
        snapshot = self._snapshot(ids)
        return only(snapshot, {row.memory.id for row in snapshot.rows if row.live})

    def _snapshot(self, ids: frozenset[str]) -> Snapshot:
        return self._read(lambda reader: snapshot_of(reader, sorted(ids)))

    def _kept_apart(self, rows: Sequence[Row]) -> frozenset[TextPair]:
        keys = [(self.store.scope_of(row.memory), row.dated_key) for row in rows]
        distinct = self._read(lambda reader: reader.distinct.of_all(keys, (PERSON,)))
        return frozenset(
            (scope.key, min(key, other), max(key, other))
            for (n, (scope, key)), (_, (_, other)) in combinations(enumerate(keys), 2)
            if other in distinct[n]
        )

    async def _settle(self, answered: Answered, given: Given) -> None:
        planned = self._left.pop(answered.key, None)
        ids = frozenset(member.id for member in answered.members)
        if not given.repeated:
            self._given[given.number] = ids
        if answered.answer is ReviewAnswer.LATER:
            self._later.add(ids)
            if planned is not None:
                self._left[planned.key] = planned
            return
        self._answered += not given.repeated
        self._later.discard(ids)
        asks_next = planned is not None and planned.group.replacement and planned.group.question
        if asks_next and answered.takes_plan:
            self._put_first(await in_thread(self._live_group, ids - set(answered.left_out)))

    def _put_first(self, planned: PlannedGroup | None) -> None:
        if planned is not None:
            self._left = {planned.key: planned, **self._left}

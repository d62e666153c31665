"""A review under way: which groups are left, how each stands now, what was answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

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
from memory.errors import ModelError
from memory.ledger import DecisionRecord, Reader, Row, Snapshot, TextPair, snapshot_of
from memory.models import PERSON, Rules
from memory.review.answers import Already, Answers, Given, Outcome, Refused, moved
from memory.review.cards import Card, card_key, content_hash, planned_card
from memory.review.decisions_file import Answer, Answered
from memory.review.proposals import Place, Proposal, Proposals
from memory.runtime import in_thread
from memory.store import MemoryStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Planned:
    """One group of a plan."""

    group: GroupPlan
    plan: RoundPlan

    @property
    def key(self) -> str:
        return card_key((one.id, content_hash(one.content)) for one in self.group.members)

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(member.id for member in self.group.members)


@dataclass(frozen=True)
class Shown:
    """A group as it stands now, with what can be said of it."""

    card: Card
    left_out: frozenset[str] = frozenset()
    retired: tuple[str, ...] = ()
    """Who goes, of those that are not left out, where the rules can tell."""
    proposal: Proposal | None = None
    """What would be applied to those that are not left out, where the rules alone cannot tell."""
    needs_reader: bool = False
    """Whether the rules alone cannot tell what becomes of those that are not left out."""
    later: bool = False
    note: str = ""
    """What has changed since it was shown, if anything."""


State = Literal["rules", "judge", "later"]
"""What is left to do: apply the rules, ask who can read, or what was put off."""


@dataclass(frozen=True)
class GroupRow:
    """A group in the list of those that are left."""

    key: str
    content: str
    """Its newest text."""
    user: str | None
    members: int
    similarity: float
    """Of the two members that are least alike."""
    state: State


@dataclass(frozen=True)
class Progress:
    """How many groups were answered, ever, are left, and are among those left for later."""

    answered: int
    left: int
    later: int
    can_go_back: bool
    """Whether an answer was given in this review, and not taken back."""


class Review:
    """The groups of a store, one after the other, for any number of people at once."""

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
        """`plan` plans a round over the store; `blind` hides similarity and plan.

        `follow_undo` hears of what was taken back; what it has to say of that is logged.
        """
        self.store = store
        self.blind = blind
        self.proposals = proposals
        self._rules = rules
        self._plan = plan
        self._answers = answers
        self._follow_undo = follow_undo
        self._left: dict[str, Planned] = {}
        self._later: set[frozenset[str]] = set()
        self._answered = 0
        self._given = 0
        self._at = -1
        self._one_at_a_time = asyncio.Lock()

    # --- looking ---

    async def look(self) -> None:
        """Plan anew, from the store as it is."""
        plan = await self._plan()
        told = await in_thread(self._told)
        self._later = {frozenset(one.members) for one in told if one.pending}
        self._answered = sum(not one.left_for_later for one in told)
        found = [Planned(group, plan) for group in plan.groups]
        found.sort(key=self._order)
        self._left = {one.key: one for one in found}
        self._at = plan.revision

    async def progress(self) -> Progress:
        later = sum(one.ids in self._later for one in self._left.values())
        return Progress(self._answered, len(self._left) - later, later, self._given > 0)

    async def next_key(self) -> str | None:
        """The group to show next: those left for later come last; None where none is left.

        At the end, where the store has changed since it was looked at, it is looked at again.
        """
        if self._all_later() and await in_thread(self._revision) != self._at:
            async with self._one_at_a_time:
                await self.look()
        return next(iter(self.keys()), None)

    def keys(self) -> list[str]:
        """Those that are left, in order; those left for later last."""
        return sorted(self._left, key=lambda key: self._left[key].ids in self._later)

    def rows(self) -> list[GroupRow]:
        """The groups that are left, in the order of `keys`."""
        return [self._row(key, self._left[key]) for key in self.keys()]

    def _row(self, key: str, one: Planned) -> GroupRow:
        question, replacement = one.group.question, one.group.replacement
        alike = [part.similarity for part in (question, replacement) if part is not None]
        newest = one.group.members[-1]
        state: State = "rules" if question is None else "judge"
        return GroupRow(
            key=key,
            content=newest.content,
            user=newest.user,
            members=len(one.group.members),
            similarity=min((value for value in alike if value is not None), default=1.0),
            state="later" if one.ids in self._later else state,
        )

    def after(self, key: str) -> str | None:
        """The group behind this one, from the first again behind the last."""
        keys = self.keys()
        if key not in keys:
            return next(iter(keys), None)
        return keys[(keys.index(key) + 1) % len(keys)]

    async def show(self, key: str, left_out: frozenset[str] = frozenset()) -> Shown | None:
        """A group as it is now, under another key where it has changed; None where it is no more.

        Where a reader is needed, what the judge that costs nothing proposes is with it.
        """
        one = self._left.get(key)
        if one is None:
            return None
        now, note = await in_thread(self._now, one)
        if now is None:
            self._left.pop(key, None)
            return None
        if now is not one:
            order = ((now.key, now) if k == key else (k, v) for k, v in self._left.items())
            self._left = dict(order)
        rest = await in_thread(self._rest, now, left_out)
        replacement = rest.groups[0].replacement
        needs_reader = rest.memories > 1 and replacement is None
        return Shown(
            card=await in_thread(planned_card, now.group, now.plan),
            left_out=left_out,
            retired=replacement.retired if replacement is not None else (),
            proposal=await self._proposed((now.key, left_out), rest) if needs_reader else None,
            needs_reader=needs_reader,
            later=now.ids in self._later,
            note=note,
        )

    async def _proposed(self, place: Place, rest: RoundPlan) -> Proposal:
        """What was proposed last, else what the judge that costs nothing says."""
        known = self.proposals.latest(place)
        return known or await self.proposals.ask(self.proposals.judges[0], place, rest)

    async def propose(self, key: str, left_out: frozenset[str], by: str) -> None:
        """Ask a judge about those of a group that are not left out.

        A model that reads pages is shown with a whole group those after it that wait for a
        proposal, as many as fit: one call for many groups.
        """
        one = self._left.get(key)
        if one is None or by not in self.proposals.judges:
            return
        place, rest = (key, left_out), await in_thread(self._rest, one, left_out)
        others = {} if left_out else await in_thread(self._waiting_with, key, one, by)
        answered: set[Place] = set()
        if others:
            try:
                answered = await self.proposals.ask_together(by, {place: rest, **others})
            except ModelError as exc:
                logger.warning("several groups could not be asked together: %s", exc)
        if place not in answered:
            await self.proposals.ask(by, place, rest)

    def _waiting_with(self, key: str, first: Planned, by: str) -> dict[Place, RoundPlan]:
        """Return the groups of the same scope that fit on a page with one; none if private."""
        members = first.group.members
        scope, found = self.store.scope_of(members[0]), dict[Place, RoundPlan]()
        room = min(self.proposals.page_size(by), MOST_ON_PAGE) - len(members)
        characters = MOST_CHARACTERS - sum(len(member.content) for member in members)
        if members[0].is_private:
            return {}
        keys = self.keys()
        for other in keys[keys.index(key) + 1 :]:
            place, group = (other, frozenset[str]()), self._left[other].group
            size = sum(len(member.content) for member in group.members)
            if len(group.members) > room or size > characters:
                continue
            if group.question is None or group.replacement or self.proposals.has_asked(by, place):
                continue
            if self.store.scope_of(group.members[0]) != scope:
                continue
            rest = self._rest(self._left[other], place[1])
            if rest.memories == len(group.members):
                found[place] = rest
                room -= len(group.members)
                characters -= size
        return found

    # --- answering ---

    async def answer(self, answered: Answered, token: str = "") -> Outcome:
        """Give one answer; `token` names the proposal that was shown, where one is applied."""
        answered = answered.plain
        async with self._one_at_a_time:
            decision = None
            if token and answered.takes_plan:
                proposal = self.proposals.latest((answered.key, frozenset(answered.left_out)))
                if proposal is None or proposal.token != token or proposal.failed:
                    return Refused("the proposal is another one now: look at it again")
                decision = proposal.decision
            outcome = await in_thread(self._answers.give, answered, decision)
            if isinstance(outcome, (Given, Already)):
                await self._settled(answered, new=isinstance(outcome, Given))
            return outcome

    async def take_back(self) -> DecisionRecord | None:
        """Undo the last answer and show its group again.

        Raises: CannotUndo.
        """
        async with self._one_at_a_time:
            record = await in_thread(self._answers.take_back)
            self._given = 0 if record is None else self._given - 1
            if record is not None:
                await in_thread(self._followed, [record])
                ids = frozenset(record.members)
                self._later.discard(ids)
                self._answered -= not record.left_for_later
                self._left = {key: v for key, v in self._left.items() if not v.ids <= ids}
                self._put_first(await in_thread(self._alive, ids))
            return record

    async def undo(self, number: int) -> None:
        """Take back any decision; its members are kept apart.

        Raises: CannotUndo.
        """
        async with self._one_at_a_time:
            await in_thread(self._followed, await in_thread(self.store.undo, number))
            await self.look()

    # --- inside ---

    def _followed(self, undone: Sequence[DecisionRecord]) -> None:
        if problem := self._follow_undo(undone):
            logger.warning("%s", problem)

    def _all_later(self) -> bool:
        return all(one.ids in self._later for one in self._left.values())

    def _order(self, one: Planned) -> tuple[float, str]:
        """Least certain first; where nobody is to see that, as the keys fall."""
        return (0.0 if self.blind else certainty(one.group)), one.key

    def _told(self) -> list[DecisionRecord]:
        with self.store.ledger.reading() as reader:
            return reader.decisions.by_person()

    def _revision(self) -> int:
        with self.store.ledger.reading() as reader:
            return reader.revision()

    def _now(self, one: Planned) -> tuple[Planned | None, str]:
        """The same where nothing moved, else what is left of it, and what moved."""
        now = self._alive(one.ids)
        if now is not None and now.key == one.key:
            return one, ""
        return now, f"{self._moved(one)}: here it is as it is now"

    def _moved(self, one: Planned) -> str:
        rows = {row.memory.id: row for row in self._snapshot(one.ids)[0].rows}
        told = (moved(m.id, content_hash(m.content), rows.get(m.id)) for m in one.group.members)
        return "; ".join(filter(None, told)) or "a person keeps some of these apart"

    def _alive(self, ids: frozenset[str]) -> Planned | None:
        """Those that are live, and that no person keeps apart, as a group; None where it is none.

        Where a person has parted them into several groups, the first: the others are found when
        the store is looked at again.
        """
        snapshot, apart = self._snapshot(ids)
        snapshot = _living(snapshot)
        if apart:
            known = replace(snapshot, distinct=apart, ancestors=dict.fromkeys(ids, ()))
            matching = Matching(self.store.scale)
            plan = Planner(self._rules, self.store.scope_of, matching).plan(known)
            return Planned(plan.groups[0], plan) if plan.groups else None
        plan = plan_again(snapshot, self._rules, self.store.scale)
        return Planned(plan.groups[0], plan) if plan.memories > 1 else None

    def _rest(self, one: Planned, left_out: frozenset[str]) -> RoundPlan:
        rest = _living(self._snapshot(one.ids - left_out)[0])
        return plan_again(rest, self._rules, self.store.scale)

    def _snapshot(self, ids: frozenset[str]) -> tuple[Snapshot, frozenset[TextPair]]:
        """These memories, live or not, and the pairs of their texts that a person keeps apart."""
        with self.store.ledger.reading() as reader:
            snapshot = snapshot_of(reader, sorted(ids))
            return snapshot, frozenset(self._kept_apart(reader, snapshot.rows))

    def _kept_apart(self, reader: Reader, rows: Sequence[Row]) -> Iterator[TextPair]:
        alive = [row for row in rows if row.live]
        places = [(self.store.scope_of(row.memory), row.text_key) for row in alive]
        told = reader.distinct.of_all(places, (PERSON,))
        for (n, (scope, key)), (_, (_, other)) in combinations(enumerate(places), 2):
            if other in told[n]:
                yield scope.key, min(key, other), max(key, other)

    async def _settled(self, answered: Answered, *, new: bool) -> None:
        """The group leaves the row; what only a reader could tell of it comes in its place."""
        self._given += new
        one = self._left.pop(answered.key, None)
        ids = frozenset(member.id for member in answered.members)
        if answered.answer is Answer.LATER:
            self._later.add(ids)
            if one is not None:
                self._left[one.key] = one
            return
        self._answered += new
        self._later.discard(ids)
        asks_next = one is not None and one.group.replacement and one.group.question
        if asks_next and answered.takes_plan:
            rest = await in_thread(self._alive, ids - set(answered.left_out))
            self._put_first(rest)

    def _put_first(self, one: Planned | None) -> None:
        if one is not None:
            self._left = {one.key: one, **self._left}


def _living(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, rows=tuple(row for row in snapshot.rows if row.live))

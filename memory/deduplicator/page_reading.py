"""Show the pages of one scope to a model, check the merged texts, and apply the decisions."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TypeVar

from memory.decide import Account, Apart, PagePlan, Part, connected, objection, successions
from memory.deduplicator.judging import Judging, any_pair, left_open, log_merges, merge_texts
from memory.errors import CallsSpent, ModelAnswerError, ModelError
from memory.models import (
    MOST_READ,
    Action,
    Decision,
    Judge,
    Memory,
    Question,
    Scope,
    Snapshot,
    Succession,
    Usage,
)
from memory.providers import Asking, CallBudget
from memory.runtime import in_thread_if_long

logger = logging.getLogger(__name__)

T = TypeVar("T")

_SMALLEST = 8
_SHARED = "groups of two pages share a memory: name it in one group, with one text for all of that"


class KeptApart:
    """Finds out whether a person or a model has judged memories of one scope to be different.

    Call an instance with a sequence of memories. The result is "person" if a person has judged two
    of them to be different, else "model" if a model has, else None. A person's verdict about a text
    also counts for a memory that has replaced this text or was merged from it.
    """

    def __init__(self, scope: Scope, snapshot: Snapshot) -> None:
        self._by_person, self._judged = (
            {(low, high) for key, low, high in pairs if key == scope.key}
            for pairs in (snapshot.kept_apart, snapshot.judged)
        )
        self._stands_for = {name: set(keys) for name, keys in snapshot.stands_for.items()}

    def __call__(self, members: Sequence[Memory]) -> Judge | None:
        if self._by_person and any_pair(map(self._texts, members), self._by_person):
            return "person"
        texts = ({member.dated_key} for member in members)
        return "model" if self._judged and any_pair(texts, self._judged) else None

    def joined(self, decision: Decision) -> None:
        """Let a person's verdicts about the members of a decision count for its survivors, too."""
        for survivor in decision.survivors:
            self._stands_for[survivor.memory.id] = set().union(*map(self._texts, decision.members))

    def _texts(self, memory: Memory) -> set[str]:
        return {memory.dated_key, *self._stands_for.get(memory.id, ())}


@dataclass
class _Page:
    """A page that the model reads, whole or in parts.

    `usage`: the cost of answers that is not yet recorded with a decision. `is_open`: whether the
    page must be read again by a later run, because a call failed. `ended`: what the model named as
    ended by newer memories.
    """

    plan: PagePlan
    usage: Usage = field(default_factory=Usage)
    is_open: bool = False
    ended: list[Succession] = field(default_factory=list)


@dataclass(eq=False)
class _NamedGroup:
    page: _Page
    part: Part

    @property
    def members(self) -> tuple[Memory, ...]:
        return self.part.merge.members


@dataclass(eq=False)
class ScopeReading:
    """Shows the pages of one scope to a model, and applies the decisions.

    The model reads at most `at_once` pages at the same time. Then the merged texts in all these
    answers are checked together.

    `apply` applies a decision, and returns the live memory that now states what the newest member
    stated. It returns None if another write came first. `record` takes the keys (hashes) of texts,
    and writes to the ledger that the model has read these texts.

    `proposes`: whether what would be merged is left pending, with its text, for an agent.

    `arrival`: the position of each memory, by id, if all memories are sorted oldest first. A merged
    memory has the position of its newest original. `left`: the number of pages left unread.
    """

    pages: Sequence[PagePlan]
    judging: Judging
    calls: CallBudget
    budget_s: float
    concurrency: asyncio.Semaphore
    at_once: int
    apart: Apart
    similarity: Callable[[Sequence[Memory]], float]
    apply: Callable[[Decision], Awaitable[Memory | None]]
    record: Callable[[set[str]], Awaitable[None]]
    arrival: Mapping[str, int]
    account: Account
    proposes: bool = False
    left: int = 0

    def __post_init__(self) -> None:
        # by the id of a memory that this reading has merged: the live memory that it became
        self._living: dict[str, Memory] = {}
        self._made: set[str] = set()
        # Keys of texts that must be read again, even if a later page shows them. Either another
        # write came before the decision about the memory, or its group was dropped because it
        # shares members with a larger group.
        self._unread: set[str] = set()
        self._planned: Counter[str] = Counter()

    async def run(self) -> None:
        for plan in self.pages:
            self._planned.update(await _keys_of(plan.members))
        todo = list(self.pages)
        while todo:
            plans = todo[: self.at_once]
            self._calls = self.calls.part(_calls_for(len(plans)))
            while len(plans) > 1 and _calls_for(len(plans)) > self._calls.left:
                plans.pop()
            pages = [_Page(plan) for plan in plans]
            try:
                parts = (replace(one, members=self._now(one.members)) for one in plans)
                read = map(self._read, pages, parts)
                groups = [group for found in await asyncio.gather(*read) for group in found]
                groups = await self._checked(self._without_overlaps(groups))
                refused = [one for one in groups if one.part.is_refused and not one.part.is_final]
                for group in groups:
                    if group not in refused:
                        await self._settle(group)
                for group in await self._ask_again(refused):
                    await self._settle(group)
                await self._supersede(pages)
                for page in pages:
                    await self._record(page)
                    self.account.step()
            finally:
                self._calls.close()
            del todo[: len(pages)]

    def _oldest_first(self, members: Iterable[Memory]) -> tuple[Memory, ...]:
        return tuple(sorted(members, key=lambda one: (one.timestamp, self.arrival.get(one.id, 0))))

    # --- asking ---

    async def _read(self, page: _Page, part: PagePlan) -> list[_NamedGroup]:
        """Ask about a part of a page; return the groups of memories that the model wants to merge.

        If the answer is cut off or cannot be used, ask about each half of the part instead.
        """
        members = self._oldest_first(part.members)
        if len(members) > 1:
            try:
                return await self._groups(page, replace(part.question, members=members))
            except ModelAnswerError as exc:
                if len(members) > _SMALLEST:
                    logger.warning("a page is halved: %s", exc)
                    middle = len(part.members) // 2
                    first = replace(part, members=part.members[:middle])
                    second = replace(part, members=part.members[middle:])
                    return await self._read(page, first) + await self._read(page, second)
                _log_failure(exc)
                decision = left_open(
                    members,
                    str(exc),
                    self.similarity(members),
                    self.judging.model.name,
                    Usage.of_failure(exc),
                )
                if await self.apply(decision) is None:
                    self._unread |= await _keys_of(members)
            except ModelError as exc:
                _log_failure(exc)
                page.is_open = True
        return []

    async def _groups(
        self, page: _Page, question: Question, refused: Sequence[Part] = ()
    ) -> list[_NamedGroup]:
        verdict, parts = await self._within_limits(
            lambda asking: self.judging.ask(question, asking, self.apart, refused)
        )
        page.ended += successions(question, verdict)
        page.usage += verdict.usage  # not its reason: that may quote members of no group
        groups = [_NamedGroup(page, part) for part in parts if len(part.merge.members) > 1]
        self.account.answered(groups=0 if refused else len(groups), retries=bool(refused))
        return groups

    async def _within_limits(self, ask: Callable[[Asking], Awaitable[T]]) -> T:
        asking = Asking(self._calls, self.budget_s)
        try:
            async with self.concurrency:
                return await ask(asking)
        except ModelError as exc:
            if not isinstance(exc, CallsSpent):
                self.account.failure = str(exc)
            raise
        finally:
            self.account.spend(asking.usage)

    def _without_overlaps(self, groups: Sequence[_NamedGroup]) -> list[_NamedGroup]:
        """Return the groups, changed so that each memory is merged at most once.

        Refused groups are returned unchanged. Other groups that share members are handled together.
        If the largest of them contains all members of the others, only the largest is returned.
        Otherwise, one new group with all their members takes their place. No text was written for
        it, so it is marked as refused. The model is asked once more about refused groups.

        If the new group is larger than a page, it is not made. The old groups are taken one by one,
        the largest first, and a group is kept if it shares no member with the groups kept so far.
        The members of no kept group are marked to be read again.
        """
        kept = {group for group in groups if group.part.is_refused}
        found = [group for group in groups if group not in kept]
        numbered = enumerate([group.part.ids for group in found])
        shared = [(n, m) for (n, a), (m, b) in combinations(numbered, 2) if not a.isdisjoint(b)]
        for component in connected(len(found), shared):
            entangled = sorted((found[n] for n in component), key=lambda one: -len(one.members))
            largest = entangled[0]
            members = {one.id: one for group in entangled for one in group.members}
            if len(members) > self.judging.model.page_size:
                for group in entangled:
                    if members.keys() >= group.part.ids:
                        kept.add(group)
                        members = {
                            name: one for name, one in members.items() if name not in group.part.ids
                        }
                self._unread |= _keys(members.values())
                continue
            if len(members) > len(largest.members):
                sharing = self._oldest_first(members.values())
                largest.part = largest.part.refused(sharing, _SHARED)
            kept.add(largest)
        return [group for group in groups if group in kept]

    async def _checked(self, groups: Sequence[_NamedGroup]) -> list[_NamedGroup]:
        doubtful = [one for one in groups if one.part.is_doubtful]
        batches = (doubtful[n : n + MOST_READ] for n in range(0, len(doubtful), MOST_READ))
        await asyncio.gather(*map(self._check, batches))
        return [one for one in groups if not one.part.is_doubtful]

    async def _check(self, groups: Sequence[_NamedGroup]) -> None:
        parts = [group.part for group in groups]
        try:
            settled = await self._within_limits(lambda asking: self.judging.settle(parts, asking))
        except ModelError as exc:
            _log_failure(exc)
            for group in groups:
                group.page.is_open = True
        else:
            self.account.answered(readings=1)
            for group, part in zip(groups, settled, strict=True):
                group.part = part

    async def _ask_again(self, refused: Sequence[_NamedGroup]) -> list[_NamedGroup]:
        """Ask once more about refused groups, as many in a question as a page may show."""
        settled: list[_NamedGroup] = []
        batches: list[list[_NamedGroup]] = []
        room = 0
        for group in refused:
            members = self._now(group.members)
            if len(members) < 2:  # it was part of another group, which was accepted
                continue
            group.part = replace(group.part, merge=replace(group.part.merge, members=members))
            if len(members) > room:
                batches.append([])
                room = self.judging.model.page_size
            batches[-1].append(group)
            room -= len(members)
        for batch in batches:
            settled += await self._answered_again(batch)
        return settled

    def _now(self, members: Sequence[Memory]) -> tuple[Memory, ...]:
        """Return what the members have become by merges of this reading, each memory once."""
        now: dict[str, Memory] = {}
        for memory in members:
            while self._living.get(memory.id, memory) is not memory:
                memory = self._living[memory.id]
            now[memory.id] = memory
        return tuple(now.values())

    def _shown_again(self, refused: Sequence[_NamedGroup]) -> tuple[Memory, ...]:
        """Return the members of refused groups, and what was merged on the same pages so far."""
        members = {one.id: one for group in refused for one in group.members}
        plans = {id(group.page.plan): group.page.plan for group in refused}.values()
        on_pages = self._now([one for plan in plans for one in plan.members])
        made = {one.id: one for one in on_pages if one.dated_key in self._made}
        most = max(len(members), self.judging.model.page_size)
        return self._oldest_first([*(members | made).values()][:most])

    async def _answered_again(self, refused: list[_NamedGroup]) -> list[_NamedGroup]:
        """Ask once more about refused groups; return the new groups that replace them.

        A refused group is not replaced if no new group has any of its members. The model has then
        judged these members different, so the group is returned as finally refused. If there is no
        usable answer, all refused groups are returned unchanged.
        """
        parts = [group.part for group in refused]
        shown = self._shown_again(refused)
        question = Question(
            shown, "asked once more", 0.0, objection=objection(shown, parts), is_page=True
        )
        page = _Page(refused[0].page.plan)
        try:
            again = await self._groups(page, question, parts)
            again = await self._checked(self._without_overlaps(again))
        except ModelError as exc:
            logger.warning("the judge has no second answer: %s", exc)
            return refused
        if page.is_open:  # the new texts were not read: the questions stay open
            return refused
        named = set[str]().union(*(group.part.ids for group in again))
        apart = [group for group in refused if named.isdisjoint(group.part.ids)]
        for group in apart:
            reason = f"{group.part.reason}; judged different when asked once more"
            group.part = replace(group.part, reason=reason, is_final=True)
        for group in again:
            group.page = refused[0].page
        return apart + again

    # --- what comes of it ---

    async def _settle(self, group: _NamedGroup) -> None:
        page, part = group.page, group.part
        decision = await in_thread_if_long(
            merge_texts(part.merge), self.judging.join, part, self.similarity(group.members)
        )
        decision, page.usage = replace(decision, usage=page.usage), Usage()
        if self.proposes and decision.survivors:
            decision = _proposed(decision, part)
        living = await self.apply(decision)
        if living is None and not part.is_final:
            self._unread |= await _keys_of(group.members)
        elif living is not None and decision.survivors:
            log_merges(decision)
            self._living |= dict.fromkeys(group.part.ids, living)
            self._made.add(living.dated_key)

    async def _supersede(self, pages: Sequence[_Page]) -> None:
        """Supersede what the model named as ended, in the state that the pages' merges left."""
        ended = [one for page in pages for one in page.ended]
        if not ended or self.proposes:
            return
        try:
            decisions = await self._within_limits(
                lambda asking: self.judging.read_ended(ended, asking)
            )
        except ModelError as exc:
            _log_failure(exc)
            for page in pages:
                page.is_open = page.is_open or bool(page.ended)
            return
        self.account.answered(readings=1)
        for decision in decisions:
            living = await self.apply(decision)
            if living is not None and decision.survivors:
                log_merges(decision)
                self._living |= dict.fromkeys(
                    (one.id for one in decision.members if one.id != living.id), living
                )
                self._made.add(living.dated_key)

    async def _record(self, page: _Page) -> None:
        """Record which texts of a page, and which merged texts, the model has read.

        Texts that a later page also shows, or that must be read again, are not recorded yet.
        """
        if page.is_open:
            self.left += 1
            return
        keys = await _keys_of(page.plan.members)
        self._planned.subtract(keys)
        read = {key for key in keys if self._planned[key] <= 0} | self._made
        await self.record(read - self._unread)


def _proposed(decision: Decision, part: Part) -> Decision:
    """Return a decision that keeps all members, and records the text that was to replace them."""
    text = part.refusal.model_copy(update={"by": "the agent", "why": "it was only proposed"})
    return replace(
        decision,
        action=Action.KEEP_BOTH,
        survivors=(),
        pending=True,
        model=None,  # it has answered, so no failure is counted
        verified=None,
        refused=(text,),
    )


def _calls_for(pages: int) -> int:
    return pages + (pages + 1) // 2


def _log_failure(exc: ModelError) -> None:
    if isinstance(exc, CallsSpent):
        logger.info("a page is left for the next run: %s", exc)
    else:
        logger.warning("DEDUP_FAIL: LLM merge failed, falling back to keep both (%s)", exc)


def _keys(members: Iterable[Memory]) -> set[str]:
    return {one.dated_key for one in members}


async def _keys_of(members: Sequence[Memory]) -> set[str]:
    return await in_thread_if_long([one.content for one in members], _keys, members)

"""A whole store: plan a round, settle its groups, plan again what has changed, to the end."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from memory import telemetry
from memory.decide import Account, Chosen, GroupPlan, Matching, Planner, RoundPlan, Work
from memory.ledger import DecisionRecord, Lineage, Reader, Snapshot, TextPair
from memory.models import (
    OFFLINE,
    Decision,
    DeduplicationReport,
    Price,
    Question,
    Rules,
    Usage,
)
from memory.providers import CallBudget, estimated
from memory.store import (
    Applied,
    Asker,
    Conflict,
    Gathering,
    MemoryStore,
    WhileMergeable,
    close_pending,
    reopen_pending,
)
from memory.text import text_key
from memory.threads import Progress, in_thread, side_by_side

logger = logging.getLogger(__name__)

_JUST_BELOW = 0.05
"""How far below the lower threshold an audit counts pairs."""
_FREE_AT_ONCE = 64
"""Decisions without a model that are under way together, so that they share a transaction."""

OnPlan = Callable[[DeduplicationReport], None]
Ask = Callable[[Question, CallBudget], Awaitable[Decision]]
"""The decision about a question whose call was taken from the budget, which settles it."""


@dataclass(frozen=True)
class BatchSettings:
    """How a batch looks for groups, and how many questions are with the model at once."""

    rules: Rules
    neighbours: int
    concurrency: int
    price: Price | None = None
    work: Work | None = None
    """Where pairs are looked for and groups planned; None is this process."""
    on_compared: Progress | None = None
    """Hears, from a thread, how many texts were compared while pairs are looked for."""


@dataclass(frozen=True, repr=False)  # asyncio writes out what a main task gives back
class Audit:
    """The plan of a round, which can be applied, what it was made from, and what is said of it."""

    plan: RoundPlan
    snapshot: Snapshot
    report: DeduplicationReport


class Batch:
    """One run over a store, or its plan."""

    def __init__(
        self,
        store: MemoryStore,
        asker: Asker,
        settings: BatchSettings,
        ask: Ask,
        calls: CallBudget,
    ) -> None:
        self._store = store
        self._asker = asker
        self._settings = settings
        self._ask = ask
        self._calls = calls
        self._writes = Gathering(store)
        self._snapshot: Snapshot | None = None
        self._planner = self._new_planner(0.0)

    def _new_planner(self, just_below: float) -> Planner:
        own = self._settings
        matching = Matching(self._store.scale, own.neighbours, just_below)
        return Planner(own.rules, self._store.scope_of, matching, own.work, own.on_compared)

    async def audit(self, chosen: Chosen) -> Audit:
        """What the first round would do; the report has only some of its groups."""
        started = time.monotonic()
        self._planner = self._new_planner(_JUST_BELOW)
        account = Account(run="", first=await self._plan(), started=started)
        report = await in_thread(self._planned, account, chosen)
        assert self._snapshot is not None
        return Audit(account.first, self._snapshot, report)

    def _planned(self, account: Account, chosen: Chosen) -> DeduplicationReport:
        """The plan, with what its questions would cost."""
        report = account.planned(self._asker.model, chosen)
        free = self._asker.model == OFFLINE
        cost = Usage() if free else estimated(group.question for group in account.first.groups)
        return report.model_copy(update={"estimated": cost, "money": self._money(cost)})

    def _money(self, usage: Usage) -> float | None:
        return None if self._settings.price is None else self._settings.price.of(usage)

    async def run(
        self,
        on_progress: Progress | None,
        on_plan: OnPlan | None = None,
        *,
        pending_only: bool = False,
    ) -> DeduplicationReport:
        """Do it; with `pending_only`, only what a model could not answer before.

        `on_plan` hears of the first round, and its cost, before anything is asked.
        """
        with telemetry.span("batch") as seen:
            report = await self._run(on_progress, on_plan, pending_only)
            told = {"memories": report.memories, "retired": report.retired}
            seen.set_attributes({**told, "pending": report.pending, "calls": report.usage.calls})
        return report

    async def _run(
        self, on_progress: Progress | None, on_plan: OnPlan | None, pending_only: bool
    ) -> DeduplicationReport:
        started = time.monotonic()
        await in_thread(self._store.embeddings.make_missing)
        reopened = await in_thread(self._reopened)
        among = {name for one in reopened for name in one.members} if pending_only else None
        plan = await self._plan()
        bound_by = self._asker.bound_by
        account = Account(new_run(), plan, among=among, started=started, bound_by=bound_by)
        if on_plan is not None:
            on_plan(await in_thread(self._planned, account, Chosen(0)))
        while todo := account.undecided(plan):
            account.rounds += 1
            await self._settle_all(todo, account, on_progress)
            plan = await self._plan(frozenset(account.apart))
        asked = [one for one in reopened if not account.left_any_of(one.members)]
        await in_thread(close_pending, self._store.ledger, asked)
        report = account.report(plan.memories, self._asker.model)
        return report.model_copy(update={"money": self._money(report.usage)})

    def _reopened(self) -> list[DecisionRecord]:
        store, asker = self._store, self._asker

        def unasked(reader: Reader) -> set[TextPair]:
            told_apart = asker.distinct(reader, store.scope_fields)
            return told_apart | asker.waiting(reader, store.clock())

        return reopen_pending(store.ledger, unasked, store.scope_of, self._calls.most)

    async def _plan(self, apart: frozenset[TextPair] = frozenset()) -> RoundPlan:
        """One round; after the first only what has changed is read and planned."""
        lineage = Lineage.SYNTHESISED if self._settings.rules.guard else Lineage.WHOLE
        read = self._store.snapshot
        self._snapshot = await in_thread(read, self._asker, lineage, self._snapshot)
        snapshot = replace(self._snapshot, distinct=self._snapshot.distinct | apart)
        return await in_thread(self._planner.plan, snapshot)

    # --- a round ---

    async def _settle_all(
        self, groups: Sequence[GroupPlan], account: Account, on_progress: Progress | None
    ) -> None:
        """What costs nothing first, many in a transaction; then the questions side by side."""
        free = [group for group in groups if group.replacement is not None]
        asks = [group for group in groups if group.replacement is None]

        def tell(done: int, _of: int, before: int = 0) -> None:
            if on_progress is not None:
                on_progress(before + done, len(groups))

        async def settle(group: GroupPlan) -> None:
            await self._settle(group, account)

        await side_by_side(settle, free, _FREE_AT_ONCE, tell)
        await side_by_side(
            settle, asks, self._settings.concurrency, lambda done, of: tell(done, of, len(free))
        )

    async def _settle(self, group: GroupPlan, account: Account) -> None:
        """One group, one decision; where a member changed meanwhile, the next round sees it."""
        decision = group.replacement
        if decision is None:
            assert group.question is not None
            if not self._calls.take():
                account.leave(group)
                return
            decision = await self._ask(group.question, self._calls)
            if decision.pending and decision.model is None:
                account.leave(group)  # the model is left alone for now
                return
        condition = WhileMergeable(account.latest.revision, account.bound_by)
        done = await self._writes.apply(decision, condition, account.run)
        account.usage += decision.usage
        if isinstance(done, Applied):
            account.done(group, decision)
            account.apart |= self._told_apart(decision)
        else:
            assert isinstance(done, Conflict)
            logger.info("left for the next round: %s", done.why)
            account.conflict(group)

    def _told_apart(self, decision: Decision) -> set[TextPair]:
        keys = {member.id: text_key(member.content) for member in decision.members}
        scopes = {member.id: self._store.scope_of(member).key for member in decision.members}
        pairs = ((scopes[a], *sorted((keys[a], keys[b]))) for a, b in decision.distinct)
        return {(scope, low, high) for scope, low, high in pairs}


def new_run() -> str:
    """`run_` + 12 hex digits."""
    return "run_" + secrets.token_hex(6)

"""Deduplicate a whole store in rounds: plan, decide, apply, until nothing is left to do."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from memory.decide import (
    Account,
    AskedAgain,
    GroupPlan,
    OnEvent,
    Order,
    PagePlan,
    Planner,
    PlanSettings,
    RoundPlan,
    first_groups,
    without_fallback,
)
from memory.deduplicator.judging import TRIAL, Judging
from memory.deduplicator.page_reading import KeptApart, ScopeReading
from memory.ledger import DecisionRecord, Reader, take_snapshot
from memory.models import (
    MOST_ON_PAGE,
    NEIGHBOURS,
    OFFLINE,
    Condition,
    Decision,
    DeduplicationReport,
    Memory,
    Price,
    Progress,
    Query,
    Scope,
    ScopedText,
    Snapshot,
    Succession,
    TextPair,
    Usage,
)
from memory.providers import Asking, CallBudget, estimated
from memory.runtime import in_thread, in_thread_if_long, side_by_side, telemetry
from memory.store import (
    Asker,
    Conflict,
    MemoryStore,
    RetryPolicy,
    close_pending,
    kept_apart,
    reopen_pending,
)

logger = logging.getLogger(__name__)

_JUST_BELOW = 0.05
"""Width of the similarity band just below the lower threshold in which an audit counts pairs."""

OnPlan = Callable[[DeduplicationReport], None]


@dataclass(frozen=True)
class BatchSettings:
    plan: PlanSettings
    concurrency: int
    budget_s: float
    price: Price | None


@dataclass(frozen=True, repr=False)  # asyncio writes out what a main task gives back
class Audit:
    """The result of a dry run: the plan of the first round, and a report about this plan."""

    plan: RoundPlan
    report: DeduplicationReport


class Batch:
    """Deduplicates a whole store in one run, or only plans the first round of such a run.

    `scope`: only the memories of this scope are deduplicated, and missing vectors are not made. Of
    what the model has not read, only the 48 texts that came last are put on pages.
    `proposes`: pages are read, but no memory is changed; see `MemoryDeduplicator.read_scope`.
    Create a new instance for each run. An instance belongs to one event loop.
    """

    def __init__(
        self,
        store: MemoryStore,
        asker: Asker,
        judging: Judging,
        settings: BatchSettings,
        calls: CallBudget,
        scope: Scope | None = None,
        *,
        proposes: bool = False,
    ) -> None:
        self._store = store
        self._scope = scope
        self._proposes = proposes
        self._asker = asker
        self._judging = judging
        self._ended: list[Succession] = []
        self._settings = settings
        self._calls = calls
        # the task that holds `_turn` applies all of them
        self._waiting: list[tuple[GroupPlan, Decision]] = []
        self._turn = asyncio.Lock()
        self._snapshot: Snapshot | None = None
        # Replacements that rules chose because the model failed to answer the question. They are
        # applied at the end of the round. If no call of the model has succeeded by then, the
        # memories are kept as they are instead.
        self._held: list[tuple[GroupPlan, Decision]] = []
        self._planner = Planner(store.scope_of, settings.plan)
        # keys of unread texts left for a batch over the whole store; None before the first plan
        self._later: frozenset[str] | None = None

    async def audit(self, groups: int | None, order: Order, user: str | None) -> Audit:
        started = time.monotonic()
        settings = replace(self._settings.plan, just_below=_JUST_BELOW)
        self._planner = Planner(self._store.scope_of, settings)
        account = Account("", await self._plan(), started, price=self._settings.price)
        shown = first_groups(account.first.groups, groups, order, user)
        return Audit(account.first, await in_thread(self._planned, account, shown))

    def _planned(self, account: Account, shown: Sequence[GroupPlan]) -> DeduplicationReport:
        report = account.planned(self._asker.model, shown)
        if self._asker.model == OFFLINE:
            return report
        plan, at_once = account.first, self._settings.concurrency
        batches = [
            [page.question for page in pages[n : n + at_once]]
            for pages in plan.pages_by_scope.values()
            for n in range(0, len(pages), at_once)
        ]
        is_trusted = self._judging.passed_trial() if batches else None
        cost = estimated(
            plan.asked,
            batches,
            is_read=is_trusted is not False,
            trial=TRIAL if is_trusted is None else (),
        )
        money = None if account.price is None else account.price.of(cost)
        costs = {"estimated": cost, "estimated_model_calls": cost.calls, "money": money}
        return report.model_copy(update=costs)

    async def run(
        self,
        on_progress: Progress | None = None,
        on_plan: OnPlan | None = None,
        on_event: OnEvent | None = None,
        *,
        pending_only: bool = False,
    ) -> DeduplicationReport:
        """Deduplicate the store in rounds until nothing is left to do; return the report.

        The callbacks are those of `MemoryDeduplicator.deduplicate_all`. `pending_only`: ask only
        the questions that a model failed to answer earlier.
        """
        started, forecast = time.monotonic(), Usage()
        with telemetry.span("batch") as span:
            if self._scope is None:
                await in_thread(self._store.embeddings.make_missing)
            reopened = [] if self._proposes else await in_thread(self._reopened)
            again = AskedAgain(await in_thread(self._texts_of, reopened), pending_only)
            plan = await self._plan(again=again)
            members = {name for record in reopened for name in record.members}
            account = Account(
                new_run(),
                plan,
                started,
                members if pending_only else None,
                on_event,
                on_progress,
                self._settings.price,
            )
            if on_plan is not None:
                planned = await in_thread(self._planned, account, ())
                forecast = planned.estimated
                on_plan(planned)
            plan = await self._rounds(account, plan, again)
            await in_thread(self._record, plan.alone)
            asked = await in_thread(self._asked, reopened, account)
            await in_thread(close_pending, self._store.ledger, asked)
            report = account.report(len(plan.snapshot.rows), self._asker.model)
            span.set_attributes(
                {
                    "memories": report.memories,
                    "retired": report.retired,
                    "pending": report.pending,
                    "calls": report.usage.calls,
                }
            )
        return report.model_copy(update={"estimated": forecast})

    async def _rounds(self, account: Account, plan: RoundPlan, again: AskedAgain) -> RoundPlan:
        """Do what each plan has to do, until nothing is left; return the last plan."""
        while True:
            todo = account.undecided(plan)
            if todo and not self._proposes:
                await self._settle_all(todo, account)
            elif pages := account.unread(plan):
                await self._read_all(pages, account)
                again = AskedAgain(alone=again.alone)
            else:
                return plan
            account.rounds += 1
            # Its answers cost nothing, so it need not wait for those to the first groups.
            every_pair = self._asker.model == OFFLINE
            plan = await self._plan(frozenset(account.apart), again, every_pair=every_pair)

    def _reopened(self) -> list[DecisionRecord]:
        """Return pending decisions, whose questions this run asks again; undo them where possible.

        Pending decisions were made without the model's answer; see `reopen_pending`. If the retry
        policy is `AGAIN`, the model also has to read all texts again.
        """
        store, asker = self._store, self._asker
        if asker.retry is RetryPolicy.AGAIN:
            with store.ledger.writing() as writer:
                writer.readings.drop_all(asker.model)

        def unasked(reader: Reader) -> set[TextPair]:
            return asker.distinct(reader, store.scope_fields) | asker.waiting(reader, store.clock())

        return reopen_pending(store.ledger, unasked, store.scope_of, self._calls.most, self._scope)

    def _texts_of(
        self, questions: Sequence[DecisionRecord]
    ) -> dict[str, tuple[frozenset[str], ...]]:
        """Return, by scope key, the groups of texts that must be shown together on one page.

        Each question makes one group: the keys of the texts of its live memories.
        """
        pages, groups = self._settings.plan.pages, dict[str, list[frozenset[str]]]()
        if pages is None:
            return {}
        with self._store.ledger.reading() as reader:
            for question in questions:
                rows = [row for row in reader.memories.rows(question.members).values() if row.live]
                if rows and (pages.private or not rows[0].memory.is_private):
                    scope = self._store.scope_of(rows[0].memory).key
                    groups.setdefault(scope, []).append(frozenset(row.dated_key for row in rows))
        return {scope: tuple(found) for scope, found in groups.items()}

    def _asked(self, reopened: Sequence[DecisionRecord], account: Account) -> list[DecisionRecord]:
        """Return the reopened decisions that this run has dealt with, to close them.

        A decision is left out if one of its members is in a group or on a page that this run left
        for the next run. If the model reads pages, a decision is also left out until the model was
        shown all its live texts. A single live text need not be shown.
        """
        left = account.unread_ids.union(*account.left)
        return [
            one
            for one in reopened
            if left.isdisjoint(one.members)
            and all(
                len(texts) < 2 or account.shown.issuperset((scope, text) for text in texts)
                for scope, groups in self._texts_of([one]).items()
                for texts in groups
            )
        ]

    def _record(self, texts: Iterable[ScopedText]) -> None:
        pages, texts = self._settings.plan.pages, list(texts)
        if pages is not None and texts:
            with self._store.ledger.writing() as writer:
                writer.readings.record(texts, self._asker.model, thorough=pages.thorough)

    async def _plan(
        self,
        apart: frozenset[TextPair] = frozenset(),
        again: AskedAgain | None = None,
        *,
        every_pair: bool = False,
    ) -> RoundPlan:
        store, asker, whole = self._store, self._asker, not self._settings.plan.rules.guard
        if self._scope is None:
            self._snapshot = snapshot = await in_thread(
                store.snapshot, asker, self._snapshot, whole_lineage=whole
            )
        else:
            snapshot, self._later = await in_thread(
                unread_snapshot, store, asker, self._scope, self._later, whole_lineage=whole
            )
        snapshot = replace(snapshot, distinct=snapshot.distinct | apart)
        return await in_thread(self._planner.plan, snapshot, again, every_pair=every_pair)

    # --- a round ---

    async def _settle_all(self, groups: Sequence[GroupPlan], account: Account) -> None:
        replaced = [(group, group.replacement) for group in groups if group.replacement is not None]
        asked = [group for group in groups if group.replacement is None]
        account.begin("questions" if asked else "rules", len(groups))

        async def settle(group: GroupPlan) -> None:
            await self._settle(group, account)
            account.step()

        for part in self._store.pace.parts(replaced):
            await self._apply(part, account)
            account.step(len(part))
        await side_by_side(settle, asked, self._settings.concurrency)
        await self._apply_waiting(account)
        held, self._held = self._held, []
        if not self._calls.answered:
            held = [(group, without_fallback(decision)) for group, decision in held]
        await self._apply(held, account)
        await self._supersede(account)

    async def _supersede(self, account: Account) -> None:
        """Supersede what the answers of a round named as ended, if a second reading agrees."""
        ended, self._ended = self._ended, []
        asking = Asking(self._calls, self._settings.budget_s)
        decisions = await self._judging.ended(ended, asking)
        account.spend(asking.usage)
        for decision in decisions:
            done = await in_thread(self._store.apply, decision, run=account.run)
            if not isinstance(done, Conflict):
                await self._count([(GroupPlan(decision.members, None, None), decision)], account)

    async def _settle(self, group: GroupPlan, account: Account) -> None:
        assert group.question is not None
        if not self._calls.left:
            account.leave(group)
            return
        asking = Asking(self._calls, self._settings.budget_s)
        decision = await self._judging.decide(group.question, asking)
        account.spend(decision.usage)
        if decision.pending and decision.model is None:
            account.leave(group)  # no call is left, or the model is left alone for now
            return
        if decision.pending and decision.usage.failed:
            account.failure = decision.reason
        if decision.pending and decision.survivors and not self._calls.answered:
            self._held.append((group, decision))
            return
        self._waiting.append((group, decision))
        # Free answers come fast, so many share a transaction; a paid one is applied at once.
        fewest = self._store.pace.size if self._asker.model == OFFLINE else 1
        if len(self._waiting) >= fewest and not self._turn.locked():
            await self._apply_waiting(account)

    async def _apply_waiting(self, account: Account) -> None:
        async with self._turn:
            while self._waiting:
                size = self._store.pace.size
                part, self._waiting = self._waiting[:size], self._waiting[size:]
                await self._apply(part, account)

    async def _apply(self, settled: Sequence[tuple[GroupPlan, Decision]], account: Account) -> None:
        if not settled:
            return
        condition = Condition(account.latest.snapshot.revision, self._asker.bound_by)
        decisions = [replace(decision, condition=condition) for _, decision in settled]
        outcomes = await in_thread(self._store.apply_all, decisions, run=account.run)
        applied = []
        for (group, decision), outcome in zip(settled, outcomes, strict=True):
            if isinstance(outcome, Conflict):
                logger.info("left for the next round: %s", outcome.why)
                account.conflict(group)
            else:
                self._ended += decision.successions
                applied.append((group, decision))
        await self._count(applied, account)

    # --- pages ---

    async def _read_all(self, scopes: Sequence[Sequence[PagePlan]], account: Account) -> None:
        arrival = {row.memory.id: n for n, row in enumerate(account.latest.snapshot.rows)}
        account.begin("pages", sum(map(len, scopes)))
        concurrency = asyncio.Semaphore(self._settings.concurrency)

        async def read(pages: Sequence[PagePlan]) -> None:
            reading = self._reading(pages, account, arrival, concurrency)
            try:
                await reading.run()
            finally:
                account.mark_read(pages, reading.left)

        await side_by_side(read, scopes, self._settings.concurrency)

    def _reading(
        self,
        pages: Sequence[PagePlan],
        account: Account,
        arrival: dict[str, int],
        concurrency: asyncio.Semaphore,
    ) -> ScopeReading:
        scope, plan = pages[0].scope, account.latest
        kept_apart = KeptApart(scope, plan.snapshot)
        condition = Condition(plan.snapshot.revision, self._asker.bound_by)

        async def apply(decision: Decision) -> Memory | None:
            is_merge = decision.condition.revision is None  # not what a newer memory has ended
            if is_merge:
                held = replace(condition, is_answer=bool(decision.survivors))
                decision = replace(decision, condition=held)
            done = await in_thread(self._store.apply, decision, run=account.run)
            if isinstance(done, Conflict):
                logger.info("left for the next round: %s", done.why)
                return None
            await self._count([(GroupPlan(decision.members, None, None), decision)], account)
            if is_merge:
                kept_apart.joined(decision)
                last = max(arrival.get(member.id, 0) for member in decision.members)
                arrival.update((one.memory.id, last) for one in decision.survivors)
            return done.memory

        async def record(keys: set[str]) -> None:
            texts = {(scope.key, key) for key in keys - (self._later or frozenset())}
            await in_thread(self._record, texts)

        return ScopeReading(
            pages,
            judging=self._judging,
            calls=self._calls,
            budget_s=self._settings.budget_s,
            concurrency=concurrency,
            at_once=self._settings.concurrency,
            apart=kept_apart,
            similarity=plan.likeness.lowest,
            apply=apply,
            record=record,
            arrival=arrival,
            account=account,
            proposes=self._proposes,
        )

    async def _count(self, done: Sequence[tuple[GroupPlan, Decision]], account: Account) -> None:
        texts = [member.content for group, _ in done for member in group.members]
        reports = await in_thread_if_long(texts, account.reported, done)
        account.apart |= await in_thread_if_long(texts, self._distinct_pairs, done)
        for (group, decision), report in zip(done, reports, strict=True):
            account.done(group, decision, report)

    def _distinct_pairs(self, done: Sequence[tuple[GroupPlan, Decision]]) -> set[TextPair]:
        found = set[TextPair]()
        for _, decision in done:
            scope = self._store.scope_of(decision.members[0]).key
            keys = {member.id: member.dated_key for member in decision.members}
            pairs = [(keys[a], keys[b]) for a, b in decision.distinct]
            found |= {(scope, min(pair), max(pair)) for pair in pairs}
        return found


def new_run() -> str:
    return "run_" + secrets.token_hex(6)


def unread_snapshot(
    store: MemoryStore,
    asker: Asker,
    scope: Scope,
    later: frozenset[str] | None = None,
    *,
    whole_lineage: bool = False,
) -> tuple[Snapshot, frozenset[str]]:
    """Return the memories of a scope that a model has not read on a page, and their nearest.

    `later`: the `dated_key`s of unread texts that count as read; None means those of all but the 48
    that came last. They are returned, too. `whole_lineage`: see `take_snapshot`.
    """
    with store.ledger.reading(store.clock()) as reader:
        revision = reader.revision()
        keys = reader.readings.unread(asker.model, scope)
        if later is None:
            later = frozenset([*keys.values()][MOST_ON_PAGE:])
        keys = {name: key for name, key in keys.items() if key not in later}
        vectors = reader.vectors.of_dated(keys.values())
    near = store.index.nearest(
        [Query(vector, scope, NEIGHBOURS + 1) for vector in vectors.values()]
    )
    names = {name for name, key in keys.items() if key in vectors}.union(*near)
    of_scope = scope.key
    with store.ledger.reading() as reader:
        apart = {pair for pair in kept_apart(reader, store.scope_fields) if pair[0] == of_scope}
        found = reader.memories.rows(list(names)).values()
        # what was written meanwhile is unread, and not compared yet
        rows = [row for row in found if row.live and row.revision <= revision]
        snapshot = take_snapshot(
            reader,
            reader.distinct.all(asker.bound_by, scope) | apart,
            waiting=asker.waiting(reader, store.clock()),
            kept_apart=apart,
            read={(of_scope, row.dated_key) for row in rows if row.memory.id not in keys},
            whole_lineage=whole_lineage,
            only=rows,
        )
    return snapshot, later

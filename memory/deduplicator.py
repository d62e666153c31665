"""Find, judge, decide, apply: one new memory at a time, or a whole store."""

from __future__ import annotations

import logging
import secrets
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from pydantic import SecretStr

from memory.config import LLMConfig, MemoryConfig
from memory.decide import (
    GroupPlan,
    RoundPlan,
    add,
    after_failure,
    decide_new,
    differences,
    plan_round,
    resolve,
)
from memory.errors import ModelError
from memory.models import (
    Action,
    Decision,
    DeduplicationReport,
    Embedded,
    GroupReport,
    MemberReport,
    Memory,
    Outcome,
    Question,
    SearchResult,
    Usage,
)
from memory.protocols import LanguageModel
from memory.providers import Budget
from memory.store import (
    Anyway,
    Applied,
    Arrival,
    Condition,
    Known,
    MemoryStore,
    UnlessRepeated,
    Unsearched,
    WhileMergeable,
    WhileNearest,
    close_pending,
    reopen_pending,
)
from memory.text import normalise, shortened
from memory.threads import Progress, in_thread, side_by_side

logger = logging.getLogger(__name__)

_MOST_QUESTIONS = 2
"""How often the model is asked about a new memory because others came first."""
_MOST_DECISIONS = 50
"""How often it is decided at all; the last time it is stored whatever came."""
_MOST_ANSWERS = 2
"""How often one question is asked, the second time with what was wrong."""
_OFF = "deduplication is off"
_QUOTED = 60
_EMBED_AT_ONCE = 256


class MemoryDeduplicator:
    """Every new memory goes through `check_and_merge`; `deduplicate_all` cleans a whole store."""

    def __init__(
        self,
        store: MemoryStore,
        model: LanguageModel,
        config: MemoryConfig | None = None,
        *,
        concurrency: int = 4,
        budget_s: float = 60.0,
    ) -> None:
        """`concurrency` is how many questions are with the model at once in a batch.

        `budget_s` is how long one new memory, or one group, may wait for the model in all.
        """
        self._store = store
        self._model = model
        self._config = config or MemoryConfig()
        self._rules = self._config.rules
        self._concurrency = concurrency
        self._budget_s = budget_s

    @classmethod
    def from_api_key(
        cls,
        store: MemoryStore,
        api_key: str,
        model: str = "gemini-3-flash-preview",
        upper_threshold: float = 0.95,
        lower_threshold: float = 0.90,
    ) -> MemoryDeduplicator:
        """A deduplicator with Gemini as judge and everything else as configured by default."""
        from memory.providers import GeminiModel  # 0.4 s that other models do without

        config = MemoryConfig(
            dedup_upper_threshold=upper_threshold, dedup_lower_threshold=lower_threshold
        )
        llm = LLMConfig(model=model)
        return cls(store, GeminiModel(SecretStr(api_key), llm), config, concurrency=llm.concurrency)

    # --- one new memory ---

    async def check_and_merge(self, new_memory: Memory) -> Memory:
        """Decide about a new memory and apply the decision; gives the memory that lives for it.

        That is the new one, or the one that already said it, or a merge of both. Nobody need add
        the result again. A memory that was stored before is not stored twice.

        Raises: LedgerError where nothing could be stored.
        """
        [outcome] = await self.check_and_merge_all([new_memory])
        return outcome.memory

    async def check_and_merge_all(
        self,
        new_memories: Sequence[Memory],
        *,
        run: str | None = None,
        on_progress: Progress | None = None,
    ) -> list[Outcome]:
        """The same for several, in order: each sees those stored just before it."""
        outcomes: list[Outcome] = []
        for start in range(0, len(new_memories), _EMBED_AT_ONCE):
            for new in await self._embedded(new_memories[start : start + _EMBED_AT_ONCE]):
                outcomes.append(await self._write(new, run))
                if on_progress is not None:
                    on_progress(len(outcomes), len(new_memories))
        return outcomes

    async def _embedded(self, some: Sequence[Memory]) -> Sequence[Memory | Embedded]:
        """Several are embedded together; one alone is when it is prepared."""
        if len(some) == 1:
            return some
        return await in_thread(self._store.embeddings.embed, some)

    async def _write(self, new: Memory | Embedded, run: str | None) -> Outcome:
        """Decide and apply; again where others came first, in the end without the model."""
        usage, budget = Usage(), Budget(self._budget_s)
        attempt = 0
        while not isinstance(prepared := await in_thread(self._prepare, new), Known):
            attempt += 1
            if attempt < _MOST_DECISIONS:
                decision, condition = await self._decide(prepared, attempt, budget)
            else:
                decision, condition = _undecided(prepared), Anyway()
            usage += decision.usage
            done = await in_thread(
                self._store.apply, decision, condition, arrival=prepared.new, run=run
            )
            if isinstance(done, Applied):
                return Outcome(done.memory, decision.action, decision.reason, usage)
            logger.info("decided again: %s", done.why)
        return Outcome(prepared.memory, Action.KNOWN, "it arrived before", usage)

    def _prepare(self, new: Memory | Embedded) -> Known | Arrival:
        if self._config.dedup_enabled:
            return self._store.prepare(new, self._config.dedup_candidates, self._rules.lower)
        received = self._store.receive(new)
        if isinstance(received, Known):
            return received
        return Arrival(received, Unsearched(_OFF))

    async def _decide(
        self, arrival: Arrival, attempt: int, budget: Budget
    ) -> tuple[Decision, Condition]:
        """The decision, and what must still hold when it is applied."""
        new, found = arrival.new.memory, arrival.neighbours
        if not self._config.dedup_enabled:
            return add(new, _OFF), Anyway()
        if isinstance(found, Unsearched):
            logger.warning("similarity query failed, storing the memory anyway: %s", found.why)
            reason = f"similarity query failed: {found.why}"
            return add(new, reason, pending=True), UnlessRepeated()
        decision, match = decide_new(new, found.matches, self._rules)
        _log_check(new, match, decision)
        if isinstance(decision, Question):
            asks = attempt <= _MOST_QUESTIONS
            decision = await self._answer(decision, budget) if asks else _undecided(arrival)
        candidates = tuple((hit.memory.id, hit.similarity) for hit in found.matches)
        condition = WhileNearest(found.revision, self._rules.lower)
        return replace(decision, candidates=candidates), condition

    # --- the model ---

    async def _answer(self, question: Question, budget: Budget) -> Decision:
        """What the model's verdict amounts to; after two that cannot be believed, the fallback."""
        usage = Usage()
        for _ in range(_MOST_ANSWERS):
            try:
                verdict = await budget.wait_for(self._model.judge, question)
            except ModelError as exc:
                return self._failed(question, str(exc), usage)
            usage += verdict.usage
            answer = resolve(question, verdict, self._store.new_id, self._model.name)
            if isinstance(answer, Decision):
                _log_merges(answer)
                return replace(answer, usage=usage)
            logger.warning("the model's answer is discarded: %s", answer)
            question = replace(question, objection=answer)
        return self._failed(question, question.objection, usage)

    def _failed(self, question: Question, why: str, usage: Usage) -> Decision:
        fallback = "keep both" if self._rules.on_merge_failure == "keep_both" else "replace"
        decision = after_failure(question, why, self._rules)
        logger.warning(
            "DEDUP_FAIL: LLM merge failed, falling back to %s (%s)", fallback, decision.reason
        )
        return replace(decision, model=self._model.name, usage=usage)

    # --- a whole store ---

    async def deduplicate_all(
        self, dry_run: bool = False, *, on_progress: Progress | None = None
    ) -> DeduplicationReport:
        """Find every group of near-copies and merge it; with `dry_run`, only say what would be.

        What was decided for want of a model is asked again. Rounds of exact pairs, groups and
        decisions follow each other until nothing is left. What was decided stays when it is
        interrupted. A dry run plans the first round, asks no model,
        opens no index and writes nothing.
        """
        if dry_run:
            batch = _Batch(run="", first=await self._plan())
            return batch.report(True, batch.first.memories, self._model.name)
        return await self._run(on_progress, pending_only=False)

    async def retry_pending(self, *, on_progress: Progress | None = None) -> DeduplicationReport:
        """Ask again what the model could not answer when it was asked, and nothing else."""
        return await self._run(on_progress, pending_only=True)

    async def _run(
        self, on_progress: Progress | None, *, pending_only: bool
    ) -> DeduplicationReport:
        await in_thread(self._store.embeddings.make_missing)
        reopened = await in_thread(reopen_pending, self._store.ledger)
        among = {name for one in reopened for name in one.members} if pending_only else None
        batch = _Batch(run=new_run(), first=await self._plan(), among=among)
        plan = batch.first
        while todo := batch.undecided(plan):
            batch.rounds += 1
            await self._settle_all(todo, batch, on_progress)
            plan = await self._plan()
        if reopened:
            await in_thread(close_pending, self._store.ledger, reopened)
        return batch.report(False, plan.memories, self._model.name)

    async def _plan(self) -> RoundPlan:
        snapshot = await in_thread(self._store.snapshot)
        return await in_thread(plan_round, snapshot, self._rules, self._store.scope_of)

    async def _settle_all(
        self, groups: Sequence[GroupPlan], batch: _Batch, on_progress: Progress | None
    ) -> None:
        async def settle(group: GroupPlan) -> None:
            await self._settle(group, batch)

        await side_by_side(settle, groups, self._concurrency, on_progress)

    async def _settle(self, group: GroupPlan, batch: _Batch) -> None:
        """One group, one decision; where a member changed meanwhile, the next round sees it."""
        decision = group.replacement
        if decision is None:
            assert group.question is not None
            decision = await self._answer(group.question, Budget(self._budget_s))
        condition = WhileMergeable(batch.latest.revision)
        done = await in_thread(self._store.apply, decision, condition, run=batch.run)
        batch.usage += decision.usage
        if isinstance(done, Applied):
            batch.done(group, decision)
        else:
            logger.info("left for the next round: %s", done.why)


# --- the account of a run -----------------------------------------------------------------------


@dataclass
class _Batch:
    """What a run has done so far."""

    run: str
    first: RoundPlan
    among: set[str] | None = None
    """Where not None, only the groups with one of these memories are settled."""
    started: float = field(default_factory=time.monotonic)
    rounds: int = 0
    retired: int = 0
    merged: int = 0
    pending: int = 0
    usage: Usage = field(default_factory=Usage)
    actions: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    decided: list[GroupReport] = field(default_factory=list)
    failed: set[frozenset[str]] = field(default_factory=set)
    latest: RoundPlan = field(init=False)

    def undecided(self, plan: RoundPlan) -> list[GroupPlan]:
        """The groups of a round that this run is about, and has not failed at already."""
        self.latest = plan
        wanted = [group for group in plan.groups if _ids(group) not in self.failed]
        if self.among is None:
            return wanted
        return [group for group in wanted if self.among & _ids(group)]

    def done(self, group: GroupPlan, decision: Decision) -> None:
        self.actions[decision.action] += 1
        self.reasons[_kind_of(decision.reason)] += 1
        self.retired += len(decision.retired)
        known = {member.id for member in decision.members}
        self.merged += sum(s.memory.id not in known for s in decision.survivors)
        if self.among is not None:
            self.among |= {survivor.memory.id for survivor in decision.survivors}
        if decision.pending:
            self.pending += 1
            self.failed.add(_ids(group))
        self.decided.append(_decided_report(group, decision, self.latest))

    def report(self, dry_run: bool, after: int, model: str) -> DeduplicationReport:
        planned = [_planned_report(group, self.first) for group in self.first.groups]
        return DeduplicationReport(
            dry_run=dry_run,
            memories=self.first.memories,
            memories_after=after,
            pairs=self.first.pairs,
            rounds=self.rounds,
            groups=tuple(planned if dry_run else self.decided),
            decisions=dict(self.actions),
            reasons=dict(self.reasons),
            retired=self.retired,
            merged=self.merged,
            pending=self.pending,
            usage=self.usage,
            estimated_model_calls=sum(group.needs_model for group in planned),
            model=model,
            seconds=round(time.monotonic() - self.started, 3),
        )


def _undecided(arrival: Arrival) -> Decision:
    return add(arrival.new.memory, "others kept coming first", pending=True)


def new_run() -> str:
    """`run_` + 12 hex digits."""
    return "run_" + secrets.token_hex(6)


def _ids(group: GroupPlan) -> frozenset[str]:
    return frozenset(member.id for member in group.members)


def _kind_of(reason: str) -> str:
    """The general part of a reason, for counting."""
    return reason.partition(":")[0]


def _planned_report(group: GroupPlan, plan: RoundPlan) -> GroupReport:
    retired = group.replacement.retired if group.replacement else ()
    asked = {member.id for member in group.question.members} if group.question else set()
    fates = {member.id: "judge" if member.id in asked else "keep" for member in group.members}
    fates |= dict.fromkeys(retired, "retire")
    steps = [step for step in (group.replacement, group.question) if step is not None]
    names = ["replace"] * (group.replacement is not None) + ["judge"] * (group.question is not None)
    reason = "; then ".join(step.reason for step in steps)
    return _group_report(group, plan, " + ".join(names), reason, fates)


def _decided_report(group: GroupPlan, decision: Decision, plan: RoundPlan) -> GroupReport:
    fates = {member.id: "keep" for member in group.members}
    fates |= dict.fromkeys(decision.retired, "retire")
    return _group_report(group, plan, decision.action.value, decision.reason, fates)


def _group_report(
    group: GroupPlan, plan: RoundPlan, action: str, reason: str, fates: Mapping[str, str]
) -> GroupReport:
    members = group.members
    texts = {normalise(member.content): n for n, member in enumerate(members)}
    return GroupReport(
        user=members[0].user,
        is_private=members[0].is_private,
        action=action,
        reason=reason,
        members=tuple(
            MemberReport(id=m.id, content=m.content, timestamp=m.timestamp, fate=fates[m.id])
            for m in members
        ),
        similarities=tuple(
            (i, j, plan.similarity(members[i], members[j]))
            for i, j in combinations(sorted(texts.values()), 2)
        ),
        differences=differences(members),
        needs_model=group.question is not None,
    )


# --- log lines ----------------------------------------------------------------------------------


def _quote(text: str) -> str:
    return shortened(text, _QUOTED)


def _log_check(new: Memory, match: SearchResult | None, decision: Decision | Question) -> None:
    arrow = "LLM merge"
    if isinstance(decision, Decision):
        arrow = "replace" if decision.action is Action.REPLACE else "add as new"
    closest = f"closest match sim={match.similarity:.2f}" if match else "no match"
    logger.debug(
        'DEDUP_CHECK: "%s" %s -> %s (%s)', _quote(new.content), closest, arrow, decision.reason
    )


def _log_merges(decision: Decision) -> None:
    for survivor in decision.survivors:
        count = len({*survivor.stands_for, survivor.memory.id} & {m.id for m in decision.members})
        logger.info('DEDUP_MERGE: %d memories -> "%s"', count, _quote(survivor.memory.content))

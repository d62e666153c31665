"""Find, judge, decide, apply: one new memory at a time, or a whole store."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import SecretStr

from memory import telemetry
from memory.batch import Audit, Batch, BatchSettings, OnPlan
from memory.config import LLMConfig, MemoryConfig
from memory.decide import (
    FLOOR,
    Chosen,
    Embed,
    RoundPlan,
    add,
    decide_new,
    nominate,
)
from memory.judging import QUOTED, Judging
from memory.ledger import Lease
from memory.models import (
    Action,
    Decision,
    DeduplicationReport,
    Embedded,
    Memory,
    Outcome,
    Price,
    Question,
    SearchResult,
    Usage,
)
from memory.protocols import LanguageModel
from memory.providers import Budget, CallBudget, HourlyCalls
from memory.store import (
    Anyway,
    Applied,
    Arrival,
    Asker,
    Condition,
    Insistence,
    Known,
    MemoryStore,
    UnlessRepeated,
    Unsearched,
    WhileHeld,
    WhileNearest,
    is_like_all_of,
)
from memory.text import shortened
from memory.threads import Progress, in_thread

logger = logging.getLogger(__name__)

_MOST_QUESTIONS = 2
"""How often the model is asked about a new memory because others came first."""
_MOST_DECISIONS = 50
"""How often it is decided at all; the last time it is stored whatever came."""
_MOST_ANSWERS = 2
"""How often one question is asked, the second time with what was wrong."""
_OFF = "deduplication is off"
_HEARSAY = "the nearest stands for a text that this one is not like"
_EMBED_AT_ONCE = 256


@dataclass(frozen=True)
class _Prepared:
    """A new memory with what it resembles, and the one that its words alone suggest."""

    arrival: Arrival
    matches: tuple[SearchResult, ...] = ()
    """Of its neighbours those that it may be decided against."""
    nominated: SearchResult | None = None


class MemoryDeduplicator:
    """Every new memory goes through `check_and_merge`; `deduplicate_all` cleans a whole store."""

    def __init__(
        self,
        store: MemoryStore,
        model: LanguageModel,
        config: MemoryConfig | None = None,
        *,
        words: Embed | None = None,
        concurrency: int = 4,
        budget_s: float = 60.0,
        price: Price | None = None,
    ) -> None:
        """`words` embeds single words; where it is given, words may nominate pairs for the model.

        `concurrency` is how many questions are with the model at once in a batch, `budget_s` how
        long one new memory, or one group, may wait for the model in all.
        """
        self._store = store
        self._model = model
        self._config = config or MemoryConfig()
        self._rules = self._config.rules
        self._concurrency = concurrency
        self._price = price
        self._budget_s = budget_s
        self._words = words
        self._judging = Judging(store, model, self._rules)
        self._hourly = HourlyCalls(self._config.dedup_calls_per_hour)

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
        lease: Lease | None = None,
        on_progress: Progress | None = None,
    ) -> list[Outcome]:
        """The same for several, in order: each sees those stored just before it.

        Raises: LeaseLost where `lease` is not held any more: then nothing more is stored.
        """
        calls = self._hourly if run is None else self._calls(None)
        outcomes: list[Outcome] = []
        for start in range(0, len(new_memories), _EMBED_AT_ONCE):
            for new in await self._embedded(new_memories[start : start + _EMBED_AT_ONCE]):
                with telemetry.span("write") as seen:
                    outcome = await self._write(new, run, calls, lease)
                    seen.set_attribute("kind", outcome.action.value)
                outcomes.append(outcome)
                if on_progress is not None:
                    on_progress(len(outcomes), len(new_memories))
        return outcomes

    async def _embedded(self, some: Sequence[Memory]) -> Sequence[Memory | Embedded]:
        """Several are embedded together; one alone is when it is prepared."""
        if len(some) == 1:
            return some
        return await in_thread(self._store.embeddings.embed, some)

    async def _write(
        self, new: Memory | Embedded, run: str | None, calls: CallBudget, lease: Lease | None
    ) -> Outcome:
        """Decide and apply; again where others came first, in the end without the model."""
        usage, budget = Usage(), Budget(self._budget_s)
        attempt = 0
        while not isinstance(prepared := await in_thread(self._prepare, new), Known):
            attempt += 1
            if attempt < _MOST_DECISIONS:
                decision, condition = await self._decide(prepared, attempt, budget, calls)
            else:
                decision = _undecided(prepared.arrival, "others kept coming first")
                condition = Anyway()
            usage += decision.usage
            condition = condition if lease is None else WhileHeld(lease, condition)
            done = await in_thread(
                self._store.apply, decision, condition, arrival=prepared.arrival.new, run=run
            )
            if isinstance(done, Applied):
                return Outcome(done.memory, decision.action, decision.reason, usage)
            logger.info("decided again: %s", done.why)
        return Outcome(prepared.memory, Action.KNOWN, "it arrived before", usage)

    def _prepare(self, new: Memory | Embedded) -> Known | _Prepared:
        if not self._config.dedup_enabled:
            received = self._store.receive(new)
            if isinstance(received, Known):
                return received
            return _Prepared(Arrival(received, Unsearched(_OFF)))
        floor = self._rules.lower if self._words is None else min(self._rules.lower, FLOOR)
        k = self._config.dedup_candidates
        found = self._store.prepare(new, k, floor, Asker(self._model.name))
        if isinstance(found, Known):
            return found
        return _Prepared(found, self._cohesive(found), self._nominated(found))

    def _nominated(self, arrival: Arrival) -> SearchResult | None:
        """The one that its words suggest, where none is similar enough."""
        if self._words is None or isinstance(arrival.neighbours, Unsearched):
            return None
        return nominate(
            arrival.new.memory, arrival.neighbours.matches, self._rules.lower, self._words
        )

    async def _decide(
        self, prepared: _Prepared, attempt: int, budget: Budget, calls: CallBudget
    ) -> tuple[Decision, Condition]:
        """The decision, and what must still hold when it is applied."""
        arrival = prepared.arrival
        new, found = arrival.new.memory, arrival.neighbours
        if not self._config.dedup_enabled:
            return add(new, _OFF), Anyway()
        if isinstance(found, Unsearched):
            logger.warning("similarity query failed, storing the memory anyway: %s", found.why)
            reason = f"similarity query failed: {found.why}"
            return add(new, reason, pending=True), UnlessRepeated()
        matches = prepared.matches
        decision, match = decide_new(new, matches, self._rules, prepared.nominated)
        if isinstance(decision, Decision) and decision.action is Action.ADD:
            hearsay = len(matches) < len(found.matches)
            decision = replace(decision, reason=_HEARSAY) if hearsay else decision
        _log_check(new, match, decision)
        if isinstance(decision, Question):
            decision = await self._asked(decision, arrival, attempt, budget, calls)
        candidates = tuple((hit.memory.id, hit.similarity) for hit in found.matches)
        bound_by = Asker(self._model.name).bound_by
        condition = WhileNearest(found.revision, bound_by, self._rules.lower)
        return replace(decision, candidates=candidates), condition

    def _cohesive(self, arrival: Arrival) -> tuple[SearchResult, ...]:
        """Those that nothing stands between: a chain a~b~c does not collapse though a and c differ.

        Where a text may be replaced by one that does not state it, the ends of the chain are
        compared; with the guard, whoever replaced a text states all of it.
        """
        if isinstance(arrival.neighbours, Unsearched):
            return ()
        lower = self._rules.lower
        return tuple(
            hit
            for hit in arrival.neighbours.matches
            if self._rules.guard
            or hit.similarity < lower
            or is_like_all_of(self._store, arrival.new, hit.memory.id, lower)
        )

    async def _asked(
        self,
        question: Question,
        arrival: Arrival,
        attempt: int,
        budget: Budget,
        calls: CallBudget,
    ) -> Decision:
        """One judgement, in doubt one second reading; a later batch asks what that leaves open."""
        if attempt > _MOST_QUESTIONS:
            return _undecided(arrival, "others kept coming first")
        if not calls.take():
            return _undecided(arrival, "the budget of calls is spent")
        return await self._ask(question, budget, calls, most_answers=1)

    async def _ask(
        self, question: Question, budget: Budget, calls: CallBudget, most_answers: int
    ) -> Decision:
        """The decision about a question that was taken; a failed or broken-off one costs too."""
        cost = 1
        try:
            decision = await self._judging.decide(question, budget, most_answers)
            cost = max(decision.usage.calls, int(decision.pending))
        finally:
            calls.settle(cost)
        return decision

    # --- a whole store ---

    async def deduplicate_all(
        self,
        dry_run: bool = False,
        *,
        max_calls: int | None = None,
        groups: int | None = None,
        on_progress: Progress | None = None,
        on_plan: OnPlan | None = None,
    ) -> DeduplicationReport:
        """Find every group of near-copies and merge it; with `dry_run`, only say what would be.

        What was decided for want of a model is asked again when it is due. Rounds of pairs, groups
        and decisions follow each other until nothing is left, or `max_calls` of the model are
        spent (`dedup_calls_per_run` where it is not given): then the least alike wait for the next
        run. What was decided stays when it is interrupted. A dry run plans the first round, asks no
        model, opens no index and writes nothing; with `groups` its report holds only so many of
        them, the least certain first. `on_plan` hears of the first round before it is paid for.
        """
        if dry_run:
            return (await self.audit(Chosen(groups))).report
        return await self._batch(Asker(self._model.name), max_calls).run(on_progress, on_plan)

    async def audit(self, chosen: Chosen | None = None) -> Audit:
        """What `deduplicate_all` would do first; its report has only the chosen groups."""
        return await self._batch(Asker(self._model.name), None).audit(chosen or Chosen())

    async def plan(self, asker: Asker | None = None) -> RoundPlan:
        """What the first round of a batch would do, group by group; nothing is changed.

        `asker` is who is to decide, else the model.
        """
        return (await self._batch(asker or Asker(self._model.name), None).audit(Chosen(0))).plan

    async def retry_pending(
        self, *, again: bool = False, on_progress: Progress | None = None
    ) -> DeduplicationReport:
        """Ask at once what the model could not answer when it was asked, and nothing else.

        With `again` the whole store is asked about again, but for what a person told apart.
        """
        if again:
            return await self._batch(Asker(self._model.name, Insistence.AGAIN), None).run(
                on_progress
            )
        batch = self._batch(Asker(self._model.name, Insistence.NOW), None)
        return await batch.run(on_progress, pending_only=True)

    def _batch(self, asker: Asker, max_calls: int | None) -> Batch:
        way = BatchSettings(
            self._rules,
            self._config.dedup_candidates,
            self._words,
            self._concurrency,
            self._price,
        )
        return Batch(self._store, asker, way, self._ask_about, self._calls(max_calls))

    async def _ask_about(self, question: Question, calls: CallBudget) -> Decision:
        return await self._ask(question, Budget(self._budget_s), calls, _MOST_ANSWERS)

    def _calls(self, max_calls: int | None) -> CallBudget:
        return CallBudget(self._config.dedup_calls_per_run if max_calls is None else max_calls)


def _undecided(arrival: Arrival, why: str) -> Decision:
    return add(arrival.new.memory, why, pending=True)


# --- log lines ----------------------------------------------------------------------------------


def _log_check(new: Memory, match: SearchResult | None, decision: Decision | Question) -> None:
    arrow = "LLM merge"
    if isinstance(decision, Decision):
        arrow = "replace" if decision.action is Action.REPLACE else "add as new"
    closest = f"closest match sim={match.similarity:.2f}" if match else "no match"
    logger.debug(
        'DEDUP_CHECK: "%s" %s -> %s (%s)',
        shortened(new.content, QUOTED),
        closest,
        arrow,
        decision.reason,
    )

"""Deduplicate new memories as they are written, or a whole store at once."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from pydantic import SecretStr

from memory.config import PLAIN_THRESHOLDS, LLMConfig, MemoryConfig
from memory.decide import (
    MOST_ASKED,
    MOST_ON_PAGE,
    Order,
    PageRules,
    PendingWrites,
    PlanSettings,
    decide_new,
    without_fallback,
)
from memory.deduplicator.batch import Audit, Batch, BatchSettings, OnPlan
from memory.deduplicator.distributed import DistributedExecutor
from memory.deduplicator.judging import QUOTED, Judging, NamedMerge, log_merges
from memory.ledger import Lease, split_repeats
from memory.models import (
    OFFLINE,
    PLAIN,
    Action,
    Decision,
    DeduplicationReport,
    Embedded,
    Extracted,
    Memory,
    Outcome,
    Price,
    Question,
    SearchResult,
    Usage,
    scale_of,
)
from memory.protocols import LanguageModel
from memory.providers import Asking, Budget, CallBudget, GuardedModel
from memory.runtime import Progress, in_thread, in_thread_if_long, telemetry
from memory.store import (
    AlreadyStored,
    Applied,
    Asker,
    Conflict,
    Decided,
    MemoryStore,
    NewMemory,
    RetryPolicy,
    Unconditional,
    UnlessRepeated,
    WhileMergeable,
    WhileNearest,
    is_like_all_of,
)
from memory.text import shortened

logger = logging.getLogger(__name__)

_MOST_QUESTIONS = 2
"""At most this many questions about a new memory.

A second question is asked if another write came before the first answer was stored.
"""
_MOST_DECISIONS = 50
"""Maximum number of decisions about one new memory.

A decision is made again if another write came first. The last decision is stored in any case.
"""
_OTHERS_FIRST = "others kept coming first"
_EMBED_AT_ONCE = 256


@dataclass
class _Effort:
    calls: CallBudget
    budget: Budget | None = None
    attempts: int = 0


@dataclass(frozen=True)
class _Incoming:
    extracted: Extracted
    embedded: Embedded | None = None
    named: NamedMerge | None = None


class MemoryDeduplicator:
    """Keeps near-copies out of an open store.

    Use `check_and_merge` for each new memory, and `deduplicate_all` to clean the whole store.

    `model` answers what rules cannot decide. `concurrency`: the greatest number of questions that a
    batch asks at once. `budget_s`: seconds that one new memory, or one group of a batch, may wait
    for the model. `price`: the price of the model's tokens, used in reports. `executor`: where
    batches search for pairs and plan groups; None means in this process.
    """

    def __init__(
        self,
        store: MemoryStore,
        model: LanguageModel,
        config: MemoryConfig | None = None,
        *,
        concurrency: int = 4,
        budget_s: float = 60.0,
        price: Price | None = None,
        executor: DistributedExecutor | None = None,
    ) -> None:
        self._store = store
        if not hasattr(model, "page_size"):  # passed as it is, so without a circuit breaker
            model = GuardedModel(model, concurrency=4, failures=sys.maxsize)
        self._model = model
        self._config = config or MemoryConfig()
        self._rules = self._config.rules
        plan = PlanSettings(self._rules, neighbours=self._config.dedup_candidates)
        if executor is not None:
            plan = replace(plan, find_pairs=executor.find_pairs, plan_groups=executor.plan_groups)
        self._settings = BatchSettings(plan, concurrency, budget_s, price)
        self._judging = Judging(store, self._model, self._rules)
        self._asker = Asker(self._model.name)
        self._hourly = CallBudget(self._config.dedup_calls_per_hour, window_s=3_600.0)
        self._hourly.answered = True  # a single failed merge falls back at once

    @classmethod
    def from_api_key(
        cls,
        store: MemoryStore,
        api_key: str,
        model: str = "gemini-3-flash-preview",
        upper_threshold: float = 0.95,
        lower_threshold: float = 0.90,
    ) -> MemoryDeduplicator:
        """Return a deduplicator that asks Gemini, with default settings otherwise.

        A pair of memories with a similarity of `upper_threshold` or more may be merged without the
        model. The model is asked about other pairs with a similarity of at least `lower_threshold`.

        `store.scale` turns the cosines of the embedder into similarities. It is changed in one
        case: a threshold differs from its default, and `store.scale` is the scale calibrated for
        the embedder. Then `store.scale` is set to the plain cosine, and a warning is logged.
        """
        from memory.providers import GeminiModel  # 0.4 s that other models do without

        config = MemoryConfig(
            dedup_upper_threshold=upper_threshold, dedup_lower_threshold=lower_threshold
        )
        own_scale = scale_of(store.embeddings.fingerprint)
        if config.thresholds_without_scale and store.scale == own_scale != PLAIN:
            logger.warning(PLAIN_THRESHOLDS)
            store.scale = PLAIN
        llm = LLMConfig(model=model)
        return cls(store, GeminiModel(SecretStr(api_key), llm), config, concurrency=llm.concurrency)

    # --- one new memory ---

    async def check_and_merge(self, new_memory: Memory) -> Memory:
        """Deduplicate and store a new memory; return the live memory that now states it.

        The returned memory is the new one, an older one that already states it, or a merge of both.
        It is stored before this method returns. If the new memory itself was stored earlier, it is
        not stored again.

        Raises: LedgerError if nothing could be stored.
        """
        [outcome] = await self.check_and_merge_all([new_memory])
        return outcome.memory

    async def check_and_merge_all(
        self,
        new_memories: Sequence[Memory | Extracted],
        *,
        run: str | None = None,
        lease: Lease | None = None,
        on_progress: Progress | None = None,
    ) -> list[Outcome]:
        """Deduplicate and store several new memories; return one outcome for each, in order.

        Each memory is compared with the stored memories and with the memories before it in the
        list. The model that extracted a memory may have proposed to merge the memory with stored
        ones. If the proposed text passes its check, these memories are merged.

        `run`: the identifier under which the decisions are recorded. With a `run`, this call may
        make at most `dedup_calls_per_run` calls of the model. Without a `run`, this deduplicator
        makes at most `dedup_calls_per_hour` such calls in an hour. `lease`: the lease on the
        conversation from which the memories come; it is checked at each write. `on_progress` is
        called with the number of memories that are done and the number of all memories.

        Raises: LedgerError; LeaseLost if the lease is no longer held. Memories that were stored
        before the error stay stored.
        """
        calls = self._hourly if run is None else self._calls(None)
        extracted = [one if isinstance(one, Extracted) else Extracted(one) for one in new_memories]
        if not self._config.dedup_enabled:
            extracted = [Extracted(one.memory) for one in extracted]
        outcomes: list[Outcome] = []
        for start in range(0, len(extracted), _EMBED_AT_ONCE):
            first, *others = extracted[start : start + _EMBED_AT_ONCE]
            new = [_Incoming(first)]  # embedded when its neighbours are sought
            if others or first.named:
                new = await self._embedded([first, *others], calls)
            for part in split_repeats([one.extracted.memory for one in new]):
                left = new[part]
                while left:
                    done = await self._write(left, run, lease, calls)
                    outcomes += done
                    left = left[len(done) :]
                    if on_progress is not None:
                        on_progress(len(outcomes), len(new_memories))
        return outcomes

    async def _embedded(self, new: Sequence[Extracted], calls: CallBudget) -> list[_Incoming]:
        vectors = await in_thread(self._store.embeddings.embed, [one.memory for one in new])
        naming = [pair for pair in zip(new, vectors, strict=True) if pair[0].named]
        asking = Asking(calls, Budget(self._settings.budget_s))
        checked = iter(await self._judging.join_named(naming, asking) if naming else ())
        return [
            _Incoming(one, embedded, next(checked) if one.named else None)
            for one, embedded in zip(new, vectors, strict=True)
        ]

    async def _write(
        self,
        new: Sequence[_Incoming],
        run: str | None,
        lease: Lease | None,
        calls: CallBudget,
    ) -> list[Outcome]:
        at_once = self._config.dedup_enabled and self._rules.guard
        size = self._store.pace.size if at_once else 1
        batch = [new[0], *takewhile(lambda one: one.named is None, new[1:size])]
        named = batch[0].named
        lost = named.usage if named else Usage()
        effort = _Effort(calls)
        with telemetry.span("write") as span:
            while True:
                effort.attempts += 1
                settled = await self._decide(batch, effort)
                decided = [one for one in settled if isinstance(one, Decided)]
                done = (
                    await in_thread(self._store.apply_all, decided, run=run, lease=lease)
                    if decided
                    else []
                )
                conflict = done[0] if decided and settled[0] is decided[0] else None
                if not isinstance(conflict, Conflict):
                    break
                logger.info("decided again: %s", conflict.why)
                lost += decided[0].decision.usage
                named = named and NamedMerge(conflict=conflict.why, usage=named.usage)
                batch = [replace(batch[0], named=named)]
            outcomes: list[Outcome] = []
            answers = iter(done)
            for one in settled:
                if isinstance(one, Outcome):
                    outcomes.append(one)
                elif isinstance(answer := next(answers, None), Applied):
                    by = one.decision
                    outcomes.append(
                        Outcome(answer.memory, by.action, by.reason, by.usage, by.pending)
                    )
                else:
                    break
            if lost.calls:
                outcomes[0] = replace(outcomes[0], usage=lost + outcomes[0].usage)
            if named and named.decision:
                log_merges(named.decision)
            span.set_attribute("kind", outcomes[0].action.value)
        return outcomes

    async def _decide(self, batch: Sequence[_Incoming], effort: _Effort) -> list[Outcome | Decided]:
        named = batch[0].named
        if named is not None and named.decision is not None and named.decision.survivors:
            condition = WhileMergeable(named.revision, self._asker.bound_by)
            return [Decided(named.decision, condition, batch[0].embedded)]
        k = self._config.dedup_candidates if self._config.dedup_enabled else 0
        lower = self._rules.lower
        memories = [one.embedded or one.extracted.memory for one in batch]
        prepared = await in_thread(self._store.prepare, memories, k, lower, self._asker)
        settled: list[Outcome | Decided] = []
        before: PendingWrites | None = None
        for incoming, found in zip(batch, prepared, strict=True):
            if isinstance(found, AlreadyStored):
                settled.append(Outcome(found.memory, Action.KNOWN, "it arrived before"))
                continue
            new = found if before is None else self._with_pending(found, before)
            if new is None:
                break
            decided = await self._decide_one(new, incoming, effort, alone=not settled)
            if decided is None:
                break
            settled.append(decided)
            if len(prepared) > 1:
                before = before or PendingWrites(self._store.scale, self._store.scope_of, lower)
                before.add(found.new, decided.decision)
        return settled

    async def _decide_one(
        self,
        prepared: NewMemory,
        incoming: _Incoming,
        effort: _Effort,
        *,
        alone: bool,
    ) -> Decided | None:
        """Return the decision about one new memory; None if earlier memories must be stored first.

        `alone`: whether no earlier memory waits to be stored; only then is a remote model asked.
        """
        new, found = prepared.new.memory, prepared.neighbours
        if effort.attempts >= _MOST_DECISIONS:
            return Decided(_add_pending(new, _OTHERS_FIRST), Unconditional(), prepared.new)
        if not self._config.dedup_enabled:
            added = Decision(Action.ADD, "deduplication is off", (new,))
            return Decided(added, Unconditional(), prepared.new)
        if isinstance(found, str):
            logger.warning("similarity query failed, storing the memory anyway: %s", found)
            added = _add_pending(new, f"similarity query failed: {found}")
            return Decided(added, UnlessRepeated(), prepared.new)
        matches = found.matches
        if not self._rules.guard:  # a memory that replaced others need not state all they stated
            matches = await in_thread(self._cohesive, prepared.new, matches)
        texts = [new.content, *(hit.memory.content for hit in matches)]
        decision, match = await in_thread_if_long(
            texts, decide_new, new, matches, self._rules, incoming.extracted.shown
        )
        adds = isinstance(decision, Decision) and decision.action is Action.ADD
        if adds and len(matches) < len(found.matches):
            decision = replace(decision, reason="nearest memory also stands for a dissimilar text")
        if logger.isEnabledFor(logging.DEBUG):
            _log_check(new, match, decision)
        named = incoming.named
        if named and (adds or isinstance(decision, Question)):
            decision = named.decision or _add_pending(new, named.conflict)
        elif isinstance(decision, Question):
            if not alone and self._model.name != OFFLINE:
                return None
            decision = await self._ask_model(decision, new, effort)
        candidates = tuple((hit.memory.id, hit.similarity) for hit in found.matches)
        condition = WhileNearest(found.revision, self._asker.bound_by, self._rules.lower)
        return Decided(replace(decision, candidates=candidates), condition, prepared.new)

    def _with_pending(self, new: NewMemory, before: PendingWrites) -> NewMemory | None:
        found = new.neighbours
        if isinstance(found, str):
            return None
        matches = before.seen_by(new.new, found.matches, found.distinct)
        if matches is None:
            return None
        nearest = tuple(matches[: self._config.dedup_candidates])
        return replace(new, neighbours=replace(found, matches=nearest))

    def _cohesive(self, new: Embedded, matches: Sequence[SearchResult]) -> tuple[SearchResult, ...]:
        """Return the matches without those that have replaced a dissimilar memory.

        For example, the new memory is similar to b, and b has replaced a. If the new memory is not
        similar to a, then b is left out. Similar means: at or above the lower threshold.
        """
        lower = self._rules.lower
        return tuple(
            hit
            for hit in matches
            if hit.similarity < lower or is_like_all_of(self._store, new, hit.memory.id, lower)
        )

    async def _ask_model(self, question: Question, new: Memory, effort: _Effort) -> Decision:
        if effort.attempts > _MOST_QUESTIONS:
            return _add_pending(new, _OTHERS_FIRST)
        if not effort.calls.left:
            return _add_pending(new, "the budget of calls is spent")
        effort.budget = effort.budget or Budget(self._settings.budget_s)
        asking = Asking(effort.calls, effort.budget)
        decision = await self._judging.decide(question, asking, most_answers=1)
        is_fallback = decision.pending and not effort.calls.answered
        return without_fallback(decision) if is_fallback else decision

    # --- a whole store ---

    async def deduplicate_all(
        self,
        dry_run: bool = False,
        *,
        thorough: bool = False,
        max_calls: int | None = None,
        groups: int | None = None,
        on_progress: Progress | None = None,
        on_page: Progress | None = None,
        on_plan: OnPlan | None = None,
        on_compared: Progress | None = None,
    ) -> DeduplicationReport:
        """Find all groups of near-copies in the store and merge them; return a report.

        The work is done in rounds of search, plan and decisions, until nothing is left to do. The
        model is asked about the most similar groups first. After `max_calls` calls of the model
        (default: the setting `dedup_calls_per_run`), the other groups wait for the next run. If
        the model failed to answer a question in an earlier run, the question is repeated after a
        pause, until it has failed too often. If the run is interrupted, the decisions made so far
        are kept.

        `dry_run`: only plan the first round, and report its groups. A dry run asks no model and
        writes nothing. `groups`: the maximum number of groups that a dry run reports, the least
        certain first (default: all groups).

        `thorough`: if the model reads pages, each memory shares a page with each of its nearest
        neighbours. This takes more pages. The model also reads again what it read in earlier runs
        that were not thorough.

        `on_progress` is called with the number of settled groups of the round and the number of all
        its groups. `on_page` is called with the number of pages read and the number of all pages
        (default: `on_progress`). `on_compared` is called, in another thread, with the number of
        texts compared and the number of all texts. `on_plan` is called with the report of the
        planned first round, before the model is asked.
        """
        asker = Asker(self._model.name, thorough=thorough)
        batch = self._batch(asker, max_calls, on_compared)
        if dry_run:
            return (await batch.audit(groups, "certain", None)).report
        return await batch.run(on_progress, on_plan, on_page)

    async def audit(
        self,
        groups: int | None = None,
        order: Order = "certain",
        user: str | None = None,
        *,
        asker: Asker | None = None,
        on_compared: Progress | None = None,
    ) -> Audit:
        """Plan the first round of `deduplicate_all`; return the plan and a report. Nothing changes.

        `groups`, `order`, `user`: which groups the report lists, as in `first_groups` (default: all
        groups). `asker`: who will be asked about the groups, such as a person (default: the model).
        Pages are planned only for the model. `on_compared` is called, in another thread, with the
        number of texts compared and the number of all texts.
        """
        batch = self._batch(asker or Asker(self._model.name), None, on_compared)
        return await batch.audit(groups, order, user)

    async def retry_pending(
        self,
        *,
        again: bool = False,
        on_progress: Progress | None = None,
        on_page: Progress | None = None,
        on_compared: Progress | None = None,
    ) -> DeduplicationReport:
        """Repeat the questions that the model failed to answer earlier; return a report.

        Questions that failed too often are not repeated.

        `again`: deduplicate the whole store instead, as if no model had judged or read a memory
        before. Verdicts of a person still count. The result of the model's trial on test merges is
        deleted, too. The callbacks are those of `deduplicate_all`.
        """
        asker = Asker(self._model.name, RetryPolicy.AGAIN if again else RetryPolicy.NOW)
        if again:
            await in_thread(self._judging.forget_trial)
        return await self._batch(asker, None, on_compared).run(
            on_progress, on_page=on_page, pending_only=not again
        )

    def _batch(
        self, asker: Asker, max_calls: int | None, on_compared: Progress | None = None
    ) -> Batch:
        size, pages = min(self._model.page_size, MOST_ON_PAGE), None
        if asker.model == self._model.name and size > MOST_ASKED:  # else pairs and small groups
            pages = PageRules(size, self._config.read_private, asker.thorough)
        plan = replace(
            self._settings.plan, scale=self._store.scale, pages=pages, on_compared=on_compared
        )
        settings = replace(self._settings, plan=plan)
        return Batch(self._store, asker, self._judging, settings, self._calls(max_calls))

    def _calls(self, max_calls: int | None) -> CallBudget:
        return CallBudget(self._config.dedup_calls_per_run if max_calls is None else max_calls)


def _add_pending(new: Memory, reason: str) -> Decision:
    return Decision(Action.ADD, reason, (new,), pending=True)


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

"""Deduplicate new memories as they are written, or a whole store at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile

from pydantic import SecretStr

from memory.config import PLAIN_THRESHOLDS, LLMConfig, MemoryConfig
from memory.decide import (
    MOST_ASKED,
    OnEvent,
    Order,
    PageRules,
    PlanSettings,
    decide_new,
    without_fallback,
)
from memory.deduplicator.batch import Audit, Batch, BatchSettings, OnPlan
from memory.deduplicator.distributed import DistributedExecutor
from memory.deduplicator.judging import Judging, NamedMerge, log_merges
from memory.ledger import Lease
from memory.models import (
    COMPARED,
    MOST_ON_PAGE,
    OFFLINE,
    PLAIN,
    Action,
    Condition,
    Decision,
    DeduplicationReport,
    Embedded,
    Extracted,
    LanguageModel,
    Memory,
    Outcome,
    Price,
    Progress,
    Question,
    Scope,
    SearchResult,
    Succession,
    Usage,
    checked,
    quoted,
    scale_of,
)
from memory.providers import Asking, CallBudget, completed, estimated
from memory.runtime import in_thread, telemetry
from memory.store import (
    Asker,
    Conflict,
    MemoryStore,
    Nearby,
    NewMemory,
    RetryPolicy,
)

logger = logging.getLogger(__name__)

_MOST_QUESTIONS, _MOST_FREE = 2, 100
"""At most this many questions about a new memory, to a model and to the offline judge.

A question is asked again if another write came before its answer was stored.
"""
_OTHERS_FIRST = "others kept coming first"
_EMBED_AT_ONCE = 256


_Undecided = tuple[NewMemory, Question]
"""A new memory, and the question about it that the model must answer."""


@dataclass
class _Waiting:
    """A new memory that is not stored yet, as it was extracted and as it was prepared.

    `new.decided`: the decision of the model about it. `named`: the checked merge that the model
    proposed for it. `asking`: the limits on the questions about it. `spent`: what these have cost.
    """

    said: Extracted
    new: NewMemory
    named: NamedMerge | None = None
    asking: Asking | None = None
    spent: Usage | None = None
    attempt: int = 1

    def begin_again(self, why: str) -> None:
        """Prepare another attempt after a Conflict, whose reason is `why`."""
        logger.debug("decided again: %s", why)
        self.attempt += 1
        self.new = replace(self.new, decided=None)
        if self.named:
            self.named = NamedMerge(conflict=why)


class MemoryDeduplicator:
    """Keeps near-copies out of an open store.

    Use `check_and_merge` for each new memory, and `deduplicate_all` to clean the whole store.

    A language model answers what rules cannot decide. `api_key`: the key of Gemini, whose model
    `model` is asked; or a language model of your own. A pair of memories with a similarity of
    `upper_threshold` or more may be joined without the model; the model is asked about other pairs
    with a similarity of at least `lower_threshold`. `config` replaces both thresholds.

    `store.scale` turns the cosines of the embedder into similarities. It is changed in one case: a
    threshold beside a key differs from its default, and `store.scale` is the scale calibrated for
    the embedder. Then it is set to the plain cosine, and a warning is logged.

    `concurrency`: the greatest number of questions that a
    batch asks at once. `budget_s`: seconds that one new memory, or one group of a batch, may wait
    for the model. `price`: the price of the model's tokens, used in reports. `executor`: where
    batches search for pairs and plan groups; None means in this process.

    >>> new = store.new_memory("Dot rows.", user="Dot")
    >>> (await deduplicator.check_and_merge(new)).content
    'Dot rows.'
    """

    @checked
    def __init__(
        self,
        store: MemoryStore,
        api_key: str | LanguageModel,
        model: str = "gemini-3-flash-preview",
        upper_threshold: float = 0.95,
        lower_threshold: float = 0.90,
        *,
        config: MemoryConfig | None = None,
        concurrency: int = 4,
        budget_s: float = 60.0,
        price: Price | None = None,
        executor: DistributedExecutor | None = None,
    ) -> None:
        self._store = store
        self._config = config or MemoryConfig(
            dedup_upper_threshold=upper_threshold, dedup_lower_threshold=lower_threshold
        )
        if isinstance(api_key, str):
            api_key = _gemini(store, api_key, model, self._config)
        self._model = completed(api_key)
        self._rules = self._config.rules
        plan = PlanSettings(self._rules)
        if executor is not None:
            plan = replace(plan, find_pairs=executor.find_pairs, plan_groups=executor.plan_groups)
        self._settings = BatchSettings(plan, concurrency, budget_s, price)
        self._judging = Judging(store, self._model, self._rules)
        self._asker = Asker(self._model.name)
        self._nearby = Nearby(
            COMPARED if self._config.dedup_enabled else 0,
            self._rules.lower,
            self._asker.bound_by,
            cohesive=not self._rules.guard,  # else whatever stays states all that it replaced
        )
        self._hourly = CallBudget(self._config.dedup_calls_per_hour, window_s=3_600.0)
        self._hourly.answered = True  # a single failed merge falls back at once

    # --- one new memory ---

    async def check_and_merge(self, new_memory: Memory) -> Memory:
        """Deduplicate and store a new memory; return the live memory that now states it.

        The returned memory is the new one, an older one that already states it, or a merge of both.
        It is stored before this method returns. If the new memory itself was stored earlier, it is
        not stored again.

        >>> new = store.new_memory("Pia rows.", user="Pia")
        >>> (await deduplicator.check_and_merge(new)).content
        'Pia rows.'

        Raises: LedgerError if nothing could be stored.
        """
        [outcome] = await self._store_all([Extracted(new_memory)], self._hourly)
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

        >>> new = [store.new_memory(text, user="Quin") for text in ("Quin rows.", "quin rows")]
        >>> [outcome.action.value for outcome in await deduplicator.check_and_merge_all(new)]
        ['add', 'replace']

        Raises: LedgerError; LeaseLost if the lease is no longer held. Memories that were stored
        before the error stay stored.
        """
        calls = self._hourly if run is None else self._calls(None)
        extracted = [one if isinstance(one, Extracted) else Extracted(one) for one in new_memories]
        if not self._config.dedup_enabled:
            extracted = [Extracted(one.memory) for one in extracted]
        outcomes: list[Outcome] = []
        for start in range(0, len(extracted), _EMBED_AT_ONCE):
            chunk = extracted[start : start + _EMBED_AT_ONCE]
            tell = on_progress and partial(_tell, on_progress, start, len(extracted))
            outcomes += await self._store_all(chunk, calls, run, lease, tell)
        return outcomes

    async def _store_all(
        self,
        new: Sequence[Extracted],
        calls: CallBudget,
        run: str | None = None,
        lease: Lease | None = None,
        tell: Callable[[int], None] | None = None,
    ) -> list[Outcome]:
        """Store new memories in order: prepare them, decide, ask the model if rules cannot, apply.

        Rules decide inside the transaction that stores the memories. The model is asked outside. If
        another write comes first meanwhile, rules decide again.
        """
        prepared = await in_thread(self._store.prepare, [one.memory for one in new], self._nearby)
        both = zip(new, prepared, strict=True)
        waiting = [_Waiting(said, replace(one, shown=said.shown)) for said, one in both]
        if any(one.named for one in new):
            await self._check_named([one for one in waiting if one.said.named], calls)
        outcomes, ended = list[Outcome](), list[Succession]()
        while left := waiting[len(outcomes) :]:
            size = 1 if left[0].named or left[0].attempt > 1 else self._store.pace.size
            some = [left[0], *takewhile(lambda one: one.named is None, left[1:size])]
            by_rules = partial(self._by_rules, calls, left[0])
            with telemetry.span("write") as span:
                found = await in_thread(
                    self._store.write, [one.new for one in some], by_rules, run=run, lease=lease
                )
                if isinstance(found[0], Outcome):
                    span.set_attribute("kind", found[0].action.value)
            for head, one in zip(some, found, strict=False):  # only the last may be no Outcome
                if isinstance(one, Outcome):
                    outcomes.append(replace(one, usage=head.spent or one.usage))
                    ended += head.new.decided.successions if head.new.decided else ()
                    ended += (Succession(name, one.memory.id, "") for name in head.said.ended)
                    if head.named and head.named.decision:
                        log_merges(head.named.decision)
                elif isinstance(one, Conflict):
                    head.begin_again(one.why)
                else:
                    head.new = replace(head.new, decided=await self._by_model(*one, calls, head))
            if tell is not None:
                tell(len(outcomes))
        return await self._supersede(ended, outcomes, calls, run, lease) if ended else outcomes

    async def _supersede(
        self,
        ended: Sequence[Succession],
        outcomes: Sequence[Outcome],
        calls: CallBudget,
        run: str | None,
        lease: Lease | None,
    ) -> list[Outcome]:
        """Supersede what the new memories ended, if it is read so; return the outcomes with that.

        The new memories are stored by now, so nothing is lost if the model fails.
        """
        asking = Asking(calls, self._settings.budget_s)
        decisions = await self._judging.ended(ended, asking)
        if not decisions:
            return list(outcomes)
        done = await in_thread(self._store.apply_all, decisions, run=run, lease=lease)
        became = {
            member.id: outcome
            for decision, outcome in zip(decisions, done, strict=True)
            if isinstance(outcome, Outcome) and outcome.retired
            for member in decision.members
        }
        with_ended = [
            replace(one, memory=later.memory, retired=one.retired + later.retired)
            if (later := became.get(one.memory.id)) is not None
            else one
            for one in outcomes
        ]
        return [replace(with_ended[0], usage=with_ended[0].usage + asking.usage), *with_ended[1:]]

    async def _check_named(self, waiting: Sequence[_Waiting], calls: CallBudget) -> None:
        """Check the merges that the model proposed when it extracted these memories."""
        embedded = [(one.said, Embedded(one.new.memory, one.new.vector)) for one in waiting]
        asking = Asking(calls, self._settings.budget_s)
        checked = await self._judging.join_named(embedded, asking)
        for one, named in zip(waiting, checked, strict=True):
            one.named, one.spent = named, named.usage
            one.new = replace(one.new, decided=named.merge)

    def _by_rules(self, calls: CallBudget, head: _Waiting, new: NewMemory) -> Decision | _Undecided:
        """Decide about a new memory by the rules; return _Undecided if the model must decide."""
        memory = new.memory
        if not self._config.dedup_enabled:
            return Decision(Action.ADD, "deduplication is off", (memory,))
        decision, match = decide_new(memory, new.matches, self._rules, new.shown)
        adds = isinstance(decision, Decision) and decision.action is Action.ADD
        if adds and new.left_out:
            decision = replace(decision, reason="nearest memory also stands for a dissimilar text")
        if logger.isEnabledFor(logging.DEBUG):
            _log_check(memory, match, decision)
        if adds and new.fault:
            logger.warning("similarity query failed, storing the memory anyway: %s", new.fault)
            decision = _add_pending(memory, f"similarity query failed: {new.fault}")
        elif head.named and (adds or isinstance(decision, Question)):
            decision = head.named.decision or _add_pending(memory, head.named.conflict)
        elif isinstance(decision, Question):
            most = _MOST_FREE if self._model.name == OFFLINE else _MOST_QUESTIONS
            if head.attempt <= most and calls.left:
                return new, decision
            spent = "the budget of calls is spent"
            decision = _add_pending(memory, spent if calls.left == 0 else _OTHERS_FIRST)
        return decision

    async def _by_model(
        self, new: NewMemory, question: Question, calls: CallBudget, head: _Waiting
    ) -> Decision:
        head.asking = head.asking or Asking(calls, self._settings.budget_s)
        decision = await self._judging.decide(question, head.asking)
        head.spent = decision.usage
        if decision.pending and not calls.answered:
            decision = without_fallback(decision)
        return replace(
            decision,
            arrival=Embedded(new.memory, new.vector),
            candidates=tuple((hit.memory.id, hit.similarity) for hit in new.matches),
            condition=Condition(new.revision, self._asker.bound_by, self._rules.lower),
        )

    # --- a whole store ---

    async def deduplicate_all(
        self,
        dry_run: bool = False,
        *,
        thorough: bool = False,
        max_calls: int | None = None,
        groups: int | None = None,
        on_progress: Progress | None = None,
        on_event: OnEvent | None = None,
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
        its groups, or with the number of pages read and the number of all pages. `on_event` is told
        more: the stage, the model's answers and the cost so far. `on_compared` is called, in
        another thread, with the number of texts compared and the number of all texts. `on_plan` is
        called with the report of the planned first round, before the model is asked.

        >>> report = await deduplicator.deduplicate_all(dry_run=True)
        >>> report.retired
        0
        """
        batch = self._batch(Asker(self._model.name, thorough=thorough), max_calls, on_compared)
        if dry_run:
            return (await batch.audit(groups, "certain", None)).report
        return await batch.run(on_progress, on_plan, on_event)

    @property
    def reads_pages(self) -> bool:
        """Whether the model reads pages, and not only pairs and small groups.

        >>> deduplicator.reads_pages
        False
        """
        return self._config.dedup_enabled and self._page_rules(self._asker) is not None

    async def read_scope(
        self, scope: Scope, *, proposes: bool = False
    ) -> DeduplicationReport | None:
        """Do what `deduplicate_all` does, but for the memories of one scope; return a report.

        `proposes`: change no memory. A group that the model would merge is recorded as pending,
        with its text, for an agent or a person to decide.

        Of what the model has not read, only the newest 48 texts are put on pages, each with its
        nearest ones: the rest is for `deduplicate_all`, whose cost the user knows in advance.
        The calls of the model count as calls for new memories (`dedup_calls_per_hour`). Return None
        if none is left, if the model reads no pages, or if it may not read this scope.

        >>> await deduplicator.read_scope(Scope.of_user("Rex"))  # the offline model reads no pages
        """
        private = ("is_private", True) in scope.values and not self._config.read_private
        if private or not self._hourly.left or not self.reads_pages:
            return None
        return await self._batch(self._asker, None, scope=scope, proposes=proposes).run(None)

    def forecast(self) -> Usage:
        """Estimate what `deduplicate_all` would cost, without making its plan.

        Each memory that the model has not read counts once, on a page of its scope. The cost is
        zero if the model reads no pages.

        >>> deduplicator.forecast().calls  # the offline model reads no pages
        0
        """
        rules = self._page_rules(self._asker)
        if rules is None:
            return Usage()
        unread: dict[Scope, list[Memory]] = {}
        with self._store.ledger.reading() as reader:
            read = reader.readings.all(self._asker.model)
            for row in reader.memories.live():
                scope = self._store.scope_of(row.memory)
                may_be_read = rules.private or not row.memory.is_private
                if may_be_read and (scope.key, row.dated_key) not in read:
                    unread.setdefault(scope, []).append(row.memory)
        pages = [
            [Question(tuple(its[n : n + rules.size]), "forecast", 0.0, is_page=True)]
            for its in unread.values()
            for n in range(0, len(its), rules.size)
            if len(its) > 1
        ]
        return estimated((), pages)

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

        >>> audit = await deduplicator.audit()
        >>> audit.report.retired
        0
        """
        return await self._batch(asker or self._asker, None, on_compared).audit(groups, order, user)

    async def retry_pending(
        self,
        *,
        again: bool = False,
        on_progress: Progress | None = None,
        on_event: OnEvent | None = None,
        on_compared: Progress | None = None,
    ) -> DeduplicationReport:
        """Repeat the questions that the model failed to answer earlier; return a report.

        Questions that failed too often are not repeated.

        `again`: deduplicate the whole store instead, as if no model had judged or read a memory
        before. Verdicts of a person still count. The result of the model's trial on test merges is
        deleted, too. The callbacks are those of `deduplicate_all`.

        >>> report = await deduplicator.retry_pending()
        >>> report.retired
        0
        """
        asker = Asker(self._model.name, RetryPolicy.AGAIN if again else RetryPolicy.NOW)
        if again:
            await in_thread(self._judging.begin_again)
        return await self._batch(asker, None, on_compared).run(
            on_progress, on_event=on_event, pending_only=not again
        )

    def _page_rules(self, asker: Asker) -> PageRules | None:
        size = min(self._model.page_size, MOST_ON_PAGE)
        if asker.model != self._model.name or size <= MOST_ASKED:  # pairs and small groups
            return None
        return PageRules(size, self._config.read_private, asker.thorough)

    def _batch(
        self,
        asker: Asker,
        max_calls: int | None,
        on_compared: Progress | None = None,
        scope: Scope | None = None,
        *,
        proposes: bool = False,
    ) -> Batch:
        pages = self._page_rules(asker)
        if pages is not None and scope is not None:
            pages = replace(pages, sparing=True)
        plan = replace(
            self._settings.plan, scale=self._store.scale, pages=pages, on_compared=on_compared
        )
        settings = replace(self._settings, plan=plan)
        calls = self._calls(max_calls) if scope is None else self._hourly
        return Batch(self._store, asker, self._judging, settings, calls, scope, proposes=proposes)

    def _calls(self, max_calls: int | None) -> CallBudget:
        return CallBudget(self._config.dedup_calls_per_run if max_calls is None else max_calls)


def _tell(on_progress: Progress, before: int, count: int, done: int) -> None:
    on_progress(before + done, count)


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
        quoted(new.content),
        closest,
        arrow,
        decision.reason,
    )


def _gemini(store: MemoryStore, key: str, model: str, config: MemoryConfig) -> LanguageModel:
    """Return Gemini's model; set the store's scale to the cosine if thresholds were chosen."""
    from memory.providers import GeminiModel  # 0.4 s that other models do without

    own_scale = scale_of(store.embeddings.fingerprint)
    if config.thresholds_without_scale and store.scale == own_scale != PLAIN:
        logger.warning(PLAIN_THRESHOLDS)
        store.scale = PLAIN
    return GeminiModel(SecretStr(key), LLMConfig(model=model))

"""Find, judge, decide, apply: one new memory at a time, or a whole store."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

from pydantic import SecretStr

from memory import telemetry
from memory.batch import Audit, Batch, BatchSettings, OnPlan
from memory.config import PLAIN_THRESHOLDS, LLMConfig, MemoryConfig
from memory.decide import (
    MOST_ASKED,
    MOST_ON_PAGE,
    Chosen,
    PageRules,
    RoundPlan,
    Together,
    Work,
    add,
    decide_new,
    without_fallback,
)
from memory.errors import MemoryPipelineError
from memory.judging import QUOTED, Joining, Judging, log_merges
from memory.ledger import Lease, strangers
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
    scale_of,
)
from memory.protocols import LanguageModel
from memory.providers import Asking, Budget, CallBudget, HourlyCalls, OwnModel
from memory.store import (
    Anyway,
    Applied,
    Arrival,
    Asker,
    Condition,
    Conflict,
    Insistence,
    Known,
    MemoryStore,
    Pace,
    UnlessRepeated,
    Unsearched,
    WhileHeld,
    WhileMergeable,
    WhileNearest,
    apply_all,
    is_like_all_of,
)
from memory.text import shortened
from memory.threads import Progress, in_thread, in_thread_if_long

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
    """A new memory with what it resembles."""

    arrival: Arrival
    matches: tuple[SearchResult, ...] = ()
    """Of its neighbours those that it may be decided against."""
    decided: tuple[Decision | Question, SearchResult | None] | None = None
    """What the rules say, and of which match; None where nothing was searched."""


@dataclass(frozen=True)
class _Said:
    """What the model that extracted a new memory says of others."""

    shown: frozenset[str] = frozenset()
    """Keys of the texts that it was shown."""
    joining: Joining = field(default_factory=Joining)
    """What comes of the memories that it names."""

    @property
    def merge(self) -> Decision | None:
        decision = self.joining.decision
        return decision if decision is not None and decision.survivors else None

    @property
    def is_open(self) -> bool:
        """Whether it names memories that are not joined: then nothing more is asked about it."""
        return bool(self.joining.conflict) or self.joining.decision is not None

    def left_open(self, new: Memory) -> Decision:
        """Keep all as they are, and the question open."""
        if self.joining.decision is not None:
            return self.joining.decision
        return add(new, self.joining.conflict, pending=True)

    def moved(self, why: str) -> _Said:
        """The same once something came first."""
        if not self.is_open:
            return self
        return replace(self, joining=Joining(conflict=why, usage=self.joining.usage))


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
        price: Price | None = None,
        work: Work | None = None,
    ) -> None:
        """`concurrency` is how many questions are with the model at once in a batch, `budget_s` how
        long one new memory, or one group, may wait for the model in all.
        """
        self._store = store
        self._model = model if hasattr(model, "page_size") else OwnModel(model)
        self._config = config or MemoryConfig()
        self._rules = self._config.rules
        self._concurrency = concurrency
        self._price = price
        self._work = work
        self._budget_s = budget_s
        self._judging = Judging(store, self._model, self._rules)
        self._pace = Pace()
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
        """Build one with Gemini as judge and everything else as configured by default.

        Thresholds of one's own are compared with plain cosine, as in a configuration that sets no
        scale: the store's scale becomes that.
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
        """Decide about a new memory and apply the decision; gives the memory that lives for it.

        That is the new one, or the one that already said it, or a merge of both. Nobody need add
        the result again. A memory that was stored before is not stored twice.

        Raises: LedgerError where nothing could be stored.
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
        """The same for several, in order: each sees those stored just before it.

        What extraction names is joined if one second reading of all these merges accepts it.

        Raises: LeaseLost where `lease` is not held any more: then nothing more is stored.
        """
        calls = self._hourly if run is None else self._calls(None)
        outcomes: list[Outcome] = []
        for start in range(0, len(new_memories), _EMBED_AT_ONCE):
            some = [_extracted(one) for one in new_memories[start : start + _EMBED_AT_ONCE]]
            embedded = await self._embedded(some)
            said = await self._said(some, embedded, calls)
            async for outcome in self._written(embedded, run, calls, lease, said):
                outcomes.append(outcome)
                if on_progress is not None:
                    on_progress(len(outcomes), len(new_memories))
        return outcomes

    async def _said(
        self,
        some: Sequence[Extracted],
        embedded: Sequence[Memory | Embedded],
        calls: CallBudget,
    ) -> list[_Said]:
        """What extraction says of each, and what comes of the memories that it names."""
        naming = [
            (n, (one, new))
            for n, (one, new) in enumerate(zip(some, embedded, strict=True))
            if one.named and isinstance(new, Embedded)
        ]
        said = [_Said(one.shown) for one in some]
        if naming:
            new_ones = [pair for _, pair in naming]
            asking = Asking(calls, Budget(self._budget_s))
            joined = await self._judging.join_named(new_ones, asking)
            for (n, _), joining in zip(naming, joined, strict=True):
                said[n] = replace(said[n], joining=joining)
        return said

    async def _written(
        self,
        new: Sequence[Memory | Embedded],
        run: str | None,
        calls: CallBudget,
        lease: Lease | None,
        said: Sequence[_Said],
    ) -> AsyncIterator[Outcome]:
        """The outcomes in order; those of an import are stored many at a time.

        With the guard off, what a match stands for is looked up for each.
        """
        embedded = [one for one in new if isinstance(one, Embedded)]
        import_ = run is not None and lease is None and len(embedded) == len(new)
        if not (import_ and self._config.dedup_enabled and self._rules.guard):
            for one, its in zip(new, said, strict=True):
                yield await self._traced(one, run, calls, lease, its)
            return
        for some in strangers(embedded):
            done = 0
            while done < len(some):
                part = some[done : done + self._pace.size]
                outcomes = await self._write_together(part, run, calls)
                done += len(outcomes)
                for outcome in outcomes:
                    yield outcome

    async def _write_together(
        self, new: Sequence[Embedded], run: str | None, calls: CallBudget
    ) -> list[Outcome]:
        """The first ones, at least one: decided in order against one state, stored in one go.

        As far as the state tells all, nobody else writes, and no model is to be waited for.
        """
        asker = Asker(self._model.name)
        try:
            prepared, revision = await in_thread(
                self._store.prepare_all,
                new,
                self._config.dedup_candidates,
                self._rules.lower,
                asker,
            )
        except MemoryPipelineError:
            prepared, revision = [], 0  # one by one it is stored whatever fails
        outcomes, decided = await self._decided_together(prepared, calls)
        if decided:
            done = await in_thread(
                apply_all, self._store, decided, revision, run, asker.bound_by, self._pace
            )
            outcomes = [] if isinstance(done, Conflict) else _with_living(outcomes, decided, done)
        return outcomes or [await self._traced(new[0], run, calls, None, _Said())]

    async def _decided_together(
        self, prepared: Sequence[Known | Arrival], calls: CallBudget
    ) -> tuple[list[Outcome], list[tuple[Embedded, Decision]]]:
        """The outcomes of the first ones, and what is to be applied for them."""
        together = Together(self._store.scale, self._store.scope_of, self._rules.lower)
        outcomes: list[Outcome] = []
        decided: list[tuple[Embedded, Decision]] = []
        for one in prepared:
            if isinstance(one, Known):
                outcomes.append(Outcome(one.memory, Action.KNOWN, "it arrived before"))
                continue
            near = () if isinstance(one.neighbours, Unsearched) else one.neighbours.matches
            texts = [one.new.memory.content, *(hit.memory.content for hit in near)]
            seen = await in_thread_if_long(texts, self._seen, one, together)
            if seen is None or self._would_wait(seen):
                break
            decision, _ = await self._decide(seen, 1, Budget(self._budget_s), calls, _Said())
            new = seen.arrival.new
            outcomes.append(Outcome(new.memory, decision.action, decision.reason, decision.usage))
            decided.append((new, decision))
            together.add(new, decision)
        return outcomes, decided

    def _seen(self, arrival: Arrival, together: Together) -> _Prepared | None:
        """A new memory with what it resembles once all before it are stored."""
        found = arrival.neighbours
        if isinstance(found, Unsearched):
            return None
        matches = together.seen_by(arrival.new, found.matches, found.distinct)
        if matches is None:
            return None
        nearest = tuple(matches[: self._config.dedup_candidates])
        arrival = replace(arrival, neighbours=replace(found, matches=nearest))
        return self._by_rule(arrival, nearest)

    def _by_rule(
        self,
        arrival: Arrival,
        matches: tuple[SearchResult, ...],
        shown: frozenset[str] = frozenset(),
    ) -> _Prepared:
        """What the rules say of a new memory: long texts are compared, so not on the loop."""
        if isinstance(arrival.neighbours, Unsearched):
            return _Prepared(arrival)
        new = arrival.new.memory
        return _Prepared(arrival, matches, decide_new(new, matches, self._rules, shown))

    def _would_wait(self, prepared: _Prepared) -> bool:
        """Whether a model that is not on this machine is to be asked."""
        if self._model.name == OFFLINE:
            return False
        return prepared.decided is not None and isinstance(prepared.decided[0], Question)

    async def _embedded(self, some: Sequence[Extracted]) -> Sequence[Memory | Embedded]:
        """Several are embedded together; one alone that names nothing is when it is prepared."""
        memories = [one.memory for one in some]
        if len(some) == 1 and not some[0].named:
            return memories
        return await in_thread(self._store.embeddings.embed, memories)

    async def _traced(
        self,
        new: Memory | Embedded,
        run: str | None,
        calls: CallBudget,
        lease: Lease | None,
        said: _Said,
    ) -> Outcome:
        with telemetry.span("write") as seen:
            outcome = await self._write(new, run, calls, lease, said)
            seen.set_attribute("kind", outcome.action.value)
        return outcome

    async def _write(
        self,
        new: Memory | Embedded,
        run: str | None,
        calls: CallBudget,
        lease: Lease | None,
        said: _Said,
    ) -> Outcome:
        """Decide and apply; again where others came first, in the end without the model."""
        if said.merge is not None and isinstance(new, Embedded):
            joined = await self._join(new, said.merge, said.joining, run, lease)
            if isinstance(joined, Outcome):
                return joined
            said = said.moved(joined.why)
        usage, budget = said.joining.usage, Budget(self._budget_s)
        attempt = 0
        while not isinstance(prepared := await in_thread(self._prepare, new, said.shown), Known):
            attempt += 1
            if attempt < _MOST_DECISIONS:
                decision, condition = await self._decide(prepared, attempt, budget, calls, said)
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
            said = said.moved(done.why)
        return Outcome(prepared.memory, Action.KNOWN, "it arrived before", usage)

    async def _join(
        self, new: Embedded, merge: Decision, said: Joining, run: str | None, lease: Lease | None
    ) -> Outcome | Conflict:
        """Apply an accepted merge of a new memory with those that it names."""
        condition: Condition = WhileMergeable(said.revision, Asker(self._model.name).bound_by)
        condition = condition if lease is None else WhileHeld(lease, condition)
        done = await in_thread(self._store.apply, merge, condition, arrival=new, run=run)
        if isinstance(done, Conflict):
            logger.info("what extraction names is not joined: %s", done.why)
            return done
        log_merges(merge)
        return Outcome(done.memory, merge.action, merge.reason, said.usage)

    def _prepare(
        self, new: Memory | Embedded, shown: frozenset[str] = frozenset()
    ) -> Known | _Prepared:
        if not self._config.dedup_enabled:
            received = self._store.receive(new)
            if isinstance(received, Known):
                return received
            return _Prepared(Arrival(received, Unsearched(_OFF)))
        k = self._config.dedup_candidates
        found = self._store.prepare(new, k, self._rules.lower, Asker(self._model.name))
        if isinstance(found, Known):
            return found
        return self._by_rule(found, self._cohesive(found), shown)

    async def _decide(
        self,
        prepared: _Prepared,
        attempt: int,
        budget: Budget,
        calls: CallBudget,
        said: _Said,
    ) -> tuple[Decision, Condition]:
        """The decision, and what must still hold when it is applied."""
        arrival = prepared.arrival
        new, found = arrival.new.memory, arrival.neighbours
        if not self._config.dedup_enabled:
            return add(new, _OFF), Anyway()
        if isinstance(found, Unsearched) or prepared.decided is None:
            assert isinstance(found, Unsearched)
            logger.warning("similarity query failed, storing the memory anyway: %s", found.why)
            reason = f"similarity query failed: {found.why}"
            return add(new, reason, pending=True), UnlessRepeated()
        matches = prepared.matches
        decision, match = prepared.decided
        if isinstance(decision, Decision) and decision.action is Action.ADD:
            hearsay = len(matches) < len(found.matches)
            decision = replace(decision, reason=_HEARSAY) if hearsay else decision
        _log_check(new, match, decision)
        if said.is_open and (isinstance(decision, Question) or decision.action is Action.ADD):
            decision = said.left_open(new)
        elif isinstance(decision, Question):
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
        if not calls.left:
            return _undecided(arrival, "the budget of calls is spent")
        decision = await self._judging.decide(question, Asking(calls, budget), most_answers=1)
        return decision if calls.answered or not decision.pending else without_fallback(decision)

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
        """Find every group of near-copies and merge it; with `dry_run`, only say what would be.

        What was decided for want of a model is asked again when it is due. Rounds of pairs, groups
        and decisions follow each other until nothing is left, or `max_calls` of the model are spent
        (`dedup_calls_per_run` where it is not given): then the least alike wait for the next run. A
        model that reads pages is shown what the rules leave, up to 48 memories at a time; with
        `thorough` also what it has read in one pass only. What was decided stays when it is
        interrupted. A dry run plans the first round, asks no model, opens no index and writes
        nothing; with `groups` its report holds only so many of them, the least certain first.
        `on_page` hears of pages as they are read, else `on_progress`; `on_plan` of the first round
        before it is paid for; `on_compared`, from a thread, how many texts were compared while a
        round looks for pairs.
        """
        asker = Asker(self._model.name, thorough=thorough)
        batch = self._batch(asker, max_calls, on_compared)
        if dry_run:
            return (await batch.audit(Chosen(groups))).report
        return await batch.run(on_progress, on_plan, on_page)

    async def audit(
        self, chosen: Chosen | None = None, on_compared: Progress | None = None
    ) -> Audit:
        """What `deduplicate_all` would do first; its report has only the chosen groups."""
        batch = self._batch(Asker(self._model.name), None, on_compared)
        return await batch.audit(chosen or Chosen())

    async def plan(self, asker: Asker | None = None) -> RoundPlan:
        """What the first round of a batch would do, group by group; nothing is changed.

        `asker` is who is to decide, else the model.
        """
        return (await self._batch(asker or Asker(self._model.name), None).audit(Chosen(0))).plan

    async def retry_pending(
        self,
        *,
        again: bool = False,
        on_progress: Progress | None = None,
        on_page: Progress | None = None,
        on_compared: Progress | None = None,
    ) -> DeduplicationReport:
        """Ask at once what the model could not answer when it was asked, and nothing else.

        With `again` the whole store is asked about again, but for what a person told apart.
        """
        asker = Asker(self._model.name, Insistence.AGAIN if again else Insistence.NOW)
        if again:
            await in_thread(self._judging.try_reader_again)
        batch = self._batch(asker, None, on_compared)
        return await batch.run(on_progress, on_page=on_page, pending_only=not again)

    def _batch(
        self, asker: Asker, max_calls: int | None, on_compared: Progress | None = None
    ) -> Batch:
        way = BatchSettings(
            self._rules,
            self._config.dedup_candidates,
            self._concurrency,
            self._page_rules(asker),
            self._budget_s,
            self._price,
            self._work,
            on_compared,
        )
        calls = self._calls(max_calls)
        return Batch(self._store, asker, self._model, way, self._ask_about, calls)

    def _page_rules(self, asker: Asker) -> PageRules | None:
        """Pages for a model that reads more than a small group at once; a person has cards."""
        size = min(self._model.page_size, MOST_ON_PAGE)
        if asker.model != self._model.name or size <= MOST_ASKED:
            return None
        return PageRules(size, self._config.read_private, asker.thorough)

    async def _ask_about(self, question: Question, calls: CallBudget) -> Decision:
        asking = Asking(calls, Budget(self._budget_s))
        return await self._judging.decide(question, asking, _MOST_ANSWERS)

    def _calls(self, max_calls: int | None) -> CallBudget:
        return CallBudget(self._config.dedup_calls_per_run if max_calls is None else max_calls)


def _with_living(
    outcomes: Sequence[Outcome],
    decided: Sequence[tuple[Embedded, Decision]],
    done: Sequence[Applied],
) -> list[Outcome]:
    """The outcomes with who lives for each that was stored."""
    living = {new.memory.id: one.memory for (new, _), one in zip(decided, done, strict=True)}
    return [
        one
        if one.action is Action.KNOWN
        else replace(one, memory=living.get(one.memory.id, one.memory))
        for one in outcomes
    ]


def _undecided(arrival: Arrival, why: str) -> Decision:
    return add(arrival.new.memory, why, pending=True)


def _extracted(one: Memory | Extracted) -> Extracted:
    return one if isinstance(one, Extracted) else Extracted(one)


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

"""Store the turns of conversations, and extract memories from them in the background.

When the memories of a turn are stored, the text of the turn is erased. Only the last few turns of a
conversation keep their texts longer, as context for the next turns. After a crash or a failure of
the model, turns stay pending, and the next process continues. Only one process at a time extracts a
conversation.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Generic, TypeVar

from memory.deduplicator import MemoryDeduplicator
from memory.errors import (
    LeaseLost,
    LedgerError,
    MemoryPipelineError,
    ModelError,
    ModelRefused,
    ModelTooSlow,
    ModelUnavailable,
)
from memory.extractor.turn_reader import TurnReader, TurnsRead, after_silences, summed
from memory.ledger import Lease, Ledger, PendingTurn, Reader, Waiting
from memory.models import (
    MOST_ON_PAGE,
    Action,
    DeduplicationReport,
    ExtractionResult,
    LanguageModel,
    Outcome,
    Progress,
    Scope,
    Turn,
)
from memory.providers import completed
from memory.runtime import in_thread
from memory.store import MemoryStore

logger = logging.getLogger(__name__)

T = TypeVar("T")
Of = TypeVar("Of", bound=Hashable)

_MOST_ATTEMPTS = 3

OnExtracted = Callable[[ExtractionResult], None]
"""A callback that the extracting thread calls with the result of each extraction."""
_LOOK_S = 5.0
"""Seconds between checks for turns that another process has stored but not extracted."""
_LOOK_WHILE_SETTLING_S = 0.2
_RETRY_IF_HELD_S = 1.0
_PAUSE_IF_UNREADABLE_S = 60.0
LEASE_S = 15.0
"""Seconds after which a lease expires if it is not renewed.

If a process is killed, other processes wait this long before they extract its conversations. A
lease is renewed after each third of this time, so that a short restart of the database does not end
it.
"""
_LONGEST_PAUSE_S = 60.0


class MemoryExtractor:
    """Stores the turns of a chatbot and extracts memories from them with a language model.

    It is bound to no event loop, and several event loops and threads may use it at the same time.

    `turns_at_once`: the greatest number of turns of a conversation in one call of the model.
    `concurrency`: how many conversations `extract_and_store` extracts at the same time. `budget_s`:
    seconds for one call, retries included. `categories`: the allowed ones, if there are any; a
    memory with another one gets the first.

    >>> from memory.assembly import build_extractor
    >>> extractor = build_extractor(store, config, model)
    >>> await extractor.count_waiting() >= 0
    True
    """

    def __init__(
        self,
        store: MemoryStore,
        deduplicator: MemoryDeduplicator,
        model: LanguageModel,
        *,
        turns_at_once: int = 10,
        concurrency: int = 1,
        budget_s: float = 60.0,
        categories: Sequence[str] = (),
    ) -> None:
        self._store = store
        model = completed(model)
        self._reader = TurnReader(
            store, deduplicator, model, budget_s=budget_s, categories=categories
        )
        self.turns_at_once = turns_at_once
        self._concurrency = concurrency

    async def keep(self, turns: Sequence[Turn]) -> int:
        """Store turns, to be extracted later; return the number of turns that were already stored.

        A turn is recognised by its conversation, text and id. For a turn without an id, its
        position in `turns` is used instead. A turn that was created without a conversation is
        put into one that has the speaker's name. If only one person speaks in such turns, the bot's
        turns among them are put into this person's conversation.

        Raises: LedgerError.
        """
        return await in_thread(
            self._keep, [(turn, turn.id or f"#{n}") for n, turn in enumerate(_answered(turns))]
        )

    async def keep_one(self, turn: Turn) -> None:
        """Store a turn that was just spoken, to be extracted later.

        A turn without an id is recognised by its time, conversation and text.

        Raises: LedgerError.
        """
        name = turn.id or f"@{turn.at.astimezone(UTC).isoformat()}"
        await in_thread(self._keep, [(turn, name)])

    async def extract_and_store(
        self, turns: Sequence[Turn] = (), *, on_progress: Progress | None = None
    ) -> ExtractionResult:
        """Store turns, and extract memories from all turns that wait, including these.

        Turns that were stored before are not stored twice. If another process is extracting a
        conversation, wait for it. If the model fails, turns stay pending. `on_progress` is called
        with the number of turns that are extracted and the number of all turns.

        Raises: LedgerError.
        """
        known = await self.keep(turns)
        driver = BackgroundExtraction(self, at_once=self._concurrency, wait_s=math.inf)
        running = asyncio.create_task(driver.run())
        try:
            result = await driver.settle(on_progress)
        finally:
            await driver.stop()
            await running
        if driver.fault is not None and not isinstance(driver.fault, ModelError):
            raise driver.fault
        return replace(result, known=known)

    async def waiting(self) -> list[Waiting]:
        """Return the conversations that have turns to extract, longest waiting first.

        Turns whose extraction failed three times do not count.
        """
        return await in_thread(
            self._read, lambda reader: reader.turns.conversations(_MOST_ATTEMPTS)
        )

    async def count_waiting(self) -> int:
        """Count the turns that are not extracted, including turns given up after failures."""
        return await in_thread(self._read, lambda reader: reader.turns.count_waiting())

    async def extract_conversation(
        self,
        conversation: str,
        *,
        on_chunk: OnExtracted | None = None,
        wait_s: float = 0.0,
    ) -> TurnsRead | None:
        """Extract the waiting turns of a conversation; None if another process is extracting it.

        The turns are read in chunks of at most `turns_at_once` turns. If fewer turns are waiting,
        they are only read if the first of them has waited for at least `wait_s` seconds. `on_chunk`
        is called with the result of each chunk, unless the result is empty.

        If the model refuses a chunk or takes too long, the next chunk is tried. If this succeeds,
        a failure is counted for each turn of the failed chunk. If the next chunk fails too, the
        model may be at fault. Then no failure is counted, and the extraction ends.

        Raises: LedgerError.
        """
        work = TurnsRead()
        async with leased(self._store.ledger, conversation) as lease:
            if lease is None:
                return None
            after = 0
            unanswered = list[PendingTurn]()
            while chunk := await in_thread(self._next_chunk, conversation, after, wait_s):
                after = chunk[-1].seq
                try:
                    part = await self._reader.read(chunk, lease)
                    if part.fault is None and unanswered:
                        await self._reader.count_attempts(unanswered, lease)
                        unanswered = []
                except LeaseLost as exc:
                    logger.warning("%s", exc)
                    return None
                work = TurnsRead(summed(work.result, part.result), part.fault or work.fault)
                if on_chunk is not None and part.result != ExtractionResult():
                    on_chunk(part.result)
                if part.fault is not None:
                    logger.warning("turns wait for the model: %s", part.fault)
                    if unanswered or not isinstance(part.fault, (ModelTooSlow, ModelRefused)):
                        break
                    unanswered = chunk
        return work

    # --- what waits ---

    def _keep(self, named: Sequence[tuple[Turn, str]]) -> int:
        if not named:
            return 0
        with self._store.ledger.writing() as writer:
            new = [writer.turns.keep(turn, name) for turn, name in named]
        return new.count(False)

    def _read(self, ask: Callable[[Reader], T]) -> T:
        with self._store.ledger.reading() as reader:
            return ask(reader)

    def _next_chunk(self, conversation: str, after: int, wait_s: float) -> list[PendingTurn]:
        with self._store.ledger.reading() as reader:
            kept = reader.turns.to_extract(conversation, _MOST_ATTEMPTS, after, self.turns_at_once)
            if len(kept) < self.turns_at_once and wait_s > 0.0:
                waited_s = {
                    one.conversation: one.waited_s
                    for one in reader.turns.conversations(_MOST_ATTEMPTS)
                }
                if waited_s.get(conversation, 0.0) < wait_s:
                    return []
        ends = after_silences([one.turn for one in kept])
        return kept[: min(ends, default=len(kept))]


class Background(ABC, Generic[Of]):
    """Does what is due in one event loop, and sleeps until something is due or it is woken.

    `_working`: the tasks under way, by what they work on.
    """

    def __init__(self) -> None:
        self._working: dict[Of, asyncio.Task[None]] = {}
        self._stopped = False
        self._woken = asyncio.Event()
        self._moved = asyncio.Event()

    def wake(self) -> None:
        """Make `run` check now what is due.

        This method is not thread-safe: call it only in the event loop that runs `run`.
        """
        self._woken.set()

    async def run(self) -> None:
        while not self._stopped:
            self._woken.clear()
            pause_s = await self._do_due()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._woken.wait()

    @abstractmethod
    async def _do_due(self) -> float | None:
        """Begin what is due; return the seconds until something else is; None if nothing is."""

    async def stop(self) -> None:
        self._stopped = True
        self._woken.set()
        self._moved.set()
        working = list(self._working.values())
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)


class BackgroundExtraction(Background[str]):
    """Extracts conversations when they are due, several at once, in one event loop.

    A conversation is due when enough of its turns are waiting to fill one call of the model, or
    when the first waiting turn has waited for `wait_s` seconds. `run` starts the extraction.

    `at_once`: the greatest number of conversations that are extracted at the same time.
    `on_extracted`: called with the result of each call of the model, unless the result contains
    only the cost of the call.
    """

    def __init__(
        self,
        extractor: MemoryExtractor,
        *,
        at_once: int,
        wait_s: float,
        on_extracted: OnExtracted | None = None,
    ) -> None:
        super().__init__()
        self._extractor = extractor
        self._at_once = at_once
        self._wait_s = wait_s
        self._on_extracted = on_extracted
        # when each conversation's last finished extraction began, in the loop's seconds
        self._last_start: dict[str, float] = {}
        self._not_before: dict[str, float] = {}
        self._paused_until = 0.0
        self._failures = 0
        self.fault: Exception | None = None
        """The last error of the model or ledger since `settle` began; None if there was none."""
        self._settling = set[asyncio.Task[object] | None]()
        self._account = ExtractionResult()

    async def stop(self) -> None:
        await super().stop()
        await asyncio.gather(*filter(None, self._settling), return_exceptions=True)

    async def settle(self, on_progress: Progress | None = None) -> ExtractionResult:
        """Wait until every turn that waits now has been extracted or tried once.

        Return the combined result of all extractions since the last call of this method. This
        method returns early if the model or the ledger fails, or if `stop` is called.
        """
        me = asyncio.current_task()
        self._settling.add(me)
        self._not_before.clear()
        self._paused_until = 0.0
        self.fault = None
        began = asyncio.get_running_loop().time()
        try:
            while not (self._stopped or self.fault):
                waiting = await self._extractor.waiting()
                starts = [self._last_start.get(one.conversation, -math.inf) for one in waiting]
                if all(start >= began for start in starts):
                    break
                if on_progress is not None:
                    left = sum(one.turns for one in waiting)
                    on_progress(self._account.extracted, self._account.extracted + left)
                self._moved.clear()
                self._woken.set()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_WHILE_SETTLING_S):
                        await self._moved.wait()
            if self._working:
                await asyncio.wait(self._working.values())
        finally:
            self._settling.discard(me)
        account, self._account = self._account, ExtractionResult()
        questions = sum(outcome.pending for outcome in account.outcomes)
        return replace(account, pending=await self._extractor.count_waiting() + questions)

    # --- what is due ---

    async def _do_due(self) -> float:
        now = asyncio.get_running_loop().time()
        if now < self._paused_until:
            return self._paused_until - now
        pause_s = _LOOK_WHILE_SETTLING_S if self._settling else _LOOK_S
        try:
            waiting = await self._extractor.waiting()
        except MemoryPipelineError as exc:
            self._failed(exc)
            return pause_s
        for one in waiting:
            if one.conversation in self._working:
                continue
            full = self._settling or one.turns >= self._extractor.turns_at_once
            due_in_s = max(
                0.0 if full else self._wait_s - one.waited_s,
                self._not_before.get(one.conversation, 0.0) - now,
            )
            if due_in_s > 0.0:
                pause_s = min(pause_s, due_in_s)
            elif len(self._working) < self._at_once and not self._stopped:
                self._working[one.conversation] = asyncio.create_task(
                    self._work_at(one.conversation)
                )
        return pause_s

    # --- one conversation ---

    async def _work_at(self, conversation: str) -> None:
        started = asyncio.get_running_loop().time()
        try:
            work = await self._extractor.extract_conversation(
                conversation,
                on_chunk=self._tell,
                wait_s=0.0 if self._settling else self._wait_s,
            )
            now = asyncio.get_running_loop().time()
            if work is None:
                self._not_before[conversation] = now + _RETRY_IF_HELD_S
                return
            self._last_start[conversation] = started
            if work.fault and not isinstance(work.fault, (ModelTooSlow, ModelRefused)):
                self._failed(work.fault)
                return
            self._failures = 0
            self._not_before.pop(conversation, None)
            if problem := str(work.fault or work.result.problem):
                self._not_before[conversation] = now + _PAUSE_IF_UNREADABLE_S
                self._last_start[conversation] = now  # tried: `settle` does not wait for the pause
                self._account = replace(self._account, problem=self._account.problem or problem)
        except MemoryPipelineError as exc:
            self._failed(exc)
        except Exception as exc:  # an own model may raise anything; extraction must go on
            logger.exception("extraction failed")
            self._failed(exc)
        finally:
            del self._working[conversation]
            self._woken.set()
            self._moved.set()

    def _tell(self, part: ExtractionResult) -> None:
        self._account = summed(self._account, part)
        if self._on_extracted is None or part == ExtractionResult(usage=part.usage):
            return
        try:
            self._on_extracted(part)
        except Exception as exc:  # the host's callback may raise anything; it is logged
            logger.warning("on_extracted failed: %s", type(exc).__name__)

    def _failed(self, exc: Exception) -> None:
        asked_s = exc.retry_after_s if isinstance(exc, ModelUnavailable) else None
        pause_s = max(asked_s or 0.0, min(2.0**self._failures, _LONGEST_PAUSE_S))
        if not self._failures and not isinstance(exc, ModelError):  # those are logged
            logger.warning("turns wait: %s", exc)
        self._failures = min(self._failures + 1, 6)
        self.fault = exc
        self._paused_until = asyncio.get_running_loop().time() + pause_s
        self._account = replace(self._account, problem=self._account.problem or str(exc))
        self._moved.set()


def _answered(turns: Sequence[Turn]) -> list[Turn]:
    """Return the turns, with the bot's answers put into the conversation of the person.

    This concerns turns that were created without a conversation: each has its speaker's name as
    its conversation. If exactly one person speaks in these turns, the bot's turns among them get
    this person's name as their conversation. Otherwise, nothing is changed.
    """
    unnamed = {n for n, turn in enumerate(turns) if "conversation" not in turn.model_fields_set}
    people = {turns[n].speaker for n in unnamed if not turns[n].is_bot}
    if len(people) != 1:
        return list(turns)
    answer = {"conversation": people.pop()}
    return [
        turn.model_copy(update=answer) if turn.is_bot and n in unnamed else turn
        for n, turn in enumerate(turns)
    ]


# --- leases -------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def leased(
    ledger: Ledger, conversation: str, seconds: float = LEASE_S
) -> AsyncIterator[Lease | None]:
    """Hold a lease on a conversation while the block runs; yield None if another process holds it.

    A thread renews the lease, which expires `seconds` after its last renewal.

    Raises: LedgerError if the lease could not be claimed.
    """
    lease = Lease(conversation, secrets.token_hex(8))
    try:
        claimed = await in_thread(_claim, ledger, lease, seconds)
    except asyncio.CancelledError:  # its thread may have claimed it
        await in_thread(_release, ledger, lease)
        raise
    if not claimed:
        yield None
        return
    ended = threading.Event()
    # A thread of its own renews: a busy event loop or thread pool must not cost the lease.
    renewing = threading.Thread(
        target=_keep_renewed, args=(ledger, lease, seconds, ended), name="lease", daemon=True
    )
    renewing.start()
    try:
        yield lease
    finally:
        ended.set()
        await in_thread(renewing.join)
        await in_thread(_release, ledger, lease)


def _claim(ledger: Ledger, lease: Lease, seconds: float) -> bool:
    with ledger.reading() as reader:  # looking is cheap; writers wait for each other
        if reader.leases.is_held(lease.conversation, seconds):
            return False
    with ledger.writing() as writer:
        return writer.leases.claim(lease, seconds)


def _release(ledger: Ledger, lease: Lease) -> None:
    try:
        with ledger.writing() as writer:
            writer.leases.release(lease)
    except LedgerError as exc:
        logger.warning("a lease is not given back and will run out: %s", exc)


def _keep_renewed(ledger: Ledger, lease: Lease, seconds: float, ended: threading.Event) -> None:
    while not ended.wait(seconds / 3):
        try:
            with ledger.writing() as writer:
                writer.leases.renew(lease, seconds)
        except LeaseLost:
            return  # the next write under the lease raises it
        except LedgerError as exc:
            logger.warning("a lease is not renewed: %s", exc)


# --- pages of what was just written --------------------------------------------------------------

PAGE_IS_DUE = 24
"""A scope is read when so many memories were written that the model has not read on a page."""
QUIET_S = 60.0
"""A scope with unread memories is read this many seconds after its last write."""
_LONGEST_REST_S = 600.0
_WRITES = frozenset({Action.ADD, Action.REPLACE, Action.MERGE, Action.KEEP_BOTH, Action.UPDATE})

OnPages = Callable[[DeduplicationReport], None]
"""A callback that is called in the background thread with the report of each reading."""


@dataclass
class _Written:
    """A scope with memories that were just written.

    `unread`: the number of memories written since the last reading. `last_s`: when the last was
    written, in the loop's seconds. After a reading that left something unread, the scope
    rests until `not_before_s`, and the next rest lasts `pause_s`.
    """

    last_s: float
    unread: int = 0
    not_before_s: float = -math.inf
    pause_s: float = QUIET_S


class BackgroundPages(Background[Scope]):
    """Has a model read the scopes that were written to: one after another, in one event loop.

    Such a reading is a batch over one scope. It finds what the rules and the questions about single
    memories do not find.

    A scope is due when 24 memories were written that the model has not read on a page, or a minute
    after the last of them. Only one process at a time reads a scope. `run` starts the reading. Call
    all methods in the event loop that runs `run`.
    """

    def __init__(
        self,
        store: MemoryStore,
        deduplicator: MemoryDeduplicator,
        *,
        is_on: bool = True,
        on_pages: OnPages | None = None,
    ) -> None:
        super().__init__()
        self._store = store
        self._deduplicator = deduplicator
        self._is_on = is_on and deduplicator.reads_pages
        self._on_pages = on_pages
        self._written: dict[Scope, _Written] = {}
        self._settling = False

    def wrote(self, outcomes: Iterable[Outcome]) -> None:
        """Take note of memories that were stored."""
        if not self._is_on:
            return
        now = asyncio.get_running_loop().time()
        for outcome in outcomes:
            if outcome.action in _WRITES:
                scope = self._store.scope_of(outcome.memory)
                written = self._written.setdefault(scope, _Written(now))
                written.last_s = now
                written.unread += 1
        self.wake()

    async def settle(self) -> None:
        """Wait until all memories that were written here are read, or cannot be read now."""
        for written in self._written.values():
            written.not_before_s = -math.inf
        self._settling = True
        try:
            while not self._stopped and any(
                written.unread and math.isinf(written.not_before_s)
                for written in self._written.values()
            ):
                self._moved.clear()
                self.wake()
                await self._moved.wait()
        finally:
            self._settling = False

    async def is_due(self) -> bool:
        """Return whether a scope is read now, or is about to be."""
        now = asyncio.get_running_loop().time()
        return bool(self._working) or any(
            self._due_in_s(written, now) <= 0.0 for written in self._written.values()
        )

    # --- what is due ---

    def _due_in_s(self, written: _Written, now: float) -> float:
        if written.unread == 0:
            return math.inf
        full = self._settling or written.unread >= PAGE_IS_DUE
        quiet_s = 0.0 if full else written.last_s + QUIET_S - now
        return max(quiet_s, written.not_before_s - now)

    async def _do_due(self) -> float | None:
        """Read all scopes that are due; return the seconds until the next is due, None if none."""
        while not self._stopped:
            now = asyncio.get_running_loop().time()
            left = {
                scope: self._due_in_s(written, now)
                for scope, written in self._written.items()
                if written.unread != 0
            }
            if not left:
                return None
            scope = min(left, key=lambda one: left[one])
            if left[scope] > 0.0:
                return left[scope]
            reading = asyncio.create_task(self._read(scope, self._written[scope]))
            self._working[scope] = reading
            try:
                await asyncio.wait([reading])
            finally:
                del self._working[scope]
            self._moved.set()
        return None

    # --- one scope ---

    async def _read(self, scope: Scope, written: _Written) -> None:
        try:
            await self._read_pages(scope, written)
        except MemoryPipelineError as exc:
            logger.warning("a page waits: %s", exc)
            self._rest(written)
        except Exception:  # an own model may raise anything; other scopes go on
            logger.exception("reading a page failed")
            self._rest(written)

    async def _read_pages(self, scope: Scope, written: _Written) -> None:
        before = written.unread
        report = await _read_alone(self._store, self._deduplicator, scope)
        if report is None or report.pages_left or report.failure:
            self._rest(written)
            return
        written.unread -= min(before, MOST_ON_PAGE)  # a reading takes the newest 48
        written.not_before_s, written.pause_s = -math.inf, QUIET_S
        if self._on_pages is not None:
            self._on_pages(report)

    def _rest(self, written: _Written) -> None:
        """Let a scope rest: no call is left, the model failed, or another process reads it."""
        written.not_before_s = asyncio.get_running_loop().time() + written.pause_s
        written.pause_s = min(2 * written.pause_s, _LONGEST_REST_S)


async def _read_alone(
    store: MemoryStore, deduplicator: MemoryDeduplicator, scope: Scope, *, proposes: bool = False
) -> DeduplicationReport | None:
    """Call `read_scope`; return None if another process reads the scope now."""
    async with leased(store.ledger, f"pages of {scope.key}") as lease:
        if lease is None:
            return None
        return await deduplicator.read_scope(scope, proposes=proposes)


async def propose(store: MemoryStore, deduplicator: MemoryDeduplicator, scope: Scope) -> str:
    """Have a model read what it has not read of a scope, and record what it would merge.

    Nothing is merged. Return why a page is left unread; "" if none is.
    """
    try:
        report = await _read_alone(store, deduplicator, scope, proposes=True)
    except MemoryPipelineError as exc:
        return str(exc)
    if report is None or not report.pages_left:
        return ""
    return report.failure or "no call is left in this hour"

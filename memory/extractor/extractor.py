"""Turns of a conversation become memories: turns -> candidates -> deduplicator.

Turns are durable. They are kept in the ledger first; what a model found in them is kept with them;
when their memories are stored, only the last few keep their text, as context for the next. A crash
or a failing model in between leaves them pending, and the next process continues where this one
stopped. One at a time extracts a conversation, whichever process it lives in.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from memory.deduplicator import MemoryDeduplicator
from memory.errors import (
    LeaseLost,
    MemoryPipelineError,
    ModelError,
    ModelRefused,
    ModelTooSlow,
    ModelUnavailable,
)
from memory.extractor.leasing import leased
from memory.extractor.turn_reader import TurnReader, TurnsRead, summed
from memory.ledger import PendingTurn, Reader, Waiting
from memory.models import ExtractionResult, Turn, Usage
from memory.protocols import LanguageModel
from memory.runtime import Progress, in_thread
from memory.store import MemoryStore

logger = logging.getLogger(__name__)

T = TypeVar("T")

_ATTEMPTS = 3
"""Tries of a turn that the model cannot read, before it is left alone."""

OnExtracted = Callable[[ExtractionResult], None]
"""Called with what became of some turns, as soon as it has; in the background's own thread."""
_LOOK_S = 5.0
"""Seconds between looks for turns that another process kept and did not extract."""
_LOOK_WHILE_SETTLING_S = 0.2
_HELD_S = 1.0
"""Seconds until a conversation is tried again that another process extracts."""
_UNREADABLE_S = 60.0
"""Seconds that a conversation rests after turns that the model could not read in time."""
_LONGEST_PAUSE_S = 60.0
"""Longest pause between tries of a failing model, unless it asks for more; the first is 1 s."""


class MemoryExtractor:
    """The hook of a chatbot: it extracts memories from what was said.

    Holds nothing of any event loop: it may be used from several, in several threads, at once.
    """

    def __init__(
        self,
        store: MemoryStore,
        deduplicator: MemoryDeduplicator,
        model: LanguageModel,
        *,
        turns_at_once: int = 10,
        gap_s: float = 21_600.0,
        concurrency: int = 1,
        budget_s: float = 60.0,
    ) -> None:
        """`turns_at_once` is how many turns of one conversation a model is shown in one call.

        No call spans a silence of more than `gap_s`. `concurrency` is how many conversations are
        extracted side by side. `budget_s` is how long one call may take, all tries together.
        """
        self._store = store
        self._reader = TurnReader(store, deduplicator, model, gap_s=gap_s, budget_s=budget_s)
        self.model_name = model.name
        self.turns_at_once = turns_at_once
        self._gap_s = gap_s
        self._concurrency = concurrency

    async def keep(self, turns: Sequence[Turn]) -> int:
        """Make turns durable without extracting them yet; return how many were known before.

        A turn is known by its conversation, its id (else its position in `turns`) and its text.
        The bot's turns without a conversation go into that of the only person without one.

        Raises: LedgerError.
        """
        named = [
            (turn, turn.id or f"#{position}") for position, turn in enumerate(_answered(turns))
        ]
        return await in_thread(self._keep, named)

    async def keep_one(self, turn: Turn) -> None:
        """Make a turn durable that is just spoken: without an id it is known by its time.

        Raises: LedgerError.
        """
        await in_thread(self._keep, [(turn, turn.id or f"@{turn.at.isoformat()}")])

    async def extract_and_store(
        self, turns: Sequence[Turn] = (), *, on_progress: Progress | None = None
    ) -> ExtractionResult:
        """Extract these turns, and those that earlier calls kept or left.

        A turn that was handed over before adds nothing. What others extract is waited for. Where
        the model fails, turns stay pending.

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
        """Return the conversations with turns to extract, the longest wait first."""
        return await in_thread(self._read, lambda reader: reader.turns.conversations(_ATTEMPTS))

    async def count_waiting(self) -> int:
        """Count the turns that are not extracted, those that were given up with them."""
        return await in_thread(self._read, lambda reader: reader.turns.count_waiting())

    async def extract_conversation(
        self,
        conversation: str,
        *,
        on_chunk: OnExtracted | None = None,
        wait_s: float = 0.0,
    ) -> TurnsRead | None:
        """Extract what waits in a conversation; return None if another process does so.

        As long as there are `turns_at_once`, or the first of them has waited for `wait_s`.
        One call that is too slow or refused holds up no later one; of two in a row the model may be
        at fault, and no turn.
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
                result = summed(work.result, part.result)
                if part.fault and work.fault:  # what the earlier one cost is not in a result yet
                    result = replace(result, usage=result.usage + Usage.of_failure(work.fault))
                work = TurnsRead(result, part.fault or work.fault)
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
        """Return the turns for the next call; none if they should wait for more."""
        with self._store.ledger.reading() as reader:
            kept = reader.turns.to_extract(conversation, _ATTEMPTS, after, self.turns_at_once)
            if len(kept) < self.turns_at_once and wait_s > 0.0:
                waiting = reader.turns.conversations(_ATTEMPTS)
                waited = (one.waited_s for one in waiting if one.conversation == conversation)
                if next(waited, 0.0) < wait_s:
                    return []
        return _until_silence(kept, self._gap_s)


class BackgroundExtraction:
    """Extracts conversations concurrently, as they fall due. Lives in one event loop."""

    def __init__(
        self,
        extractor: MemoryExtractor,
        *,
        at_once: int,
        wait_s: float,
        on_extracted: OnExtracted | None = None,
    ) -> None:
        """A conversation is due once a call is full, or `wait_s` after its first turn."""
        self._extractor = extractor
        self._at_once = at_once
        self._wait_s = wait_s
        self._on_extracted = on_extracted
        self._working: dict[str, asyncio.Task[None]] = {}
        self._worked: dict[str, float] = {}
        """Loop time at which the last finished extraction of a conversation began."""
        self._not_before: dict[str, float] = {}
        self._paused_until = 0.0
        self._failures = 0
        self.fault: Exception | None = None
        """The last error."""
        self._faults = 0
        self._settling = set[asyncio.Task[object] | None]()
        self._stopped = False
        self._account = ExtractionResult()
        self._woken = asyncio.Event()
        self._moved = asyncio.Event()

    def wake(self) -> None:
        """Check what is due, after turns were kept. Call it from its own loop only."""
        self._woken.set()

    async def run(self) -> None:
        """Extract what falls due, until `stop`."""
        while not self._stopped:
            self._woken.clear()
            pause_s = await self._start_due()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._woken.wait()

    async def stop(self) -> None:
        """Cancel what is running; its turns are left for the next start."""
        self._stopped = True
        self._woken.set()
        self._moved.set()
        working = list(self._working.values())
        for task in working:
            task.cancel()
        settling = [task for task in self._settling if task is not None]
        await asyncio.gather(*working, *settling, return_exceptions=True)

    async def settle(self, on_progress: Progress | None = None) -> ExtractionResult:
        """Wait until all that waits now was extracted or tried once.

        Return what was extracted since the last call; end early if the model fails, or at `stop`.
        """
        me = asyncio.current_task()
        self._settling.add(me)
        self._not_before.clear()
        self._paused_until = 0.0
        began, faults = asyncio.get_running_loop().time(), self._faults
        try:
            while not self._stopped and self._faults == faults and await self._unsettled(began):
                if on_progress is not None:
                    left = sum(one.turns for one in await self._extractor.waiting())
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

    async def _start_due(self) -> float:
        """Start what is due; return the seconds until something else may be."""
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
                work = self._work_at(one.conversation)
                self._working[one.conversation] = asyncio.create_task(work)
        return pause_s

    async def _unsettled(self, began: float) -> bool:
        """Whether turns wait in a conversation that was not extracted since `began`."""
        waiting = await self._extractor.waiting()
        return any(self._worked.get(one.conversation, -math.inf) < began for one in waiting)

    # --- one conversation ---

    async def _work_at(self, conversation: str) -> None:
        started = asyncio.get_running_loop().time()
        try:
            work = await self._extractor.extract_conversation(
                conversation,
                on_chunk=self._tell,
                wait_s=0.0 if self._settling else self._wait_s,
            )
            if work is not None:
                self._worked[conversation] = started
            self._note(conversation, work)
        except MemoryPipelineError as exc:
            self._failed(exc)
        except Exception as exc:  # nothing that fails here may end the background
            logger.exception("extraction failed")
            self._failed(exc)
        finally:
            del self._working[conversation]
            self._woken.set()
            self._moved.set()

    def _note(self, conversation: str, work: TurnsRead | None) -> None:
        now = asyncio.get_running_loop().time()
        if work is not None and work.fault is not None:
            paid = self._account.usage + Usage.of_failure(work.fault)
            self._account = replace(self._account, usage=paid)
        if work is None:
            self._not_before[conversation] = now + _HELD_S
        elif work.fault is None or isinstance(work.fault, (ModelTooSlow, ModelRefused)):
            self._failures = 0
            self._not_before.pop(conversation, None)
            if problem := str(work.fault or work.result.problem):
                self._not_before[conversation] = now + _UNREADABLE_S
                self._worked[conversation] = now  # tried: `settle` does not wait for the pause
                self._account = replace(self._account, problem=self._account.problem or problem)
        else:
            self._failed(work.fault)

    def _tell(self, part: ExtractionResult) -> None:
        self._account = summed(self._account, part)
        if self._on_extracted is None:
            return
        try:
            self._on_extracted(part)
        except Exception as exc:  # whatever a host hangs here
            logger.warning("on_extracted failed: %s", type(exc).__name__)

    def _failed(self, exc: Exception) -> None:
        """Pause after an error of the model or the ledger."""
        asked_s = exc.retry_after_s if isinstance(exc, ModelUnavailable) else None
        pause_s = max(asked_s or 0.0, min(2.0**self._failures, _LONGEST_PAUSE_S))
        if not self._failures and not isinstance(exc, ModelError):  # those are logged
            logger.warning("turns wait: %s", exc)
        self._failures = min(self._failures + 1, 6)
        self.fault = exc
        self._faults += 1
        self._paused_until = asyncio.get_running_loop().time() + pause_s
        self._account = replace(self._account, problem=self._account.problem or str(exc))
        self._moved.set()


def _answered(turns: Sequence[Turn]) -> list[Turn]:
    """Put the bot's turns without a conversation into that of the only person without one."""
    people = {turn.speaker for turn in turns if _is_alone(turn) and not turn.is_bot}
    if len(people) != 1:
        return list(turns)
    answers = {"conversation": people.pop()}
    return [
        turn.model_copy(update=answers) if turn.is_bot and _is_alone(turn) else turn
        for turn in turns
    ]


def _is_alone(turn: Turn) -> bool:
    """Whether the turn was made without a conversation."""
    return "conversation" not in turn.model_fields_set


def _until_silence(kept: Sequence[PendingTurn], gap_s: float) -> list[PendingTurn]:
    """Return the turns up to the first silence longer than `gap_s`."""
    part = list(kept[:1])
    for one in kept[1:]:
        if abs((one.turn.at - part[-1].turn.at).total_seconds()) > gap_s:
            break
        part.append(one)
    return part

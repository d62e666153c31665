"""Extraction in the background: which conversation is due."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace

from memory.errors import MemoryPipelineError, ModelTooSlow, ModelUnavailable
from memory.extractor import MemoryExtractor
from memory.ledger import Waiting
from memory.models import ExtractionResult, Usage
from memory.threads import Progress
from memory.turn_reader import Work, summed

logger = logging.getLogger(__name__)

OnExtracted = Callable[[ExtractionResult], None]
"""Told, in the background's own thread, what became of some turns."""
_LOOK_S = 5.0
"""How often it looks for turns that others kept and did not live to extract."""
_LOOK_WHILE_SETTLING_S = 0.2
_HELD_S = 1.0
"""How long a conversation is left alone that another process is at."""
_UNREADABLE_S = 60.0
"""How long a conversation rests after turns that the model could not read, or not in time."""
_LONGEST_PAUSE_S = 60.0
"""Between tries of a model that fails: from a second up to this, or as long as it asks for."""


class BackgroundExtraction:
    """Extracts conversations side by side as they fall due. Lives in one event loop."""

    def __init__(
        self,
        extractor: MemoryExtractor,
        *,
        at_once: int,
        wait_s: float,
        on_extracted: OnExtracted | None = None,
    ) -> None:
        """A conversation is due with a full call of turns, or `wait_s` after the first of them."""
        self._extractor = extractor
        self._at_once = at_once
        self._wait_s = wait_s
        self._on_extracted = on_extracted
        self._working: dict[str, asyncio.Task[None]] = {}
        self._not_before: dict[str, float] = {}
        self._paused_until = 0.0
        self._failures = 0
        self._faults = 0
        self._settling = set[asyncio.Task[object] | None]()
        self._stopped = False
        self._account = ExtractionResult()
        self._woken = asyncio.Event()
        self._moved = asyncio.Event()

    def wake(self) -> None:
        """Turns were kept: see what is due. Only from its own loop."""
        self._woken.set()

    async def run(self) -> None:
        """Until `stop`."""
        while not self._stopped:
            self._woken.clear()
            pause_s = await self._start_due()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._woken.wait()

    async def stop(self) -> None:
        """End what is under way; its turns are left for the next start."""
        self._stopped = True
        self._woken.set()
        self._moved.set()
        working = list(self._working.values())
        for task in working:
            task.cancel()
        settling = [task for task in self._settling if task is not None]
        await asyncio.gather(*working, *settling, return_exceptions=True)

    async def settle(self, on_progress: Progress | None = None) -> ExtractionResult:
        """Wait until all that can be extracted is, without waiting for more turns.

        Gives what was extracted since this was last asked; ends early where the model fails, or
        where this is stopped.
        """
        me = asyncio.current_task()
        self._settling.add(me)
        self._not_before.clear()
        self._paused_until = 0.0
        faults = self._faults
        try:
            while not self._stopped and self._faults == faults and await self._unsettled():
                if on_progress is not None:
                    left = sum(one.turns for one in await self._extractor.waiting())
                    on_progress(self._account.extracted, self._account.extracted + left)
                await self._next_move()
        finally:
            self._settling.discard(me)
        account, self._account = self._account, ExtractionResult()
        return account.with_waiting(await self._extractor.count_waiting())

    # --- what is due ---

    async def _start_due(self) -> float:
        """Start what is due; gives for how long nothing more will be."""
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
            due_in_s = max(self._due_in_s(one), self._not_before.get(one.conversation, 0.0) - now)
            if due_in_s > 0.0:
                pause_s = min(pause_s, due_in_s)
            elif len(self._working) < self._at_once and not self._stopped:
                self._start(one.conversation)
        return pause_s

    def _due_in_s(self, one: Waiting) -> float:
        if self._settling or one.turns >= self._extractor.turns_at_once:
            return 0.0
        return self._wait_s - one.waited_s

    async def _unsettled(self) -> bool:
        """Whether turns wait that are not known to be unreadable."""
        if self._working:
            return True
        now = asyncio.get_running_loop().time()
        rests = {name for name, until in self._not_before.items() if until > now + _HELD_S}
        return any(one.conversation not in rests for one in await self._extractor.waiting())

    async def _next_move(self) -> None:
        self._moved.clear()
        self._woken.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_WHILE_SETTLING_S):
                await self._moved.wait()

    # --- one conversation ---

    def _start(self, conversation: str) -> None:
        task = asyncio.create_task(self._work_at(conversation))
        self._working[conversation] = task

    async def _work_at(self, conversation: str) -> None:
        try:
            work = await self._extractor.extract_conversation(
                conversation,
                on_chunk=self._tell,
                wait_s=0.0 if self._settling else self._wait_s,
            )
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

    def _note(self, conversation: str, work: Work | None) -> None:
        now = asyncio.get_running_loop().time()
        if work is not None and work.fault is not None:
            paid = self._account.usage + Usage.of_failure(work.fault)
            self._account = replace(self._account, usage=paid)
        if work is None:
            self._not_before[conversation] = now + _HELD_S
        elif work.fault is None or isinstance(work.fault, ModelTooSlow):
            self._failures = 0
            self._not_before.pop(conversation, None)
            if problem := str(work.fault or work.result.problem):
                self._not_before[conversation] = now + _UNREADABLE_S
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
            logger.warning("whoever is told of extractions failed: %s", type(exc).__name__)

    def _failed(self, exc: Exception) -> None:
        """Leave the model, or the ledger, alone for a while."""
        asked_s = exc.retry_after_s if isinstance(exc, ModelUnavailable) else None
        pause_s = max(asked_s or 0.0, min(2.0**self._failures, _LONGEST_PAUSE_S))
        if not isinstance(exc, MemoryPipelineError) or not self._failures:
            logger.warning("turns wait, the next try is in %.0f s: %s", pause_s, exc)
        self._failures = min(self._failures + 1, 6)
        self._faults += 1
        self._paused_until = asyncio.get_running_loop().time() + pause_s
        self._account = replace(self._account, problem=self._account.problem or str(exc))
        self._moved.set()

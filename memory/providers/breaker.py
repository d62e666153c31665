"""A language model that is left alone for a while after it failed several times in a row.

Closed, every question goes through. After `failures` in a row it opens: questions fail at once,
for a pause. Then one question goes through on trial: an answer closes it again, whatever it says;
a failure opens it for twice as long.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import ParamSpec, TypeVar

from memory.errors import ModelError, ModelNotAsked, ModelUnavailable
from memory.models import (
    Extraction,
    Memory,
    ProposedMerge,
    Question,
    Reply,
    Rereading,
    Turn,
    Usage,
    Verdict,
)
from memory.protocols import LanguageModel
from memory.runtime import telemetry

logger = logging.getLogger(__name__)

_LONGEST_PAUSE_S = 600.0
_LONGEST_RETRY_AFTER_S = 3_600.0
"""A server that asks for more is tried all the same: it may not mean it."""

P = ParamSpec("P")
Answer = TypeVar("Answer", Verdict, Rereading, Extraction, Reply)


class CircuitBreaker:
    """The model inside, until it fails too often. Judge, extractor and conversation share it."""

    def __init__(
        self,
        model: LanguageModel,
        *,
        failures: int = 5,
        pause_s: float = 30.0,
        patience_s: float = 15.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A question whose asker gives up after `patience_s` or more counts as a failure.

        Without that, a model that hangs for longer than its askers wait would never be seen to
        fail. `clock` is in seconds and never goes back.
        """
        self._model = model
        self._limit = failures
        self._first_pause_s = pause_s
        self._patience_s = patience_s
        self._clock = clock
        self._failures = 0
        self._first_at_s = 0.0
        self._why = ""
        self._pause_s = 0.0
        self._until_s = 0.0
        self._on_trial = False

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def page_size(self) -> int:
        return self._model.page_size

    async def judge(self, question: Question) -> Verdict:
        """Raises: ModelError; ModelNotAsked at once while it is open."""
        return await self._asked("judge", self._model.judge, question)

    async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
        """Raises: ModelError; ModelNotAsked at once while it is open."""
        return await self._asked("reread", self._model.reread, merges)

    async def extract(
        self,
        turns: Sequence[Turn],
        *,
        context: Sequence[Turn] = (),
        remembered: Sequence[Memory] = (),
    ) -> Extraction:
        """Raises: ModelError; ModelNotAsked at once while it is open."""
        return await self._asked(
            "extract", self._model.extract, turns, context=context, remembered=remembered
        )

    async def reply(self, turns: Sequence[Turn], recalled: Sequence[Memory]) -> Reply:
        """Raises: ModelError; ModelNotAsked at once while it is open."""
        return await self._asked("reply", self._model.reply, turns, recalled)

    async def aclose(self) -> None:
        await self._model.aclose()

    async def _asked(
        self, what: str, ask: Callable[P, Awaitable[Answer]], *args: P.args, **kwargs: P.kwargs
    ) -> Answer:
        trial = self._admit()
        asked_at_s = self._clock()
        try:
            with telemetry.asking(self.name, what) as call:
                answer = await _told_to(call, ask(*args, **kwargs))
        except ModelUnavailable as exc:
            self._failed(exc.problem, exc.retry_after_s or 0.0, trial)
            raise
        except ModelError:  # it was reached: the question, the answer or the key is at fault
            self._answered()
            raise
        except asyncio.CancelledError:
            if self._clock() - asked_at_s >= self._patience_s:
                self._failed("no answer in time", 0.0, trial)
            raise
        finally:
            if trial:
                self._on_trial = False
        self._answered()
        return answer

    @property
    def _open(self) -> bool:
        return self._pause_s > 0.0

    def _admit(self) -> bool:
        """Whether this question is the one on trial.

        Raises: ModelNotAsked where it must not be asked.
        """
        if not self._open:
            return False
        left_s = self._until_s - self._clock()
        if left_s > 0.0 or self._on_trial:
            raise self._refusal(max(left_s, 0.0))
        self._on_trial = True
        return True

    def _refusal(self, left_s: float) -> ModelNotAsked:
        ago_s = self._clock() - self._first_at_s
        return ModelNotAsked(
            f"the model is not asked: {self._failures} questions in a row failed ({self._why}), "
            f"the first {_in_words(ago_s)} ago",
            f"it is tried again in {_in_words(left_s)}" if left_s else "it is being tried again",
            retry_after_s=left_s,
        )

    def _failed(self, why: str, retry_after_s: float, trial: bool) -> None:
        now_s = self._clock()
        asked_for_s = min(retry_after_s, _LONGEST_RETRY_AFTER_S)
        if self._open and not trial:  # it was asked before the others failed
            self._until_s = max(self._until_s, now_s + asked_for_s)
            return
        self._first_at_s = self._first_at_s if self._failures else now_s
        self._failures += 1
        self._why = why
        if self._open or self._failures >= self._limit:
            self._open_at(now_s, asked_for_s)

    def _open_at(self, now_s: float, asked_for_s: float) -> None:
        """For the first pause, or for twice the last one; longer where the server asks for it."""
        again = self._open
        self._pause_s = min(2.0 * self._pause_s, _LONGEST_PAUSE_S) if again else self._first_pause_s
        self._until_s = now_s + max(self._pause_s, asked_for_s)
        logger.log(
            logging.INFO if again else logging.WARNING,
            "%s failed %d times in a row (%s): not asked for %s",
            self.name, self._failures, self._why, _in_words(self._until_s - now_s),
        )  # fmt: skip

    def _answered(self) -> None:
        if self._open:
            logger.info("%s answers again after %d failures", self.name, self._failures)
        self._failures = 0
        self._pause_s = 0.0


async def _told_to(call: telemetry.Call, asked: Awaitable[Answer]) -> Answer:
    """The answer, or the failure; what either cost is counted.

    Raises: whatever it raises.
    """
    try:
        answer = await asked
    except ModelError as exc:
        if exc.calls:
            _count(call, Usage.of_failure(exc))
        raise
    _count(call, answer.usage)
    return answer


def _count(call: telemetry.Call, usage: Usage) -> None:
    call.calls = usage.calls
    call.input_tokens = usage.input_tokens
    call.output_tokens = usage.output_tokens


def _in_words(seconds: float) -> str:
    return f"{round(seconds, 1):g} s"

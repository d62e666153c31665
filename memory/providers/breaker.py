"""A language model that is left alone for a while after several failures in a row.

While it is closed, every question goes through. After `failures` in a row it opens: questions fail
at once, for a pause. Then one question goes through on trial: an answer of any kind closes it
again, a failure opens it for twice as long.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from memory.errors import ModelError, ModelNotAsked, ModelUnavailable
from memory.models import Extraction, Reply, Rereading, Usage, Verdict
from memory.protocols import LanguageModel
from memory.providers.own import WrappedModel
from memory.runtime import telemetry

logger = logging.getLogger(__name__)

_LONGEST_PAUSE_S = 600.0
_LONGEST_RETRY_AFTER_S = 3_600.0
"""A server that asks for a longer pause is tried all the same: it may not mean it."""
_OPERATIONS: dict[type, str] = {
    Verdict: "judge", Rereading: "reread", Extraction: "extract", Reply: "reply",
}  # fmt: skip

P = ParamSpec("P")
Answer = TypeVar("Answer", Verdict, Rereading, Extraction, Reply)


class CircuitBreaker(WrappedModel):
    """The model inside, until it fails too often. Judge, extractor and conversation share it.

    Its methods raise ModelNotAsked at once while it is open.
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        failures: int = 5,
        pause_s: float = 30.0,
        patience_s: float = 15.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A question that is given up after `patience_s` or more counts as a failure.

        Without that, a model that hangs for longer than its callers wait would never be seen to
        fail. `clock` is in seconds and never goes back.
        """
        super().__init__(model, model.page_size)
        self._limit = failures
        self._first_pause_s = pause_s
        self._patience_s = patience_s
        self._clock = clock
        self._failures = 0
        self._first_at_s = 0.0
        self._why = ""
        self._pause_s = 0.0
        """Greater than 0 while it is open."""
        self._until_s = 0.0
        self._on_trial = False

    async def _ask(
        self,
        kind: type[Answer],
        ask: Callable[P, Awaitable[Answer]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Answer:
        trial = self._admit()
        asked_at_s = self._clock()
        try:
            with telemetry.asking(self.name, _OPERATIONS[kind]) as call:
                answer = await _counted(call, ask(*args, **kwargs))
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

    def _admit(self) -> bool:
        """Whether this question is the one on trial.

        Raises: ModelNotAsked if it must not be asked.
        """
        if not self._pause_s:
            return False
        left_s = self._until_s - self._clock()
        if left_s <= 0.0 and not self._on_trial:
            self._on_trial = True
            return True
        ago_s = self._clock() - self._first_at_s
        raise ModelNotAsked(
            f"the model is not asked: {self._failures} questions in a row failed ({self._why}), "
            f"the first {_in_words(ago_s)} ago",
            f"it is tried again in {_in_words(left_s)}"
            if left_s > 0.0
            else "it is being tried again",
            retry_after_s=max(left_s, 0.0),
        )

    def _failed(self, why: str, retry_after_s: float, trial: bool) -> None:
        now_s = self._clock()
        asked_for_s = min(retry_after_s, _LONGEST_RETRY_AFTER_S)
        was_open = self._pause_s > 0.0
        if was_open and not trial:  # it was asked before the others failed
            self._until_s = max(self._until_s, now_s + asked_for_s)
            return
        self._first_at_s = self._first_at_s if self._failures else now_s
        self._failures += 1
        self._why = why
        if not was_open and self._failures < self._limit:
            return
        doubled_s = min(2.0 * self._pause_s, _LONGEST_PAUSE_S)
        self._pause_s = doubled_s if was_open else self._first_pause_s
        self._until_s = now_s + max(self._pause_s, asked_for_s)
        logger.log(
            logging.INFO if was_open else logging.WARNING,
            "%s failed %d times in a row (%s): not asked for %s",
            self.name, self._failures, self._why, _in_words(self._until_s - now_s),
        )  # fmt: skip

    def _answered(self) -> None:
        if self._pause_s:
            logger.info("%s answers again after %d failures", self.name, self._failures)
        self._failures = 0
        self._pause_s = 0.0


async def _counted(call: telemetry.Call, asked: Awaitable[Answer]) -> Answer:
    """Wait for the answer and put what it, or a failure, cost into the telemetry.

    Raises: whatever it raises.
    """
    usage: Usage | None = None
    try:
        answer = await asked
        usage = answer.usage
    except ModelError as exc:
        if exc.calls:
            usage = Usage.of_failure(exc)
        raise
    finally:
        if usage is not None:
            call.calls = usage.calls
            call.input_tokens = usage.input_tokens
            call.output_tokens = usage.output_tokens
    return answer


def _in_words(seconds: float) -> str:
    return f"{round(seconds, 1):g} s"

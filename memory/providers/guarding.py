"""Wrappers for a language model (with a circuit breaker) and for an embedder of your own.

A closed circuit breaker forwards every question to the model. It opens after some failed questions
in a row, and then refuses questions for a pause. After the pause, one question is tried. If the
model answers, even with an unusable answer, the breaker closes. If it fails, the next pause is
twice as long.

A question fails if the model raises ModelUnavailable, or an exception that is not a ModelError. It
also fails if the model is so slow that the caller cancels the question.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TypeVar

from memory.errors import (
    ConfigError,
    EmbeddingError,
    MemoryPipelineError,
    ModelAnswerError,
    ModelError,
    ModelNotAsked,
    ModelUnavailable,
)
from memory.models import (
    Embedder,
    Extraction,
    LanguageModel,
    Memory,
    ProposedMerge,
    Question,
    Reply,
    Rereading,
    Turn,
    Vectors,
    Verdict,
)
from memory.runtime import OfEachLoop, telemetry

logger = logging.getLogger(__name__)

_LONGEST_PAUSE_S = 600.0
_LONGEST_RETRY_AFTER_S = 3_600.0  # even if a server asks for a longer pause

Answer = TypeVar("Answer", Verdict, Rereading, Extraction, Reply)


class GuardedModel:
    """Wraps a language model: turns failures into this package's errors, and has a circuit breaker.

    The model may be your own. If it raises an exception or returns an answer of the wrong type, a
    ModelError that names the model is raised. While the breaker is open, the methods raise
    ModelNotAsked.
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        concurrency: int | None = None,
        failures: int = 5,
        pause_s: float = 30.0,
        patience_s: float = 15.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Wrap `model` in a breaker that starts closed.

        `concurrency`: how many questions may run at once in each event loop; None means no limit.
        `failures`: how many failures in a row open the breaker. `pause_s`: seconds of the first
        pause. `patience_s`: a question that the caller cancels after this many seconds counts as
        failed.

        Raises: ConfigError if the model lacks a required attribute.
        """
        _require("the language model", model, "name judge extract reply aclose")
        if not isinstance(model.name, str) or not model.name.strip():
            raise ConfigError(
                "the language model", "", "its `name` is not a text", "see docs/own-models.md"
            )
        self.page_size = getattr(model, "page_size", 0)
        if not isinstance(self.page_size, int) or self.page_size < 0:
            raise ConfigError(
                "the language model",
                "",
                f"has the page_size {self.page_size!r}",
                "make it a number of memories, such as 48",
            )
        self._model = model
        self._concurrency = concurrency
        self._slots: OfEachLoop[AbstractAsyncContextManager[None]] = OfEachLoop()
        self._limit = failures
        self._first_pause_s = pause_s
        self._patience_s = patience_s
        self._clock = clock
        self._failures = 0
        self._first_at_s = 0.0
        self._why = ""
        self._pause_s = 0.0  # while the breaker is closed
        self._until_s = 0.0
        self._on_trial = False

    @property
    def name(self) -> str:
        return self._model.name

    async def judge(self, question: Question) -> Verdict:
        return await self._ask("judge", Verdict, lambda: self._model.judge(question))

    async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
        if not hasattr(self._model, "reread"):
            return await LanguageModel.reread(self, merges)
        return await self._ask("reread", Rereading, lambda: self._model.reread(merges))

    async def extract(
        self,
        turns: Sequence[Turn],
        *,
        context: Sequence[Turn] = (),
        remembered: Sequence[Memory] = (),
    ) -> Extraction:
        return await self._ask(
            "extract",
            Extraction,
            lambda: self._model.extract(turns, context=context, remembered=remembered),
        )

    async def reply(self, turns: Sequence[Turn], recalled: Sequence[Memory]) -> Reply:
        return await self._ask("reply", Reply, lambda: self._model.reply(turns, recalled))

    async def aclose(self) -> None:
        await self._model.aclose()

    async def _ask(
        self, operation: str, kind: type[Answer], ask: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        trial = self._admit()
        asked_at_s = self._clock()
        try:
            answer = await telemetry.asking(self.name, operation, self._checked(kind, ask))
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

    async def _checked(self, kind: type[Answer], ask: Callable[[], Awaitable[Answer]]) -> Answer:
        slots = self._slots.mine(
            lambda: asyncio.Semaphore(self._concurrency) if self._concurrency else nullcontext()
        )
        try:
            async with slots:
                answer = await ask()
        except ModelError:
            raise
        except (Exception, asyncio.CancelledError) as exc:  # somebody else's code raises anything
            task = asyncio.current_task()
            if isinstance(exc, asyncio.CancelledError) and task is not None and task.cancelling():
                raise  # else it cancelled itself
            failure = ModelUnavailable(f"{self.name} failed ({_named(exc)})")
            failure.calls = 1  # its tokens are unknown
            raise failure from exc
        if not isinstance(answer, kind):
            wrong = ModelAnswerError(
                f"{self.name} answered with {type(answer).__name__}, not with {kind.__name__}"
            )
            wrong.calls = 1
            raise wrong
        return answer

    def _admit(self) -> bool:
        if not self._pause_s:
            return False
        left_s = self._until_s - self._clock()
        if left_s <= 0.0 and not self._on_trial:
            self._on_trial = True
            return True
        raise ModelNotAsked(
            f"the model is not asked: {self._failures} questions in a row failed ({self._why}), "
            f"the first {_in_words(self._clock() - self._first_at_s)} ago",
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
        self._pause_s = (
            min(2.0 * self._pause_s, _LONGEST_PAUSE_S) if was_open else self._first_pause_s
        )
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


def _in_words(seconds: float) -> str:
    return f"{round(seconds, 1):g} s"


# --- your own objects --------------------------------------------------------------------------


def completed(model: LanguageModel) -> LanguageModel:
    """Return `model`, with the defaults of the optional methods that it lacks."""
    if hasattr(model, "page_size") and hasattr(model, "reread"):
        return model
    return GuardedModel(model, concurrency=4, failures=sys.maxsize)  # the breaker never opens


class OwnEmbedder:
    """Wraps an embedder from outside this package: its exceptions become EmbeddingErrors.

    Raises: ConfigError if the embedder lacks `embed`.
    """

    def __init__(self, embedder: Embedder) -> None:
        _require("the embedder", embedder, "embed")
        self._embedder = embedder
        self.fingerprint = getattr(embedder, "fingerprint", type(embedder).__qualname__)

    def embed(self, texts: Sequence[str]) -> Vectors:
        try:
            return self._embedder.embed(texts)
        except MemoryPipelineError:
            raise
        except Exception as exc:  # somebody else's code: whatever it raises
            raise EmbeddingError(f"{self.fingerprint} failed ({_named(exc)})") from exc


def _named(exc: BaseException) -> str:
    message = str(exc).partition("\n")[0][:200]
    return f"{type(exc).__name__}: {message}" if message else type(exc).__name__


def _require(what: str, thing: object, names: str) -> None:
    missing = [name for name in names.split() if not hasattr(thing, name)]
    if missing:
        raise ConfigError(what, "", f"has no {', '.join(missing)}", "see docs/own-models.md")

"""Ask a language model: limits on seconds and calls, a circuit breaker, and what asking costs.

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
import math
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import ContextVar
from functools import partial
from typing import ParamSpec, TypeVar

from memory.errors import (
    CallsSpent,
    ConfigError,
    EmbeddingError,
    MemoryPipelineError,
    ModelAnswerError,
    ModelError,
    ModelNotAsked,
    ModelTooSlow,
    ModelUnavailable,
)
from memory.models import (
    MOST_READ,
    Embedder,
    Extraction,
    LanguageModel,
    Memory,
    ProposedMerge,
    Question,
    Reply,
    Rereading,
    Turn,
    Usage,
    Vectors,
    Verdict,
)
from memory.providers.prompts import JUDGE, PAGE, REREAD, rereading_question
from memory.runtime import OfEachLoop, telemetry

logger = logging.getLogger(__name__)

_LONGEST_PAUSE_S = 600.0
_LONGEST_RETRY_AFTER_S = 3_600.0  # even if a server asks for a longer pause

P = ParamSpec("P")
Answer = TypeVar("Answer", Verdict, Rereading, Extraction, Reply)


class CallBudget:
    """A limit on the number of calls of a model.

    `most`: the maximum number of calls in any `window_s` seconds. By default, all calls count,
    however old they are. `whole`: a larger budget, or None. When `most` calls are used up, further
    calls are taken from `whole`.

    `answered`: whether the model has answered a question. While it is False, a question that the
    model fails to answer retires no memory. Once it is True, rules may decide such a question.
    """

    def __init__(
        self,
        most: int,
        whole: CallBudget | None = None,
        *,
        window_s: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.most = most
        self.answered = False
        self._whole = whole
        self._window_s = window_s
        self._clock = clock
        self._made_at_s: deque[float] = deque()

    @property
    def left(self) -> int:
        while self._made_at_s and self._made_at_s[0] <= self._clock() - self._window_s:
            self._made_at_s.popleft()
        return max(0, self.most - len(self._made_at_s))

    def take(self) -> bool:
        """Count one more call before it is made; return whether a call was left.

        If this budget is used up, the call is taken from the larger budget.
        """
        if self.left < 1:
            if self._whole is None or not self._whole.take():
                return False
            self.most += 1
        self._made_at_s.append(self._clock())
        return True

    def settle(self, taken: int, calls: int) -> None:
        """Correct the count: a question made `calls` calls, but `taken` calls were counted.

        For example, one call is counted for an offline judge, which makes none.
        """
        self._made_at_s.extend([self._clock()] * (calls - taken))
        for _ in range(min(taken - calls, len(self._made_at_s))):
            self._made_at_s.pop()

    def part(self, calls: int) -> CallBudget:
        """Reserve `calls` calls, or all that are left if fewer; return them as a separate budget.

        If the returned budget is used up, it takes further calls from this one. Its `close` gives
        unused calls back.
        """
        reserved = min(calls, self.left)
        self.settle(0, reserved)
        return CallBudget(reserved, self)

    def close(self) -> None:
        assert self._whole is not None
        self._whole.settle(self.most, len(self._made_at_s))
        self._whole.answered |= self.answered


class Asking:
    """Asks a model questions for one piece of work, with limits on calls and on seconds.

    Only the seconds spent on waiting for answers count. `usage`: the cost so far.
    """

    def __init__(
        self, calls: CallBudget, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.usage = Usage()
        self._calls = calls
        self._total_s = seconds
        self._left_s = seconds
        self._clock = clock

    async def ask(
        self, ask: Callable[P, Awaitable[Answer]], *args: P.args, **kwargs: P.kwargs
    ) -> Answer:
        """Call the model's method `ask` with the given arguments and return its answer.

        Each retry inside the method counts as a call too.

        Raises: ModelError; CallsSpent if no call is left; ModelTooSlow if no second is.
        """
        tries = CallBudget(0, self._calls)  # it has no calls of its own: `most` counts the tries
        if not tries.take():
            raise CallsSpent("the budget of calls is spent")
        token = _TRIES.set(tries)
        cost: Usage | None = None
        try:
            answer = await self._in_time(ask, *args, **kwargs)
            cost = answer.usage
            self._calls.answered = True
        except ModelError as exc:
            if not isinstance(exc, ModelNotAsked):
                exc.calls = max(exc.calls, tries.most)
            cost = Usage.of_failure(exc)
            raise
        finally:
            _TRIES.reset(token)
            cost = cost or Usage(calls=tries.most)  # cancelled
            self._calls.settle(tries.most, cost.calls)
            self.usage += cost
        return answer

    async def _in_time(
        self, ask: Callable[P, Awaitable[Answer]], *args: P.args, **kwargs: P.kwargs
    ) -> Answer:
        limit = f"no answer within {self._total_s:g} s", "raise llm.timeout_s"
        if self._left_s <= 0.0:
            raise ModelTooSlow(*limit)
        started_s = self._clock()
        try:
            async with asyncio.timeout(self._left_s) as timer:
                return await ask(*args, **kwargs)
        except TimeoutError as exc:
            if not timer.expired():  # its own, not ours
                raise
            self._left_s = 0.0
            too_slow = ModelTooSlow(*limit)
            too_slow.calls = 1  # at least
            raise too_slow from exc
        finally:
            self._left_s -= self._clock() - started_s


# The tries of the current question; None if its calls are not limited. It is a context variable
# because the protocol `LanguageModel` has no parameter for limits.
_TRIES: ContextVar[CallBudget | None] = ContextVar("tries", default=None)


def another_try() -> bool:
    """Take one more call for the question that `Asking.ask` is asking; return whether one was left.

    Outside of `Asking.ask`, the number of calls is not limited, and the result is True.
    """
    tries = _TRIES.get()
    return tries is None or tries.take()


# --- a model that may fail ---------------------------------------------------------------------


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
        self.name = model.name
        self._slot: Callable[[], AbstractAsyncContextManager[None]] = (
            partial(asyncio.Semaphore, concurrency) if concurrency else nullcontext
        )
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

    async def judge(self, question: Question) -> Verdict:
        return await self._ask("judge", Verdict, self._model.judge, question)

    async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
        if not hasattr(self._model, "reread"):
            return await LanguageModel.reread(self, merges)
        return await self._ask("reread", Rereading, self._model.reread, merges)

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
            self._model.extract,
            turns,
            context=context,
            remembered=remembered,
        )

    async def reply(self, turns: Sequence[Turn], recalled: Sequence[Memory]) -> Reply:
        return await self._ask("reply", Reply, self._model.reply, turns, recalled)

    async def aclose(self) -> None:
        await self._model.aclose()

    async def _ask(
        self,
        operation: str,
        kind: type[Answer],
        ask: Callable[P, Awaitable[Answer]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Answer:
        trial = bool(self._pause_s)
        if trial:
            self._begin_trial()
        asked_at_s = self._clock()
        answering = self._checked(kind, ask, *args, **kwargs)
        try:
            answer = await telemetry.asking(self.name, operation, answering)
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
        if self._failures:
            self._answered()
        return answer

    async def _checked(
        self,
        kind: type[Answer],
        ask: Callable[P, Awaitable[Answer]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Answer:
        try:
            async with self._slots.mine(self._slot):
                answer = await ask(*args, **kwargs)
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

    def _begin_trial(self) -> None:
        """Raises: ModelNotAsked if the pause is not over, or if another question is tried."""
        left_s = self._until_s - self._clock()
        if left_s <= 0.0 and not self._on_trial:
            self._on_trial = True
            return
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


# --- what asking would cost -----------------------------------------------------------------------

_PER_TOKEN = 4  # characters
# characters, besides the texts of memories and merges:
_PER_LINE = 14  # for a memory in a question
_PER_READ = 24  # for a memory in a second reading, with its share of what is sent for its merge
_PER_ANSWER = 100
_PER_GROUP = 45  # for a group in an answer
_PER_READING = 40  # for one merge in the answer of a second reading
_SCHEMA = 800  # for the JSON schema that is sent with each second reading
_JUDGE_SCHEMA = 1_400  # for the one that is sent with each other question

_GROUPED = 0.4  # share of a page's memories that an answer puts into groups, by two readers
_MEMBERS = 2.4  # mean number of memories in a group
_SHORTER = 0.7  # length of a merged text, divided by that of its memories together
_REFUSED = 0.1  # share of merged texts that are refused and asked about once more


_Cost = tuple[float, float, float]  # calls, characters sent, characters answered


def estimated(
    asked: Iterable[Question],
    batches: Iterable[Sequence[Question]] = (),
    *,
    is_read: bool = True,
    trial: Sequence[ProposedMerge] = (),
) -> Usage:
    """Return an estimate of the calls and tokens of a run, at four characters per token.

    `asked`: the questions that are not pages. `batches`: lists of pages; the pages of one list are
    asked at the same time. `is_read`: whether the model also checks the merged texts that it wrote
    for the pages. `trial`: the test merges on which the model is tried before the first such check;
    empty if it has been tried.
    """
    costs = [_cost_of_pair(question) for question in asked]
    on_pages = [cost for pages in batches for cost in _costs_of_pages(pages, is_read)]
    if on_pages and trial:
        sent = len(REREAD) + _SCHEMA + len(rereading_question(trial))
        costs.append((1, sent, _PER_READING * len(trial)))
    calls, sent, answered = map(sum, zip((0, 0, 0), *costs, *on_pages, strict=True))
    return Usage(
        calls=math.ceil(calls),
        input_tokens=round(sent / _PER_TOKEN),
        output_tokens=round(answered / _PER_TOKEN),
    )


def _cost_of_pair(question: Question) -> _Cost:
    shown = [_PER_LINE + len(member.content) for member in question.members]
    return 1, len(JUDGE) + _JUDGE_SCHEMA + sum(shown), _PER_ANSWER + max(shown)


def _costs_of_pages(pages: Sequence[Question], is_read: bool) -> Iterator[_Cost]:
    shown = [_PER_LINE + len(member.content) for page in pages for member in page.members]
    members = {member.id: member for page in pages for member in page.members}.values()
    characters = sum(len(member.content) for member in members)
    texts = _GROUPED * _SHORTER * characters
    groups = _GROUPED * len(members) / _MEMBERS
    answer = texts + _PER_GROUP * groups
    yield len(pages), (len(PAGE) + _JUDGE_SCHEMA) * len(pages) + sum(shown), answer
    if not is_read:
        return
    merges = _GROUPED * (characters + _PER_READ * len(members)) + texts
    calls = math.ceil(groups / MOST_READ)
    yield calls, (len(REREAD) + _SCHEMA) * calls + merges, _PER_READING * groups
    any_refused = 1.0 - (1.0 - _REFUSED) ** groups
    instructions = (len(PAGE) + _JUDGE_SCHEMA + len(REREAD) + _SCHEMA) * any_refused
    again = _REFUSED * (answer + _PER_READING * groups)
    yield 2 * any_refused, instructions + 2 * _REFUSED * merges, again

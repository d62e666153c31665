"""Spans and counters for operators, through OpenTelemetry's API alone.

Without an OpenTelemetry SDK in the process they do nothing. They record kinds, counts, durations
and the model's name, but no text, user or id.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import NamedTuple, Protocol, TypeVar
from weakref import WeakSet

from opentelemetry import metrics, trace
from opentelemetry.metrics import CallbackOptions, Observation

from memory.errors import MemoryPipelineError, ModelError

_NAME = "memory_dedup"
Value = str | bool | int | float


class Cost(Protocol):
    """The cost of a question, in calls and tokens."""

    @property
    def calls(self) -> int: ...
    @property
    def input_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...


class HasCost(Protocol):
    """An answer of a model."""

    @property
    def usage(self) -> Cost: ...


class _OneCall(NamedTuple):
    calls: int = 1
    input_tokens: int = 0
    output_tokens: int = 0


Answer = TypeVar("Answer", bound=HasCost)


class Watched(Protocol):
    """An open store whose backlog is read each time that metrics are collected.

    `backlog` returns the numbers of pending decisions and of turns that wait to be extracted. It
    raises MemoryPipelineError if the store is closed or cannot be read.
    """

    def backlog(self) -> tuple[int, int]:
        pass


_watched: WeakSet[Watched] = WeakSet()
_watching = threading.Lock()


def watch(store: Watched) -> None:
    """Include a store's backlog in the metrics until it is passed to `unwatch` or deleted."""
    with _watching:
        _watched.add(store)


def unwatch(store: Watched) -> None:
    with _watching:
        _watched.discard(store)


def _backlog(part: int, _options: CallbackOptions) -> Iterable[Observation]:
    with _watching:
        stores = list(_watched)
    counts = []
    for store in stores:
        with suppress(MemoryPipelineError):  # closed meanwhile, or its database is away
            counts.append(store.backlog()[part])
    return [Observation(sum(counts))] if counts else []


# They use whatever SDK the process has now or gets later.
_tracer = trace.get_tracer(_NAME)
_meter = metrics.get_meter(_NAME)
decisions = _meter.create_counter(f"{_NAME}.decisions", "{decision}", "Decisions, by kind.")
"""Counts decisions by three attributes: `kind`, `pending` and `by`.

`kind` is the decision's `Action`. `pending` says whether its question about memories stays open.
`by` is the name of the model that was asked, or "person". It is "policy" if neither was asked.
"""
_calls = _meter.create_counter(f"{_NAME}.model.calls", "{call}", "Calls of the language model.")
_tokens = _meter.create_counter(f"{_NAME}.model.tokens", "{token}", "Tokens of these calls.")
_duration = _meter.create_histogram(
    f"{_NAME}.model.duration", "s", "How long a question waited for its answer, all tries together."
)
_meter.create_observable_gauge(
    f"{_NAME}.pending",
    [partial(_backlog, 0)],
    "{decision}",
    "Decisions that were made without a model's answer.",
)
_meter.create_observable_gauge(
    f"{_NAME}.turns.waiting",
    [partial(_backlog, 1)],
    "{turn}",
    "Turns of conversations that wait to be extracted.",
)


@contextmanager
def span(name: str, **attributes: Value) -> Iterator[trace.Span]:
    """Open a tracing span, whose name is `name` after the prefix `memory_dedup.`, and yield it.

    If the block fails, only the exception's type is recorded, because its message may quote texts.
    """
    with _tracer.start_as_current_span(
        f"{_NAME}.{name}",
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as opened:
        try:
            yield opened
        except BaseException as exc:  # cancellation too
            opened.set_attribute("error.type", type(exc).__name__)
            opened.set_status(trace.Status(trace.StatusCode.ERROR))
            raise


async def asking(model: str, question: str, answering: Awaitable[Answer]) -> Answer:
    """Await a model's answer, record its duration and tokens, and return the answer.

    `question`: the kind of question, such as `judge`.
    """
    named: dict[str, Value] = {"model": model, "question": question}
    cost: Cost = _OneCall()
    started_s = time.perf_counter()
    with span(f"model.{question}", **named) as opened:
        try:
            answer = await answering
            cost = answer.usage
        except BaseException as exc:  # as in span
            named["error.type"] = type(exc).__name__
            if isinstance(exc, ModelError) and exc.calls:
                cost = exc
            raise
        finally:
            _duration.record(time.perf_counter() - started_s, named)
            _calls.add(cost.calls, named)
            _tokens.add(cost.input_tokens, {"model": model, "direction": "input"})
            _tokens.add(cost.output_tokens, {"model": model, "direction": "output"})
            opened.set_attribute("calls", cost.calls)
    return answer

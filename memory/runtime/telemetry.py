"""What whoever runs it may watch: spans and counters, by OpenTelemetry's API alone.

Without an SDK in the process they do nothing. They hold kinds, counts, times and the model's name:
never a text, and no user or id.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakSet

from opentelemetry import metrics, trace
from opentelemetry.metrics import CallbackOptions, Observation

from memory.errors import MemoryPipelineError

_NAME = "memory_dedup"
Value = str | bool | int | float


@dataclass(frozen=True)
class Backlog:
    """What a store has put off."""

    pending: int
    """Decisions that were made for want of a model."""
    turns: int
    """Turns of talk that nobody has extracted yet."""


class Watched:
    """A store that is asked what waits, each time somebody collects."""

    def __init__(self, read: Callable[[], Backlog]) -> None:
        self._read: Callable[[], Backlog] | None = read

    def look(self) -> Backlog | None:
        """None where it has ended, or cannot be read just now."""
        read = self._read
        try:
            return read() if read is not None else None
        except MemoryPipelineError:
            return None

    def stop(self) -> None:
        """May be called twice."""
        self._read = None


_watched: WeakSet[Watched] = WeakSet()
"""OpenTelemetry asks for a state from outside, and has one instrument for all stores."""
_watching = threading.Lock()


def watch(read: Callable[[], Backlog]) -> Watched:
    """Tell what waits from now on until it is stopped; its holder keeps it alive."""
    watched = Watched(read)
    with _watching:
        _watched.add(watched)
    return watched


def _looked(of: Callable[[Backlog], int]) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_options: CallbackOptions) -> Iterable[Observation]:
        with _watching:
            stores = list(_watched)
        found = [one for store in stores if (one := store.look()) is not None]
        return [Observation(sum(map(of, found)))] if found else []

    return observe


# Handles on whatever SDK the process has, or gets later.
_tracer = trace.get_tracer(_NAME)
_meter = metrics.get_meter(_NAME)
_decisions = _meter.create_counter(f"{_NAME}.decisions", "{decision}", "Decisions, by kind.")
_calls = _meter.create_counter(f"{_NAME}.model.calls", "{call}", "Calls of the language model.")
_tokens = _meter.create_counter(f"{_NAME}.model.tokens", "{token}", "What they cost.")
_duration = _meter.create_histogram(
    f"{_NAME}.model.duration", "s", "How long a question waited for its answer, all tries together."
)
_meter.create_observable_gauge(
    f"{_NAME}.pending",
    [_looked(lambda backlog: backlog.pending)],
    "{decision}",
    "Decisions that were made for want of a model.",
)
_meter.create_observable_gauge(
    f"{_NAME}.turns.waiting",
    [_looked(lambda backlog: backlog.turns)],
    "{turn}",
    "Turns of talk that nobody has extracted yet.",
)


def decided(kind: str, *, pending: bool, by: str) -> None:
    """A decision was recorded; `by` is the model's name, or who decided without one."""
    _decisions.add(1, {"kind": kind, "pending": pending, "by": by})


@contextmanager
def span(name: str, **attributes: Value) -> Iterator[trace.Span]:
    """A piece of work; what ends it early is told by its type alone, since its words may quote."""
    with _tracer.start_as_current_span(
        f"{_NAME}.{name}",
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as opened:
        try:
            yield opened
        except BaseException as exc:  # a cancelled one has ended early too
            opened.set_attribute("error.type", type(exc).__name__)
            opened.set_status(trace.Status(trace.StatusCode.ERROR))
            raise


@dataclass
class Call:
    """A question to a model, and what it turns out to have cost."""

    calls: int = 1
    input_tokens: int = 0
    output_tokens: int = 0


@contextmanager
def asking(model: str, question: str) -> Iterator[Call]:
    """A question to a model: how long, how dear, and whether there was an answer."""
    named: dict[str, Value] = {"model": model, "question": question}
    call, started_s = Call(), time.perf_counter()
    with span(f"model.{question}", **named) as opened:
        try:
            yield call
        except BaseException as exc:  # as in span
            named["error.type"] = type(exc).__name__
            raise
        finally:
            _duration.record(time.perf_counter() - started_s, named)
            _calls.add(call.calls, named)
            _tokens.add(call.input_tokens, {"model": model, "direction": "input"})
            _tokens.add(call.output_tokens, {"model": model, "direction": "output"})
            opened.set_attribute("calls", call.calls)

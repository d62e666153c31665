"""What can be watched, seen by the real SDK's own collectors in memory."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from memory.deduplicator import MemoryDeduplicator
from memory.errors import ModelUnavailable
from memory.models import Extraction, MergeGroup, Usage, Verdict
from memory.providers import GuardedModel
from memory.store import MemoryStore
from memory.text import guarded
from tests.conftest import MakeMemory
from tests.doubles import PlacedEmbedder, ScriptedModel

ROOT = Path(__file__).parent.parent
OLDER, NEWER = "Mia has a secret cat.", "Mia has a secret black cat."


class Watch:
    """What was collected since it began."""

    def __init__(self, reader: InMemoryMetricReader, spans: InMemorySpanExporter) -> None:
        self._reader = reader
        self._spans = spans

    def points(self) -> dict[str, list[tuple[dict[str, Any], float]]]:
        """By instrument: attributes and value, or for times how many there were."""
        found: dict[str, list[tuple[dict[str, Any], float]]] = {}
        data = self._reader.get_metrics_data()
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    rows = found.setdefault(metric.name, [])
                    for point in metric.data.data_points:
                        value = getattr(point, "value", getattr(point, "count", 0))
                        rows.append((dict(point.attributes or {}), value))
        return found

    def spans(self) -> list[ReadableSpan]:
        return list(self._spans.get_finished_spans())

    def everything(self) -> str:
        return json.dumps([json.loads(one.to_json()) for one in self.spans()]) + str(self.points())


@pytest.fixture(scope="module")
def collectors() -> tuple[InMemoryMetricReader, InMemorySpanExporter]:
    """A process has one SDK, which is set once."""
    reader, spans = InMemoryMetricReader(), InMemorySpanExporter()
    tracing = TracerProvider()
    metrics.set_meter_provider(MeterProvider(metric_readers=[reader]))
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(tracing)
    return reader, spans


@pytest.fixture
def watch(collectors: tuple[InMemoryMetricReader, InMemorySpanExporter]) -> Watch:
    reader, spans = collectors
    spans.clear()
    return Watch(reader, spans)


@pytest.fixture
def alike(make_memory: MakeMemory, embedder: PlacedEmbedder) -> list[Any]:
    embedder.place(OLDER)
    embedder.place(NEWER, 0.92, OLDER)
    return [make_memory(text, user="Mia") for text in (OLDER, NEWER)]


def total(rows: list[tuple[dict[str, Any], float]], **wanted: Any) -> float:
    fits = (value for named, value in rows if wanted.items() <= named.items())
    return sum(fits)


def test_decisions_calls_tokens_times_and_what_waits_can_be_watched(
    watch: Watch, store: MemoryStore, alike: list[Any]
) -> None:
    before = watch.points()
    cost = Usage(calls=1, input_tokens=11, output_tokens=7)
    merged = Verdict(parts=(MergeGroup(members=(0, 1), text=NEWER),), usage=cost)
    failure = ModelUnavailable("the model is down: " + OLDER)
    failure.calls, failure.input_tokens, failure.output_tokens = 2, 5, 1
    model = ScriptedModel(failure, merged)
    deduplicator = MemoryDeduplicator(store, GuardedModel(model))
    asyncio.run(deduplicator.check_and_merge_all(alike))
    after = watch.points()
    assert total(after["memory_dedup.pending"]) == 1
    asyncio.run(deduplicator.retry_pending())

    def grown(instrument: str, **wanted: Any) -> float:
        now = watch.points().get(instrument, [])
        return total(now, **wanted) - total(before.get(instrument, []), **wanted)

    assert grown("memory_dedup.decisions", kind="add", by="policy") == 1
    assert grown("memory_dedup.decisions", pending=True, by="scripted") == 1
    assert grown("memory_dedup.decisions", kind="merge", pending=False, by="scripted") == 1
    asked = {"model": "scripted", "question": "judge"}
    assert grown("memory_dedup.model.calls", **asked) == 3
    assert grown("memory_dedup.model.calls", **asked, **{"error.type": "ModelUnavailable"}) == 2
    assert grown("memory_dedup.model.duration", **asked) == 2
    assert grown("memory_dedup.model.tokens", model="scripted", direction="input") == 16
    assert grown("memory_dedup.model.tokens", model="scripted", direction="output") == 8
    assert total(watch.points()["memory_dedup.pending"]) == 0
    assert total(watch.points()["memory_dedup.turns.waiting"]) == 0
    names = [one.name for one in watch.spans()]
    assert names.count("memory_dedup.write") == 2
    assert names.count("memory_dedup.model.judge") == 2
    assert names.count("memory_dedup.batch") == 1


def test_exceptions_of_rules_are_counted(watch: Watch) -> None:
    @guarded(lambda _text: "")
    def rule(text: str) -> str:
        raise ValueError(text)

    rule(OLDER)
    rule(NEWER)
    faults = watch.points()["memory_dedup.faults"]
    assert total(faults, rule="rule", **{"error.type": "ValueError"}) == 2
    assert "cat" not in watch.everything()


def test_no_text_no_user_and_no_id_is_in_what_can_be_watched(
    watch: Watch, store: MemoryStore, alike: list[Any]
) -> None:
    model = ScriptedModel(ModelUnavailable("the model is down: " + OLDER))
    asyncio.run(MemoryDeduplicator(store, GuardedModel(model)).check_and_merge_all(alike))
    seen = watch.everything()
    assert "ModelUnavailable" in seen
    assert not [word for word in ("secret", "Mia", "mem_", "is down") if word in seen]


def test_a_store_that_is_closed_is_not_looked_at_any_more(
    watch: Watch, store: MemoryStore, alike: list[Any]
) -> None:
    model = ScriptedModel(ModelUnavailable("down"))
    asyncio.run(MemoryDeduplicator(store, model).check_and_merge_all(alike))
    assert total(watch.points()["memory_dedup.pending"]) == 1
    store.close()
    assert total(watch.points().get("memory_dedup.pending", [])) == 0


def test_work_that_is_given_up_is_a_span_with_an_error(watch: Watch, model: ScriptedModel) -> None:
    async def hang(*_: object, **__: object) -> Extraction:
        await asyncio.sleep(60)
        return Extraction()

    async def give_up() -> None:
        model.extract = hang  # type: ignore[method-assign]
        async with asyncio.timeout(0.01):
            await GuardedModel(model).extract(())

    with pytest.raises(TimeoutError):
        asyncio.run(give_up())
    [one] = watch.spans()
    assert (one.name, one.attributes and one.attributes["error.type"]) == (
        "memory_dedup.model.extract",
        "CancelledError",
    )


def test_without_an_sdk_nothing_is_started() -> None:
    code = (
        "import threading, sys; from memory.runtime import telemetry\n"
        "telemetry.decisions.add(1, {'kind': 'add', 'pending': False, 'by': 'policy'})\n"
        "with telemetry.span('write'): pass\n"
        "print(threading.active_count(), 'opentelemetry.sdk' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "1 False\n"

"""A verdict, and the record of a page, are about texts and the days that these texts mean."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from memory.deduplicator.deduplicator import MemoryDeduplicator
from memory.ledger import Ledger
from memory.models import DeduplicationReport, Judge, Memory
from memory.store import MemoryStore
from memory.text import text_key
from tests.conftest import MakeMemory
from tests.doubles import PageModel, PlacedEmbedder, ScriptedModel, ticking

DENTIST = "Mia has a dentist appointment tomorrow."
DOCTOR = "Mia will see her dentist tomorrow."
DAYS = tuple(datetime(2026, month, 20, 9, tzinfo=UTC) for month in (1, 3))


@pytest.fixture
def store(empty_url: str, embedder: PlacedEmbedder) -> Iterator[MemoryStore]:
    embedder.place(DOCTOR, 0.92, to=DENTIST)
    with MemoryStore(Ledger.create(empty_url), embedder, clock=ticking()) as opened:
        yield opened


def said_on(day: datetime, make_memory: MakeMemory) -> list[Memory]:
    return [make_memory(text, timestamp=day) for text in (DENTIST, DOCTOR)]


def batch(store: MemoryStore, model: ScriptedModel) -> DeduplicationReport:
    return asyncio.run(MemoryDeduplicator(store, model).deduplicate_all())


def test_a_page_is_read_again_for_the_same_words_of_another_day(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    january, march = (said_on(day, make_memory) for day in DAYS)
    model = PageModel(lambda _texts: [])
    store.add_batch(january)
    assert (batch(store, model).pages, batch(store, model).pages) == (1, 0)
    store.add_batch(march)
    assert (batch(store, model).pages, batch(store, model).pages) == (1, 0)
    shown = {memory.id for question in model.asked[1:] for memory in question.members}
    assert {memory.id for memory in march} <= shown
    with store.ledger.reading() as reader:
        assert reader.readings.count_unread("scripted", private=False) == 0


@pytest.mark.parametrize("by", ["model", "person"])
def test_a_verdict_of_one_day_leaves_the_same_words_of_another_day_open(
    store: MemoryStore, make_memory: MakeMemory, by: Judge
) -> None:
    january, march = (said_on(day, make_memory) for day in DAYS)
    store.add_batch([*january, *march])
    scope = store.scope_of(january[0])
    with store.ledger.writing() as writer:
        a, b = (one.dated_key for one in january)
        writer.distinct.mark(scope, a, b, "two appointments", by)
    with store.ledger.reading() as reader:
        texts = [(scope, one.dated_key) for one in (*january, *march)]
        found = reader.distinct.of_all(texts)
    assert found == [{january[1].dated_key}, {january[0].dated_key}, set(), set()]


def test_a_persons_verdict_without_dates_binds_on_all_days_and_a_models_on_none(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    january, march = (said_on(day, make_memory) for day in DAYS)
    store.add_batch(january)
    scope = store.scope_of(january[0])
    texts = [(scope, one.dated_key) for one in (*january, march[0])]
    judges: list[tuple[Judge, bool]] = [("model", False), ("person", True)]
    for by, distinct in judges:
        with store.ledger.writing() as writer:
            writer.distinct.mark(scope, text_key(DENTIST), text_key(DOCTOR), "two facts", by)
            found = writer.distinct.of_all(texts)
            every = writer.distinct.all()
        assert [january[1].dated_key in of_one for of_one in (found[0], found[2])] == [distinct] * 2
        low, high = sorted(one.dated_key for one in january)
        assert ((scope.key, low, high) in every) == distinct


def test_a_person_who_undoes_a_merge_of_one_day_leaves_the_other_day_open(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    january, march = (said_on(day, make_memory) for day in DAYS)
    store.add_batch(january)
    model = PageModel(lambda texts: [(list(range(len(texts))), DENTIST)] if len(texts) == 2 else [])
    batch(store, model)
    [merge] = [one for one in store.history() if one.survivors]
    store.undo(merge.number)
    store.add_batch(march)
    with store.ledger.reading() as reader:
        scope = store.scope_of(january[0])
        found = reader.distinct.of_all([(scope, one.dated_key) for one in (*january, *march)])
    assert found == [{january[1].dated_key}, {january[0].dated_key}, set(), set()]


def test_forgetting_drops_the_verdicts_of_all_days(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    january, march = (said_on(day, make_memory) for day in DAYS)
    store.add_batch([*january, *march])
    scope = store.scope_of(january[0])
    with store.ledger.writing() as writer:
        for day in (january, march):
            writer.distinct.mark(scope, day[0].dated_key, day[1].dated_key, "two", "model")
            keys = [(scope.key, one.dated_key) for one in day]
            writer.readings.record(keys, "scripted", thorough=False)
    store.forget(january[0].id)
    with store.ledger.reading() as reader:
        assert len(reader.distinct.all()) == 2
    store.forget(march[0].id)
    with store.ledger.reading() as reader:
        assert reader.distinct.all() == set()
        assert reader.readings.all("scripted") == {
            (scope.key, one.dated_key) for one in (january[1], march[1])
        }

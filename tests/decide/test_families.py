"""Look-alikes that differ in a value cost few questions, and nothing is merged out of a table."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import pytest
from pydantic import SecretStr

from memory.config import LLMConfig
from memory.decide.families import MOST_IN_TABLE, families, tables
from memory.deduplicator import MemoryDeduplicator
from memory.models import DeduplicationReport, Price
from memory.protocols import LanguageModel
from memory.providers import GeminiModel, OfflineModel
from memory.store import MemoryStore
from tests.doubles import PlacedEmbedder
from tests.gemini_server import Asked, GeminiServer


@pytest.fixture
def server() -> Iterator[GeminiServer]:
    with GeminiServer(json.dumps({"groups": []})).running() as running:
        yield running


def gemini(server: GeminiServer) -> GeminiModel:
    return GeminiModel(SecretStr("key"), LLMConfig(base_url=server.url))


def told(value: object) -> str:
    return f"Mia's locker at the pool has the number {value}."


def look_alikes(store: MemoryStore, embedder: PlacedEmbedder, values: Sequence[object]) -> None:
    rng = np.random.default_rng(7)
    for value in values:
        embedder.place_at(told(value), [1.0, *(rng.standard_normal(40) * 0.02)])
    store.add_batch([store.new_memory(told(value), user="Mia") for value in values])


def batch(store: MemoryStore, model: LanguageModel, dry_run: bool = False) -> DeduplicationReport:
    async def run() -> DeduplicationReport:
        try:
            return await MemoryDeduplicator(store, model).deduplicate_all(dry_run)
        finally:
            await model.aclose()

    return asyncio.run(run())


def test_a_hundred_look_alikes_cost_at_most_ten_calls(
    store: MemoryStore, embedder: PlacedEmbedder, server: GeminiServer
) -> None:
    look_alikes(store, embedder, range(100, 200))
    planned = batch(store, gemini(server), dry_run=True)
    assert (planned.estimated_model_calls, planned.estimated.calls) == (1, 1)
    report = batch(store, gemini(server))
    assert report.usage.calls <= 10
    assert (report.retired, report.left, report.pending) == (0, 0, 0)
    data = server.asked[0].data
    assert data["pattern"] == told("{1}")
    assert [row[2] for row in data["rows"]] == [str(n) for n in range(100, 200)]
    assert batch(store, gemini(server)).usage.calls == 0


def test_what_is_to_be_asked_is_counted_before_it_is_paid(
    store: MemoryStore, embedder: PlacedEmbedder, server: GeminiServer
) -> None:
    look_alikes(store, embedder, range(100, 103))
    heard: list[DeduplicationReport] = []
    price = Price(input=1_000_000.0, output=0.0)

    async def run() -> DeduplicationReport:
        model = gemini(server)
        deduplicator = MemoryDeduplicator(store, model, price=price)
        try:
            return await deduplicator.deduplicate_all(on_plan=heard.append)
        finally:
            await model.aclose()

    report = asyncio.run(run())
    [planned] = heard
    sent = len(server.asked[0].system) + len(json.dumps(server.asked[0].data))
    assert planned.estimated.calls == 1
    assert sent / 5 < planned.estimated.input_tokens < sent / 3
    assert planned.money == planned.estimated.input_tokens
    assert report.money == report.usage.input_tokens == 11


def test_what_a_table_takes_for_the_same_is_asked_again_as_a_pair(
    store: MemoryStore, embedder: PlacedEmbedder, server: GeminiServer
) -> None:
    look_alikes(store, embedder, range(100, 121))

    def answer(asked: Asked) -> str:
        if "rows" in asked.data:
            return json.dumps({"groups": [{"members": [1, 21], "text": "Wrong."}]})
        return json.dumps({"groups": [{"members": [1, 2], "text": told(120)}]})

    server.default = answer
    report = batch(store, gemini(server))
    assert (report.usage.calls, report.memories_after) == (2, 20)
    shown = {member["content"] for member in server.asked[1].data["memories"]}
    assert shown == {told(100), told(120)}


def test_a_table_that_fails_costs_its_calls_and_its_pairs_are_asked_in_groups(
    store: MemoryStore, embedder: PlacedEmbedder, server: GeminiServer
) -> None:
    look_alikes(store, embedder, range(100, 112))
    server.script = [json.dumps({"groups": [{"members": [1, 99], "text": ""}]})] * 2
    report = batch(store, gemini(server))
    assert (report.memories_after, report.pending, report.left) == (12, 0, 0)
    assert "rows" not in server.asked[2].data


def test_the_offline_judge_reads_a_table_too(store: MemoryStore, embedder: PlacedEmbedder) -> None:
    look_alikes(store, embedder, range(100, 140))
    report = batch(store, OfflineModel())
    assert (report.memories_after, report.decisions) == (40, {"keep_both": 1})


def covered(found: Sequence[tuple[int, ...]]) -> set[tuple[int, int]]:
    return {pair for table in found for pair in combinations(table, 2)}


def test_many_are_shown_in_tables_that_hold_every_open_pair() -> None:
    texts = [f"Mia has {n} cats." for n in range(300)]
    edges = list(combinations(range(300), 2))
    [family] = families(texts, edges, 8)
    found = list(tables(family, edges))
    assert max(map(len, found)) <= MOST_IN_TABLE
    assert (covered(found), len(found)) == (set(edges), 10)
    assert list(tables(family, [(0, 299)])) == [(0, 299)]


def test_near_ones_share_a_table_wherever_they_stand_in_a_large_family() -> None:
    places = np.random.default_rng(3).permutation(6_000).tolist()
    edges = [
        (min(a, b), max(a, b))
        for step in range(1, 6)
        for a, b in zip(places, places[step:], strict=False)
    ]
    found = list(tables(range(6_000), edges))
    assert max(map(len, found)) <= MOST_IN_TABLE
    assert covered(found) >= set(edges)
    assert len(found) < 6_000 / MOST_IN_TABLE * 1.5


def test_pairs_that_nothing_connects_fill_a_table_together() -> None:
    edges = [(n, n + 500) for n in range(500)]
    found = list(tables(range(1_000), edges))
    assert covered(found) >= set(edges)
    assert len(found) == 8


def test_a_thousand_that_all_are_open_fill_few_tables() -> None:
    edges = list(combinations(range(1_000), 2))
    found = list(tables(range(1_000), edges))
    assert covered(found) == set(edges)
    assert len(found) <= 136, "as many as blocks of 64 by twos"

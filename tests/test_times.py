"""The same words about another day stay another memory, through every door."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory.assembly import build_deduplicator, build_extractor, build_tools, open_store
from memory.config import Config, MemoryConfig
from memory.models import Memory, Turn
from memory.offline import OfflineModel
from memory.store import MemoryStore

DAYS = [datetime(2026, month, 6, 12, tzinfo=UTC) for month in (1, 1, 3)]
DENTIST = "Mia has a dentist appointment tomorrow."


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(memory=MemoryConfig(data_dir=str(tmp_path)))


@pytest.fixture
def store(config: Config) -> Iterator[MemoryStore]:
    with open_store(config) as opened:
        yield opened


def memories() -> list[Memory]:
    return [Memory(content=DENTIST, user="Mia", timestamp=day) for day in DAYS]


def chat(store: MemoryStore, config: Config) -> None:
    deduplicator = build_deduplicator(store, config, OfflineModel())
    asyncio.run(deduplicator.check_and_merge_all(memories()))


def batch(store: MemoryStore, config: Config) -> None:
    store.add_batch(memories())
    asyncio.run(build_deduplicator(store, config, OfflineModel()).deduplicate_all())


def agent(store: MemoryStore, config: Config) -> None:
    tools = build_tools(store, config)
    for day in DAYS:
        store.clock = lambda day=day: day  # type: ignore[misc]
        asyncio.run(tools.call("remember", {"content": DENTIST, "user": "Mia"}))


def turns(store: MemoryStore, config: Config) -> None:
    extractor = build_extractor(store, config, OfflineModel())
    text = "I have a dentist appointment tomorrow."
    for number, day in enumerate(DAYS):
        turn = Turn(speaker="Mia", text=text, at=day, id=str(number), conversation=str(number))
        asyncio.run(extractor.extract_and_store([turn]))


@pytest.mark.parametrize("door", [chat, batch, agent, turns])
def test_an_appointment_of_march_is_not_that_of_january(
    store: MemoryStore, config: Config, door: Callable[[MemoryStore, Config], None]
) -> None:
    door(store, config)
    found = sorted(memory.timestamp for memory in store.memories())
    assert [moment.month for moment in found] == [1, 3]

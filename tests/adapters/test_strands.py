"""Strands' memory store: writes may come twice, numbers tell which are the same."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("strands.memory.types")
from strands.memory import MemoryManager
from strands.memory.types import AddMessagesContext

from memory.adapters.strands import DedupMemoryStore
from memory.text import undated

pytestmark = pytest.mark.framework
PORTO = "Mia moved to Porto in 2021."


@contextlib.asynccontextmanager
async def opened(folder: Path, **fields: Any) -> AsyncIterator[DedupMemoryStore]:
    fields = {"user": "Mia", "llm_provider": "offline", **fields}
    store = DedupMemoryStore("notes", data_dir=str(folder), **fields)
    await store.initialize()
    try:
        yield store
    finally:
        await store.close()


def said(*texts: str, role: str = "user") -> list[Any]:
    return [{"role": role, "content": [{"text": text}]} for text in texts]


async def texts(store: DedupMemoryStore, query: str = "Porto, cello, cats") -> list[str]:
    shown = [entry.content for entry in await store.search(query)]
    assert all(text.startswith("[") for text in shown), "each is dated"
    return sorted(map(undated, shown))


def test_a_batch_that_is_delivered_again_adds_nothing(tmp_path: Path) -> None:
    async def talk() -> None:
        async with opened(tmp_path, run_id="run-1") as store:
            batch = said("I moved to Porto in 2021.", "I teach cello.")
            for _ in range(2):
                await store.add_messages(batch, AddMessagesContext(sequence_numbers=[0, 4]))
            assert await texts(store) == [PORTO, "Mia teaches cello."]
        async with opened(tmp_path, run_id="run-1") as store:
            await store.add_messages(batch[:1], AddMessagesContext(sequence_numbers=[0]))
            assert len(await texts(store)) == 2

    asyncio.run(talk())


def test_numbers_that_start_anew_name_other_messages(tmp_path: Path) -> None:
    async def talk() -> None:
        async with opened(tmp_path) as store:
            first = AddMessagesContext(sequence_numbers=[0])
            await store.add_messages(said("I moved to Porto in 2021."), first)
            await store.initialize()
            await store.add_messages(said("I have two cats."), first)
            await store.add_messages(said("I moved to Porto in 2021."))
            assert await texts(store) == ["Mia has two cats.", PORTO]

    asyncio.run(talk())


def test_only_what_the_user_says_is_remembered(tmp_path: Path) -> None:
    async def talk() -> None:
        async with opened(tmp_path) as store:
            tool: list[Any] = [{"role": "user", "content": [{"toolResult": {"content": []}}]}]
            await store.add_messages(said("I moved to Oslo.", role="assistant") + tool)
            assert await texts(store, "moved") == []

    asyncio.run(talk())


def test_what_is_added_twice_is_there_once_and_of_one_user_only(tmp_path: Path) -> None:
    async def talk() -> None:
        async with opened(tmp_path) as store:
            first = await store.add(PORTO, {"from": "crm"})
            assert await store.search("Porto", {"max_search_results": 1})
            second = await store.add("mia moved to porto in 2021")
            assert first != second
            assert len(await texts(store)) == 1
        async with opened(tmp_path, user="Tom") as store:
            assert await texts(store) == []

    asyncio.run(talk())


def test_the_manager_takes_it_with_extraction_and_without(tmp_path: Path) -> None:
    async def talk() -> None:
        async with opened(tmp_path, extraction=True) as store:
            manager = MemoryManager(stores=[store], add_tool_config=True)
            await manager.add(PORTO)
            found = await manager.search("Porto")
            assert [(undated(one.content), one.store_name) for one in found] == [(PORTO, "notes")]
        async with opened(tmp_path, writable=False) as store:
            MemoryManager(stores=[store])

    asyncio.run(talk())

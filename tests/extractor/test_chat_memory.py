"""A bot keeps what it hears, recalls it, and forgets it."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory import Config, open_chat_memory, open_store
from memory.config import LLMConfig, MemoryConfig
from memory.errors import InputError, LedgerError
from memory.models import Turn
from memory.store import forget_user
from tests.extractor.owners import SlowGemini, find_owners, settings
from tests.gemini_server import GeminiServer
from tests.live_bot import START
from tests.live_bot import said as turn


def test_a_memory_is_recalled_and_forgotten(tmp_path: Path, gemini: GeminiServer) -> None:
    SlowGemini(gemini, latency_s=0.0)
    config = settings(tmp_path, gemini)

    async def talk() -> None:
        async with open_chat_memory(config) as memory:
            await memory.hear(turn(1))
            await memory.settle()
            [mine] = await memory.recall("item number 1", user="Mia")
            assert await memory.recall("item number 1", user="Jonas") == []
            await memory.forget(mine.id)
            assert await memory.recall("item number 1", user="Mia") == []

    asyncio.run(talk())


def test_explicit_memories_are_deduplicated_listed_and_forgotten_by_user(tmp_path: Path) -> None:
    config = Config(memory=MemoryConfig(data_dir=str(tmp_path)), llm=LLMConfig(provider="offline"))

    async def talk() -> None:
        async with open_chat_memory(config) as memory:
            await memory.remember("Mia has a cat.", user="Mia")
            form = {"from": "form"}
            first = (await memory.remember("mia has a cat", user=" Mia", metadata=form)).memory
            secret = await memory.remember("Mia's PIN is 4711.", user="Mia", is_private=True)
            newer = secret.memory
            theirs = (await memory.remember("Jonas's PIN is 1234.", user="Jonas")).memory
            assert first.metadata == {"from": "form"}
            assert [one.id for one in await memory.list(user="Mia ")] == [newer.id, first.id]
            assert [one.id for one in await memory.list(user="Mia", limit=1)] == [newer.id]
            with pytest.raises(InputError, match="user=NAME"):
                await memory.recall("What is the PIN?")
            everyones = await memory.recall("What is the PIN?", everyone=True)
            assert newer.id not in [one.id for one in everyones]
            assert theirs.id in [one.id for one in everyones]
            with pytest.raises(InputError, match="remember: text must be"):
                await memory.remember("  ", user="Mia")
            await memory.hear(Turn(speaker="Mia", text="I sail.", at=START))
            assert (await memory.forget_user("Mia")).memories == 2
            assert await memory.list(user="Mia") == []
            assert await memory.waiting() == 0
            assert [one.id for one in await memory.list(user="Jonas")] == [theirs.id]

    asyncio.run(talk())


def test_the_best_are_recalled_however_low_they_score(tmp_path: Path, gemini: GeminiServer) -> None:
    """The real embedder: a question has little in common with its answer."""
    config = settings(tmp_path, gemini)
    with open_store(config) as store:
        for text in ("Mia lives in Porto.", "Mia bought a red lamp.", "Mia's black cat is Pepper."):
            store.add(store.new_memory(text, user="Mia"))

    async def talk() -> None:
        async with open_chat_memory(config) as memory:
            found = await memory.recall("Where do I live?", user="Mia", k=2)
            assert [one.content for one in found][:1] == ["Mia lives in Porto."]
            assert len(found) == 2
            assert found[0].score > found[1].score
            least = (found[0].score + found[1].score) / 2
            above = await memory.recall("Where do I live?", user="Mia", min_score=least)
            assert [one.id for one in above] == [found[0].id]

    asyncio.run(talk())


def test_i_and_my_in_a_question_are_the_user_who_asks(tmp_path: Path, gemini: GeminiServer) -> None:
    config = settings(tmp_path, gemini)
    with open_store(config) as store:
        for name in ("Jonas", "Mia", "Eva", "Tom"):
            store.add(store.new_memory(f"{name} lives by a river.", user="Mia"))

    async def talk() -> None:
        async with open_chat_memory(config) as memory:
            [found] = await memory.recall("Where do I live?", user="Mia", k=1)
            assert found.content == "Mia lives by a river."

    asyncio.run(talk())


def test_a_name_with_space_around_it_is_the_same_user(tmp_path: Path, gemini: GeminiServer) -> None:
    gemini.default = find_owners
    config = settings(tmp_path, gemini)

    async def run() -> None:
        async with open_chat_memory(config) as memory:
            for n, name in enumerate(("Mia", " Mia\t")):
                at = START + timedelta(seconds=n)
                await memory.hear(Turn(speaker=name, text=f"I own item {n}.", at=at))
            await memory.settle()
            for name in ("Mia", "Mia ", "\nMia"):
                recalled = await memory.recall("which item?", user=name)
                assert len(recalled) == 2
                assert {one.user for one in recalled} == {"Mia"}

    asyncio.run(run())
    with open_store(config) as store:
        assert forget_user(store.ledger, store.index, " Mia", START).memories == 2
        assert store.counts().live == 0


def test_opening_and_closing_many_times_leaves_nothing_large_behind(
    tmp_path: Path, gemini: GeminiServer
) -> None:
    """Not even until Python looks for reference cycles, which it seldom does."""
    gemini.default = find_owners
    config = settings(tmp_path, gemini)

    async def talk(n: int) -> None:
        async with open_chat_memory(config) as memory:
            await memory.hear(turn(n))
            await memory.settle()
            assert await memory.recall(f"item number {n}", user="Mia")

    asyncio.run(talk(0))
    gc.collect()
    before = held()
    gc.disable()
    try:
        for n in range(1, 9):
            asyncio.run(talk(n))
        wait_until(lambda: held()["numbers"] <= before["numbers"])
        assert len(alive("WordLlamaInference")) == 1, "one for all stores of this process"
    finally:
        gc.enable()
    gc.collect()
    wait_until(lambda: all(count <= before[kind] for kind, count in held().items()))


def wait_until(is_so: Callable[[], bool]) -> None:
    """Let threads that are ending end: the model's server on loopback closes its own later.

    Those of the test before may end meanwhile, so there may also be fewer than there were.
    """
    until = time.monotonic() + 10.0
    while not is_so():
        assert time.monotonic() < until, held()
        time.sleep(0.02)


def held() -> dict[str, int]:
    """Count the objects, threads and files that an open memory holds."""
    kinds = ("MemoryStore", "ChatMemory", "Ledger", "Engine", "LiveVectors")
    return {kind: len(alive(kind)) for kind in kinds} | {
        "numbers": sum(live.numbers for live in alive("LiveVectors")),
        "threads": threading.active_count(),
        "files": len(list(Path("/proc/self/fd").iterdir())),
    }


def alive(kind: str) -> list[Any]:
    """Return the objects of a class of this name that Python still holds."""
    return [one for one in gc.get_objects() if type(one).__name__ == kind]


def test_it_is_closed_once_from_any_loop_and_then_hears_nothing(
    tmp_path: Path, gemini: GeminiServer
) -> None:
    memory = open_chat_memory(settings(tmp_path, gemini))
    asyncio.run(memory.close())
    asyncio.run(memory.close())
    with pytest.raises(LedgerError, match="closed"):
        asyncio.run(memory.hear(turn(1)))


def test_turns_without_an_id_are_known_by_their_time(tmp_path: Path, gemini: GeminiServer) -> None:
    config = settings(tmp_path, gemini, extraction_wait=3_600.0)

    async def talk() -> int:
        async with open_chat_memory(config) as memory:
            for second in (0, 0, 1):
                at = START.replace(second=second)
                await memory.hear(Turn(speaker="Mia", text="Yes, I do.", at=at))
            return await memory.waiting()

    assert asyncio.run(talk()) == 2

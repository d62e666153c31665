"""An adapter's memory is opened by its first use, and once."""

from __future__ import annotations

import asyncio
from pathlib import Path

from memory.adapters import LazyMemory
from memory.assembly import open_chat_memory
from memory.config import Config, MemoryConfig
from memory.extractor import ChatMemory


def test_however_many_ask_at_once_it_is_opened_once(tmp_path: Path) -> None:
    config = Config(memory=MemoryConfig(data_dir=str(tmp_path / "data")))
    opened: list[ChatMemory] = []

    def open_it() -> ChatMemory:
        opened.append(open_chat_memory(config))
        return opened[-1]

    async def used() -> None:
        memory = LazyMemory(open_it)
        await memory.close()  # nothing was opened yet
        found = await asyncio.gather(*(memory.get() for _ in range(8)))
        assert len(opened) == 1
        assert {id(one) for one in found} == {id(opened[0])}
        await found[0].remember("Mia sails.", user="Mia")
        await memory.close()
        again = await memory.get()
        assert len(opened) == 2
        assert [one.content for one in await again.list(user="Mia")] == ["Mia sails."]
        await memory.close()

    asyncio.run(used())


def test_what_fails_to_open_is_tried_again(tmp_path: Path) -> None:
    config = Config(memory=MemoryConfig(data_dir=str(tmp_path / "data")))
    tries = iter([OSError("busy"), None])

    def open_it() -> ChatMemory:
        if (fault := next(tries)) is not None:
            raise fault
        return open_chat_memory(config)

    async def used() -> None:
        memory = LazyMemory(open_it)
        found = await asyncio.gather(memory.get(), return_exceptions=True)
        assert [str(one) for one in found] == ["busy"]
        assert (await memory.get()).store.counts().live == 0
        await memory.close()

    asyncio.run(used())

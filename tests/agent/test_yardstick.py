"""The yardstick's pairs, told to the agent's tool one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.agent import AgentTools, build_tools
from memory.assembly import open_store
from memory.config import Config, MemoryConfig
from memory.store import MemoryStore
from yardstick.score import read_pairs


@pytest.fixture
def store(tmp_path: Path) -> Iterator[tuple[MemoryStore, AgentTools]]:
    config = Config(memory=MemoryConfig(data_dir=str(tmp_path)))
    with open_store(config) as opened:
        yield opened, build_tools(opened, config)


def test_remember_refuses_no_statement_that_is_not_stored_and_some_repeats(
    store: tuple[MemoryStore, AgentTools],
) -> None:
    """Each pair has a user of its own, so that only its two texts meet."""
    memories, tools = store
    pairs = read_pairs()

    async def tell() -> dict[str, bool]:
        saved = {}
        for pair in pairs:
            for text in (pair.a, pair.b):
                answer = await tools.call("remember", {"content": text, "user": pair.id})
                saved[pair.id] = bool(answer.data.model_dump()["saved"])
        return saved

    saved = asyncio.run(tell())
    new = [pair for pair in pairs if not pair.a_states_b]
    repeats = [pair for pair in pairs if pair.a_states_b]
    assert (len(new), len(repeats)) == (183, 117)
    assert [pair.id for pair in new if not saved[pair.id]] == []
    live = dict.fromkeys(saved, 0)
    for memory in memories.memories():
        live[str(memory.user)] += 1
    assert sum(live[pair.id] == 2 for pair in repeats) <= 99
    assert min(live.values()) == 1

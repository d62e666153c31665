"""A Strands agent that remembers, and nothing twice: strands_memory.py. Needs no key.

    pip install '.[strands]'

The model at the top stands in for a real one: it only says that it has heard. The store extracts
what the user says by itself.

It prints:

    remembered: Mia teaches cello.
    remembered: Mia moved to Porto in 2021.
    3 memories
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from typing import Any

from strands import Agent
from strands.memory import MemoryManager
from strands.memory.types import AddMessagesContext
from strands.models import Model

from memory.adapters.strands import DedupMemoryStore


class OfflineModel(Model):
    """Answers every turn with the same words."""

    def update_config(self, **_: Any) -> None:
        """There is nothing to set."""

    def get_config(self) -> Any:
        return {}

    async def structured_output(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError
        yield

    async def stream(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockDelta": {"delta": {"text": "I see."}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = DedupMemoryStore("notes", user="Mia", extraction=True, data_dir=folder)
        manager = MemoryManager(stores=[store])
        agent = Agent(model=OfflineModel(), memory_manager=manager, callback_handler=None)
        for said in ("I moved to Porto in 2021.", "I teach cello.", "I moved to Porto in 2021!"):
            await agent.invoke_async(said)
        await manager.flush()
        for one in await store.search("Porto, cello"):
            text = one.content.partition("] ")[2]  # behind the day on which it was said
            sys.stdout.write(f"remembered: {text}\n")
        again = AddMessagesContext(sequence_numbers=[7])
        for _ in range(2):  # delivered twice
            message: Any = {"role": "user", "content": [{"text": "I have two cats."}]}
            await store.add_messages([message], again)
        await store.add("Mia has two cats")
        sys.stdout.write(f"{len(await store.search('Porto, cello, cats'))} memories\n")
        await store.close()


if __name__ == "__main__":
    asyncio.run(main())

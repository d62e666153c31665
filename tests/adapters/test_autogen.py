"""AutoGen's memory: added twice it is there once; its agent is told what is remembered."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("autogen_core.memory")
from autogen_core.memory import MemoryContent, MemoryMimeType
from autogen_core.model_context import UnboundedChatCompletionContext
from autogen_core.models import UserMessage

from memory.adapters.autogen import DedupMemory
from memory.errors import InputError
from memory.text import undated

pytestmark = pytest.mark.framework
CELLO = "Mia teaches cello."


def text(content: str, **metadata: Any) -> MemoryContent:
    return MemoryContent(content=content, mime_type=MemoryMimeType.TEXT, metadata=metadata)


def opened(folder: Path, user: str = "Mia") -> DedupMemory:
    return DedupMemory(user=user, data_dir=str(folder), llm_provider="offline")


def test_what_is_added_twice_is_there_once_and_only_for_its_user(tmp_path: Path) -> None:
    async def talk() -> None:
        memory = opened(tmp_path)
        for said in (CELLO, "mia teaches cello", "Mia moved to Porto."):
            await memory.add(text(said, source="chat"))
        found = (await memory.query("What does Mia teach?")).results
        assert [undated(str(one.content)).lower().rstrip(".") for one in found].count(
            "mia teaches cello"
        ) == 1
        assert len(found) == 2
        assert found[0].metadata is not None
        assert found[0].metadata["source"] == "chat"
        await memory.close()
        other = opened(tmp_path, "Tomo")
        assert (await other.query(text("What does Mia teach?"))).results == []
        await other.close()

    asyncio.run(talk())


def test_a_model_is_told_what_is_remembered_about_the_last_message(tmp_path: Path) -> None:
    async def talk() -> None:
        memory = opened(tmp_path)
        context = UnboundedChatCompletionContext()
        assert (await memory.update_context(context)).memories.results == []
        await memory.add(text(CELLO))
        await context.add_message(UserMessage(content="What do I teach?", source="Mia"))
        updated = await memory.update_context(context)
        [found] = updated.memories.results
        assert re.fullmatch(
            rf"\[\w{{3}} \d{{4}}-\d\d-\d\d\] {re.escape(CELLO)}", str(found.content)
        )
        assert str(found.content) in str((await context.get_messages())[-1].content)
        await memory.add(found)
        [found] = (await memory.query("cello")).results
        assert undated(str(found.content)) == CELLO, "what was dated is stored without its date"
        await memory.close()

    asyncio.run(talk())


def test_clear_erases_the_user_for_good_and_what_is_no_text_is_refused(tmp_path: Path) -> None:
    async def talk() -> None:
        memory, other = opened(tmp_path), opened(tmp_path, "Tomo")
        await memory.add(text(CELLO))
        await other.add(text("Tomo keeps bees."))
        await memory.clear()
        assert (await memory.query("cello")).results == []
        assert len((await other.query("bees")).results) == 1
        image = MemoryContent(content=b"...", mime_type=MemoryMimeType.BINARY)
        with pytest.raises(InputError, match="is no text"):
            await memory.add(image)
        await memory.close()
        await other.close()

    asyncio.run(talk())

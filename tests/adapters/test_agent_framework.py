"""Microsoft's agent framework: a real agent with our provider remembers between its sessions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agent_framework")
from agent_framework import Agent, BaseChatClient, ChatResponse, ChatResponseUpdate, Message

from memory.adapters.agent_framework import DedupContextProvider
from memory.text import undated

pytestmark = pytest.mark.framework


class Listening(BaseChatClient):  # type: ignore[misc] # not installed for all
    """Says that it has heard; `seen` has the texts of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[list[str]] = []

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **_: Any
    ) -> Awaitable[ChatResponse] | AsyncIterable[ChatResponseUpdate]:
        self.seen.append([one.text for one in messages])

        async def answer() -> ChatResponse:
            return ChatResponse(messages=[Message("assistant", ["I see."])])

        return answer()


def provider(folder: Path, user: str = "Mia") -> DedupContextProvider:
    return DedupContextProvider(user=user, data_dir=str(folder), llm_provider="offline")


def test_what_was_said_in_one_session_is_told_in_another_and_once(tmp_path: Path) -> None:
    async def talk() -> None:
        memory, client = provider(tmp_path), Listening()
        agent = Agent(client=client, context_providers=[memory])
        for said in ("I teach cello.", "I moved to Porto in 2021.", "I teach cello!"):
            await agent.run(said, session=agent.create_session())
        await memory.settle()
        await agent.run("Where do I live, and what do I teach?", session=agent.create_session())
        [told] = [one for one in client.seen[-1] if "What is remembered" in one]
        assert all(line.startswith("- [") for line in told.splitlines()[1:]), "each is dated"
        assert sorted(undated(line[2:]) for line in told.splitlines()[1:]) == [
            "Mia moved to Porto in 2021.", "Mia teaches cello.",
        ]  # fmt: skip
        await memory.close()

    asyncio.run(talk())


def test_users_do_not_hear_of_each_other_and_a_run_without_a_memory_adds_nothing(
    tmp_path: Path,
) -> None:
    async def talk() -> None:
        mia, tomo, client = provider(tmp_path), provider(tmp_path, "Tomo"), Listening()
        await Agent(client=client, context_providers=[mia]).run("I teach cello.")
        await mia.settle()
        await Agent(client=client, context_providers=[tomo]).run("Who teaches cello?")
        assert client.seen[-1] == ["Who teaches cello?"]
        await mia.close()
        await tomo.close()

    asyncio.run(talk())

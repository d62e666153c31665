"""A LlamaIndex agent with the MCP server as its memory: llamaindex_memory.py.

    pip install '.[agent]' llama-index-core llama-index-tools-mcp

Needs no key: a function stands in for the model. It recalls what it is asked, and remembers
anything else. The memories are in a temporary folder.

It prints:

    you> Mia teaches cello.
    bot> Saved
    you> mia teaches cello!
    bot> Not saved
    you> What does Mia teach?
    bot> Mia teaches cello.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.llms import MockFunctionCallingLLM
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec


def answer(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
    """Call `recall` for a question and `remember` for anything else; then say what came back."""
    said = str(messages[-1].content)
    if messages[-1].role == "tool":
        found = re.search(r"Not saved|Saved|Mia [a-z ]+\.", said)
        return ChatMessage(role="assistant", blocks=[TextBlock(text=found[0] if found else said)])
    name, key = ("recall", "context") if said.endswith("?") else ("remember", "content")
    call = ToolCallBlock(tool_call_id="call", tool_name=name, tool_kwargs={key: said})
    return ChatMessage(role="assistant", blocks=[call])


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        # with the command on your PATH: BasicMCPClient("memory-dedup", args=["serve"], env=...)
        client = BasicMCPClient(
            sys.executable,
            args=["-m", "memory", "serve", "--user", "Mia"],
            env={"MEMORY_DATA_DIR": folder},
        )
        tools = await McpToolSpec(client=client).to_tool_list_async()
        agent = FunctionAgent(llm=MockFunctionCallingLLM(response_generator=answer), tools=tools)
        for said in ("Mia teaches cello.", "mia teaches cello!", "What does Mia teach?"):
            result = await agent.run(said)
            sys.stdout.write(f"you> {said}\nbot> {result.response.content}\n")


if __name__ == "__main__":
    asyncio.run(main())

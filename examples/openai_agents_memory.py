"""An agent of the OpenAI Agents SDK with the MCP server as its memory: openai_agents_memory.py.

    pip install '.[agent]' openai-agents

Needs no key: the model at the top stands in for a real one. It recalls what it is asked, and
remembers anything else. The memories are in a temporary folder.

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
import json
import re
import sys
import tempfile
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from agents.mcp import MCPServerStdio
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)


class OfflineModel(Model):
    """Calls `recall` for a question and `remember` for anything else; then says what came back."""

    async def get_response(self, *, input: Any, **_: Any) -> ModelResponse:  # noqa: A002 - theirs
        last = input[-1]
        if last.get("type") == "function_call_output":
            text = ResponseOutputText(text=in_short(last), type="output_text", annotations=[])
            answer: Any = ResponseOutputMessage(
                id="answer", content=[text], role="assistant", status="completed", type="message"
            )
        else:
            name, key = "remember", "content"
            if last["content"].endswith("?"):
                name, key = "recall", "context"
            arguments = json.dumps({key: last["content"]})
            answer = ResponseFunctionToolCall(
                call_id="call", name=name, arguments=arguments, type="function_call"
            )
        return ModelResponse(output=[answer], usage=Usage(), response_id=None)

    def stream_response(self, **_: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def in_short(answer: Any) -> str:
    found = re.search(r"Not saved|Saved|Mia [a-z ]+\.", str(answer["output"]))
    return found[0] if found else str(answer)


async def main() -> None:
    set_tracing_disabled(disabled=True)
    with tempfile.TemporaryDirectory() as folder:
        # with the command on your PATH: "command": "memory-dedup", "args": ["serve"]
        params: Any = {
            "command": sys.executable,
            "args": ["-m", "memory", "serve", "--user", "Mia"],
            "env": {"MEMORY_DATA_DIR": folder},
        }
        async with MCPServerStdio(params=params, client_session_timeout_seconds=30) as server:
            agent = Agent(name="assistant", model=OfflineModel(), mcp_servers=[server])
            for said in ("Mia teaches cello.", "mia teaches cello!", "What does Mia teach?"):
                answer = await Runner.run(agent, said)
                sys.stdout.write(f"you> {said}\nbot> {answer.final_output}\n")


if __name__ == "__main__":
    asyncio.run(main())

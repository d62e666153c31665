"""A real MCP client and a server process for the agent's tests, and the wire between them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import CallToolResult, Tool

from tests import commands

ROOT = Path(__file__).parent.parent.parent
SERVE = ["-m", "memory", "serve"]
PLACED = ["-m", "tests.agent.placed_server"]


class Agent:
    """A blocking MCP client; its server runs in another process."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal = portal
        self._client = client

    def call(self, tool: str, **arguments: Any) -> CallToolResult:
        result = self._portal.call(self._client.call_tool, tool, arguments)
        assert isinstance(result, CallToolResult)
        return result

    def says(self, tool: str, **arguments: Any) -> str:
        """Call a tool and return the text of its answer, which must be no error."""
        result = self.call(tool, **arguments)
        assert not result.is_error, text_of(result)
        return text_of(result)

    def data(self, tool: str, **arguments: Any) -> Any:
        """Call a tool and return the structured part of its answer, which must be no error."""
        result = self.call(tool, **arguments)
        assert not result.is_error, text_of(result)
        return result.structured_content

    def refuses(self, tool: str, **arguments: Any) -> str:
        """Call a tool that must fail, and return the text of its error."""
        result = self.call(tool, **arguments)
        assert result.is_error, text_of(result)
        assert result.structured_content is None
        return text_of(result)

    def remember(self, content: str, **arguments: Any) -> str:
        """Save a memory and return its id; it must not be blocked."""
        answer = self.data("remember", content=content, **arguments)
        assert answer["saved"], answer
        return str(answer["id"])

    def links(self, memory_id: str, content: str) -> set[str]:
        """Return the ids linked with a memory, as a recall of its own words shows them."""
        found = self.data("recall", context=content, n_results=10)["memories"]
        [links] = [set(one["linked_ids"]) for one in found if one["id"] == memory_id]
        return links

    def tools(self) -> list[Tool]:
        return self._portal.call(self._client.list_tools).tools


def text_of(result: CallToolResult) -> str:
    [block] = result.content
    assert block.type == "text"
    return block.text


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return an environment without keys, with all data in this folder."""
    keys = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    kept = {name: value for name, value in os.environ.items() if name not in keys}
    return kept | {"PYTHONPATH": str(ROOT), "MEMORY_DATA_DIR": str(folder / "data")} | more


@contextmanager
def agent(folder: Path, command: list[str] = SERVE, **env: str) -> Iterator[Agent]:
    """Start a server and yield its client; both end with the block."""
    server = StdioServerParameters(
        command=commands.python(),
        args=["-W", "error", *command],
        env=environment(folder, **env),
        cwd=str(folder),
    )
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(stdio_client(server))) as client,
    ):
        yield Agent(portal, client)


class Wire:
    """The server's process and its pipes, for tests that write the protocol themselves."""

    def __init__(self, folder: Path, *options: str, python: tuple[str, ...] = ()) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by drop
        self.process = subprocess.Popen(
            [sys.executable if python else commands.python(), *python, *SERVE, *options],
            cwd=folder,
            env=environment(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            encoding="utf-8",
        )
        self.lines: list[str] = []
        self._number = 0

    def send(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, method: str, **params: Any) -> Any:
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self.send(json.dumps(message))
        return json.loads(self.read_line())

    def read_line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.lines.append(line)
        return line

    def begin(self) -> None:
        who = {"name": "test", "version": "0"}
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=who)
        self.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.ask("tools/call", name=tool, arguments=arguments)

    def end(self) -> int:
        """Close the input, wait, and return the status; `lines` then has the whole output."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.wait()

    def wait(self) -> int:
        assert self.process.stdout is not None
        self.lines += self.process.stdout.readlines()
        return self.process.wait(timeout=20)

    def errors(self) -> str:
        self._said.seek(0)
        return self._said.read().decode()

    def drop(self) -> None:
        """Kill the process and close its pipes."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self._said.close()

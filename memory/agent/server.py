"""The MCP server, the only `mcp` import. Over stdio, stdout belongs to the protocol.

It answers `initialize` and lists its tools while the store is opened. At the end of input, at
SIGTERM and at Ctrl-C it finishes the calls under way and closes the store.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mcp.types as wire
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings

from memory import __version__
from memory.agent.schemas import TOOLS, Tool, shown_schema
from memory.errors import MemoryPipelineError
from memory.runtime import stop_event

if TYPE_CHECKING:
    from memory.agent.tools import AgentTools, ToolAnswer

logger = logging.getLogger(__name__)

_PATIENCE_S = 10.0
"""How long the end waits for calls under way; a call that is cut off then leaves no trace."""
_OPENING_S = 60.0
"""How long calls under way at the end may wait for the store to open."""
USER = "memory_dedup.user"
"""The key of an HTTP request's scope that holds the user of its token."""
INSTRUCTIONS = (
    "Your long-term memory. recall before you answer from memory; remember what is worth keeping, "
    "one thing at a time; introspect now and then; consolidate when memory feels fragmented."
)


@dataclass(frozen=True)
class Opened:
    """The tools on an open store."""

    tools_of: Callable[[str | None], AgentTools]
    """Returns the tools for the user of a call's token; None if no token is needed."""
    close: Callable[[], None]


class AgentServer:
    """Serves the tools over MCP; calls wait until the store is open."""

    def __init__(self, opening: Future[Opened]) -> None:
        self._opening = opening
        self._under_way: set[asyncio.Task[Any]] = set()
        self.protocol: Server[Any] = Server(
            "memory-dedup",
            version=__version__,
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )

    async def serve(self, stop: asyncio.Event) -> None:
        """Serve stdio until its end or until `stop` is set, then finish the calls under way."""
        talking = asyncio.create_task(self._talk())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({talking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        await self.finish()
        if talking.done():
            await talking

    async def finish(self) -> None:
        """Wait, for a limited time, for the store to open and for the calls under way."""
        if self._under_way:
            await asyncio.wait([asyncio.wrap_future(self._opening)], timeout=_OPENING_S)
            await asyncio.wait(self._under_way, timeout=_PATIENCE_S)

    def over_http(self, hosts: Sequence[str]) -> Any:
        """Return an ASGI application at `/mcp` that pages of other origins cannot call.

        Requests share no session, so none outlives the token that it came with.
        """
        names = [name for host in hosts for name in (host, f"{host}:*")]
        origins = [f"{scheme}://{name}" for scheme in ("http", "https") for name in names]
        security = TransportSecuritySettings(allowed_hosts=names, allowed_origins=origins)
        return self.protocol.streamable_http_app(
            json_response=True, stateless_http=True, transport_security=security
        )

    async def _talk(self) -> None:
        async with stdio_server() as (incoming, outgoing):
            options = self.protocol.create_initialization_options()
            await self.protocol.run(incoming, outgoing, options)

    async def _list_tools(
        self, _context: Any, _params: wire.PaginatedRequestParams | None
    ) -> wire.ListToolsResult:
        return wire.ListToolsResult(tools=[_described(tool) for tool in TOOLS])

    async def _call_tool(
        self, context: Any, params: wire.CallToolRequestParams
    ) -> wire.CallToolResult:
        """Finish a call even if its client gives it up: nothing stays half done."""
        task = asyncio.create_task(self._answer(_caller(context), params))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        try:
            answer = await asyncio.shield(task)
        except MemoryPipelineError as exc:
            return _failure(str(exc))
        except Exception as exc:  # a fault of ours must not end the conversation
            logger.error("%s failed: %s", params.name, type(exc).__name__)
            logger.debug("where %s failed", params.name, exc_info=exc)
            return _failure(f"{params.name} failed: {type(exc).__name__}; see the server's log")
        return wire.CallToolResult(
            content=[wire.TextContent(type="text", text=answer.text)],
            structured_content=answer.data.model_dump(mode="json"),
        )

    async def opened(self) -> Opened:
        """Raises: what opening the store raises."""
        return await asyncio.wrap_future(self._opening)

    async def _answer(self, caller: str | None, params: wire.CallToolRequestParams) -> ToolAnswer:
        opened = await self.opened()
        return await opened.tools_of(caller).call(params.name, params.arguments or {})


def run_and_exit(server: AgentServer) -> None:
    """Serve, close the store and end this process, whose thread on stdin cannot be stopped."""

    async def run() -> None:
        with stop_event() as stop:  # until the end: a second signal must not cut it short
            opening = asyncio.create_task(server.opened())
            opening.add_done_callback(lambda done: stop.set() if done.exception() else None)
            status = await _served(server, stop)
            status = status or await _closed(opening)
            sys.stderr.flush()
            os._exit(status)

    asyncio.run(run())


async def _closed(opening: asyncio.Task[Opened]) -> int:
    """Close the store; return the exit status, 1 if it could not be opened."""
    await asyncio.wait([opening], timeout=_PATIENCE_S)
    if not opening.done():
        return 0
    if failure := opening.exception():
        problem = failure if isinstance(failure, MemoryPipelineError) else repr(failure)
        sys.stderr.write(f"error: {problem}\n")
        return 1
    try:
        opening.result().close()
    except Exception as exc:  # what was answered is committed
        logger.error("the store did not close: %s", exc)
    return 0


async def _served(server: AgentServer, stop: asyncio.Event) -> int:
    """Return the exit status."""
    try:
        await server.serve(stop)
    except Exception as exc:  # the pipe broke
        logger.error("the conversation broke off: %s", type(exc).__name__)
        return 1
    return 0


def _caller(context: Any) -> str | None:
    """Return the user of the token that a call carries."""
    return context.request.scope.get(USER) if context.request is not None else None


def _described(tool: Tool) -> wire.Tool:
    return wire.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=shown_schema(tool.arguments),
        output_schema=shown_schema(tool.answer),
        annotations=wire.ToolAnnotations(
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=False,
        ),
    )


def _failure(problem: str) -> wire.CallToolResult:
    return wire.CallToolResult(content=[wire.TextContent(type="text", text=problem)], is_error=True)

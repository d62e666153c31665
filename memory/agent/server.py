"""The MCP server that offers the agent's tools, over stdio or over HTTP with bearer tokens.

It answers `initialize` and lists its tools while the store is still being opened. At the end of
input, at SIGTERM and at Ctrl-C it finishes the running calls and closes the store. Over stdio,
only messages of the protocol may be written to stdout.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import stat
import sys
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import mcp.types as wire
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

from memory import __version__, runtime  # `runtime` loads the HTTP libraries only when used
from memory.agent.schemas import TOOLS, shown_schema
from memory.errors import InputError, LedgerError, MemoryPipelineError
from memory.runtime import in_thread, open_regular, stop_event
from memory.text import clean, one_line

if TYPE_CHECKING:
    import socket

    from memory.agent.tools import AgentTools, ToolAnswer

logger = logging.getLogger(__name__)

_PATIENCE_S = 10.0
_OPENING_S = 60.0
_USER = "memory_dedup.user"
_SHORTEST = 16
_LONG = 1_000
"""With more characters in its arguments, a call waits for its turn: one runs at a time."""
_MOST_BYTES = 10_000_000
_FORM = "write a token, a space and a user, one of them a line"
INSTRUCTIONS = (
    "Your long-term memory. recall before you answer from memory; remember what is worth keeping, "
    "one thing at a time; introspect now and then; consolidate when memory feels fragmented."
)


class Opened(NamedTuple):
    tools_of: Callable[[str | None], AgentTools]
    """Returns the tools for a user; the user is None if the server uses no tokens."""
    close: Callable[[], None]
    release: Callable[[], Coroutine[Any, Any, None]] | None = None
    """Closes the model's connections, in the loop in which the tools were called."""


class AgentServer:
    """The MCP server of the agent's tools. Tool calls wait until the store is open."""

    def __init__(self, opening: Future[Opened]) -> None:
        self._opening = opening
        self._under_way: set[asyncio.Task[Any]] = set()
        self._long_call = asyncio.Lock()
        self._long_call_of: defaultdict[str | None, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.protocol: Server[Any] = Server(
            "memory-dedup",
            version=__version__,
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )

    async def serve(self, stop: asyncio.Event) -> None:
        """Serve over stdio until the input ends or `stop` is set; then finish the running calls."""
        talking = asyncio.create_task(self._talk())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({talking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        await self.finish()
        if talking.done():
            await talking

    async def finish(self) -> None:
        if self._under_way:
            await asyncio.wait([asyncio.wrap_future(self._opening)], timeout=_OPENING_S)
            await asyncio.wait(self._under_way, timeout=_PATIENCE_S)
        if self._opening.done() and not self._opening.exception():
            release = self._opening.result().release
            if release is not None:
                await release()

    def over_http(self, address: runtime.Address, hosts: Sequence[str]) -> Any:
        """Return an ASGI application that serves the tools at `/mcp`, without sessions.

        A request must address the server by a loopback name, a name in `hosts`, or the host of
        `address`. Requests from web pages of other hosts are refused.
        """
        own = () if address.is_every else (address.name,)
        named = dict.fromkeys((*runtime.THIS_MACHINE, *hosts, *own))
        names = [name for host in named for name in (host, f"{host}:*")]
        origins = [f"{scheme}://{name}" for scheme in ("http", "https") for name in names]
        return self.protocol.streamable_http_app(
            json_response=True,
            stateless_http=True,
            transport_security=TransportSecuritySettings(
                allowed_hosts=names, allowed_origins=origins
            ),
        )

    async def _talk(self) -> None:
        async with stdio_server() as (incoming, outgoing):
            await self.protocol.run(
                incoming, outgoing, self.protocol.create_initialization_options()
            )

    async def _list_tools(
        self, _context: Any, _params: wire.PaginatedRequestParams | None
    ) -> wire.ListToolsResult:
        return self._tools

    @cached_property
    def _tools(self) -> wire.ListToolsResult:
        """The list of all tools, for which mcp also asks at each call over HTTP."""
        return wire.ListToolsResult(
            tools=[
                wire.Tool(
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
                for tool in TOOLS
            ]
        )

    async def _call_tool(
        self, context: Any, params: wire.CallToolRequestParams
    ) -> wire.CallToolResult:
        user = context.request.scope.get(_USER) if context.request is not None else None
        task = asyncio.create_task(self._answer(user, params))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        try:
            answer = await asyncio.shield(task)  # a client's cancelling does not end it
        except MemoryPipelineError as exc:
            return _failure(str(exc))
        except Exception as exc:  # any fault of a tool: the client is told, and the server goes on
            logger.error("%s failed: %s", params.name, type(exc).__name__)
            logger.debug("where %s failed", params.name, exc_info=exc)
            return _failure(f"{params.name} failed: {type(exc).__name__}; see the server's log")
        return wire.CallToolResult(
            content=[wire.TextContent(type="text", text=answer.text)],
            structured_content=answer.data.model_dump(mode="json"),
        )

    async def opened(self) -> Opened:
        return await asyncio.wrap_future(self._opening)

    async def _answer(self, user: str | None, params: wire.CallToolRequestParams) -> ToolAnswer:
        opened = await self.opened()
        arguments = params.arguments or {}
        async with contextlib.AsyncExitStack() as turn:
            if sum(len(value) for value in arguments.values() if isinstance(value, str)) > _LONG:
                # Long texts would keep all threads busy. The first lock takes one call of each
                # user, so that the second takes the users in turn.
                await turn.enter_async_context(self._long_call_of[user])
                await turn.enter_async_context(self._long_call)
            return await opened.tools_of(user).call(params.name, arguments)


def run_and_exit(server: AgentServer) -> None:
    """Serve over stdio, close the store, and end this process with `os._exit`.

    A normal exit would wait for the thread that reads stdin. The exit status is 1 if the store
    could not be opened or the connection broke; else 0.
    """

    async def run() -> None:
        with stop_event() as stop:  # until the end: a second signal must not cut it short
            opening = asyncio.create_task(server.opened())
            opening.add_done_callback(lambda done: stop.set() if done.exception() else None)
            try:
                await server.serve(stop)
                status = await _close_store(opening)
            except Exception as exc:  # a broken pipe has many types
                logger.error("the conversation broke off: %s", type(exc).__name__)
                status = 1
            sys.stderr.flush()
            os._exit(status)  # a normal exit would wait for the thread that reads stdin

    asyncio.run(run())


async def _close_store(opening: asyncio.Task[Opened]) -> int:
    await asyncio.wait([opening], timeout=_PATIENCE_S)
    if not opening.done():
        return 0
    if failure := opening.exception():
        problem = failure if isinstance(failure, MemoryPipelineError) else repr(failure)
        sys.stderr.write(f"error: {one_line(clean(str(problem)))}\n")
        return 1
    try:
        opening.result().close()
    except Exception as exc:  # of the database or an index; what was answered is committed
        logger.error("the store did not close: %s", exc)
    return 0


def _failure(problem: str) -> wire.CallToolResult:
    return wire.CallToolResult(content=[wire.TextContent(type="text", text=problem)], is_error=True)


# --- over HTTP ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tokens:
    """The bearer tokens that HTTP requests may carry. Each token belongs to one user.

    Only digests are kept and compared, so that response times reveal nothing about a token.
    """

    users_by_digest: Mapping[bytes, str]

    @classmethod
    def read(cls, source: Path | str, text: str) -> Tokens:
        """Read tokens from lines `TOKEN USER`. Empty lines and lines beginning with # are skipped.

        Raises: InputError, which names `source` and the wrong line but never a token.
        """
        users: dict[bytes, str] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            token, _, user = line.strip().partition(" ")
            if not token or token.startswith("#"):
                continue
            if not clean(user):
                raise InputError(source, "has a token without a user", _FORM, number)
            digest = _digest(token)
            if len(token) < _SHORTEST or not token.isascii():
                raise InputError(
                    source,
                    f"has a token of fewer than {_SHORTEST} plain characters",
                    "make one with `openssl rand -hex 24`",
                    number,
                )
            if digest in users:
                raise InputError(source, "has a token twice", "give each user another", number)
            users[digest] = clean(user)
        if not users:
            raise InputError(source, "has no token", _FORM)
        return cls(users)

    @property
    def users(self) -> set[str]:
        return set(self.users_by_digest.values())

    def user_of(self, authorization: str) -> str | None:
        scheme, _, token = authorization.strip().partition(" ")
        is_bearer = scheme.lower() == "bearer"
        return self.users_by_digest.get(_digest(token.strip())) if is_bearer else None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def read_tokens(path: Path) -> Tokens:
    """Read a token file; log a warning if other users of the machine can read it.

    Raises: InputError if the file cannot be read or a line is wrong.
    """
    try:
        with open_regular(path) as file:
            read = file.read(_MOST_BYTES + 1)
        if len(read) > _MOST_BYTES:
            raise InputError(path, f"has more than {_MOST_BYTES:,} bytes", _FORM)
        text = read.decode()
        if path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            logger.warning("%s can be read by others; chmod 600 makes it yours alone", path)
    except (OSError, UnicodeDecodeError) as exc:
        why = getattr(exc, "strerror", None) or "is not UTF-8 text"
        raise InputError(path, f"cannot be read: {why}", _FORM) from exc
    return Tokens.read(path, text)


def token_gate(
    app: ASGIApp, tokens: Tokens | None, read_ledger: Callable[[], object]
) -> runtime.Gate:
    """Wrap `app` in a gate that refuses requests without a known token, with status 401.

    The gate stores the token's user in the request, for the tools. If `tokens` is None, all
    requests pass. The gate itself answers `/health`, which needs no token: the status is 200, or
    503 if `read_ledger` raises LedgerError.
    """

    async def check(request: Request) -> Response | None:
        if request.scope["path"] == "/health":
            try:
                await in_thread(read_ledger)
            except LedgerError as exc:
                logger.warning("not healthy: %s", exc)
                return PlainTextResponse("the ledger cannot be read\n", 503)
            return PlainTextResponse("ok\n")
        if tokens is None:
            return None
        user = tokens.user_of(request.headers.get("authorization", ""))
        if user is None:
            return PlainTextResponse(
                "a bearer token is needed\n", 401, {"www-authenticate": "Bearer"}
            )
        request.scope[_USER] = user
        return None

    return runtime.Gate(app, check)


async def serve_over_http(server: AgentServer, app: ASGIApp, listening: socket.socket) -> None:
    """Serve `app` on a listening socket until SIGTERM or Ctrl-C; then finish the running calls."""
    with stop_event() as stop:
        await runtime.serve_until(stop, app, listening)
        await server.finish()

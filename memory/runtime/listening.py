"""HTTP servers: their address, the check of each request, and limits for each client.

Only this file imports `uvicorn` and `h11`. uvicorn limits the size of a header and the number of
requests answered at the same time, but not how long a client may take to send a request.
`_Protocol` adds that limit, and closes the oldest unfinished connection if there are too many
connections. The servers speak plain HTTP: to reach them from other machines, put an encrypting
proxy in front.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import h11
import uvicorn
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from memory.errors import InputError, WrongArgument

THIS_MACHINE = ("127.0.0.1", "localhost", "[::1]")
"""Host names of this machine, as written in a URL."""
MAX_BODY_BYTES = 4_000_000
_SHUTDOWN_S = 10
"""Seconds that a stopping server waits for requests that are still in progress."""
_BACKLOG = 100
"""The most connections that asyncio accepts in one step.

If file descriptors run out, asyncio logs an error for each of these connections.
"""
_LOG_EVERY_S = 60.0
_NOT_ALLOWED = 1008
"""WebSocket close code: policy violation."""


@dataclass(frozen=True)
class Limits:
    """The limits that an HTTP server sets for its clients."""

    header_s: float = 10.0
    """Seconds in which a client must send the header of a request."""
    body_s: float = 30.0
    """Seconds in which a client must send the body of a request."""
    header_bytes: int = 16_384
    """The greatest size of a request's header, in bytes."""
    connections: int = 256
    """The greatest number of open connections, of all clients together."""


@dataclass(frozen=True)
class Address:
    """A host and a port for a server to listen on."""

    host: str
    port: int

    @classmethod
    def read(cls, text: str) -> Address:
        """Parse an address such as `127.0.0.1:8765` or `[::1]:8765`; port 0 means any free port.

        Raises: WrongArgument if the text is no such address.
        """
        try:
            parts = urlsplit(f"//{text}")
            if not parts.hostname or parts.port is None or parts.netloc != text or "@" in text:
                raise ValueError
        except ValueError as exc:
            raise WrongArgument(repr(text), "is not HOST:PORT", "write 127.0.0.1:8765") from exc
        return cls(parts.hostname, parts.port)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def is_every(self) -> bool:
        """Whether the host means "all addresses of this machine", such as `0.0.0.0`.

        Clients cannot use such a host in a URL.
        """
        return self.host in ("0.0.0.0", "::", "")  # noqa: S104 - asked for, not chosen

    @property
    def name(self) -> str:
        """Return the host as written in a URL: an IPv6 address gets brackets."""
        return f"[{self.host}]" if ":" in self.host else self.host

    def listen(self) -> socket.socket:
        """Open a socket that listens on this address, and return it.

        The host `::` listens on IPv4 as well.

        Raises: InputError if the address cannot be used.
        """
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        both = self.host == "::" and socket.has_dualstack_ipv6()
        try:
            where = self.host, self.port
            return socket.create_server(where, family=family, dualstack_ipv6=both)
        except OSError as exc:
            problem = f"cannot listen there: {exc.strerror or exc}"
            remedy = "choose another port or address"
            raise InputError(f"{self.name}:{self.port}", problem, remedy) from exc


class Gate:
    """An ASGI application that checks each HTTP request before the inner application receives it.

    After the check, the whole body is read before the inner application starts. A request whose
    body has more than MAX_BODY_BYTES is refused. WebSockets are always refused.
    """

    def __init__(
        self,
        app: ASGIApp,
        check: Callable[[Request], Awaitable[Response | None]],
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Guard the ASGI application `app`.

        `check` is called with each HTTP request. If it returns a response, that response is sent
        and `app` is not called; if it returns None, the request is forwarded to `app`.
        `headers` are set on every response, also on refusals.
        """
        self._app = app
        self._check = check
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": f"{scope['type']}.close", "code": _NOT_ALLOWED})
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        request = Request(scope, receive)
        with contextlib.suppress(ClientDisconnect):
            refusal = await self._check(request)
            answer = refusal or await self._with_body(request)
            await answer(scope, receive, send_with_headers)

    async def _with_body(self, request: Request) -> ASGIApp:
        """Read the whole body, and return the application that answers the request.

        Usually, this is the inner application, which then receives the stored body. If the body is
        too large, it is a response that refuses the request.
        """
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                why = f"a request has at most {MAX_BODY_BYTES:,} bytes\n"
                return PlainTextResponse(why, 413, {"connection": "close"})
        unread: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            async def receive_from_memory() -> Message:
                return unread.pop() if unread else await receive()

            await self._app(scope, receive_from_memory, send)

        return app


async def serve_until(
    stop: asyncio.Event, app: ASGIApp, listening: socket.socket, limits: Limits = Limits()
) -> None:
    """Serve `app`, an ASGI application, on a listening socket until `stop` is set.

    After that, requests in progress get ten more seconds to finish.
    """
    connections = min(limits.connections, _open_files() // 4)
    settings = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,  # it would contain tokens
        http=partial(_Protocol, limits, connections),  # type: ignore[arg-type] # makes one
        h11_max_incomplete_event_size=limits.header_bytes,
        backlog=_BACKLOG,
        # The tasks of connections that were just closed count for a moment too.
        limit_concurrency=2 * connections,
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_SHUTDOWN_S,
    )
    server = _Server(settings)
    with _one_line_a_minute_about_clients():
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await serving
    stopping.cancel()


class _Server(uvicorn.Server):
    """A uvicorn server that installs no signal handlers."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _open_files() -> int:
    """Return how many files and connections this process may have open at once."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return 1_000
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 1_000_000


class _Protocol(H11Protocol):
    """The HTTP connection of one client, which is closed if the client sends too slowly.

    If a new connection exceeds the greatest number of open connections, the oldest connection with
    an unfinished request is closed.
    """

    _state: object = None
    """The client's state in h11, such as SEND_BODY, when the timer was last restarted."""
    _timer: asyncio.TimerHandle | None = None

    def __init__(self, limits: Limits, most: int, **uvicorns: Any) -> None:
        """Set the limits for this connection.

        `most` is the greatest number of open connections of the server. `uvicorns` holds the
        arguments that uvicorn passes to a protocol class.
        """
        super().__init__(**uvicorns)
        self._seconds = {h11.IDLE: limits.header_s, h11.SEND_BODY: limits.body_s}
        """For how many seconds a client may stay in a state of h11; the other states have no limit.
        """
        self._most = most

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._opened_at = self.loop.time()
        self._restart_timer()
        if len(self.connections) > self._most:
            self._close_oldest_unfinished()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        self._restart_timer()

    def _restart_timer(self) -> None:
        state = self.conn.their_state
        if state is self._state:
            return
        self._stop_timer()
        self._state = state
        if state in self._seconds:
            self._timer = self.loop.call_later(self._seconds[state], self._close, "was too slow")

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_oldest_unfinished(self) -> None:
        others = (one for one in self.connections if isinstance(one, _Protocol) and one is not self)
        unfinished = [other for other in others if other._timer is not None]
        if unfinished:
            oldest = min(unfinished, key=lambda other: other._opened_at)
            oldest._close("made room for another: there are too many connections")

    def _close(self, why: str) -> None:
        self._stop_timer()
        self.connections.discard(self)
        if not self.transport.is_closing():
            self.logger.warning("a client was cut off: it %s", why)
            self.transport.abort()


class _OneLineAMinute(logging.Filter):
    """A log filter that lets at most one line about clients through in a minute.

    Lines about clients are all warnings, and the errors that asyncio logs if it cannot accept a
    connection. All other lines are let through. A line about clients that is let through says how
    many were dropped before it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._quiet_until = 0.0
        self._dropped = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING and "socket.accept()" not in str(record.msg):
            return True
        now = time.monotonic()
        if now < self._quiet_until:
            self._dropped += 1
            return False
        if self._dropped:
            record.msg = f"{record.msg} (and {self._dropped:,} more lines about clients before)"
        self._quiet_until, self._dropped = now + _LOG_EVERY_S, 0
        return True


@contextlib.contextmanager
def _one_line_a_minute_about_clients() -> Iterator[None]:
    rate, loggers = _OneLineAMinute(), [logging.getLogger(n) for n in ("uvicorn.error", "asyncio")]
    for logger in loggers:
        logger.addFilter(rate)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(rate)

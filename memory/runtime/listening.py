"""HTTP servers: their address, the check of each request, and limits for each client.

Only this file imports `uvicorn`. uvicorn does not limit how long a client may take to
send a request; `_Protocol` does. The servers speak plain HTTP: to reach them from other machines,
put an encrypting proxy in front.
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
MAX_BODY_VALUES = 5_000
"""The most values that a body, JSON or a form, may have. More would hold the event loop."""


@dataclass(frozen=True)
class Address:
    """A host and a port for a server to listen on.

    >>> address = Address.read("[::1]:8765")
    >>> address.host, address.port, address.name, address.is_loopback
    ('::1', 8765, '[::1]', True)
    >>> Address.read("0.0.0.0:0").is_every
    True
    """

    host: str
    port: int

    @classmethod
    def read(cls, text: str) -> Address:
        """Parse an address such as `127.0.0.1:8765` or `[::1]:8765`; port 0 means any free port.

        Raises: WrongArgument.
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
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def is_every(self) -> bool:
        """Whether the host means "all addresses of this machine", such as `0.0.0.0`."""
        return self.host in ("0.0.0.0", "::", "")  # noqa: S104 - asked for, not chosen

    @property
    def name(self) -> str:
        """Return the host as written in a URL: an IPv6 address gets brackets."""
        return f"[{self.host}]" if ":" in self.host else self.host

    def listen(self) -> socket.socket:
        """Return a socket that listens on this address; for the host `::`, on IPv4 as well.

        Raises: InputError if the address cannot be used.
        """
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        both = self.host == "::" and socket.has_dualstack_ipv6()
        try:
            listening = socket.create_server(
                (self.host, self.port), family=family, dualstack_ipv6=both
            )
            # Else an answer's body waits some 40 ms until the client acknowledges the head.
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as exc:
            raise InputError(
                f"{self.name}:{self.port}",
                f"cannot listen there: {exc.strerror or exc}",
                "choose another port or address",
            ) from exc
        return listening


class Gate:
    """An ASGI application that checks each HTTP request before the inner application receives it.

    The whole body is read before the inner application starts. A body of more than MAX_BODY_BYTES
    is refused, and a body of more than MAX_BODY_VALUES values. WebSockets are always
    refused.
    """

    def __init__(
        self,
        app: ASGIApp,
        check: Callable[[Request], Awaitable[Response | None]],
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Guard `app`: a request reaches `app` only if `check` returns None.

        If `check` returns a response, this response is sent instead. `headers` are set on every
        response, also on refusals.
        """
        self._app = app
        self._check = check
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": f"{scope['type']}.close", "code": 1008})  # policy violation
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        request = Request(scope, receive)
        with contextlib.suppress(ClientDisconnect):
            answer = await self._check(request) or await self._with_body(request)
            await answer(scope, receive, send_with_headers)

    async def _with_body(self, request: Request) -> ASGIApp:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                return PlainTextResponse(
                    f"a request has at most {MAX_BODY_BYTES:,} bytes\n",
                    413,
                    {"connection": "close"},
                )
        if values_in(body) > MAX_BODY_VALUES:
            return PlainTextResponse(f"a request has at most {MAX_BODY_VALUES:,} values\n", 413)
        unread: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            async def receive_from_memory() -> Message:
                return unread.pop() if unread else await receive()

            await self._app(scope, receive_from_memory, send)

        return app


def values_in(body: bytes | bytearray) -> int:
    r"""Return about how many values a body has: its commas, brackets and "&" outside of texts.

    >>> values_in(rb'{"a": [1, 2], "b": "one, two, \"three\", four"}')
    4
    """
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    quotes = unescaped.count(b'"')
    if quotes > 4 * MAX_BODY_VALUES:  # a value has two texts at most, itself and its key
        return quotes // 4
    outside = b"".join(unescaped.split(b'"')[::2])
    return sum(map(outside.count, (b",", b"[", b"{", b"&")))


async def serve_until(
    stop: asyncio.Event,
    app: ASGIApp,
    listening: socket.socket,
    *,
    header_s: float = 10.0,
    body_s: float = 30.0,
    connections: int = 256,
) -> None:
    """Serve `app` on a listening socket until `stop` is set.

    A client must send a header in `header_s` seconds, and a body in `body_s` seconds. If more than
    `connections` connections are open, the oldest one with an unfinished request is closed. After
    `stop`, requests in progress get ten more seconds to finish.
    """
    connections = min(connections, _open_files() // 4)
    limits_s = {"IDLE": header_s, "SEND_BODY": body_s}  # by the state of a client
    settings = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,  # it would contain tokens
        http=partial(_Protocol, limits_s, connections),  # type: ignore[arg-type] # makes one
        h11_max_incomplete_event_size=16_384,  # bytes of a header
        backlog=100,  # if file descriptors run out, asyncio logs an error for each of these
        # The tasks of connections that were just closed count for a moment too.
        limit_concurrency=2 * connections,
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=10,
    )
    server = uvicorn.Server(settings)
    # The caller handles signals, and sets `stop`.
    server.capture_signals = contextlib.nullcontext  # type: ignore[assignment] # another context
    with _one_line_a_minute_about_clients():
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await serving
    stopping.cancel()


def _open_files() -> int:
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return 1_000
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 1_000_000


class _Protocol(H11Protocol):
    """The HTTP connection of one client, which is closed if the client sends too slowly.

    If there are too many connections, the oldest one with an unfinished request is closed.
    """

    _state = ""
    _timer: asyncio.TimerHandle | None = None

    def __init__(self, limits_s: Mapping[str, float], most: int, **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self._limits_s = limits_s
        self._most = most

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._opened_at = self.loop.time()
        self._restart_timer()
        if len(self.connections) > self._most:
            unfinished = [
                one
                for one in self.connections - {self}
                if isinstance(one, _Protocol) and one._timer
            ]
            if unfinished:
                oldest = min(unfinished, key=lambda one: one._opened_at)
                oldest._close("made room for another: there are too many connections")

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        self._restart_timer()

    def _restart_timer(self) -> None:
        state = str(self.conn.their_state)
        if state == self._state:
            return
        self._stop_timer()
        self._state = state
        if state in self._limits_s:
            self._timer = self.loop.call_later(self._limits_s[state], self._close, "was too slow")

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self, why: str) -> None:
        self._stop_timer()
        self.connections.discard(self)
        if not self.transport.is_closing():
            self.logger.warning("a client was cut off: it %s", why)
            self.transport.abort()


class _OneLineAMinute(logging.Filter):
    """A log filter that passes at most one warning a minute, so that clients cannot flood the log.

    asyncio's errors about connections that it cannot accept count as warnings. All other lines
    pass.
    """

    _quiet_until = 0.0
    _dropped = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING and "socket.accept()" not in str(record.msg):
            return True
        now = time.monotonic()
        if now < self._quiet_until:
            self._dropped += 1
            return False
        if self._dropped:
            record.msg = f"{record.msg} (and {self._dropped:,} more lines about clients before)"
        self._quiet_until, self._dropped = now + 60.0, 0
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

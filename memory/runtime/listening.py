"""Where a process listens for HTTP, and how it answers until it is asked to stop.

The only `uvicorn` import. It speaks plain HTTP: whoever is beyond this machine needs something
before it that encrypts. Clients that send half a request, or too much, cannot hold it up: requests
have time-outs and size limits, connections a limit, and bad clients one log line a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from memory.errors import InputError, WrongArgument

THIS_MACHINE = ("127.0.0.1", "localhost", "[::1]")
"""By which names a machine calls itself, as they stand in a URL."""
_PATIENCE_S = 10
"""How long the end waits for answers that are under way."""
MOST_BYTES = 4_000_000
"""Of a request's body."""
_BACKLOG = 100
"""Connections accepted in one go; asyncio logs as many errors where open files run out."""
_LOG_EVERY_S = 60.0


@dataclass(frozen=True)
class Limits:
    """What a client may take of a server before it is cut off."""

    header_s: float = 10.0
    body_s: float = 30.0
    header_bytes: int = 16_384
    connections: int = 256


@dataclass(frozen=True)
class Address:
    """Where to listen."""

    host: str
    port: int

    @classmethod
    def read(cls, text: str) -> Address:
        """`127.0.0.1:8765`, `[::1]:8765`; port 0 is any that is free.

        Raises: InputError.
        """
        try:
            parts = urlsplit(f"//{text}")
            if not parts.hostname or parts.port is None or parts.netloc != text or "@" in text:
                raise ValueError
        except ValueError as exc:
            raise WrongArgument(repr(text), "is no HOST:PORT", "say 127.0.0.1:8765") from exc
        return cls(parts.hostname, parts.port)

    @property
    def is_loopback(self) -> bool:
        """Whether nobody but this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def is_every(self) -> bool:
        """Whether it is no name that a client could call."""
        return self.host in ("0.0.0.0", "::", "")  # noqa: S104 - asked for, not chosen

    @property
    def name(self) -> str:
        """The host as it stands in a URL."""
        return f"[{self.host}]" if ":" in self.host else self.host

    def listen(self) -> socket.socket:
        """A socket there; where it is `::`, for IPv4 too.

        Raises: InputError.
        """
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        both = self.host == "::" and socket.has_dualstack_ipv6()
        try:
            place = self.host, self.port
            return socket.create_server(place, family=family, dualstack_ipv6=both)
        except OSError as exc:
            problem = f"cannot listen there: {exc.strerror or exc}"
            remedy = "choose another port or address"
            raise InputError(f"{self.name}:{self.port}", problem, remedy) from exc


async def serve_until(
    stop: asyncio.Event,
    app: Any,
    at: socket.socket,
    lifespan: Literal["on", "off"] = "off",
    limits: Limits = Limits(),
) -> None:
    """Answer requests by an ASGI application until `stop` is set; those under way are finished.

    `lifespan` says whether the application is told of its beginning and its end.
    """
    settings = _Settings(
        app,
        limits,
        lifespan=lifespan,
        log_config=None,
        log_level="warning",
        access_log=False,  # it would hold tokens
        http=_Protocol,
        h11_max_incomplete_event_size=limits.header_bytes,
        backlog=_BACKLOG,
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_PATIENCE_S,
    )
    server = _Server(settings)
    with _few_lines_about_clients():
        serving = asyncio.create_task(server.serve(sockets=[at]))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await serving
    stopping.cancel()


class _Server(uvicorn.Server):
    """Stops when it is told to; signals are the business of whoever runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Settings(uvicorn.Config):
    """uvicorn's settings, and what each client may take."""

    def __init__(self, app: Any, limits: Limits, **rest: Any) -> None:
        self.connections = min(limits.connections, _open_files() // 4)
        # Above it all are at work, and a request is answered with 503. The tasks of those cut off
        # count for a moment too.
        super().__init__(app, limit_concurrency=2 * self.connections, **rest)
        self.time_s = {h11.IDLE: limits.header_s, h11.SEND_BODY: limits.body_s}
        """How long a client may stay in each state."""


def _open_files() -> int:
    """How many files and connections this process may have open."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return 1_000
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 1_000_000


class _Protocol(H11Protocol):
    """Cuts off who sends too slowly; where connections run out, the longest unfinished one."""

    config: _Settings
    _awaited: object = None
    """The state of the client that the timer is for."""
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._opened_at = self.loop.time()
        self._watch()
        if len(self.connections) > self.config.connections:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        self._watch()

    def _watch(self) -> None:
        """Start the timer of what the client has to send next."""
        state = self.conn.their_state
        if state is self._awaited:
            return
        self._stop_timer()
        self._awaited = state
        if state in self.config.time_s:
            wait_s = self.config.time_s[state]
            self._timer = self.loop.call_later(wait_s, self._cut, "was too slow")

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _make_room(self) -> None:
        others = (one for one in self.connections if isinstance(one, _Protocol) and one is not self)
        unfinished = [one for one in others if one._timer is not None]
        if unfinished:
            oldest = min(unfinished, key=lambda one: one._opened_at)
            oldest._cut("made room for another: there are too many connections")

    def _cut(self, why: str) -> None:
        self._stop_timer()
        self.connections.discard(self)
        if not self.transport.is_closing():
            self.logger.warning("a client was cut off: it %s", why)
            self.transport.abort()


class _OnceAMinute(logging.Filter):
    """Lets one line about clients pass a minute; what is no client's fault passes always."""

    def __init__(self) -> None:
        super().__init__()
        self._quiet_until = 0.0
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING and "socket.accept()" not in str(record.msg):
            return True
        now = time.monotonic()
        if now < self._quiet_until:
            self._left_out += 1
            return False
        if self._left_out:
            record.msg = f"{record.msg} (and {self._left_out:,} more lines about clients before)"
        self._quiet_until, self._left_out = now + _LOG_EVERY_S, 0
        return True


@contextlib.contextmanager
def _few_lines_about_clients() -> Iterator[None]:
    once, loggers = _OnceAMinute(), [logging.getLogger(one) for one in ("uvicorn.error", "asyncio")]
    for logger in loggers:
        logger.addFilter(once)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(once)


class WholeBody:
    """Reads a request's body before it calls an application; a body that is too large is refused.

    It stands behind whoever checks who asks: nobody else's body is read.
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = bytearray()
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > MOST_BYTES:
                await _refuse(send, 413, f"a request has at most {MOST_BYTES:,} bytes\n")
                return
        whole = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def receive_again() -> Any:
            return whole.pop() if whole else await receive()

        await self._app(scope, receive_again, send)


async def _refuse(send: Any, status: int, why: str) -> None:
    headers = [(b"content-type", b"text/plain"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": why.encode()})

"""The agent's server over HTTP: where it listens, whom it lets in, and how it ends."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import uvicorn

from memory.agent.server import USER, AgentServer
from memory.agent.tokens import Tokens
from memory.errors import InputError
from memory.signals import stop_event

_PATIENCE_S = 10
"""How long the end waits for answers that are under way."""
_HERE = ("127.0.0.1", "localhost", "[::1]")

Asgi = Callable[
    [
        MutableMapping[str, Any],
        Callable[[], Awaitable[MutableMapping[str, Any]]],
        Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ],
    Awaitable[None],
]


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
            raise InputError("--http", f"{text!r} is no HOST:PORT", "say 127.0.0.1:8765") from exc
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
        return self.host in ("0.0.0.0", "::")  # noqa: S104 - asked for, not chosen

    def listen(self) -> socket.socket:
        """Raises: InputError."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            return socket.create_server((self.host, self.port), family=family)
        except OSError as exc:
            problem = f"cannot listen on {self.host}:{self.port}: {exc.strerror or exc}"
            raise InputError("--http", problem, "choose another port or address") from exc

    def called(self, names: Sequence[str]) -> tuple[str, ...]:
        """By which names clients may call it: this machine's, its own, and those given."""
        own = f"[{self.host}]" if ":" in self.host else self.host
        return tuple(dict.fromkeys((*_HERE, *names, *(() if self.is_every else (own,)))))


class Gate:
    """Lets in who carries a known token, and says whose it is; without tokens, everybody."""

    def __init__(self, inner: Asgi, tokens: Tokens | None) -> None:
        self._inner = inner
        self._tokens = tokens

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._tokens is None or scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"authorization", b"")
        user = self._tokens.user_of(given.decode("latin-1"))
        if user is not None:
            await self._inner({**scope, USER: user}, receive, send)
            return
        headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b"a bearer token is needed\n"})


async def serve_over_http(server: AgentServer, app: Asgi, listening: socket.socket) -> None:
    """Until SIGTERM or Ctrl-C; calls under way are finished."""
    settings = uvicorn.Config(
        app,
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=_PATIENCE_S,
    )
    with stop_event():  # its own handlers give the signal back once it has ended
        await uvicorn.Server(settings).serve(sockets=[listening])
        await server.finish()

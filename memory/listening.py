"""Where a process listens for HTTP, and how it answers until it is asked to stop.

The only `uvicorn` import. It speaks plain HTTP: whoever is beyond this machine needs something
before it that encrypts.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

import uvicorn

from memory.errors import InputError, WrongArgument

THIS_MACHINE = ("127.0.0.1", "localhost", "[::1]")
"""By which names a machine calls itself, as they stand in a URL."""
_PATIENCE_S = 10
"""How long the end waits for answers that are under way."""


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
    stop: asyncio.Event, app: Any, at: socket.socket, lifespan: Literal["on", "off"] = "off"
) -> None:
    """Answer requests by an ASGI application until `stop` is set; those under way are finished.

    `lifespan` says whether the application is told of its beginning and its end.
    """
    settings = uvicorn.Config(
        app,
        lifespan=lifespan,
        log_config=None,
        log_level="warning",
        access_log=False,  # it would hold tokens
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_PATIENCE_S,
    )
    server = _Server(settings)
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

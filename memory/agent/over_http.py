"""The agent's server over HTTP: by which names it is called, and whom it lets in."""

from __future__ import annotations

import logging
import socket
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from memory.agent.server import USER, AgentServer
from memory.agent.tokens import Tokens
from memory.errors import LedgerError
from memory.runtime import THIS_MACHINE, Address, in_thread, serve_until, stop_event

logger = logging.getLogger(__name__)

HEALTH = "/health"
_REFUSED = 1008
"""WebSocket's code for what a server does not allow."""

Asgi = Callable[
    [
        MutableMapping[str, Any],
        Callable[[], Awaitable[MutableMapping[str, Any]]],
        Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ],
    Awaitable[None],
]


def called(address: Address, names: Sequence[str]) -> tuple[str, ...]:
    """By which names clients may call a server: the machine's, its address, and those given."""
    own = () if address.is_every else (address.name,)
    return tuple(dict.fromkeys((*THIS_MACHINE, *names, *own)))


class Gate:
    """Lets in who carries a known token, and says whose it is; without tokens, everybody.

    `/health` asks for no token: it says whether the ledger can be read, and nothing else.
    """

    def __init__(self, inner: Asgi, tokens: Tokens | None, check: Callable[[], object]) -> None:
        """`check` raises LedgerError where the ledger cannot be read."""
        self._inner = inner
        self._tokens = tokens
        self._check = check

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "lifespan"):  # a token is asked for in no other
            await send({"type": f"{scope['type']}.close", "code": _REFUSED})
            return
        if scope["type"] == "http" and scope["path"] == HEALTH:
            await _answer(send, *await self._health())
            return
        if self._tokens is None or scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"authorization", b"")
        user = self._tokens.user_of(given.decode("latin-1"))
        if user is not None:
            await self._inner({**scope, USER: user}, receive, send)
            return
        needed = b"a bearer token is needed\n"
        await _answer(send, 401, needed, (b"www-authenticate", b"Bearer"))

    async def _health(self) -> tuple[int, bytes]:
        try:
            await in_thread(self._check)
        except LedgerError as exc:
            logger.warning("not healthy: %s", exc)
            return 503, b"the ledger cannot be read\n"
        return 200, b"ok\n"


async def _answer(send: Any, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    sent = [*headers, (b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": body})


async def serve_over_http(server: AgentServer, app: Asgi, listening: socket.socket) -> None:
    """Until SIGTERM or Ctrl-C; calls under way are finished."""
    with stop_event() as stop:
        await serve_until(stop, app, listening, lifespan="on")
        await server.finish()

"""The agent's server over HTTP: by which names it is called, and whom it lets in."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Sequence

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

from memory.agent.server import USER, AgentServer
from memory.agent.tokens import Tokens
from memory.errors import LedgerError
from memory.runtime import THIS_MACHINE, Address, Gate, in_thread, serve_until, stop_event

logger = logging.getLogger(__name__)


def called(address: Address, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names by which clients may call a server: this machine's, its own, `names`."""
    own = () if address.is_every else (address.name,)
    return tuple(dict.fromkeys((*THIS_MACHINE, *names, *own)))


def token_gate(app: ASGIApp, tokens: Tokens | None, read_ledger: Callable[[], object]) -> Gate:
    """Let in whoever carries a known token, and pass on whose it is; without tokens, everybody.

    `/health` asks for no token: it says whether the ledger can be read, and nothing else.
    `read_ledger` raises LedgerError if it cannot be.
    """

    async def check(request: Request) -> Response | None:
        if request.scope["path"] == "/health":
            return await _health(read_ledger)
        if tokens is None:
            return None
        user = tokens.user_of(request.headers.get("authorization", ""))
        if user is None:
            needed = {"www-authenticate": "Bearer"}
            return PlainTextResponse("a bearer token is needed\n", 401, needed)
        request.scope[USER] = user
        return None

    return Gate(app, check)


async def _health(read_ledger: Callable[[], object]) -> Response:
    try:
        await in_thread(read_ledger)
    except LedgerError as exc:
        logger.warning("not healthy: %s", exc)
        return PlainTextResponse("the ledger cannot be read\n", 503)
    return PlainTextResponse("ok\n")


async def serve_over_http(server: AgentServer, app: ASGIApp, listening: socket.socket) -> None:
    """Serve until SIGTERM or Ctrl-C; calls under way are finished."""
    with stop_event() as stop:
        await serve_until(stop, app, listening)
        await server.finish()

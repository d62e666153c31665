"""The agent's server over HTTP: the names that it answers to, and the tokens that it lets in."""

from __future__ import annotations

import hashlib
import hmac
import logging
import socket
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

from memory.agent.server import USER, AgentServer
from memory.errors import InputError, LedgerError
from memory.runtime import (
    THIS_MACHINE,
    Address,
    Gate,
    in_thread,
    open_regular,
    serve_until,
    stop_event,
)
from memory.text import clean

logger = logging.getLogger(__name__)


_SHORTEST = 16
_MOST_BYTES = 10_000_000
_FORM = "write a token, a space and a user, one of them a line"


class Tokens:
    """Bearer tokens, each of one user. Kept as digests and compared in constant time."""

    def __init__(self, users: Mapping[bytes, str]) -> None:
        self._users = dict(users)

    @classmethod
    def read(cls, source: Path | str, text: str) -> Tokens:
        """Read lines `TOKEN USER`; empty lines, and those that begin with #, are passed over.

        Raises: InputError, naming the line and never a token.
        """
        users: dict[bytes, str] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            token, _, user = line.strip().partition(" ")
            if not token or token.startswith("#"):
                continue
            if not clean(user):
                raise InputError(source, "has a token without a user", _FORM, number)
            if len(token) < _SHORTEST or not token.isascii():
                short = f"has a token of fewer than {_SHORTEST} plain characters"
                raise InputError(source, short, "make one with `openssl rand -hex 24`", number)
            if _digest(token) in users:
                raise InputError(source, "has a token twice", "give each user another", number)
            users[_digest(token)] = clean(user)
        if not users:
            raise InputError(source, "has no token", _FORM)
        return cls(users)

    @property
    def users(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._users.values()))

    def user_of(self, authorization: str) -> str | None:
        """Return the user of the token in an `Authorization` header; None for an unknown one."""
        scheme, _, token = authorization.strip().partition(" ")
        given = _digest(token.strip())
        found = None
        for digest, user in self._users.items():  # all of them, so that the time tells nothing
            if hmac.compare_digest(digest, given):
                found = user
        return found if scheme.lower() == "bearer" else None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def read_tokens(path: Path) -> Tokens:
    """Read the tokens of a file; warn if others can read it.

    Raises: InputError.
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


def called(address: Address, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names by which clients may call a server: this machine's, its own, `names`."""
    own = () if address.is_every else (address.name,)
    return tuple(dict.fromkeys((*THIS_MACHINE, *names, *own)))


def token_gate(app: ASGIApp, tokens: Tokens | None, read_ledger: Callable[[], object]) -> Gate:
    """Let in requests with a known token, and pass on its user; without tokens, all requests.

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

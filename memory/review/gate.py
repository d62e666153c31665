"""Who may use the review: whoever has come by the address that was printed, from that very place.

Loopback is no protection by itself: any page that is open in a browser may send requests to it, a
name of somebody else's may be made to lead to it, and other users of the machine may reach it.
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory.runtime import THIS_MACHINE, Address

TOKEN = "token"  # noqa: S105 - the name of a parameter
_SAFE = {"GET", "HEAD"}
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Gate:
    """Tokens that work once, and the cookie that each becomes."""

    def __init__(
        self, where: Address, new_secret: Callable[[], str] = secrets.token_urlsafe
    ) -> None:
        """`where` the server listens, with the port that it has."""
        self._where = where
        self._new_secret = new_secret
        self._session = new_secret()
        self._tokens: set[str] = set()
        self.cookie = f"memory_review_{where.port}"
        """Browsers send a host's cookies to all its ports."""

    def address(self) -> str:
        """Where to begin; it works once."""
        token = self._new_secret()
        self._tokens.add(token)
        return f"http://{self._name}:{self._where.port}/?{TOKEN}={token}"

    def refused(self, request: HTTPConnection, method: str) -> str:
        """Why a request is not answered; empty where it is."""
        host = request.headers.get("host", "")
        if not self._is_ours(host):
            return "another Host"
        origin = request.headers.get("origin")
        if origin is None and method not in _SAFE:
            return "no Origin"
        if origin is not None and origin != f"http://{host}":
            return "another Origin"
        known = request.cookies.get(self.cookie, "")
        if not secrets.compare_digest(known.encode(), self._session.encode()):
            return "no token: use the address that was printed"
        return ""

    def admitted(self, request: Request) -> Response | None:
        """The cookie for a token that was not used yet; None where the request brings none."""
        token = request.query_params.get(TOKEN)
        ours = request.method == "GET" and self._is_ours(request.headers.get("host", ""))
        if token is None or token not in self._tokens or not ours:
            return None
        self._tokens.discard(token)
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(self.cookie, self._session, httponly=True, samesite="strict")
        return answer

    @property
    def _name(self) -> str:
        return socket.gethostname() if self._where.is_every else self._where.name

    def _is_ours(self, host: str) -> bool:
        """Whether a browser that names this host cannot have been led here by another name."""
        try:
            parts = urlsplit(f"//{host}")
            name, port = parts.hostname or "", parts.port or 80
        except ValueError:
            return False
        shown = f"[{name}]" if ":" in name else name
        if host.lower() not in (shown, f"{shown}:{port}"):  # a user name, a path, spaces
            return False
        known = {one.strip("[]") for one in (*THIS_MACHINE, self._name.lower())}
        by_number = self._where.is_every and _is_address(name)
        return port == self._where.port and (name in known or by_number)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Guarded:
    """An application behind the gate; every answer says what its page may do."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        request = Request(scope, receive)
        answer: ASGIApp | None = self._gate.admitted(request)
        if answer is None:
            why = self._gate.refused(request, request.method)
            answer = PlainTextResponse(f"refused: {why}\n", 403) if why else self._app
        await answer(scope, receive, with_headers)

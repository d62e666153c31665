"""Who may use the review: a browser that opened a printed address, and pages of the review itself.

Loopback alone protects nothing: any web page can send requests to it, a foreign host name can be
made to resolve to it, and other users of the machine can reach it.
"""

from __future__ import annotations

import contextlib
import ipaddress
import secrets
import socket

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from memory.runtime import THIS_MACHINE, Address

_TOKEN = "token"  # noqa: S105 - the name of a parameter
_SAFE = {"GET", "HEAD"}


class BrowserSession:
    """One session for all admitted browsers: each one-time address becomes a cookie."""

    def __init__(self, address: Address) -> None:
        """`address` is where the server listens, with the port that it got."""
        self._port = address.port
        self._name = socket.gethostname() if address.is_every else address.name
        self._by_number = address.is_every
        names = {*THIS_MACHINE, self._name.lower()}
        self._hosts = {f"{name}:{self._port}" for name in names}
        self._hosts |= names if self._port == 80 else set()
        self._secret = secrets.token_urlsafe()
        self._tokens: set[str] = set()
        self._cookie = f"memory_review_{self._port}"
        """Named by the port, since browsers send the cookies of a host to all its ports."""

    def address(self) -> str:
        """Return a new address that admits one browser, once."""
        token = secrets.token_urlsafe()
        self._tokens.add(token)
        return f"http://{self._name}:{self._port}/?{_TOKEN}={token}"

    async def check(self, request: Request) -> Response | None:
        """Return the cookie for an unused token, or a refusal; None lets the request pass."""
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if not self._is_own(host.lower()):
            return _refused("the Host header names another server")
        token = request.query_params.get(_TOKEN)
        if request.method == "GET" and token in self._tokens:
            self._tokens.discard(token)
            answer = RedirectResponse("/", status_code=303)
            answer.set_cookie(self._cookie, self._secret, httponly=True, samesite="strict")
            return answer
        if origin is None and request.method not in _SAFE:
            return _refused("the Origin header is missing")
        if origin is not None and origin != f"http://{host}":
            return _refused("the Origin header names another site")
        cookie = request.cookies.get(self._cookie, "")
        if not secrets.compare_digest(cookie.encode(), self._secret.encode()):
            return _refused("open the address that was printed; each works once")
        return None

    def _is_own(self, host: str) -> bool:
        """Whether no foreign name can have led a browser to this host."""
        name, _, port = host.rpartition(":")
        if self._by_number and port == str(self._port):
            with contextlib.suppress(ValueError):
                ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
                return True
        return host in self._hosts


def _refused(why: str) -> Response:
    return PlainTextResponse(f"refused: {why}\n", 403)

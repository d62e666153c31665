"""A loopback server that answers JSON requests as scripted and records them."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Generic, Self, TypeVar


@dataclass(frozen=True, eq=False)
class Request:
    """One request."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


AskedT = TypeVar("AskedT", bound=Request)


@dataclass(frozen=True)
class Raw:
    """An answer as it goes over the wire; `hang_s` before it, `cut` sends half of the body.

    `stall_s` is a silence between head and body; `drop` closes the connection without a word,
    `reset` breaks it.
    """

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    hang_s: float = 0.0
    cut: bool = False
    drop: bool = False
    stall_s: float = 0.0
    reset: bool = False


_Answer = Raw | Callable[[AskedT], "Raw | dict[str, Any] | str"] | dict[str, Any] | str


class LoopbackServer(Generic[AskedT]):
    """A server with a queue of answers; `default` answers when it is empty.

    What `reader` answers is no part of the script, and is kept in `read` instead of `asked`.
    """

    def __init__(
        self,
        request: Callable[[str, dict[str, str], dict[str, Any]], AskedT],
        said: Callable[[str], dict[str, Any]],
        default: _Answer[AskedT] | None = None,
    ) -> None:
        """`request` parses a request; `said` makes the answer for a text."""
        self.script: list[_Answer[AskedT]] = []
        self.default: _Answer[AskedT] = default if default is not None else said("{}")
        self.asked: list[AskedT] = []
        self.reader: Callable[[AskedT], str | None] | None = None
        self.read: list[AskedT] = []
        self.request = request
        self._said = said
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # connections are kept, as Google's are

            def do_POST(self) -> None:
                length = int(self.headers["content-length"] or 0)
                body = json.loads(self.rfile.read(length))
                asked = server.request(self.path, dict(self.headers), body)
                server.answer(asked, self)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def answer(self, asked: AskedT, handler: BaseHTTPRequestHandler) -> None:
        answer: _Answer[AskedT] | None = self.reader(asked) if self.reader else None
        with self._lock:
            (self.asked if answer is None else self.read).append(asked)
            if answer is None:
                answer = self.script.pop(0) if self.script else self.default
        if callable(answer):
            answer = answer(asked)
        if isinstance(answer, str):
            answer = self._said(answer)
        if isinstance(answer, dict):
            body = json.dumps(answer).encode()
            answer = Raw(200, body, {"content-type": "application/json"})
        self._send(answer, handler)

    def _send(self, raw: Raw, handler: BaseHTTPRequestHandler) -> None:
        time.sleep(raw.hang_s)
        handler.close_connection = raw.drop or raw.cut or raw.reset
        if raw.reset:
            _reset(handler.connection)
        if raw.drop or raw.reset:
            return
        try:
            handler.send_response(raw.status)
            for name, value in raw.headers.items():
                handler.send_header(name, value)
            handler.send_header("content-length", str(len(raw.body)))
            handler.end_headers()
            time.sleep(raw.stall_s)
            handler.wfile.write(raw.body[: len(raw.body) // 2] if raw.cut else raw.body)
        except OSError:
            pass  # the client did not wait

    @contextmanager
    def running(self) -> Iterator[Self]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


def _reset(connection: socket.socket) -> None:
    """Close so that the other side sees a reset instead of an end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    os.close(connection.detach())

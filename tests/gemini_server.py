"""A loopback server that speaks Gemini's wire format: scripted, and recording what was asked."""

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
from typing import Any


@dataclass(frozen=True, eq=False)
class Asked:
    """One request."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def system(self) -> str:
        return str(self.body["systemInstruction"]["parts"][0]["text"])

    @property
    def data(self) -> dict[str, Any]:
        """The JSON that the question carries."""
        found: dict[str, Any] = json.loads(self.body["contents"][0]["parts"][0]["text"])
        return found


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


Answer = Raw | Callable[[Asked], "Raw | dict[str, Any] | str"] | dict[str, Any] | str


def said(text: str, finish: str = "STOP") -> dict[str, Any]:
    """A generateContent answer with this text."""
    parts = [{"text": text}] if text else []
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish}],
        "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18},
    }


def failed(status: int, message: str = "no", **headers: str) -> Raw:
    """An error as Gemini reports it."""
    error = {"error": {"code": status, "message": message, "status": "SOME_STATUS"}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Raw(status, json.dumps(error).encode(), {"content-type": "application/json"} | named)


class GeminiServer:
    """Answers in turn; when the script is at its end, `default` answers."""

    def __init__(self, default: Answer | None = None) -> None:
        self.script: list[Answer] = []
        self.default: Answer = default if default is not None else said("{}")
        self.asked: list[Asked] = []
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
                asked = Asked(self.path, dict(self.headers), json.loads(self.rfile.read(length)))
                server.answer(asked, self)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def answer(self, asked: Asked, handler: BaseHTTPRequestHandler) -> None:
        with self._lock:
            self.asked.append(asked)
            answer = self.script.pop(0) if self.script else self.default
        if callable(answer):
            answer = answer(asked)
        if isinstance(answer, str):
            answer = said(answer)
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
    def running(self) -> Iterator[GeminiServer]:
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


def embeddings(asked: Asked) -> dict[str, Any]:
    """A batchEmbedContents answer: a vector for each request, of the size asked for."""
    vectors = []
    for request in asked.body["requests"]:
        text = request["content"]["parts"][0]["text"]
        size = request["outputDimensionality"]
        values = [float((sum(map(ord, text)) * (n + 3)) % 17 + 1) for n in range(size)]
        vectors.append({"values": values})
    return {"embeddings": vectors}

"""A scripted model on loopback that speaks OpenAI's wire format; its answers are in the prompt."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

DIM = 256


def word_vector(text: str) -> list[float]:
    """A bag of hashed words: alike texts are near, and the same everywhere and always."""
    vector = np.zeros(DIM)
    for word in re.findall(r"\w+", text.lower()):
        digest = hashlib.sha256(word.encode()).digest()
        vector[digest[0]] += 1.0 if digest[1] % 2 else -1.0
    vector[0] += 0.01
    unit: list[float] = (vector / np.linalg.norm(vector)).tolist()
    return unit


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = _vectors(asked) if self.path.endswith("/embeddings") else _memories(asked)
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def _vectors(asked: dict[str, Any]) -> dict[str, Any]:
    texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
    data = [
        {"object": "embedding", "index": n, "embedding": word_vector(text)}
        for n, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return {"object": "list", "model": "words", "data": data, "usage": usage}


def _memories(asked: dict[str, Any]) -> dict[str, Any]:
    """What stands between SCRIPT and END in the newest message."""
    prompt = asked["messages"][-1]["content"]
    scripted = re.findall(r"SCRIPT (\[.*?\]) END", prompt)
    texts = json.loads(scripted[-1]) if scripted else []
    said = json.dumps({"memory": [{"text": text} for text in texts]})
    message = {"role": "assistant", "content": said}
    return {
        "id": "1", "object": "chat.completion", "created": 0, "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }  # fmt: skip


@contextmanager
def word_server() -> Iterator[int]:
    """Its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


class WordEmbedder:
    """The server's embedder, for whoever writes back to a store that was made with it."""

    fingerprint = f"words-{DIM}"

    def embed(self, texts: list[str]) -> list[list[float]]:
        return [word_vector(text) for text in texts]


class WordEmbeddings:
    """The same as LangChain asks for it."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [word_vector(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return word_vector(text)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.embed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        return word_vector(text)

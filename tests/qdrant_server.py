"""Qdrant's REST contract on loopback, for the real client; no Qdrant server can be installed here.

Paths, methods, bodies and answers are those of its OpenAPI description, as the client's own models
read and write them; what is kept and found is the library's in-memory mode.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

KEY = "a key of many letters"


class QdrantServer:
    """`url` answers; `writes` counts the requests that change something, `die_at` refuses one."""

    def __init__(self, key: str | None = None) -> None:
        from qdrant_client import QdrantClient

        self.client = QdrantClient(":memory:")
        self.key = key
        self.asked: list[str] = []
        """Method and path of each request, with `wait` where it is asked for."""
        self.lock = threading.Lock()
        self.url = ""

    def answer(self, method: str, path: str, body: Any) -> Any:
        """Raises: KeyError where the contract has no such request."""
        where = path.strip("/").split("/")
        if where == [""]:
            return {"title": "qdrant - vector search engine", "version": "1.16.0"}
        if where == ["collections"]:
            return self.client.get_collections()
        name, rest = where[1], "/".join(where[2:])
        if not rest and method == "PUT":
            from qdrant_client.models import CreateCollection

            asked = CreateCollection.model_validate(body)
            given = {key: getattr(asked, key) for key in asked.model_fields_set}
            self.client.create_collection(name, **_named(given))
            return True
        return self.requests()[method, rest](name, body)

    def requests(self) -> dict[tuple[str, str], Callable[[str, Any], Any]]:
        from qdrant_client import models

        return {
            ("GET", ""): lambda name, _: self.client.get_collection(name),
            ("GET", "exists"): lambda name, _: {"exists": self.client.collection_exists(name)},
            ("PUT", "index"): lambda *_: self.done(),
            ("PUT", "points"): lambda name, body: self.did(
                self.client.upsert(name, models.PointsList.model_validate(body).points)
            ),
            ("POST", "points"): lambda name, body: self.client.retrieve(name, **_retrieved(body)),
            ("POST", "points/scroll"): self.scroll,
            ("POST", "points/query"): self.query,
            ("POST", "points/delete"): lambda name, body: self.did(
                self.client.delete(name, models.PointIdsList.model_validate(body))
            ),
            ("POST", "points/payload"): lambda name, body: self.did(
                self.client.set_payload(name, body["payload"], points=body["points"])
            ),
        }

    def scroll(self, name: str, body: Any) -> Any:
        from qdrant_client.models import ScrollRequest

        asked = ScrollRequest.model_validate(body)
        points, following = self.client.scroll(
            name,
            scroll_filter=asked.filter,
            limit=asked.limit or 10,
            offset=asked.offset,
            with_payload=True if asked.with_payload is None else asked.with_payload,
            with_vectors=asked.with_vector or False,
        )
        return {"points": [_json(one) for one in points], "next_page_offset": following}

    def query(self, name: str, body: Any) -> Any:
        from qdrant_client.models import QueryRequest

        asked = QueryRequest.model_validate(body)
        return self.client.query_points(
            name,
            query=getattr(asked.query, "nearest", asked.query),
            using=asked.using,
            query_filter=asked.filter,
            limit=asked.limit or 10,
            with_payload=True,
        )

    def did(self, _done: Any) -> Any:
        return self.done()

    def done(self) -> Any:
        return {"operation_id": len(self.asked), "status": "completed"}


def _named(given: dict[str, Any]) -> dict[str, Any]:
    vectors, sparse = given.pop("vectors", None), given.pop("sparse_vectors", None)
    given.pop("on_disk_payload", None)
    return {"vectors_config": vectors, "sparse_vectors_config": sparse}


def _retrieved(body: Any) -> dict[str, Any]:
    return {"ids": body["ids"], "with_vectors": body.get("with_vector") or False}


def _json(value: Any) -> Any:
    if isinstance(value, list):
        return [_json(one) for one in value]
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


def _handler(server: QdrantServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            split = urlsplit(self.path)
            waited = " wait" if parse_qs(split.query).get("wait") == ["true"] else ""
            with server.lock:
                server.asked.append(f"{self.command} {split.path}{waited}")
                self._send(*self._answered(split.path, body))

        do_GET = do_PUT = do_POST = _serve  # noqa: N815 - the base class's names

        def _answered(self, path: str, body: Any) -> tuple[int, Any]:
            if server.key is not None and self.headers.get("api-key") != server.key:
                return 401, {"status": {"error": "Must provide an API key"}, "time": 0.0}
            try:
                result = server.answer(self.command, path, body)
            except (KeyError, ValueError) as exc:
                return 404, {"status": {"error": f"Not found: {exc}"}, "time": 0.0}
            if path == "/":
                return 200, result
            return 200, {"result": _json(result), "status": "ok", "time": 0.0}

        def _send(self, status: int, answer: Any) -> None:
            told = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    return Handler


@contextmanager
def qdrant_server(key: str | None = None) -> Iterator[QdrantServer]:
    server = QdrantServer(key)
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
    threading.Thread(target=http.serve_forever, daemon=True).start()
    server.url = f"http://127.0.0.1:{http.server_port}"
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        server.client.close()

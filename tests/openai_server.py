"""A loopback server that speaks OpenAI's wire format, with the quirks of such servers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests import readings
from tests.loopback import LoopbackServer, Raw, Request


@dataclass(frozen=True, eq=False)
class Asked(Request):
    """One question."""

    @property
    def system(self) -> str:
        return str(self.body["messages"][0]["content"])

    @property
    def data(self) -> dict[str, Any]:
        """Return the JSON in the question."""
        found: dict[str, Any] = json.loads(self.body["messages"][1]["content"])
        return found

    @property
    def authorization(self) -> str | None:
        """Return a header by its name in any case."""
        return {name.lower(): value for name, value in self.headers.items()}.get("authorization")

    @property
    def format(self) -> str | None:
        form = self.body.get("response_format")
        return form["type"] if form else None


Answer = Raw | Callable[[Asked], "Raw | dict[str, Any] | str"] | dict[str, Any] | str


def said(text: str | None, finish: str = "stop", **message: Any) -> dict[str, Any]:
    """Return a chat completion with this text."""
    told = {"role": "assistant", "content": text, **message}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": told, "finish_reason": finish}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }


def failed(status: int, message: str = "no", **headers: str) -> Raw:
    """Return an error in OpenAI's form."""
    error = {"error": {"message": message, "type": "invalid_request_error", "param": None}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Raw(status, json.dumps(error).encode(), {"content-type": "application/json"} | named)


def careful(asked: Asked, lost: Mapping[str, str] | None = None) -> str | None:
    """Answer a second reading as a careful reader would; return None for other questions."""
    return readings.answered(asked.data, lost or {}) if _is_second_reading(asked) else None


def _is_second_reading(asked: Asked) -> bool:
    return "messages" in asked.body and "merges" in asked.data


class OpenAIServer(LoopbackServer[Asked]):
    def __init__(self, default: Answer | None = None) -> None:
        super().__init__(Asked, said, default)
        self.reader = careful
        self.url += "/v1"


def embeddings(asked: Asked, dim: int = 64) -> dict[str, Any]:
    """Return a vector for each text, the last one first; `index` has the order."""
    size = asked.body.get("dimensions", dim)
    rows = []
    for index, text in enumerate(asked.body["input"]):
        values = [float((sum(map(ord, text)) * (n + 3)) % 17 + 1) for n in range(size)]
        rows.append({"object": "embedding", "index": index, "embedding": values})
    return {"object": "list", "data": rows[::-1], "usage": {"prompt_tokens": 3, "total_tokens": 3}}

"""A loopback server that speaks Gemini's wire format."""

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
        return str(self.body["systemInstruction"]["parts"][0]["text"])

    @property
    def data(self) -> dict[str, Any]:
        """Return the JSON in the question."""
        found: dict[str, Any] = json.loads(self.body["contents"][0]["parts"][0]["text"])
        return found


Answer = Raw | Callable[[Asked], "Raw | dict[str, Any] | str"] | dict[str, Any] | str


def said(text: str, finish: str = "STOP") -> dict[str, Any]:
    """Return a generateContent answer with this text."""
    parts = [{"text": text}] if text else []
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish}],
        "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18},
    }


def failed(status: int, message: str = "no", **headers: str) -> Raw:
    """Return an error in Gemini's form."""
    error = {"error": {"code": status, "message": message, "status": "SOME_STATUS"}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Raw(status, json.dumps(error).encode(), {"content-type": "application/json"} | named)


def careful(asked: Asked, lost: Mapping[str, str] | None = None) -> str | None:
    """Answer a second reading as a careful reader would; return None for other questions."""
    return readings.answered(asked.data, lost or {}) if _is_second_reading(asked) else None


def _is_second_reading(asked: Asked) -> bool:
    return "contents" in asked.body and "merges" in asked.data


class GeminiServer(LoopbackServer[Asked]):
    def __init__(self, default: Answer | None = None) -> None:
        super().__init__(Asked, said, default)
        self.reader = careful


def embeddings(asked: Asked) -> dict[str, Any]:
    """Return a batchEmbedContents answer: a vector of the requested size for each text."""
    vectors = []
    for request in asked.body["requests"]:
        text = request["content"]["parts"][0]["text"]
        size = request["outputDimensionality"]
        values = [float((sum(map(ord, text)) * (n + 3)) % 17 + 1) for n in range(size)]
        vectors.append({"values": values})
    return {"embeddings": vectors}

"""A bot whose turns each name an item, and a model on loopback that finds who owns it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from memory import Config, open_store
from memory.config import LLMConfig, MemoryConfig
from tests.gemini_server import Asked, GeminiServer, said
from tests.loopback import Raw


def find_owners(asked: Asked) -> dict[str, Any]:
    """Find in each turn that its speaker owns the item that it names."""
    turns = asked.data["turns"]
    rows = [
        {"content": f"{one['speaker']} owns {one['text'][6:]}", "turns": [one["number"]]}
        for one in turns
    ]
    return said(json.dumps({"memories": rows}))


class SlowGemini:
    """A model that answers extraction after a while, and records every turn that it was sent."""

    def __init__(self, server: GeminiServer, latency_s: float) -> None:
        self.server = server
        self.latency_s = latency_s
        server.default = self.answer

    def answer(self, asked: Asked) -> Raw:
        body = json.dumps(find_owners(asked)).encode()
        return Raw(200, body, {"content-type": "application/json"}, hang_s=self.latency_s)

    def texts(self) -> list[str]:
        return [one["text"] for asked in self.server.asked for one in asked.data["turns"]]


def settings(folder: Path, gemini: GeminiServer, **memory: Any) -> Config:
    kept = MemoryConfig(data_dir=str(folder), dedup_enabled=False, **memory)
    config = Config(memory=kept, llm=LLMConfig(base_url=gemini.url, timeout_s=10.0))
    return config.model_copy(update={"api_key": SecretStr("secret-key")})


def items(config: Config) -> list[str]:
    with open_store(config) as store:
        return sorted(memory.content for memory in store.memories())


def owned(numbers: range) -> list[str]:
    return sorted(f"Mia owns item number {n}." for n in numbers)

"""Deduplicators under the yardstick, each in a few lines; add your own the same way.

`keep` is handed two texts that arrive one after the other in an empty store, and gives the texts
that are left. One that writes merged texts may say with `accepts` whether it would store one.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol, runtime_checkable
from uuid import uuid4

import numpy as np

from memory import Config, Memory, MemoryStore, open_store
from memory.assembly import build_deduplicator, build_model
from memory.config import load_config
from memory.coverage import Belief, verify
from memory.providers import WordLlamaEmbedder
from memory.text import normalise


class Deduplicator(Protocol):
    """What the yardstick asks of a deduplicator."""

    def keep(self, older: str, newer: str) -> list[str]:
        """What is left of two texts."""


@runtime_checkable
class Merging(Protocol):
    """A deduplicator that stores texts of a model's making."""

    def accepts(self, sources: Sequence[str], text: str) -> bool:
        """Whether it would store this text in place of the sources."""


@cache
def embedder() -> WordLlamaEmbedder:
    """The one inside this package: every cosine here is of its vectors."""
    return WordLlamaEmbedder()


class Store:
    """memory-dedup as it is installed, with the offline judge; a store for all, a user each."""

    def __init__(self, **settings: Any) -> None:
        self._folder = tempfile.TemporaryDirectory()
        settings = {"llm_provider": "offline", "data_dir": self._folder.name, **settings}
        self._config = load_config(Config(), settings=settings)  # whatever config.yaml lies here
        self._store: MemoryStore = open_store(self._config)
        model = build_model(self._config)
        self._deduplicator = build_deduplicator(self._store, self._config, model)

    def keep(self, older: str, newer: str) -> list[str]:
        user = uuid4().hex
        new: list[Memory] = [self._store.new_memory(text, user=user) for text in (older, newer)]
        asyncio.run(self._deduplicator.check_and_merge_all(new))
        with self._store.ledger.reading() as reader:
            return [
                row.memory.content
                for row in (one for one in reader.memories.live() if one.memory.user == user)
            ]

    def close(self) -> None:
        self._store.close()
        self._folder.cleanup()


class Ours(Store):
    """The same with what it believes of a merged text."""

    def accepts(self, sources: Sequence[str], text: str) -> bool:
        """By words alone: what is doubtful goes to a second reading, which needs a model."""
        return verify(text, sources).belief is Belief.BELIEVED


class Cosine:
    """The newer replaces what is at least so alike: what most memories do."""

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold

    def keep(self, older: str, newer: str) -> list[str]:
        a, b = embedder().embed([normalise(older), normalise(newer)])
        return [newer] if float(np.dot(a, b)) >= self._threshold else [older, newer]


class Sem:
    """SemHash (extra package `semhash`) at its default threshold, on the same vectors."""

    def __init__(self) -> None:
        from semhash import SemHash

        self._semhash = SemHash

    def encode(self, texts: Sequence[str], **_: Any) -> Any:
        return embedder().embed([normalise(text) for text in texts])

    def keep(self, older: str, newer: str) -> list[str]:
        encoder: Any = self
        made = self._semhash.from_records([older, newer], model=encoder)
        return list(made.self_deduplicate().selected)


class ContentHash:
    """mem0's own check: the MD5 of the text. What its language model says comes on top."""

    def keep(self, older: str, newer: str) -> list[str]:
        kept = {hashlib.md5(text.encode()).hexdigest(): text for text in (older, newer)}
        return list(kept.values())


class ByKey:
    """LangGraph's store (extra package `langgraph`), a key for each, as langmem's tools put."""

    def __init__(self) -> None:
        from langgraph.store.memory import InMemoryStore

        self._new: Callable[[], Any] = InMemoryStore

    def keep(self, older: str, newer: str) -> list[str]:
        store = self._new()
        for text in (older, newer):
            store.put(("memories",), uuid4().hex, {"text": text})
        return [item.value["text"] for item in store.search(("memories",))]


ALL: dict[str, Callable[[], Deduplicator]] = {
    "ours": Ours,
    "ours, no guard": lambda: Store(dedup_guard=False),
    "cosine 0.85": lambda: Cosine(0.85),
    "cosine 0.90": lambda: Cosine(0.90),
    "cosine 0.95": lambda: Cosine(0.95),
    "SemHash": Sem,
    "mem0's hash": ContentHash,
    "LangGraph's put": ByKey,
}

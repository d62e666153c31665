"""A pytest plugin: LangGraph's own store tests, with our store in the place of `InMemoryStore`.

`scripts/frameworks.py` takes the tests from the source distribution of langgraph-checkpoint.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import langgraph.store.memory
import numpy as np
import pytest

from memory.adapters.langgraph import DedupStore
from memory.config import MemoryConfig
from memory.deduplicator import MemoryDeduplicator
from memory.ledger import Ledger
from memory.models import Vectors
from memory.providers import OfflineModel
from memory.store import MemoryStore

FIELDS = ("text", "description", "content", "body")
STORES = tempfile.TemporaryDirectory(prefix="upstream-")
NOT_OURS = {
    "test_vector_store_initialization": "looks at an attribute of theirs",
    "test_embed_with_path": "several vectors for one value",
}


class Theirs:
    """Their embedder under our protocol."""

    fingerprint = "theirs"

    def __init__(self, index: dict[str, Any] | None) -> None:
        self._embed = index["embed"] if index else None

    def embed(self, texts: Sequence[str]) -> Vectors:
        if self._embed is None:
            return np.ones((len(texts), 1), np.float32)
        vectors = np.asarray(self._embed.embed_documents(list(texts)), np.float32)
        unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit


class OurStore(DedupStore):
    """Made as theirs is, without deduplication: their tests put near-copies and count them."""

    def __init__(self, *, index: dict[str, Any] | None = None) -> None:
        folder = Path(tempfile.mkdtemp(dir=STORES.name))
        store = MemoryStore(Ledger.create(f"sqlite:///{folder / 'ledger.db'}"), Theirs(index))
        config = MemoryConfig(dedup_enabled=False)
        deduplicator = MemoryDeduplicator(store, OfflineModel(), config=config)
        namespaces = [()] if index else []
        super().__init__(store, deduplicator, namespaces=namespaces, fields=FIELDS)


setattr(langgraph.store.memory, "InMemoryStore", OurStore)  # noqa: B010 - their name, our class


def pytest_unconfigure() -> None:
    STORES.cleanup()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        why = NOT_OURS.get(item.name.partition("[")[0])
        if why is not None:
            item.add_marker(pytest.mark.skip(reason=why))

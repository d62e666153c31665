"""A real store in a temporary folder, on vectors placed by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory.deduplicator import MemoryDeduplicator
from memory.ledger import Ledger
from memory.models import Memory, new_memory_id
from memory.store import MemoryStore
from tests.doubles import START, PlacedEmbedder, ScriptedModel, ticking


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.create(f"sqlite:///{tmp_path / 'data' / 'ledger.db'}") as opened:
        yield opened


@pytest.fixture
def embedder() -> PlacedEmbedder:
    return PlacedEmbedder()


@pytest.fixture
def store(ledger: Ledger, embedder: PlacedEmbedder) -> Iterator[MemoryStore]:
    with MemoryStore(ledger, embedder, clock=ticking()) as opened:
        yield opened


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
def deduplicator(store: MemoryStore, model: ScriptedModel) -> MemoryDeduplicator:
    return MemoryDeduplicator(store, model)


@pytest.fixture
def tell() -> Callable[..., Memory]:
    """Make memories, each a minute after the one before."""
    told = 0

    def make(content: str, **fields: Any) -> Memory:
        nonlocal told
        told += 1
        fields.setdefault("timestamp", START + timedelta(minutes=told))
        return Memory(id=new_memory_id(), content=content, **fields)

    return make


Tell = Callable[..., Memory]

"""Three memories that a person is asked about."""

from __future__ import annotations

import pytest

from memory.models import Memory
from memory.store import MemoryStore
from tests.conftest import MakeMemory
from tests.doubles import PlacedEmbedder

OLD, NEW, OTHER = "Mia is running 12 km.", "Mia is regularly running 12 km.", "Mia runs 21 km."


@pytest.fixture
def three(store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory) -> list[Memory]:
    """Of these the older goes; whether the other number is meant, only a reader can tell."""
    embedder.place(OLD)
    embedder.place(NEW, 0.97, OLD)
    embedder.place(OTHER, 0.96, OLD)
    store.add_batch([make_memory(text, user="Mia") for text in (OLD, NEW, OTHER)])
    return list(store.memories())

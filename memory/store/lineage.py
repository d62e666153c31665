"""What a memory stands for, beside what it says."""

from __future__ import annotations

from memory.models import Embedded
from memory.store.applying import Probe, ranked
from memory.store.store import MemoryStore


def is_like_all_of(
    store: MemoryStore, new: Embedded, memory_id: str, min_similarity: float
) -> bool:
    """Whether a new memory is that alike to every text that a stored one stands for."""
    if new.vector is None:
        return True
    with store.ledger.reading() as reader:
        rows = reader.memories.rows(reader.memories.ancestors(memory_id)).values()
        alike = ranked(reader, Probe(new.memory.content, new.vector), rows, store.scale)
    return all(hit.similarity >= min_similarity for hit in alike)

"""Given memories, by how near each is to a text."""

from __future__ import annotations

from collections.abc import Sequence

from memory.models import PLAIN, SearchResult
from memory.store.applying import Probe, ranked
from memory.store.store import MemoryStore
from memory.text import clean


def nearest_of(store: MemoryStore, query: str, ids: Sequence[str]) -> list[SearchResult]:
    """Of these memories the live ones, nearest to the query first, by the plain cosine.

    Raises: EmbeddingError.
    """
    if not clean(query) or not ids:
        return []
    probe = Probe(clean(query), store.embeddings.query(clean(query)))
    with store.ledger.reading() as reader:
        store.embeddings.check(reader)
        rows = reader.memories.rows(ids).values()
        return ranked(reader, probe, (row for row in rows if row.live), PLAIN)

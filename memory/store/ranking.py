"""Given memories, by how near each is to a text."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from memory.ledger import Reader
from memory.search import similarities
from memory.store.store import MemoryStore
from memory.text import clean


def cosines_to(
    store: MemoryStore, reader: Reader, query: str, text_keys: Mapping[str, str]
) -> dict[str, float]:
    """Return the cosine of each memory, given by the key of its text, to a query.

    Raises: EmbeddingError.
    """
    if not clean(query) or not text_keys:
        return {}
    asked = store.embeddings.query(clean(query))
    store.embeddings.check(reader)
    known = reader.vectors.of(text_keys.values())
    names = [name for name, key in text_keys.items() if key in known]
    if not names:
        return {}
    vectors = np.stack([known[text_keys[name]] for name in names])
    found = similarities(vectors, np.broadcast_to(asked, vectors.shape))
    return dict(zip(names, found.tolist(), strict=True))

"""Every vector again, with another embedder."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from memory.ledger import Ledger
from memory.protocols import Embedder
from memory.text import normalise

_AT_ONCE = 1_000
"""Texts in one call of the embedder."""


def reembed(
    ledger: Ledger, embedder: Embedder, on_progress: Callable[[int, int], None] | None = None
) -> int:
    """Make every vector again, with another embedder, all or none; gives how many.

    Raises: EmbeddingError, LedgerError; the old vectors are then still there.
    """
    with ledger.reading() as reader:
        rows = reader.memories.all()
        texts = {row.text_key: row.memory.content for row in rows if not row.forgotten}
    parts = []
    names = list(texts)
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        parts.append(embedder.embed([normalise(texts[name]) for name in some]))
        if on_progress is not None:
            on_progress(start + len(some), len(names))
    vectors = np.concatenate(parts) if parts else np.empty((0, 0), np.float32)
    with ledger.writing() as writer:
        writer.vectors.replace_all(dict(zip(names, vectors, strict=True)))
        writer.followers.start_all_again()
        writer.set_meta("embedder", embedder.fingerprint)
    return len(names)

"""Embeds texts, each once: what the ledger has a vector of is not embedded again."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from memory.errors import EmbedderMismatch, EmbeddingError
from memory.ledger import Ledger, Reader, Writer
from memory.models import Embedded, Memory, Vector, Vectors
from memory.protocols import Embedder
from memory.store.batch_size import AdaptiveBatchSize
from memory.text import normalise, text_key

logger = logging.getLogger(__name__)

_AT_ONCE = 1_000
"""Texts in one call of the embedder."""
_EMBEDDER = "embedder"
"""The ledger's key for the fingerprint of the embedder that made its vectors."""
_ZERO = 1e-6
"""Length of a vector below which it has no direction."""
_UNIT = 1e-3
"""How far a length may be from 1."""


class EmbeddingCache:
    """An embedder, and the ledger that keeps its vectors."""

    def __init__(self, ledger: Ledger, embedder: Embedder) -> None:
        self._ledger = ledger
        self._embedder = embedder
        self._dim: int | None = None
        """The dimension of its vectors, once one was made."""

    def check(self, reader: Reader) -> bool:
        """Whether the ledger has vectors of this embedder.

        Raises: EmbedderMismatch if its vectors come from another one.
        """
        stored = reader.meta(_EMBEDDER)
        if stored is not None and stored != self._embedder.fingerprint:
            raise EmbedderMismatch(stored, self._embedder.fingerprint)
        if stored is not None and self._dim is None:
            self._dim = reader.vectors.dim()
        return stored is not None

    def query(self, *wordings: str) -> Vector:
        """Embed a question as the mean of its wordings; it is not kept.

        Raises: EmbeddingError.
        """
        mean: Vector = self._embed(list(wordings)).sum(axis=0)
        return mean / np.linalg.norm(mean) if len(wordings) > 1 else mean

    @property
    def fingerprint(self) -> str:
        return self._embedder.fingerprint

    def embed(self, memories: Sequence[Memory]) -> list[Embedded]:
        """Return the memories with their vectors.

        If the embedder fails, the vectors are None and a warning is logged: a memory without a
        vector is kept, and embedded by the next batch.
        """
        if not memories:
            return []
        with self._ledger.reading() as reader:
            known = reader.vectors.of(text_key(memory.content) for memory in memories)
        return self.complete(memories, known)

    def complete(
        self, memories: Sequence[Memory], known: Mapping[str, Vector | None]
    ) -> list[Embedded]:
        """Do the same with vectors known by text key; None if they could not be made."""
        keys = [text_key(memory.content) for memory in memories]
        missing = {
            key: memory.content
            for key, memory in zip(keys, memories, strict=True)
            if key not in known
        }
        if missing:
            try:
                known = {**known, **dict(zip(missing, self._embed(missing.values()), strict=True))}
            except EmbeddingError as exc:
                logger.warning("no vectors for %d memories: %s", len(missing), exc)
        return [
            Embedded(memory, known.get(key)) for key, memory in zip(keys, memories, strict=True)
        ]

    def keep(self, writer: Writer, vectors: Mapping[str, Vector]) -> None:
        """Store vectors by text key.

        The first vector decides which embedder's vectors the ledger holds.

        Raises: EmbedderMismatch.
        """
        if not self.check(writer):
            writer.set_meta(_EMBEDDER, self._embedder.fingerprint)
        writer.vectors.put(vectors)

    def make_missing(self) -> int:
        """Make the vectors that an earlier fault left out, and return how many.

        Raises: EmbeddingError.
        """
        with self._ledger.reading() as reader:
            texts = reader.vectors.missing_texts()
        pace = AdaptiveBatchSize()
        for start in range(0, len(texts), _AT_ONCE):
            some = texts[start : start + _AT_ONCE]
            keys = [text_key(text) for text in some]
            for part in pace.parts(list(zip(keys, self._embed(some), strict=True))):
                with pace.writing(self._ledger, len(part)) as writer:
                    self.keep(writer, dict(part))
                    writer.drop_unused_texts({key for key, _ in part})  # forgotten meanwhile
        return len(texts)

    def _embed(self, texts: Iterable[str]) -> Vectors:
        """Raises: EmbeddingError."""
        asked = [normalise(text) for text in texts]
        vectors = checked(
            self._embedder.embed(asked), len(asked), self._dim, self._embedder.fingerprint
        )
        self._dim = vectors.shape[1]
        return vectors


def checked(raw: object, count: int, dim: int | None, name: str) -> Vectors:
    """Return the vectors (count, dim) at length 1; `dim` is None if it is not known yet.

    Raises: EmbeddingError, naming the embedder.
    """
    try:
        with np.errstate(over="ignore"):
            vectors = np.asarray(raw, dtype=np.float32)
    except (TypeError, ValueError) as exc:
        raise EmbeddingError(f"{name} gave no vectors ({exc})") from exc
    if vectors.ndim != 2 or len(vectors) != count or vectors.shape[1] != (dim or vectors.shape[1]):
        wanted = f"({count}, {dim or 'dim'})"
        raise EmbeddingError(f"{name} gave vectors of shape {vectors.shape}, not {wanted}")
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    if not np.isfinite(lengths).all() or (lengths < _ZERO).any():
        raise EmbeddingError(f"{name} gave a vector that is zero or not finite")
    if np.abs(lengths - 1.0).max(initial=0.0) < _UNIT:
        return vectors
    unit: Vectors = (vectors / lengths[:, None]).astype(np.float32)
    return unit

"""Embeds texts, except those whose vectors are in the ledger already."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from memory.errors import EmbedderMismatch, EmbeddingError
from memory.ledger import AdaptiveBatchSize, Ledger, Reader, Writer
from memory.models import Embedded, Embedder, Memory, Vector, Vectors
from memory.text import normalise, text_key

logger = logging.getLogger(__name__)

_AT_ONCE = 1_000
_EMBEDDER = "embedder"
_ZERO = 1e-6
_UNIT = 1e-3


class EmbeddingCache:
    """An embedder that computes only vectors that a ledger does not hold yet."""

    def __init__(self, ledger: Ledger, embedder: Embedder) -> None:
        self._ledger = ledger
        self._embedder = embedder
        self.fingerprint = embedder.fingerprint
        self._dim: int | None = None

    def check(self, reader: Reader) -> bool:
        """Check which embedder made the ledger's vectors; return whether any were ever stored.

        Raises: EmbedderMismatch if another embedder made them.
        """
        stored = reader.meta(_EMBEDDER)
        if stored is not None and stored != self.fingerprint:
            raise EmbedderMismatch(stored, self.fingerprint)
        if stored is not None and self._dim is None:
            self._dim = reader.vectors.dim()
        return stored is not None

    def query(self, *wordings: str) -> Vector:
        """Return one unit vector, the mean of the vectors of several wordings of a question.

        Raises: EmbeddingError.
        """
        mean: Vector = self._embed(list(wordings)).sum(axis=0)
        return mean / np.linalg.norm(mean) if len(wordings) > 1 else mean

    def embed(
        self, memories: Sequence[Memory], known: Mapping[str, Vector] | None = None
    ) -> list[Embedded]:
        """Return the memories, in order, with their vectors from the ledger or the embedder.

        If the embedder fails, a warning is logged and the missing vectors are None. `make_missing`
        can compute them later, once the memories are stored.

        `known`: the ledger's vectors by text key, if the caller has read them already.
        """
        keys = [text_key(memory.content) for memory in memories]
        if known is None:
            with self._ledger.reading() as reader:
                known = reader.vectors.of(keys)
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

    def keep(self, writer: Writer, vectors: Iterable[tuple[str, Vector | None]]) -> None:
        """Store the vectors of texts, which are pairs (text, vector); None is left out."""
        known = {text_key(text): vector for text, vector in vectors if vector is not None}
        if known and not self.check(writer):
            writer.set_meta(_EMBEDDER, self.fingerprint)
        if known:
            writer.vectors.put(known)

    def make_missing(self) -> int:
        """Embed all texts in the ledger that have no vector, and store the vectors.

        Return the number of these texts.

        Raises: EmbeddingError.
        """
        with self._ledger.reading() as reader:
            texts = reader.vectors.missing_texts()
        pace = AdaptiveBatchSize()
        for start in range(0, len(texts), _AT_ONCE):
            batch = texts[start : start + _AT_ONCE]
            for part in pace.parts(list(zip(batch, self._embed(batch), strict=True))):
                with pace.writing(self._ledger, len(part)) as writer:
                    self.keep(writer, part)
                    # forgotten meanwhile
                    writer.drop_unused_texts({text_key(text) for text, _ in part})
        return len(texts)

    def _embed(self, texts: Iterable[str]) -> Vectors:
        """Return unit vectors of the normalised texts, in order, shape (n, dim).

        Raises: EmbeddingError if the embedder fails, or returns vectors of a wrong shape, or a
        vector that is zero or not finite.
        """
        normalised = [normalise(text) for text in texts]
        given = self._embedder.embed(normalised)
        try:
            with np.errstate(over="ignore"):
                vectors = np.asarray(given, dtype=np.float32)
        except (TypeError, ValueError) as exc:
            raise EmbeddingError(f"{self.fingerprint} gave no vectors ({exc})") from exc
        if vectors.ndim != 2 or vectors.shape != (len(normalised), self._dim or vectors.shape[1]):
            wanted = f"({len(normalised)}, {self._dim or 'dim'})"
            raise EmbeddingError(
                f"{self.fingerprint} gave vectors of shape {vectors.shape}, not {wanted}"
            )
        lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
        if not np.isfinite(lengths).all() or (lengths < _ZERO).any():
            raise EmbeddingError(f"{self.fingerprint} gave a vector that is zero or not finite")
        self._dim = vectors.shape[1]
        if np.abs(lengths - 1.0).max(initial=0.0) < _UNIT:
            return vectors
        unit: Vectors = (vectors / lengths[:, None]).astype(np.float32)
        return unit

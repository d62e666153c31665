"""Text to unit vectors on this machine: WordLlama, and Chroma's MiniLM."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from memory.errors import EmbeddingError
from memory.models import Vectors

_LONG = 2_000
"""Characters from which a text is embedded alone, in pieces: a batch is padded to its longest."""
_DIM = 256
_LOADING = threading.Lock()


class WordLlamaEmbedder:
    """WordLlama's l2_supercat, from the files inside its wheel: no download, no network."""

    fingerprint = "wordllama-l2_supercat-256/unit/nfkc-casefold"

    def __init__(self) -> None:
        self._model: Any = None

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors (n, 256): means of token vectors; a long text is read in pieces."""
        summed = np.empty((len(texts), _DIM), dtype=np.float32)
        short = [n for n, text in enumerate(texts) if len(text) <= _LONG]
        if short:
            summed[short] = self._means([texts[n] for n in short])
        for n in set(range(len(texts))) - set(short):
            summed[n] = self._long_mean(texts[n])
        return _unit(summed, texts)

    def _means(self, texts: list[str]) -> npt.NDArray[np.float32]:
        self._model = self._model or _load_wordllama()
        try:
            means: npt.NDArray[np.float32] = self._model.embed(texts, norm=False)
        except (TypeError, ValueError) as exc:
            raise EmbeddingError(f"WordLlama failed: {exc}") from exc
        return means

    def _long_mean(self, text: str) -> npt.NDArray[np.float32]:
        pieces = [text[start : start + _LONG] for start in range(0, len(text), _LONG)]
        weights = np.array([len(piece) for piece in pieces], dtype=np.float32)
        means = np.concatenate([self._means([piece]) for piece in pieces])
        mean: npt.NDArray[np.float32] = np.average(means, axis=0, weights=weights)
        return mean


def _load_wordllama() -> Any:
    """Return the process's one model: its 50 MB never change."""
    with _LOADING:
        return _wordllama()


@cache
def _wordllama() -> Any:
    """Import and load it; its import configures the root logger, which is put back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        import wordllama  # 0.4 s that only embedding needs
    finally:
        root.handlers[:], root.level = handlers, level
    home = Path(wordllama.__file__).parent
    return wordllama.WordLlama.load(cache_dir=home, disable_download=True)


class MiniLMEmbedder:
    """Chroma's all-MiniLM-L6-v2 (384 dimensions). Its first use downloads 80 MB."""

    fingerprint = "chroma-all-MiniLM-L6-v2-384/unit/nfkc-casefold"

    def __init__(self, load: Callable[[], Callable[[list[str]], Any]]) -> None:
        """`load` gives Chroma's embedding function; it is called at first use."""
        self._load = load
        self._function: Callable[[list[str]], Any] | None = None

    def embed(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.empty((0, 384), dtype=np.float32)
        try:
            self._function = self._function or self._load()
            raw = np.asarray(self._function(list(texts)), dtype=np.float32)
        except (
            Exception
        ) as exc:  # a download, onnxruntime and a tokenizer: each with its own errors
            raise EmbeddingError(
                f"MiniLM failed: {exc}", "set memory.embedding.provider to wordllama"
            ) from exc
        return _unit(raw, texts)


def _unit(raw: npt.NDArray[np.float32], texts: Sequence[str]) -> Vectors:
    """Scale each row to length 1; a text of no known token gets a direction of its own."""
    if raw.shape[0] != len(texts):
        raise EmbeddingError(f"the embedder gave {raw.shape[0]} vectors for {len(texts)} texts")
    lengths = np.linalg.norm(raw, axis=1)
    for n in map(int, np.flatnonzero(~np.isfinite(lengths) | (lengths < 1e-6))):
        raw[n] = _direction_of(texts[n], raw.shape[1])
        lengths[n] = np.linalg.norm(raw[n])
    unit: Vectors = (raw / lengths[:, None]).astype(np.float32)
    return unit


def _direction_of(text: str, dim: int) -> npt.NDArray[np.float32]:
    """Return a random direction, the same for the same text."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(dim).astype(np.float32)

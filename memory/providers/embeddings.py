"""Turn texts into unit vectors on this machine, with WordLlama or Chroma's MiniLM."""

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

_LONG = 2_000  # longer texts are embedded alone: a batch is padded to its longest text
_DIM = 256
_LOADING = threading.Lock()


class WordLlamaEmbedder:
    """The embedder WordLlama l2_supercat, which makes vectors of 256 dimensions on this machine.

    Its model is part of the installed package, so nothing is downloaded.
    """

    fingerprint = "wordllama-l2_supercat-256/unit/nfkc-casefold"

    def embed(self, texts: Sequence[str]) -> Vectors:
        summed = np.empty((len(texts), _DIM), dtype=np.float32)
        short = [n for n, text in enumerate(texts) if len(text) <= _LONG]
        if short:
            summed[short] = self._means([texts[n] for n in short])
        for n in set(range(len(texts))) - set(short):
            summed[n] = self._long_mean(texts[n])
        return _unit(summed, texts)

    def _means(self, texts: list[str]) -> npt.NDArray[np.float32]:
        with _LOADING:
            model = _wordllama()
        try:
            return np.asarray(model.embed(texts, norm=False), dtype=np.float32)
        except (TypeError, ValueError) as exc:
            raise EmbeddingError(f"WordLlama failed: {exc}") from exc

    def _long_mean(self, text: str) -> npt.NDArray[np.float32]:
        pieces = [text[start : start + _LONG] for start in range(0, len(text), _LONG)]
        weights = np.array([len(piece) for piece in pieces], dtype=np.float32)
        means = np.concatenate([self._means([piece]) for piece in pieces])
        return np.asarray(np.average(means, axis=0, weights=weights), dtype=np.float32)


@cache
def _wordllama() -> Any:  # 50 MB, shared by all embedders of this process
    root = logging.getLogger()  # the import changes it
    handlers, level = root.handlers[:], root.level
    try:
        import wordllama  # 0.4 s that only embedding needs
    except ImportError as exc:
        raise EmbeddingError(
            "WordLlama is not installed; it has no package for Python 3.14",
            "use Python 3.11 to 3.13, or set memory.embedding.provider to another embedder",
        ) from exc
    finally:
        root.handlers[:], root.level = handlers, level
    return wordllama.WordLlama.load(
        cache_dir=Path(wordllama.__file__).parent, disable_download=True
    )


class MiniLMEmbedder:
    """Chroma's embedder all-MiniLM-L6-v2, which makes vectors of 384 dimensions on this machine.

    The model (80 MB) is downloaded at the first use. `load`: a function without parameters that
    returns Chroma's embedding function.
    """

    fingerprint = "chroma-all-MiniLM-L6-v2-384/unit/nfkc-casefold"

    def __init__(self, load: Callable[[], Callable[[list[str]], Any]]) -> None:
        self._load = cache(load)

    def embed(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.empty((0, 384), dtype=np.float32)
        try:
            raw = np.asarray(self._load()(list(texts)), dtype=np.float32)
        except Exception as exc:  # a download, onnxruntime and a tokenizer each raise their own
            raise EmbeddingError(
                f"MiniLM failed: {exc}", "set memory.embedding.provider to wordllama"
            ) from exc
        return _unit(raw, texts)


def _unit(raw: npt.NDArray[np.float32], texts: Sequence[str]) -> Vectors:
    """Return the rows of `raw`, shape (n, dim), scaled to length 1.

    A row that is zero or not finite is replaced by a random vector derived from its text.
    """
    lengths = np.linalg.norm(raw, axis=1)
    for n in map(int, np.flatnonzero(~np.isfinite(lengths) | (lengths < 1e-6))):
        seed = int.from_bytes(hashlib.sha256(texts[n].encode()).digest()[:8], "big")
        raw[n] = np.random.default_rng(seed).standard_normal(raw.shape[1])
        lengths[n] = np.linalg.norm(raw[n])
    return np.asarray(raw / lengths[:, None], dtype=np.float32)

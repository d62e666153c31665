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

    def __init__(self) -> None:
        self._model: Any = None

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text, in order, as shape (len(texts), 256).

        A vector is the mean of the text's token vectors. A long text is embedded in pieces, whose
        vectors are averaged by length.

        Raises: EmbeddingError.
        """
        summed = np.empty((len(texts), _DIM), dtype=np.float32)
        short = [n for n, text in enumerate(texts) if len(text) <= _LONG]
        if short:
            summed[short] = self._means([texts[n] for n in short])
        for n in set(range(len(texts))) - set(short):
            summed[n] = self._long_mean(texts[n])
        return _unit(summed, texts)

    def _means(self, texts: list[str]) -> npt.NDArray[np.float32]:
        self._model = self._model or _shared_wordllama()
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


def _shared_wordllama() -> Any:
    """Return the WordLlama model (50 MB), which all embedders of this process share.

    The first call loads it. Other threads that call meanwhile wait for it.
    """
    with _LOADING:
        return _loaded_wordllama()


@cache
def _loaded_wordllama() -> Any:
    """Import WordLlama, load its model from the installed package, and return it.

    The import changes the root logger; these changes are undone.
    """
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        import wordllama  # 0.4 s that only embedding needs
    finally:
        root.handlers[:], root.level = handlers, level
    home = Path(wordllama.__file__).parent
    return wordllama.WordLlama.load(cache_dir=home, disable_download=True)


class MiniLMEmbedder:
    """Chroma's embedder all-MiniLM-L6-v2, which makes vectors of 384 dimensions on this machine.

    The model (80 MB) is downloaded at the first use.
    """

    fingerprint = "chroma-all-MiniLM-L6-v2-384/unit/nfkc-casefold"

    def __init__(self, load: Callable[[], Callable[[list[str]], Any]]) -> None:
        """Set the function that loads the model; it is called at the first use.

        `load`: takes no arguments and returns Chroma's embedding function, which turns a list of
        texts into vectors.
        """
        self._load = load
        self._function: Callable[[list[str]], Any] | None = None

    def embed(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.empty((0, 384), dtype=np.float32)
        try:
            self._function = self._function or self._load()
            raw = np.asarray(self._function(list(texts)), dtype=np.float32)
        except Exception as exc:  # a download, onnxruntime and a tokenizer each raise their own
            raise EmbeddingError(
                f"MiniLM failed: {exc}", "set memory.embedding.provider to wordllama"
            ) from exc
        return _unit(raw, texts)


def _unit(raw: npt.NDArray[np.float32], texts: Sequence[str]) -> Vectors:
    """Scale the rows of `raw`, shape (n, dim), to length 1; return them as a new array.

    `texts`: the text of each row, in order. A row that is zero or not finite is first replaced, in
    `raw` too, by a random vector derived from its text.
    """
    lengths = np.linalg.norm(raw, axis=1)
    for n in map(int, np.flatnonzero(~np.isfinite(lengths) | (lengths < 1e-6))):
        seed = int.from_bytes(hashlib.sha256(texts[n].encode()).digest()[:8], "big")
        raw[n] = np.random.default_rng(seed).standard_normal(raw.shape[1])
        lengths[n] = np.linalg.norm(raw[n])
    unit: Vectors = (raw / lengths[:, None]).astype(np.float32)
    return unit

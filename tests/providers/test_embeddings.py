"""WordLlama as it really is: offline, unit vectors, any text, nobody else's logging touched."""

from __future__ import annotations

import logging
import subprocess
import sys

import numpy as np
import pytest

from memory.errors import EmbeddingError
from memory.models import cosine_of
from memory.providers.embeddings import MiniLMEmbedder, WordLlamaEmbedder


@pytest.fixture(scope="module")
def wordllama() -> WordLlamaEmbedder:
    handlers = logging.getLogger().handlers[:]
    embedder = WordLlamaEmbedder()
    embedder.embed(["warm up"])
    assert logging.getLogger().handlers == handlers
    return embedder


def test_vectors_are_unit_float32_one_a_text(wordllama: WordLlamaEmbedder) -> None:
    vectors = wordllama.embed(["mia likes tea", "ミアはお茶が好き", "\u200b", "!"])
    assert vectors.shape == (4, 256)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    assert wordllama.embed([]).shape == (0, 256)


def test_a_text_gets_the_same_vector_alone_and_in_any_batch(wordllama: WordLlamaEmbedder) -> None:
    texts = ["mia likes tea", "a much longer sentence about sailing " * 20, "x"]
    together = wordllama.embed(texts)
    alone = np.concatenate([wordllama.embed([text]) for text in texts])
    assert np.array_equal(together, alone)


def test_a_long_text_is_embedded_in_pieces(wordllama: WordLlamaEmbedder) -> None:
    sentence = "mia likes tea and jonas sails on the lake. "
    short, long = wordllama.embed([sentence * 40, sentence * 2_000])
    assert cosine_of(short, long) > 0.99


def test_a_text_of_no_known_token_is_like_no_other() -> None:
    embedder = MiniLMEmbedder(lambda: lambda texts: np.zeros((len(texts), 8)))
    one, two, again = embedder.embed(["a", "b", "a"])
    assert cosine_of(one, again) == 1.0
    assert abs(cosine_of(one, two)) < 0.95


def test_a_failing_download_is_one_clear_error() -> None:
    def load() -> object:
        raise OSError("no route to host")

    with pytest.raises(EmbeddingError, match=r"no route to host; set memory\.embedding"):
        MiniLMEmbedder(load).embed(["x"])  # type: ignore[arg-type]


def test_without_wordllama_one_error_says_what_to_do() -> None:
    """As on Python 3.14, for which it has no package."""
    code = "import sys; sys.modules['wordllama'] = None; from memory.providers import "
    code += "WordLlamaEmbedder; WordLlamaEmbedder().embed(['Mia rows.'])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "no package for Python 3.14; use Python 3.11 to 3.13, or set" in run.stderr

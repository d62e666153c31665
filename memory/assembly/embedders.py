"""The embedder, and the scale of its similarity."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from memory.assembly.access import gemini_key, installed, made, openai_server
from memory.errors import ConfigError

if TYPE_CHECKING:
    from memory.config import Config
    from memory.models import Scale
    from memory.protocols import Embedder

logger = logging.getLogger(__name__)


def build_embedder(config: Config) -> Embedder:
    """Local embedders load nothing before their first use.

    Raises: ConfigError as `build_model`.
    """
    if ":" in config.memory.embedding.provider:
        provider = config.memory.embedding.provider
        return own_embedder(made(config, "memory.embedding.provider", provider))
    from memory.providers import MiniLMEmbedder, WordLlamaEmbedder

    embedding = config.memory.embedding
    if embedding.provider == "minilm":
        from memory.search import load_minilm

        return MiniLMEmbedder(load_minilm)
    if embedding.provider == "gemini":
        from memory.providers import GeminiEmbedder

        key = gemini_key(config, "memory.embedding.provider")
        return GeminiEmbedder(key, config.llm, embedding.model, embedding.dim)
    if embedding.provider == "openai":
        return _openai_embedder(config)
    return WordLlamaEmbedder()


def embedder_from(config: Config, given: str) -> Embedder:
    """The embedder that `package.module:factory` makes.

    Raises: ConfigError.
    """
    return own_embedder(made(config, "--embedder", given))


def own_embedder(embedder: Embedder) -> Embedder:
    from memory.providers import OwnEmbedder

    return OwnEmbedder(embedder)


def _openai_embedder(config: Config) -> Embedder:
    with installed("openai", "memory.embedding.provider"):
        from memory.providers import OpenAIEmbedder

    embedding = config.memory.embedding
    if (embedding.model is None) != (embedding.dim is None):
        problem = "openai needs both the model and the length of its vectors, or neither"
        remedy = "set memory.embedding.model and memory.embedding.dim"
        raise ConfigError("memory.embedding.provider", "", problem, remedy)
    beside = config.llm.base_url if config.llm.provider == "openai" else None
    server = openai_server(config, "memory.embedding.provider", embedding.base_url or beside)
    return OpenAIEmbedder(server, config.llm, embedding.model, embedding.dim)


def build_scale(config: Config, embedder: Embedder) -> Scale:
    """From the embedder's cosine to similarity, as it is configured."""
    if config.memory.thresholds_without_scale:
        from memory.config import PLAIN_THRESHOLDS

        logger.warning(PLAIN_THRESHOLDS)
    return config.memory.scale_for(embedder.fingerprint)

"""The one place where things are built and wired. What is slow to import is imported when used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from memory.config import Config

if TYPE_CHECKING:
    from memory.deduplicator import MemoryDeduplicator
    from memory.ledger import Ledger
    from memory.protocols import Embedder, Index, LanguageModel
    from memory.store import MemoryStore


def open_store(config: Config) -> MemoryStore:
    """The store at the configured place, made where there is none; Chroma opens at first need.

    Raises: LedgerError, EmbedderMismatch.
    """
    from memory.ledger import Ledger

    return _store(Ledger.create(config.memory.effective_ledger_url), config, with_index=True)


def read_store(config: Config) -> MemoryStore:
    """The existing store for reading only: nothing on disk changes, Chroma stays closed.

    Raises: LedgerMissing, LedgerError, EmbedderMismatch.
    """
    from memory.ledger import Ledger

    return _store(Ledger.open(config.memory.effective_ledger_url), config, with_index=False)


def open_ledger(config: Config) -> Ledger:
    """The ledger alone, whatever embedder it was made with.

    Raises: LedgerError.
    """
    from memory.ledger import Ledger

    return Ledger.create(config.memory.effective_ledger_url)


def build_deduplicator(store: MemoryStore, config: Config) -> MemoryDeduplicator:
    from memory.deduplicator import MemoryDeduplicator

    return MemoryDeduplicator(
        store, build_model(config), config.memory, concurrency=config.llm.concurrency
    )


def build_model(config: Config) -> LanguageModel:  # noqa: ARG001 - provider comes with Gemini
    from memory.language import OfflineModel

    return OfflineModel()


def build_embedder(config: Config) -> Embedder:
    """Loads nothing before its first use."""
    from memory.embeddings import MiniLMEmbedder, WordLlamaEmbedder

    if config.memory.embedding.provider == "minilm":
        from memory.chroma_index import load_minilm

        return MiniLMEmbedder(load_minilm)
    return WordLlamaEmbedder()


def _store(ledger: Ledger, config: Config, *, with_index: bool) -> MemoryStore:
    from memory.store import MemoryStore

    try:
        return MemoryStore(
            ledger,
            build_embedder(config),
            (lambda store: _open_index(store, config)) if with_index else None,
            scope_fields=config.memory.dedup_scope,
        )
    except BaseException:
        ledger.close()
        raise


def _open_index(store: MemoryStore, config: Config) -> Index:
    """Chroma, embedded or served; exact search where another process owns the embedded one."""
    from memory.chroma_index import ChromaIndex, ChromaServer
    from memory.index import ExactIndex
    from memory.store import store_id

    chroma = config.memory.chroma
    if chroma.host is not None:
        key = os.environ.get("CHROMA_API_KEY")
        server = ChromaServer(
            host=chroma.host,
            port=chroma.port,
            ssl=chroma.ssl,
            tenant=chroma.tenant,
            database=chroma.database,
            headers={"x-chroma-token": key} if key else {},
        )
        return ChromaIndex.served(server, store.ledger, store_id(store.ledger))
    folder = Path(config.memory.data_dir) / "chroma"
    return ChromaIndex.embedded(folder, store.ledger) or ExactIndex(store.ledger)

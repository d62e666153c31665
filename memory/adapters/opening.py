"""A memory as an adapter holds it: turns are extracted, explicit memories deduplicated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from memory import assembly
from memory.chat_memory import ChatMemory
from memory.config import Config
from memory.deduplicator import MemoryDeduplicator
from memory.errors import InputError
from memory.models import Memory, first_problem
from memory.protocols import Embedder, LanguageModel
from memory.store import MemoryStore
from memory.threads import in_thread


@dataclass(frozen=True)
class OpenMemory:
    """One store with what works on it; `await chat.close()` closes all."""

    chat: ChatMemory
    store: MemoryStore
    deduplicator: MemoryDeduplicator

    async def remember(
        self,
        content: str,
        user: str,
        *,
        at: datetime | None = None,
        external_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Memory:
        """Store an explicit memory; gives the one that lives for it.

        Raises: InputError where it is none, LedgerError.
        """
        now = self.store.clock()
        try:
            new = Memory(
                id=self.store.new_id(),
                external_id=external_id,
                content=content,
                user=user,
                timestamp=at or now,
                metadata=dict(metadata or {}),
            )
        except ValidationError as exc:
            raise InputError("memory", first_problem(exc).what) from exc
        return await self.deduplicator.check_and_merge(new)


def open_memory(
    config: Config, model: LanguageModel | None = None, embedder: Embedder | None = None
) -> OpenMemory:
    """The memory at the configured place, with a model of its own.

    Raises: ConfigError, LedgerError, EmbedderMismatch.
    """
    language = assembly.build_model(config, model)
    store = assembly.open_store(config, embedder=embedder)

    async def release() -> None:
        await language.aclose()
        await in_thread(store.close)

    try:
        chat = assembly.build_chat_memory(store, config, language, release=release)
        return OpenMemory(chat, store, assembly.build_deduplicator(store, config, language))
    except BaseException:  # Ctrl-C too must not leave the ledger open
        store.close()
        raise

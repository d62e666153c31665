"""The memory behind an adapter: opened when it is first used."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from memory import assembly
from memory.config import Config
from memory.extractor import ChatMemory
from memory.ledger import Ledger
from memory.protocols import Embedder, LanguageModel
from memory.runtime import in_thread
from memory.store import MemoryStore


@dataclass(frozen=True)
class OpenMemory:
    """A chat memory and its store; `await chat.close()` closes both."""

    chat: ChatMemory
    store: MemoryStore


def conversation_of(*parts: str) -> str:
    """Join the parts to a name that no other parts give."""
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)


def open_memory(
    config: Config,
    model: LanguageModel | None = None,
    embedder: Embedder | None = None,
    check: Callable[[Ledger], None] | None = None,
) -> OpenMemory:
    """Open the memory at the configured place, with a model of its own.

    `check` may refuse the ledger by raising; it runs before anything is read from it.

    Raises: ConfigError, LedgerError, EmbedderMismatch, InputError where users are not kept apart.
    """
    config.memory.check_users_apart("open the store without an adapter")
    language = assembly.build_model(config, model)
    store = assembly.open_store(config, embedder=embedder)

    async def release() -> None:
        await language.aclose()
        await in_thread(store.close)

    try:
        if check is not None:
            check(store.ledger)
        chat = assembly.build_chat_memory(store, config, language, release=release)
        return OpenMemory(chat, store)
    except BaseException:  # Ctrl-C too must not leave the ledger open
        store.close()
        raise


class LazyMemory:
    """A memory that is opened in a thread at its first use, and only once."""

    def __init__(self, open_it: Callable[[], OpenMemory]) -> None:
        self._open_it = open_it
        self._opened: OpenMemory | None = None
        self._lock = threading.Lock()

    async def get(self) -> OpenMemory:
        """Return the open memory.

        Raises: what opening it raises; the next call tries again.
        """
        if (opened := self._opened) is not None:
            return opened
        return await in_thread(self._open_once)

    async def close(self) -> None:
        """Close the memory if it was opened; waiting turns are extracted after the next start."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            await opened.chat.close()

    def _open_once(self) -> OpenMemory:
        with self._lock:
            opened = self._opened or self._open_it()
            self._opened = opened
            return opened

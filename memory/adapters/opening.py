"""Open the chat memory of an adapter when it is first used."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from memory import assembly
from memory.config import Config, configured
from memory.extractor import ChatMemory
from memory.ledger import Ledger
from memory.protocols import Embedder, LanguageModel
from memory.runtime import in_thread


def conversation_of(*parts: str) -> str:
    """Join the parts into the name of a conversation; no other parts have the same name."""
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)


def open_memory(
    config: Config,
    model: LanguageModel | None = None,
    embedder: Embedder | None = None,
    check: Callable[[Ledger], None] | None = None,
) -> ChatMemory:
    """Open the chat memory at the configured location.

    `model` and `embedder` replace the configured ones. `check`: called with the opened ledger, and
    may raise an error; then the store is closed and the error is passed on. None means no check.

    Raises: ConfigError, LedgerError, EmbedderMismatch; InputError if the configuration lets
    memories of different users be merged.
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
        return assembly.build_chat_memory(store, config, language, release=release)
    except BaseException:  # also Ctrl-C: the ledger must not stay open; the error goes on
        store.close()
        raise


class LazyMemory:
    """A chat memory that a worker thread opens when it is first used. It is thread-safe."""

    def __init__(self, open_it: Callable[[], ChatMemory]) -> None:
        self._open_it = open_it
        self._opened: ChatMemory | None = None
        self._lock = threading.Lock()

    @classmethod
    def of_config(
        cls,
        config: Config | Path | None,
        settings: Mapping[str, Any],
        model: LanguageModel | None,
        embedder: Embedder | None,
    ) -> LazyMemory:
        """Return the memory at the configured location, without opening it yet.

        `settings` override single settings of the configuration; `model` and `embedder` replace the
        configured ones.

        Raises: ConfigError; InputError if the configuration lets memories of different users be
        merged.
        """
        config = configured(config, settings)
        config.memory.check_users_apart("open the store without an adapter")
        return cls(partial(open_memory, config, model, embedder))

    async def get(self) -> ChatMemory:
        """Return the chat memory; open it if it is not open yet.

        Raises: the error with which opening failed. After an error, the next call tries again.
        """
        if (opened := self._opened) is not None:
            return opened
        return await in_thread(self._open_once)

    async def close(self) -> None:
        """Close the chat memory if it is open; `get` opens it again.

        Turns from which no memories were extracted yet are processed when it is open again.
        """
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    def _open_once(self) -> ChatMemory:
        with self._lock:
            if self._opened is None:
                self._opened = self._open_it()
            return self._opened

"""Implementations of other frameworks' memory interfaces, one file for each framework.

Import an adapter from its own file, such as `memory.adapters.langgraph`. The import needs the
package's extra for that framework, and loads no other framework.
This file has the parts that several adapters share.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from memory import ChatMemory, Config, assembly, load_config
from memory.models import Embedder, LanguageModel
from memory.runtime import in_thread


def conversation_of(*parts: str) -> str:
    """Join the parts into the name of a conversation; different parts give different names."""
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)


def as_context(memories: Iterable[str]) -> str:
    return "\n".join(["What is remembered about the user:", *(f"- {text}" for text in memories)])


class LazyMemory:
    """A chat memory that is opened when it is first used, by a worker thread. Thread-safe."""

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
        """Return a lazy chat memory at the configured location, without opening it yet.

        Raises: ConfigError; InputError if the configuration lets memories of different users be
        merged.
        """
        config = load_config(config, settings=settings)
        config.memory.check_users_apart("open the store without an adapter")
        return cls(partial(assembly.open_chat_memory, config, model=model, embedder=embedder))

    async def get(self) -> ChatMemory:
        """Return the chat memory; open it if it is not open yet.

        Raises: the error that opening raised. The next call tries to open again.
        """
        if (opened := self._opened) is not None:
            return opened
        return await in_thread(self._open_once)

    async def close(self) -> None:
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    def _open_once(self) -> ChatMemory:
        with self._lock:
            if self._opened is None:
                self._opened = self._open_it()
            return self._opened

"""An implementation of AutoGen's `Memory`: it deduplicates texts and recalls them as context."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autogen_core import CancellationToken
from autogen_core.memory import (
    Memory,
    MemoryContent,
    MemoryMimeType,
    MemoryQueryResult,
    UpdateContextResult,
)
from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import SystemMessage, UserMessage

from memory import Config
from memory.adapters import LazyMemory, as_context
from memory.errors import InputError
from memory.models import Embedder, LanguageModel


class DedupMemory(Memory):
    """An AutoGen memory for one user. Call `await close()` at the end.

    The store is opened at the first use. `user`: the user whom the memories are about. `k`: the
    most memories that a query returns.

    `config` is the configuration, or the path of its file. `settings` override single settings,
    such as `data_dir="..."`. `model` and `embedder` replace the configured ones.

    Raises: ConfigError; InputError if the configuration lets memories of different users be merged.
    """

    def __init__(
        self,
        *,
        user: str,
        k: int = 10,
        config: Config | Path | None = None,
        model: LanguageModel | None = None,
        embedder: Embedder | None = None,
        **settings: Any,
    ) -> None:
        self._user = user
        self._k = k
        self._memory = LazyMemory.of_config(config, settings, model, embedder)

    async def add(
        self,
        content: MemoryContent,
        cancellation_token: CancellationToken | None = None,  # noqa: ARG002 - AutoGen's signature
    ) -> None:
        """Store a text as a memory, unless a stored memory already states it.

        Raises: InputError if the content is not text; LedgerError.
        """
        await (await self._memory.get()).remember(
            _text(content), user=self._user, metadata=content.metadata
        )

    async def query(
        self,
        query: str | MemoryContent,
        cancellation_token: CancellationToken | None = None,  # noqa: ARG002 - AutoGen's signature
        **kwargs: Any,  # noqa: ARG002
    ) -> MemoryQueryResult:
        """Return the memories that fit the query, dated for a prompt, best first.

        The metadata of each result also has the memory's `id`, and a `score` that says how well the
        memory fits. The parameters after `query` are ignored.
        """
        text = query if isinstance(query, str) else _text(query)
        memories = await (await self._memory.get()).recall(text, user=self._user, k=self._k)
        return MemoryQueryResult(
            results=[
                MemoryContent(
                    content=memory.dated,
                    mime_type=MemoryMimeType.TEXT,
                    metadata={**memory.metadata, "id": memory.id, "score": memory.score},
                )
                for memory in memories
            ]
        )

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Find memories that fit the user's last message, add them to the context and return them.

        The memories are added as one system message. If the user's message is not text, nothing is
        added.
        """
        messages = await model_context.get_messages()
        message = next(
            (message for message in reversed(messages) if isinstance(message, UserMessage)), None
        )
        if message is None or not isinstance(message.content, str):
            return UpdateContextResult(memories=MemoryQueryResult(results=[]))
        found = await self.query(message.content)
        if found.results:
            text = as_context(str(memory.content) for memory in found.results)
            await model_context.add_message(SystemMessage(content=text))
        return UpdateContextResult(memories=found)

    async def clear(self) -> None:
        await (await self._memory.get()).forget_user(self._user)

    async def close(self) -> None:
        await self._memory.close()


def _text(content: MemoryContent) -> str:
    if isinstance(content.content, str):
        return content.content
    raise InputError("memory", f"is no text but {content.mime_type}", "add a text")

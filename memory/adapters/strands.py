"""An implementation of Strands' `MemoryStore`: the user's messages become memories."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

from strands.memory.types import (
    AddMessagesContext,
    MemoryEntry,
    MemoryStore,
    Metadata,
    SearchOptions,
)
from strands.types.content import Message

from memory import Config
from memory.adapters import LazyMemory, conversation_of
from memory.models import Embedder, LanguageModel, Turn
from memory.text import clean


class DedupMemoryStore(MemoryStore):
    """A Strands memory store for one user. Call `await close()` at the end.

    The store extracts memories with its own model, so Strands needs no model for `extraction=True`.
    The store is opened by `initialize`, or at the first use.

    `user`: the user whom the memories are about. `run_id`: the name of the run that the messages
    belong to. A repeated message is recognised only within one run. If `run_id` is None, each call
    of `initialize` starts a new run. `name`, `description`, `max_search_results`, `writable` and
    `extraction` are those of Strands' `MemoryStore`.

    `config` is the configuration, or the path of its file. `settings` override single settings,
    such as `data_dir="..."`. `model` and `embedder` replace the configured ones.

    Raises: ConfigError; InputError if the configuration lets memories of different users be merged.
    """

    def __init__(
        self,
        name: str,
        *,
        user: str,
        description: str | None = None,
        max_search_results: int | None = None,
        writable: bool = True,
        extraction: Any = None,
        run_id: str | None = None,
        config: Config | Path | None = None,
        model: LanguageModel | None = None,
        embedder: Embedder | None = None,
        **settings: Any,
    ) -> None:
        self.name = name
        self.description = description
        self.max_search_results = max_search_results
        self.writable = writable
        self.extraction = extraction
        self._user = user
        self._given_run = run_id
        self._run = run_id or uuid4().hex
        self._memory = LazyMemory.of_config(config, settings, model, embedder)

    async def initialize(self) -> None:
        """Open the store and, unless `run_id` was given, start a new run.

        Raises: LedgerError, EmbedderMismatch.
        """
        self._run = self._given_run or uuid4().hex
        await self._memory.get()

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        """Return the user's memories that fit the query, dated for a prompt, best first.

        The limit is `max_search_results` of `options`, else that of this store, else 10.
        """
        k = (options or {}).get("max_search_results") or self.max_search_results or 10
        memories = await (await self._memory.get()).recall(query, user=self._user, k=k)
        return [
            MemoryEntry(
                content=memory.dated,
                store_name=self.name,
                metadata={
                    "id": memory.id,
                    "timestamp": memory.timestamp.isoformat(),
                    **memory.metadata,
                },
            )
            for memory in memories
        ]

    async def add(self, content: str, metadata: Metadata | None = None) -> str:
        """Store a text as a memory, unless a stored memory already states it.

        Return the id of the live memory that states the text.

        Raises: InputError if the text is not valid; LedgerError.
        """
        chat = await self._memory.get()
        done = await chat.remember(content, user=self._user, metadata=metadata)
        return done.memory.id

    async def add_messages(
        self, messages: list[Message], context: AddMessagesContext | None = None
    ) -> None:
        """Extract memories from what the user says in these messages.

        A message is skipped if an earlier message of the run had the same sequence number and text.
        If `context` has no sequence numbers, no message is skipped. If the model fails, the
        messages are stored and processed later.

        Raises: LedgerError if the messages could not be stored; then none of them is stored.
        """
        numbers = context.sequence_numbers if context is not None else None
        names = [str(number) for number in numbers] if numbers else [uuid4().hex for _ in messages]
        chat = await self._memory.get()
        turns = [
            Turn(
                speaker=self._user if message["role"] == "user" else self.name,
                text=_text(message),
                at=chat.store.now(),
                is_bot=message["role"] != "user",
                id=name,
                conversation=conversation_of(self.name, self._user, self._run),
            )
            for message, name in zip(messages, names, strict=True)
            if clean(_text(message))
        ]
        if turns:
            await chat.hear_all(turns)
            await chat.settle()

    async def close(self) -> None:
        await self._memory.close()


def _text(message: Message) -> str:
    return " ".join(part["text"] for part in message["content"] if part.get("text"))

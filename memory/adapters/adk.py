"""An implementation of Google ADK's `BaseMemoryService`: sessions become memories.

If an event is added more than once, memories are extracted from it only once. To use the service
from ADK's commands, pass `--memory_service_uri memdedup:///a/folder`, and register the service in
the agent's `services.yaml`:

    services:
      - scheme: memdedup
        type: memory
        class: memory.adapters.adk.DedupMemoryService
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlparse

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

from memory import ChatMemory, Config, assembly, load_config
from memory.adapters import LazyMemory, conversation_of
from memory.errors import InputError, MemoryNotFound
from memory.models import Embedder, LanguageModel, Turn
from memory.runtime import in_thread
from memory.text import clean

_USER = "user"  # the author of events that come from no agent
_APP_KEY = "adk_app"


class DedupMemoryService(BaseMemoryService):
    """An ADK memory service. Each app has its own ledger.

    Memories of different users are never merged. The ledger of an app is in a folder with the app's
    name, and is opened when the app first uses the service. If `memory.ledger_url` is configured,
    only one app may use the service. Call `await close()` at the end.

    `uri`: `memdedup:///folder` sets the data folder (default: the configured folder). `most_found`:
    the most memories that a search returns. `config` is the configuration, or the path of its file.
    `settings` override single settings, such as `llm_provider="offline"`. `model` and `embedder`
    replace the configured ones. `agents_dir` is ignored.

    Raises: ConfigError.
    """

    def __init__(
        self,
        uri: str = "memdedup://",
        *,
        config: Config | Path | None = None,
        model: LanguageModel | None = None,
        embedder: Embedder | None = None,
        most_found: int = 10,
        agents_dir: str | None = None,  # noqa: ARG002 - ADK's loader passes it
        **settings: Any,
    ) -> None:
        parsed = urlparse(uri)
        folder = unquote(parsed.netloc + parsed.path)
        if folder:
            settings["data_dir"] = str(Path(folder).absolute())
        self._config = load_config(config, settings=settings)
        self._model = model
        self._embedder = embedder
        self._most_found = most_found
        self._apps: dict[str, LazyMemory] = {}

    async def add_session_to_memory(self, session: Session) -> None:
        """Extract memories from what the user says in a session.

        Events that were added before are skipped.
        """
        await self.add_events_to_memory(
            app_name=session.app_name,
            user_id=session.user_id,
            events=session.events,
            session_id=session.id,
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,  # noqa: ARG002 - of events, not memories
    ) -> None:
        """Extract memories from what the user says in these events.

        An event is skipped if an event with the same session, id and text was added before. If the
        model fails, the events are stored, and memories are extracted later. `custom_metadata` is
        ignored.
        """
        conversation = conversation_of(user_id, session_id or "-")
        zone = self._config.memory.zone or UTC
        turns = [
            Turn(
                speaker=user_id if event.author == _USER else event.author or "agent",
                text=_text(event.content),
                at=datetime.fromtimestamp(event.timestamp, zone),
                is_bot=event.author != _USER,
                id=event.id or f"@{event.timestamp}",
                conversation=conversation,
            )
            for event in events
            if not event.partial and event.content is not None and clean(_text(event.content))
        ]
        if turns:
            chat = await self._chat_of(app_name)
            await chat.hear_all(turns)
            await chat.settle()

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store the given memories without extraction, and merge near-copies of the same user.

        `custom_metadata` is added to the metadata of every memory. A memory without a time gets the
        present time.

        Raises: InputError if a text or a time is not valid.
        """
        chat = await self._chat_of(app_name)
        for entry in memories:
            await chat.remember(
                _text(entry.content),
                user=user_id,
                at=_moment(entry),
                external_id=entry.id,
                metadata={**(custom_metadata or {}), **entry.custom_metadata},
            )

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        chat = await self._chat_of(app_name)
        memories = await chat.recall(query, user=user_id, k=self._most_found)
        return SearchMemoryResponse(
            memories=[
                MemoryEntry(
                    id=memory.id,
                    content=types.Content(role=_USER, parts=[types.Part(text=memory.dated)]),
                    author=memory.user,
                    timestamp=memory.timestamp.isoformat(),
                    custom_metadata=dict(memory.metadata),
                )
                for memory in memories
            ]
        )

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Erase a memory of this user for good.

        Without a `memory_id`, or if this user has no memory with this id, nothing happens.

        Raises: StillStatedBy if the memory is retired and has a live successor.
        """
        if not memory_id:
            return
        chat = await self._chat_of(app_name)
        if clean(user_id) == await in_thread(_user_of, chat, memory_id):
            with contextlib.suppress(MemoryNotFound):
                await chat.forget(memory_id)

    async def close(self) -> None:
        while self._apps:
            _, memory = self._apps.popitem()
            await memory.close()

    async def _chat_of(self, app_name: str) -> ChatMemory:
        if app_name not in self._apps:
            memory = LazyMemory(partial(self._open_app, app_name))
            self._apps.setdefault(app_name, memory)  # of two threads, the first one's
        return await self._apps[app_name].get()

    def _open_app(self, app_name: str) -> ChatMemory:
        folder = Path(self._config.memory.data_dir) / quote(app_name, safe="").replace(".", "%2E")
        memory = self._config.memory.model_copy(update={"data_dir": str(folder)})
        memory.check_users_apart("open the store without an adapter")
        config = self._config.model_copy(update={"memory": memory})
        if memory.ledger_url is not None:
            with assembly.open_ledger(config) as ledger, ledger.writing() as writer:
                holder = writer.meta(_APP_KEY)
                if holder is None:
                    writer.set_meta(_APP_KEY, app_name)
            if holder not in (None, app_name):
                raise InputError(
                    "memory.ledger_url",
                    f"holds the memories of app {holder!r}, not of {app_name!r}",
                    "give each app a ledger of its own",
                )
        return assembly.open_chat_memory(config, model=self._model, embedder=self._embedder)


def _user_of(chat: ChatMemory, memory_id: str) -> str | None:
    with chat.store.ledger.reading() as reader:
        row = reader.memories.row(clean(memory_id))
    return row.memory.user if row is not None else None


def _text(content: types.Content) -> str:
    return " ".join(part.text for part in content.parts or [] if part.text and not part.thought)


def _moment(entry: MemoryEntry) -> datetime | None:
    if not entry.timestamp:
        return None
    try:
        at = datetime.fromisoformat(entry.timestamp)
    except ValueError as exc:
        raise InputError("memory", f"timestamp {entry.timestamp!r} is no ISO 8601 time") from exc
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)

"""Google ADK's `BaseMemoryService`: sessions become memories, each event once.

In an agent's `services.yaml`: `scheme: memdedup`, `type: memory`,
`class: memory.adapters.adk.DedupMemoryService`; then `--memory_service_uri memdedup:///a/folder`.
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

from memory.adapters.opening import LazyMemory, OpenMemory, conversation_of, open_memory
from memory.config import Config, configured
from memory.errors import InputError, MemoryNotFound
from memory.ledger import Ledger
from memory.models import Memory, Turn
from memory.protocols import Embedder, LanguageModel
from memory.runtime import in_thread
from memory.text import clean

_USER = "user"
"""The author of an event that is no agent's."""
_NO_SESSION = "-"
_CLAIMED = "adk_app"
"""The note, in a ledger named by its address, of the app whose memories it holds."""


class DedupMemoryService(BaseMemoryService):
    """Memories by (app_name, user_id): a ledger for each app, a scope in it for each user.

    An app's ledger is in a folder of its name. Any event loop may use it; `await close()` at last.
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
        """`memdedup:///folder` names the data folder; without one, the configuration does.

        `settings` are single keys of the configuration (`llm_provider="offline"`). `agents_dir`
        comes from ADK's loader and is ignored.

        Raises: ConfigError.
        """
        parsed = urlparse(uri)
        folder = unquote(parsed.netloc + parsed.path)
        if folder:
            settings["data_dir"] = str(Path(folder).absolute())
        self._config = configured(config, settings)
        self._model = model
        self._embedder = embedder
        self._most_found = most_found
        self._apps: dict[str, LazyMemory] = {}

    async def add_session_to_memory(self, session: Session) -> None:
        """Remember what the user says in a session; events that were added before add nothing."""
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
        """Remember some events. An event is recognised by its session, its id and its text."""
        conversation = conversation_of(user_id, session_id or _NO_SESSION)
        turns = [_turn(event, user_id, conversation) for event in events if _says(event)]
        if turns:
            memory = await self._memory_of(app_name)
            await memory.chat.hear_all(turns)
            await memory.chat.settle()

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember explicit memories, each through the deduplicator.

        Raises: InputError.
        """
        memory = await self._memory_of(app_name)
        for entry in memories:
            await memory.chat.remember(
                _text(entry.content),
                user=user_id,
                at=_moment(entry),
                external_id=entry.id,
                metadata={**(custom_metadata or {}), **entry.custom_metadata},
            )

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Return the memories of this user that answer the query, best first."""
        memory = await self._memory_of(app_name)
        found = await memory.chat.recall(query, user=user_id, k=self._most_found)
        return SearchMemoryResponse(memories=[_entry(memory) for memory in found])

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Erase a memory of this user for good; do nothing if it does not exist.

        Raises: StillStatedBy if another memory has stated it since.
        """
        if not memory_id:
            return
        memory = await self._memory_of(app_name)
        if clean(user_id) == await in_thread(_user_of, memory, memory_id):
            with contextlib.suppress(MemoryNotFound):
                await memory.chat.forget(memory_id)

    async def close(self) -> None:
        """Close all apps; what was not extracted yet is extracted after the next start."""
        while self._apps:
            _, memory = self._apps.popitem()
            await memory.close()

    async def _memory_of(self, app_name: str) -> OpenMemory:
        if app_name not in self._apps:
            config = self._config_of(app_name)
            is_shared = config.memory.ledger_url is not None
            check = partial(_claim, app_name=app_name) if is_shared else None
            open_it = partial(open_memory, config, self._model, self._embedder, check)
            self._apps.setdefault(app_name, LazyMemory(open_it))  # of two threads, the first one's
        return await self._apps[app_name].get()

    def _config_of(self, app_name: str) -> Config:
        folder = Path(self._config.memory.data_dir) / quote(app_name, safe="").replace(".", "%2E")
        memory = self._config.memory.model_copy(update={"data_dir": str(folder)})
        return self._config.model_copy(update={"memory": memory})


def _claim(ledger: Ledger, app_name: str) -> None:
    """Note that the ledger holds this app's memories.

    Raises: InputError if it holds another app's.
    """
    with ledger.writing() as writer:
        holder = writer.meta(_CLAIMED)
        if holder is None:
            writer.set_meta(_CLAIMED, app_name)
    if holder not in (None, app_name):
        raise InputError(
            "memory.ledger_url",
            f"holds the memories of app {holder!r}, not of {app_name!r}",
            "give each app a ledger of its own",
        )


def _user_of(memory: OpenMemory, memory_id: str) -> str | None:
    with memory.store.ledger.reading() as reader:
        row = reader.memories.row(clean(memory_id))
    return row.memory.user if row is not None else None


def _says(event: Event) -> bool:
    return bool(not event.partial and event.content is not None and clean(_text(event.content)))


def _text(content: types.Content) -> str:
    """Return the spoken text of a content, without a model's thoughts."""
    parts = content.parts or []
    return " ".join(part.text for part in parts if part.text and not part.thought)


def _turn(event: Event, user_id: str, conversation: str) -> Turn:
    assert event.content is not None
    return Turn(
        speaker=user_id if event.author == _USER else event.author or "agent",
        text=_text(event.content),
        at=datetime.fromtimestamp(event.timestamp, UTC),
        is_bot=event.author != _USER,
        id=event.id or f"@{event.timestamp}",
        conversation=conversation,
    )


def _moment(entry: MemoryEntry) -> datetime | None:
    """Return an entry's time, taken as UTC if it names no zone; None if it has none.

    Raises: InputError.
    """
    if not entry.timestamp:
        return None
    try:
        at = datetime.fromisoformat(entry.timestamp)
    except ValueError as exc:
        raise InputError("memory", f"timestamp {entry.timestamp!r} is no ISO 8601 time") from exc
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _entry(memory: Memory) -> MemoryEntry:
    return MemoryEntry(
        id=memory.id,
        content=types.Content(role=_USER, parts=[types.Part(text=memory.content)]),
        author=memory.user,
        timestamp=memory.timestamp.isoformat(),
        custom_metadata=dict(memory.metadata),
    )

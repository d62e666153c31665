"""The memory of a script or a notebook: remember, recall, forget, and clean up, without asyncio."""

from __future__ import annotations

import threading
from collections.abc import Coroutine, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from memory.assembly.wiring import open_chat_memory
from memory.config import Config
from memory.errors import LedgerError
from memory.ledger import DecisionRecord
from memory.models import (
    DeduplicationReport,
    Embedder,
    LanguageModel,
    Memory,
    Outcome,
    Recalled,
    checked,
)
from memory.runtime import LoopThread
from memory.store import Forgotten, ForgottenUser, MemoryStore

T = TypeVar("T")


@checked
class Memories:
    """Memories in a file, for scripts, notebooks and threads: `ChatMemory` without `await`.

    `file`: the SQLite file that holds them; it is created if it does not exist. None means the
    configured store. The other arguments are those of `open_chat_memory`. Without a key or a server
    in the settings or the environment, everything runs on this machine.

    The object is a context manager, and may be shared between threads.

        >>> with Memories("mia.db") as memories:
        ...     memories.remember("Mia has a cat.", user="Mia").action.value
        ...     memories.remember("mia has a cat", user="Mia").action.value
        ...     [found.content for found in memories.recall("Which pet?", user="Mia")]
        'add'
        'replace'
        ['Mia has a cat.']

    Raises: ConfigError; LedgerError; EmbedderMismatch if another embedder made the file's vectors.
    """

    def __init__(
        self,
        file: Path | str | None = None,
        *,
        config: Config | Path | None = None,
        model: LanguageModel | None = None,
        embedder: Embedder | None = None,
        **settings: Any,
    ) -> None:
        if file is not None:
            path = Path(file).expanduser().absolute()
            settings = {"ledger_url": f"sqlite:///{path}", "data_dir": f"{path}.files", **settings}
        self._memory = open_chat_memory(config, model=model, embedder=embedder, **settings)
        self._loop = LoopThread("memories")
        self._closing = threading.Lock()
        self._closed = False

    @property
    def store(self) -> MemoryStore:
        return self._memory.store

    def remember(
        self,
        text: str,
        *,
        user: str | None,
        is_private: bool = False,
        metadata: Mapping[str, Any] | None = None,
        at: datetime | None = None,
        external_id: str | None = None,
        expires_at: datetime | None = None,
    ) -> Outcome:
        """Deduplicate and store one memory, as `ChatMemory.remember` does.

        >>> outcome = memories.remember("Ann has a cat.", user="Ann")
        >>> outcome.action.value
        'add'
        """
        return self._wait(
            self._memory.remember(
                text,
                user=user,
                is_private=is_private,
                metadata=metadata,
                at=at,
                external_id=external_id,
                expires_at=expires_at,
            )
        )

    def recall(
        self,
        text: str,
        *,
        user: str | Sequence[str] | None = None,
        everyone: bool = False,
        private: bool = False,
        k: int = 5,
        min_score: float | None = None,
        category: str | None = None,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        include_superseded: bool | None = None,
        as_of: datetime | None = None,
    ) -> Sequence[Recalled]:
        """Return the `k` memories that answer `text` best, as `ChatMemory.recall` does.

        >>> outcome = memories.remember("Bob has a dog.", user="Bob")
        >>> [found.content for found in memories.recall("Which pet?", user="Bob")]
        ['Bob has a dog.']
        """
        return self._wait(
            self._memory.recall(
                text,
                user=user,
                everyone=everyone,
                private=private,
                k=k,
                min_score=min_score,
                category=category,
                tags=tags,
                metadata=metadata,
                since=since,
                until=until,
                include_superseded=include_superseded,
                as_of=as_of,
            )
        )

    def update(self, memory_id: str, text: str) -> Memory:
        """Change the text of a memory, as `ChatMemory.update` does.

        >>> outcome = memories.remember("Cat lives in Porto.", user="Cat")
        >>> changed = memories.update(outcome.memory.id, "Cat lives in Faro.")
        >>> changed.content
        'Cat lives in Faro.'
        """
        return self._wait(self._memory.update(memory_id, text))

    def forget(self, memory_id: str, *, lineage: bool = False) -> Forgotten:
        """Erase a memory permanently, as `ChatMemory.forget` does.

        >>> outcome = memories.remember("Dan lives in Porto.", user="Dan")
        >>> forgotten = memories.forget(outcome.memory.id)
        >>> memories.list(user="Dan")
        []
        """
        return self._wait(self._memory.forget(memory_id, lineage=lineage))

    def matching(self, description: str, *, user: str) -> Sequence[Memory]:
        """Return the memories that a description names, as `ChatMemory.matching` does.

        >>> outcome = memories.remember("Eve's phone number is 5550100.", user="Eve")
        >>> [found.content for found in memories.matching("Eve's phone number", user="Eve")]
        ["Eve's phone number is 5550100."]
        """
        return self._wait(self._memory.matching(description, user=user))

    def forget_user(self, user: str) -> ForgottenUser:
        """Erase all memories of a user permanently, as `ChatMemory.forget_user` does.

        >>> outcome = memories.remember("Fay rows.", user="Fay")
        >>> forgotten = memories.forget_user("Fay")
        >>> forgotten.memories
        1
        """
        return self._wait(self._memory.forget_user(user))

    def history(self, memory_id: str | None = None) -> Sequence[DecisionRecord]:
        """Return the decisions about a memory, as `ChatMemory.history` does.

        >>> outcome = memories.remember("Gus rows.", user="Gus")
        >>> [record.number == outcome.number for record in memories.history(outcome.memory.id)]
        [True]
        """
        return self._wait(self._memory.history(memory_id))

    def undo(self, target: int | str) -> Sequence[DecisionRecord]:
        """Undo a decision or a run, as `ChatMemory.undo` does.

        >>> first = memories.remember("Hal has a cat.", user="Hal")
        >>> second = memories.remember("hal has a cat", user="Hal")  # replaces the first
        >>> undone = memories.undo(second.number)
        >>> len(memories.list(user="Hal"))
        2
        """
        return self._wait(self._memory.undo(target))

    def clean(self, *, dry_run: bool = False) -> DeduplicationReport:
        """Find all near-copies and join them, as `ChatMemory.clean` does.

        >>> report = memories.clean(dry_run=True)
        >>> report.retired
        0
        """
        return self._wait(self._memory.clean(dry_run=dry_run))

    def close(self) -> None:
        """Close the store and the model; a second call does nothing."""
        with self._closing:
            if not self._closed:
                self._wait(self._memory.close())
                self._closed = True
                self._loop.stop()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._closed:
            work.close()
            raise LedgerError("this memory is closed", "open another one")
        return self._loop.start(work).result()

    def __enter__(self) -> Memories:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Last, so that the annotations above mean the built-in list.
    def list(self, *, user: str, limit: int | None = None) -> Sequence[Memory]:
        """Return the live memories of a user, newest first, as `ChatMemory.list` does.

        >>> outcome = memories.remember("Ian rows.", user="Ian")
        >>> [found.content for found in memories.list(user="Ian")]
        ['Ian rows.']
        """
        return self._wait(self._memory.list(user=user, limit=limit))

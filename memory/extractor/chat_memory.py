"""The memory of a live bot: hear turns, recall, forget; extract in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from memory.deduplicator import MemoryDeduplicator
from memory.errors import InputError, LedgerError
from memory.extractor.extractor import BackgroundExtraction, MemoryExtractor, OnExtracted
from memory.models import ExtractionResult, Memory, Recalled, Scope, Turn, first_problem
from memory.runtime import LoopThread, Progress, in_thread
from memory.store import Forgotten, ForgottenUser, MemoryStore, forget_user


class ChatMemory:
    """`await memory.hear(turn)`, `await memory.recall(text, user=...)`; `async with` closes it.

    Safe to call from any event loop and any thread. A turn is durable once `hear` returns; a turn
    without an id is known by its conversation, its time and its text.
    """

    def __init__(
        self,
        store: MemoryStore,
        extractor: MemoryExtractor,
        deduplicator: MemoryDeduplicator,
        *,
        concurrency: int = 4,
        wait_s: float = 45.0,
        on_extracted: OnExtracted | None = None,
        release: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        """A conversation is extracted with ten turns, or `wait_s` after the first of them.

        `on_extracted` is called in the background's thread, `release` at the end.
        """
        self._store = store
        self._extractor = extractor
        self._deduplicator = deduplicator
        self._release = release
        self._closing = threading.Lock()
        self._closed = False
        # Storing overlaps with the next calls, which the model itself holds to `concurrency`.
        self._background = BackgroundExtraction(
            extractor, at_once=2 * concurrency, wait_s=wait_s, on_extracted=on_extracted
        )
        self._loop = LoopThread("memory")
        self._loop.start(self._background.run())

    async def hear(self, turn: Turn) -> None:
        """Return when the turn is durable; it is extracted later, and never twice.

        Raises: LedgerError where it could not be kept.
        """
        self._check_open()
        await self._extractor.keep_one(turn)
        self._loop.soon(self._background.wake)

    async def hear_all(self, turns: Sequence[Turn]) -> int:
        """Keep turns of the past in one transaction; return how many were known before.

        Without an id, a turn is known by its position.

        Raises: LedgerError where they could not be kept: then none was.
        """
        self._check_open()
        known = await self._extractor.keep(turns)
        self._loop.soon(self._background.wake)
        return known

    async def remember(
        self,
        text: str,
        *,
        user: str | None,
        is_private: bool = False,
        metadata: Mapping[str, Any] | None = None,
        at: datetime | None = None,
        external_id: str | None = None,
    ) -> Memory:
        """Store one memory as it is worded; return the memory that lives for it.

        That is the new one, one that already states it, or a merge of both. `at` is when it was
        recorded, now where it is None.

        Raises: InputError where it is no memory, LedgerError.
        """
        self._check_open()
        try:
            new = Memory(
                id=self._store.new_id(),
                external_id=external_id,
                content=text,
                user=user,
                is_private=is_private,
                timestamp=at or self._store.clock(),
                metadata=dict(metadata or {}),
            )
        except ValidationError as exc:
            raise InputError("memory", first_problem(exc).what) from exc
        return await self._loop.run(self._deduplicator.check_and_merge(new))

    async def recall(
        self,
        text: str,
        *,
        user: str | None = None,
        everyone: bool = False,
        k: int = 5,
        min_score: float | None = None,
    ) -> list[Recalled]:
        """Return the k memories of this user that answer a text best, best first, with scores.

        With `everyone=True` and no user, the public memories of all users are recalled. With
        `min_score`, those that score less are left out.

        Raises: InputError where it is not said whose, EmbeddingError, LedgerError.
        """
        self._check_open()
        if (user is None) is not everyone:
            raise InputError("recall", "needs a user", "give user=NAME, or everyone=True")
        scope = Scope((("is_private", False),)) if user is None else Scope.of_user(user)
        found = await in_thread(self._store.search, text, k, scope=scope, min_score=min_score)
        return [Recalled.model_construct(**dict(hit.memory), score=hit.score) for hit in found]

    async def settle(self, on_progress: Progress | None = None) -> ExtractionResult:
        """Wait until everything heard is extracted, or the model fails.

        Return what was extracted since the last call.

        Raises: LedgerError.
        """
        self._check_open()
        return await self._loop.run(self._background.settle(on_progress))

    async def waiting(self) -> int:
        """Count the turns that are not extracted yet."""
        self._check_open()
        return await self._extractor.count_waiting()

    async def forget(self, memory_id: str) -> Forgotten:
        """Erase a memory for good.

        Raises: MemoryNotFound, StillStatedBy, LedgerError.
        """
        self._check_open()
        return await in_thread(self._store.forget, memory_id)

    async def forget_user(self, user: str) -> ForgottenUser:
        """Erase all memories of a user for good, and what they said that is not extracted yet.

        Raises: LedgerError; a repeated call then erases the rest.
        """
        self._check_open()
        store = self._store
        return await in_thread(forget_user, store.ledger, store.index, user, store.clock())

    async def close(self) -> None:
        """Stop extracting; turns that wait are extracted after the next start. Once is enough."""
        await in_thread(self._close)

    def _close(self) -> None:
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._loop.start(self._background.stop()).result()
            if self._release is not None:
                self._loop.start(self._release()).result()
            self._loop.stop()

    def _check_open(self) -> None:
        if self._closed:
            raise LedgerError("this memory is closed", "open another one")

    async def __aenter__(self) -> ChatMemory:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Last, so that the annotations above mean the built-in list.
    async def list(self, *, user: str, limit: int | None = None) -> Sequence[Memory]:
        """Return the memories of a user, the newest first.

        Raises: LedgerError.
        """
        self._check_open()
        return await in_thread(self._newest, user, limit)

    def _newest(self, user: str, limit: int | None) -> Sequence[Memory]:
        with self._store.ledger.reading() as reader:
            return [row.memory for row in reader.memories.newest(limit, Scope.of_user(user))]

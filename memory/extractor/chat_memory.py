"""The memory of a running chatbot: hear turns, recall, forget, and extract in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from memory.deduplicator import MemoryDeduplicator
from memory.errors import InputError, LedgerError, MemoryNotFound
from memory.extractor.extractor import (
    BackgroundExtraction,
    BackgroundPages,
    MemoryExtractor,
    OnExtracted,
    OnPages,
)
from memory.ledger import DecisionRecord
from memory.models import (
    DeduplicationReport,
    ExtractionResult,
    Memory,
    Outcome,
    Progress,
    Recalled,
    Scope,
    Turn,
    checked,
)
from memory.runtime import LoopThread, in_thread
from memory.store import Forgotten, ForgottenUser, MemoryStore, described, forget_user
from memory.text import clean, undated


@dataclass(frozen=True)
class Wanted:
    """Which memories a search may return: those for which a call returns True.

    >>> from datetime import UTC, datetime
    >>> may, june = datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 6, 1, tzinfo=UTC)
    >>> one = Memory(content="Mia rows.", tags=("sport",), timestamp=may)
    >>> Wanted(tags=frozenset({"sport"}))(one), Wanted(since=june)(one)
    (True, False)

    `users`: None means any user. `metadata`: keys and their values. `since`, `until`: a memory
    counts from when it was said or, if that is unknown, recorded. `restating`: ids of memories that
    count because they replaced one that was said in this time.
    """

    users: frozenset[str] | None = None
    category: str | None = None
    tags: frozenset[str] = frozenset()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    since: datetime | None = None
    until: datetime | None = None
    restating: frozenset[str] = frozenset()

    def in_time(self, memory: Memory) -> bool:
        at = memory.said or memory.timestamp
        return (self.since is None or self.since <= at) and (self.until is None or at < self.until)

    def __call__(self, memory: Memory) -> bool:
        return (
            (self.users is None or memory.user in self.users)
            and self.category in (None, memory.category)
            and self.tags <= {*memory.tags}
            and all(memory.metadata.get(key) == value for key, value in self.metadata.items())
            and (memory.id in self.restating or self.in_time(memory))
        )


@checked
class ChatMemory:
    """The memory of a running chatbot, which extracts memories in a background thread.

    `await memory.hear(turn)` stores a turn. `await memory.recall(text, user=...)` finds memories.
    `async with` closes the object. The methods may be called from any event loop and any thread. A
    turn that is sent twice is stored once: it is recognised by its conversation and text, together
    with its id or, without an id, its time.

    A conversation is extracted when enough turns for one call of the model are waiting (by default
    ten), or `wait_s` seconds after the first of these turns. `concurrency`: the greatest number of
    calls of the model at the same time. `on_extracted`: called in the background thread with the
    result of each extraction. `release`: awaited by `close`, after extraction has stopped.

    If the model reads pages, and `background_pages` is true, it reads the memories of a scope when
    24 are unread, or a minute after the last write. `on_pages`: called with the report of each such
    reading.

    >>> outcome = await chat.remember("Cy has a cat.", user="Cy")
    >>> [found.content for found in await chat.recall("Which pet?", user="Cy")]
    ['Cy has a cat.']
    """

    def __init__(
        self,
        store: MemoryStore,
        extractor: MemoryExtractor,
        deduplicator: MemoryDeduplicator,
        *,
        concurrency: int = 4,
        wait_s: float = 45.0,
        background_pages: bool = True,
        on_extracted: OnExtracted | None = None,
        on_pages: OnPages | None = None,
        release: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self._store = store
        self._extractor = extractor
        self._deduplicator = deduplicator
        self._release = release
        self._closing = threading.Lock()
        self._closed = False
        self._pages = BackgroundPages(
            store, deduplicator, is_on=background_pages, on_pages=on_pages
        )

        def extracted(result: ExtractionResult) -> None:
            self._pages.wrote(result.outcomes)
            if on_extracted is not None:
                on_extracted(result)

        # Storing overlaps with the next calls, which the model itself holds to `concurrency`.
        self._background = BackgroundExtraction(
            extractor, at_once=2 * concurrency, wait_s=wait_s, on_extracted=extracted
        )
        self._loop = LoopThread("memory")
        self._loop.start(self._background.run())
        self._loop.start(self._pages.run())

    @property
    def store(self) -> MemoryStore:
        return self._store

    async def reads_pages(self) -> bool:
        """Return whether a page is being read now, or is about to be.

        >>> await chat.reads_pages()
        False
        """
        self._check_open()
        return await self._loop.run(self._pages.is_due())

    async def hear(self, turn: Turn) -> None:
        """Store a turn; return when it is durable. Its memories are extracted later.

        Raises: LedgerError if the turn could not be stored.
        """
        self._check_open()
        await self._extractor.keep_one(turn)
        self._loop.soon(self._background.wake)

    async def hear_all(self, turns: Sequence[Turn]) -> int:
        """Store past turns in one transaction; return how many of them had been stored before.

        Their memories are extracted later. A turn without an id is recognised by its position in
        `turns`, its conversation and its text.

        >>> turn = Turn(speaker="Jan", text="I have a cat.", at=datetime.now(UTC))
        >>> await chat.hear_all([turn])
        0

        Raises: LedgerError; in this case, none of the turns is stored.
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
        expires_at: datetime | None = None,
    ) -> Outcome:
        """Deduplicate and store one memory; return what happened, and why.

        `memory` of the result is the live memory that now states the text: the new one, an older
        one that already states it, or a merge of both.
        `text`: the dates that `Memory.dated` adds are left out, since a bot may repeat them.
        `is_private`: whether to leave the memory out when the memories of all users are searched.
        `metadata`: values of your own to store with the memory. `at`: when it was said, with the
        speaker's offset (default: now). `external_id`: your own identifier for the memory.
        `expires_at`: from when it is no longer found (default: never).

        >>> outcome = await chat.remember("Ann has a cat.", user="Ann")
        >>> outcome.action.value
        'add'

        Raises: InputError if a value is not valid; LedgerError.
        """
        self._check_open()
        new = Memory(
            id=self._store.new_id(),
            external_id=external_id,
            content=undated(text),
            user=user,
            is_private=is_private,
            timestamp=at or self._store.now(),
            expires_at=expires_at,
            metadata=dict(metadata or {}),
        )
        done = await self._loop.run(self._deduplicator.check_and_merge_all([new]))
        self._loop.soon(partial(self._pages.wrote, done))
        return done[0]

    async def recall(
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
    ) -> list[Recalled]:
        """Return the `k` memories that answer `text` best, best first, each with its score.

        Of memories that state the same, one is returned, and its `also` holds the others.

        Search either the memories of `user`, a name or several whose memories are ranked together,
        or, with `everyone=True`, the public memories of all users; `private=True` adds their
        private ones. `min_score`: leave out memories with a lower score.

        Only memories are returned that have this `category`, all these `tags` and these values in
        their `metadata`, and that were said at `since` or later, and before `until`.
        `include_superseded`: also those that no longer hold, with their own `until`; None: if the
        text asks about the past, those among the best. `as_of`: only what had been said by then and
        still held.

        >>> outcome = await chat.remember("Bob has a dog.", user="Bob")
        >>> [found.content for found in await chat.recall("Which pet?", user="Bob")]
        ['Bob has a dog.']

        Raises: InputError if both `user` and `everyone` are given, or neither, or a value is not
        valid; EmbeddingError; LedgerError.
        """
        self._check_open()
        if (user is None) is not everyone:
            problem = "takes user or everyone, not both" if everyone else "needs a user"
            raise InputError("recall", problem, "give user=NAME, or everyone=True")
        users = None if user is None or isinstance(user, str) else frozenset(map(clean, user))
        wanted = Wanted(users, category, frozenset(tags), metadata or {}, since, until)
        scope = (
            Scope.of_user(user)
            if isinstance(user, str)
            else Scope.of_all(private=private or users is not None)
        )
        if until is not None:
            restating = await in_thread(self._store.restating, scope, wanted.in_time)
            wanted = replace(wanted, restating=restating)
        found = await in_thread(
            self._store.search,
            text,
            k,
            scope=scope,
            min_score=min_score,
            where=wanted if wanted != Wanted() else None,
            include_superseded=include_superseded,
            as_of=as_of,
        )
        return [
            Recalled.model_construct(
                **dict(hit.memory), score=hit.score, also=hit.also, newer=hit.newer, until=hit.until
            )
            for hit in found
        ]

    async def exchange(
        self,
        text: str,
        *,
        user: str,
        conversation: str = "default",
        k: int = 5,
        at: datetime | None = None,
        turn_id: str | None = None,
    ) -> list[Recalled]:
        """Recall memories for a turn of a user, then hear the turn; return the `k` best memories.

        `at`: when it was said, with the speaker's offset (default: now). `turn_id`: your own
        identifier for the turn.

        >>> outcome = await chat.remember("Kim has a cat.", user="Kim")
        >>> [found.content for found in await chat.exchange("Which pet do I have?", user="Kim")]
        ['Kim has a cat.']

        Raises: InputError if a value is not valid; EmbeddingError; LedgerError.
        """
        found = await self.recall(text, user=user, k=k)
        turn = Turn(
            speaker=user,
            text=text,
            at=at or self._store.now(),
            conversation=conversation,
            id=turn_id,
            recalled_ids=tuple(one.id for one in found),
        )
        await self.hear(turn)
        return found

    async def update(self, memory_id: str, text: str, *, part: str | None = None) -> Memory:
        """Change the text of a memory, which keeps its id; return the memory.

        `part`: the words of the memory that `text` replaces, as they stand there; they must stand
        there once. None: the whole text, and what the new one leaves out is no longer recalled. The
        former text is kept as a retired memory. `undo` brings it back.

        >>> outcome = await chat.remember("Cat lives in Porto.", user="Cat")
        >>> changed = await chat.update(outcome.memory.id, "Faro", part="Porto")
        >>> changed.content
        'Cat lives in Faro.'

        Raises: MemoryNotFound; InputError if the text is empty or too long, or `part` does not
        stand in it exactly once; LedgerError.
        """
        self._check_open()
        await in_thread(self._store.update, memory_id, undated(text), part=part and undated(part))
        changed = await in_thread(self._store.get, memory_id)
        if changed is None:  # another process retired it meanwhile
            raise MemoryNotFound(memory_id)
        return changed

    async def history(self, memory_id: str | None = None) -> Sequence[DecisionRecord]:
        """Return the decisions about a memory, oldest first; None: all but plain additions.

        >>> outcome = await chat.remember("Gus rows.", user="Gus")
        >>> [record.number == outcome.number for record in await chat.history(outcome.memory.id)]
        [True]

        Raises: MemoryNotFound if there never was such a memory.
        """
        self._check_open()
        return await in_thread(self._store.history, memory_id)

    async def undo(self, target: int | str) -> Sequence[DecisionRecord]:
        """Undo a decision, given by its number, or a whole run, given by its name.

        The id of a memory stands for the latest decision about it that can be undone.

        Return the undone decisions, newest first. Memories that are parted here are never joined
        again by rules or a model.

        >>> first = await chat.remember("Hal has a cat.", user="Hal")
        >>> second = await chat.remember("hal has a cat", user="Hal")  # replaces the first
        >>> undone = await chat.undo(second.number)
        >>> len(await chat.list(user="Hal"))
        2

        Raises: CannotUndo if a later decision builds on it; LedgerError.
        """
        self._check_open()
        return await in_thread(self._store.undo, target)

    async def clean(self, *, dry_run: bool = False) -> DeduplicationReport:
        """Find all near-copies in the store and join them; return a report.

        `dry_run`: only report what would be done; nothing changes, and no model is asked.

        >>> report = await chat.clean(dry_run=True)
        >>> report.retired
        0

        Raises: LedgerError.
        """
        self._check_open()
        return await self._loop.run(self._deduplicator.deduplicate_all(dry_run))

    async def settle(self, on_progress: Progress | None = None) -> ExtractionResult:
        """Wait until all turns heard so far are extracted and their memories read on pages.

        Return earlier if the model fails.

        Return what was extracted since the last call of this method. `on_progress` is called with
        the number of turns that are extracted and the number of all turns.

        >>> found = await chat.exchange("I live in Porto.", user="Lea")
        >>> result = await chat.settle()
        >>> await chat.waiting()
        0

        Raises: LedgerError.
        """
        self._check_open()
        result = await self._loop.run(self._background.settle(on_progress))
        await self._loop.run(self._pages.settle())
        return result

    async def waiting(self) -> int:
        """Return how many turns wait for extraction.

        >>> result = await chat.settle()
        >>> await chat.waiting()
        0
        """
        self._check_open()
        return await self._extractor.count_waiting()

    async def forget(self, memory_id: str, *, lineage: bool = False) -> Forgotten:
        """Erase a memory and the memories it was made from, permanently; return what was erased.

        `lineage`: also the memories that it superseded, which otherwise stay retired.

        >>> outcome = await chat.remember("Dan lives in Porto.", user="Dan")
        >>> forgotten = await chat.forget(outcome.memory.id)
        >>> await chat.list(user="Dan")
        []

        Raises: MemoryNotFound; StillStatedBy if another live memory contains the erased text;
        LedgerError.
        """
        self._check_open()
        return await in_thread(self._store.forget, memory_id, lineage=lineage)

    async def matching(self, description: str, *, user: str) -> Sequence[Memory]:
        """Return the memories of a user that a description names, such as "Mia's phone number".

        It says which memories `forget` would have to erase; look at them first. A name, an e-mail
        address or a number of six or more digits in the description must be in each of them.
        Superseded memories are among them. Turns that wait are not: call `settle` first.

        >>> outcome = await chat.remember("Eve's phone number is 5550100.", user="Eve")
        >>> [found.content for found in await chat.matching("Eve's phone number", user="Eve")]
        ["Eve's phone number is 5550100."]

        Raises: InputError if the description or the user is empty; LedgerError.
        """
        self._check_open()
        return await in_thread(self._described, user, description)

    def _described(self, user: str, description: str) -> Sequence[Memory]:
        with self._store.ledger.reading(self._store.clock()) as reader:
            return described(reader, user, description)

    async def forget_user(self, user: str) -> ForgottenUser:
        """Erase all memories of a user, and their turns that are not extracted yet, permanently.

        Return how many live memories were erased, and whether copies remain that a person must
        delete.

        >>> outcome = await chat.remember("Fay rows.", user="Fay")
        >>> forgotten = await chat.forget_user("Fay")
        >>> forgotten.memories
        1

        Raises: LedgerError if not everything could be erased. Then call this method again.
        """
        self._check_open()
        return await in_thread(
            forget_user, self._store.ledger, self._store.index, user, self._store.clock()
        )

    async def close(self) -> None:
        """Stop extracting and reading pages, and close. Turns wait for the next start."""
        await in_thread(self._close)

    def _close(self) -> None:
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._loop.start(self._background.stop()).result()
            self._loop.start(self._pages.stop()).result()
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
        """Return the live memories of a user, newest first, at most `limit` (None: all).

        >>> outcome = await chat.remember("Ian rows.", user="Ian")
        >>> [found.content for found in await chat.list(user="Ian")]
        ['Ian rows.']

        Raises: LedgerError.
        """
        self._check_open()
        return await in_thread(self._newest, user, limit)

    def _newest(self, user: str, limit: int | None) -> Sequence[Memory]:
        with self._store.ledger.reading(self._store.clock()) as reader:
            return [row.memory for row in reader.memories.newest(limit, Scope.of_user(user))]

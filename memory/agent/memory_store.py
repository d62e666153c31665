"""The agent's async face of the store: a guard before each save, two-way links, clean deletion."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from pydantic import ValidationError

from memory.agent.saving import (
    Distances,
    Saved,
    check_one_owner,
    live_pair,
    merge,
    save_correction,
    save_guarded,
)
from memory.decide import NearCopies, near_copies
from memory.errors import InputError, MemoryNotFound
from memory.ledger import Reader, Writer, take_snapshot
from memory.models import (
    Episode,
    LinkType,
    Memory,
    MemoryLink,
    Scope,
    SearchResult,
    as_tuple,
    first_problem,
)
from memory.runtime import in_thread
from memory.store import NOBODY, Forgotten
from memory.store import MemoryStore as CoreStore
from memory.text import clean

logger = logging.getLogger(__name__)

MemorySearchResult = SearchResult
"""`memory`, `similarity` and `distance`, under the name that an agent's code knows."""
OnSaved = Callable[[Memory], object]
Named = TypeVar("Named")
Guarded = tuple[Memory | None, int, list[MemorySearchResult], MemorySearchResult | None]
"""The saved memory or None, links made, the linked memories, the one that it repeats or None."""


class MemoryStore:
    """Memories of one user, or with `user` None of everyone.

    `observers` hear of each memory that was really saved, after it was.
    """

    def __init__(
        self, store: CoreStore, *, user: str | None = None, observers: Sequence[OnSaved] = ()
    ) -> None:
        self._store = store
        self._observers = tuple(observers)
        self.user = clean(user) if user is not None else None

    def now(self) -> datetime:
        return self._store.clock()

    # --- saving ---

    async def save_with_auto_link(
        self,
        content: str,
        *,
        replaces: str | None = None,
        link_threshold: float = 0.3,
        max_links: int = 5,
        dedup_threshold: float = 0.05,
        **fields: object,
    ) -> Guarded:
        """As `save`, in the form that an agent's code knows."""
        distances = Distances(dedup_threshold, link_threshold, max_links)
        saved = await self.save(content, distances, replaces=replaces, **fields)
        related = list(saved.related)
        return saved.memory, len(related), related, saved.duplicate_of

    async def save(
        self, content: str, distances: Distances, *, replaces: str | None = None, **fields: object
    ) -> Saved:
        """Save a memory and link it, both ways, with those that are near; `fields` are a memory's.

        Where one in its scope is nearer than the guard's distance, nothing is written and that one
        is named. With `replaces` nothing blocks: the memory of that id is retired in favour of
        this one, which takes its links and tags, and the higher importance.

        Raises: InputError, MemoryNotFound.
        """
        memory = self._new_memory(content, fields)

        def write() -> Saved:
            if replaces is None:
                return save_guarded(self._store, memory, distances)
            return save_correction(self._store, memory, self._visible(replaces), distances)

        saved = await in_thread(write)
        if saved.memory is not None:
            self._tell(saved.memory)
        return saved

    def _new_memory(self, content: str, fields: dict[str, object]) -> Memory:
        user = self._own_user(fields.get("user"))
        fresh = {"id": self._store.new_id(), "timestamp": self._store.clock(), "category": "daily"}
        given = {**fields, "user": user, "tags": as_tuple(fields.get("tags", ()))}
        try:
            return Memory.model_validate({"content": content, **fresh, **given})
        except ValidationError as exc:
            raise InputError("memory", str(first_problem(exc))) from exc

    def _tell(self, memory: Memory) -> None:
        """An observer that fails takes nothing back, and no other observer's turn."""
        for on_saved in self._observers:
            try:
                on_saved(memory)
            except Exception as exc:  # whatever a host hangs here
                logger.warning("an observer of saves failed: %s", type(exc).__name__)

    # --- reading ---

    async def get_by_id(self, memory_id: str) -> Memory | None:
        return await in_thread(self._known, memory_id)

    async def search(
        self,
        content: str,
        n_results: int = 3,
        *,
        emotion: str | None = None,
        category: str | None = None,
        date_from: datetime | None = None,
        date_to: datetime | None = None,
        user: str | None = None,
    ) -> list[MemorySearchResult]:
        """The nearest memories, nearest first, of those that pass the filters.

        Raises: InputError where another user's are asked for than may be seen.
        """
        wanted = {"emotion": emotion, "category": category, "user": self._own_user(user)}
        given = tuple((name, value) for name, value in wanted.items() if value is not None)

        def look() -> list[MemorySearchResult]:
            return self._within(content, n_results, Scope(given), date_from, date_to)

        return await in_thread(look)

    def _within(
        self, content: str, n: int, scope: Scope, first: datetime | None, last: datetime | None
    ) -> list[MemorySearchResult]:
        """Times are no part of the index, so more and more are asked for until enough are left."""
        k = n
        while True:
            found = self._store.search(content, k, scope=scope)
            fits = [
                hit
                for hit in found
                if (first is None or hit.memory.timestamp >= first)
                and (last is None or hit.memory.timestamp <= last)
            ]
            if len(fits) >= n or len(found) < k:
                return fits[:n]
            k *= 4

    async def list_recent(self, limit: int = 10, *, since: datetime | None = None) -> list[Memory]:
        """The memories that were recorded last, newest first."""

        def look() -> list[Memory]:
            with self._store.ledger.reading() as reader:
                rows = reader.memories.newest(limit, self._own_scope(), since)
            return [row.memory for row in rows]

        return await in_thread(look)

    async def still_open(self) -> list[str]:
        """What the store could not decide for want of a model, and turns that wait to be read."""

        def look() -> list[str]:
            with self._store.ledger.reading() as reader:
                pending = reader.decisions.pending()
                # Turns of others are nothing to know of.
                turns = reader.turns.count_waiting() if self.user is None else 0
                rows = reader.memories.rows([name for one in pending for name in one.members])
            mine = {name for name, row in rows.items() if row.live and self._is_own(row.memory)}
            known = (one for one in pending if mine >= set(one.members))
            questions = [f"Are {' and '.join(one.members)} the same?" for one in known]
            return questions + ([f"{turns} turns of talk wait to be read."] if turns else [])

        return await in_thread(look)

    async def recent_near_copies(
        self, limit: int, since: datetime, threshold: float
    ) -> tuple[list[Memory], list[NearCopies]]:
        """The memories recorded last, newest first, and which of them are near-copies of others.

        Pairs are at a distance below `threshold`, closest first, of one scope, and not known to be
        distinct; all as of one moment.
        """

        def look() -> tuple[list[Memory], list[NearCopies]]:
            with self._store.ledger.reading() as reader:
                recent = reader.memories.newest(limit, self._own_scope(), since)
                distinct = NOBODY.distinct(reader, self._store.scope_fields)
                snapshot = take_snapshot(reader, distinct)
            names = {row.memory.id for row in recent}
            pairs = near_copies(
                snapshot, names, self._store.scope_of, 1.0 - threshold, self._store.scale
            )
            return [row.memory for row in recent], pairs

        return await in_thread(look)

    # --- changing ---

    async def delete(self, memory_id: str) -> Memory | None:
        """Forget a memory for good, with its links on both sides; None for an unknown id.

        Raises: StillStatedBy.
        """
        found = await self.forget(memory_id)
        return found.memory if found else None

    async def forget(self, memory_id: str) -> Forgotten | None:
        """As `delete`, with all that went, and whether it is erased everywhere.

        Raises: StillStatedBy.
        """

        def erase() -> Forgotten | None:
            with self._store.ledger.reading() as reader:
                row = reader.memories.row(memory_id)
            if row is None or not self._is_own(row.memory):
                return None
            try:
                return self._store.forget(memory_id)
            except MemoryNotFound:  # it is a tombstone
                return None

        return await in_thread(erase)

    async def merge(
        self, keep_id: str, remove_id: str, content: str | None = None
    ) -> tuple[Memory, int]:
        """Retire one in favour of the other; the one that stays, and the decision's number.

        Raises: MemoryNotFound, InputError.
        """

        def join() -> tuple[Memory, int]:
            while True:
                with self._store.ledger.reading() as reader:
                    keep, remove = self._visible_pair(reader, keep_id, remove_id)
                    revision = reader.revision()
                done = merge(self._store, keep, remove, content, revision)
                if done is not None:
                    return done.memory, done.number

        return await in_thread(join)

    async def link_memories(
        self,
        source_id: str,
        target_id: str,
        link_type: LinkType = "related",
        note: str = "",
        *,
        replace: bool = True,
    ) -> bool:
        """Link two memories both ways; whether they were not linked before.

        A link that is there keeps its confidence, and with `replace` takes the new type and note.

        Raises: MemoryNotFound, InputError.
        """

        def link() -> bool:
            with self._store.ledger.writing() as writer:
                self._visible_pair(writer, source_id, target_id)
                known = writer.links.between(source_id, target_id)
                fresh = MemoryLink(target_id=target_id, link_type=link_type, note=note)
                if known is None:
                    writer.links.put(source_id, fresh)
                elif replace:
                    kept = fresh.model_copy(update={"confidence": known.confidence})
                    writer.links.put(source_id, kept)
            return known is None

        return await in_thread(link)

    async def bump_link_confidence(
        self, source_id: str, target_id: str, delta: float = 0.1
    ) -> bool:
        """Trust a link more, up to 1; False where there is none."""

        def trust() -> bool:
            with self._store.ledger.writing() as writer:
                rows = writer.memories.rows([source_id, target_id]).values()
                if not all(self._is_own(row.memory) for row in rows):
                    return False
                return _trust_more(writer, source_id, target_id, delta)

        return await in_thread(trust)

    async def replay(
        self, pairs: Sequence[tuple[str, str]], delta: float = 0.1
    ) -> dict[tuple[str, str], bool]:
        """Link the two of each pair and trust their link more, wholly or not at all.

        Gives the pairs of which both still live, and whether they were not linked before.
        Memories that nobody lives for any more leave their episodes.
        """

        def write() -> dict[tuple[str, str], bool]:
            with self._store.ledger.writing() as writer:
                alive = writer.memories.living_ids(name for pair in pairs for name in pair)
                fresh = {
                    (a, b): _replayed(writer, a, b, delta)
                    for a, b in pairs
                    if alive.get(a) == a and alive.get(b) == b
                }
                drop_forgotten(writer)
            return fresh

        return await in_thread(write)

    # --- episodes ---

    async def put_episode(
        self, memory_ids: Sequence[str], tell: Callable[[Sequence[Memory]], Episode]
    ) -> Episode:
        """Store the episode that is told of these memories, which live and are this agent's.

        Raises: MemoryNotFound, InputError.
        """

        def write() -> Episode:
            with self._store.ledger.writing() as writer:
                rows = writer.memories.rows(memory_ids)
                for name in memory_ids:
                    row = rows.get(name)
                    if row is None or not row.live or not self._is_own(row.memory):
                        raise MemoryNotFound(name)
                episode = tell([rows[name].memory for name in memory_ids])
                writer.episodes.put(episode)
            return episode

        return await in_thread(write)

    async def episode(self, episode_id: str) -> tuple[Episode, dict[str, str]] | None:
        """An episode as it was told, and who lives for its memories today, by their ids.

        None where there is none, where somebody else owns it, or where one of its memories is
        about another user today.
        """

        def look() -> tuple[Episode, dict[str, str]] | None:
            with self._store.ledger.reading() as reader:
                found = reader.episodes.get(episode_id)
                if found is None or self.user not in (None, found.user):
                    return None
                alive = reader.memories.living_ids(found.memory_ids)
                rows = reader.memories.rows([*dict.fromkeys(alive.values())])
            return (
                (found, alive) if all(self._is_own(row.memory) for row in rows.values()) else None
            )

        return await in_thread(look)

    # --- inside ---

    def _known(self, memory_id: str) -> Memory | None:
        """The live memory, if it is within reach of this agent."""
        memory = self._store.get(memory_id)
        return memory if memory is not None and self._is_own(memory) else None

    def _visible_pair(self, reader: Reader, a: str, b: str) -> tuple[Memory, Memory]:
        """Raises: MemoryNotFound, InputError."""
        pair = live_pair(reader, a, b, self._is_own)
        check_one_owner(*pair)
        return pair

    def _visible(self, memory_id: str) -> Memory:
        """Raises: MemoryNotFound, also for another user's: that it exists is theirs to know."""
        memory = self._known(memory_id)
        if memory is None:
            raise MemoryNotFound(memory_id)
        return memory

    def _is_own(self, memory: Memory) -> bool:
        return self.user is None or memory.user == self.user

    def _own_user(self, user: Named) -> Named | str | None:
        name = clean(user) if isinstance(user, str) else user
        if self.user is not None and name not in (None, self.user):
            raise InputError("user", f"{user!r} is another user", f"here is {self.user!r} only")
        return self.user if name is None else name

    def _own_scope(self) -> Scope:
        return Scope(()) if self.user is None else Scope.of_user(self.user)


def drop_forgotten(writer: Writer) -> int:
    """Take out of episodes the ids that nobody lives for any more; gives how many.

    Their summaries go too: without the ids, nothing finds what they tell of a forgotten memory.
    """
    dropped = 0
    for episode in writer.episodes.all():
        gone = set(episode.memory_ids) - writer.memories.living_ids(episode.memory_ids).keys()
        if gone:
            dropped += len(gone)
            writer.episodes.forget_summaries([episode.id])
            writer.episodes.drop_memories(episode.id, gone)
    return dropped


def _replayed(writer: Writer, a: str, b: str, delta: float) -> bool:
    known = writer.links.between(a, b)
    if known is None:
        writer.links.put(a, MemoryLink(target_id=b, link_type="related"))
    _trust_more(writer, a, b, delta)
    return known is None


def _trust_more(writer: Writer, a: str, b: str, delta: float) -> bool:
    known = writer.links.between(a, b)
    if known is not None:
        writer.links.trust(a, b, min(1.0, round(known.confidence + delta, 6)))
    return known is not None

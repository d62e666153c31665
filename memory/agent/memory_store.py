"""The agent's async face of the store: a guard before each save, two-way links, clean deletion."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime

from pydantic import ValidationError

from memory.decide import inherit, oldest_first
from memory.errors import InputError, MemoryNotFound
from memory.models import (
    Action,
    Decision,
    Embedded,
    Episode,
    LinkType,
    Memory,
    MemoryLink,
    Scope,
    SearchResult,
    Survivor,
)
from memory.store import Forgotten, Neighbours
from memory.store import MemoryStore as CoreStore
from memory.text import text_key
from memory.threads import in_thread

logger = logging.getLogger(__name__)

MemorySearchResult = SearchResult
"""`memory`, `similarity` and `distance`, under the name that an agent's code knows."""
OnSaved = Callable[[Memory], object]
Guarded = tuple[Memory | None, int, list[MemorySearchResult], MemorySearchResult | None]
"""The saved memory or None, links made, the linked memories, the one that it repeats or None."""

FORCE = 0.0
"""As `dedup_threshold`: no distance is below it, so nothing is blocked."""
_ROUNDS = 5
"""How often a save looks again where others save something alike at the same moment."""


class MemoryStore:
    """Memories of one user, or with `user` None of everyone.

    `observers` hear of each memory that was really saved, after it was.
    """

    def __init__(
        self, store: CoreStore, *, user: str | None = None, observers: Sequence[OnSaved] = ()
    ) -> None:
        self._store = store
        self._observers = tuple(observers)
        self.user = user

    def now(self) -> datetime:
        return self._store.clock()

    # --- saving ---

    async def save_with_auto_link(
        self,
        content: str,
        *,
        emotion: str = "neutral",
        importance: int = 3,
        category: str = "daily",
        intensity: float = 0.5,
        tags: Sequence[str] = (),
        is_private: bool = False,
        user: str | None = None,
        replaces: str | None = None,
        link_threshold: float = 0.3,
        max_links: int = 5,
        dedup_threshold: float = 0.05,
    ) -> Guarded:
        """Save a memory and link it, both ways, with those at a distance below `link_threshold`.

        Where one in its scope is at a distance below `dedup_threshold`, nothing is written and
        that one is given back. With `replaces` nothing blocks: the memory of that id is retired
        in favour of this one, which takes its links and tags, and the higher importance.

        Raises: InputError, MemoryNotFound.
        """
        memory = self._new_memory(
            content,
            user=self._own_user(user),
            emotion=emotion,
            importance=importance,
            category=category,
            intensity=intensity,
            tags=tuple(tags),
            is_private=is_private,
        )
        save = self._guarded if replaces is None else self._replacing(replaces)
        result = await in_thread(save, memory, link_threshold, max_links, dedup_threshold)
        if result[0] is not None:
            self._tell(result[0])
        return result

    def _new_memory(self, content: str, **fields: object) -> Memory:
        fresh = {"id": self._store.new_id(), "timestamp": self._store.clock()}
        try:
            return Memory.model_validate({"content": content, **fresh, **fields})
        except ValidationError as exc:
            error = exc.errors()[0]
            problem = error["msg"].removeprefix("Value error, ")
            where = ".".join(str(part) for part in error["loc"])
            told = problem if problem.startswith(where) else f"{where}: {problem}"
            raise InputError("memory", told) from exc

    def _guarded(
        self, memory: Memory, link_threshold: float, max_links: int, dedup_threshold: float
    ) -> Guarded:
        [new] = self._store.embed([memory])
        floor = 1.0 - max(link_threshold, dedup_threshold)
        for attempt in range(_ROUNDS):
            found = self._store.find(new, max(max_links, 1), floor)
            nearest = found.matches[0] if found.matches else None
            if nearest is not None and nearest.distance < dedup_threshold:
                return None, 0, [], nearest
            near = _near(found, link_threshold, max_links)
            forced = dedup_threshold <= FORCE or attempt == _ROUNDS - 1
            decision = _addition(_linked(memory, near), found)
            blocking = None if forced else 1.0 - dedup_threshold
            arrival = Embedded(decision.members[0], new.vector)
            if not self._store.apply(
                decision, since=found.revision, arrival=arrival, floor=blocking
            ):
                break
        return self._saved(memory), len(near), near, None

    def _replacing(self, old_id: str) -> Callable[[Memory, float, int, float], Guarded]:
        def save(memory: Memory, link_threshold: float, max_links: int, _guard: float) -> Guarded:
            old = self._correctable(old_id, memory)
            [new] = self._store.embed([memory])
            found = self._store.find(new, max_links + 1, 1.0 - link_threshold)
            near = _near(found, link_threshold, max_links, without=old_id)
            linked = inherit(_linked(memory, near), (old, memory))
            decision = _correction(old, linked, found)
            arrival = Embedded(linked, new.vector)
            moved = self._store.apply(decision, since=found.revision, arrival=arrival)
            if moved:
                raise InputError(old_id, moved, "look at it again with recall")
            return self._saved(memory), len(near), near, None

        return save

    def _correctable(self, old_id: str, memory: Memory) -> Memory:
        old = self._visible(old_id)
        if self._store.scope_of(old) != self._store.scope_of(memory):
            raise InputError(old_id, "is of another scope", "give the same user and is_private")
        return old

    def _saved(self, memory: Memory) -> Memory:
        return self._store.get(memory.id) or memory

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
    ) -> list[MemorySearchResult]:
        """The nearest memories, nearest first, of those that pass the filters."""
        wanted = {"emotion": emotion, "category": category, "user": self.user}
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

    async def near_copies(self, memory: Memory, n_results: int) -> list[MemorySearchResult]:
        """The nearest of its scope, itself and those kept apart by a person left out."""

        def look() -> list[MemorySearchResult]:
            [known] = self._store.embed([memory])
            found = self._store.find(known, n_results, -1.0).matches
            if not self._store.kept_twice(memory):
                return list(found)
            same = text_key(memory.content)
            return [hit for hit in found if text_key(hit.memory.content) != same]

        return await in_thread(look)

    async def list_recent(self, limit: int = 10, *, since: datetime | None = None) -> list[Memory]:
        """The memories that were recorded last, newest first."""
        return await in_thread(self._store.newest, limit, self._own_scope(), since)

    async def still_open(self) -> list[str]:
        """What the store could not decide for want of a model, and turns that wait to be read."""

        def look() -> list[str]:
            with self._store.ledger.reading() as reader:
                pending = reader.pending_decisions()
                turns = reader.counts().turns
            known = (one for one in pending if all(map(self._known, one.members)))
            questions = [f"Are {' and '.join(one.members)} the same?" for one in known]
            return questions + ([f"{turns} turns of talk wait to be read."] if turns else [])

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
                row = reader.row(memory_id)
            if row is None:
                return None
            self._check_own(row.memory)
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
            self._visible(keep_id)
            self._visible(remove_id)
            kept = self._store.merge(keep_id, remove_id, content)
            return kept, self._last_decision(keep_id)

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
            self._visible(source_id)
            self._visible(target_id)
            return self._store.link(source_id, target_id, link_type, note, replace=replace)

        return await in_thread(link)

    async def bump_link_confidence(
        self, source_id: str, target_id: str, delta: float = 0.1
    ) -> bool:
        """Trust a link more, up to 1; False where there is none."""
        return await in_thread(self._store.bump_confidence, source_id, target_id, delta)

    async def number_of_last_decision(self, memory_id: str) -> int:
        """What `memory-dedup undo` takes."""
        return await in_thread(self._last_decision, memory_id)

    def _last_decision(self, memory_id: str) -> int:
        reversible = (Action.MERGE, Action.REPLACE)
        decided = [one for one in self._store.history(memory_id) if one.action in reversible]
        return decided[-1].number

    # --- episodes ---

    async def put_episode(self, episode: Episode) -> None:
        await in_thread(self._store.put_episode, episode)

    async def episode(self, episode_id: str) -> tuple[Episode, tuple[str, ...]] | None:
        """An episode as it was told, and the live memories it is about today."""

        def look() -> tuple[Episode, tuple[str, ...]] | None:
            found = self._store.episode(episode_id)
            if found is None:
                return None
            for memory_id in found[1]:
                self._visible(memory_id)
            return found

        return await in_thread(look)

    async def count_living(self, memory_ids: Sequence[str]) -> int:
        """Of how many of these ids a memory lives today, under this id or another one."""

        def look() -> int:
            with self._store.ledger.reading() as reader:
                return len(reader.living_ids(memory_ids))

        return await in_thread(look)

    async def drop_forgotten_from_episodes(self) -> int:
        return await in_thread(self._store.drop_forgotten_from_episodes)

    # --- inside ---

    def _known(self, memory_id: str) -> Memory | None:
        """The live memory, if it is within reach of this agent."""
        memory = self._store.get(memory_id)
        return memory if memory is not None and self._is_own(memory) else None

    def _visible(self, memory_id: str) -> Memory:
        """Raises: MemoryNotFound, InputError where it is about another user."""
        memory = self._store.get(memory_id)
        if memory is None:
            raise MemoryNotFound(memory_id)
        self._check_own(memory)
        return memory

    def _check_own(self, memory: Memory) -> None:
        if not self._is_own(memory):
            raise InputError(memory.id, "is about another user", f"here is {self.user!r} only")

    def _is_own(self, memory: Memory) -> bool:
        return self.user is None or memory.user == self.user

    def _own_user(self, user: str | None) -> str | None:
        if self.user is not None and user not in (None, self.user):
            raise InputError("user", f"{user!r} is another user", f"here is {self.user!r} only")
        return self.user if user is None else user

    def _own_scope(self) -> Scope:
        return Scope(()) if self.user is None else Scope((("user", self.user),))


def _near(
    found: Neighbours, threshold: float, limit: int, without: str | None = None
) -> list[MemorySearchResult]:
    near = [hit for hit in found.matches if hit.distance < threshold and hit.memory.id != without]
    return near[:limit]


def _linked(memory: Memory, near: Sequence[SearchResult]) -> Memory:
    links = tuple(MemoryLink(target_id=hit.memory.id, link_type="similar") for hit in near)
    return memory.model_copy(update={"linked_ids": links})


def _addition(memory: Memory, found: Neighbours) -> Decision:
    nearest = found.matches[0].similarity if found.matches else None
    reason = "told by the agent"
    return Decision(
        Action.ADD, reason, (memory,), similarity=nearest, candidates=_candidates(found)
    )


def _correction(old: Memory, new: Memory, found: Neighbours) -> Decision:
    heir = Survivor(new, (old.id,))
    similarity = next((hit.similarity for hit in found.matches if hit.memory.id == old.id), None)
    return Decision(
        Action.REPLACE,
        "corrected by the agent",
        oldest_first(old, new),
        (heir,),
        similarity=similarity,
        candidates=_candidates(found),
    )


def _candidates(found: Neighbours) -> tuple[tuple[str, float], ...]:
    return tuple((hit.memory.id, hit.similarity) for hit in found.matches)

"""The agent's async store: a guard before each save, two-way links, episodes, clean deletion."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from pydantic import ValidationError

from memory.agent.saving import (
    ONE_SCOPE,
    Distances,
    Saved,
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
P = ParamSpec("P")
T = TypeVar("T")
User = TypeVar("User")
Guarded = tuple[Memory | None, int, list[MemorySearchResult], MemorySearchResult | None]
"""The saved memory or None, links made, the linked memories, the one that it repeats or None."""


def _threaded(
    method: Callable[Concatenate[MemoryStore, P], T],
) -> Callable[Concatenate[MemoryStore, P], Coroutine[Any, Any, T]]:
    """Make a method async: it runs in a thread, since the store below waits for its database."""

    @wraps(method)
    async def call(self: MemoryStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await in_thread(method, self, *args, **kwargs)

    return call


class EpisodeView(NamedTuple):
    """An episode with the ids of memories that live today, and how many are gone."""

    episode: Episode
    gone: int


class MemoryStore:
    """Memories of one user, or with `user` None of everyone.

    `observers` are called with each memory that was really saved, after it was.
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
        """Save as `save` does, and return what an agent's code expects."""
        distances = Distances(dedup_threshold, link_threshold, max_links)
        saved = await self.save(content, distances, replaces=replaces, **fields)
        related = list(saved.related)
        return saved.memory, len(related), related, saved.duplicate_of

    async def save(
        self, content: str, distances: Distances, *, replaces: str | None = None, **fields: object
    ) -> Saved:
        """Save a memory of these `fields` and link it, both ways, with those that are near.

        If one of its scope is nearer than the guard's distance, nothing is written, and the answer
        names that one. With `replaces` nothing blocks: the memory of that id is retired in favour
        of this one, which takes its links and tags, and the higher importance.

        Raises: InputError, MemoryNotFound.
        """
        memory = self._new_memory(content, fields)
        saved = await self._write(memory, distances, replaces)
        if saved.memory is None:
            return saved
        for on_saved in self._observers:
            try:
                on_saved(saved.memory)
            except Exception as exc:  # a host's own code may raise anything; the save stands
                logger.warning("an observer of saves failed: %s", type(exc).__name__)
        return saved

    @_threaded
    def _write(self, memory: Memory, distances: Distances, replaces: str | None) -> Saved:
        if replaces is None:
            return save_guarded(self._store, memory, distances)
        old = self._own(replaces)
        if old is None:  # another user's memory too: only its owner may know that it exists
            raise MemoryNotFound(replaces)
        return save_correction(self._store, memory, old, distances)

    def _new_memory(self, content: str, fields: dict[str, object]) -> Memory:
        user = self._own_user(fields.get("user"))
        fresh = {"id": self._store.new_id(), "timestamp": self._store.clock(), "category": "daily"}
        given = {**fields, "user": user, "tags": as_tuple(fields.get("tags", ()))}
        try:
            return Memory.model_validate({"content": content, **fresh, **given})
        except ValidationError as exc:
            raise InputError("memory", str(first_problem(exc))) from exc

    # --- reading ---

    @_threaded
    def get_by_id(self, memory_id: str) -> Memory | None:
        return self._own(memory_id)

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
        """Return the nearest memories that pass the filters, nearest first.

        Raises: InputError for memories of a user whom this agent does not serve.
        """
        wanted = {"emotion": emotion, "category": category, "user": self._own_user(user)}
        scope = Scope(tuple((name, value) for name, value in wanted.items() if value is not None))
        return await self._within(content, n_results, scope, date_from, date_to)

    @_threaded
    def _within(
        self, content: str, n: int, scope: Scope, first: datetime | None, last: datetime | None
    ) -> list[MemorySearchResult]:
        """Search again for more until enough fit the times, which no index knows."""
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

    @_threaded
    def list_recent(self, limit: int = 10) -> list[Memory]:
        """Return the memories that were recorded last, newest first."""
        with self._store.ledger.reading() as reader:
            rows = reader.memories.newest(limit, self._own_scope(), None)
        return [row.memory for row in rows]

    @_threaded
    def still_open(self) -> list[str]:
        """Return what waits for a model: pairs to judge, and turns to read."""
        with self._store.ledger.reading() as reader:
            pending = reader.decisions.pending()
            # An agent of one user must not learn how many turns of others wait.
            turns = reader.turns.count_waiting() if self.user is None else 0
            rows = reader.memories.rows([name for question in pending for name in question.members])
        mine = {name for name, row in rows.items() if row.live and self._is_own(row.memory)}
        known = (question for question in pending if mine >= set(question.members))
        questions = [f"Are {' and '.join(question.members)} the same?" for question in known]
        return questions + ([f"{turns} turns of talk wait to be read."] if turns else [])

    @_threaded
    def recent_near_copies(
        self, limit: int, since: datetime, threshold: float
    ) -> tuple[list[Memory], list[NearCopies]]:
        """Return the memories recorded last, newest first, and the near-copies among them.

        Pairs are at a distance below `threshold`, closest first, of one scope, and not known to be
        distinct; all as of one moment.
        """
        with self._store.ledger.reading() as reader:
            recent = reader.memories.newest(limit, self._own_scope(), since)
            distinct = NOBODY.distinct(reader, self._store.scope_fields)
            snapshot = take_snapshot(reader, distinct)
        names = {row.memory.id for row in recent}
        scope_of, scale = self._store.scope_of, self._store.scale
        pairs = near_copies(snapshot, names, scope_of, 1.0 - threshold, scale)
        return [row.memory for row in recent], pairs

    # --- changing ---

    async def delete(self, memory_id: str) -> Memory | None:
        """Forget a memory for good, with its links on both sides; None for an unknown id.

        Raises: StillStatedBy.
        """
        found = await self.forget(memory_id)
        return found.memory if found else None

    @_threaded
    def forget(self, memory_id: str) -> Forgotten | None:
        """Forget as `delete` does; return all that was erased, and whether it is everywhere.

        Raises: StillStatedBy.
        """
        with self._store.ledger.reading() as reader:
            row = reader.memories.row(memory_id)
        if row is None or not self._is_own(row.memory):
            return None
        try:
            return self._store.forget(memory_id)
        except MemoryNotFound:  # it is a tombstone
            return None

    @_threaded
    def merge(self, keep_id: str, remove_id: str, content: str | None = None) -> tuple[Memory, int]:
        """Retire one in favour of the other; return the one that stays and the decision's number.

        Raises: MemoryNotFound, InputError.
        """
        while True:
            with self._store.ledger.reading() as reader:
                keep, remove = self._own_pair(reader, keep_id, remove_id)
                revision = reader.revision()
            done = merge(self._store, keep, remove, content, revision)
            if done is not None:
                return done.memory, done.number

    @_threaded
    def link_memories(
        self,
        source_id: str,
        target_id: str,
        link_type: LinkType = "related",
        note: str = "",
    ) -> bool:
        """Link two memories both ways; return whether they were not linked before.

        A link that is there keeps its confidence, and takes the new type and note.

        Raises: MemoryNotFound, InputError.
        """
        with self._store.ledger.writing() as writer:
            self._own_pair(writer, source_id, target_id)
            known = writer.links.between(source_id, target_id)
            fresh = MemoryLink(target_id=target_id, link_type=link_type, note=note)
            if known is not None:
                fresh = fresh.model_copy(update={"confidence": known.confidence})
            writer.links.put(source_id, fresh)
        return known is None

    @_threaded
    def bump_link_confidence(self, source_id: str, target_id: str, delta: float = 0.1) -> bool:
        """Trust a link more, up to 1; False if there is none."""
        with self._store.ledger.writing() as writer:
            rows = writer.memories.rows([source_id, target_id]).values()
            if not all(self._is_own(row.memory) for row in rows):
                return False
            return _trust_more(writer, source_id, target_id, delta)

    @_threaded
    def replay(
        self, pairs: Sequence[tuple[str, str]], delta: float = 0.1
    ) -> dict[tuple[str, str], bool]:
        """Link the two of each pair and trust their link more, all in one transaction.

        Return the pairs of which both still live, and whether they were not linked before.
        Memories without a living successor leave their episodes.
        """
        with self._store.ledger.writing() as writer:
            alive = writer.memories.living_ids(name for pair in pairs for name in pair)
            fresh: dict[tuple[str, str], bool] = {}
            for a, b in pairs:
                if alive.get(a) != a or alive.get(b) != b:
                    continue
                fresh[a, b] = writer.links.between(a, b) is None
                if fresh[a, b]:
                    writer.links.put(a, MemoryLink(target_id=b, link_type="related"))
                _trust_more(writer, a, b, delta)
            for episode in writer.episodes.all():
                gone = (
                    set(episode.memory_ids) - writer.memories.living_ids(episode.memory_ids).keys()
                )
                if (
                    gone
                ):  # the summary may tell of them, and without their ids nothing would find it
                    writer.episodes.forget_summaries([episode.id])
                    writer.episodes.drop_memories(episode.id, gone)
        return fresh

    # --- episodes ---

    @_threaded
    def create_episode(
        self, memory_ids: Sequence[str], summary: str, importance: int = 3
    ) -> Episode:
        """Store an episode of these memories, over the time in which they were recorded.

        It belongs to the one user that all of them are about; otherwise to nobody, and only an
        agent that serves everyone can read it.

        Raises: MemoryNotFound, InputError.
        """
        with self._store.ledger.writing() as writer:
            memories = self._own_live(writer, list(dict.fromkeys(memory_ids)))
            users = {memory.user for memory in memories}
            try:
                episode = Episode(
                    user=users.pop() if len(users) == 1 else None,
                    summary=summary,
                    memory_ids=tuple(memory.id for memory in memories),
                    start_time=min(memory.timestamp for memory in memories),
                    end_time=max(memory.timestamp for memory in memories),
                    importance=importance,
                )
            except ValidationError as exc:
                raise InputError("create_episode", str(first_problem(exc))) from exc
            writer.episodes.put(episode)
        return episode

    @_threaded
    def get_episode(self, episode_id: str) -> EpisodeView | None:
        """Return an episode as it is today.

        A memory that was merged into another counts as that other one. None if there is no such
        episode, if somebody else owns it, or if one of its memories is about another user today.
        """
        with self._store.ledger.reading() as reader:
            episode = reader.episodes.get(episode_id)
            if episode is None or self.user not in (None, episode.user):
                return None
            alive = reader.memories.living_ids(episode.memory_ids)
            today = tuple(dict.fromkeys(alive.values()))
            rows = reader.memories.rows(today)
        if not all(self._is_own(row.memory) for row in rows.values()):
            return None
        gone = len(episode.memory_ids) - len(alive)
        return EpisodeView(episode.model_copy(update={"memory_ids": today}), gone)

    # --- inside ---

    def _own(self, memory_id: str) -> Memory | None:
        """Return the live memory, if it is within reach of this agent."""
        memory = self._store.get(memory_id)
        return memory if memory is not None and self._is_own(memory) else None

    def _own_live(self, reader: Reader, ids: Sequence[str]) -> list[Memory]:
        """Return these memories. Raises: MemoryNotFound if one is retired or another user's."""
        rows = reader.memories.rows(ids)
        for name in ids:
            row = rows.get(name)
            if row is None or not row.live or not self._is_own(row.memory):
                raise MemoryNotFound(name)
        return [rows[name].memory for name in ids]

    def _own_pair(self, reader: Reader, a: str, b: str) -> tuple[Memory, Memory]:
        """Return two memories. Raises: MemoryNotFound, InputError if they may not be joined."""
        first, second = self._own_live(reader, [a, b])
        if a == b:
            raise InputError(a, "cannot be joined with itself", "give two ids")
        if Scope.of(first, ("user",)) != Scope.of(second, ("user",)):
            raise InputError(a, f"is of another scope than {b}", ONE_SCOPE)
        return first, second

    def _is_own(self, memory: Memory) -> bool:
        return self.user is None or memory.user == self.user

    def _own_user(self, user: User) -> User | str | None:
        name = clean(user) if isinstance(user, str) else user
        if self.user is not None and name not in (None, self.user):
            raise InputError("user", f"{user!r} is another user", f"here is {self.user!r} only")
        return self.user if name is None else name

    def _own_scope(self) -> Scope:
        return Scope(()) if self.user is None else Scope.of_user(self.user)


def _trust_more(writer: Writer, a: str, b: str, delta: float) -> bool:
    known = writer.links.between(a, b)
    if known is not None:
        writer.links.trust(a, b, min(1.0, round(known.confidence + delta, 6)))
    return known is not None

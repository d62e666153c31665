"""The agent's async store: save, search, link and delete memories; episodes; consolidation."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from functools import wraps
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, TypeVar

from pydantic import ValidationError

from memory import MemoryStore
from memory.agent.saving import ONE_SCOPE, Saved, SaveRules, decide_merge, save
from memory.agent.schemas import Linked, MergeCandidate, MergeProposal
from memory.assembly import (
    NOBODY,
    Conflict,
    Forgotten,
    NearCopies,
    Reader,
    near_copies,
    snapshot_of,
)
from memory.errors import InputError, MemoryNotFound
from memory.models import (
    Action,
    Condition,
    Decision,
    Episode,
    LinkType,
    Memory,
    MemoryLink,
    Outcome,
    Rules,
    Scope,
    SearchResult,
    Survivor,
    as_tuple,
    first_problem,
)
from memory.runtime import in_thread
from memory.text import clean, counted, undated

logger = logging.getLogger(__name__)

MemorySearchResult = SearchResult
OnSaved = Callable[[Memory], object]
Propose = Callable[[Scope], Awaitable[str | None]]
_SNIPPET = 100
_DEFAULT_WINDOW = 1_000
P = ParamSpec("P")
T = TypeVar("T")


_AS_NAMED: Mapping[str, str] = MappingProxyType({})


def _threaded(
    method: Callable[Concatenate[AgentMemory, P], T],
) -> Callable[Concatenate[AgentMemory, P], Coroutine[Any, Any, T]]:
    @wraps(method)
    async def call(self: AgentMemory, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await in_thread(method, self, *args, **kwargs)

    return call


class AgentMemory:
    """The memories that an agent may use: those of one user, or of everyone if `user` is None.

    `observers`: functions that are called with each newly saved memory. `rules`: the policy of all
    writes.
    """

    def __init__(
        self,
        store: MemoryStore,
        *,
        user: str | None = None,
        observers: Sequence[OnSaved] = (),
        rules: Rules | None = None,
    ) -> None:
        self._store = store
        self._rules = rules or Rules()
        self._observers = tuple(observers)
        self.user = clean(user) if user is not None else None
        self._scope = Scope(()) if self.user is None else Scope.of_user(self.user)

    def now(self) -> datetime:
        return self._store.now()

    def scope_of(self, memory: Memory) -> Scope:
        return self._store.scope_of(memory)

    # --- saving ---

    async def save_with_auto_link(
        self,
        content: str,
        *,
        link_threshold: float = 0.3,
        max_links: int = 5,
        dedup_threshold: float = 0.05,
        replaces: str | None = None,
        force: bool = False,
        **fields: object,
    ) -> tuple[Memory | None, int, list[MemorySearchResult], MemorySearchResult | None]:
        """Save a memory by the policy of all writes, and link it with similar memories.

        If a stored memory states all that the new one states, the save is refused and nothing is
        written. If the new memory states all that a stored one states, it replaces that one. No
        model is asked: where the policy would ask one, the memory is saved.

        `link_threshold`: stored memories are linked if `1 - cosine` is below this limit, at most
        `max_links` of them, the nearest first. `dedup_threshold`: only with `dedup_guard: false`, a
        stored memory blocks the save if `1 - similarity` is below this limit. `replaces`: the id of
        a stored memory that the new one corrects; it is retired. Such a save is never refused, nor
        is one with `force`. `fields`: further fields of `Memory`.

        Return four values:

        - the saved memory; None if the save was refused
        - the number of linked memories
        - the linked memories, nearest first
        - the stored memory that states the new one, if the save was refused; the retired memory, if
          the new one replaced it; otherwise None

        Raises: InputError if a field is not valid, or if the memory `replaces` has another scope;
        ChangedMeanwhile if another write changes it first; MemoryNotFound if the agent has no live
        memory with the id `replaces`; IndexFault, LedgerError.
        """
        values = {
            "id": self._store.new_id(),
            "timestamp": self.now(),
            "category": "daily",
            **fields,
            "content": undated(content),  # the agent may repeat what it recalled
            "user": self._own_user(fields.get("user")),
            "tags": as_tuple(fields.get("tags", ())),
        }
        try:
            memory = Memory.model_validate(values)
        except ValidationError as exc:
            raise InputError("memory", str(first_problem(exc))) from exc
        by = SaveRules(self._rules, link_threshold, max_links, dedup_threshold, force)
        saved = await self._save(memory, by, replaces)
        related = list(saved.related)
        if saved.memory is not None:
            for on_saved in self._observers:
                try:
                    on_saved(saved.memory)
                except Exception as exc:  # a host's own code may raise anything; the save stands
                    logger.warning("an observer of saves failed: %s", type(exc).__name__)
        return saved.memory, len(related), related, saved.existing

    @_threaded
    def _save(self, memory: Memory, by: SaveRules, replaces: str | None) -> Saved:
        if replaces is None:
            return save(self._store, memory, by)
        with self._store.ledger.reading() as reader:
            [old] = self._own_live(reader, [replaces])
        return save(self._store, memory, by, old)

    @_threaded
    def add_labels(
        self, memory_id: str, tags: Sequence[str], importance: int | None
    ) -> Memory | None:
        """Add tags to a memory and raise its importance; return it, or None if it has all of it.

        Raises: MemoryNotFound; InputError.
        """
        while True:
            with self._store.ledger.reading() as reader:
                [memory] = self._own_live(reader, [memory_id])
                condition = Condition(reader.revision())
            higher = max(memory.importance, importance or memory.importance)
            values = {**dict(memory), "tags": (*memory.tags, *tags), "importance": higher}
            labelled = Memory.model_validate(values)
            if (labelled.tags, higher) == (memory.tags, memory.importance):
                return None
            members, why = (memory,), "told again by the agent"
            done = self._store.apply(
                Decision(Action.UPDATE, why, members, (Survivor(labelled),), condition=condition)
            )
            if isinstance(done, Outcome):
                return done.memory

    # --- reading ---

    @_threaded
    def get_by_id(self, memory_id: str) -> Memory | None:
        memory = self._store.get(memory_id)
        return memory if memory is not None and self._is_own(memory) else None

    @_threaded
    def search(
        self,
        content: str,
        n_results: int = 3,
        *,
        emotion: str | None = None,
        category: str | None = None,
        date_from: datetime | None = None,
        date_to: datetime | None = None,
        user: str | None = None,
        include_superseded: bool | None = None,
        as_of: datetime | None = None,
    ) -> list[MemorySearchResult]:
        """Return at most `n_results` live memories that fit `content`, best first.

        `include_superseded`, `as_of`: as for `MemoryStore.search`. The other arguments are filters;
        a memory must pass all of them. `date_from` and `date_to` are the earliest and the latest
        timestamp, and must have a time zone. `user`: only memories of this user are returned.

        Raises: InputError if this agent serves one user, and `user` is a different user;
        EmbeddingError.
        """
        wanted = {"emotion": emotion, "category": category, "user": self._own_user(user)}
        scope = Scope(tuple((name, value) for name, value in wanted.items() if value is not None))

        def fits(memory: Memory) -> bool:
            return (date_from is None or memory.timestamp >= date_from) and (
                date_to is None or memory.timestamp <= date_to
            )

        return self._store.search(
            content,
            n_results,
            scope=scope,
            where=fits,
            include_superseded=include_superseded,
            as_of=as_of,
        )

    @_threaded
    def list_recent(self, limit: int = 10) -> list[Memory]:
        with self._store.ledger.reading(self._store.clock()) as reader:
            return [row.memory for row in reader.memories.newest(limit, self._scope, None)]

    @_threaded
    def still_open(self) -> list[str]:
        """Return the questions that are still open, one sentence each.

        A question asks whether certain live memories of the agent are the same. If the agent serves
        everyone and chat turns wait for extraction, a last sentence says how many turns wait.
        """
        with self._store.ledger.reading() as reader:
            pending = reader.decisions.pending()
            # An agent of one user must not learn how many turns of others wait.
            turns = reader.turns.count_waiting() if self.user is None else 0
            rows = reader.memories.rows([name for question in pending for name in question.members])
        mine = {name for name, row in rows.items() if row.live and self._is_own(row.memory)}
        questions = [
            f"Are {' and '.join(question.members)} the same?"
            for question in pending
            if mine >= set(question.members)
        ]
        return questions + ([f"{counted(turns, 'turn')} of talk left to be read."] if turns else [])

    @_threaded
    def proposals(self) -> list[MergeProposal]:
        """Return the merges that a model proposed and nobody has decided about, newest first.

        A member that was merged meanwhile is shown as its successor. Proposals with members that
        are not the agent's, or with fewer than two that are left, are not returned.
        """
        with self._store.ledger.reading() as reader:
            pending = [
                (record.reason, one)
                for record in reversed(reader.decisions.pending())
                for one in record.refused
                if one.by == "the agent"
            ]
            alive = reader.memories.living_ids({name for _, one in pending for name in one.members})
            rows = reader.memories.rows(sorted(set(alive.values())))
        mine = {name: row.memory.content for name, row in rows.items() if self._is_own(row.memory)}
        found = []
        for reason, one in pending:
            ids = dict.fromkeys(alive[name] for name in one.members if name in alive)
            if len(ids) > 1 and mine.keys() >= ids.keys():
                found.append(MergeProposal({name: mine[name] for name in ids}, one.text, reason))
        return found

    @_threaded
    def recent_near_copies(
        self, limit: int, since: datetime, threshold: float
    ) -> tuple[list[Memory], list[NearCopies]]:
        """Return the newest memories, newest first, and pairs of near-copies, closest pair first.

        The newest memories are at most `limit`, none older than `since`. Each pair contains at
        least one of them, and its distance (`1 - similarity`) is at most `threshold`. Pairs that
        were judged distinct are left out. Only the agent's memories are read, in one transaction.
        """
        with self._store.ledger.reading(self._store.clock()) as reader:
            recent = [row.memory for row in reader.memories.newest(limit, self._scope, since)]
            own = reader.memories.newest(None, self._scope) if recent else []
            snapshot = snapshot_of(reader, [row.memory.id for row in own])
            texts = [(self._store.scope_of(row.memory), row.dated_key) for row in own]
            parted = zip(texts, reader.distinct.of_all(texts, NOBODY.bound_by), strict=True)
            distinct = {
                (scope.key, min(key, other), max(key, other))
                for (scope, key), others in parted
                for other in others
            }
        return recent, near_copies(
            replace(snapshot, distinct=frozenset(distinct)),
            {memory.id for memory in recent},
            self._store.scope_of,
            1.0 - threshold,
            self._store.scale,
        )

    # --- changing ---

    async def delete(self, memory_id: str) -> Memory | None:
        """Erase a memory as `forget` does, and return the memory as it was.

        This method is for programs that use this class without the server. Return None if the
        agent has no memory with this id.

        Raises: StillStatedBy.
        """
        found = await self.forget(memory_id)
        return found.memory if found else None

    @_threaded
    def forget(self, memory_id: str, *, lineage: bool = False) -> Forgotten | None:
        """Permanently erase a memory, its links, and the memories that it has replaced.

        `lineage`: also those that it has superseded.

        Return None if the agent has no memory with this id.

        Raises: StillStatedBy if the memory is retired and has a live successor.
        """
        with self._store.ledger.reading() as reader:
            row = reader.memories.row(memory_id)
        if row is None or not self._is_own(row.memory):
            return None
        try:
            return self._store.forget(memory_id, lineage=lineage)
        except MemoryNotFound:  # it is a tombstone
            return None

    @_threaded
    def merge(self, keep_id: str, remove_id: str, content: str | None = None) -> Memory:
        """Retire the memory `remove_id`, so that the memory `keep_id` stands for both.

        If `content` is given, it becomes the text of the kept memory, without the dates that
        `Memory.dated` adds. Return the kept memory.

        Raises: MemoryNotFound if a memory is not live or not the agent's; InputError if both ids
        are the same, the scopes differ, or `content` is not valid.
        """
        content = content and undated(content)
        while True:
            with self._store.ledger.reading() as reader:
                keep, remove = self._own_pair(reader, keep_id, remove_id)
                revision = reader.revision()
            decision = decide_merge(self._store, keep, remove, content, Condition(revision))
            done = self._store.apply(decision)
            if not isinstance(done, Conflict):
                return done.memory

    @_threaded
    def link_memories(
        self,
        source_id: str,
        target_id: str,
        link_type: LinkType = "related",
        note: str = "",
    ) -> Linked:
        """Link two memories in both directions; a retired one leads to its live successor.

        An existing link keeps its confidence and takes the new type and note.

        Raises: MemoryNotFound if there is no such live memory of the agent's; InputError if both
        ids lead to the same memory, or the scopes differ.
        """
        with self._store.ledger.writing() as writer:
            ends = writer.memories.living_ids([source_id, target_id])
            first, second = self._own_pair(writer, source_id, target_id, ends)
            source_id, target_id = first.id, second.id
            known = writer.links.between(source_id, target_id)
            fresh = MemoryLink(target_id=target_id, link_type=link_type, note=note)
            if known is not None:
                fresh = fresh.model_copy(update={"confidence": known.confidence})
            writer.links.put([(source_id, fresh)])
        created = known is None
        return Linked(
            source_id=source_id, target_id=target_id, link_type=link_type, created=created
        )

    @_threaded
    def bump_link_confidence(self, source_id: str, target_id: str, delta: float = 0.1) -> bool:
        """Add `delta` to a link's confidence, up to 1. Return False if there is no such link.

        This method is for programs that use this class without the server. `replay` does the same
        to several links, and makes those that are missing.
        """
        with self._store.ledger.writing() as writer:
            known = writer.links.between(source_id, target_id)
            rows = writer.memories.rows([source_id, target_id]).values()
            if known is None or not all(self._is_own(row.memory) for row in rows):
                return False
            writer.links.put([(source_id, _trusted(known, delta))])
        return True

    @_threaded
    def replay(
        self, pairs: Sequence[tuple[str, str]], delta: float = 0.1
    ) -> dict[tuple[str, str], bool]:
        """Link the two memories of each pair, and add `delta` to the confidence of their link.

        Pairs with a memory that is not live are skipped. The returned dict has the other pairs as
        keys; each value says whether the link of the pair is new.

        Also remove forgotten memories from the agent's episodes. An episode that had such a memory
        loses its summary, because the summary may repeat what was forgotten.
        """
        with self._store.ledger.reading() as reader:
            holes = reader.episodes.with_forgotten(self.user)
        if not (pairs or holes):
            return {}
        with self._store.ledger.writing() as writer:
            alive = writer.memories.living_ids(name for pair in pairs for name in pair)
            fresh: dict[tuple[str, str], bool] = {}
            for a, b in pairs:
                if alive.get(a) != a or alive.get(b) != b:
                    continue
                known = writer.links.between(a, b)
                fresh[a, b] = known is None
                writer.links.put([(a, _trusted(known or MemoryLink(target_id=b), delta))])
            # A summary may tell of them, and without their ids nothing would find it.
            writer.episodes.forget_summaries(holes)
            for episode_id, gone in holes.items():
                writer.episodes.drop_memories(episode_id, gone)
        return fresh

    # --- episodes ---

    @_threaded
    def create_episode(
        self, memory_ids: Sequence[str], summary: str, importance: int = 3
    ) -> Episode:
        """Store an episode: these memories as a group, with a summary.

        The episode belongs to the user of its memories. If the memories belong to several users,
        only an agent that serves everyone can read it.

        Raises: MemoryNotFound; InputError if the summary or the importance is not valid.
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
    def get_episode(self, episode_id: str) -> tuple[Episode, int] | None:
        """Return an episode with its live memories, and the number of its forgotten memories.

        Each retired memory is replaced by its live successor. Return None if there is no such
        episode, or if at least one of its memories is not the agent's.
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
        return episode.model_copy(update={"memory_ids": today}), gone

    # --- inside ---

    def _own_live(
        self, reader: Reader, ids: Sequence[str], ends: Mapping[str, str] = _AS_NAMED
    ) -> list[Memory]:
        """Return the memories with these ids, in the same order.

        `ends`: maps ids to the ids of the memories that are returned instead.

        Raises: MemoryNotFound if a memory is missing, not live, or of a user whom the agent does
        not serve. The error is the same in these cases, so that the agent cannot find out which
        memories other users have.
        """
        rows = reader.memories.rows([ends.get(name, name) for name in ids])
        for name in ids:
            row = rows.get(ends.get(name, name))
            if row is None or not row.live or not self._is_own(row.memory):
                raise MemoryNotFound(name)
        return [rows[ends.get(name, name)].memory for name in ids]

    def _own_pair(
        self, reader: Reader, a: str, b: str, ends: Mapping[str, str] = _AS_NAMED
    ) -> tuple[Memory, Memory]:
        first, second = self._own_live(reader, [a, b], ends)
        if first.id == second.id:
            raise InputError(a, "cannot be joined with itself", "give two ids")
        if Scope.of(first, ("user",)) != Scope.of(second, ("user",)):
            raise InputError(a, f"is of another scope than {b}", ONE_SCOPE)
        return first, second

    def _is_own(self, memory: Memory) -> bool:
        return self.user is None or memory.user == self.user

    def _own_user(self, user: object) -> Any:
        name = clean(user) if isinstance(user, str) else user
        if self.user is not None and name not in (None, self.user):
            raise InputError("user", f"{user!r} is another user", f"here is {self.user!r} only")
        return self.user if name is None else name


def _trusted(link: MemoryLink, delta: float) -> MemoryLink:
    return link.model_copy(update={"confidence": min(1.0, round(link.confidence + delta, 6))})


# --- consolidation --------------------------------------------------------------------------------


@dataclass(frozen=True)
class ConsolidationStats:
    """The result of a consolidation run.

    `replay_events` and `coactivation_updates` both count the pairs of memories whose link was added
    or became stronger. `link_updates` counts only the added links. `refreshed_memories` counts the
    memories that are in at least one of the pairs. `merge_candidates` are pairs of near-copies,
    closest first. `proposals`: groups that a model would merge; None without a model. `unread`: why
    the model has not read all new memories.
    """

    replay_events: int
    coactivation_updates: int
    link_updates: int
    refreshed_memories: int
    merge_candidates: tuple[MergeCandidate, ...] = ()
    proposals: tuple[MergeProposal, ...] | None = None
    unread: str = ""

    def to_dict(self) -> dict[str, Any]:
        stats = asdict(self) | {"merge_candidates": [asdict(one) for one in self.merge_candidates]}
        if self.proposals is None:
            del stats["proposals"], stats["unread"]
        return stats


class ConsolidationEngine:
    """Links recent memories that are close in time, and proposes near-copies to merge.

    `propose`: has a model read the new memories of a scope; see `Proposer`.
    """

    def __init__(self, propose: Propose | None = None) -> None:
        self._propose = propose

    async def run(
        self,
        store: AgentMemory,
        window: int | None = None,
        window_hours: int = 24,
        max_replay_events: int = 100,
        merge_threshold: float = 0.10,
        max_merge_candidates: int = 5,
    ) -> ConsolidationStats:
        """Link recent memories that are close in time, and find near-copies of recent memories.

        Recent memories are those of the last `window_hours` hours, but at most the `window` newest
        (1000 if `window` is None). Each recent memory is linked with the next older recent memory
        of the same user; private memories are linked only with private ones. At most
        `max_replay_events` pairs are linked, newest first. An existing link gains confidence.

        Two memories are near-copies if their distance (`1 - similarity`) is below
        `merge_threshold`. At least one of the two memories is recent. At most
        `max_merge_candidates` pairs of near-copies are returned, closest first.

        If a model reads pages, it also reads those memories of the recent ones' scopes that it has
        not read, and proposes groups to merge. A pair inside a proposed group is left out.

        The run also removes forgotten memories from episodes (groups of memories with a summary).
        """
        since = store.now() - timedelta(hours=window_hours)
        most = _DEFAULT_WINDOW if window is None else window
        recent, alike = await store.recent_near_copies(most, since, merge_threshold)
        replayed = await store.replay(
            [(old.id, new.id) for old, new in _neighbours_in_time(recent)[:max_replay_events]]
        )
        proposals, unread = await self._proposals(store, recent, max_merge_candidates)
        candidates = [
            MergeCandidate(
                memory_a_id=pair.older.id,
                memory_b_id=pair.newer.id,
                distance=round(1.0 - pair.similarity, 6),
                snippet_a=pair.older.content[:_SNIPPET],
                snippet_b=pair.newer.content[:_SNIPPET],
            )
            for pair in alike
        ]
        close = [
            one
            for one in candidates
            if one.distance < merge_threshold
            and not any(
                {one.memory_a_id, one.memory_b_id} <= group.members.keys()
                for group in proposals or ()
            )
        ]
        return ConsolidationStats(
            replay_events=len(replayed),
            coactivation_updates=len(replayed),
            link_updates=sum(replayed.values()),
            refreshed_memories=len({name for pair in replayed for name in pair}),
            merge_candidates=tuple(close[:max_merge_candidates]),
            proposals=proposals,
            unread=unread,
        )

    async def _proposals(
        self, store: AgentMemory, recent: Sequence[Memory], most: int
    ) -> tuple[tuple[MergeProposal, ...] | None, str]:
        """Return the groups that a model would merge, and why something is left unread.

        The first value is None if no model reads pages, and none has proposed anything before.
        """
        unread = None
        if self._propose is not None:
            for scope in dict.fromkeys(map(store.scope_of, recent)):
                unread = unread or await self._propose(scope)
        found = await store.proposals()
        if unread is None and not found:
            return None, ""
        return tuple(found[:most]), unread or ""


def _neighbours_in_time(newest_first: Sequence[Memory]) -> list[tuple[Memory, Memory]]:
    """Pair each memory with the next older one of its scope: (older, newer), newest pair first."""
    by_scope: dict[Scope, list[Memory]] = {}
    for memory in newest_first:
        by_scope.setdefault(Scope.of(memory, ("user",)), []).append(memory)
    pairs = [(old, new) for same in by_scope.values() for new, old in pairwise(same)]
    return sorted(pairs, key=lambda pair: pair[1].timestamp, reverse=True)

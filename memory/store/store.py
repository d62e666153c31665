"""Ledger, index and embedder as one store: find what is alike, apply what was decided."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations
from uuid import uuid4

import numpy as np
from pydantic import ValidationError

from memory.decide import oldest_first
from memory.errors import (
    CannotUndo,
    EmbedderMismatch,
    EmbeddingError,
    IndexFault,
    InputError,
    LedgerError,
    MemoryNotFound,
    MemoryPipelineError,
    StillStatedBy,
)
from memory.index import ExactIndex, similarities
from memory.ledger import (
    REVERSIBLE,
    Counts,
    DecisionRecord,
    Ledger,
    Reader,
    Row,
    Run,
    Snapshot,
    Writer,
)
from memory.models import (
    Action,
    Decision,
    Embedded,
    Episode,
    LinkType,
    Memory,
    Scope,
    ScopeField,
    SearchResult,
    Survivor,
    Vector,
    Vectors,
    new_memory_id,
)
from memory.protocols import Clock, Embedder, Index, Shortlist
from memory.text import clean, normalise, text_key

logger = logging.getLogger(__name__)


_EMBED_AT_ONCE = 1_000
_WARMING_S = 10.0
"""How long closing waits for an index that is still being opened in the background."""
_UNSCRUBBED = "unscrubbed"
"""Set in the ledger until index and log hold nothing more of what was forgotten."""


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Neighbours:
    """What a new memory resembles, most similar first, as of a revision."""

    matches: tuple[SearchResult, ...]
    revision: int


@dataclass(frozen=True)
class Forgotten:
    """What a memory was; `erased` is False while an index or a log still has to be scrubbed."""

    memory: Memory
    erased: bool
    origins: tuple[Memory, ...] = ()
    """All that it was made from, gone with it."""
    set_aside: tuple[str, ...] = ()
    """Damaged ledgers that a restore set aside: they may hold anything, and are left to people."""


class MemoryStore:
    """Memories that are never lost: `add`, `update`, `find_similar`, `search`. `with` closes it.

    Safe to share between threads.
    """

    def __init__(
        self,
        ledger: Ledger,
        embedder: Embedder,
        open_index: Callable[[MemoryStore], Index] | None = None,
        *,
        scope_fields: tuple[ScopeField, ...] = ("user",),
        clock: Clock = utc_now,
        new_id: Callable[[], str] = new_memory_id,
    ) -> None:
        """`open_index` is called when the index is first needed; None searches exactly.

        Whatever compares or stores vectors raises EmbedderMismatch where the ledger's come from
        another embedder.
        """
        self.ledger = ledger
        self.clock = clock
        self.new_id = new_id
        self._embedder = embedder
        self._exact = ExactIndex(ledger)
        self._open_index = open_index
        self._index: Index | None = None if open_index else self._exact
        self._opening = threading.Lock()
        self._warming: threading.Thread | None = None
        self._closed = False
        self._scope_fields = scope_fields

    def check_embedder(self) -> None:
        """Raises: EmbedderMismatch where the ledger's vectors come from another embedder."""
        with self.ledger.reading() as reader:
            self._check_embedder(reader)

    def close(self) -> None:
        with self._opening:
            self._closed = True
        if self._warming is not None:
            self._warming.join(_WARMING_S)
        if self._open_index is not None:
            with contextlib.suppress(LedgerError):  # the next start does it
                self.scrub()
        if self._index is not None:
            self._index.close()
        self.ledger.close()

    def __enter__(self) -> MemoryStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- reading ---

    def get(self, memory_id: str) -> Memory | None:
        """The live memory with this id."""
        with self.ledger.reading() as reader:
            row = reader.row(memory_id)
        return row.memory if row is not None and row.live else None

    def arrived_before(self, memory: Memory) -> Memory | None:
        """What lives for an earlier arrival of this very memory; None where it is new.

        What was forgotten since is not brought back: then that is the memory itself.
        """
        with self.ledger.reading() as reader:
            row = reader.arrived_before(memory)
            if row is None:
                return None
            alive = reader.living(row)
        return alive.memory if alive is not None else memory

    def under_own_id(self, memory: Memory) -> Memory:
        """The memory, under a new id where another one has its id already."""
        with self.ledger.reading() as reader:
            return self._under_own_id(reader, memory)

    def _under_own_id(self, reader: Reader, memory: Memory) -> Memory:
        if reader.row(memory.id) is None:
            return memory
        return memory.model_copy(
            update={"id": self.new_id(), "external_id": memory.external_id or memory.id}
        )

    def living_for(self, memory: Memory) -> Memory:
        """The live memory that stands for this one."""
        return self.arrived_before(memory) or memory

    def memories(self) -> Iterator[Memory]:
        """Every live memory in order of arrival."""
        with self.ledger.reading() as reader:
            yield from (row.memory for row in reader.all_rows(live_only=True))

    def counts(self) -> Counts:
        with self.ledger.reading() as reader:
            return reader.counts()

    def search(self, query: str, k: int = 5, *, scope: Scope | None = None) -> list[SearchResult]:
        """The k live memories nearest to the query, nearest first; `scope` None is all of them.

        Raises: EmbeddingError.
        """
        if not clean(query):
            return []
        vector = self._embedder.embed([normalise(clean(query))])[0]
        self.check_embedder()
        shortlist = self._exact.nearest(vector, scope or Scope(()), k, min_cosine=-1.0)
        with self.ledger.reading() as reader:
            rows = [row for row in reader.rows(shortlist.ids).values() if row.live]
            return _ranked(reader, vector, rows, floor=-1.0)

    def find_similar(
        self, content: str, threshold: float = 0.90, *, user: str | None = None
    ) -> SearchResult | None:
        """The most similar live, public memory of the user at or above the threshold.

        Where the embedder fails, only the same text is found.
        """
        if not clean(content):
            return None
        [probe] = self.embed([self.new_memory(content, user=user)])
        matches = self._matches(probe, 1, threshold, ())
        return matches[0] if matches else None

    def scope_of(self, memory: Memory) -> Scope:
        """Which memories this one may be compared with."""
        return Scope.of(memory, self._scope_fields)

    def kept_twice(self, memory: Memory) -> bool:
        """Whether a person keeps this text several times in its scope."""
        key = text_key(memory.content)
        with self.ledger.reading() as reader:
            return key in reader.distinct_from(self.scope_of(memory), key)

    def find(self, new: Embedded, k: int, floor: float) -> Neighbours:
        """The k live memories in scope most like the new one, of those at or above the floor.

        The same normalised text comes first; what was distinct from it is left out.
        """
        key = text_key(new.memory.content)
        with self.ledger.reading() as reader:
            revision = reader.revision()
            apart = reader.distinct_from(self.scope_of(new.memory), key)
            more = reader.rows_with_texts(self.scope_of(new.memory), apart)
        matches = self._matches(new, k + more, floor, apart)
        return Neighbours(tuple(matches[:k]), revision)

    def snapshot(self) -> Snapshot:
        """Everything a batch needs, at one revision."""
        with self.ledger.reading() as reader:
            rows = tuple(reader.live_in_time_order())
            ancestors = {row.memory.id: _ancestor_keys(reader, row) for row in rows}
            keys = [row.text_key for row in rows]
            keys += [key for of_one in ancestors.values() for key in of_one]
            return Snapshot(
                rows=rows,
                vectors=reader.vectors(keys),
                ancestors=ancestors,
                distinct=frozenset(reader.distinct_pairs()),
                revision=reader.revision(),
            )

    # --- writing ---

    def new_memory(self, content: str, *, user: str | None = None) -> Memory:
        """A memory of now, not stored yet."""
        return Memory(id=self.new_id(), content=content, user=user, timestamp=self.clock())

    def embed(self, memories: Sequence[Memory]) -> list[Embedded]:
        """The memories with their vectors; known texts are not embedded again.

        Where the embedder fails, the vectors are None and a warning is logged: a memory without a
        vector is kept, and embedded by the next batch.
        """
        if not memories:
            return []
        with self.ledger.reading() as reader:
            known = reader.vectors(text_key(memory.content) for memory in memories)
        missing = {
            key: memory.content
            for memory in memories
            if (key := text_key(memory.content)) not in known
        }
        if missing:
            try:
                known |= dict(zip(missing, self._vectors_of(missing.values()), strict=True))
            except EmbeddingError as exc:
                logger.warning("no vectors for %d memories: %s", len(missing), exc)
        return [Embedded(memory, known.get(text_key(memory.content))) for memory in memories]

    def add(self, memory: Memory) -> Memory:
        """Store a memory as it is. The same one twice is stored once; gives the one that lives."""
        [added] = self._add_all([memory], None)
        return self.living_for(added or memory)

    def add_batch(self, memories: Sequence[Memory], *, run: str | None = None) -> int:
        """Store memories as they are, all or none; gives how many were not there before."""
        return sum(added is not None for added in self._add_all(memories, run))

    def _add_all(self, memories: Sequence[Memory], run: str | None) -> list[Memory | None]:
        """Each as it was stored; None where it was there before."""
        embedded = self.embed(memories)
        with self.ledger.writing() as writer:
            return [self._add(writer, new, run) for new in embedded]

    def _add(self, writer: Writer, new: Embedded, run: str | None) -> Memory | None:
        if writer.arrived_before(new.memory) is not None:
            return None
        memory = self._under_own_id(writer, new.memory)
        self._insert(writer, Embedded(memory, new.vector))
        decision = Decision(Action.ADD, "stored as it is", (memory,))
        writer.record(decision, writer.image([]), self.clock(), run)
        return memory

    def update(self, memory_id: str, new_content: str) -> None:
        """Replace a memory's text in place; its old wording is kept as a retired version.

        Raises: MemoryNotFound, InputError where the new text is empty or too long.
        """
        current = self.get(memory_id)
        if current is None:
            raise MemoryNotFound(memory_id)
        checked = _with_content(current, new_content)
        [updated] = self.embed([checked])
        with self.ledger.writing() as writer:
            row = writer.row(memory_id)
            if row is None or not row.live:
                raise MemoryNotFound(memory_id)
            before = writer.image([memory_id])
            old_id = self._keep_wording(writer, row.memory)
            new = row.memory.model_copy(update={"content": checked.content})
            writer.rewrite(new)
            self._put_vector(writer, updated)
            survivor = Survivor(new, stands_for=(old_id,))
            decision = Decision(Action.UPDATE, "text replaced", (row.memory,), (survivor,))
            writer.record(decision, before, self.clock(), None)

    def forget(self, memory_id: str) -> Forgotten:
        """Erase a memory, and all it was made from, for good; gives what it was.

        It is gone from the ledger at return. What an index or a log still holds of it is scrubbed
        at once where this process can, else by the process that holds it, and `erased` says which.

        Raises: MemoryNotFound, StillStatedBy.
        """
        memory_id = clean(memory_id)
        with self.ledger.writing() as writer:
            row = writer.row(memory_id)
            alive = writer.living(row) if row is not None else None
            if row is None or alive is None:
                raise MemoryNotFound(memory_id)
            if alive.memory.id != memory_id:
                raise StillStatedBy(memory_id, alive.memory.id)
            origins = writer.rows(writer.ancestors(memory_id))
            writer.forget(memory_id)
            writer.set_meta(_UNSCRUBBED, uuid4().hex)
            decision = Decision(Action.FORGET, "forgotten", (row.memory,))
            writer.record(decision, writer.image([]), self.clock(), None)
        made_from = tuple(origin.memory for origin in origins.values())
        aside = tuple(self.ledger.set_aside_files())
        erased = self.scrub() and not aside
        return Forgotten(row.memory, erased=erased, origins=made_from, set_aside=aside)

    def scrub(self) -> bool:
        """Clear index and log of what was forgotten; whether nothing is left anywhere."""
        with self.ledger.reading() as reader:
            forgotten = reader.meta(_UNSCRUBBED)
            stale = reader.stale_indexes()
        if forgotten is None and not stale:
            return True
        if stale:
            self._scrub_index()
        emptied = self.ledger.checkpoint()
        with self.ledger.writing() as writer:
            clean = emptied and not writer.stale_indexes()
            if clean and writer.meta(_UNSCRUBBED) == forgotten:  # else another came meanwhile
                writer.drop_meta(_UNSCRUBBED)
        return clean

    def _scrub_index(self) -> None:
        try:
            self._opened_index().scrub()
        except IndexFault as exc:
            logger.warning("the index is not scrubbed yet: %s", exc)

    def history(self, memory_id: str | None = None) -> list[DecisionRecord]:
        """Decisions about a memory, or all but plain additions, oldest first."""
        with self.ledger.reading() as reader:
            return reader.decisions(memory_id and clean(memory_id))

    def runs(self) -> list[Run]:
        """Every batch and import that decided something, oldest first."""
        with self.ledger.reading() as reader:
            return reader.runs()

    def plan_undo(self, target: int | str) -> list[DecisionRecord]:
        """The decisions that undoing a decision or a run takes back, newest first.

        Raises: CannotUndo where there is nothing to take back, or later decisions build on it.
        """
        with self.ledger.reading() as reader:
            return _undoable(reader, target)

    def undo(self, target: int | str) -> list[DecisionRecord]:
        """Take back a decision, by its number, or all that a run decided, wholly or not at all.

        Members are again what they were, text, values and links; what was synthesised is gone.
        They are marked as kept apart by a person, so that no batch decides the same again.

        Raises: CannotUndo where there is nothing to take back, or later decisions build on it.
        """
        with self.ledger.writing() as writer:
            undone = _undoable(writer, target)
            for recorded in undone:
                self._undo(writer, recorded)
        return undone

    def _undo(self, writer: Writer, recorded: DecisionRecord) -> None:
        writer.take_back(recorded)
        rows = [row.memory for row in writer.rows(recorded.members).values()]
        for a, b in combinations(rows, 2):
            writer.mark_distinct(self.scope_of(a), a.content, b.content, "kept by a person")
        decision = Decision(Action.UNDO, f"decision {recorded.number} taken back", tuple(rows))
        writer.record(decision, writer.image([]), self.clock(), None)

    def reopen_pending(self) -> list[DecisionRecord]:
        """Take back what was decided for want of a model, to be asked again; gives the questions.

        They count as open until `close_pending`. What later decisions build on stays as it is, and
        is asked again with them.
        """
        with self.ledger.writing() as writer:
            questions = writer.pending_decisions()
            for recorded in reversed(questions):
                reversible = recorded.action in REVERSIBLE and not recorded.undone
                if reversible and not writer.decisions_after(recorded):
                    writer.take_back(recorded, keep_pending=True)
        return questions

    def close_pending(self, questions: Iterable[DecisionRecord]) -> None:
        """These questions were asked again."""
        with self.ledger.writing() as writer:
            writer.close_pending(recorded.number for recorded in questions)

    def apply(
        self,
        decision: Decision,
        *,
        since: int | None,
        arrival: Embedded | None = None,
        floor: float | None = None,
        run: str | None = None,
    ) -> str:
        """Do what was decided, in one transaction; or, where the ground has moved, nothing.

        `arrival` is the new memory among the decision's members. The answer is empty where it was
        applied, and otherwise what moved: the arrival came by another way; since the revision
        `since`, a member changed or a memory came that is at or above `floor` to the arrival and
        no candidate of the decision. With `since` None only the same text counts, and with
        `floor` None not even that.
        """
        created = [s.memory for s in decision.survivors if s.memory not in decision.members]
        vectors = self.embed(created)
        with self.ledger.writing() as writer:
            moved = self._member_moved(writer, decision, since, arrival) or (
                self._newcomer(writer, decision, since, arrival, floor)
                if arrival is not None and floor is not None
                else ""
            )
            if moved:
                return moved
            self._write(writer, decision, arrival, vectors, run)
        return ""

    def _write(
        self,
        writer: Writer,
        decision: Decision,
        arrival: Embedded | None,
        vectors: Sequence[Embedded],
        run: str | None,
    ) -> None:
        if arrival is not None:
            self._insert(writer, arrival)
        before = writer.image([m.id for m in decision.members] if decision.survivors else [])
        successor = {name: s.memory.id for s in decision.survivors for name in s.stands_for}
        known = {member.id for member in decision.members}
        for survivor in decision.survivors:
            if survivor.memory.id in known:
                writer.rewrite(survivor.memory)
            else:
                writer.insert(survivor.memory.model_copy(update={"linked_ids": ()}))
        for retired, heir in successor.items():
            writer.retire(retired, heir)
        for new in vectors:
            self._put_vector(writer, new)
        by_id = {member.id: member for member in decision.members}
        for a, b in decision.distinct:
            scope = self.scope_of(by_id[a])
            writer.mark_distinct(scope, by_id[a].content, by_id[b].content, decision.reason)
        if not decision.pending:
            writer.close_pending_about(by_id.keys())
        writer.record(decision, before, self.clock(), run)

    def _member_moved(
        self, writer: Writer, decision: Decision, since: int | None, arrival: Embedded | None
    ) -> str:
        new = arrival.memory if arrival is not None else None
        if new is not None and (writer.row(new.id) or writer.arrived_before(new)):
            return "it arrived meanwhile"
        if since is None:
            return ""
        stored = [member.id for member in decision.members if new is None or member.id != new.id]
        rows = writer.rows(stored)
        for name in stored:
            row = rows.get(name)
            if row is None or not row.live or row.revision > since:
                return f"{name} changed"
        return self._distinct_meanwhile(writer, decision)

    def _distinct_meanwhile(self, writer: Writer, decision: Decision) -> str:
        by_id = {member.id: member for member in decision.members}
        for survivor in decision.survivors:
            heir = survivor.memory
            key = text_key(heir.content)
            apart = writer.distinct_from(self.scope_of(heir), key) - {key}
            for name in survivor.stands_for:
                if text_key(by_id[name].content) in apart:
                    return f"{name} was distinct from {heir.id}"
        return ""

    def _newcomer(
        self,
        writer: Writer,
        decision: Decision,
        since: int | None,
        arrival: Embedded,
        floor: float,
    ) -> str:
        considered = {name for name, _ in decision.candidates}
        scope, key = self.scope_of(arrival.memory), text_key(arrival.memory.content)
        for row in writer.live_with_text(key, scope):
            if row.memory.id not in considered and row.revision > (since or 0):
                return f"{row.memory.id} says the same"
        if since is None or arrival.vector is None:
            return ""
        apart = writer.distinct_from(scope, key)
        newcomers = [
            row
            for row in writer.live_in_scope_after(since, scope)
            if row.memory.id not in considered and row.text_key not in apart
        ]
        near = _ranked(writer, arrival.vector, newcomers, floor)
        return f"{near[0].memory.id} came" if near else ""

    def embed_missing(self) -> int:
        """Make the vectors that an earlier fault left out; gives how many."""
        with self.ledger.reading() as reader:
            texts = reader.texts_without_vector()
        for start in range(0, len(texts), _EMBED_AT_ONCE):
            some = texts[start : start + _EMBED_AT_ONCE]
            vectors = self._vectors_of(some)
            with self.ledger.writing() as writer:
                for text, vector in zip(some, vectors, strict=True):
                    self._claim(writer)
                    writer.put_vector(text, vector)
        return len(texts)

    # --- for the agent: what it links, merges, and tells as episodes ---

    def link(
        self, source_id: str, target_id: str, kind: LinkType, note: str = "", *, replace: bool
    ) -> bool:
        """Link two live memories of one user and privacy; whether they were not linked before.

        With `replace` a link that is there takes the new kind and note.

        Raises: MemoryNotFound, InputError.
        """
        with self.ledger.writing() as writer:
            source, target = _live_pair(writer, source_id, target_id)
            _check_one_scope(source, target, ("user",))
            return writer.link(source_id, target_id, kind, note, replace=replace)

    def bump_confidence(self, a: str, b: str, by: float) -> bool:
        """Trust the link between two memories more, up to 1; False where there is none."""
        with self.ledger.writing() as writer:
            return writer.bump_confidence(a, b, by)

    def merge(self, keep_id: str, remove_id: str, content: str | None = None) -> Memory:
        """Retire a memory in favour of another of its scope; gives the one that stays.

        It keeps its id, time, category and emotion; it takes the other's links and tags, the
        higher importance and intensity, and `content` where that is given: its own wording is
        then kept as a retired version. One decision, which `undo` takes back.

        Raises: MemoryNotFound, InputError.
        """
        with self.ledger.reading() as reader:
            keep, remove = _live_pair(reader, keep_id, remove_id)
        new = [] if content is None else self.embed([_with_content(keep, content)])
        with self.ledger.writing() as writer:
            keep, remove = _live_pair(writer, keep_id, remove_id)
            _check_one_scope(keep, remove, self._scope_fields)
            members = oldest_first(keep, remove)
            before = writer.image([member.id for member in members])
            retired = [remove.id]
            text = new[0].memory.content if new else keep.content
            if text != keep.content:
                retired.append(self._keep_wording(writer, keep))
            heir = _heir(keep, remove, text, tuple(retired))
            writer.rewrite(heir)
            writer.retire(remove.id, keep.id)
            for one in new:
                self._put_vector(writer, one)
            writer.close_pending_about({keep.id, remove.id})
            survivor = Survivor(heir, tuple(retired))
            decision = Decision(Action.MERGE, "merged by the agent", members, (survivor,))
            writer.record(decision, before, self.clock(), None)
        return self.get(keep_id) or heir

    def _keep_wording(self, writer: Writer, memory: Memory) -> str:
        """A retired row that holds the memory as it was; its id."""
        old = memory.model_copy(update={"id": self.new_id(), "linked_ids": ()})
        self._insert(writer, Embedded(old, None))
        writer.retire(old.id, memory.id)
        return old.id

    def newest(self, limit: int, scope: Scope, since: datetime | None = None) -> list[Memory]:
        """The live memories of the scope that were recorded last, newest first."""
        with self.ledger.reading() as reader:
            return [row.memory for row in reader.newest(limit, scope, since)]

    def put_episode(self, episode: Episode) -> None:
        with self.ledger.writing() as writer:
            writer.put_episode(episode)

    def episode(self, episode_id: str) -> tuple[Episode, tuple[str, ...]] | None:
        """An episode as it was told, and the live memories it is about today, each once."""
        with self.ledger.reading() as reader:
            episode = reader.episode(episode_id)
            if episode is None:
                return None
            alive = reader.living_ids(episode.memory_ids)
        return episode, tuple(dict.fromkeys(alive.values()))

    def drop_forgotten_from_episodes(self) -> int:
        """Take out of episodes the ids that nobody stands for any more; gives how many."""
        dropped = 0
        with self.ledger.writing() as writer:
            for episode in writer.episodes():
                alive = tuple(writer.living_ids(episode.memory_ids))
                if len(alive) < len(episode.memory_ids):
                    dropped += len(episode.memory_ids) - len(alive)
                    writer.put_episode(episode.model_copy(update={"memory_ids": alive}))
        return dropped

    # --- an index that nobody waits for ---

    def postpone_index(self) -> None:
        """Search exactly until `open_index_in_background` has opened the index."""
        self._index = self._exact

    def open_index_in_background(self) -> None:
        """Open the index and clear it of what was forgotten meanwhile; nothing waits for it."""
        if self._open_index is not None and self._warming is None:
            self._warming = threading.Thread(target=self._warm, name="index", daemon=True)
            self._warming.start()

    def _warm(self) -> None:
        assert self._open_index is not None
        try:
            index = self._open_index(self)
            with self._opening:
                closed = self._closed
                self._index = self._exact if closed else index
            if closed:
                index.close()
            else:
                self.scrub()
        except MemoryPipelineError as exc:
            logger.warning("the index did not open, searching exactly: %s", exc)

    # --- inside ---

    def _matches(
        self, new: Embedded, k: int, floor: float, apart: Collection[str]
    ) -> list[SearchResult]:
        """The index is asked between two looks at the ledger, never inside of one."""
        scope, key = self.scope_of(new.memory), text_key(new.memory.content)
        with self.ledger.reading() as reader:
            self._check_embedder(reader)
            same = reader.live_with_text(key, scope)
        matches = [SearchResult(row.memory, 1.0) for row in same if row.memory.id != new.memory.id]
        if new.vector is None or len(matches) >= k:
            return matches[:k]
        shortlist = self._shortlist(new.vector, scope, k + 1, floor)
        with self.ledger.reading() as reader:
            others = [
                row
                for row in reader.rows(shortlist.ids).values()
                if row.live
                and row.text_key != key
                and row.text_key not in apart
                and self.scope_of(row.memory) == scope
            ]
            return (matches + _ranked(reader, new.vector, others, floor))[:k]

    def _shortlist(self, vector: Vector, scope: Scope, k: int, floor: float) -> Shortlist:
        try:
            shortlist = self._opened_index().nearest(vector, scope, k, floor)
        except IndexFault as exc:
            logger.warning("similarity query failed, searching exactly from here on: %s", exc)
            self._give_up_the_index()
            shortlist = Shortlist((), complete=False)
        if shortlist.complete:
            return shortlist
        return self._exact.nearest(vector, scope, k, floor)

    def _give_up_the_index(self) -> None:
        with self._opening:
            failed, self._index = self._index, self._exact
        if failed is not None:
            failed.close()

    @property
    def index(self) -> Index:
        """The index, opened now where it was not.

        Raises: IndexFault.
        """
        return self._opened_index()

    def _opened_index(self) -> Index:
        with self._opening:
            if self._index is None:
                assert self._open_index is not None
                self._index = self._open_index(self)
            return self._index

    def _vectors_of(self, texts: Iterable[str]) -> Vectors:
        return self._embedder.embed([normalise(text) for text in texts])

    def _insert(self, writer: Writer, new: Embedded) -> None:
        writer.insert(new.memory)
        self._put_vector(writer, new)

    def _put_vector(self, writer: Writer, new: Embedded) -> None:
        if new.vector is not None:
            self._claim(writer)
            writer.put_vector(new.memory.content, new.vector)

    def _claim(self, writer: Writer) -> None:
        """The first vector says whose vectors these are; no other's is ever added to them."""
        if not self._check_embedder(writer):
            writer.set_meta("embedder", self._embedder.fingerprint)

    def _check_embedder(self, reader: Reader) -> bool:
        """Whether the ledger has vectors of this embedder; another process may embed again.

        Raises: EmbedderMismatch.
        """
        stored = reader.meta("embedder")
        if stored is not None and stored != self._embedder.fingerprint:
            raise EmbedderMismatch(stored, self._embedder.fingerprint)
        return stored is not None


def _live_pair(reader: Reader, a: str, b: str) -> tuple[Memory, Memory]:
    """Raises: MemoryNotFound, InputError where they are one."""
    if a == b:
        raise InputError(a, "a memory and itself", "give two ids")
    rows = reader.rows([a, b])
    for name in (a, b):
        if name not in rows or not rows[name].live:
            raise MemoryNotFound(name)
    return rows[a].memory, rows[b].memory


def _check_one_scope(a: Memory, b: Memory, fields: tuple[ScopeField, ...]) -> None:
    """Raises: InputError."""
    if Scope.of(a, fields) != Scope.of(b, fields):
        remedy = "only memories of one user and privacy belong together"
        raise InputError(a.id, f"is of another scope than {b.id}", remedy)


def _with_content(memory: Memory, content: str) -> Memory:
    """Raises: InputError where the new text is empty or too long."""
    try:
        return Memory.model_validate({**dict(memory), "content": content})
    except ValidationError as exc:
        raise InputError(memory.id, str(exc.errors()[0]["ctx"]["error"])) from exc


def _heir(keep: Memory, remove: Memory, content: str, retired: tuple[str, ...]) -> Memory:
    """`keep` as the one that stands for both; a new text is synthesised from what was retired."""
    origins = (*keep.merged_from, *retired) if content != keep.content else keep.merged_from
    return keep.model_copy(
        update={
            "content": content,
            "tags": tuple(dict.fromkeys((*keep.tags, *remove.tags))),
            "importance": max(keep.importance, remove.importance),
            "intensity": max(keep.intensity, remove.intensity),
            "merged_from": origins,
        }
    )


def _undoable(reader: Reader, target: int | str) -> list[DecisionRecord]:
    """Newest first. Raises: CannotUndo."""
    doomed = [_undoable_decision(reader, target)] if isinstance(target, int) else []
    if isinstance(target, str):
        whole_run = reader.decisions_of(target)
        if not whole_run:
            raise CannotUndo(target, "there is no such run", "see `memory-dedup runs`")
        doomed = [one for one in whole_run if one.action in REVERSIBLE and not one.undone]
        if not doomed:
            raise CannotUndo(target, "there is nothing left to take back")
    numbers = {one.number for one in doomed}
    later = {number for one in doomed for number in reader.decisions_after(one)} - numbers
    if later:
        raise CannotUndo(target, f"decisions {sorted(later)} build on it", "undo those first")
    if scrubbed := [one.number for one in doomed if one.scrubbed]:
        raise CannotUndo(target, f"a member of decision {scrubbed} was forgotten since")
    return sorted(doomed, key=lambda one: -one.number)


def _undoable_decision(reader: Reader, number: int) -> DecisionRecord:
    recorded = reader.decision(number)
    if recorded is None:
        raise CannotUndo(number, "there is no such decision")
    if recorded.undone:
        raise CannotUndo(number, "it is undone already")
    if recorded.action not in REVERSIBLE:
        raise CannotUndo(number, f"{recorded.action} retired nothing")
    return recorded


def store_id(ledger: Ledger) -> str:
    """A name for this store that no other store has; made once."""
    with ledger.writing() as writer:
        known = writer.meta("store_id")
        if known is None:
            known = uuid4().hex[:12]
            writer.set_meta("store_id", known)
    return known


def _ranked(
    reader: Reader, vector: Vector, rows: Iterable[Row], floor: float
) -> list[SearchResult]:
    """Rows at or above the floor by exact similarity, most similar first, then the newest."""
    candidates = list(rows)
    known = reader.vectors(row.text_key for row in candidates)
    candidates = [row for row in candidates if row.text_key in known]
    if not candidates:
        return []
    others = np.stack([known[row.text_key] for row in candidates])
    scores = similarities(others, np.broadcast_to(vector, others.shape))
    scored = [
        SearchResult(row.memory, float(score))
        for row, score in zip(candidates, scores, strict=True)
        if score >= floor
    ]
    return sorted(scored, key=lambda hit: (-hit.similarity, -hit.memory.timestamp.timestamp()))


def _ancestor_keys(reader: Reader, row: Row) -> tuple[str, ...]:
    keys: dict[str, None] = {}
    todo = list(row.memory.merged_from)
    seen = set(todo)
    while todo:
        rows = reader.rows(todo)
        keys.update((found.text_key, None) for found in rows.values())
        todo = [name for found in rows.values() for name in found.memory.merged_from]
        todo = [name for name in todo if name not in seen]
        seen.update(todo)
    return tuple(keys)

"""`MemoryStore`: finds similar memories, and writes decisions to the ledger (the SQL database)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

import numpy as np
from pydantic import ValidationError

from memory.errors import InputError, LedgerError, MemoryNotFound, MemoryPipelineError
from memory.ledger import (
    Counts,
    DecisionRecord,
    Lease,
    Ledger,
    Reader,
    Row,
    Snapshot,
    Writer,
    split_repeats,
    take_snapshot,
)
from memory.models import (
    PLAIN,
    Action,
    Condition,
    Decision,
    Embedded,
    Judge,
    Memory,
    Outcome,
    Scale,
    Scope,
    ScopeField,
    SearchResult,
    Survivor,
    Vector,
    Vectors,
    first_problem,
    new_memory_id,
)
from memory.protocols import Clock, Embedder, Query, VectorIndex
from memory.runtime import telemetry
from memory.search import (
    SHORTLIST,
    SPARE,
    Probe,
    SearchRouter,
    best_of_shortlist,
    ranked,
    results,
    slack,
    word_scores,
)
from memory.store import undoing
from memory.store.applying import Applied, Applier, Conflict
from memory.store.asking import NOBODY, Asker, kept_apart
from memory.store.batch_size import AdaptiveBatchSize
from memory.store.embedding_cache import EmbeddingCache
from memory.store.forgetting import Forgotten, erase, scrub
from memory.text import clean, text_key, wordings

T = TypeVar("T")
utc_now: Clock = partial(datetime.now, UTC)
"""The default clock of a store."""


@dataclass(frozen=True)
class Nearby:
    """Which stored memories a new one is compared with: the `k` most similar ones of its scope.

    They have at least `min_similarity`. Memories whose texts a judge in `bound_by` called distinct
    from the new text are left out. `cohesive`: also leave out a memory that replaced a memory whose
    similarity to the new one is below `min_similarity`. `k` = 0: compare with no memory.
    """

    k: int
    min_similarity: float
    bound_by: tuple[Judge, ...] = NOBODY.bound_by
    cohesive: bool = False


@dataclass(frozen=True)
class NewMemory:
    """A memory that is not stored yet, with its vector, and what may be near it.

    `vector` is None if the embedder failed. `near`: ids of the memories that a search found at the
    ledger's `revision`. If the search failed, `fault` is the reason. `matches`: the stored memories
    that the new one is compared with, those with the same text first, then the most similar; they
    are looked up in the transaction that stores the new memory. `left_out`: whether a match is
    missing because of `Nearby.cohesive`. `shown`: keys of the texts that the model saw when it
    wrote the memory.
    """

    memory: Memory
    vector: Vector | None
    near: tuple[str, ...] = ()
    revision: int = 0
    fault: str = ""
    matches: tuple[SearchResult, ...] = ()
    left_out: bool = False
    shown: frozenset[str] = frozenset()


class Arrivals:
    """The memories that were stored after some new memories were prepared, with their vectors.

    `MemoryStore.write` keeps it up to date. Use one object for all calls about memories that were
    prepared together.
    """

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._vectors: Vectors = np.empty((0, 0), np.float32)
        self._revisions: dict[Scope, int] = {}
        self._own: set[int] = set()

    def catch_up(self, reader: Reader, scope: Scope, prepared_at: int) -> None:
        """Add what other transactions have stored in a scope since `prepared_at`, a revision."""
        since, now = self._revisions.get(scope, prepared_at), reader.revision()
        self._revisions[scope] = now
        if self._own.issuperset(range(since + 1, now + 1)):
            return
        rows = reader.memories.live_written_after(since, scope)
        known = reader.vectors.of(row.text_key for row in rows)
        for row in rows:
            self.add(row.memory.id, known.get(row.text_key))

    def wrote(self, revision: int) -> None:
        """Note that all memories stored by the transaction `revision` were added."""
        self._own.add(revision)

    def of(self, decision: Decision, made: Mapping[str, Embedded]) -> None:
        """Add the memories that a decision has stored. `made`: the vectors of its new texts."""
        stored = [made[one.memory.id] for one in decision.survivors if one.memory.id in made]
        for one in (*stored, *([decision.arrival] if decision.arrival else ())):
            self.add(one.memory.id, one.vector)

    def add(self, memory_id: str, vector: Vector | None) -> None:
        if vector is None:
            return
        count = len(self._ids)
        if count == len(self._vectors):
            grown = np.empty((2 * count + 8, len(vector)), np.float32)
            if count:
                grown[:count] = self._vectors
            self._vectors = grown
        self._vectors[count] = vector
        self._ids.append(memory_id)

    def near(self, vector: Vector, min_cosine: float) -> list[str]:
        """Return the ids of the memories with at least about this cosine to a vector."""
        if not self._ids:
            return []
        cosines = self._vectors[: len(self._ids)] @ vector
        rows = np.flatnonzero(cosines >= min_cosine - slack(len(vector)))
        return [self._ids[row] for row in rows.tolist()]


class MemoryStore:
    """The live memories of a ledger: find, add, change, undo and forget them.

    A store may be shared between threads. Use it as a context manager, or call `close`. Methods
    that use vectors raise EmbedderMismatch if the ledger's vectors come from another embedder.
    """

    def __init__(
        self,
        ledger: Ledger,
        embedder: Embedder,
        open_index: Callable[[Ledger], VectorIndex] | None = None,
        *,
        index_at_once: bool = False,
        vectors_mb: int = 512,
        scope_fields: tuple[ScopeField, ...] = ("user",),
        scale: Scale = PLAIN,
        hybrid: bool = True,
        clock: Clock = utc_now,
        new_id: Callable[[], str] = new_memory_id,
    ) -> None:
        """Create a store on an open ledger, which `close` will close too.

        - `vectors_mb`: at most this many MB of vectors are kept in RAM. The vectors of the least
          recently searched user are dropped first.
        - `open_index` opens an approximate index if one user's vectors exceed `vectors_mb`. Without
          it, such users are searched in the ledger, exactly but slowly.
        - `index_at_once`: open the index at the first query, even if all vectors fit.
        - `scope_fields`: only memories with equal values in all of these fields are compared.
        - `scale` turns the embedder's cosines into similarities.
        - `hybrid`: whether `search` ranks by words and cosine, or by cosine alone.
        """
        self.ledger = ledger
        self.clock = clock
        self.new_id = new_id
        self.embeddings = EmbeddingCache(ledger, embedder)
        self.index = SearchRouter(ledger, vectors_mb << 20, open_index, at_once=index_at_once)
        self.scale = scale
        self._hybrid = hybrid
        self.scope_of: Callable[[Memory], Scope] = partial(Scope.of, fields=scope_fields)
        self.scope_fields = scope_fields
        self.pace = AdaptiveBatchSize()
        self.applier = Applier(self.embeddings, lambda: self.scale, self.scope_of, clock)
        telemetry.watch(self)

    def close(self) -> None:
        telemetry.unwatch(self)
        if self.index.has_index:
            with contextlib.suppress(LedgerError):  # the next start does it
                self.scrub()
        self.index.close()
        self.ledger.close()

    def __enter__(self) -> MemoryStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def backlog(self) -> tuple[int, int]:
        """Return how many decisions wait for a model, and how many turns wait for extraction."""
        with self.ledger.reading() as reader:
            return reader.decisions.count_pending(), reader.turns.count_waiting()

    # --- reading ---

    def get(self, memory_id: str) -> Memory | None:
        with self.ledger.reading() as reader:
            row = reader.memories.row(memory_id)
        return row.memory if row is not None and row.live else None

    def memories(self) -> Iterator[Memory]:
        """Yield all live memories in the order in which they were stored."""
        with self.ledger.reading() as reader:
            yield from (row.memory for row in reader.memories.live())

    def counts(self) -> Counts:
        with self.ledger.reading() as reader:
            return reader.counts()

    def history(self, memory_id: str | None = None) -> list[DecisionRecord]:
        """Return the decisions about a memory, oldest first.

        If `memory_id` is None, return all decisions except those that only added a memory.
        """
        with self.ledger.reading() as reader:
            if memory_id is None:
                return reader.decisions.all_but_additions()
            return reader.decisions.about(clean(memory_id))

    def snapshot(
        self,
        asker: Asker = NOBODY,
        before: Snapshot | None = None,
        *,
        whole_lineage: bool = False,
    ) -> Snapshot:
        """Return all live memories, with vectors and verdicts, at one revision of the ledger.

        `asker`: a model. The snapshot lists the pairs of texts that this model need not be asked
        about. `before`: an earlier snapshot; only memories and vectors written after it are read.
        `whole_lineage`: if true, `Snapshot.ancestors` has the keys of all texts that a memory has
        replaced; if false, only the keys of the texts from which the memory was merged.
        """
        with self.ledger.reading() as reader:
            apart = kept_apart(reader, self.scope_fields)
            return take_snapshot(
                reader,
                reader.distinct.all(asker.bound_by) | apart,
                waiting=asker.waiting(reader, self.clock()),
                before=before,
                kept_apart=apart,
                read=reader.readings.all(asker.model, thorough=asker.thorough),
                whole_lineage=whole_lineage,
            )

    # --- finding ---

    def search(
        self,
        query: str,
        k: int = 5,
        *,
        user: str | None = None,
        scope: Scope | None = None,
        everyone: bool = False,
        min_score: float | None = None,
    ) -> list[SearchResult]:
        """Return the `k` live memories that answer a query best, best first.

        Give exactly one of `user`, `scope` and `everyone=True`, which searches the memories of all
        users. `min_score` leaves out results with a lower `score`. The `similarity` of a result is
        the embedder's cosine; the store's `scale` is not applied. An empty query gives an empty
        list.

        Raises: InputError if none or several of the three are given; EmbeddingError.
        """
        if (user is not None) + (scope is not None) + everyone != 1:
            remedy = "give user=NAME, or everyone=True for the memories of all users"
            raise InputError("search", "needs to know whose memories to search", remedy)
        scope = scope or (Scope(()) if user is None else Scope.of_user(user))
        if not clean(query):
            return []
        phrasings = wordings(clean(query), scope.user)
        probe = Probe(phrasings[-1], self.embeddings.query(*phrasings))
        hits = self._by_both(probe, scope, k) if self._hybrid else self._by_cosine(probe, scope, k)
        return [hit for hit in hits if min_score is None or hit.score >= min_score]

    def find_similar(
        self, content: str, threshold: float = 0.90, *, user: str | None = None
    ) -> SearchResult | None:
        """Return the user's live memory that is most similar to `content`.

        Return None if `content` is empty, or if no similarity reaches `threshold`. If `user` is
        None, memories without a user are searched. Private memories are not searched. If the
        embedder fails, only a memory with the same text is found.
        """
        if not clean(content):
            return None
        nearby = Nearby(1, threshold, ())
        [new] = self.prepare([self.new_memory(content, user=user)], nearby)
        with self.ledger.reading() as reader:
            return next(iter(self._matches(reader, new, nearby)), None)

    def prepare(self, memories: Sequence[Memory], nearby: Nearby) -> list[NewMemory]:
        """Embed new memories and search for what may be near them; return an item for each.

        No transaction is open during the search. A memory may be given several times.

        Raises: LedgerError if the ledger cannot be read; EmbedderMismatch.
        """
        keys = [text_key(memory.content) for memory in memories]
        with self.ledger.reading() as reader:
            self.embeddings.check(reader)
            revision, known = reader.revision(), reader.vectors.of(keys)
            spare = [
                self._distinct_rows(reader, memory, key, nearby) if nearby.k else 0
                for memory, key in zip(memories, keys, strict=True)
            ]
        new = [
            NewMemory(one.memory, one.vector, revision=revision)
            for one in self.embeddings.complete(memories, known)
        ]
        return self._with_near(new, spare, nearby) if nearby.k else new

    def _distinct_rows(self, reader: Reader, memory: Memory, key: str, nearby: Nearby) -> int:
        """Count the memories in scope that the search may find, but that are distinct."""
        scope = self.scope_of(memory)
        [distinct] = reader.distinct.of_all([(scope, key)], nearby.bound_by)
        return len(reader.memories.live_with_texts(distinct, scope)) if distinct else 0

    def _with_near(
        self, new: Sequence[NewMemory], spare: Sequence[int], nearby: Nearby
    ) -> list[NewMemory]:
        queries = {
            position: Query(
                one.vector,
                self.scope_of(one.memory),
                nearby.k + spare[position],
                self.scale.cosine(nearby.min_similarity, one.memory.content),
            )
            for position, one in enumerate(new)
            if one.vector is not None
        }
        try:
            near = dict(zip(queries, self.index.nearest(list(queries.values())), strict=True))
        except MemoryPipelineError as exc:
            return [replace(one, fault=str(exc)) for one in new]
        return [replace(one, near=tuple(near.get(n, ()))) for n, one in enumerate(new)]

    # --- writing ---

    def new_memory(self, content: str, *, user: str | None = None) -> Memory:
        """Return a memory with a new id and the current time, without storing it."""
        return Memory(id=self.new_id(), content=content, user=user, timestamp=self.clock())

    def add(self, memory: Memory) -> Memory:
        """Store a memory without comparing it with similar ones, and return it as stored.

        If it was stored before, return the stored memory or its live successor.
        """
        new = [NewMemory(one.memory, one.vector) for one in self.embeddings.embed([memory])]
        [outcome] = self.write(new, Nearby(0, 1.0), _as_it_is)
        return outcome.memory if isinstance(outcome, Outcome) else memory

    def add_batch(self, memories: Sequence[Memory], *, run: str | None = None) -> int:
        """Store memories in one transaction, without comparing them with similar ones.

        Return how many of them were not stored before. `run`: the name of the batch or import under
        which the decisions are recorded; None if they belong to none.
        """
        return sum(one is None for one in self._add_all(memories, run))

    def _add_all(self, memories: Sequence[Memory], run: str | None) -> list[Memory | None]:
        """Store memories as they are; return those that were stored before, or None."""
        stored: list[Memory | None] = []
        embedded = self.embeddings.embed(memories)
        with self._writing(len(memories)) as writer:
            for part in split_repeats(memories):
                new = []
                found = writer.memories.earlier_arrivals(memories[part])
                for one, arrival in zip(embedded[part], found, strict=True):
                    memory = self._received(writer, one.memory, *arrival)
                    stored.append(memory if arrival[0] is not None else None)
                    if arrival[0] is None:
                        new.append(replace(one, memory=memory))
                self.applier.add(writer, new, "stored as it is", run)
        telemetry.decisions.add(
            stored.count(None), {"kind": Action.ADD.value, "pending": False, "by": "policy"}
        )
        return stored

    def write(
        self,
        new: Sequence[NewMemory],
        nearby: Nearby,
        decide: Callable[[NewMemory], Decision | T],
        *,
        arrivals: Arrivals | None = None,
        answered: Decision | None = None,
        run: str | None = None,
        lease: Lease | None = None,
    ) -> list[Outcome | Conflict | T]:
        """Decide about prepared memories and store them, in order and in one transaction.

        `decide` gets each memory with its `matches`. If it returns a Decision, the decision is
        applied at once, and the next memory is compared with the result. If it returns anything
        else, or a decision whose condition does not hold, that is the last item of the result, and
        the memories after it are not stored.

        `nearby`: what was given to `prepare`. `arrivals`: needed if the memories are written in
        several calls. `answered`: the decision about the first memory, if it is made already.
        `run`: the name of the batch or import that the decisions are recorded under.

        Raises: LeaseLost if `lease` is given but no longer held; nothing is stored then.
        """
        made = self.applier.vectors_of_made([answered]) if answered else {}
        arrivals = arrivals or Arrivals()
        done: list[Outcome | Conflict | T] = []
        applied: list[Decision] = []
        with self._writing(len(new)) as writer:
            if lease is not None:
                writer.leases.check(lease)
            for one in new:
                decided: Decision | Outcome | T
                if answered is None:
                    decided = self._decided(writer, one, nearby, decide, arrivals)
                else:
                    decided, answered = answered, None
                if not isinstance(decided, Decision):
                    done.append(decided)
                    if isinstance(decided, Outcome):
                        continue
                    break
                result = self.applier.apply(writer, decided, made, run)
                if isinstance(result, Conflict):
                    done.append(result)
                    break
                done.append(outcome_of(result, decided))
                applied.append(decided)
                arrivals.of(decided, made)
            arrivals.wrote(writer.transaction.revision)
        _count(applied)
        return done

    def _decided(
        self,
        writer: Writer,
        new: NewMemory,
        nearby: Nearby,
        decide: Callable[[NewMemory], Decision | T],
        arrivals: Arrivals,
    ) -> Decision | Outcome | T:
        [arrival] = writer.memories.earlier_arrivals([new.memory])
        memory = self._received(writer, new.memory, *arrival)
        if arrival[0] is not None:
            return Outcome(memory, Action.KNOWN, "it arrived before")
        found = replace(new, memory=memory, revision=writer.revision())
        matches: tuple[SearchResult, ...] = ()
        if nearby.k:
            arrivals.catch_up(writer, self.scope_of(memory), new.revision)
            matches = self._matches(writer, found, nearby, arrivals)
        near = self._cohesive(writer, found, matches, nearby)
        decision = decide(replace(found, matches=near, left_out=len(near) < len(matches)))
        if isinstance(decision, Decision) and decision.arrival is None:
            return replace(decision, arrival=Embedded(memory, new.vector))
        return decision

    def update(self, memory_id: str, new_content: str) -> None:
        """Replace the text of a memory, which keeps its id.

        The old text is kept as a retired memory with a new id.

        Raises: MemoryNotFound; InputError if the new text is empty or too long.
        """
        while True:
            with self.ledger.reading() as reader:
                row, revision = reader.memories.row(memory_id), reader.revision()
            if row is None or not row.live:
                raise MemoryNotFound(memory_id)
            survivor = reworded(row.memory, new_content, self.new_id())
            decision = Decision(
                Action.UPDATE,
                "text replaced",
                (row.memory,),
                (survivor,),
                condition=Condition(revision),
            )
            if isinstance(self.apply(decision), Applied):
                return

    def apply(
        self, decision: Decision, *, run: str | None = None, lease: Lease | None = None
    ) -> Applied | Conflict:
        """Apply a decision if its condition still holds; else change nothing, return a Conflict.

        `run`, `lease`: as for `write`.
        """
        return self.apply_all([decision], run=run, lease=lease)[0]

    def apply_all(
        self, decisions: Sequence[Decision], *, run: str | None = None, lease: Lease | None = None
    ) -> list[Applied | Conflict]:
        """Apply decisions in order and in one transaction; return an item for each.

        Each decision is applied if its condition holds after the decisions before it.
        """
        has_survivors = any(one.survivors for one in decisions)
        made = self.applier.vectors_of_made(decisions) if has_survivors else {}
        with self._writing(len(decisions)) as writer:
            if lease is not None:
                writer.leases.check(lease)
            done = [self.applier.apply(writer, one, made, run) for one in decisions]
        _count(
            one for one, result in zip(decisions, done, strict=True) if isinstance(result, Applied)
        )
        return done

    def _writing(self, count: int) -> AbstractContextManager[Writer]:
        paced = count > 1 or self.pace.size == 1  # else a single one teaches nothing
        return self.pace.writing(self.ledger, count) if paced else self.ledger.writing()

    def undo(self, target: int | str, *, keep_apart: bool = True) -> list[DecisionRecord]:
        """Undo a decision, given by its number, or a whole run, given by its name.

        The members of an undone decision get back their texts, values and links. Memories that the
        decision created are erased. If a person made the decision, its verdicts are withdrawn.
        Return the undone decisions, newest first.

        `keep_apart`: whether memories joined by an undone decision are recorded as distinct. The
        record counts as a person's verdict, so no batch joins these memories again.

        Raises: CannotUndo if any part cannot be undone; nothing is undone then.
        """
        with self.ledger.writing() as writer:
            return undoing.undo(writer, target, self.scope_of, self.clock, keep_apart)

    def forget(self, memory_id: str) -> Forgotten:
        """Erase a memory for good, and all retired memories that it replaced.

        `erased` of the result is False if a search index, the database's log or a copy of the
        ledger may still hold the memories' texts. The index and the log are cleared later. A person
        must delete the copies; `set_aside` has their paths.

        Raises: MemoryNotFound; StillStatedBy if the memory was retired and its successor is live.
        """
        memory, origins = erase(self.ledger, clean(memory_id), self.clock())
        aside = tuple(self.ledger.set_aside_files())
        erased = self.scrub() and not aside
        return Forgotten(memory, erased=erased, origins=origins, set_aside=aside)

    def scrub(self) -> bool:
        """Erase what the search index and the database's log still hold of forgotten memories.

        Return whether both are free of forgotten memories afterwards.
        """
        return scrub(self.ledger, self.index)

    # --- inside ---

    def _by_cosine(self, probe: Probe, scope: Scope, k: int) -> list[SearchResult]:
        with self.ledger.reading() as reader:
            self.embeddings.check(reader)
        [near] = self.index.nearest([Query(probe.vector, scope, k)])
        with self.ledger.reading() as reader:
            rows = reader.memories.rows(near).values()
            return ranked(reader, probe, [row for row in rows if row.live], PLAIN)

    def _by_both(self, probe: Probe, scope: Scope, k: int) -> list[SearchResult]:
        with self.ledger.reading() as reader:
            self.embeddings.check(reader)
            words = word_scores(reader, probe.text, scope)
        best = self.index.best(Query(probe.vector, scope, k + SPARE), words)
        wide = Query(probe.vector, scope, max(k, SHORTLIST))
        near = self.index.nearest([wide])[0] if best is None else []
        with self.ledger.reading() as reader:
            best = best or best_of_shortlist(reader, probe, near, words, scope, k)
            return results(reader, probe, best, words, k)

    def _received(
        self, reader: Reader, memory: Memory, earlier: Row | None, id_is_taken: bool
    ) -> Memory:
        """Return the memory with an unused id; if it is stored already, its live successor."""
        if earlier is not None:
            alive = earlier if earlier.live else reader.memories.living(earlier.memory.id)
            return memory if alive is None else alive.memory
        if not id_is_taken:
            return memory
        own = {"id": self.new_id(), "external_id": memory.external_id or memory.id}
        return memory.model_copy(update=own)

    def _matches(
        self,
        reader: Reader,
        new: NewMemory,
        nearby: Nearby,
        arrivals: Arrivals | None = None,
    ) -> tuple[SearchResult, ...]:
        """Return the stored memories that a new memory is compared with, most similar first.

        `arrivals`: the memories that were stored after the search.
        """
        memory, scope = new.memory, self.scope_of(new.memory)
        key = text_key(memory.content)
        copies = reader.memories.live_with_texts([key], scope)
        matches = [SearchResult(row.memory, 1.0) for row in copies]
        names = list(new.near)
        if arrivals is not None and new.vector is not None:
            min_cosine = self.scale.cosine(nearby.min_similarity, memory.content)
            names += arrivals.near(new.vector, min_cosine)
        rows = reader.memories.rows(names)
        if new.vector is not None and rows:
            [distinct] = reader.distinct.of_all([(scope, key)], nearby.bound_by)
            others = [
                row
                for row in rows.values()
                if row.live
                and row.text_key not in (key, *distinct)
                and self.scope_of(row.memory) == scope
            ]
            alike = ranked(reader, Probe(memory.content, new.vector), others, self.scale)
            matches += [hit for hit in alike if hit.similarity >= nearby.min_similarity]
        return tuple(matches[: nearby.k])

    def _cohesive(
        self, reader: Reader, new: NewMemory, matches: tuple[SearchResult, ...], nearby: Nearby
    ) -> tuple[SearchResult, ...]:
        """Return the matches without those that have replaced a memory unlike the new one.

        For example, the new memory is similar to b, and b has replaced a. If the new memory is not
        similar to a, then b is left out. Memories without a vector do not count.
        """
        if not nearby.cohesive or new.vector is None:
            return matches
        probe, like = Probe(new.memory.content, new.vector), []
        for hit in matches:
            replaced = reader.memories.rows(reader.memories.ancestors(hit.memory.id)).values()
            alike = ranked(reader, probe, replaced, self.scale)
            if all(one.similarity >= nearby.min_similarity for one in alike):
                like.append(hit)
        return tuple(like)


def _as_it_is(new: NewMemory) -> Decision:
    return Decision(Action.ADD, "stored as it is", (new.memory,))


def outcome_of(done: Applied, decision: Decision) -> Outcome:
    return Outcome(
        done.memory,
        decision.action,
        decision.reason,
        decision.usage,
        decision.pending,
        done.number,
    )


def _count(applied: Iterable[Decision]) -> None:
    for one in applied:
        by = one.model or "policy"
        telemetry.decisions.add(1, {"kind": one.action.value, "pending": one.pending, "by": by})


def reworded(memory: Memory, content: str, version_id: str) -> Survivor:
    """Return a Survivor that changes the text of `memory` to `content` and keeps the memory's id.

    A retired memory with the id `version_id` gets the former text.

    Raises: InputError if the new text is empty or too long.
    """
    version = memory.model_copy(update={"id": version_id, "linked_ids": ()})
    try:
        renewed = Memory.model_validate({**dict(memory), "content": content})
    except ValidationError as exc:
        raise InputError(memory.id, first_problem(exc).what) from exc
    return Survivor(renewed, (version.id,), version)

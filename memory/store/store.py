"""`MemoryStore`: finds similar memories, and writes decisions to the ledger (the SQL database)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

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
    split_repeats,
    take_snapshot,
)
from memory.models import (
    MAX_CONTENT,
    PLAIN,
    Action,
    Decision,
    Embedded,
    Judge,
    Memory,
    Scale,
    Scope,
    ScopeField,
    SearchResult,
    Survivor,
    Vector,
    check_length,
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
    ranked_by,
    results,
    word_scores,
)
from memory.store import undoing
from memory.store.applying import (
    Applied,
    Applier,
    Condition,
    Conflict,
    Decided,
    Unconditional,
    WhileUnchanged,
)
from memory.store.asking import NOBODY, Asker, kept_apart
from memory.store.batch_size import AdaptiveBatchSize
from memory.store.embedding_cache import EmbeddingCache
from memory.store.forgetting import Forgotten, erase, scrub
from memory.text import clean, text_key, wordings

utc_now: Clock = partial(datetime.now, UTC)
"""The default clock of a store."""


@dataclass(frozen=True)
class Neighbours:
    """The stored memories that are most similar to a new memory, most similar first.

    `revision` is the ledger's revision before the search. `distinct`: the text keys (hashes) of
    texts that were judged distinct from the new memory's text. `matches` has no memories with these
    texts, except memories with the same text as the new memory.
    """

    matches: tuple[SearchResult, ...]
    revision: int
    distinct: frozenset[str] = frozenset()


@dataclass(frozen=True)
class NewMemory:
    """A memory that is not stored yet, with an unused id, its vector and its neighbours.

    If the search for neighbours failed, `neighbours` is the reason.
    """

    new: Embedded
    neighbours: Neighbours | str


@dataclass(frozen=True)
class AlreadyStored:
    """The result for a memory that was stored before.

    `memory` is the stored memory or, if that was retired, its live successor. If the stored memory
    was forgotten, `memory` is the one that the caller gave.
    """

    memory: Memory


@dataclass(frozen=True)
class _Look:
    scope: Scope
    key: str
    revision: int
    same: tuple[Row, ...]
    distinct: frozenset[str]
    hidden: int
    """The number of live memories in the scope that have a text key in `distinct`.

    The search asks for this many extra memories, because these may later be left out.
    """


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
        check_length("query", query, MAX_CONTENT)
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
        [probe] = self.embeddings.embed([self.new_memory(content, user=user)])
        with self.ledger.reading() as reader:
            looks = self._looks(reader, [probe.memory], bound_by=())
        [found] = self._neighbours(looks, [probe], 1, threshold)
        return next(iter(found.matches), None)

    def prepare(
        self,
        new: Sequence[Memory | Embedded],
        k: int,
        min_similarity: float,
        asker: Asker = NOBODY,
    ) -> list[AlreadyStored | NewMemory]:
        """Look up what is needed to decide about new memories; return an item for each, in order.

        A NewMemory has the `k` most similar live memories in its scope with at least
        `min_similarity`, those with the same text first. A memory with another text is left out if
        that text was called distinct from the new memory's text. Only verdicts of the judges in
        `asker.bound_by` count.

        A memory given with its vector is not embedded again. `new` must not contain a memory twice;
        `split_repeats` separates repetitions.

        Raises: LedgerError if the ledger cannot be read; EmbedderMismatch.
        """
        memories = [one.memory if isinstance(one, Embedded) else one for one in new]
        with self.ledger.reading() as reader:
            received = self._received(reader, memories)
            own = [one for one in received if isinstance(one, Memory)]
            looks = self._looks(reader, own, asker.bound_by) if own else []
            vectors = reader.vectors.of(look.key for look in looks)
        made = {
            text_key(one.memory.content): one.vector for one in new if isinstance(one, Embedded)
        }
        arrived = self.embeddings.complete(own, vectors | made)
        found: Sequence[Neighbours | str]
        try:
            found = self._neighbours(looks, arrived, k, min_similarity)
        except MemoryPipelineError as exc:
            found = [str(exc)] * len(arrived)
        arrivals = map(NewMemory, arrived, found)
        return [one if isinstance(one, AlreadyStored) else next(arrivals) for one in received]

    # --- writing ---

    def new_memory(self, content: str, *, user: str | None = None) -> Memory:
        """Return a memory with a new id and the current time, without storing it."""
        return Memory(id=self.new_id(), content=content, user=user, timestamp=self.clock())

    def add(self, memory: Memory) -> Memory:
        """Store a memory without comparing it with similar ones, and return it as stored.

        If it was stored before, return the stored memory or its live successor.
        """
        [stored] = self._add_all([memory], None)
        return stored.memory

    def add_batch(self, memories: Sequence[Memory], *, run: str | None = None) -> int:
        """Store memories in one transaction, without comparing them with similar ones.

        Return how many of them were not stored before. `run`: the name of the batch or import under
        which the decisions are recorded; None if they belong to none.
        """
        return sum(isinstance(one, Applied) for one in self._add_all(memories, run))

    def _add_all(
        self, memories: Sequence[Memory], run: str | None
    ) -> list[AlreadyStored | Applied]:
        stored: list[AlreadyStored | Applied] = []
        embedded = self.embeddings.embed(memories)
        with self.pace.writing(self.ledger, len(memories)) as writer:
            for part in split_repeats(memories):
                received = self._received(writer, memories[part])
                todo = [
                    Decided(
                        Decision(Action.ADD, "stored as it is", (memory,)),
                        Unconditional(),
                        replace(one, memory=memory),
                    )
                    for one, memory in zip(embedded[part], received, strict=True)
                    if isinstance(memory, Memory)
                ]
                done = iter(self.applier.write(writer, todo, {}, run) if todo else ())
                stored += [
                    one if isinstance(one, AlreadyStored) else next(done) for one in received
                ]
        return stored

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
            decision = Decision(Action.UPDATE, "text replaced", (row.memory,), (survivor,))
            if isinstance(self.apply(decision, WhileUnchanged(revision)), Applied):
                return

    def apply(
        self,
        decision: Decision,
        condition: Condition,
        *,
        arrival: Embedded | None = None,
        run: str | None = None,
    ) -> Applied | Conflict:
        """Apply one decision if `condition` still holds; else change nothing and return a Conflict.

        `arrival` is the member that is not stored yet, with its vector; None if all are stored.
        """
        [done] = self.apply_all([Decided(decision, condition, arrival)], run=run)
        return done

    def apply_all(
        self, decided: Sequence[Decided], *, run: str | None = None, lease: Lease | None = None
    ) -> list[Applied | Conflict]:
        """Apply decisions in one transaction; return an Applied or a Conflict for each, in order.

        The result has at least one item, but may be shorter than `decided`. The last decisions were
        then not tried, and the caller prepares and decides them again. One of these is the reason:

        - A decision about a new memory had a Conflict.
        - The ledger may have changed after a new memory was prepared.

        `run` is the name of the batch or import that the decisions are recorded under.

        Raises: LeaseLost if `lease` is given but no longer held; nothing is applied then.
        """
        has_survivors = any(one.decision.survivors for one in decided)
        made = self.applier.vectors_of_made(decided) if has_survivors else {}
        count, pace = len(decided), self.pace
        paced = count > 1 or pace.size == 1  # else a single one teaches nothing
        with pace.writing(self.ledger, count) if paced else self.ledger.writing() as writer:
            if lease is not None:
                writer.leases.check(lease)
            done = self.applier.apply(writer, decided, made, run)
        for one, outcome in zip(decided, done, strict=False):
            if isinstance(outcome, Applied):
                kind, pending = one.decision.action.value, one.decision.pending
                by = one.decision.model or "policy"
                telemetry.decisions.add(1, {"kind": kind, "pending": pending, "by": by})
        return done

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

        `erased` of the result is False if a search index, the database's files or a copy of the
        ledger may still hold the memories' texts. The first two are cleared later. A person
        must delete the copies; `set_aside` has their paths.

        Raises: MemoryNotFound; StillStatedBy if the memory was retired and its successor is live.
        """
        memory, origins = erase(self.ledger, clean(memory_id), self.clock())
        aside = tuple(self.ledger.set_aside_files())
        erased = self.scrub() and not aside
        return Forgotten(memory, erased=erased, origins=origins, set_aside=aside)

    def scrub(self) -> bool:
        """Erase what the search index and the database's files still hold of forgotten memories.

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

    def _received(self, reader: Reader, memories: Sequence[Memory]) -> list[AlreadyStored | Memory]:
        received: list[AlreadyStored | Memory] = []
        found = reader.memories.earlier_arrivals(memories)
        for memory, (earlier, id_is_taken) in zip(memories, found, strict=True):
            if earlier is not None:
                alive = earlier if earlier.live else reader.memories.living(earlier.memory.id)
                received.append(AlreadyStored(memory if alive is None else alive.memory))
            elif id_is_taken:
                own = {"id": self.new_id(), "external_id": memory.external_id or memory.id}
                received.append(memory.model_copy(update=own))
            else:
                received.append(memory)
        return received

    def _looks(
        self, reader: Reader, memories: Sequence[Memory], bound_by: Sequence[Judge]
    ) -> list[_Look]:
        self.embeddings.check(reader)
        keys = [text_key(memory.content) for memory in memories]
        scopes = [self.scope_of(memory) for memory in memories]
        apart = reader.distinct.of_all(list(zip(scopes, keys, strict=True)), bound_by)
        same: dict[tuple[Scope, str], list[Row]] = {}
        scope_of_all = scopes[0] if len(set(scopes)) == 1 else Scope(())
        for row in reader.memories.live_with_texts(set(keys).union(*apart), scope_of_all):
            same.setdefault((self.scope_of(row.memory), row.text_key), []).append(row)
        looks = []
        for scope, key, others in zip(scopes, keys, apart, strict=True):
            copies = tuple(same.get((scope, key), ()))
            hidden = sum(len(same.get((scope, other), ())) for other in others)
            looks.append(_Look(scope, key, reader.revision(), copies, frozenset(others), hidden))
        return looks

    def _neighbours(
        self, looks: Sequence[_Look], new: Sequence[Embedded], k: int, min_similarity: float
    ) -> list[Neighbours]:
        """Return the `k` most similar stored memories of each new memory, most similar first.

        `looks`: what the ledger holds about each new memory's text, in the order of `new`. No
        transaction is open during the search.
        """
        queries: dict[int, Query] = {}
        for position, (look, one) in enumerate(zip(looks, new, strict=True)):
            wanted = k + look.hidden
            if one.vector is not None and len(look.same) < wanted:
                min_cosine = self.scale.cosine(min_similarity, one.memory.content)
                queries[position] = Query(one.vector, look.scope, wanted, min_cosine)
        answers = self.index.nearest(list(queries.values())) if queries else []
        near = dict(zip(queries, answers, strict=True))
        rows: dict[str, Row] = {}
        known: dict[str, Vector] = {}
        if names := list(dict.fromkeys(name for answer in answers for name in answer)):
            with self.ledger.reading() as reader:
                rows = reader.memories.rows(names)
                known = reader.vectors.of(row.text_key for row in rows.values())
        found = []
        for position, (look, one) in enumerate(zip(looks, new, strict=True)):
            matches = [SearchResult(row.memory, 1.0) for row in look.same]
            others = [
                row
                for row in (rows[name] for name in near.get(position, ()) if name in rows)
                if row.live
                and row.text_key not in (look.key, *look.distinct)
                and self.scope_of(row.memory) == look.scope
            ]
            if one.vector is not None and others:
                alike = ranked_by(known, Probe(one.memory.content, one.vector), others, self.scale)
                matches += [hit for hit in alike if hit.similarity >= min_similarity]
            found.append(Neighbours(tuple(matches[:k]), look.revision, look.distinct))
        return found


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

"""Write new memories: prepare them, decide about them, and apply the decisions in a transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import combinations
from typing import TypeVar

import numpy as np

from memory.errors import MemoryPipelineError
from memory.ledger import (
    BATCH_PAUSE,
    NOTHING_BEFORE,
    AdaptiveBatchSize,
    Lease,
    Ledger,
    Reader,
    Writer,
    with_verdicts,
)
from memory.models import (
    OFFLINE,
    PERSON,
    Action,
    Clock,
    Condition,
    Decision,
    Embedded,
    Embedder,
    Judge,
    Memory,
    Outcome,
    Query,
    Row,
    Scale,
    Scope,
    ScopeField,
    SearchResult,
    Survivor,
    Vector,
    Vectors,
    slack,
)
from memory.runtime import telemetry
from memory.search import Probe, SearchRouter, ranked
from memory.store.embedding_cache import EmbeddingCache
from memory.text import text_key, text_of

T = TypeVar("T")
_NO_CONDITION = Condition()


@dataclass(frozen=True)
class Nearby:
    """The stored memories that a new one is compared with: the `k` most similar ones of its scope.

    They have at least `min_similarity`. Memories whose texts a judge in `bound_by` called distinct
    from the new text are left out. `cohesive`: also leave out a memory that replaced a memory whose
    similarity to the new one is below `min_similarity`. `k` = 0: compare with no memory.

    >>> outcome = memories.remember("Kim has a cat.", user="Kim")
    >>> new = store.new_memory("Kim has a red cat.", user="Kim")
    >>> wide, narrow = Nearby(k=5, min_similarity=0.5), Nearby(k=5, min_similarity=0.99)
    >>> [len(store.prepare([new], nearby)[0].near) for nearby in (wide, narrow)]
    [1, 0]
    """

    k: int
    min_similarity: float
    bound_by: tuple[Judge, ...] = ("model", PERSON)
    cohesive: bool = False


@dataclass(frozen=True)
class NewMemory:
    """A memory that is not stored yet, with its vector, and what may be near it.

    `MemoryStore.prepare` makes it. `vector` is None if the embedder failed. `near`: ids of the
    memories that a search for `nearby` found at the ledger's `revision`. If the search failed,
    `fault` is the reason. `arrivals`: shared by memories that were prepared together.

    The caller may add two fields. `shown`: keys of the texts that the model saw when it wrote the
    memory. `decided`: the decision about the memory, if it is made before the memory is written.

    Two fields are looked up in the transaction that stores the memory. `matches`: the stored
    memories that it is compared with, those with the same text first, then the most similar.
    `left_out`: whether a match is missing because of `Nearby.cohesive`.

    >>> outcome = memories.remember("Leo has a cat.", user="Leo")
    >>> new = store.new_memory("Leo has a red cat.", user="Leo")
    >>> [prepared] = store.prepare([new], Nearby(k=5, min_similarity=0.8))
    >>> prepared.near == (outcome.memory.id,), prepared.vector.shape, store.get(new.id)
    (True, (256,), None)
    """

    memory: Memory
    vector: Vector | None
    nearby: Nearby = Nearby(0, 1.0)
    near: tuple[str, ...] = ()
    revision: int = 0
    fault: str = ""
    arrivals: Arrivals | None = None
    shown: frozenset[str] = frozenset()
    decided: Decision | None = None
    matches: tuple[SearchResult, ...] = ()
    left_out: bool = False


class Arrivals:
    """The memories that were stored after some new memories were prepared, with their vectors.

    `MemoryStore.write` keeps it up to date.
    """

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._vectors: Vectors = np.empty((0, 0), np.float32)
        self._revisions: dict[Scope, int] = {}
        self._own: set[int] = set()

    def near(
        self, reader: Reader, scope: Scope, vector: Vector, prepared_at: int, min_cosine: float
    ) -> list[str]:
        """Return the ids of the memories with at least about this cosine to a vector.

        Memories that other transactions have stored in `scope` after the revision `prepared_at` are
        read from the ledger.
        """
        since, now = self._revisions.get(scope, prepared_at), reader.revision()
        self._revisions[scope] = now
        if not self._own.issuperset(range(since + 1, now + 1)):
            rows = reader.memories.live_written_after(since, scope)
            known = reader.vectors.of(row.text_key for row in rows)
            for row in rows:
                self._add(row.memory.id, known.get(row.text_key))
        if not self._ids:
            return []
        cosines = self._vectors[: len(self._ids)] @ vector
        found = np.flatnonzero(cosines >= min_cosine - slack(len(vector)))
        return [self._ids[row] for row in found.tolist()]

    def add(self, decision: Decision, made: Mapping[str, Embedded], revision: int) -> None:
        """Add what a decision stores in the transaction `revision`.

        `made`: the vectors of new texts, by memory id. All decisions of the transaction must be
        added.
        """
        self._own.add(revision)
        stored = [made[one.memory.id] for one in decision.survivors if one.memory.id in made]
        for one in (*stored, *([decision.arrival] if decision.arrival else ())):
            self._add(one.memory.id, one.vector)

    def _add(self, memory_id: str, vector: Vector | None) -> None:
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


@dataclass(frozen=True)
class Conflict:
    """The result of a decision whose condition did not hold. Nothing was changed.

    `why` is, for example, "mem_0123456789ab changed". The caller must read the memories again, and
    make a new decision.

    >>> old = memories.remember("Yul has a cat.", user="Yul").memory
    >>> with store.ledger.reading() as reader:
    ...     condition = Condition(revision=reader.revision())
    >>> new = memories.update(old.id, "Yul has two cats.")
    >>> done = store.apply(Decision(Action.KEEP_BOTH, "", (old,), condition=condition))
    >>> isinstance(done, Conflict), done.why == f"{old.id} changed"
    (True, True)
    """

    why: str


class MemoryWriter:
    """The part of `MemoryStore` that writes new memories and applies decisions."""

    def __init__(
        self,
        ledger: Ledger,
        embedder: Embedder,
        index: SearchRouter,
        scale: Scale,
        scope_fields: tuple[ScopeField, ...],
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        self.ledger = ledger
        self.embeddings = EmbeddingCache(ledger, embedder)
        self.index = index
        self.scale = scale
        self.scope_fields = scope_fields
        self.scope_of: Callable[[Memory], Scope] = partial(Scope.of, fields=scope_fields)
        self.clock = clock
        self.new_id = new_id
        self.pace = AdaptiveBatchSize()

    # --- one new memory: prepare, look up, decide, apply ---

    def prepare(self, memories: Sequence[Memory], nearby: Nearby) -> list[NewMemory]:
        """Embed new memories and search for what may be near them; return an item for each.

        No transaction is open during the search. A memory may be given several times.

        >>> store.prepare([], Nearby(4, 0.9))
        []

        Raises: LedgerError if the ledger cannot be read; EmbedderMismatch.
        """
        keys = [text_key(memory.content) for memory in memories]
        scopes = [self.scope_of(memory) for memory in memories]
        with self.ledger.reading(self.clock()) as reader:
            self.embeddings.check(reader)
            revision, known = reader.revision(), reader.vectors.of(keys)
            distinct = reader.distinct.of_all(
                [(scope, one.dated_key) for scope, one in zip(scopes, memories, strict=True)],
                nearby.bound_by,
            )
            spare = [  # the search may find these, but they are left out
                len(reader.memories.live_with_texts({*map(text_of, others)}, scope))
                if others
                else 0
                for others, scope in zip(distinct, scopes, strict=True)
            ]
        arrivals = Arrivals() if len(memories) > 1 else None
        new = [
            NewMemory(one.memory, one.vector, nearby, revision=revision, arrivals=arrivals)
            for one in self.embeddings.embed(memories, known)
        ]
        queries = {
            n: Query(
                one.vector,
                scopes[n],
                nearby.k + spare[n],
                self.scale.cosine(nearby.min_similarity, one.memory.content),
            )
            for n, one in enumerate(new)
            if one.vector is not None and nearby.k
        }
        try:
            near = dict(zip(queries, self.index.nearest(list(queries.values())), strict=True))
        except MemoryPipelineError as exc:
            return [replace(one, fault=str(exc)) for one in new]
        return [replace(one, near=tuple(near.get(n, ()))) for n, one in enumerate(new)]

    def write(
        self,
        new: Sequence[NewMemory],
        decide: Callable[[NewMemory], Decision | T],
        *,
        run: str | None = None,
        lease: Lease | None = None,
    ) -> list[Outcome | Conflict | T]:
        """Decide about prepared memories and store them, in order and in one transaction.

        `decide` gets each memory with its `matches`. If it returns a Decision, the decision is
        applied at once, with the matches as its candidates, and the next memory is compared with
        the result. If it returns anything else, or a decision whose condition does not hold, that
        is the last item of the result, and the memories after it are not stored.

        `run`: the name of the batch or import that the decisions are recorded under.

        >>> store.write([], lambda new: None)
        []

        Raises: LeaseLost if `lease` is given but no longer held; nothing is stored then.
        """
        answered = [one.decided for one in new if one.decided]
        made = self._vectors_of_made(answered) if answered else {}
        done: list[Outcome | Conflict | T] = []
        contents = (one.memory.content for one in new)
        with self.pace.writing(self.ledger, len(new), contents) as writer:
            if lease is not None:
                writer.leases.check(lease)
            for one in new:
                decided = self._decided(writer, one, decide) if one.decided is None else one.decided
                if not isinstance(decided, Decision):
                    done.append(decided)
                else:
                    done.append(self._apply(writer, decided, made, run))
                    if one.arrivals is not None and isinstance(done[-1], Outcome):
                        one.arrivals.add(decided, made, writer.transaction.revision)
                if not isinstance(done[-1], Outcome):
                    break
            stored = [one.memory for one in done if isinstance(one, Outcome) and one.number]
            self._end_outdated(writer, stored, run)
        return done

    def _decided(
        self, writer: Writer, new: NewMemory, decide: Callable[[NewMemory], Decision | T]
    ) -> Decision | Outcome | T:
        """Look up a new memory and its matches, and decide about it; an Outcome if it is known."""
        memory = new.memory
        [(earlier, id_is_taken)] = writer.memories.earlier_arrivals([memory])
        if earlier is not None or id_is_taken:
            memory = self._received(writer, memory, earlier)
        if earlier is not None:
            return Outcome(memory, Action.KNOWN, "it arrived before")
        matches = self._matches(writer, memory, new)
        near = self._cohesive(writer, new, matches) if new.nearby.cohesive else matches
        revision, left_out = writer.revision(), len(near) < len(matches)
        decision = decide(
            replace(new, memory=memory, revision=revision, matches=near, left_out=left_out)
        )
        if not isinstance(decision, Decision):
            return decision
        arrival = decision.arrival or Embedded(memory, new.vector)
        candidates = tuple((hit.memory.id, hit.similarity) for hit in near)
        return replace(decision, arrival=arrival, candidates=candidates)

    def _received(self, reader: Reader, memory: Memory, earlier: Row | None) -> Memory:
        """Return the live successor of `earlier`; if it is None, the memory with an unused id."""
        if earlier is not None:
            alive = earlier if earlier.live else reader.memories.living(earlier.memory.id)
            return memory if alive is None else alive.memory
        own = {"id": self.new_id(), "external_id": memory.external_id or memory.id}
        return memory.model_copy(update=own)

    def _matches(self, reader: Reader, memory: Memory, new: NewMemory) -> tuple[SearchResult, ...]:
        """Return the stored memories that a new memory is compared with, most similar first.

        They are those that the search found, and those that were stored after it.
        """
        nearby, arrivals = new.nearby, new.arrivals
        if not nearby.k:
            return ()
        scope, key = self.scope_of(memory), text_key(memory.content)
        copies = reader.memories.live_with_texts([key], scope)
        matches = [SearchResult(row.memory, 1.0) for row in copies]
        names = list(new.near)
        came = arrivals is not None or reader.revision() > new.revision
        if new.vector is not None and came:
            min_cosine = self.scale.cosine(nearby.min_similarity, memory.content)
            arrivals = arrivals or Arrivals()
            names += arrivals.near(reader, scope, new.vector, new.revision, min_cosine)
        rows = reader.memories.rows(names)
        if new.vector is not None and rows:
            [distinct] = reader.distinct.of_all([(scope, memory.dated_key)], nearby.bound_by)
            others = [
                row
                for row in rows.values()
                if row.live
                and row.text_key != key
                and row.dated_key not in distinct
                and self.scope_of(row.memory) == scope
            ]
            alike = ranked(reader, Probe(memory.content, new.vector), others, self.scale)
            matches += [hit for hit in alike if hit.similarity >= nearby.min_similarity]
        return tuple(matches[: nearby.k])

    def _cohesive(
        self, reader: Reader, new: NewMemory, matches: tuple[SearchResult, ...]
    ) -> tuple[SearchResult, ...]:
        """Return the matches without those that have replaced a memory unlike the new one.

        For example, the new memory is similar to b, and b has replaced a. If the new memory is not
        similar to a, then b is left out. Memories without a vector do not count.
        """
        if new.vector is None:
            return matches
        probe, like = Probe(new.memory.content, new.vector), []
        for hit in matches:
            replaced = reader.memories.rows(reader.memories.ancestors(hit.memory.id)).values()
            alike = ranked(reader, probe, replaced, self.scale)
            if all(one.similarity >= new.nearby.min_similarity for one in alike):
                like.append(hit)
        return tuple(like)

    def _apply(
        self,
        writer: Writer,
        decision: Decision,
        made: Mapping[str, Embedded],
        run: str | None,
    ) -> Outcome | Conflict:
        """Apply a decision completely, or not at all if its condition does not hold.

        `made`: what `_vectors_of_made` returned for the decision.
        """
        if decision.condition != _NO_CONDITION and (why := self._conflict(writer, decision)):
            return Conflict(why)
        arrival, survivors = decision.arrival, decision.survivors
        names = {member.id for member in decision.members}
        if arrival is not None:
            writer.memories.insert_all([arrival.memory])
            self.embeddings.keep(writer, [(arrival.memory.content, arrival.vector)])
        before = NOTHING_BEFORE
        if survivors:
            before = writer.memories.image([member.id for member in decision.members])
            self._replace(writer, decision, made)
        if decision.distinct or decision.model == PERSON:
            before = self._mark_distinct(writer, decision, before)
        if decision.pending and decision.model and decision.model != PERSON:
            self._count_failure(writer, decision, decision.model)
        [number] = writer.decisions.record([(decision, before)], self.clock(), run)
        settles = not decision.pending or any(one.by == "the agent" for one in decision.refused)
        if settles and (arrival is None or len(names) > 1):
            writer.decisions.close_about(names, number)
        ends = {name: one.memory.id for one in survivors for name in one.stands_for}
        newest = decision.members[-1] if arrival is None else arrival.memory
        if arrival is None or survivors or newest.linked_ids:
            row = writer.memories.row(ends.get(newest.id, newest.id))
            if row is not None and not row.live:
                row = writer.memories.living(row.memory.id)
            newest = newest if row is None else row.memory
        kind, by = decision.action.value, decision.model or "policy"
        telemetry.decisions.add(1, {"kind": kind, "pending": decision.pending, "by": by})
        return Outcome(
            newest,
            decision.action,
            decision.reason,
            decision.usage,
            decision.pending,
            decision.model,
            number,
            tuple(member for member in decision.members if member.id in ends),
        )

    def _replace(self, writer: Writer, decision: Decision, made: Mapping[str, Embedded]) -> None:
        """Store, rewrite and retire memories. The members of the decision are stored already."""
        survivors, names = decision.survivors, {member.id for member in decision.members}
        new = [
            one.memory.model_copy(update={"linked_ids": ()})
            for one in survivors
            if one.memory.id not in names
        ]
        new += [one.version for one in survivors if one.version is not None]
        if new:
            writer.memories.insert_all(new)
        embedded = (made[s.memory.id] for s in survivors if s.memory.id in made)
        self.embeddings.keep(writer, ((one.memory.content, one.vector) for one in embedded))
        writer.memories.rewrite([s.memory for s in survivors if s.memory.id in names])
        writer.memories.retire([(id_, s.memory.id) for s in survivors for id_ in s.stands_for])
        if decision.action is Action.SUPERSEDE:  # they ceased to hold at the first of their ends
            rows = writer.memories.rows(decision.retired)
            ends = dict[str, datetime]()
            for one in survivors:
                at = one.memory.said or one.memory.timestamp
                ends |= {name: min(at, rows[name].until or at) for name in one.stands_for}
            writer.superseded.end(ends)

    def _mark_distinct(self, writer: Writer, decision: Decision, before: str) -> str:
        """Record the pairs of texts that a decision calls distinct.

        `before` is the state before the decision as JSON, for undo. If a person made the decision,
        it is returned with the earlier verdicts on these pairs.
        """
        by_id = {member.id: member for member in decision.members}
        by_id |= {survivor.memory.id: survivor.memory for survivor in decision.survivors}
        keys = {name: memory.dated_key for name, memory in by_id.items()}
        pairs = [
            (self.scope_of(by_id[a]), keys[a], keys[b], decision.reason)
            for a, b in decision.distinct
        ]
        if decision.model == PERSON:
            known = [writer.distinct.verdict(scope, a, b) for scope, a, b, _ in pairs]
            before = with_verdicts(before, known)
        writer.distinct.mark_all(pairs, decision.judge)
        return before

    def _count_failure(self, writer: Writer, decision: Decision, model: str) -> None:
        pause = BATCH_PAUSE if decision.arrival is None else timedelta(0)
        now = self.clock()
        for a, b in combinations(decision.members, 2):
            writer.attempts.count(self.scope_of(a), a, b, model, now, pause)

    # --- what must still hold ---

    def _conflict(self, writer: Writer, decision: Decision) -> str:
        """Return why the decision's condition does not hold; "" if it holds."""
        condition, why = decision.condition, ""
        if condition.revision is not None:
            why = _changed(writer, decision)
        if condition.bound_by is not None and (decision.survivors or condition.is_answer):
            why = why or self._distinct_members(writer, decision, condition.bound_by)
            why = why or self._forbidden_by_person(writer, decision)
        if condition.min_similarity is not None:
            why = why or self._newcomer(writer, decision)
        return why

    def _distinct_members(self, writer: Writer, one: Decision, bound_by: tuple[Judge, ...]) -> str:
        keys = {member.id: member.dated_key for member in one.members}
        for survivor in one.survivors:
            key = survivor.memory.dated_key
            [distinct] = writer.distinct.of_all([(self.scope_of(survivor.memory), key)], bound_by)
            for name in survivor.stands_for:
                if name in keys and keys[name] in distinct - {key}:
                    return f"{name} is distinct from {survivor.memory.id}"
        return ""

    def _forbidden_by_person(self, writer: Writer, decision: Decision) -> str:
        """Return why a person's earlier answer forbids this decision; "" if it does not."""
        is_answer = decision.condition.is_answer
        if is_answer and decision.pending and writer.decisions.left_for_later(decision.members):
            return "it is left for later already"
        joined = [{s.memory.id, *s.stands_for} for s in decision.survivors]
        if not is_answer and all(len(ids) < 3 for ids in joined):
            return ""
        keys = [(self.scope_of(one), one.dated_key) for one in decision.members]
        distinct = writer.distinct.of_all(keys, ("person",))
        apart = 0
        for n, m in combinations(range(len(keys)), 2):
            if keys[m][1] in distinct[n]:
                a, b = decision.members[n].id, decision.members[m].id
                apart += 1
                if (is_answer or keys[n][1] != keys[m][1]) and any({a, b} <= ids for ids in joined):
                    return f"a person keeps {a} and {b} apart"
        whole = is_answer and not joined and apart == len(keys) * (len(keys) - 1) // 2
        return "a person keeps them all apart already" if whole else ""

    def _newcomer(self, writer: Writer, decision: Decision) -> str:
        condition, arrival = decision.condition, decision.arrival
        if arrival is None or condition.revision is None or condition.min_similarity is None:
            return ""
        scope, key = self.scope_of(arrival.memory), arrival.memory.dated_key
        considered = {name for name, _ in decision.candidates}
        rows = [
            row
            for row in writer.memories.live_written_after(condition.revision, scope)
            if row.memory.id not in considered
        ]
        if repeated := next((row for row in rows if row.dated_key == key), None):
            return f"{repeated.memory.id} says the same"
        if not rows or arrival.vector is None:
            return ""
        [distinct] = writer.distinct.of_all([(scope, key)], condition.bound_by or ())
        newcomers = [row for row in rows if row.dated_key not in distinct]
        probe = Probe(arrival.memory.content, arrival.vector)
        nearest = next(iter(ranked(writer, probe, newcomers, self.scale)), None)
        if nearest is None or nearest.similarity < condition.min_similarity:
            return ""
        return f"{nearest.memory.id} came"

    # --- decisions about stored memories ---

    def apply(self, decision: Decision, *, run: str | None = None) -> Outcome | Conflict:
        """Apply a decision if its condition still holds; else change nothing, return a Conflict.

        `run`: as for `write`.

        >>> from memory.models import Action, Decision
        >>> added = store.add(store.new_memory("Cleo rows.", user="Cleo"))
        >>> store.apply(Decision(Action.KEEP_BOTH, "kept", (added,))).action.value
        'keep_both'
        """
        return self.apply_all([decision], run=run)[0]

    def apply_all(
        self, decisions: Sequence[Decision], *, run: str | None = None, lease: Lease | None = None
    ) -> list[Outcome | Conflict]:
        """Apply decisions in order and in one transaction; return an item for each.

        Each decision is applied if its condition holds after the decisions before it. `run`,
        `lease`: as for `write`.

        >>> store.apply_all([])
        []
        """
        made = self._vectors_of_made(decisions)
        texts = (one.memory.content for one in made.values())
        with self.pace.writing(self.ledger, len(decisions), texts) as writer:
            if lease is not None:
                writer.leases.check(lease)
            return [self._apply(writer, one, made, run) for one in decisions]

    def _vectors_of_made(self, decisions: Sequence[Decision]) -> dict[str, Embedded]:
        """Embed the new texts of survivors, such as merged texts; return them by memory id.

        A text is new if no member of its decision has it.
        """
        made = [
            survivor.memory
            for one in decisions
            for survivor in one.survivors
            if text_key(survivor.memory.content)
            not in {text_key(member.content) for member in one.members}
        ]
        return {one.memory.id: one for one in self.embeddings.embed(made)} if made else {}

    def _end_outdated(self, writer: Writer, new: Sequence[Memory], run: str | None) -> None:
        """Supersede those of the new memories that had ended before they arrived.

        These are older than the end of a superseded memory with the same text and scope.
        """
        ended = writer.superseded.with_texts({text_key(one.content) for one in new})
        for row in ended:
            ids = [one.id for one in new if self._ended_before(one, row)]
            newer = writer.superseded.end_of_chain(row) if ids else None
            for late in writer.memories.rows(ids).values():
                if newer is not None and late.live and row.until is not None:
                    decision = Decision(
                        Action.SUPERSEDE,
                        "it had ended before it arrived",
                        (late.memory, newer.memory),
                        (Survivor(newer.memory, (late.memory.id,)),),
                        model=OFFLINE,
                    )
                    self._apply(writer, decision, {}, run)
                    writer.superseded.end({late.memory.id: row.until})

    def _ended_before(self, new: Memory, ended: Row) -> bool:
        return (
            new.said is not None
            and ended.until is not None
            and new.said < ended.until
            and new.dated_key == ended.dated_key
            and self.scope_of(new) == self.scope_of(ended.memory)
        )


def _changed(writer: Writer, decision: Decision) -> str:
    stored = decision.members
    if decision.arrival is not None:
        new = decision.arrival.memory
        if writer.memories.earlier_arrivals([new]) != [(None, False)]:
            return "it arrived meanwhile"
        stored = tuple(member for member in stored if member.id != new.id)
    rows = writer.memories.rows([member.id for member in stored])
    for member in stored:
        row = rows.get(member.id)
        unlinked = {"linked_ids": member.linked_ids}
        if row is None or row.memory.model_copy(update=unlinked) != member:
            return f"{member.id} changed"
        if not row.live and (row.until is None or decision.action is not Action.SUPERSEDE):
            return f"{member.id} changed"
    return ""

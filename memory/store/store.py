"""`MemoryStore`: the memories of a ledger; `writing` changes them, and this file finds them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from functools import partial

from pydantic import ValidationError

from memory.coverage import asks_about_past
from memory.errors import InputError, LedgerError, MemoryNotFound, MemoryPipelineError
from memory.ledger import (
    NOTHING_BEFORE,
    Counts,
    DecisionRecord,
    Ledger,
    Writer,
    split_repeats,
    take_snapshot,
)
from memory.models import (
    MAX_CONTENT,
    PLAIN,
    Action,
    Clock,
    Condition,
    Decision,
    Embedded,
    Embedder,
    Memory,
    Outcome,
    Query,
    Scale,
    Scope,
    ScopeField,
    SearchResult,
    Snapshot,
    Survivor,
    VectorIndex,
    check_length,
    first_problem,
    new_memory_id,
)
from memory.runtime import telemetry
from memory.search import (
    SHORTLIST,
    SPARE,
    Probe,
    SearchRouter,
    best_of_shortlist,
    ranked,
    results,
    word_scores,
)
from memory.store import undoing
from memory.store.folding import PastHit, Showing, restate_each_other, said_by, with_past
from memory.store.forgetting import Forgotten, erase, scrub
from memory.store.verdicts import NOBODY, Asker, kept_apart
from memory.store.writing import MemoryWriter, NewMemory
from memory.text import clean, text_key, wordings

FOLDED = 5
"""How many more memories a search ranks than it returns, since some of them may be folded."""
_MANY = 100
"""If fewer than `k` of so many hits pass a filter, all that pass it are looked up first."""
utc_now: Clock = partial(datetime.now, UTC)
"""The default clock of a store."""


class MemoryStore(MemoryWriter):
    """The live memories of a ledger: find, add, change, undo and forget them.

    A store may be shared between threads. Use it as a context manager, or call `close`. Methods
    that use vectors raise EmbedderMismatch if the ledger's vectors come from another embedder.

    >>> added = store.add(store.new_memory("Sue rows.", user="Sue"))
    >>> store.get(added.id).content
    'Sue rows.'
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
        folds: bool = True,
        clock: Clock = utc_now,
        zone: tzinfo | None = None,
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
        - `folds`: whether `search` shows one of several memories that state the same.
        - `zone`: the time zone in which people speak; None means that of `clock`.
        """
        index = SearchRouter(ledger, vectors_mb << 20, open_index, at_once=index_at_once)
        super().__init__(ledger, embedder, index, scale, scope_fields, clock, new_id)
        self.now: Clock = lambda: self.clock() if zone is None else self.clock().astimezone(zone)
        """Returns the current time as people say it: with the offset of their time zone."""
        self._hybrid = hybrid
        self.showing = Showing(ledger, self.scope_of, folds=folds)
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
        """Return how many decisions wait for a model, and how many turns wait for extraction.

        >>> decisions, turns = store.backlog()
        >>> decisions
        0
        """
        with self.ledger.reading() as reader:
            return reader.decisions.count_pending(), reader.turns.count_waiting()

    # --- reading ---

    def _is_over(self, memory: Memory) -> bool:
        return memory.expires_at is not None and memory.expires_at <= self.clock()

    def get(self, memory_id: str) -> Memory | None:
        """Return a live memory, or None.

        >>> added = store.add(store.new_memory("Gil rows.", user="Gil"))
        >>> store.get(added.id).content
        'Gil rows.'
        """
        with self.ledger.reading(self.clock()) as reader:
            row = reader.memories.row(memory_id)
        return row.memory if row is not None and row.live else None

    def memories(self) -> Iterator[Memory]:
        """Yield all live memories in the order in which they were stored.

        >>> added = store.add(store.new_memory("Ivo rows.", user="Ivo"))
        >>> [memory.content for memory in store.memories() if memory.user == "Ivo"]
        ['Ivo rows.']
        """
        with self.ledger.reading() as reader:
            live = (row.memory for row in reader.memories.live())
            yield from (one for one in live if not self._is_over(one))

    def counts(self) -> Counts:
        """Return how many memories there are, by their state.

        >>> added = store.add(store.new_memory("Dora rows.", user="Dora"))
        >>> store.counts().live > 0
        True
        """
        with self.ledger.reading() as reader:
            return reader.counts(self.clock())

    def history(self, memory_id: str | None = None) -> list[DecisionRecord]:
        """Return the decisions about a memory, oldest first.

        If `memory_id` is None, return all decisions except those that only added a memory.

        >>> added = store.add(store.new_memory("Hue rows.", user="Hue"))
        >>> len(store.history(added.id))
        1

        Raises: MemoryNotFound if there never was such a memory.
        """
        with self.ledger.reading() as reader:
            if memory_id is None:
                return reader.decisions.all_but_additions()
            found = reader.decisions.about(clean(memory_id))
        if not found:
            raise MemoryNotFound(memory_id)
        return found

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

        >>> added = store.add(store.new_memory("Max rows.", user="Max"))
        >>> "Max rows." in [row.memory.content for row in store.snapshot().rows]
        True
        """
        with self.ledger.reading(self.clock()) as reader:
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
        private: bool = False,
        min_score: float | None = None,
        where: Callable[[Memory], bool] | None = None,
        among: Collection[str] | None = None,
        include_superseded: bool | None = None,
        as_of: datetime | None = None,
    ) -> list[SearchResult]:
        """Return the `k` live memories that answer a query best, best first.

        Give exactly one of `user`, `scope` and `everyone=True`, which searches the public memories
        of all users, and with `private=True` also their private ones. `min_score` leaves out
        results with a lower `score`, `where` those for which it returns False, and `among`, a set
        or a dict, those whose ids it does not contain. The `similarity` of a result is the
        embedder's cosine; the store's `scale` is not applied. An empty query gives an empty list.

        Of memories that state the same, one counts and is returned, and its `also` names the
        others. `include_superseded`: also memories that no longer hold, each directly under the
        one that superseded it; None: if the query asks about the past, those among the best.
        `as_of`: only what had been said by then and still held, in the words of then if it was
        repeated or merged later.

        >>> added = store.add(store.new_memory("Leo rows.", user="Leo"))
        >>> [hit.memory.content for hit in store.search("rowing", user="Leo")]
        ['Leo rows.']

        Raises: InputError if none or several of the three are given; EmbeddingError.
        """
        scope = _scope_to_search(user, scope, everyone=everyone, private=private)
        if k < 1:
            raise InputError("search", f"k must be at least 1, not {k}")
        check_length("query", query, MAX_CONTENT)
        if not clean(query):
            return []
        with self.ledger.reading(self.clock()) as reader:
            self.embeddings.check(reader)
        phrasings = wordings(clean(query), scope.user)
        probe = Probe(phrasings[-1], self.embeddings.query(*phrasings))
        find, wanted = self._by_both if self._hybrid else self._by_cosine, k + FOLDED
        only_best = include_superseded is None and as_of is None
        reads_past = asks_about_past(query) if only_best else include_superseded or as_of
        past = [
            (hit, end)
            for hit, end in (self._past(probe, scope, as_of) if reads_past else ())
            if (min_score is None or hit.score >= min_score)
            and (where is None or where(hit.memory))
            and (among is None or hit.memory.id in among)
        ]
        while True:
            hits = find(probe, scope, wanted, among)
            fits = [
                hit
                for hit in hits
                if (min_score is None or hit.score >= min_score)
                and (where is None or where(hit.memory))
                and (as_of is None or said_by(hit.memory, as_of))
                and not self._is_over(hit.memory)
            ]
            shown = self.showing.arranged(fits, k)
            is_low = min_score is not None and hits and hits[-1].score < min_score
            if len(shown) >= k or len(hits) < wanted or is_low:
                return with_past(shown, past, k, only_best=only_best)
            if where is not None and among is None and scope.user and wanted >= _MANY:
                with self.ledger.reading() as reader:  # few fit: search only these
                    among = reader.memories.fitting(scope, where)
            wanted *= 4

    def restating(self, scope: Scope, fits: Callable[[Memory], bool]) -> frozenset[str]:
        """Return the ids of memories that replaced one for which `fits` returns True.

        >>> store.restating(Scope.of_user("Leo"), lambda memory: True)
        frozenset()
        """
        with self.ledger.reading() as reader:
            return frozenset(end.memory.id for _, end in reader.superseded.replaced(scope, fits))

    def find_similar(
        self, content: str, threshold: float = 0.90, *, user: str | None = None
    ) -> SearchResult | None:
        """Return the live memory of a user that is most similar to `content`.

        If `user` is None, the public memories of all users are searched. Return None if `content`
        is empty, or if no similarity reaches `threshold`. If the embedder fails, only a memory with
        the same text is found.

        >>> added = store.add(store.new_memory("Eli rows.", user="Eli"))
        >>> store.find_similar("eli rows", user="Eli").memory.content
        'Eli rows.'

        Raises: LedgerError; EmbedderMismatch.
        """
        if not clean(content):
            return None
        new = self.new_memory(content, user=user)
        scope = Scope.of_all() if user is None else self.scope_of(new)
        with self.ledger.reading() as reader:
            self.embeddings.check(reader)
            copies = reader.memories.live_with_texts([text_key(new.content)], scope)
        if copies:
            return SearchResult(copies[0].memory, 1.0)
        [embedded] = self.embeddings.embed([new])
        if embedded.vector is None:
            return None
        hits = self._by_cosine(Probe(new.content, embedded.vector), scope, 1, scale=self.scale)
        return next((hit for hit in hits if hit.similarity >= threshold), None)

    # --- writing ---

    def new_memory(self, content: str, *, user: str | None = None) -> Memory:
        """Return a memory with a new id and the current time, without storing it.

        >>> store.new_memory("Joe rows.", user="Joe").user
        'Joe'
        """
        return Memory(id=self.new_id(), content=content, user=user, timestamp=self.now())

    def add(self, memory: Memory) -> Memory:
        """Store a memory without comparing it with similar ones, and return it as stored.

        If it was stored before, return the stored memory or its live successor.

        >>> added = store.add(store.new_memory("Abe rows.", user="Abe"))
        >>> added.content
        'Abe rows.'
        """
        new = [NewMemory(one.memory, one.vector) for one in self.embeddings.embed([memory])]
        as_it_is = "stored as it is"
        [done] = self.write(new, lambda one: Decision(Action.ADD, as_it_is, (one.memory,)))
        return done.memory if isinstance(done, Outcome) else memory

    def add_batch(self, memories: Sequence[Memory], *, run: str | None = None) -> int:
        """Store memories in one transaction, without comparing them with similar ones.

        Return how many of them were not stored before. `run`: the name of the batch or import under
        which the decisions are recorded; None if they belong to none.

        >>> store.add_batch([store.new_memory("Bea rows.", user="Bea")])
        1
        """
        return sum(one is None for one in self._add_all(memories, run))

    def _add_all(self, memories: Sequence[Memory], run: str | None) -> list[Memory | None]:
        """Store memories as they are; return those that were stored before, or None."""
        stored: list[Memory | None] = []
        embedded = self.embeddings.embed(memories)
        contents = (one.content for one in memories)
        with self.pace.writing(self.ledger, len(memories), contents) as writer:
            for part in split_repeats(memories):
                new = []
                found = writer.memories.earlier_arrivals(memories[part])
                for one, (earlier, id_is_taken) in zip(embedded[part], found, strict=True):
                    memory = one.memory
                    if earlier is not None or id_is_taken:
                        memory = self._received(writer, memory, earlier)
                    stored.append(None if earlier is None else memory)
                    if earlier is None:
                        new.append(replace(one, memory=memory))
                if new:
                    self._insert(writer, new, run)
        telemetry.decisions.add(
            stored.count(None), {"kind": Action.ADD.value, "pending": False, "by": "policy"}
        )
        return stored

    def _insert(self, writer: Writer, new: Sequence[Embedded], run: str | None) -> None:
        """Store new memories as they are, in a few statements however many they are.

        They must not be stored already, their ids must be unused, and no two may be the same.
        """
        memories = [one.memory for one in new]
        writer.memories.insert_all(memories)
        self.embeddings.keep(writer, ((one.memory.content, one.vector) for one in new))
        added = (Decision(Action.ADD, "stored as it is", (memory,)) for memory in memories)
        writer.decisions.record([(one, NOTHING_BEFORE) for one in added], self.clock(), run)
        self._end_outdated(writer, memories, run)

    def update(self, memory_id: str, new_content: str, *, part: str | None = None) -> None:
        """Replace the text of a memory, which keeps its id, or the only place where `part` stands.

        The old text is kept as a retired memory with a new id.

        Raises: MemoryNotFound; InputError if the new text is empty or too long, or if `part` does
        not stand in the old one exactly once.
        """
        while True:
            with self.ledger.reading() as reader:
                row, revision = reader.memories.row(memory_id), reader.revision()
            if row is None or not row.live:
                raise MemoryNotFound(memory_id)
            content = _with_part(row.memory.content, part, new_content)
            survivor = reworded(row.memory, content, self.new_id())
            decision = Decision(
                Action.UPDATE,
                "text replaced",
                (row.memory,),
                (survivor,),
                condition=Condition(revision),
            )
            if isinstance(self.apply(decision), Outcome):
                return

    def undo(self, target: int | str, *, keep_apart: bool = True) -> list[DecisionRecord]:
        """Undo a decision, given by its number, or a whole run, given by its name.

        The id of a memory stands for the latest decision about it that can be undone.

        The members of an undone decision get back their texts, values and links. Memories that the
        decision created are erased. If a person made the decision, its verdicts are withdrawn.
        Return the undone decisions, newest first.

        `keep_apart`: whether memories joined by an undone decision are recorded as distinct. The
        record counts as a person's verdict, so no batch joins these memories again.

        >>> added = store.add(store.new_memory("Nat rows.", user="Nat"))
        >>> store.update(added.id, "Nat runs.")
        >>> undone = store.undo(store.history(added.id)[-1].number)
        >>> store.get(added.id).content
        'Nat rows.'

        Raises: CannotUndo if any part cannot be undone; nothing is undone then.
        """
        with self.ledger.writing() as writer:
            return undoing.undo(writer, target, self.scope_of, self.clock, keep_apart)

    def forget(self, memory_id: str, *, lineage: bool = False) -> Forgotten:
        """Erase a memory for good, and all retired memories that it replaced.

        `lineage`: also those that it superseded. Without it, they stay retired, and `superseded` of
        the result names them.

        `erased` of the result is False if a search index, the database's files or a copy of the
        ledger may still hold the memories' texts. The first two are cleared later. A person
        must delete the copies; `set_aside` has their paths. `remaining` names the live memories
        that state the same.

        >>> added = store.add(store.new_memory("Flo rows.", user="Flo"))
        >>> forgotten = store.forget(added.id)
        >>> store.get(added.id) is None
        True

        Raises: MemoryNotFound; StillStatedBy if the memory was retired and its successor is live.
        """
        remaining = self._restatements(clean(memory_id))
        with self.ledger.reading() as reader:
            ended = [] if lineage else reader.superseded.by(clean(memory_id))
        memory, origins = erase(self.ledger, clean(memory_id), self.clock(), lineage=lineage)
        aside = tuple(self.ledger.set_aside_files())
        erased = self.scrub() and not aside
        superseded = tuple(row.memory for row in ended)
        return Forgotten(memory, erased, origins, aside, remaining, superseded)

    def _restatements(self, memory_id: str) -> tuple[Memory, ...]:
        """Return the live memories that a search folds with this one; none if it cannot search."""
        memory = self.get(memory_id)
        if memory is None or not self.showing.folds:
            return ()
        try:
            with self.ledger.reading() as reader:
                self.embeddings.check(reader)
            near = self._by_cosine(
                Probe(memory.content, self.embeddings.query(memory.content)),
                self.scope_of(memory),
                SHORTLIST,
            )
        except MemoryPipelineError:
            return ()
        others = [hit.memory for hit in near if hit.memory.id != memory_id]
        return tuple(one for one in others if restate_each_other(one, memory))

    def scrub(self) -> bool:
        """Erase what the search index and the database's files still hold of forgotten memories.

        Return whether both are free of forgotten memories afterwards.

        >>> store.scrub()
        True
        """
        return scrub(self.ledger, self.index)

    # --- inside ---

    def _by_cosine(
        self,
        probe: Probe,
        scope: Scope,
        k: int,
        among: Collection[str] | None = None,
        scale: Scale = PLAIN,
    ) -> list[SearchResult]:
        if among is None:
            [near] = self.index.nearest([Query(probe.vector, scope, k)])
        else:
            near = list(among)
        with self.ledger.reading() as reader:
            rows = reader.memories.rows(near).values()
            hits = ranked(reader, probe, [row for row in rows if row.live], scale)
            return hits if among is None else hits[:k]

    def _by_both(
        self, probe: Probe, scope: Scope, k: int, among: Collection[str] | None
    ) -> list[SearchResult]:
        with self.ledger.reading() as reader:
            words = word_scores(reader, probe.text, scope)
        wanted = k + SPARE if among is None else sys.maxsize
        best = self.index.best(Query(probe.vector, scope, wanted), words)
        if best is not None:
            ids = [name for name in best.ids if among is None or name in among]
            best = best._replace(ids=ids[: k + SPARE])
            near = []
        elif among is not None:
            near = list(among)
        else:
            [near] = self.index.nearest([Query(probe.vector, scope, max(k, SHORTLIST))])
        with self.ledger.reading() as reader:
            best = best or best_of_shortlist(reader, probe, near, words, scope, k, among)
            return results(reader, probe, best, words, k)

    def _past(self, probe: Probe, scope: Scope, as_of: datetime | None) -> list[PastHit]:
        """Return the superseded memories, most similar first, each with its successor's id.

        `as_of`: only those that had been said by then and still held, and the replaced ones, if
        what replaced them was said later.
        """
        with self.ledger.reading() as reader:
            rows = {
                row.memory.id: row
                for row in reader.superseded.within(scope)
                if row.until is not None
                and (as_of is None or (said_by(row.memory, as_of) and as_of < row.until))
            }
            ends = {name: (row.until, row.successor_id or "") for name, row in rows.items()}
            if as_of is not None:
                said = reader.superseded.replaced(scope, partial(said_by, moment=as_of))
                held = [pair for pair in said if pair[1].until is None or as_of < pair[1].until]
                last = {(end.memory.id, row.text_key): (row, end) for row, end in held}
                for row, end in last.values():
                    rows[row.memory.id] = row
                    ends[row.memory.id] = end.until, end.memory.id
            hits = ranked(reader, probe, list(rows.values()), PLAIN)
        found = [(hit, *ends[hit.memory.id]) for hit in hits]
        return [(replace(hit, until=until), successor) for hit, until, successor in found]


def _scope_to_search(
    user: str | None, scope: Scope | None, *, everyone: bool, private: bool
) -> Scope:
    """Raises: InputError unless exactly one of `user`, `scope` and `everyone` is given."""
    if (user is not None) + (scope is not None) + everyone != 1:
        remedy = "give user=NAME, or everyone=True for the memories of all users"
        raise InputError("search", "needs to know whose memories to search", remedy)
    if scope is not None:
        return scope
    return Scope.of_all(private=private) if user is None else Scope.of_user(user)


def _with_part(text: str, part: str | None, new: str) -> str:
    """Raises: InputError unless `part` stands in `text` exactly once."""
    if part is None:
        return new
    count = sum(text.startswith(part, n) for n in range(len(text)))
    if count != 1:
        problem = f"part must stand in the memory's text exactly once, not {count} times"
        raise InputError("update", problem, "copy it from there, with the words around it")
    return text.replace(part, new)


def reworded(memory: Memory, content: str, version_id: str) -> Survivor:
    """Return a Survivor that changes the text of `memory` to `content` and keeps the memory's id.

    A retired memory with the id `version_id` gets the former text.

    >>> cat = store.new_memory("Mia has a cat.", user="Mia")
    >>> survivor = reworded(cat, "Mia has two cats.", new_memory_id())
    >>> survivor.memory.id == cat.id, survivor.memory.content, survivor.version.content
    (True, 'Mia has two cats.', 'Mia has a cat.')

    Raises: InputError if the new text is empty or too long.
    """
    version = memory.model_copy(update={"id": version_id, "linked_ids": ()})
    try:
        renewed = Memory.model_validate({**dict(memory), "content": content})
    except ValidationError as exc:
        raise InputError(memory.id, first_problem(exc).what) from exc
    return Survivor(renewed, (version.id,), version)

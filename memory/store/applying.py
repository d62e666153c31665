"""Applies decisions inside a transaction, each only if its condition still holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations

from memory.ledger import BATCH_PAUSE, NOTHING_BEFORE, Writer, with_verdicts
from memory.models import (
    OFFLINE,
    PERSON,
    Action,
    Condition,
    Decision,
    Embedded,
    Judge,
    Memory,
    Outcome,
    Row,
    Scale,
    Scope,
    Survivor,
)
from memory.search import Probe, ranked
from memory.store.embedding_cache import EmbeddingCache
from memory.text import text_key


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


_NO_CONDITION = Condition()


class Applier:
    """Applies decisions inside a writing transaction, which the caller opens and commits."""

    def __init__(
        self,
        cache: EmbeddingCache,
        scale: Callable[[], Scale],
        scope_of: Callable[[Memory], Scope],
        clock: Callable[[], datetime],
    ) -> None:
        self._cache = cache
        self._scale = scale
        self._scope_of = scope_of
        self._clock = clock

    def vectors_of_made(self, decisions: Sequence[Decision]) -> dict[str, Embedded]:
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
        return {one.memory.id: one for one in self._cache.embed(made)} if made else {}

    def apply(
        self,
        writer: Writer,
        decision: Decision,
        made: Mapping[str, Embedded],
        run: str | None,
    ) -> Outcome | Conflict:
        """Apply a decision completely, or not at all if its condition does not hold.

        `made`: what `vectors_of_made` returned for the decision.
        """
        if decision.condition != _NO_CONDITION and (why := self._conflict(writer, decision)):
            return Conflict(why)
        arrival, survivors = decision.arrival, decision.survivors
        names = {member.id for member in decision.members}
        if arrival is not None:
            writer.memories.insert_all([arrival.memory])
            self._cache.keep(writer, [(arrival.memory.content, arrival.vector)])
        before = NOTHING_BEFORE
        if survivors or decision.model == PERSON:
            before = writer.memories.image([member.id for member in decision.members])
        if survivors:
            self._replace(writer, decision, made)
        if decision.distinct or decision.model == PERSON:
            before = self._mark_distinct(writer, decision, before)
        if decision.pending and decision.model and decision.model != PERSON:
            self._count_failure(writer, decision, decision.model)
        [number] = writer.decisions.record([(decision, before)], self._clock(), run)
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

    def add(self, writer: Writer, new: Sequence[Embedded], why: str, run: str | None) -> None:
        """Store new memories as they are, in a few statements however many they are.

        They must not be stored already, their ids must be unused, and no two may be the same.
        """
        if not new:
            return
        writer.memories.insert_all([one.memory for one in new])
        self._cache.keep(writer, ((one.memory.content, one.vector) for one in new))
        added = [Decision(Action.ADD, why, (one.memory,)) for one in new]
        writer.decisions.record(
            [(decision, NOTHING_BEFORE) for decision in added], self._clock(), run
        )

    def end_outdated(self, writer: Writer, new: Sequence[Memory], run: str | None) -> None:
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
                    self.apply(writer, decision, {}, run)
                    writer.superseded.end({late.memory.id: row.until})

    def _ended_before(self, new: Memory, ended: Row) -> bool:
        return (
            new.said is not None
            and ended.until is not None
            and new.said < ended.until
            and new.dated_key == ended.dated_key
            and self._scope_of(new) == self._scope_of(ended.memory)
        )

    # --- what must hold ---

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
            [distinct] = writer.distinct.of_all([(self._scope_of(survivor.memory), key)], bound_by)
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
        keys = [(self._scope_of(one), one.dated_key) for one in decision.members]
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
        scope, key = self._scope_of(arrival.memory), arrival.memory.dated_key
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
        nearest = next(iter(ranked(writer, probe, newcomers, self._scale())), None)
        if nearest is None or nearest.similarity < condition.min_similarity:
            return ""
        return f"{nearest.memory.id} came"

    # --- what is done ---

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
        self._cache.keep(writer, ((one.memory.content, one.vector) for one in embedded))
        writer.memories.rewrite([s.memory for s in survivors if s.memory.id in names])
        writer.memories.retire([(id_, s.memory.id) for s in survivors for id_ in s.stands_for])
        if decision.action is Action.SUPERSEDE:
            self._end(writer, survivors)

    def _end(self, writer: Writer, survivors: Sequence[Survivor]) -> None:
        """Record when the superseded memories ceased to hold: at the first of their ends."""
        rows = writer.memories.rows([name for one in survivors for name in one.stands_for])
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
            (self._scope_of(by_id[a]), keys[a], keys[b], decision.reason)
            for a, b in decision.distinct
        ]
        if decision.model == PERSON:
            known = [writer.distinct.verdict(scope, a, b) for scope, a, b, _ in pairs]
            before = with_verdicts(before, known)
        writer.distinct.mark_all(pairs, decision.judge)
        return before

    def _count_failure(self, writer: Writer, decision: Decision, model: str) -> None:
        pause = BATCH_PAUSE if decision.arrival is None else timedelta(0)
        now = self._clock()
        for a, b in combinations(decision.members, 2):
            writer.attempts.count(self._scope_of(a), a, b, model, now, pause)


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

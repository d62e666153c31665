"""Applies decisions in one transaction, each only if its condition still holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations

from memory.ledger import BATCH_PAUSE, NOTHING_BEFORE, Writer, with_verdicts
from memory.models import (
    JUDGES,
    PERSON,
    Decision,
    Embedded,
    Judge,
    Memory,
    Scale,
    Scope,
)
from memory.search import Probe, ranked
from memory.store.embedding_cache import EmbeddingCache
from memory.text import text_key


@dataclass(frozen=True)
class Applied:
    """The result of a decision that was applied; `number` is the decision's number in the ledger.

    `memory` is the new memory that the decision was about. If all its memories were stored before,
    `memory` is the newest of them. If the memory is retired now, its live successor is given.
    """

    number: int
    memory: Memory


@dataclass(frozen=True)
class Conflict:
    """The result of a decision whose condition did not hold. Nothing was changed.

    `why` is, for example, "mem_0123456789ab changed". The caller must read the memories again, and
    make a new decision.
    """

    why: str


@dataclass(frozen=True)
class Unconditional:
    """The condition that always holds."""


@dataclass(frozen=True)
class UnlessRepeated:
    """The condition that no live memory in the new memory's scope has the new memory's text.

    Memories in `Decision.candidates`, which the new memory was compared with, do not count.
    """


@dataclass(frozen=True)
class WhileUnchanged:
    """The condition that no stored member of the decision has changed after `revision`.

    Changes of a member's links do not count. `revision` is the ledger's revision at which the
    members were read.
    """

    revision: int


@dataclass(frozen=True)
class WhileMergeable(WhileUnchanged):
    """The condition `WhileUnchanged`, and that the members may still be merged.

    Members may not be merged if a judge in `bound_by`, or a person, called their texts distinct.
    """

    bound_by: tuple[Judge, ...] = JUDGES


@dataclass(frozen=True)
class WhileUnanswered(WhileMergeable):
    """Like `WhileMergeable`, but a person's answer must also not repeat an earlier answer.

    An answer repeats an earlier one if both keep all members apart, or both leave them for later.
    """


@dataclass(frozen=True)
class WhileNearest(WhileMergeable):
    """The condition `WhileMergeable`, and that no similar memory was written after `revision`.

    A memory is similar if it has the new memory's text, or a similarity to it of at least
    `min_similarity`. Memories in `Decision.candidates`, which the new memory was compared with, do
    not count.
    """

    min_similarity: float = 1.0


Condition = Unconditional | UnlessRepeated | WhileUnchanged
"""The condition under which a decision is applied, checked in the transaction that applies it.

With any condition, a decision about a new memory also fails if this memory was stored meanwhile, or
if another memory took its id.
"""


@dataclass(frozen=True)
class Decided:
    """A decision, and the condition under which it is applied.

    `arrival`: the member that is not stored yet, with its vector; None if all members are stored.
    """

    decision: Decision
    condition: Condition
    arrival: Embedded | None = None

    @property
    def newest(self) -> Memory:
        return self.decision.members[-1] if self.arrival is None else self.arrival.memory

    @property
    def names(self) -> set[str]:
        return {member.id for member in self.decision.members}

    @property
    def ids_for_undo(self) -> list[str]:
        decision = self.decision
        changes = decision.survivors or decision.judge == PERSON
        return [member.id for member in decision.members] if changes else []


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

    def vectors_of_made(self, decided: Sequence[Decided]) -> dict[str, Embedded]:
        """Embed the new texts of survivors, such as merged texts; return them by memory id.

        A text is new if no member of its decision has it.
        """
        made = [
            survivor.memory
            for one in decided
            for survivor in one.decision.survivors
            if text_key(survivor.memory.content)
            not in {text_key(member.content) for member in one.decision.members}
        ]
        return {one.memory.id: one for one in self._cache.embed(made)}

    def apply(
        self,
        writer: Writer,
        decided: Sequence[Decided],
        made: Mapping[str, Embedded],
        run: str | None = None,
    ) -> list[Applied | Conflict]:
        """Apply decisions in order, each completely, or not at all if its condition fails.

        The transaction must not have written anything yet. Return an Applied or a Conflict for each
        decision that was tried. A decision about a new memory ends the work early in two cases:

        - It has a Conflict. The decisions after it are not tried.
        - Its condition is not a WhileNearest with the ledger's latest revision. It is tried only if
          it is the first decision. The decisions after it are not tried.

        `made`: what `vectors_of_made` returned for these decisions.
        """
        answers: list[Conflict | None] = []
        revision = writer.revision()
        for one in decided:
            latest = isinstance(one.condition, WhileNearest) and one.condition.revision == revision
            if answers and one.arrival is not None and not latest:
                break
            free = latest and not one.decision.survivors
            why = "" if free else next(filter(None, self._conflicts(writer, one, latest)), "")
            answers.append(Conflict(why) if why else None)
            if one.arrival is not None and (why or not latest):
                break
        sound = [one for one, conflict in zip(decided, answers, strict=False) if conflict is None]
        done = iter(self.write(writer, sound, made, run))
        return [conflict or next(done) for conflict in answers]

    def write(
        self,
        writer: Writer,
        decided: Sequence[Decided],
        made: Mapping[str, Embedded],
        run: str | None,
    ) -> list[Applied]:
        """Apply decisions without checking their conditions.

        The new memories must not be stored already.
        """
        parts = [decided] if len(decided) == 1 else _independent_parts(writer, decided)
        numbers = [number for part in parts for number in self._write(writer, part, made, run)]
        moved = [
            one.newest.id
            for one in decided
            if one.arrival is None or one.decision.survivors or one.newest.linked_ids
        ]  # others are stored just as they came; a link may lead to another end
        alive = writer.memories.living_rows(moved) if moved else {}
        return [
            Applied(number, row.memory if (row := alive.get(one.newest.id)) else one.newest)
            for number, one in zip(numbers, decided, strict=True)
        ]

    # --- what must hold ---

    def _conflicts(self, writer: Writer, one: Decided, latest: bool) -> Iterator[str]:
        """Check each part of the condition; yield why it fails, or "" if it holds.

        `latest`: whether nothing was written after the decision was prepared.
        """
        condition = one.condition
        if not latest and one.arrival:
            [(earlier, id_is_taken)] = writer.memories.earlier_arrivals([one.arrival.memory])
            if earlier is not None or id_is_taken:
                yield "it arrived meanwhile"
        if isinstance(condition, UnlessRepeated):
            yield self._newcomer(writer, one, condition)
        if isinstance(condition, WhileUnchanged) and not latest:
            yield _changed(writer, one)
        if isinstance(condition, WhileMergeable):
            yield self._distinct_members(writer, one.decision, condition.bound_by)
            yield self._forbidden_by_person(
                writer, one.decision, is_answer=isinstance(condition, WhileUnanswered)
            )
        if isinstance(condition, WhileNearest) and not latest:
            yield self._newcomer(writer, one, condition)

    def _distinct_members(self, writer: Writer, one: Decision, bound_by: tuple[Judge, ...]) -> str:
        content = {member.id: member.content for member in one.members}
        for survivor in one.survivors:
            key = text_key(survivor.memory.content)
            [distinct] = writer.distinct.of_all([(self._scope_of(survivor.memory), key)], bound_by)
            for name in survivor.stands_for:
                if name in content and text_key(content[name]) in distinct - {key}:
                    return f"{name} is distinct from {survivor.memory.id}"
        return ""

    def _forbidden_by_person(self, writer: Writer, decision: Decision, *, is_answer: bool) -> str:
        """Return why a person's earlier answer forbids this decision; "" if it does not.

        `is_answer`: whether the decision is itself a person's answer. Such a decision must also not
        repeat an earlier answer.
        """
        if is_answer and decision.pending and writer.decisions.left_for_later(decision.members):
            return "it is left for later already"
        joined = [{s.memory.id, *s.stands_for} for s in decision.survivors]
        if not is_answer and all(len(ids) < 3 for ids in joined):
            return ""
        keys = [(self._scope_of(one), text_key(one.content)) for one in decision.members]
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

    def _newcomer(
        self, writer: Writer, one: Decided, condition: UnlessRepeated | WhileNearest
    ) -> str:
        if one.arrival is None:
            return ""
        scope, key = self._scope_of(one.arrival.memory), text_key(one.arrival.memory.content)
        considered = {name for name, _ in one.decision.candidates}
        if isinstance(condition, UnlessRepeated):
            rows = writer.memories.live_with_texts([key], scope)
        else:
            rows = writer.memories.live_written_after(condition.revision, scope)
        rows = [row for row in rows if row.memory.id not in considered]
        if repeated := next((row for row in rows if row.text_key == key), None):
            return f"{repeated.memory.id} says the same"
        if not rows or one.arrival.vector is None or isinstance(condition, UnlessRepeated):
            return ""
        [distinct] = writer.distinct.of_all([(scope, key)], condition.bound_by)
        newcomers = [row for row in rows if row.text_key not in distinct]
        probe = Probe(one.arrival.memory.content, one.arrival.vector)
        nearest = next(iter(ranked(writer, probe, newcomers, self._scale())), None)
        if nearest is None or nearest.similarity < condition.min_similarity:
            return ""
        return f"{nearest.memory.id} came"

    # --- what is done ---

    def _write(
        self,
        writer: Writer,
        decided: Sequence[Decided],
        made: Mapping[str, Embedded],
        run: str | None,
    ) -> list[int]:
        survivors = [(one, survivor) for one in decided for survivor in one.decision.survivors]
        if new := [memory for one in decided for memory in _stored_by(one)]:
            writer.memories.insert_all(new)
        embedded = [made[one.memory.id] for _, one in survivors if one.memory.id in made]
        embedded += [one.arrival for one in decided if one.arrival is not None]
        vectors = {
            text_key(one.memory.content): one.vector for one in embedded if one.vector is not None
        }
        if vectors:
            self._cache.keep(writer, vectors)
        images = [NOTHING_BEFORE] * len(decided)
        if survivors or any(one.decision.model == PERSON for one in decided):
            images = writer.memories.images([one.ids_for_undo for one in decided])
        if survivors:
            writer.memories.rewrite([s.memory for one, s in survivors if s.memory.id in one.names])
            writer.memories.retire(
                [(id_, s.memory.id) for _, s in survivors for id_ in s.stands_for]
            )
        if any(one.decision.distinct or one.decision.model == PERSON for one in decided):
            self._mark_distinct(writer, decided, images)
        for one in decided:
            if one.decision.pending and one.decision.model and one.decision.model != PERSON:
                self._count_failure(writer, one, one.decision.model)
        recorded = [(one.decision, before) for one, before in zip(decided, images, strict=True)]
        numbers = writer.decisions.record(recorded, self._clock(), run)
        answered = [
            (one.names, number)
            for one, number in zip(decided, numbers, strict=True)
            if not one.decision.pending and (one.arrival is None or len(one.decision.members) > 1)
        ]
        if answered:
            writer.decisions.close_about(answered)
        return numbers

    def _mark_distinct(self, writer: Writer, decided: Sequence[Decided], images: list[str]) -> None:
        """Record the pairs of texts that decisions call distinct.

        `images` holds, for each decision, the state before it as JSON, for undo. If a person made
        the decision, the earlier verdicts on its pairs are added to this state.
        """
        pairs_of: dict[Judge, list[tuple[Scope, str, str, str]]] = {}
        for n, one in enumerate(decided):
            decision = one.decision
            by_id = {member.id: member for member in decision.members}
            by_id |= {survivor.memory.id: survivor.memory for survivor in decision.survivors}
            keys = {name: text_key(memory.content) for name, memory in by_id.items()}
            pairs = [
                (self._scope_of(by_id[a]), keys[a], keys[b], decision.reason)
                for a, b in decision.distinct
            ]
            if decision.model == PERSON:
                known = [writer.distinct.verdict(scope, a, b) for scope, a, b, _ in pairs]
                writer.distinct.mark_all(pairs, "person")
                images[n] = with_verdicts(images[n], known)
            elif pairs:
                pairs_of.setdefault(decision.judge, []).extend(pairs)
        for judge, pairs in pairs_of.items():
            writer.distinct.mark_all(pairs, judge)

    def _count_failure(self, writer: Writer, one: Decided, model: str) -> None:
        pause = BATCH_PAUSE if one.arrival is None else timedelta(0)
        now = self._clock()
        for a, b in combinations(one.decision.members, 2):
            writer.attempts.count(self._scope_of(a), a.content, b.content, model, now, pause)


def _independent_parts(writer: Writer, todo: Sequence[Decided]) -> Iterator[list[Decided]]:
    """Split decisions into lists, in order; the decisions of a list can be written together.

    Within a list, no decision changes a memory that a later decision is about. Storing a new memory
    does not change other memories, even those that it is linked to.
    """
    names = {name for one in todo for name in one.names}
    linked = {name for link in writer.links.touching(sorted(names)) for name in link[:2]}
    part: list[Decided] = []
    changed: set[str] = set()
    for one in todo:
        changes = {survivor.memory.id for survivor in one.decision.survivors}
        changes.update(one.decision.retired)
        ends = {end.target_id for member in one.decision.members for end in member.linked_ids}
        linked |= {one.newest.id, *ends} if ends else set()
        alone = bool(one.ids_for_undo and linked & one.names)
        if part and (alone or changed & one.names or (changed and ends)):
            yield part
            part, changed = [], set()
        part.append(one)
        changed |= one.names | changes if alone else changes
    if part:
        yield part


def _stored_by(one: Decided) -> Iterator[Memory]:
    if one.arrival is not None:
        yield one.arrival.memory
    for survivor in one.decision.survivors:
        if survivor.memory.id not in one.names:
            yield survivor.memory.model_copy(update={"linked_ids": ()})
        if survivor.version is not None:
            yield survivor.version


def _changed(writer: Writer, one: Decided) -> str:
    new = one.arrival.memory.id if one.arrival is not None else None
    stored = [member for member in one.decision.members if member.id != new]
    rows = writer.memories.rows([member.id for member in stored])
    for member in stored:
        row = rows.get(member.id)
        unlinked = {"linked_ids": member.linked_ids}
        if row is None or not row.live or row.memory.model_copy(update=unlinked) != member:
            return f"{member.id} changed"
    return ""

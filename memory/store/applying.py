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
    Survivor,
)
from memory.search import Probe, ranked
from memory.store.embedding_cache import EmbeddingCache
from memory.text import text_key


@dataclass(frozen=True)
class Applied:
    """The result of a decision that was applied; `number` is the decision's number in the ledger.

    `memory` is the member that was not stored before or, if all members were stored before, the
    newest member. If the decision retired this member, `memory` is its live successor instead.
    """

    number: int
    memory: Memory


@dataclass(frozen=True)
class Conflict:
    """The result of a decision that was not applied, because its condition did not hold.

    `why` says what did not hold, for example "mem_0123456789ab changed". The caller must read the
    memories from the ledger again, and make a new decision.
    """

    why: str


@dataclass(frozen=True)
class Unconditional:
    """The condition that always holds, whatever was written since the decision was made."""


@dataclass(frozen=True)
class UnlessRepeated:
    """The condition that no live memory in the new memory's scope has the new memory's text.

    Memories in `Decision.candidates`, which the new memory was compared with, do not count.
    """


@dataclass(frozen=True)
class WhileUnchanged:
    """The condition that no stored member of the decision has changed, except for its links.

    `revision` is the ledger's revision at which the members were read.
    """

    revision: int


@dataclass(frozen=True)
class WhileMergeable(WhileUnchanged):
    """The condition that no stored member has changed, and that the members may still be merged.

    Members must not be merged if a judge in `bound_by`, or a person, found that their texts state
    different things. `revision` is the ledger's revision at which the members were read.
    """

    bound_by: tuple[Judge, ...] = JUDGES


@dataclass(frozen=True)
class WhileUnanswered(WhileMergeable):
    """The condition that the members may still be merged, and no person has decided the same.

    It has three parts. No stored member has changed. No judge in `bound_by`, and no person, has
    found that two texts to be merged state different things. No person has already kept all the
    members apart, or left them for later, if the decision does only that. `revision` is the
    ledger's revision at which the members were read.
    """


@dataclass(frozen=True)
class WhileNearest(WhileMergeable):
    """The condition that the members can still be merged, and no other similar memory was stored.

    It has three parts. No stored member has changed. No judge in `bound_by`, and no person, has
    found that two texts to be merged state different things. No memory was written after `revision`
    that has the new memory's text or a similarity of at least `min_similarity` to it. Memories that
    the new one was compared with, `Decision.candidates`, do not count.
    """

    min_similarity: float = 1.0


Condition = Unconditional | UnlessRepeated | WhileUnchanged
"""The condition under which a decision is applied, checked in the transaction that applies it.

Whatever the condition, a new memory that is stored already is not stored a second time.
"""


@dataclass(frozen=True)
class Decided:
    """A decision, and the condition under which it is applied."""

    decision: Decision
    condition: Condition
    arrival: Embedded | None = None
    """The member that is not stored yet, with its vector; None if all members are stored."""

    @property
    def newest(self) -> Memory:
        return self.decision.members[-1] if self.arrival is None else self.arrival.memory

    @property
    def names(self) -> set[str]:
        """The ids of the decision's members."""
        return {member.id for member in self.decision.members}

    @property
    def ids_for_undo(self) -> list[str]:
        """The ids of the members whose present state must be recorded, so that undo can restore it.

        There are none if the decision changes no memory and was not made by a person.
        """
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
        """Embed the new texts that decisions give to memories, such as merged texts.

        Return each memory that gets a new text, together with this text's vector, by memory id.
        """
        made = []
        for one in decided:
            if one.decision.survivors:
                known = {text_key(member.content) for member in one.decision.members}
                survivors = [survivor.memory for survivor in one.decision.survivors]
                made += [new for new in survivors if text_key(new.content) not in known]
        return {one.memory.id: one for one in self._cache.embed(made)} if made else {}

    def apply(
        self,
        writer: Writer,
        decided: Sequence[Decided],
        made: Mapping[str, Embedded],
        run: str | None = None,
    ) -> list[Applied | Conflict]:
        """Apply decisions in order, each completely, or not at all if its condition fails.

        Return an Applied or a Conflict for each decision that was tried, in order. The result may
        be shorter than `decided`, because this method stops in two cases:

        - A decision about a new memory had a Conflict. The decisions after it may depend on it.
        - Something may have been written since a new memory was compared with the stored ones: the
          decision's condition is not a WhileNearest of the ledger's latest revision. The decision
          about this memory is tried only if it is the first one.

        `made` is what `vectors_of_made` returned for these decisions. `run` is the name of the
        batch or import that the decisions are recorded under.
        """
        answers: list[Conflict | None] = []
        revision, written = writer.revision(), writer.transaction.has_written
        for one in decided:
            as_of = one.condition.revision if isinstance(one.condition, WhileNearest) else None
            latest = as_of == revision and not written
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
        """Apply decisions in order, without checking their conditions; return an Applied for each.

        The new memories of the decisions must not be stored already. `made` is what
        `vectors_of_made` returned for these decisions. `run` is the name of the batch or import
        that the decisions are recorded under.
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
        """Yield, for each part of the condition of `one`, why the part fails, or "" if it holds.

        `latest` is true if nothing was written after the decision was prepared.
        """
        condition = one.condition
        if not latest and one.arrival:
            [(earlier, id_is_taken)] = writer.memories.earlier_arrivals([one.arrival.memory])
            if earlier is not None or id_is_taken:
                yield "it arrived meanwhile"
        if isinstance(condition, UnlessRepeated):
            yield self._repeated(writer, one)
        if isinstance(condition, WhileUnchanged) and not latest:
            yield _changed(writer, one)
        if isinstance(condition, WhileMergeable):
            yield self._distinct_members(writer, one.decision, condition.bound_by)
        if isinstance(condition, WhileUnanswered):
            yield self._answered(writer, one.decision)
        if isinstance(condition, WhileNearest) and not latest:
            yield self._newcomer(writer, one, condition)

    def _distinct_members(self, writer: Writer, one: Decision, bound_by: tuple[Judge, ...]) -> str:
        """Return a message that names two members which the decision must not merge; "" if none.

        Members must not be merged if a judge in `bound_by`, or a person, found that their texts
        state different things.
        """
        content = {member.id: member.content for member in one.members}
        for survivor in one.survivors:
            key = text_key(survivor.memory.content)
            distinct = writer.distinct.of(self._scope_of(survivor.memory), key, bound_by)
            for name in survivor.stands_for:
                if name in content and text_key(content[name]) in distinct - {key}:
                    return f"{name} is distinct from {survivor.memory.id}"
        joined = [{s.memory.id, *s.stands_for} & content.keys() for s in one.survivors]
        if not any(
            len(ids - {s.memory.id}) > 1 for ids, s in zip(joined, one.survivors, strict=True)
        ):
            return ""  # each pair was looked at
        for a, b in self._kept_apart(writer, one.members):
            are_joined = any({a.id, b.id} <= ids for ids in joined)
            if are_joined and text_key(a.content) != text_key(b.content):
                return f"a person keeps {a.id} and {b.id} apart"
        return ""

    def _answered(self, writer: Writer, decision: Decision) -> str:
        """Return why a person's earlier answer makes this decision useless or wrong; "" if not.

        The decision is useless if it only leaves its members for later, or only keeps all of them
        apart, and a person did the same before. It is wrong if it merges two members that a person
        called distinct.
        """
        if decision.pending and writer.decisions.left_for_later(decision.members):
            return "it is left for later already"
        apart = self._kept_apart(writer, decision.members)
        joined = [{s.memory.id, *s.stands_for} for s in decision.survivors]
        for a, b in apart:
            if any({a.id, b.id} <= ids for ids in joined):
                return f"a person keeps {a.id} and {b.id} apart"
        count = len(decision.members)
        whole = not joined and len(apart) == count * (count - 1) // 2
        return "a person keeps them all apart already" if whole else ""

    def _kept_apart(self, writer: Writer, members: Sequence[Memory]) -> list[tuple[Memory, Memory]]:
        """Return the pairs of these memories whose texts a person called distinct."""
        keys = [text_key(one.content) for one in members]
        places = [(self._scope_of(one), key) for one, key in zip(members, keys, strict=True)]
        distinct = writer.distinct.of_all(places, ("person",))
        return [
            (members[n], members[m])
            for n, m in combinations(range(len(members)), 2)
            if keys[m] in distinct[n]
        ]

    def _newcomer(self, writer: Writer, one: Decided, condition: WhileNearest) -> str:
        """Return a message that names a similar memory written meanwhile; "" if there is none.

        Only live memories count that were written after the revision `condition.revision`, and that
        have the text of `one.arrival`, or a similarity to it of at least
        `condition.min_similarity`. Memories in `Decision.candidates`, which `one.arrival` was
        compared with, do not count.
        """
        if one.arrival is None:
            return ""
        scope, key = self._scope_of(one.arrival.memory), text_key(one.arrival.memory.content)
        considered = {name for name, _ in one.decision.candidates}
        written = writer.memories.live_written_after(condition.revision, scope)
        written = [row for row in written if row.memory.id not in considered]
        if repeated := next((row for row in written if row.text_key == key), None):
            return f"{repeated.memory.id} says the same"
        if not written or one.arrival.vector is None:
            return ""
        distinct = writer.distinct.of(scope, key, condition.bound_by)
        newcomers = [row for row in written if row.text_key not in distinct]
        probe = Probe(one.arrival.memory.content, one.arrival.vector)
        nearest = next(iter(ranked(writer, probe, newcomers, self._scale())), None)
        if nearest is None or nearest.similarity < condition.min_similarity:
            return ""
        return f"{nearest.memory.id} came"

    def _repeated(self, writer: Writer, one: Decided) -> str:
        """Return a message that names a live memory with the text of `one.arrival`; "" if none.

        Only memories in the scope of `one.arrival` count. Memories in `Decision.candidates`, which
        it was compared with, do not count.
        """
        if one.arrival is None:
            return ""
        scope, key = self._scope_of(one.arrival.memory), text_key(one.arrival.memory.content)
        considered = {name for name, _ in one.decision.candidates}
        rows = writer.memories.live_with_texts([key], scope)
        names = (row.memory.id for row in rows if row.memory.id not in considered)
        return next((f"{name} says the same" for name in names), "")

    # --- what is done ---

    def _write(
        self,
        writer: Writer,
        decided: Sequence[Decided],
        made: Mapping[str, Embedded],
        run: str | None,
    ) -> list[int]:
        """Write decisions that do not change each other's memories; return their ledger numbers.

        `made` is what `vectors_of_made` returned for these decisions. `run` is the name of the
        batch or import that the decisions are recorded under.
        """
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
            _let_live(writer, survivors)
        if any(one.decision.distinct or one.decision.model == PERSON for one in decided):
            self._mark_distinct(writer, decided, images)
        for one in decided:
            if one.decision.pending and one.decision.model not in (None, PERSON):
                self._count_failure(writer, one)
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
        """Record the pairs of texts that decisions call distinct, and change `images` in place.

        `images` holds, for each decision, the state that undo restores, as JSON. For a decision of
        a person, this method adds the earlier verdicts on the same pairs to that state.
        """
        pairs_of: dict[Judge, list[tuple[Scope, str, str, str]]] = {}
        for n, one in enumerate(decided):
            if one.decision.model == PERSON:
                pairs = self._distinct_pairs(one.decision)
                known = [writer.distinct.verdict(scope, a, b) for scope, a, b, _ in pairs]
                writer.distinct.mark_all(pairs, "person")
                images[n] = with_verdicts(images[n], known)
            elif one.decision.distinct:
                pairs = self._distinct_pairs(one.decision)
                pairs_of.setdefault(one.decision.judge, []).extend(pairs)
        for judge, pairs in pairs_of.items():
            writer.distinct.mark_all(pairs, judge)

    def _distinct_pairs(self, decision: Decision) -> list[tuple[Scope, str, str, str]]:
        """Return (scope, text key, text key, reason) for each pair that a decision calls distinct.

        The reason is that of the decision.
        """
        by_id = {member.id: member for member in decision.members}
        by_id |= {survivor.memory.id: survivor.memory for survivor in decision.survivors}
        keys = {name: text_key(memory.content) for name, memory in by_id.items()}
        return [
            (self._scope_of(by_id[a]), keys[a], keys[b], decision.reason)
            for a, b in decision.distinct
        ]

    def _count_failure(self, writer: Writer, one: Decided) -> None:
        """Record that a model failed to judge each pair of the decision's members.

        If one of the members is new, the next batch may ask about the pairs without a pause;
        otherwise the first pause is BATCH_PAUSE.
        """
        pause = BATCH_PAUSE if one.arrival is None else timedelta(0)
        now, model = self._clock(), one.decision.model
        assert model is not None
        for a, b in combinations(one.decision.members, 2):
            scope = self._scope_of(a)
            writer.attempts.count(scope, a.content, b.content, model, now, pause)


def _independent_parts(writer: Writer, todo: Sequence[Decided]) -> Iterator[list[Decided]]:
    """Split the decisions `todo`, in order, into lists that can be written one after the other.

    In a list, no decision changes a memory of another decision, so they can be written together.

    A decision that only stores a memory changes no other memory, even if the new memory has links.
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
    """Yield the memories that a decision adds to the ledger.

    These are the new memory, if there is one, and each survivor that the decision makes, such as a
    merged memory. If an existing memory survives with a new text, a retired copy with its former
    text is added too.
    """
    if one.arrival is not None:
        yield one.arrival.memory
    for survivor in one.decision.survivors:
        if survivor.memory.id not in one.names:
            yield survivor.memory.model_copy(update={"linked_ids": ()})
        if survivor.version is not None:
            yield survivor.version


def _changed(writer: Writer, one: Decided) -> str:
    """Return a message that names a stored member that has changed; "" if none has.

    A member has changed if it is no longer live, or if its text or a value differs from those of
    the member in `one.decision`. Links do not count.
    """
    new = one.arrival.memory.id if one.arrival is not None else None
    stored = [member for member in one.decision.members if member.id != new]
    rows = writer.memories.rows([member.id for member in stored])
    for member in stored:
        row = rows.get(member.id)
        if row is None or not row.live or _unlinked(row.memory) != _unlinked(member):
            return f"{member.id} changed"
    return ""


def _unlinked(memory: Memory) -> Memory:
    """Return the memory without its links, which decisions do not depend on."""
    return memory.model_copy(update={"linked_ids": ()})


def _let_live(writer: Writer, survivors: Sequence[tuple[Decided, Survivor]]) -> None:
    """Write the new texts and values of members that survive; retire what survivors replace.

    `survivors` holds pairs: a decision, and one of the survivors of this decision. Survivors that
    are not members must be stored already.
    """
    kept = [survivor.memory for one, survivor in survivors if survivor.memory.id in one.names]
    writer.memories.rewrite(kept)
    retired = [(name, one.memory.id) for _, one in survivors for name in one.stands_for]
    writer.memories.retire(retired)

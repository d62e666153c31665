"""A decision becomes one transaction, or nothing where the ground has moved meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memory import telemetry
from memory.ledger import BATCH_PAUSE, Lease, Reader, Row, Writer, with_verdicts
from memory.models import (
    JUDGES,
    Decision,
    Embedded,
    Judge,
    Memory,
    Scale,
    Scope,
    SearchResult,
    Survivor,
    Vector,
)
from memory.search import similarities
from memory.store.embedding_cache import EmbeddingCache
from memory.text import has_kana_or_han, text_key


@dataclass(frozen=True)
class Applied:
    """What was decided is done, under this number; `memory` lives for the newest member now."""

    number: int
    memory: Memory


@dataclass(frozen=True)
class Conflict:
    """Nothing was done, since something came first: decide again."""

    why: str


def count(done: Iterable[tuple[Decision, Applied | Conflict]]) -> None:
    """Tell whoever watches of the decisions that were applied; call it once they are committed."""
    for decision, outcome in done:
        if isinstance(outcome, Applied):
            by = decision.model or "policy"
            telemetry.decided(decision.action.value, pending=decision.pending, by=by)


@dataclass(frozen=True)
class Anyway:
    """Apply whatever came meanwhile."""


@dataclass(frozen=True)
class UnlessRepeated:
    """Apply unless the arrival's very text has come and was not considered."""


@dataclass(frozen=True)
class WhileUnchanged:
    """Apply while every stored member is as it was at this revision, its links aside."""

    revision: int


@dataclass(frozen=True)
class WhileMergeable(WhileUnchanged):
    """And while nobody whose word counts has judged distinct what it joins."""

    bound_by: tuple[Judge, ...] = JUDGES


@dataclass(frozen=True)
class WhileUnanswered(WhileMergeable):
    """And while no person has answered the same question."""


@dataclass(frozen=True)
class WhileNearest(WhileMergeable):
    """And while nothing has come since that is as alike to the arrival, and was not considered."""

    min_similarity: float = 1.0


@dataclass(frozen=True)
class WhileHeld:
    """Apply while a lease is held, and another condition holds.

    Where the lease is lost there is nothing to decide again: that raises LeaseLost.
    """

    lease: Lease
    condition: Condition


Condition = Anyway | UnlessRepeated | WhileUnchanged | WhileHeld
"""What must hold for a decision to be applied. An arrival is never stored twice, whatever it is."""


@dataclass(frozen=True)
class Application:
    """A decision with all that applying it needs."""

    decision: Decision
    condition: Condition
    arrival: Embedded | None
    """The new memory among the members; None where all are stored."""
    vectors: Sequence[Embedded]
    """Of the texts that the decision makes."""
    run: str | None

    @property
    def newest(self) -> Memory:
        return self.decision.members[-1] if self.arrival is None else self.arrival.memory

    @property
    def names(self) -> set[str]:
        """Ids of the members."""
        return {member.id for member in self.decision.members}

    @property
    def changes(self) -> set[str]:
        """Ids of those who are not afterwards what they were."""
        return {one.memory.id for one in self.decision.survivors} | set(self.decision.retired)

    @property
    def undone_from(self) -> list[str]:
        """Ids of the members whose state undo goes back to."""
        told = self.decision.survivors or self.decision.judge == "person"
        return [member.id for member in self.decision.members] if told else []

    @property
    def embedded(self) -> list[Embedded]:
        return [*self.vectors, *([self.arrival] if self.arrival is not None else [])]


class Applier:
    """Carries out decisions, each inside one writing transaction."""

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

    def application(
        self,
        decision: Decision,
        condition: Condition,
        arrival: Embedded | None = None,
        run: str | None = None,
    ) -> Application:
        """What is to be applied, with the vectors of the texts that it makes."""
        told = {text_key(member.content) for member in decision.members}
        made = [survivor.memory for survivor in decision.survivors]
        made = [memory for memory in made if text_key(memory.content) not in told]
        return Application(decision, condition, arrival, self._cache.embed(made), run)

    def apply(self, writer: Writer, one: Application) -> Applied | Conflict:
        """Raises: LeaseLost."""
        if isinstance(one.condition, WhileHeld):
            writer.leases.check(one.condition.lease)
            one = replace(one, condition=one.condition.condition)
        conflict = self._conflict(writer, one)
        if conflict:
            return Conflict(conflict)
        return self._written(writer, [[one]])[0]

    def apply_in_order(self, writer: Writer, todo: Sequence[Application]) -> list[Applied]:
        """What was decided in one run about new memories of which none has arrived."""
        return self._written(writer, _without_effect(writer, todo))

    def _written(self, writer: Writer, parts: Iterable[list[Application]]) -> list[Applied]:
        todo, numbers = [], []
        for some in parts:
            numbers += self._write(writer, some)
            todo += some
        alive = _living_for(writer, [one.newest.id for one in todo if not _stays(one)])
        return [
            Applied(number, alive.get(one.newest.id, one.newest))
            for number, one in zip(numbers, todo, strict=True)
        ]

    def told_apart(
        self, writer: Writer, decisions: Sequence[Decision], bound_by: tuple[Judge, ...]
    ) -> str:
        """Whom somebody has told from what is to stand for it, if anyone."""
        decided = [(one, survivor) for one in decisions for survivor in one.survivors]
        texts = [(self._scope_of(s.memory), text_key(s.memory.content)) for _, s in decided]
        known = writer.distinct.of_all(texts, bound_by) if texts else []
        for (one, survivor), (_, key), distinct in zip(decided, texts, known, strict=True):
            content = {member.id: member.content for member in one.members}
            for name in survivor.stands_for:
                if name in content and text_key(content[name]) in distinct - {key}:
                    return f"{name} is distinct from {survivor.memory.id}"
        return ""

    # --- what must hold ---

    def _conflict(self, writer: Writer, one: Application) -> str:
        if one.arrival is not None and writer.memories.has_arrived(one.arrival.memory):
            return "it arrived meanwhile"
        return next(filter(None, self._moved(writer, one, one.condition)), "")

    def _moved(self, writer: Writer, one: Application, condition: Condition) -> Iterator[str]:
        """What has come first, if anything that the condition names."""
        if isinstance(condition, UnlessRepeated):
            yield self._repeated(writer, one, 0)
        if isinstance(condition, WhileUnchanged):
            yield _changed(writer, one)
        if isinstance(condition, WhileMergeable):
            yield self.told_apart(writer, [one.decision], condition.bound_by)
        if isinstance(condition, WhileUnanswered):
            yield self._answered(writer, one.decision)
        if isinstance(condition, WhileNearest) and not _is_latest(writer, condition):
            yield self._repeated(writer, one, condition.revision)
            yield self._newcomer(writer, one, condition)

    def _answered(self, writer: Writer, decision: Decision) -> str:
        """What a person has said of these members; one who joins some is not to part them again."""
        if decision.pending and writer.decisions.left_for_later(decision.members):
            return "it is left for later already"
        told = [pair for pair in combinations(decision.members, 2) if self._apart(writer, *pair)]
        joined = [{s.memory.id, *s.stands_for} for s in decision.survivors]
        for a, b in told:
            if any({a.id, b.id} <= together for together in joined):
                return f"a person keeps {a.id} and {b.id} apart"
        count = len(decision.members)
        whole = not joined and len(told) == count * (count - 1) // 2
        return "a person keeps them all apart already" if whole else ""

    def _apart(self, writer: Writer, a: Memory, b: Memory) -> bool:
        keys = text_key(a.content), text_key(b.content)
        return keys[1] in writer.distinct.of(self._scope_of(a), keys[0], ("person",))

    def _newcomer(self, writer: Writer, one: Application, condition: WhileNearest) -> str:
        if one.arrival is None or one.arrival.vector is None:
            return ""
        scope, key = self._place(one.arrival)
        considered = {name for name, _ in one.decision.candidates}
        written = writer.memories.live_written_after(condition.revision, scope)
        written = [row for row in written if row.memory.id not in considered]
        if not written:
            return ""
        distinct = writer.distinct.of(scope, key, condition.bound_by)
        newcomers = [row for row in written if row.text_key not in distinct]
        probe = Probe(one.arrival.memory.content, one.arrival.vector)
        nearest = next(iter(ranked(writer, probe, newcomers, self._scale())), None)
        if nearest is None or nearest.similarity < condition.min_similarity:
            return ""
        return f"{nearest.memory.id} came"

    def _repeated(self, writer: Writer, one: Application, since: int) -> str:
        if one.arrival is None:
            return ""
        scope, key = self._place(one.arrival)
        considered = {name for name, _ in one.decision.candidates}
        for row in writer.memories.live_with_texts([key], scope):
            if row.memory.id not in considered and row.revision > since:
                return f"{row.memory.id} says the same"
        return ""

    def _place(self, arrival: Embedded) -> tuple[Scope, str]:
        return self._scope_of(arrival.memory), text_key(arrival.memory.content)

    # --- what is done ---

    def _write(self, writer: Writer, some: Sequence[Application]) -> list[int]:
        """The numbers of decisions of one run; none changes what another is about."""
        made = [memory for one in some for memory in _made(one)]
        if made:
            writer.memories.insert_all(made)
        self._cache.keep(writer, [new for one in some for new in one.embedded])
        images = writer.memories.images([one.undone_from for one in some])
        _let_live(writer, [(one, survivor) for one in some for survivor in one.decision.survivors])
        self._mark_distinct(writer, [one.decision for one in some])
        recorded = [
            (one.decision, self._told_by_person(writer, one.decision, before))
            for one, before in zip(some, images, strict=True)
        ]
        for one in some:
            self._count_failure(writer, one)
        numbers = writer.decisions.record_all(recorded, self._clock(), some[0].run)
        writer.decisions.close_about(
            [
                (one.names, number)
                for one, number in zip(some, numbers, strict=True)
                if not one.decision.pending and (one.arrival is None or len(one.names) > 1)
            ]
        )
        return numbers

    def _mark_distinct(self, writer: Writer, decisions: Iterable[Decision]) -> None:
        """What models told apart; a person's word is another matter."""
        pairs: dict[Judge, list[tuple[Scope, str, str, str]]] = {}
        for one in decisions:
            if one.distinct and one.judge != "person":
                pairs.setdefault(one.judge, []).extend(self._told_apart(one))
        for judge, some in pairs.items():
            writer.distinct.mark_all(some, judge)

    def _told_by_person(self, writer: Writer, decision: Decision, before: str) -> str:
        """The image of what was before, with what was known of pairs that a person tells apart."""
        if decision.judge != "person":
            return before
        pairs = self._told_apart(decision)
        known = [writer.distinct.verdict(scope, a, b) for scope, a, b, _ in pairs]
        writer.distinct.mark_all(pairs, "person")
        return with_verdicts(before, known)

    def _told_apart(self, decision: Decision) -> list[tuple[Scope, str, str, str]]:
        """Each pair's scope, the keys of its texts, and why."""
        by_id = _involved(decision)
        keys = {name: text_key(memory.content) for name, memory in by_id.items()}
        return [
            (self._scope_of(by_id[a]), keys[a], keys[b], decision.reason)
            for a, b in decision.distinct
        ]

    def _count_failure(self, writer: Writer, one: Application) -> None:
        """What a model was asked and could not answer, pair by pair; the next batch asks a new."""
        decision = one.decision
        if not decision.pending or decision.model is None or decision.judge == "person":
            return
        pause = BATCH_PAUSE if one.arrival is None else timedelta(0)
        now = self._clock()
        for a, b in combinations(decision.members, 2):
            texts = (a.content, b.content)
            writer.attempts.count(self._scope_of(a), *texts, decision.model, now, pause)


def _stays(one: Application) -> bool:
    """Whether its arrival is stored just as it came; a link may lead to another end."""
    return (
        one.arrival is not None and not one.decision.survivors and not one.arrival.memory.linked_ids
    )


def _without_effect(writer: Writer, todo: Sequence[Application]) -> Iterator[list[Application]]:
    """The same in order, cut so that in no part one changes what another is about, or its links.

    What is only stored changes nothing that is about another, whoever it is linked to.
    """
    names = {name for one in todo for name in one.names}
    linked = {name for link in writer.links.touching(sorted(names)) for name in link[:2]}
    part: list[Application] = []
    changed: set[str] = set()
    for one in todo:
        ends = {end.target_id for member in one.decision.members for end in member.linked_ids}
        linked |= {one.newest.id, *ends} if ends else set()
        alone = bool(one.undone_from and linked & one.names)
        if part and (alone or changed & one.names or (changed and ends)):
            yield part
            part, changed = [], set()
        part.append(one)
        changed |= one.names | one.changes if alone else one.changes
    if part:
        yield part


def _living_for(reader: Reader, ids: Sequence[str]) -> dict[str, Memory]:
    """Who lives for each of these memories today."""
    if not ids:
        return {}
    ends = reader.memories.living_ids(ids)
    rows = reader.memories.rows(list(dict.fromkeys(ends.values())))
    return {name: rows[end].memory for name, end in ends.items()}


def _made(one: Application) -> Iterator[Memory]:
    """What it stores anew: its arrival, then each successor that was made, and former wordings."""
    if one.arrival is not None:
        yield one.arrival.memory
    for survivor in one.decision.survivors:
        if survivor.memory.id not in one.names:
            yield survivor.memory.model_copy(update={"linked_ids": ()})
        if survivor.version is not None:
            yield survivor.version


def _involved(decision: Decision) -> dict[str, Memory]:
    """Members and survivors, by id."""
    members = {member.id: member for member in decision.members}
    return members | {survivor.memory.id: survivor.memory for survivor in decision.survivors}


def _is_latest(writer: Writer, condition: WhileNearest) -> bool:
    """Whether nothing at all was written since its revision, by this transaction either."""
    return condition.revision == writer.revision() and not writer.has_written


def _changed(writer: Writer, one: Application) -> str:
    new = one.arrival.memory.id if one.arrival is not None else None
    stored = [member for member in one.decision.members if member.id != new]
    rows = writer.memories.rows([member.id for member in stored])
    for member in stored:
        row = rows.get(member.id)
        if row is None or not row.live or _unlinked(row.memory) != _unlinked(member):
            return f"{member.id} changed"
    return ""


def _unlinked(memory: Memory) -> Memory:
    """What was judged: a link that came meanwhile changes nothing of it."""
    return memory.model_copy(update={"linked_ids": ()})


def _let_live(writer: Writer, survivors: Sequence[tuple[Application, Survivor]]) -> None:
    """Members with new values; those that a survivor stands for are retired."""
    kept = [one.memory for application, one in survivors if one.memory.id in application.names]
    writer.memories.rewrite(kept)
    retired = [(name, one.memory.id) for _, one in survivors for name in one.stands_for]
    writer.memories.retire(retired)


class Probe(NamedTuple):
    """A text that others are compared with, and its vector."""

    text: str
    vector: Vector


def ranked(reader: Reader, probe: Probe, rows: Iterable[Row], scale: Scale) -> list[SearchResult]:
    """Rows by exact similarity, most similar first, then the newest; those with a vector."""
    candidates = list(rows)
    known = reader.vectors.of(row.text_key for row in candidates) if candidates else {}
    return ranked_by(known, probe, candidates, scale)


def ranked_by(
    known: Mapping[str, Vector], probe: Probe, rows: Iterable[Row], scale: Scale
) -> list[SearchResult]:
    """The same where the vectors were looked up already, by text key."""
    candidates = [row for row in rows if row.text_key in known]
    if not candidates:
        return []
    others = np.stack([known[row.text_key] for row in candidates])
    cosines = similarities(others, np.broadcast_to(probe.vector, others.shape))
    scores = scale.similarities(cosines, _strict(probe.text, candidates))
    found = [
        SearchResult(row.memory, score, cosine)
        for row, score, cosine in zip(candidates, scores.tolist(), cosines.tolist(), strict=True)
    ]
    return sorted(found, key=lambda hit: (-hit.similarity, -hit.memory.timestamp.timestamp()))


def _strict(text: str, rows: Sequence[Row]) -> npt.NDArray[np.bool_]:
    """Where kana or Han stands in either text."""
    if has_kana_or_han(text):
        return np.ones(len(rows), np.bool_)
    return np.array([has_kana_or_han(row.memory.content) for row in rows])

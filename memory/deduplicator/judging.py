"""Ask a model which memories state the same fact, and check the merged texts in its answers.

If the program cannot check a merged text, the model compares the text with the original memories in
a second reading. A model is only trusted with second readings after a trial; see `TRIAL`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import chain, combinations, repeat

from memory.decide import (
    Apart,
    Part,
    after_failure,
    as_read,
    checked_part,
    decided,
    merged,
    objection,
    part_alone,
    refused_again,
    resolve,
    same_fact,
    successions,
)
from memory.errors import CallsSpent, ModelError, ModelNotAsked
from memory.ledger import Reader
from memory.models import (
    MOST_READ,
    PERSON,
    Action,
    Condition,
    Decision,
    Embedded,
    Extracted,
    Judge,
    LanguageModel,
    Memory,
    ProposedMerge,
    Question,
    Refusal,
    Rereading,
    Rules,
    Scope,
    Succession,
    Usage,
    Verdict,
    cosine_of,
    quoted,
)
from memory.providers import Asking, CallBudget
from memory.runtime import OfEachLoop, in_thread, in_thread_if_long
from memory.store import Asker, MemoryStore, superseding

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class NamedMerge:
    """The result of checking a merge that a model proposed when it extracted a new memory.

    `decision`: None if the memories can no longer be merged; `conflict` then says why. If the
    merged text was refused, the decision keeps all memories. `usage`: if several merges are checked
    in one call, the whole cost is recorded with the first merge.
    """

    decision: Decision | None = None
    conflict: str = ""
    usage: Usage = field(default_factory=Usage)

    @property
    def merge(self) -> Decision | None:
        """The decision if its merged text was accepted, else None."""
        return self.decision if self.decision and self.decision.survivors else None


class Judging:
    """Asks a language model which memories state the same fact, and returns decisions.

    The program checks each merged text in the answers. If the program is in doubt, the model
    compares the text with the original memories in a second call. If the model is not trusted with
    this comparison, the program compares the words instead.
    """

    def __init__(self, store: MemoryStore, model: LanguageModel, rules: Rules) -> None:
        self._store = store
        self.model = model
        self._rules = rules
        self._trusted: bool | None = None
        self._asks_again = False
        self._trying: OfEachLoop[asyncio.Lock] = OfEachLoop()

    def within(self, seconds: float) -> Callable[[Question], Awaitable[Decision]]:
        """Return a function that decides a question in eight calls and so many seconds."""
        return lambda question: self.decide(question, Asking(CallBudget(8), seconds))

    async def decide(self, question: Question, asking: Asking) -> Decision:
        """Ask the model and return its decision, or a fallback if it gives no usable answer.

        If a merged text is refused, the model is told why, and answers once more. Groups whose text
        is accepted then are merged, and those of the first answer that share no member with them.

        If there are no such groups, or if the first call fails, rules decide. If no calls are left,
        all members are kept. Both decisions are pending: a later batch asks the model again. If no
        calls are left or the model was not asked, `model` is None in the decision.
        """
        try:
            verdict, found = await self.ask(question, asking)
            parts = await self.settle(found, asking)
        except CallsSpent as exc:
            decision = left_open(question.members, exc.problem, question.similarity)
            return replace(decision, cosine=question.cosine, usage=asking.usage)
        except ModelError as exc:
            asked = asking.usage.calls > 0 or not isinstance(exc, ModelNotAsked)
            what = "DEDUP_FAIL: LLM merge failed"
            return await self._failed(question, str(exc), what, asking.usage, asked=asked)
        ended = successions(question, verdict)
        refused = [part for part in parts if part.is_refused]
        believed = [part for part in parts if not part.is_refused]
        to_mend = [part for part in refused if not part.is_final]
        if to_mend:
            again = replace(question, objection=objection(question.members, to_mend, believed))
            logger.warning("the model's answer is discarded: %s", again.objection)
            try:
                verdict, found = await self.ask(again, asking, refused=to_mend)
                parts = await self.settle(found, asking)
            except ModelError as exc:
                logger.warning("the judge has no second answer: %s", exc)
            else:
                believed = _believed(parts, believed)
                refused += [part for part in parts if part.is_refused]
                to_mend = [part for part in parts if part.is_refused]
        refusals: tuple[Refusal, ...] = ()
        if refused:
            texts = [text for part in refused for text in merge_texts(part.merge)]
            refusals = await in_thread_if_long(texts, _not_mended, refused, believed)
        if not believed and (to_mend or refused):
            what, why = "DEDUP_REFUSED: merged text refused", (to_mend or refused)[-1].reason
            decision = await self._failed(question, why, what, asking.usage)
            return replace(decision, refused=refusals, successions=ended)
        new_id, name = self._store.new_id, self.model.name
        decision = decided(question, verdict, believed, new_id, name, to_mend)
        log_merges(decision)
        return replace(decision, usage=asking.usage, refused=refusals, successions=ended)

    async def join_named(
        self, new: Sequence[tuple[Extracted, Embedded]], asking: Asking
    ) -> list[NamedMerge]:
        """Check the merges that extraction proposed for new memories; return one result for each.

        `new`: each new memory as it was extracted, and the same memory with its vector. One call of
        the model checks all doubtful texts.
        """
        found, revision = await in_thread(_find_named, self._store, new)
        parts = await self.without_repeats([one[0] for one in found if not isinstance(one, str)])
        settled, problem = await self._read_all(parts, asking)
        remaining, joined = iter(await self.mended(settled, asking)), list[NamedMerge]()
        bound_by = Asker(self.model.name).bound_by
        for (_, embedded), named in zip(new, found, strict=True):
            if isinstance(named, str):
                joined.append(NamedMerge(conflict=named))
                continue
            part, similarity = next(remaining), named[1]
            if part.is_doubtful:
                asked = self.model.name if asking.usage.calls else None
                decision = left_open(part.merge.members, problem, similarity, asked)
            else:
                why = "extraction named what it repeats or updates"
                texts = merge_texts(part.merge)
                decision = await in_thread_if_long(texts, self.join, part, similarity, why)
            condition = Condition(revision, bound_by if decision.survivors else None)
            joined.append(NamedMerge(replace(decision, arrival=embedded, condition=condition)))
        return [replace(joined[0], usage=asking.usage), *joined[1:]]

    def join(self, part: Part, similarity: float | None, why: str = "") -> Decision:
        """Return the decision about one proposed merge whose text has been checked.

        If the text was accepted, the decision merges the members, with the reason `why` (default:
        the model's). If it was refused, the decision keeps them. It is then pending: a later batch
        asks about them again. It is not pending if `part.is_final` is true.
        """
        members = part.merge.members
        if part.is_believed and part.merge.ends and part.verified != "by words":
            reason = f"it holds no longer: {part.why}" if part.why else "it holds no longer"
            older, newer = members
            decision = superseding(older, newer, reason, self.model.name, Condition())
            return replace(decision, verified=part.verified)
        if part.is_believed:
            return Decision(
                Action.MERGE,
                "; ".join(filter(None, (why or same_fact(part.why), part.reason))),
                members,
                (merged(part.merge.text, members, self._store.new_id),),
                similarity=similarity,
                model=self.model.name,
                verified=part.verified,
            )
        text = quoted(part.merge.text)
        logger.warning('DEDUP_REFUSED: "%s" is not merged (%s)', text, part.reason)
        decision = left_open(members, f"refused: {part.reason}", similarity, self.model.name)
        return replace(decision, pending=not part.is_final, refused=(part.refusal,))

    async def mended(self, parts: Sequence[Part], asking: Asking) -> list[Part]:
        """Ask the model once more about each refused merge; return the merges, mended if it can.

        A mended merge has the same members. If the model has no other text, the merge stays
        refused, and a page asks about its members later.
        """
        refused = [part for part in parts if part.is_refused and not part.is_final]
        mended: dict[str, Part] = {}
        try:
            for part in refused:
                members, why = part.merge.members, objection(part.merge.members, [part])
                question = Question(members, "asked once more", 0.0, objection=why)
                _, found = await self.ask(question, asking, refused=[part])
                mended.update((part.key, one) for one in found if one.ids == part.ids)
            texts = await self.settle([*mended.values()], asking)
        except ModelError as exc:
            logger.warning("the judge has no second answer: %s", exc)
            return list(parts)
        accepted = {
            key: part for key, part in zip(mended, texts, strict=True) if not part.is_refused
        }
        return [accepted.get(part.key, part) for part in parts]

    async def _read_all(self, parts: Sequence[Part], asking: Asking) -> tuple[Sequence[Part], str]:
        first, others = parts[:MOST_READ], parts[MOST_READ:]
        problem = f"one second reading is shown {MOST_READ} merges" if others else ""
        try:
            return (*await self.settle(first, asking), *others), problem
        except CallsSpent as exc:
            return parts, exc.problem
        except ModelError as exc:
            logger.warning("DEDUP_FAIL: LLM merge failed, falling back to keep both (%s)", exc)
            return parts, str(exc)

    async def ask(
        self,
        question: Question,
        asking: Asking,
        apart: Apart = lambda _: None,
        refused: Sequence[Part] = (),
    ) -> tuple[Verdict, list[Part]]:
        """Ask a question; return the model's answer, and the proposed merges in it.

        Each merge is checked without a model, and marked as accepted, refused or doubtful. `apart`:
        takes memories, and returns the judge who ruled that two of them are different facts, or
        None. If there is such a judge, the merge of the memories is refused. A text that was
        refused before for the same memories, in `refused` or in the ledger, is refused again.

        Raises: ModelError.
        """
        verdict = await asking.ask(self.model.judge, question)
        texts = [*(one.content for one in question.members), *(one.text for one in verdict.parts)]
        parts = await in_thread_if_long(texts, resolve, question, verdict, apart)
        return verdict, await self.without_repeats(parts, refused)

    async def without_repeats(
        self, parts: Sequence[Part], refused: Sequence[Part] = ()
    ) -> list[Part]:
        """Return the merges, those refused that a second reading has refused before."""
        ids = {name for part in parts if part.is_doubtful for name in part.ids}
        if not ids:
            return list(parts)
        before = [part.refusal for part in refused]
        if not self._asks_again:
            before += await in_thread(self._refusals_of, ids)
        return [refused_again(part, before) for part in parts]

    def _refusals_of(self, ids: Collection[str]) -> list[Refusal]:
        with self._store.ledger.reading() as reader:
            return reader.refusals.of(ids)

    async def _failed(
        self, question: Question, why: str, what: str, usage: Usage, *, asked: bool = True
    ) -> Decision:
        texts = [member.content for member in question.members]
        decision = await in_thread_if_long(texts, after_failure, question, why, self._rules)
        fallback = "replace" if decision.survivors else "keep both"
        logger.warning("%s, falling back to %s (%s)", what, fallback, decision.reason)
        return replace(decision, model=self.model.name if asked else None, usage=usage)

    # --- second readings ---

    async def settle(self, parts: Sequence[Part], asking: Asking) -> tuple[Part, ...]:
        """Return the proposed merges in order, with each doubtful one now accepted or refused.

        At most 16 merges may be doubtful, because the model reads them in one call. A merge that
        the model's answer does not mention is refused.

        Raises: ModelError.
        """
        doubtful = [part for part in parts if part.is_doubtful]
        if not doubtful:
            return tuple(parts)
        if await self._is_trusted(asking):
            answer = await asking.ask(self.model.reread, [part.merge for part in doubtful])
            settled: Iterator[Part] = map(as_read, doubtful, chain(answer.readings, repeat(None)))
        else:
            settled = iter(
                [
                    await in_thread_if_long(
                        merge_texts(part.merge), checked_part, part.merge, by_words=True
                    )
                    for part in doubtful
                ]
            )
        return tuple(next(settled) if part.is_doubtful else part for part in parts)

    # --- what newer memories have ended ---

    async def read_ended(self, named: Sequence[Succession], asking: Asking) -> list[Decision]:
        """Read again what a model named as ended; return the decisions, the oldest memory's first.

        A memory is superseded whole or not at all. If the newer one does not say all that still
        holds, the model is asked once for a text that does, and this text is checked as a merge.
        Apply the decisions in order. A memory that was merged meanwhile counts as the memory that
        it became.

        Raises: ModelError if the model gives no second reading.
        """
        parts, revision = await in_thread(self._ended_parts, named)
        parts = await self.without_repeats(parts)
        settled: list[Part] = []
        for start in range(0, len(parts), MOST_READ):
            settled += await self.settle(parts[start : start + MOST_READ], asking)
        decisions = []
        for part in await self.mended(settled, asking):
            if part.is_refused:
                part = replace(part, is_final=True)
            decision = self.join(part, None)
            bound_by = (PERSON,) if decision.survivors else None
            decisions.append(replace(decision, condition=Condition(revision, bound_by)))
        return decisions

    async def ended(self, named: Sequence[Succession], asking: Asking) -> list[Decision]:
        """Return what `read_ended` returns; if the model fails, log it and return no decision.

        The pairs then stay as they are: recall shows the newer memory first.
        """
        try:
            return await self.read_ended(named, asking) if named else []
        except ModelError as exc:
            logger.warning("what the model called outdated stays: %s", exc)
            return []

    def _ended_parts(self, named: Sequence[Succession]) -> tuple[list[Part], int]:
        """Return a part for each pair that may be superseded, and the ledger's revision."""
        found: dict[tuple[str, str], Part] = {}
        with self._store.ledger.reading() as reader:
            for one in named:
                older, newer = map(reader.memories.living, (one.older_id, one.newer_id))
                if older is None or newer is None or (older.memory.id, newer.memory.id) in found:
                    continue
                if not self._is_later(older.memory, newer.memory):
                    logger.info("%s does not end %s", newer.memory.id, older.memory.id)
                    continue
                scope = self._store.scope_of(newer.memory)
                [apart] = reader.distinct.of_all([(scope, newer.dated_key)], (PERSON,))
                if older.dated_key in apart:
                    continue
                merge = ProposedMerge((older.memory, newer.memory), newer.memory.content, ends=True)
                found[merge.members[0].id, merge.members[1].id] = replace(
                    checked_part(merge), why=one.why
                )
            revision = reader.revision()
        return sorted(found.values(), key=lambda part: part.merge.members[0].timestamp), revision

    def _is_later(self, older: Memory, newer: Memory) -> bool:
        known = older.said is not None and newer.said is not None
        same = self._store.scope_of(older) == self._store.scope_of(newer)
        later = older.timestamp < newer.timestamp and newer.lasts_as_long_as(older)
        return known and same and later

    # --- the trial ---

    async def _is_trusted(self, asking: Asking) -> bool:
        async with self._trying.mine(asyncio.Lock):
            if self._trusted is None:
                self._trusted = await in_thread(self.passed_trial)
            if self._trusted is None:
                self._trusted = await self._tried(asking)
        return self._trusted

    async def _tried(self, asking: Asking) -> bool:
        answer = await asking.ask(self.model.reread, TRIAL)
        if all(reading is None for reading in answer.readings):
            if answer.usage.calls:  # else it has no `reread`
                name = self.model.name
                logger.warning("%s gave no reading when it was tried: %s", name, BY_WORDS)
            return False  # and is tried again by the next run
        wrong = accepted_wrongly(answer)
        await in_thread(self._keep, wrong)
        if wrong > MOST_WRONGLY_ACCEPTED:
            logger.warning("%s", described(self.model.name, wrong))
        return wrong <= MOST_WRONGLY_ACCEPTED

    def passed_trial(self) -> bool | None:
        """Return whether the model passed its trial; None if the ledger has no result."""
        with self._store.ledger.reading() as reader:
            wrong = reader.meta(PREFIX + self.model.name)
        return None if wrong is None else int(wrong) <= MOST_WRONGLY_ACCEPTED

    def _keep(self, wrong: int) -> None:
        with self._store.ledger.writing() as writer:
            writer.set_meta(PREFIX + self.model.name, str(wrong))

    def begin_again(self) -> None:
        """Ask the model as if it had judged nothing before, and try it once more."""
        self._trusted = None
        self._asks_again = True
        with self._store.ledger.writing() as writer:
            writer.drop_meta(PREFIX + self.model.name)


def merge_texts(merge: ProposedMerge) -> list[str]:
    return [merge.text, *(member.content for member in merge.members)]


def _believed(new: Sequence[Part], before: Sequence[Part]) -> list[Part]:
    """Return the accepted merges of a second answer, and those of the first that they leave."""
    found = [part for part in new if not part.is_refused]
    taken = set[str]().union(*(part.ids for part in found))
    return [*found, *(part for part in before if part.ids.isdisjoint(taken))]


def _not_mended(refused: Sequence[Part], believed: Sequence[Part]) -> tuple[Refusal, ...]:
    """Return the refusals that no accepted merge has made up for, each once."""
    left = (part for part in refused if not any(part.ids <= one.ids for one in believed))
    return tuple({part.key: part.refusal for part in left}.values())


def left_open(
    members: tuple[Memory, ...],
    why: str,
    similarity: float | None,
    model: str | None = None,
    usage: Usage | None = None,
) -> Decision:
    """Return a decision that keeps the members as they are and leaves their question pending."""
    return Decision(
        Action.KEEP_BOTH,
        why,
        members,
        similarity=similarity,
        pending=True,
        model=model,
        usage=usage or Usage(),
    )


def log_merges(decision: Decision) -> None:
    for survivor in decision.survivors:
        count = len({*survivor.stands_for, survivor.memory.id} & {m.id for m in decision.members})
        text = quoted(survivor.memory.content)
        logger.info('DEDUP_MERGE: %d memories -> "%s"', count, text)


# --- what a model names when it extracts a memory ---


_Named = tuple[Part, float | None]
"""A proposed merge of a new memory with stored ones, checked without a model.

The number is the lowest similarity of the new memory to a stored one; None if no vectors are known.
"""


def _find_named(
    store: MemoryStore, new: Sequence[tuple[Extracted, Embedded]]
) -> tuple[list[_Named | str], int]:
    """Look up, for each new memory, the stored memories in its `Extracted.named`.

    Return a list, and the ledger's revision. The list has an item for each new memory, in order: a
    _Named, or the reason why the new memory cannot be merged with these stored memories. No stored
    memory is in more than one _Named.
    """
    taken: set[str] = set()
    found: list[_Named | str] = []
    with store.ledger.reading() as reader:
        for said, embedded in new:
            found.append(one := _named_by(store, reader, said, embedded, taken))
            if not isinstance(one, str):
                taken |= {name.id for name in said.named}
        return found, reader.revision()


def _named_by(
    store: MemoryStore, reader: Reader, said: Extracted, new: Embedded, taken: set[str]
) -> _Named | str:
    rows = reader.memories.rows([one.id for one in said.named])
    for one in said.named:
        row = rows.get(one.id)
        if one.id in taken:
            return f"another memory of these turns replaces {one.id}"
        if row is None or not row.live or row.text_key != one.text_key:
            return f"{one.id} changed after it was shown"
    vectors = reader.vectors.of(row.text_key for row in rows.values())
    alike = [
        store.scale.similarity(
            cosine_of(vectors[row.text_key], new.vector), row.memory.content, new.memory.content
        )
        for row in rows.values()
        if new.vector is not None and row.text_key in vectors
    ]
    members = [*(row.memory for row in rows.values()), new.memory]
    members.sort(key=lambda one: one.timestamp)
    keeper = _keeper(reader, store.scope_of(new.memory), members)
    part = part_alone(ProposedMerge(tuple(members), said.merged.strip()), keeper)
    return part, min(alike, default=None)


def _keeper(reader: Reader, scope: Scope, members: Sequence[Memory]) -> Judge | None:
    """Return who called two members distinct, a person or a model; None if nobody did.

    If both did, return the person. A verdict on a memory that a member replaced counts as one on
    the member.
    """
    stored = reader.memories
    stand_for = [
        {member.dated_key}
        | {row.dated_key for row in stored.rows(stored.ancestors(member.id)).values()}
        for member in members
    ]
    keys = sorted(set().union(*stand_for))
    judges: tuple[Judge, ...] = ("person", "model")
    for judge in judges:
        apart = reader.distinct.of_all([(scope, key) for key in keys], (judge,))
        pairs = {
            (min(key, other), max(key, other))
            for key, others in zip(keys, apart, strict=True)
            for other in others
        }
        if any_pair(stand_for, pairs):
            return judge
    return None


def any_pair(texts: Iterable[Collection[str]], pairs: Collection[tuple[str, str]]) -> bool:
    """Return whether texts of two members are such a pair; `texts`: those of each member."""
    return any(
        (min(a, b), max(a, b)) in pairs
        for one, other in combinations(texts, 2)
        for a in one
        for b in other
    )


# --- the trial: test merges that a model reads once before it is trusted with second readings ---
#
# Six texts are faithful to their memories. Each of the other seven has an error that is easy to
# miss: a changed value, a wrong person, a newer fact left out, an invention, or a newer memory that
# is said to end another one, of which something still holds.

BY_WORDS = "it counts as having no second reading, and its merged texts are checked word by word"
PREFIX = "second_reading:3:"
"""Prefix of the ledger's keys for results of trials; a model's name follows.

Raise the number when the test merges change, so that every model is tried with the new ones.
"""


MOST_WRONGLY_ACCEPTED = 1
_FAITHFUL, _WRONG = True, False
_ENDS: tuple[tuple[bool, str, str], ...] = (
    (
        _FAITHFUL,
        "Odile lives in Namur.",
        "Odile moved from Namur to Arlon and likes her new flat.",
    ),
    (
        _WRONG,  # somebody may have two
        "Bram's phone number at the surgery is 0412.",
        "Bram's phone number at home is 0977.",
    ),
    (
        _WRONG,  # he still sings
        "Idris plays chess on Mondays and sings in a choir.",
        "Idris no longer plays chess, as the club has closed.",
    ),
    (
        _FAITHFUL,
        "Wanda is not sure whether she will sell the barn.",
        "Wanda has decided to keep the barn.",
    ),
    (
        _WRONG,  # a plan
        "Selma works at a bank in Lund.",
        "Selma hopes to work at a museum in Lund one day.",
    ),
)
"""Whether the second memory ends the first, and both."""
_MERGES = (
    (
        _FAITHFUL,
        "Ines moved to Ghent for a job at a print shop.",
        "Ines has been running the print shop in Ghent since its owner retired.",
        "Ines moved to Ghent to work at a print shop, which she runs now that its owner retired.",
    ),
    (
        _WRONG,  # a value: once every two weeks, not twice a week
        "Tomasz sees a physiotherapist about his knee.",
        "Tomasz sees the physiotherapist every other week and does exercises at home.",
        "Tomasz sees a physiotherapist about his knee twice a week and exercises at home.",
    ),
    (
        _WRONG,  # who: Amara is the one who owes
        "Amara and her brother Kofi bought a van together.",
        "Amara still owes Kofi her share of the van, and pays him back every month.",
        "Amara and her brother Kofi bought a van together; Kofi still owes her his share, which he "
        "pays back every month.",
    ),
    (
        _FAITHFUL,
        "Lucia is thinking about giving up meat.",
        "Lucia is a vegetarian now, though she still eats fish when she travels.",
        "Lucia has become a vegetarian, but eats fish on her travels.",
    ),
    (
        _FAITHFUL,
        "Henrik teaches chemistry at a school in Aarhus.",
        "Henrik's pupils won a prize with a project about dyes.",
        "Henrik is a chemistry teacher in Aarhus whose students won a prize for their project on "
        "dyes.",
    ),
    (
        _WRONG,  # the newer fact, that the lessons have stopped, is gone
        "Noor takes piano lessons from a neighbour and practises every evening.",
        "Noor stopped the lessons with her neighbour, but still practises the piano every evening.",
        "Noor learns the piano with a neighbour and practises every evening.",
    ),
    (
        _FAITHFUL,
        "Pavel's dog is afraid of thunder.",
        "Pavel bought his dog a padded vest, and it no longer hides during storms.",
        "Pavel's dog used to hide in thunderstorms; since Pavel got it a padded vest, it does not.",
    ),
    (
        _WRONG,  # an invention: nobody says why
        "Greta sold her car.",
        "Greta sold her car and cycles to the harbour, where she works.",
        "Greta sold her car to save money, and cycles to her work at the harbour.",
    ),
)


def _merge(number: int, *texts: str, ends: bool = False) -> ProposedMerge:
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)
    *members, merged = texts
    return ProposedMerge(
        tuple(
            Memory(id=f"mem_{16 * number + n:012x}", content=text, timestamp=start.replace(hour=n))
            for n, text in enumerate(members)
        ),
        merged,
        ends,
    )


TRIAL = (
    *(_merge(number, *texts) for number, (_, *texts) in enumerate(_MERGES)),
    *(
        _merge(number, older, newer, newer, ends=True)
        for number, (_, older, newer) in enumerate(_ENDS, start=len(_MERGES))
    ),
)
"""The test merges, which a model reads in one call before it is trusted."""
FAITHFUL = tuple(faithful for faithful, *_ in (*_MERGES, *_ENDS))
"""For each test merge in `TRIAL`, in order: whether its text is faithful to its memories."""


def accepted_wrongly(answer: Rereading) -> int:
    """Count the wrong test merges that a model accepted.

    `answer`: the model's readings of `TRIAL`, in order. A merge without a reading counts as not
    accepted.
    """
    return sum(
        reading is not None and reading.accepted and not faithful
        for reading, faithful in zip(answer.readings, FAITHFUL, strict=False)
    )


def untrusted_readers(reader: Reader) -> list[str]:
    """Return a sentence about each model that failed its trial on test merges, sorted by name."""
    return [
        described(key.removeprefix(PREFIX), int(wrong))
        for key, wrong in sorted(reader.metas(PREFIX).items())
        if int(wrong) > MOST_WRONGLY_ACCEPTED
    ]


def described(name: str, wrong: int) -> str:
    return (
        f"{name} accepted {wrong} of {FAITHFUL.count(False)} wrong merges when it was tried: "
        f"{BY_WORDS}"
    )

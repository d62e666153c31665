"""Ask a model which memories state the same fact, and check the texts it would merge them into."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from memory.coverage import Belief
from memory.decide import (
    Apart,
    Part,
    after_failure,
    decided,
    merged,
    page_parts,
    part_alone,
    resolve,
)
from memory.deduplicator.second_reading import SecondReader
from memory.errors import CallsSpent, ModelError, ModelNotAsked
from memory.models import (
    MOST_READ,
    Action,
    Decision,
    Embedded,
    Extracted,
    Memory,
    ProposedMerge,
    Question,
    Rules,
    Usage,
    Verdict,
)
from memory.protocols import LanguageModel
from memory.providers import Asking
from memory.runtime import in_thread, in_thread_if_long
from memory.store import MemoryStore, Named, find_named
from memory.text import shortened

logger = logging.getLogger(__name__)

QUOTED = 60
"""The greatest number of characters of a memory that a log line quotes."""
_FAILED = "DEDUP_FAIL: LLM merge failed"


@dataclass(frozen=True)
class _Problem:
    """The reason why an answer of the model cannot be used as it is.

    `why`: the reason in words. `refused`: true if the answer had the right form, but at least one
    of its merged texts was refused.
    """

    why: str
    refused: bool = False
    partial: Decision | None = None
    """The decision about those groups of the answer that were accepted; None if there are none."""


@dataclass(frozen=True)
class NamedMerge:
    """The result of checking a merge that a model proposed when it extracted a new memory.

    The proposal is to merge the new memory with stored memories that the model named.
    """

    decision: Decision | None = None
    """The decision about the merge; None if the memories can no longer be merged.

    If the merged text was refused, the decision keeps all memories unmerged, and their question
    stays pending.
    """
    revision: int = 0
    conflict: str = ""
    """The reason why the memories can no longer be merged; empty if they can."""
    usage: Usage = field(default_factory=Usage)
    """Cost of the check; if several merges are checked in one call, only the first has a cost."""


class Judging:
    """Asks a language model which memories state the same fact, and returns decisions.

    The program checks the merged texts in the answers. If the program is in doubt, the model
    compares them with their memories in a second call.
    """

    def __init__(self, store: MemoryStore, model: LanguageModel, rules: Rules) -> None:
        self._store = store
        self.model = model
        self._rules = rules
        self.reader = SecondReader(store, model)

    async def decide(self, question: Question, asking: Asking, most_answers: int) -> Decision:
        """Ask the model and return its decision, or a fallback if it gives no usable answer.

        After an unusable answer, the question is repeated with the reason. After `most_answers`
        unusable answers, or if the model fails, rules decide, and the question stays pending.
        `asking`: the limits on calls and seconds. If no calls are left, nothing is asked: the
        returned decision keeps all members, stays pending and names no model.
        """
        problem = _Problem("")
        for _ in range(most_answers):
            try:
                answer = await self._answer(question, asking)
            except CallsSpent as exc:
                similarity, cosine = question.similarity, question.cosine
                decision = left_open(question.members, exc.problem, similarity)
                return replace(decision, cosine=cosine, usage=asking.usage)
            except ModelError as exc:
                asked = asking.usage.calls > 0 or not isinstance(exc, ModelNotAsked)
                return await self._failed(question, _Problem(str(exc)), asking.usage, asked)
            if isinstance(answer, Decision):
                log_merges(answer)
                return replace(answer, usage=asking.usage)
            problem = answer
            logger.warning("the model's answer is discarded: %s", problem.why)
            question = replace(question, objection=problem.why)
        return await self._failed(question, problem, asking.usage)

    async def join_named(
        self, new: Sequence[tuple[Extracted, Embedded]], asking: Asking
    ) -> list[NamedMerge]:
        """Check the merges that extraction proposed for new memories; return one result for each.

        `new`: each new memory as it was extracted, and the same memory with its vector. The results
        are in the order of `new`. If the program is in doubt about merged texts, one call of the
        model checks all of these texts. `asking`: the limits on calls and seconds.
        """
        found, revision = await in_thread(find_named, self._store, new)
        parts: list[Part] = []
        for (extracted, _), named in zip(new, found, strict=True):
            if isinstance(named, Named):
                merge = ProposedMerge(named.members, extracted.merged.strip())
                texts = [merge.text, *(one.content for one in named.members)]
                keeper = named.keeper
                parts.append(await in_thread_if_long(texts, part_alone, merge, keeper))
        settled, problem = await self._read_all(parts, asking)
        checked, joined = iter(settled), list[NamedMerge]()
        for named in found:
            if isinstance(named, str):
                joined.append(NamedMerge(conflict=named))
                continue
            part = next(checked)
            if part.belief is Belief.DOUBTFUL:
                asked = self.model.name if asking.usage.calls else None
                decision = left_open(named.members, problem, named.similarity, asked)
            else:
                why = part.reason or "extraction named what it repeats or updates"
                decision = self.join(part, named.similarity, why)
            joined.append(NamedMerge(decision, revision))
        return [replace(joined[0], usage=asking.usage), *joined[1:]]

    def join(self, part: Part, similarity: float | None, why: str = "") -> Decision:
        """Return the decision about one proposed merge whose text has been checked.

        `part`: the merge with the result of the check. If the text was accepted, the members are
        merged, and `why` is the recorded reason. If it was refused, the members are kept as they
        are. Their question then stays pending, unless the refusal is final. `similarity`: recorded
        with the decision.
        """
        members = part.merge.members
        if part.belief is Belief.BELIEVED:
            return Decision(
                Action.MERGE,
                why or "states the same fact",
                members,
                (merged(part.merge.text, members, self._store.new_id),),
                similarity=similarity,
                model=self.model.name,
                verified=part.verified,
            )
        text = shortened(part.merge.text, QUOTED)
        logger.warning('DEDUP_REFUSED: "%s" is not merged (%s)', text, part.reason)
        decision = left_open(members, f"refused: {part.reason}", similarity, self.model.name)
        return replace(decision, pending=not part.is_final)

    async def _read_all(self, parts: Sequence[Part], asking: Asking) -> tuple[Sequence[Part], str]:
        """Have the model check doubtful merged texts in one call; return all merges, and a problem.

        `parts`: the proposed merges; only the first 16 are checked, the others are returned
        unchanged. `asking`: the limits on calls and seconds. The problem says why some merges were
        not checked; it is "" if all were.
        """
        first, others = parts[:MOST_READ], parts[MOST_READ:]
        problem = f"one second reading is shown {MOST_READ} merges" if others else ""
        try:
            return (*await self.reader.settle(first, asking), *others), problem
        except CallsSpent as exc:
            return parts, exc.problem
        except ModelError as exc:
            logger.warning("DEDUP_FAIL: LLM merge failed, falling back to keep both (%s)", exc)
            return parts, str(exc)

    async def _answer(self, question: Question, asking: Asking) -> Decision | _Problem:
        """Ask the question once; return a decision, or a problem if the answer cannot be used.

        `asking`: the limits on calls and seconds.

        Raises: ModelError.
        """
        verdict = await asking.ask(self.model.judge, question)
        texts = [*(one.content for one in question.members), *(one.text for one in verdict.parts)]
        parts = await in_thread_if_long(texts, resolve, question, verdict)
        if isinstance(parts, str):
            return _Problem(parts)
        return self._decided(question, verdict, await self.reader.settle(parts, asking))

    async def decide_together(
        self, questions: Sequence[Question], asking: Asking
    ) -> list[Decision | None]:
        """Ask about several groups of one scope in a single question; return their decisions.

        `questions`: one per group; the decisions are in the same order. If the answer merges
        members of two groups, both groups get None instead of a decision. `asking`: the limits on
        calls and seconds.

        Raises: ModelError.
        """
        members = [one for question in questions for one in question.members]
        members.sort(key=lambda one: one.timestamp)
        page = Question(tuple(members), "asked together", 0.0, is_page=True)
        verdict, parts = await self.read_page(page, asking, lambda _: None)
        verdict = verdict.model_copy(update={"reason": "", "usage": Usage()})  # of other groups too
        settled: list[Part] = []
        for n in range(0, len(parts), MOST_READ):
            settled += await self.reader.settle(parts[n : n + MOST_READ], asking)
        found: list[Decision | None] = []
        for question in questions:
            ids = {member.id for member in question.members}
            own = [part for part in settled if not part.ids.isdisjoint(ids)]
            decision = None
            if all(part.ids <= ids for part in own):
                decision = self._decided(question, verdict, own)
            if isinstance(decision, _Problem):
                decision = await self._failed(question, decision, Usage())
            found.append(decision)
        return found

    async def read_page(
        self, page: Question, asking: Asking, apart: Apart
    ) -> tuple[Verdict, list[Part]]:
        """Ask about a page; return the model's answer, and a checked part for each group in it.

        A group is memories that the model wants to merge. The program checks each merged text: a
        part is accepted, refused or, if the model must read the text, DOUBTFUL. `apart`: called
        with the members of a group; returns the judge who called two of them different, or None.
        `asking`: the limits on calls and seconds.

        Raises: ModelError.
        """
        verdict = await asking.ask(self.model.judge, page)
        texts = [*(one.content for one in page.members), *(one.text for one in verdict.parts)]
        return verdict, await in_thread_if_long(texts, page_parts, page, verdict, apart)

    def _decided(
        self, question: Question, verdict: Verdict, parts: Sequence[Part]
    ) -> Decision | _Problem:
        """Turn the model's answer to a question into a decision.

        `verdict`: the answer. `parts`: the merges in the answer, each accepted or refused. If any
        merge was refused, return a problem instead. The problem's `partial` is the decision about
        the accepted merges, or None if there are none.
        """
        refused = [part for part in parts if part.belief is Belief.REFUSED]
        believed = [part for part in parts if part not in refused]
        gone = {member.id for part in refused for member in part.merge.members}
        left = tuple(member for member in question.members if member.id not in gone)
        rest = replace(question, members=left)
        decision = decided(rest, verdict, believed, self._store.new_id, self.model.name)
        if not refused:
            return decision
        why = "; ".join(part.reason for part in refused)
        partial = replace(decision, reason=f"{decision.reason}; another group is refused: {why}")
        return _Problem(why, refused=True, partial=partial if believed else None)

    async def _failed(
        self, question: Question, problem: _Problem, usage: Usage, asked: bool = True
    ) -> Decision:
        """Return the decision about a question to which the model gave no usable answer.

        If `problem.partial` is a decision, it is returned; otherwise rules decide. `usage`: the
        cost of the failed answers. `asked`: whether the model was asked at all; if not, a decision
        by rules names no model.
        """
        if problem.partial is not None:
            log_merges(problem.partial)
            return replace(problem.partial, usage=usage)
        texts = [member.content for member in question.members]
        decision = await in_thread_if_long(texts, after_failure, question, problem.why, self._rules)
        fallback = "replace" if decision.survivors else "keep both"
        failed = "DEDUP_REFUSED: merged text refused" if problem.refused else _FAILED
        logger.warning("%s, falling back to %s (%s)", failed, fallback, decision.reason)
        return replace(decision, model=self.model.name if asked else None, usage=usage)


def left_open(
    members: tuple[Memory, ...],
    why: str,
    similarity: float | None,
    model: str | None = None,
    usage: Usage | None = None,
) -> Decision:
    """Return a decision that keeps the members as they are and leaves their question pending.

    `why`: the recorded reason. `similarity`: recorded with the decision; None if it is not known.
    `model`: the model that was asked; None if no model was asked. `usage`: the cost of asking.
    """
    decision = Decision(Action.KEEP_BOTH, why, members, similarity=similarity, pending=True)
    return replace(decision, model=model, usage=usage or Usage())


def log_merges(decision: Decision) -> None:
    for survivor in decision.survivors:
        count = len({*survivor.stands_for, survivor.memory.id} & {m.id for m in decision.members})
        text = shortened(survivor.memory.content, QUOTED)
        logger.info('DEDUP_MERGE: %d memories -> "%s"', count, text)

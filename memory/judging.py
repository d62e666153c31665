"""A question to the model: its verdict is held against the sources, in doubt read a second time."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from memory.decide import Part, after_failure, decided, resolve
from memory.errors import CallsSpent, ModelError, ModelNotAsked
from memory.models import Action, Decision, Question, Rules, Usage
from memory.protocols import LanguageModel
from memory.providers import Asking
from memory.second_reading import SecondReader
from memory.store import MemoryStore
from memory.text import Belief, shortened
from memory.threads import in_thread_if_long

logger = logging.getLogger(__name__)

QUOTED = 60
"""Characters of a memory in a log line."""


@dataclass(frozen=True)
class _Problem:
    """Why an answer leads to no decision; `refused` where it was readable, and its text wrong."""

    why: str
    refused: bool = False


class Judging:
    """Asks a model what only a model can say, and believes no more than the words bear out."""

    def __init__(self, store: MemoryStore, model: LanguageModel, rules: Rules) -> None:
        self._store = store
        self._model = model
        self._rules = rules
        self._reader = SecondReader(store, model)

    def try_reader_again(self) -> None:
        """Try the model's second reading anew before the next merged text."""
        self._reader.try_again()

    async def decide(self, question: Question, asking: Asking, most_answers: int) -> Decision:
        """What the model's verdict amounts to; after so many that are not believed, the fallback.

        From the second time on it is told what was wrong. Where no call is left, the question
        stays open, and the decision names no model.
        """
        problem = _Problem("")
        for _ in range(most_answers):
            try:
                answer = await self._answer(question, asking)
            except CallsSpent as exc:
                return _left_open(question, exc.problem, asking.usage)
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

    async def _answer(self, question: Question, asking: Asking) -> Decision | _Problem:
        """A decision that can be believed, or why the verdict cannot.

        Raises: ModelError.
        """
        verdict = await asking.ask(self._model.judge, question)
        texts = [*(one.content for one in question.members), *(one.text for one in verdict.parts)]
        parts = await in_thread_if_long(texts, resolve, question, verdict)
        if isinstance(parts, str):
            return _Problem(parts)
        refused = _refused(parts)
        if not refused:  # else no reading is worth its price
            parts = await self._reader.settle(parts, asking)
            refused = _refused(parts)
        if refused:
            return _Problem("; ".join(refused), refused=True)
        return decided(question, verdict, parts, self._store.new_id, self._model.name)

    async def _failed(
        self, question: Question, problem: _Problem, usage: Usage, asked: bool = True
    ) -> Decision:
        """The fallback; it names the model where that was asked."""
        texts = [member.content for member in question.members]
        decision = await in_thread_if_long(texts, after_failure, question, problem.why, self._rules)
        fallback = "replace" if decision.survivors else "keep both"
        told = (
            "DEDUP_REFUSED: merged text refused, falling back to %s (%s)"
            if problem.refused
            else "DEDUP_FAIL: LLM merge failed, falling back to %s (%s)"
        )
        logger.warning(told, fallback, decision.reason)
        return replace(decision, model=self._model.name if asked else None, usage=usage)


def _left_open(question: Question, why: str, usage: Usage) -> Decision:
    return Decision(
        Action.KEEP_BOTH,
        why,
        question.members,
        similarity=question.similarity,
        cosine=question.cosine,
        pending=True,
        usage=usage,
    )


def _refused(parts: Sequence[Part]) -> list[str]:
    return [part.reason for part in parts if part.belief is Belief.REFUSED]


def log_merges(decision: Decision) -> None:
    """One line for each merged text."""
    for survivor in decision.survivors:
        count = len({*survivor.stands_for, survivor.memory.id} & {m.id for m in decision.members})
        text = shortened(survivor.memory.content, QUOTED)
        logger.info('DEDUP_MERGE: %d memories -> "%s"', count, text)

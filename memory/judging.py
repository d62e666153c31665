"""A question to the model: its verdict is held against the sources, in doubt read a second time."""

from __future__ import annotations

import logging
from dataclasses import replace

from memory.decide import after_failure, decided, resolve
from memory.errors import ModelError, ModelNotAsked
from memory.models import Decision, Question, Rules, Usage
from memory.protocols import LanguageModel
from memory.providers import Budget, Spent
from memory.second_reading import SecondReader
from memory.store import MemoryStore
from memory.text import Belief, shortened

logger = logging.getLogger(__name__)

QUOTED = 60
"""Characters of a memory in a log line."""


class Judging:
    """Asks a model what only a model can say, and believes no more than the words bear out."""

    def __init__(self, store: MemoryStore, model: LanguageModel, rules: Rules) -> None:
        self._store = store
        self._model = model
        self._rules = rules
        self._reader = SecondReader(model)

    async def decide(self, question: Question, budget: Budget, most_answers: int) -> Decision:
        """What the model's verdict amounts to; after so many that are not believed, the fallback.

        From the second time on it is told what was wrong.
        """
        spent = Spent()
        for _ in range(most_answers):
            try:
                answer = await self._answer(question, budget, spent)
            except ModelError as exc:
                paid = spent.usage + Usage.of_failure(exc)
                asked = spent.usage.calls > 0 or not isinstance(exc, ModelNotAsked)
                return self._failed(question, str(exc), paid, asked)
            if isinstance(answer, Decision):
                _log_merges(answer)
                return replace(answer, usage=spent.usage)
            logger.warning("the model's answer is discarded: %s", answer)
            question = replace(question, objection=answer)
        return self._failed(question, question.objection, spent.usage)

    async def _answer(self, question: Question, budget: Budget, spent: Spent) -> Decision | str:
        """A decision that can be believed, or why the verdict cannot.

        Raises: ModelError.
        """
        verdict = await budget.wait_for(self._model.judge, question)
        spent.usage += verdict.usage
        parts = resolve(question, verdict)
        if isinstance(parts, str):
            return parts
        refused = [part.reason for part in parts if part.belief is Belief.REFUSED]
        if not refused:  # else no reading is worth its price
            parts = await self._reader.settle(parts, budget, spent)
            refused = [part.reason for part in parts if part.belief is Belief.REFUSED]
        if refused:
            return "; ".join(refused)
        return decided(question, verdict, parts, self._store.new_id, self._model.name)

    def _failed(self, question: Question, why: str, usage: Usage, asked: bool = True) -> Decision:
        """The fallback; it names the model where that was asked."""
        decision = after_failure(question, why, self._rules)
        fallback = "replace" if decision.survivors else "keep both"
        logger.warning(
            "DEDUP_FAIL: LLM merge failed, falling back to %s (%s)", fallback, decision.reason
        )
        return replace(decision, model=self._model.name if asked else None, usage=usage)


def _log_merges(decision: Decision) -> None:
    for survivor in decision.survivors:
        count = len({*survivor.stands_for, survivor.memory.id} & {m.id for m in decision.members})
        text = shortened(survivor.memory.content, QUOTED)
        logger.info('DEDUP_MERGE: %d memories -> "%s"', count, text)

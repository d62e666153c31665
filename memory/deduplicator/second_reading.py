"""Have a model read merged texts that the program cannot check, many in one call.

A model is tried before it is trusted: see `memory.deduplicator.trial`. The ledger keeps the result.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from memory.coverage import Belief
from memory.decide import Part, as_read, checked
from memory.deduplicator import trial
from memory.ledger import Reader
from memory.models import ProposedMerge
from memory.protocols import LanguageModel
from memory.providers import Asking
from memory.runtime import OfEachLoop, in_thread, in_thread_if_long
from memory.store import MemoryStore

logger = logging.getLogger(__name__)

_BY_WORDS = "it counts as having no second reading, and its merged texts are checked word by word"
_PREFIX = f"second_reading:{trial.VERSION}:"


class SecondReader:
    """Settles doubtful merges: by a second reading, or by words if the model is not trusted."""

    def __init__(self, store: MemoryStore, model: LanguageModel) -> None:
        self._store = store
        self._model = model
        self._trusted: bool | None = None
        self._trying: OfEachLoop[asyncio.Lock] = OfEachLoop()

    async def settle(self, parts: Sequence[Part], asking: Asking) -> tuple[Part, ...]:
        """Return the parts, all of one scope, each believed or refused; at most 16 are doubtful.

        They are read in one call. A merge without an answer is refused.

        Raises: ModelError.
        """
        doubtful = [part for part in parts if part.belief is Belief.DOUBTFUL]
        if not doubtful:
            return tuple(parts)
        if await self._is_trusted(asking):
            answer = await asking.ask(self._model.reread, [part.merge for part in doubtful])
            readings = (*answer.readings, *[None] * len(doubtful))
            settled = iter(list(map(as_read, doubtful, readings)))
        else:
            settled = iter([await _checked_by_words(part.merge) for part in doubtful])
        return tuple(next(settled) if part.belief is Belief.DOUBTFUL else part for part in parts)

    # --- trust ---

    async def _is_trusted(self, asking: Asking) -> bool:
        """Whether the model passed its trial, which the first task to ask holds."""
        if not self._model.page_size:
            return False
        async with self._trying.mine(asyncio.Lock):
            if self._trusted is None:
                self._trusted = await in_thread(self.known)
            if self._trusted is None:
                self._trusted = await self._tried(asking)
        return self._trusted

    async def _tried(self, asking: Asking) -> bool:
        answer = await asking.ask(self._model.reread, trial.TRIAL)
        if all(reading is None for reading in answer.readings):
            logger.warning("%s gave no reading when it was tried: %s", self._model.name, _BY_WORDS)
            return False  # and is tried again by the next run
        wrong = trial.accepted_wrongly(answer)
        await in_thread(self._keep, wrong)
        if wrong > trial.MOST_ACCEPTED:
            logger.warning("%s", _described(self._model.name, wrong))
        return wrong <= trial.MOST_ACCEPTED

    def known(self) -> bool | None:
        """Return whether the model passed its trial; None if it was not tried."""
        with self._store.ledger.reading() as reader:
            wrong = reader.meta(_PREFIX + self._model.name)
        return None if wrong is None else int(wrong) <= trial.MOST_ACCEPTED

    def _keep(self, wrong: int) -> None:
        with self._store.ledger.writing() as writer:
            writer.set_meta(_PREFIX + self._model.name, str(wrong))

    def try_again(self) -> None:
        """Forget how the model's trial went."""
        self._trusted = None
        with self._store.ledger.writing() as writer:
            writer.drop_meta(_PREFIX + self._model.name)


def untrusted_readers(reader: Reader) -> list[str]:
    """Describe each model that failed its trial, and what that means."""
    tried = reader.metas(_PREFIX)
    return [
        _described(key.removeprefix(_PREFIX), int(wrong))
        for key, wrong in sorted(tried.items())
        if int(wrong) > trial.MOST_ACCEPTED
    ]


def _described(name: str, wrong: int) -> str:
    return (
        f"{name} accepted {wrong} of {trial.FAITHFUL.count(False)} wrong merges when it was tried: "
        f"{_BY_WORDS}"
    )


async def _checked_by_words(merge: ProposedMerge) -> Part:
    texts = [merge.text, *(member.content for member in merge.members)]
    return await in_thread_if_long(texts, checked, merge, by_words=True)

"""Have a model compare merged texts with their memories if the program cannot check them.

This comparison is called a second reading. One call handles many merges. A model is only trusted
with second readings after a trial of eight test merges, whose result is stored in the ledger. Four
test merges are faithful to their memories, though reworded. Each of the other four has an error
that is easy to miss: a changed value, a wrong person, a newer fact left out, or an invention.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from memory.coverage import Belief
from memory.decide import Part, as_read, checked
from memory.ledger import Reader
from memory.models import Memory, ProposedMerge, Rereading
from memory.protocols import LanguageModel
from memory.providers import Asking
from memory.runtime import OfEachLoop, in_thread, in_thread_if_long
from memory.store import MemoryStore

logger = logging.getLogger(__name__)

TRIAL_VERSION = 1
"""Version of the test merges with which models are tried.

Raise it when these merges change, so that every model is tried with the new ones.
"""
MOST_ACCEPTED = 1
"""The greatest number of wrong test merges that a model may accept and still be trusted."""
_FAITHFUL, _WRONG = True, False
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
        "Lucia is a vegetarian now, though she still eats fish on holidays.",
        "Lucia has become a vegetarian, but eats fish when she is on holiday.",
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


def _merge(number: int, *texts: str) -> ProposedMerge:
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)
    *members, merged = texts
    return ProposedMerge(
        tuple(
            Memory(id=f"mem_{16 * number + n:012x}", content=text, timestamp=start.replace(hour=n))
            for n, text in enumerate(members)
        ),
        merged,
    )


TRIAL = tuple(_merge(number, *texts) for number, (_, *texts) in enumerate(_MERGES))
"""The eight test merges, which a model reads in one call before it is trusted."""
FAITHFUL = tuple(faithful for faithful, *_ in _MERGES)
"""For each test merge in `TRIAL`, in order: whether its text is faithful to its memories."""


def accepted_wrongly(answer: Rereading) -> int:
    """Count the wrong test merges that a model accepted.

    `answer`: the model's readings of the test merges in `TRIAL`, in order. A test merge without a
    reading counts as not accepted.
    """
    return sum(
        reading is not None and reading.accepted and not faithful
        for reading, faithful in zip(answer.readings, FAITHFUL, strict=False)
    )


# --- the reader ---------------------------------------------------------------------------------

_BY_WORDS = "it counts as having no second reading, and its merged texts are checked word by word"
_PREFIX = f"second_reading:{TRIAL_VERSION}:"


class SecondReader:
    """Decides which doubtful merged texts are accepted and which are refused.

    A text is doubtful if the program could not check it. The model compares each merged text with
    its memories. If the model is not trusted with this, the program compares the words instead.
    """

    def __init__(self, store: MemoryStore, model: LanguageModel) -> None:
        self._store = store
        self._model = model
        self._trusted: bool | None = None
        self._trying: OfEachLoop[asyncio.Lock] = OfEachLoop()

    async def settle(self, parts: Sequence[Part], asking: Asking) -> tuple[Part, ...]:
        """Return the proposed merges in order, with each doubtful one now accepted or refused.

        At most 16 merges may be doubtful, because the model reads them in one call. A merge that
        the model's answer does not mention is refused. `asking`: the limits on calls and seconds.

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
        """Return whether the model passed its trial; hold the trial now if there is no result yet.

        In the trial, the model reads eight test merges. A model that reads no pages, which are
        questions about many memories, is never trusted. If several tasks of the event loop call
        this method during a trial, they wait for its result. `asking`: the limits on calls and
        seconds.

        Raises: ModelError.
        """
        if not self._model.page_size:
            return False
        async with self._trying.mine(asyncio.Lock):
            if self._trusted is None:
                self._trusted = await in_thread(self.passed_trial)
            if self._trusted is None:
                self._trusted = await self._tried(asking)
        return self._trusted

    async def _tried(self, asking: Asking) -> bool:
        answer = await asking.ask(self._model.reread, TRIAL)
        if all(reading is None for reading in answer.readings):
            logger.warning("%s gave no reading when it was tried: %s", self._model.name, _BY_WORDS)
            return False  # and is tried again by the next run
        wrong = accepted_wrongly(answer)
        await in_thread(self._keep, wrong)
        if wrong > MOST_ACCEPTED:
            logger.warning("%s", _described(self._model.name, wrong))
        return wrong <= MOST_ACCEPTED

    def passed_trial(self) -> bool | None:
        """Return whether the model passed its trial on test merges, according to the ledger.

        Return None if the ledger has no result of a trial.
        """
        with self._store.ledger.reading() as reader:
            wrong = reader.meta(_PREFIX + self._model.name)
        return None if wrong is None else int(wrong) <= MOST_ACCEPTED

    def _keep(self, wrong: int) -> None:
        with self._store.ledger.writing() as writer:
            writer.set_meta(_PREFIX + self._model.name, str(wrong))

    def forget_trial(self) -> None:
        """Delete the result of the model's trial, so that a new trial is held when it is needed."""
        self._trusted = None
        with self._store.ledger.writing() as writer:
            writer.drop_meta(_PREFIX + self._model.name)


def untrusted_readers(reader: Reader) -> list[str]:
    """Return a sentence about each model that failed its trial on test merges, sorted by name.

    The sentence says how many wrong test merges the model accepted. It also says how the program
    checks this model's merged texts instead.
    """
    tried = reader.metas(_PREFIX)
    return [
        _described(key.removeprefix(_PREFIX), int(wrong))
        for key, wrong in sorted(tried.items())
        if int(wrong) > MOST_ACCEPTED
    ]


def _described(name: str, wrong: int) -> str:
    return (
        f"{name} accepted {wrong} of {FAITHFUL.count(False)} wrong merges when it was tried: "
        f"{_BY_WORDS}"
    )


async def _checked_by_words(merge: ProposedMerge) -> Part:
    texts = [merge.text, *(member.content for member in merge.members)]
    return await in_thread_if_long(texts, checked, merge, by_words=True)

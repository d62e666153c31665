"""Turns of a conversation become memories: turns -> candidates -> deduplicator.

Turns are durable. They are kept in the ledger first; what a model found in them is kept with them;
when their memories are stored, only the last few keep their text, as context for the next. A crash
or a failing model in between leaves them pending, and whoever comes next goes on where this one
stopped. One at a time extracts a conversation, whichever process it lives in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from memory.deduplicator import MemoryDeduplicator
from memory.errors import LeaseLost, ModelError, ModelTooSlow
from memory.leasing import leased
from memory.ledger import SHARED, PendingTurn, Waiting, Writer
from memory.models import ExtractionResult, Turn
from memory.protocols import LanguageModel
from memory.store import MemoryStore
from memory.threads import Progress, in_thread, side_by_side
from memory.turn_reader import TurnReader, Work, failed, summed

logger = logging.getLogger(__name__)

_ASK_AGAIN_S, _ASK_AGAIN_AT_LEAST_S = 0.1, 1.0
"""How often who waits for another one's extraction looks again, at first and later."""
_ATTEMPTS = 3
"""How often a turn that the model cannot read is tried before it is left alone."""

OnChunk = Callable[[ExtractionResult], None]
"""Told what became of some turns, as soon as it has."""


class MemoryExtractor:
    """The hook: hand it what was said, and it remembers what matters.

    Holds nothing of any event loop: it may be used from several, in several threads, at once.
    """

    def __init__(
        self,
        store: MemoryStore,
        deduplicator: MemoryDeduplicator,
        model: LanguageModel,
        *,
        turns_at_once: int = 10,
        gap_s: float = 21_600.0,
        concurrency: int = 1,
        budget_s: float = 60.0,
    ) -> None:
        """`turns_at_once` is how many turns of one conversation a model is shown in one call.

        No call spans a silence of more than `gap_s`. `concurrency` is how many conversations are
        extracted side by side. `budget_s` is how long one call may take, all tries together.
        """
        self._store = store
        self._reader = TurnReader(store, deduplicator, model, gap_s=gap_s, budget_s=budget_s)
        self.model_name = model.name
        self.turns_at_once = turns_at_once
        self._gap_s = gap_s
        self._concurrency = concurrency

    async def keep(self, turns: Sequence[Turn], *, formerly: str | None = None) -> int:
        """Make turns durable without extracting them yet; gives how many were known before.

        A turn is known by its conversation, its id (else its position in `turns`) and its text.
        The bot's turns without a conversation are of that of the only person who speaks without
        one. `formerly` is the conversation in which versions before schema 7 kept these turns.

        Raises: LedgerError.
        """
        named = [
            (turn, turn.id or f"#{position}", formerly)
            for position, turn in enumerate(_answered(turns))
        ]
        return await in_thread(self._keep, named)

    async def keep_one(self, turn: Turn) -> None:
        """The same for a turn that is just spoken: without an id it is known by its time.

        Raises: LedgerError.
        """
        await in_thread(self._keep, [(turn, turn.id or f"@{turn.at.isoformat()}", None)])

    async def extract_and_store(
        self, turns: Sequence[Turn] = (), *, on_progress: Progress | None = None
    ) -> ExtractionResult:
        """Remember what these turns say, and the turns that earlier calls kept or had to leave.

        A turn that was handed over before adds nothing. What others extract is waited for. Where
        the model fails, turns stay pending.

        Raises: LedgerError where the turns could not even be kept.
        """
        known = await self.keep(turns)
        result = await _Sweep(self, self._concurrency, on_progress).run()
        return replace(result, known=known).with_waiting(await self.count_waiting())

    async def waiting(self) -> list[Waiting]:
        """The conversations with turns to extract, the longest wait first."""
        return await in_thread(self._waiting)

    async def count_waiting(self) -> int:
        """How many turns are not extracted, those that were given up with them."""
        return await in_thread(self._count_waiting)

    async def extract_conversation(
        self,
        conversation: str,
        *,
        on_chunk: OnChunk | None = None,
        wait_s: float = 0.0,
    ) -> Work | None:
        """Extract what waits in a conversation; None where another does.

        As long as there are `turns_at_once`, or the first of them has waited for `wait_s`.
        """
        work = Work()
        async with leased(self._store.ledger, conversation) as lease:
            if lease is None:
                return None
            after = 0
            while chunk := await in_thread(self._next_chunk, conversation, after, wait_s):
                after = chunk[-1].seq
                try:
                    part = await self._reader.read(chunk, lease)
                except LeaseLost as exc:
                    logger.warning("%s", exc)
                    return None
                work = Work(summed(work.result, part.result), part.fault)
                if on_chunk is not None and part.result != ExtractionResult():
                    on_chunk(part.result)
                if part.fault is not None:
                    logger.warning("turns wait for the model: %s", part.fault)
                    break
        return work

    # --- what waits ---

    def _keep(self, named: Sequence[tuple[Turn, str, str | None]]) -> int:
        if not named:
            return 0
        with self._store.ledger.writing() as writer:
            new = [_keep_turn(writer, *one) for one in named]
        return new.count(False)

    def _waiting(self) -> list[Waiting]:
        with self._store.ledger.reading() as reader:
            return reader.turns.conversations(_ATTEMPTS)

    def _count_waiting(self) -> int:
        with self._store.ledger.reading() as reader:
            return reader.turns.count_waiting()

    def _next_chunk(self, conversation: str, after: int, wait_s: float) -> list[PendingTurn]:
        """The next turns for one call; none where they should wait for more."""
        with self._store.ledger.reading() as reader:
            kept = reader.turns.to_extract(conversation, _ATTEMPTS, after, self.turns_at_once)
            if len(kept) < self.turns_at_once and wait_s > 0.0:
                waiting = reader.turns.conversations(_ATTEMPTS)
                waited = (one.waited_s for one in waiting if one.conversation == conversation)
                if next(waited, 0.0) < wait_s:
                    return []
        return _until_silence(kept, self._gap_s)


class _Sweep:
    """Every conversation that waits, extracted once, by this one or by another."""

    def __init__(
        self,
        extractor: MemoryExtractor,
        at_once: int,
        on_progress: Progress | None,
    ) -> None:
        self._extractor = extractor
        self._at_once = at_once
        self._on_progress = on_progress
        self._result = ExtractionResult()
        self._total = 0
        self._tried: set[str] = set()
        self._fault: ModelError | None = None

    async def run(self) -> ExtractionResult:
        left = await self._left()
        self._total = sum(one.turns for one in left)
        pause_s = _ASK_AGAIN_S
        while left and self._fault is None:
            names = [one.conversation for one in left]
            await side_by_side(self._extract, names, self._at_once)
            left = await self._left()
            if left and self._fault is None:  # others extract them
                await asyncio.sleep(pause_s)
                pause_s = min(1.5 * pause_s, _ASK_AGAIN_AT_LEAST_S)
        return self._result

    async def _left(self) -> list[Waiting]:
        waiting = await self._extractor.waiting()
        return [one for one in waiting if one.conversation not in self._tried]

    async def _extract(self, conversation: str) -> None:
        if self._fault is not None:
            return
        work = await self._extractor.extract_conversation(conversation, on_chunk=self._tell)
        if work is None:
            return
        self._tried.add(conversation)
        if work.fault is not None:
            self._result = summed(replace(self._result, problem=""), failed(work.fault))
            if not isinstance(work.fault, ModelTooSlow):  # for these turns; others may be answered
                self._fault = work.fault

    def _tell(self, part: ExtractionResult) -> None:
        self._result = summed(self._result, part)
        if self._on_progress is not None:
            self._on_progress(self._result.extracted, max(self._total, self._result.extracted))


def _answered(turns: Sequence[Turn]) -> list[Turn]:
    """The bot's turns without a conversation in that of the only person without one."""
    people = {turn.speaker for turn in turns if _is_alone(turn) and not turn.is_bot}
    if len(people) != 1:
        return list(turns)
    answers = {"conversation": people.pop()}
    return [
        turn.model_copy(update=answers) if turn.is_bot and _is_alone(turn) else turn
        for turn in turns
    ]


def _is_alone(turn: Turn) -> bool:
    """Whether the turn was made without a conversation."""
    return "conversation" not in turn.model_fields_set


def _keep_turn(writer: Writer, turn: Turn, name: str, formerly: str | None) -> bool:
    """Keep a turn; whether neither this nor an earlier version knew it."""
    if formerly is None and turn.conversation == SHARED:  # the upgrade gave it to its speaker
        formerly = turn.speaker
    if formerly and writer.turns.was_kept_before_upgrade(formerly, name, turn.text):
        return False
    if _is_alone(turn) and writer.turns.claim_shared(turn, name):
        return False
    return writer.turns.keep(turn, name)


def _until_silence(kept: Sequence[PendingTurn], gap_s: float) -> list[PendingTurn]:
    """The turns up to the first long silence between two."""
    together = list(kept[:1])
    for one in kept[1:]:
        if abs((one.turn.at - together[-1].turn.at).total_seconds()) > gap_s:
            break
        together.append(one)
    return together

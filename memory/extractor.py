"""Turns of a conversation become memories: turns -> candidates -> deduplicator.

Turns are durable. They are kept in the ledger first; what a model found in them is kept with them;
when their memories are stored, only the last few keep their text, as context for the next. A crash
or a failing model in between leaves them pending, and whoever comes next goes on where this one
stopped. One at a time extracts a conversation, whichever process it lives in.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from memory import telemetry
from memory.deduplicator import MemoryDeduplicator
from memory.errors import (
    LeaseLost,
    MemoryPipelineError,
    ModelAnswerError,
    ModelError,
    ModelTooSlow,
)
from memory.leasing import leased, worker
from memory.ledger import Lease, PendingTurn, Waiting, Writer
from memory.models import (
    MAX_CONTENT,
    MAX_NAME,
    Candidate,
    Extraction,
    ExtractionResult,
    Memory,
    Scope,
    Turn,
    Usage,
)
from memory.protocols import LanguageModel
from memory.providers import Budget
from memory.store import MemoryStore
from memory.text import asked_to_remember, covers, only_asks_to_remember, retold
from memory.threads import Progress, in_thread, side_by_side

logger = logging.getLogger(__name__)

_ASKED = 1.0
"""The intensity of what somebody asked to remember."""
_ASK_AGAIN_S, _ASK_AGAIN_AT_LEAST_S = 0.1, 1.0
"""How often who waits for another one's extraction looks again, at first and later."""
_ATTEMPTS = 3
"""How often a turn that the model cannot read is tried before it is left alone."""
_CONTEXT = 4
"""Turns before those to extract, already extracted, that a model is shown with them."""
_REMEMBERED = 8
"""Memories of each speaker that a model is shown with the turns, at most."""
_ABOUT = 0.3
"""Cosine below which a memory is not about the turns."""

OnChunk = Callable[[ExtractionResult], None]
"""Told what became of some turns, as soon as it has."""


@dataclass(frozen=True)
class Work:
    """What has been done for a conversation, or for some of its turns."""

    result: ExtractionResult = field(default_factory=ExtractionResult)
    fault: ModelError | None = None
    """Why it ended early, where it did; what that cost is not in the result."""


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
        extracted side by side. `budget_s` is how long one call may take, all tries together; a
        lease is for twice as long.
        """
        self._store = store
        self._deduplicator = deduplicator
        self._model = model
        self.turns_at_once = turns_at_once
        self._gap_s = gap_s
        self._concurrency = concurrency
        self._budget_s = budget_s

    @property
    def model_name(self) -> str:
        return self._model.name

    async def keep(self, turns: Sequence[Turn]) -> int:
        """Make turns durable without extracting them yet; gives how many were known before.

        A turn is known by its conversation, its id (else its position in `turns`) and its text.

        Raises: LedgerError.
        """
        named = [(turn, turn.id or f"#{place}") for place, turn in enumerate(turns)]
        return await in_thread(self._keep, named)

    async def keep_one(self, turn: Turn) -> None:
        """The same for a turn that is just spoken: without an id it is known by its time.

        Raises: LedgerError.
        """
        await in_thread(self._keep, [(turn, turn.id or f"@{turn.at.isoformat()}")])

    async def extract_and_store(
        self, turns: Sequence[Turn] = (), *, on_progress: Progress | None = None
    ) -> ExtractionResult:
        """Remember what these turns say, and the turns that earlier calls kept or had to leave.

        A turn that was handed over before adds nothing. What others extract is waited for. Where
        the model fails, turns stay pending.

        Raises: LedgerError where the turns could not even be kept.
        """
        known = await self.keep(turns)
        with ExitStack() as stack:
            holder = await in_thread(stack.enter_context, worker(self._store.ledger))
            result = await _Sweep(self, holder, self._concurrency, on_progress).run()
        return replace(result, known=known, pending=await self.count_waiting())

    async def waiting(self) -> list[Waiting]:
        """The conversations with turns to extract, the longest wait first."""
        return await in_thread(self._waiting)

    async def count_waiting(self) -> int:
        """How many turns are not extracted, those that were given up with them."""
        return await in_thread(self._count_waiting)

    async def extract_conversation(
        self,
        conversation: str,
        holder: str,
        *,
        on_chunk: OnChunk | None = None,
        wait_s: float = 0.0,
    ) -> Work | None:
        """Extract what waits in a conversation; None where another does.

        As long as there are `turns_at_once`, or the first of them has waited for `wait_s`.
        """
        work = Work()
        lease_s = 2 * self._budget_s
        async with leased(self._store.ledger, conversation, holder, lease_s) as lease:
            if lease is None:
                return None
            after = 0
            while chunk := await in_thread(self._next_chunk, conversation, after, wait_s):
                after = chunk[-1].seq
                try:
                    part = await self._extract(chunk, lease)
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

    def _keep(self, named: Sequence[tuple[Turn, str]]) -> int:
        if not named:
            return 0
        with self._store.ledger.writing() as writer:
            new = [writer.turns.keep(turn, name) for turn, name in named]
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

    def _context(self, chunk: Sequence[PendingTurn]) -> list[Turn]:
        """What was said just before, oldest first, back to the last long silence."""
        first = chunk[0]
        with self._store.ledger.reading() as reader:
            told = reader.turns.told_before(first.turn.conversation, first.seq, _CONTEXT)
        at, near = first.turn.at, list[Turn]()
        for turn in reversed(told):
            if (at - turn.at).total_seconds() > self._gap_s:
                break
            near.insert(0, turn)
            at = turn.at
        return near

    def _remembered(self, chunk: Sequence[PendingTurn]) -> tuple[Memory, ...]:
        """The public memories nearest to what each speaker says."""
        said: dict[str, list[str]] = {}
        for one in chunk:
            if not one.turn.is_bot:
                said.setdefault(one.turn.speaker, []).append(one.turn.text)
        try:
            found = [self._about(" ".join(texts), speaker) for speaker, texts in said.items()]
        except MemoryPipelineError as exc:
            logger.warning("extracted without what is remembered: %s", exc)
            return ()
        return tuple(memory for memories in found for memory in memories)

    def _about(self, text: str, speaker: str) -> list[Memory]:
        scope = Scope((("is_private", False), ("user", speaker)))
        with self._store.ledger.reading() as reader:
            if not reader.memories.newest(1, scope):
                return []
        hits = self._store.search(text, _REMEMBERED, scope=scope)
        return [hit.memory for hit in hits if hit.similarity >= _ABOUT]

    # --- one call ---

    async def _extract(self, chunk: Sequence[PendingTurn], lease: Lease) -> Work:
        """Turns of one conversation; where no usable answer comes to them, fewer at a time.

        It ends early where it is not the turns that the model fails at.

        Raises: LeaseLost.
        """
        try:
            found, usage = await self._candidates(chunk, lease)
        except ModelTooSlow as exc:
            asking = [place for place, one in enumerate(chunk) if _needs_model(one)]
            if len(asking) < 2:
                return Work(fault=exc)
            middle = asking[len(asking) // 2]
            halves = (chunk[:middle], chunk[middle:])
            return await self._extract_halves(halves, lease, Usage.of_failure(exc))
        except ModelAnswerError as exc:
            if len(chunk) > 1:
                return await self._extract_each(chunk, lease, Usage.of_failure(exc))
            logger.warning("turn %s of %s: %s", chunk[0].name, chunk[0].turn.conversation, exc)
            await in_thread(self._count_attempt, chunk[0], lease)
            return Work(_failed(exc))
        except ModelError as exc:
            return Work(fault=exc)
        stored = await self._store_found(chunk, found, lease)
        return Work(replace(stored, usage=stored.usage + usage))

    async def _extract_each(self, chunk: Sequence[PendingTurn], lease: Lease, paid: Usage) -> Work:
        """One after the other; `paid` is what all together have cost in vain."""
        work = Work(ExtractionResult(usage=paid))
        for one in chunk:
            part = await self._extract([one], lease)
            work = Work(summed(work.result, part.result), part.fault)
            if part.fault is not None:
                break
        return work

    async def _extract_halves(
        self, halves: Sequence[Sequence[PendingTurn]], lease: Lease, paid: Usage
    ) -> Work:
        """A half that the model is too slow for, while it answers the other, has failed once.

        `paid` is what the whole has cost in vain.
        """
        result = ExtractionResult(usage=paid)
        slow = list[tuple[Sequence[PendingTurn], ModelTooSlow]]()
        for half in halves:
            part = await self._extract(half, lease)
            result = summed(result, part.result)
            if isinstance(part.fault, ModelTooSlow):
                slow.append((half, part.fault))
            elif part.fault is not None:
                return Work(_with_costs(result, slow), part.fault)
        if len(slow) == len(halves):
            return Work(_with_costs(result, slow[1:]), slow[0][1])
        for half, too_slow in slow:
            for one in half:
                await in_thread(self._count_attempt, one, lease)
            result = summed(result, _failed(too_slow))
        return Work(result)

    async def _candidates(
        self, chunk: Sequence[PendingTurn], lease: Lease
    ) -> tuple[dict[int, list[Candidate]], Usage]:
        """What is worth remembering, by the turn that says it, kept before it is stored."""
        unread = [one for one in chunk if one.candidates is None]
        found = {one.seq: list(one.candidates or ()) for one in chunk}
        for one in unread:
            found[one.seq] += _asked(one.turn)
        usage = Usage()
        if any(map(_needs_model, unread)):
            to_ask = [one for one in unread if not only_asks_to_remember(one.turn.text)]
            extraction = await self._ask(to_ask)
            usage = extraction.usage
            for candidate in extraction.candidates:
                if (said := _turn_of(candidate, to_ask)) is not None:
                    found[said.seq].append(candidate.model_copy(update={"asked": False}))
        await in_thread(self._keep_candidates, found, lease)
        return found, usage

    async def _ask(self, to_ask: Sequence[PendingTurn]) -> Extraction:
        """What the model finds in these turns, shown what came before and what is known."""
        turns = [one.turn for one in to_ask]
        context = await in_thread(self._context, to_ask)
        remembered = await in_thread(self._remembered, to_ask)

        async def ask() -> Extraction:
            return await self._model.extract(turns, context=context, remembered=remembered)

        with telemetry.span("extract", turns=len(turns)) as seen:
            extraction = await Budget(self._budget_s).wait_for(ask)
            seen.set_attribute("candidates", len(extraction.candidates))
        return extraction

    async def _store_found(
        self,
        chunk: Sequence[PendingTurn],
        found: dict[int, list[Candidate]],
        lease: Lease,
    ) -> ExtractionResult:
        recalled = await in_thread(self._recalled, chunk)
        speakers = {one.turn.speaker for one in chunk if not one.turn.is_bot}
        every = [
            (candidate, self._memory(kept, candidate, place, speakers))
            for kept in chunk
            for place, candidate in enumerate(found[kept.seq])
        ]
        fresh = [
            memory
            for candidate, memory in every
            if candidate.asked or not any(covers(old, memory.content) for old in recalled)
        ]
        outcomes = await self._deduplicator.check_and_merge_all(fresh, lease=lease)
        await in_thread(self._finish, chunk, lease)
        return ExtractionResult(
            outcomes=tuple(outcomes),
            extracted=len(chunk),
            already_remembered=len(every) - len(fresh),
            usage=sum((outcome.usage for outcome in outcomes), Usage()),
        )

    def _memory(
        self, kept: PendingTurn, candidate: Candidate, place: int, speakers: set[str]
    ) -> Memory:
        """About a speaker of these turns and nobody else, whoever the candidate names."""
        turn = kept.turn
        return Memory(
            id=self._store.new_id(),
            external_id=_external_id(turn.conversation, kept.name, place),
            content=candidate.content,
            user=candidate.user if candidate.user in speakers else turn.speaker,
            category=candidate.category,
            intensity=candidate.intensity,
            timestamp=turn.at,
            metadata={"conversation": turn.conversation, "turn": kept.name},
        )

    def _recalled(self, chunk: Sequence[PendingTurn]) -> list[str]:
        ids = [name for one in chunk for name in one.turn.recalled_ids]
        with self._store.ledger.reading() as reader:
            return [row.memory.content for row in reader.memories.rows(ids).values()]

    # --- each a transaction that only who holds the lease may make ---

    def _keep_candidates(self, found: dict[int, list[Candidate]], lease: Lease) -> None:
        def keep(writer: Writer) -> None:
            for seq, candidates in found.items():
                writer.turns.keep_candidates(seq, candidates)

        self._write(lease, keep)

    def _finish(self, chunk: Sequence[PendingTurn], lease: Lease) -> None:
        def finish(writer: Writer) -> None:
            for one in chunk:
                writer.turns.finish(one.seq)
            writer.turns.clear(lease.conversation, but=_CONTEXT, older_than_s=self._gap_s)

        self._write(lease, finish)

    def _count_attempt(self, one: PendingTurn, lease: Lease) -> None:
        self._write(lease, lambda writer: writer.turns.count_attempt(one.seq))

    def _write(self, lease: Lease, write: Callable[[Writer], None]) -> None:
        with self._store.ledger.writing() as writer:
            writer.leases.check(lease)
            write(writer)


class _Sweep:
    """Every conversation that waits, extracted once, by this one or by another."""

    def __init__(
        self,
        extractor: MemoryExtractor,
        holder: str,
        at_once: int,
        on_progress: Progress | None,
    ) -> None:
        self._extractor = extractor
        self._holder = holder
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
        work = await self._extractor.extract_conversation(
            conversation, self._holder, on_chunk=self._tell
        )
        if work is None:
            return
        self._tried.add(conversation)
        if work.fault is not None:
            self._result = summed(replace(self._result, problem=""), _failed(work.fault))
            if not isinstance(work.fault, ModelTooSlow):  # for these turns; others may be answered
                self._fault = work.fault

    def _tell(self, part: ExtractionResult) -> None:
        self._result = summed(self._result, part)
        if self._on_progress is not None:
            self._on_progress(self._result.extracted, max(self._total, self._result.extracted))


def _external_id(conversation: str, name: str, place: int) -> str:
    """What makes a candidate known again; the hash of it where it is longer than a name may be."""
    whole = f"{conversation}/{name}/{place}"
    return whole if len(whole) <= MAX_NAME else hashlib.sha256(whole.encode()).hexdigest()


def _asked(turn: Turn) -> list[Candidate]:
    """What "Remember that I ..." says, without a model."""
    told = [] if turn.is_bot else asked_to_remember(turn.text)
    contents = [retold(one, turn.speaker, turn.at) for one in told]
    return [
        Candidate(content=content, user=turn.speaker, intensity=_ASKED, asked=True)
        for content in contents
        if len(content) <= MAX_CONTENT
    ]


def _needs_model(one: PendingTurn) -> bool:
    """Whether a model has to read it: what a person said, and more than a request."""
    asks = not one.turn.is_bot and not only_asks_to_remember(one.turn.text)
    return asks and one.candidates is None


def _turn_of(candidate: Candidate, asked: Sequence[PendingTurn]) -> PendingTurn | None:
    """The turn that says it, else the last of a person; None where the bot said it."""
    if candidate.turn is None or not 0 <= candidate.turn < len(asked):
        return [one for one in asked if not one.turn.is_bot][-1]
    said = asked[candidate.turn]
    return None if said.turn.is_bot else said


def _failed(exc: ModelError) -> ExtractionResult:
    """Why nothing became of some turns, and what that cost."""
    return ExtractionResult(problem=str(exc), usage=Usage.of_failure(exc))


def _with_costs(
    result: ExtractionResult, failed: Sequence[tuple[object, ModelError]]
) -> ExtractionResult:
    """With what was paid for answers that never came."""
    return replace(result, usage=sum((Usage.of_failure(exc) for _, exc in failed), result.usage))


def _until_silence(kept: Sequence[PendingTurn], gap_s: float) -> list[PendingTurn]:
    """The turns up to the first long silence between two."""
    together = list(kept[:1])
    for one in kept[1:]:
        if abs((one.turn.at - together[-1].turn.at).total_seconds()) > gap_s:
            break
        together.append(one)
    return together


def summed(first: ExtractionResult, *others: ExtractionResult) -> ExtractionResult:
    """Several accounts as one; what is pending or known is not added up."""
    for other in others:
        first = replace(
            first,
            outcomes=first.outcomes + other.outcomes,
            extracted=first.extracted + other.extracted,
            already_remembered=first.already_remembered + other.already_remembered,
            usage=first.usage + other.usage,
            problem=first.problem or other.problem,
        )
    return first

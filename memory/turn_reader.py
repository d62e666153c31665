"""Some turns of a conversation: what a model finds in them, and what becomes of that.

A model that gives no usable answer is shown fewer at a time, so that one turn does not hold up the
others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, zip_longest

from memory import telemetry
from memory.deduplicator import MemoryDeduplicator
from memory.errors import MemoryPipelineError, ModelAnswerError, ModelError, ModelTooSlow
from memory.ledger import Lease, PendingTurn, Writer
from memory.models import (
    MAX_CONTENT,
    Candidate,
    Extraction,
    ExtractionResult,
    Memory,
    Scope,
    Turn,
    Usage,
    name_of_candidate,
)
from memory.protocols import LanguageModel
from memory.providers import Budget
from memory.store import MemoryStore
from memory.text import asked_to_remember, covers, only_asks_to_remember, retold, telling_words
from memory.threads import in_thread, in_thread_if_long

logger = logging.getLogger(__name__)

_ASKED = 1.0
"""The intensity of what somebody asked to remember."""
_CONTEXT = 4
"""Turns before those to extract, already extracted, that a model is shown with them."""
_REMEMBERED = 8
"""Memories of each speaker that a model is shown with the turns, at most."""
_CANDIDATES_PER_TURN, _CHARACTERS_PER_CANDIDATE = 10, 100
"""Candidates taken from one call: so many for each turn, and one more for so much text."""


@dataclass(frozen=True)
class Work:
    """What has been done for a conversation, or for some of its turns."""

    result: ExtractionResult = field(default_factory=ExtractionResult)
    fault: ModelError | None = None
    """Why it ended early, where it did; what that cost is not in the result."""


@dataclass(frozen=True)
class Shown:
    """Everything that a model was shown in one call."""

    turns: Sequence[Turn]
    remembered: Sequence[Memory]

    def was_copied(self, candidate: Candidate, speaker: str) -> bool:
        """Whether the candidate repeats another speaker's memory that nobody spoke of.

        Its words that no turn holds all stand in one such memory, and they are at least half of
        its words or hold a digit. So a turn that orders the model to repeat what it remembers
        cannot move a memory from one user to another.
        """
        others = [known for user, known in self._remembered_words if user != speaker]
        if not others:
            return False
        words = self._words(candidate.content)
        new = words - self._spoken_words
        if not new or not any(new <= known for known in others):
            return False
        copied = 2 * len(new) >= len(words) or any(map(str.isdigit, "".join(new)))
        if copied:
            logger.warning("a candidate was dropped: it copies a memory of another speaker")
        return copied

    @property
    def texts(self) -> list[str]:
        """Everything that is read to tell whether a candidate is a copy."""
        return [*(turn.text for turn in self.turns), *(one.content for one in self.remembered)]

    @cached_property
    def _spoken_words(self) -> frozenset[str]:
        return frozenset(chain.from_iterable(telling_words(turn.text) for turn in self.turns))

    @cached_property
    def _remembered_words(self) -> list[tuple[str | None, frozenset[str]]]:
        """The words of each memory, with its user."""
        return [(one.user, self._words(one.content)) for one in self.remembered]

    def _words(self, text: str) -> frozenset[str]:
        """The words of a text without the names of the speakers."""
        speakers = {turn.speaker for turn in self.turns}
        names = {word for speaker in speakers for word in telling_words(speaker)}
        return frozenset(telling_words(text)) - names


class TurnReader:
    """Turns -> candidates -> deduplicator, under a lease; holds nothing of any event loop."""

    def __init__(
        self,
        store: MemoryStore,
        deduplicator: MemoryDeduplicator,
        model: LanguageModel,
        *,
        gap_s: float,
        budget_s: float,
    ) -> None:
        """No context comes from before a silence of `gap_s`; a call may take `budget_s`."""
        self._store = store
        self._deduplicator = deduplicator
        self._model = model
        self._gap_s = gap_s
        self._budget_s = budget_s

    async def read(self, chunk: Sequence[PendingTurn], lease: Lease) -> Work:
        """Turns of one conversation; where no usable answer comes to them, fewer at a time.

        It ends early where it is not the turns that the model fails at.

        Raises: LeaseLost.
        """
        try:
            found, asked = await self._candidates(chunk, lease)
        except ModelTooSlow as exc:
            asking = await in_thread_if_long(_texts(chunk), _asking, chunk)
            if len(asking) < 2:
                return Work(fault=exc)
            middle = asking[len(asking) // 2]
            halves = (chunk[:middle], chunk[middle:])
            return await self._read_halves(halves, lease, Usage.of_failure(exc))
        except ModelAnswerError as exc:
            if len(chunk) > 1:
                return await self._read_each(chunk, lease, Usage.of_failure(exc))
            logger.warning("turn %s of %s: %s", chunk[0].name, chunk[0].turn.conversation, exc)
            await in_thread(self._count_attempt, chunk[0], lease)
            return Work(failed(exc))
        except ModelError as exc:
            return Work(fault=exc)
        stored = await self._store_found(chunk, found, lease)
        return Work(summed(stored, asked))

    async def _read_each(self, chunk: Sequence[PendingTurn], lease: Lease, paid: Usage) -> Work:
        """One after the other; `paid` is what all together have cost in vain."""
        work = Work(ExtractionResult(usage=paid))
        for one in chunk:
            part = await self.read([one], lease)
            work = Work(summed(work.result, part.result), part.fault)
            if part.fault is not None:
                break
        return work

    async def _read_halves(
        self, halves: Sequence[Sequence[PendingTurn]], lease: Lease, paid: Usage
    ) -> Work:
        """A half that the model is too slow for, while it answers the other, has failed once.

        `paid` is what the whole has cost in vain.
        """
        result = ExtractionResult(usage=paid)
        slow = list[tuple[Sequence[PendingTurn], ModelTooSlow]]()
        for half in halves:
            part = await self.read(half, lease)
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
            result = summed(result, failed(too_slow))
        return Work(result)

    async def _candidates(
        self, chunk: Sequence[PendingTurn], lease: Lease
    ) -> tuple[dict[int, list[Candidate]], ExtractionResult]:
        """What is worth remembering, by the turn that says it, kept before it is stored.

        Also what finding it cost, and how much was left out.
        """
        unread = [one for one in chunk if one.candidates is None]
        found = {one.seq: list(one.candidates or ()) for one in chunk}
        requests, to_ask = await in_thread_if_long(_texts(unread), _requests, unread)
        for seq, asked in requests.items():
            found[seq] += asked
        usage, over_limit = Usage(), 0
        if to_ask:
            extraction, shown = await self._ask(to_ask)
            usage = extraction.usage
            taken, over_limit = _limited(extraction.candidates, to_ask)
            for seq, candidate in await in_thread_if_long(shown.texts, _uncopied, taken, shown):
                found[seq].append(candidate)
        await in_thread(self._keep_candidates, found, lease)
        return found, ExtractionResult(usage=usage, over_limit=over_limit)

    async def _ask(self, to_ask: Sequence[PendingTurn]) -> tuple[Extraction, Shown]:
        """What the model finds in these turns, and what it was shown with them."""
        turns = [one.turn for one in to_ask]
        context = await in_thread(self._context, to_ask)
        remembered = await in_thread(self._remembered, to_ask)

        async def ask() -> Extraction:
            return await self._model.extract(turns, context=context, remembered=remembered)

        with telemetry.span("extract", turns=len(turns)) as seen:
            extraction = await Budget(self._budget_s).wait_for(ask)
            seen.set_attribute("candidates", len(extraction.candidates))
        return extraction, Shown((*context, *turns), remembered)

    # --- what a model is shown with them ---

    def _context(self, chunk: Sequence[PendingTurn]) -> list[Turn]:
        """What was said just before, oldest first, back to the last long silence."""
        first = chunk[0]
        with self._store.ledger.reading() as reader:
            told = reader.turns.told_before(first.turn.conversation, first.seq, _CONTEXT)
        at, near = first.turn.at, list[Turn]()
        for turn in reversed(told):
            if abs((at - turn.at).total_seconds()) > self._gap_s:
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
        scope = Scope.of_user(speaker, is_private=False)
        with self._store.ledger.reading() as reader:
            if not reader.memories.newest(1, scope):
                return []
        return [hit.memory for hit in self._store.search(text, _REMEMBERED, scope=scope)]

    # --- what becomes of what it finds ---

    async def _store_found(
        self,
        chunk: Sequence[PendingTurn],
        found: dict[int, list[Candidate]],
        lease: Lease,
    ) -> ExtractionResult:
        recalled = await in_thread(self._recalled, chunk)
        every = [
            (candidate, self._memory(kept, candidate, place))
            for kept in chunk
            for place, candidate in enumerate(found[kept.seq])
        ]
        texts = [memory.content for memory in (*recalled, *(memory for _, memory in every))]
        fresh = await in_thread_if_long(texts, _unstated, every, recalled)
        outcomes = await self._deduplicator.check_and_merge_all(fresh, lease=lease)
        await in_thread(self._finish, chunk, lease)
        return ExtractionResult(
            outcomes=tuple(outcomes),
            extracted=len(chunk),
            already_remembered=len(every) - len(fresh),
            usage=sum((outcome.usage for outcome in outcomes), Usage()),
        )

    def _memory(self, kept: PendingTurn, candidate: Candidate, place: int) -> Memory:
        """A memory of the turn's speaker, whoever the candidate names: the rest is hearsay."""
        turn = kept.turn
        return Memory(
            id=self._store.new_id(),
            external_id=name_of_candidate(turn.conversation, kept.name, place),
            content=candidate.content,
            user=turn.speaker,
            category=candidate.category,
            intensity=candidate.intensity,
            timestamp=turn.at,
            metadata={"conversation": turn.conversation, "turn": kept.name},
        )

    def _recalled(self, chunk: Sequence[PendingTurn]) -> list[Memory]:
        ids = [name for one in chunk for name in one.turn.recalled_ids]
        with self._store.ledger.reading() as reader:
            return [row.memory for row in reader.memories.rows(ids).values()]

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


def _unstated(
    every: Sequence[tuple[Candidate, Memory]], recalled: Sequence[Memory]
) -> list[Memory]:
    """Return those that somebody asked for, or that nothing recalled states."""
    return [
        memory
        for candidate, memory in every
        if candidate.asked or not any(_states(old, memory) for old in recalled)
    ]


def _states(old: Memory, new: Memory) -> bool:
    """Whether an old memory, of the same user or of nobody, states all of the new one."""
    return old.user in (None, new.user) and covers(old.content, new.content)


def _uncopied(
    taken: Sequence[tuple[PendingTurn, Candidate]], shown: Shown
) -> list[tuple[int, Candidate]]:
    """Return the candidates that are nobody else's memory, each with the number of its turn."""
    return [
        (said.seq, candidate.model_copy(update={"asked": False}))
        for said, candidate in taken
        if not shown.was_copied(candidate, said.turn.speaker)
    ]


def _requests(
    unread: Sequence[PendingTurn],
) -> tuple[dict[int, list[Candidate]], list[PendingTurn]]:
    """Return what each turn asks to remember, and the turns that a model is to read."""
    asked = {one.seq: _asked(one.turn) for one in unread}
    if not _asking(unread):
        return asked, []
    return asked, [one for one in unread if not only_asks_to_remember(one.turn.text)]


def _texts(chunk: Sequence[PendingTurn]) -> list[str]:
    return [one.turn.text for one in chunk]


def _asking(chunk: Sequence[PendingTurn]) -> list[int]:
    """Return the positions of the turns that a model has to read."""
    return [position for position, one in enumerate(chunk) if _needs_model(one)]


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
    """The turn that says it; None where the bot said it.

    Where the candidate names none: the last turn of whom it is about, else of anybody.
    """
    if candidate.turn is not None and 0 <= candidate.turn < len(asked):
        said = asked[candidate.turn]
        return None if said.turn.is_bot else said
    people = [one for one in asked if not one.turn.is_bot]
    own = [one for one in people if one.turn.speaker == candidate.user]
    return (own or people)[-1]


def _limited(
    candidates: Sequence[Candidate], asked: Sequence[PendingTurn]
) -> tuple[list[tuple[PendingTurn, Candidate]], int]:
    """The candidates to take, with the turn that says each, and how many are left out.

    Each turn's first ones come first, so that one turn cannot crowd out the others.
    """
    by_turn: dict[int, list[tuple[PendingTurn, Candidate]]] = {}
    for candidate in candidates:
        if (said := _turn_of(candidate, asked)) is not None:
            by_turn.setdefault(said.seq, []).append((said, candidate))
    in_turn = chain.from_iterable(zip_longest(*by_turn.values()))
    found = [one for one in in_turn if one is not None]
    characters = sum(len(one.turn.text) for one in asked)
    most = _CANDIDATES_PER_TURN * len(asked) + characters // _CHARACTERS_PER_CANDIDATE
    if len(found) > most:
        logger.warning(
            "the model found %s memories in %s turns: the first %s are kept, %s are left out",
            *(f"{n:,}" for n in (len(found), len(asked), most, len(found) - most)),
        )
    return found[:most], max(0, len(found) - most)


def failed(exc: ModelError) -> ExtractionResult:
    """Why nothing became of some turns, and what that cost."""
    return ExtractionResult(problem=str(exc), usage=Usage.of_failure(exc))


def _with_costs(
    result: ExtractionResult, failed: Sequence[tuple[object, ModelError]]
) -> ExtractionResult:
    """With what was paid for answers that never came."""
    return replace(result, usage=sum((Usage.of_failure(exc) for _, exc in failed), result.usage))


def summed(first: ExtractionResult, *others: ExtractionResult) -> ExtractionResult:
    """Several accounts as one; what is pending or known is not added up."""
    for other in others:
        first = replace(
            first,
            outcomes=first.outcomes + other.outcomes,
            extracted=first.extracted + other.extracted,
            already_remembered=first.already_remembered + other.already_remembered,
            over_limit=first.over_limit + other.over_limit,
            usage=first.usage + other.usage,
            problem=first.problem or other.problem,
        )
    return first

"""Turns of a conversation become memories: turns -> candidates -> deduplicator.

Turns are durable. They are kept in the ledger first; what a model found in them is kept with them;
their text is erased when their memories are stored. A crash or a failing model in between leaves
them pending, and the next call goes on where this one stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from memory.deduplicator import MemoryDeduplicator
from memory.errors import ModelAnswerError, ModelError
from memory.ledger import PendingTurn
from memory.models import MAX_CONTENT, Candidate, ExtractionResult, Memory, Turn, Usage
from memory.protocols import LanguageModel
from memory.store import MemoryStore
from memory.text import asked_to_remember, covers, only_asks_to_remember, retold
from memory.threads import Progress, in_thread

logger = logging.getLogger(__name__)

_ASKED = 1.0
"""The intensity of what somebody asked to remember."""
_ASK_AGAIN_S = 0.1
"""How often a process that waits for another one's extraction looks again."""
_ATTEMPTS = 3
"""How often a turn that the model cannot read is tried before it is left alone."""


class MemoryExtractor:
    """The hook: hand it what was said, and it remembers what matters. One call at a time."""

    def __init__(
        self,
        store: MemoryStore,
        deduplicator: MemoryDeduplicator,
        model: LanguageModel,
        *,
        turns_at_once: int = 10,
    ) -> None:
        """`turns_at_once` is how many turns of one conversation a model is shown in one call."""
        self._store = store
        self._deduplicator = deduplicator
        self._model = model
        self._at_once = turns_at_once
        self._one_call = asyncio.Lock()

    @property
    def model_name(self) -> str:
        return self._model.name

    async def keep(self, turns: Sequence[Turn]) -> int:
        """Make turns durable without extracting them yet; gives how many were known before.

        A turn is known by its conversation, its id (else its position in `turns`) and its text.

        Raises: LedgerError.
        """
        return await in_thread(self._keep, turns)

    async def extract_and_store(
        self, turns: Sequence[Turn] = (), *, on_progress: Progress | None = None
    ) -> ExtractionResult:
        """Remember what these turns say, and the turns that earlier calls kept or had to leave.

        A turn that was handed over before adds nothing. Where the model fails, turns stay pending.

        Raises: LedgerError where the turns could not even be kept.
        """
        async with self._one_call:
            known = await self.keep(turns)
            async with self._only_extractor():
                return await self._extract_kept(known, on_progress)

    async def _extract_kept(self, known: int, on_progress: Progress | None) -> ExtractionResult:
        kept = await in_thread(self._kept)
        result = ExtractionResult(known=known)
        chunks = _chunks([one for one in kept if one.attempts < _ATTEMPTS], self._at_once)
        done = 0
        for chunk in chunks:
            try:
                part = await self._extract(chunk)
            except ModelError as exc:
                result = replace(result, problem=str(exc))
                logger.warning("turns wait for the model: %s", exc)
                break
            result = _sum(result, part)
            done += len(chunk)
            if on_progress is not None:
                on_progress(done, sum(map(len, chunks)))
        left = await in_thread(self._kept)
        return replace(result, pending=len(left))

    @contextlib.asynccontextmanager
    async def _only_extractor(self) -> AsyncIterator[None]:
        """Wait until no other process extracts: it may be at the same turns."""
        while True:
            lock = self._store.ledger.exclusive("extraction")
            mine = await in_thread(lock.__enter__)
            try:
                if mine:
                    yield
                    return
            finally:
                await in_thread(lock.__exit__, None, None, None)
            await asyncio.sleep(_ASK_AGAIN_S)

    def _keep(self, turns: Sequence[Turn]) -> int:
        if not turns:
            return 0
        with self._store.ledger.writing() as writer:
            new = [
                writer.turns.keep(turn, turn.id or f"#{place}") for place, turn in enumerate(turns)
            ]
        return new.count(False)

    def _kept(self) -> list[PendingTurn]:
        with self._store.ledger.reading() as reader:
            return reader.turns.waiting()

    async def _extract(self, chunk: Sequence[PendingTurn]) -> ExtractionResult:
        """Turns of one conversation; where no usable answer comes to them, each by itself.

        Raises: ModelError where it is not the turns that the model fails at.
        """
        try:
            found, usage = await self._candidates(chunk)
        except ModelAnswerError as exc:
            if len(chunk) > 1:
                parts = [await self._extract([one]) for one in chunk]
                return _sum(ExtractionResult(), *parts)
            logger.warning("turn %s of %s: %s", chunk[0].name, chunk[0].turn.conversation, exc)
            await in_thread(self._count_attempt, chunk[0])
            return ExtractionResult(problem=str(exc))
        stored = await self._store_found(chunk, found)
        return replace(stored, usage=stored.usage + usage)

    async def _candidates(
        self, chunk: Sequence[PendingTurn]
    ) -> tuple[dict[int, list[Candidate]], Usage]:
        """What is worth remembering, by the turn that says it, kept before it is stored."""
        unread = [one for one in chunk if one.candidates is None]
        to_ask = [one for one in unread if not only_asks_to_remember(one.turn.text)]
        found = {one.seq: list(one.candidates or ()) for one in chunk}
        for one in unread:
            found[one.seq] += _asked(one.turn)
        usage = Usage()
        if any(not one.turn.is_bot for one in to_ask):
            extraction = await self._model.extract([one.turn for one in to_ask])
            usage = extraction.usage
            for candidate in extraction.candidates:
                if (said := _turn_of(candidate, to_ask)) is not None:
                    found[said.seq].append(candidate)
        await in_thread(self._keep_candidates, found)
        return found, usage

    async def _store_found(
        self, chunk: Sequence[PendingTurn], found: dict[int, list[Candidate]]
    ) -> ExtractionResult:
        recalled = await in_thread(self._recalled, chunk)
        speakers = {one.turn.speaker for one in chunk if not one.turn.is_bot}
        memories = [
            self._memory(kept, candidate, place, speakers)
            for kept in chunk
            for place, candidate in enumerate(found[kept.seq])
        ]
        fresh = [
            one
            for one in memories
            if one.intensity == _ASKED or not any(covers(old, one.content) for old in recalled)
        ]
        outcomes = await self._deduplicator.check_and_merge_all(fresh)
        await in_thread(self._finish, chunk)
        return ExtractionResult(
            outcomes=tuple(outcomes),
            extracted=len(chunk),
            already_remembered=len(memories) - len(fresh),
            usage=sum((outcome.usage for outcome in outcomes), Usage()),
        )

    def _memory(
        self, kept: PendingTurn, candidate: Candidate, place: int, speakers: set[str]
    ) -> Memory:
        """About a speaker of these turns and nobody else, whoever the candidate names."""
        turn = kept.turn
        return Memory(
            id=self._store.new_id(),
            external_id=f"{turn.conversation}/{kept.name}/{place}",
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

    def _keep_candidates(self, found: dict[int, list[Candidate]]) -> None:
        with self._store.ledger.writing() as writer:
            for seq, candidates in found.items():
                writer.turns.keep_candidates(seq, candidates)

    def _finish(self, chunk: Sequence[PendingTurn]) -> None:
        with self._store.ledger.writing() as writer:
            for one in chunk:
                writer.turns.finish(one.seq)

    def _count_attempt(self, one: PendingTurn) -> None:
        with self._store.ledger.writing() as writer:
            writer.turns.count_attempt(one.seq)


def _asked(turn: Turn) -> list[Candidate]:
    """What "Remember that I ..." says, without a model."""
    told = [] if turn.is_bot else asked_to_remember(turn.text)
    contents = [retold(one, turn.speaker, turn.at) for one in told]
    return [
        Candidate(content=content, user=turn.speaker, intensity=_ASKED)
        for content in contents
        if len(content) <= MAX_CONTENT
    ]


def _turn_of(candidate: Candidate, asked: Sequence[PendingTurn]) -> PendingTurn | None:
    """The turn that says it, else the last of a person; None where the bot said it."""
    if candidate.turn is None:
        return [one for one in asked if not one.turn.is_bot][-1]
    said = asked[candidate.turn]
    return None if said.turn.is_bot else said


def _chunks(kept: Sequence[PendingTurn], size: int) -> list[list[PendingTurn]]:
    """Neighbours of one conversation, at most `size` together."""
    chunks: list[list[PendingTurn]] = []
    for one in kept:
        last = chunks[-1] if chunks else []
        if last and len(last) < size and last[0].turn.conversation == one.turn.conversation:
            last.append(one)
        else:
            chunks.append([one])
    return chunks


def _sum(first: ExtractionResult, *others: ExtractionResult) -> ExtractionResult:
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

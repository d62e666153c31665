"""Let a model extract memories from turns of a conversation, and store these memories.

If the model gives no usable answer about several turns, it is asked about each half of them. So one
turn that the model cannot handle does not stop the extraction from the other turns.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise, zip_longest

from pydantic import JsonValue

from memory.deduplicator import MemoryDeduplicator
from memory.errors import (
    MemoryPipelineError,
    ModelAnswerError,
    ModelError,
    ModelRefused,
    ModelTooSlow,
)
from memory.extractor.attribution import SourceTurns, attributed, people, source_turns
from memory.ledger import Lease, PendingTurn, Writer
from memory.models import (
    MAX_CONTENT,
    Candidate,
    Extracted,
    ExtractionResult,
    KeptCandidate,
    LanguageModel,
    Memory,
    NamedMemory,
    Scope,
    Turn,
    Usage,
    name_of_candidate,
)
from memory.providers import Asking, CallBudget
from memory.runtime import in_thread, in_thread_if_long, telemetry
from memory.store import MemoryStore, is_told_by
from memory.text import asked_to_remember, only_asks_to_remember, retold, text_key, undated

logger = logging.getLogger(__name__)

_CONTEXT_TURNS = 4
_LONG_SILENCE_S = 21_600.0
_MOST_REMEMBERED = 40
_MOST_LATEST = 8
_MOST_REPLACED = 5
_CANDIDATES_PER_TURN, _CHARACTERS_PER_CANDIDATE = 10, 100


@dataclass(frozen=True)
class TurnsRead:
    """The result of reading some turns, including the cost of failed calls.

    `fault` is the reason why reading ended early; None if it did not.
    """

    result: ExtractionResult = field(default_factory=ExtractionResult)
    fault: ModelError | None = None


class TurnReader:
    """Extracts candidates from turns with a model, and has them deduplicated and stored.

    A candidate is a fact that may become a memory. The caller must hold the lease of the
    conversation; without it, nothing is written. An instance may be used in any event loop.
    """

    def __init__(
        self,
        store: MemoryStore,
        deduplicator: MemoryDeduplicator,
        model: LanguageModel,
        *,
        budget_s: float,
        categories: Sequence[str] = (),
    ) -> None:
        self._store = store
        self._deduplicator = deduplicator
        self._model = model
        self._budget_s = budget_s
        self._categories = categories

    async def read(self, chunk: Sequence[PendingTurn], lease: Lease) -> TurnsRead:
        """Extract memories from turns of one conversation, and store them.

        If the model gives no usable answer, the two halves of `chunk` are read one after the other.
        If the model fails for a reason that has nothing to do with these turns, reading ends early,
        and the result's `fault` says why.

        Raises: LeaseLost.
        """
        try:
            found, remembered, asked = await self._candidates(chunk, lease)
        except (ModelTooSlow, ModelRefused) as exc:
            to_read = await in_thread_if_long(_texts(chunk), _to_read, chunk)
            if len(to_read) > 1:
                return await self._read_halves(chunk, to_read[len(to_read) // 2], lease, exc)
            return TurnsRead(ExtractionResult(usage=Usage.of_failure(exc)), exc)
        except ModelAnswerError as exc:
            if len(chunk) > 1:
                return await self._read_halves(chunk, len(chunk) // 2, lease, exc)
            logger.warning("turn %s of %s: %s", chunk[0].name, chunk[0].turn.conversation, exc)
            await self.count_attempts(chunk, lease)
            return TurnsRead(ExtractionResult(problem=str(exc), usage=Usage.of_failure(exc)))
        except ModelError as exc:
            return TurnsRead(ExtractionResult(usage=Usage.of_failure(exc)), exc)
        return TurnsRead(summed(await self._store_found(chunk, found, remembered, lease), asked))

    async def count_attempts(self, chunk: Sequence[PendingTurn], lease: Lease) -> None:
        """Count one failed attempt for each turn, because the model gave no usable answer.

        Raises: LeaseLost.
        """

        def count(writer: Writer) -> None:
            for one in chunk:
                writer.turns.count_attempt(one.seq)

        await in_thread(self._write, count, lease)

    async def _read_halves(
        self, chunk: Sequence[PendingTurn], middle: int, lease: Lease, failure: ModelError
    ) -> TurnsRead:
        """Read the two halves of a chunk of turns, after a call about the whole chunk failed.

        If the model answers about only one half, a failed attempt is counted for each turn of the
        other half. If it answers about neither, the model may be at fault, and no attempt is
        counted.
        """
        result = ExtractionResult(usage=Usage.of_failure(failure))
        slow = list[tuple[Sequence[PendingTurn], ModelError]]()
        for half in (chunk[:middle], chunk[middle:]):
            part = await self.read(half, lease)
            result = summed(result, part.result)
            if isinstance(part.fault, (ModelTooSlow, ModelRefused)):
                slow.append((half, part.fault))
            elif part.fault is not None:
                return TurnsRead(result, part.fault)
        if len(slow) == 2:
            return TurnsRead(result, slow[0][1])
        for half, too_slow in slow:
            await self.count_attempts(half, lease)
            result = summed(result, ExtractionResult(problem=str(too_slow)))
        return TurnsRead(result)

    async def _candidates(
        self, chunk: Sequence[PendingTurn], lease: Lease
    ) -> tuple[dict[int, list[KeptCandidate | None]], Sequence[Memory], ExtractionResult]:
        """Find the candidates in turns, and store them in the ledger.

        Return three values: a dict from each turn's number to its candidates; the memories that the
        model was shown; and a result with the cost of the model's call and the number of candidates
        that were dropped because there were too many. A candidate in the dict is None if it was
        stored in an earlier attempt and forgotten since.
        """
        found, to_ask = await in_thread_if_long(_texts(chunk), _without_model, chunk)
        remembered, usage, over_limit = tuple[Memory, ...](), Usage(), 0
        if to_ask:
            context = await in_thread(self._context, to_ask)
            remembered = await in_thread(self._remembered, to_ask, context)
            turns = [one.turn for one in to_ask]
            with telemetry.span("extract", turns=len(turns)) as seen:
                extraction = await Asking(CallBudget(sys.maxsize), self._budget_s).ask(
                    self._model.extract, turns, context=context, remembered=remembered
                )
                seen.set_attribute("candidates", len(extraction.candidates))
            usage = extraction.usage
            taken, over_limit = _limited(extraction.candidates, to_ask)
            texts = [turn.text for turn in (*context, *turns)]
            texts += [one.content for one in remembered]
            for said, candidate in await in_thread_if_long(
                texts, attributed, taken, to_ask, context, remembered
            ):
                found[said.anchor.seq].append(self._kept(said, candidate, remembered))

        def keep(writer: Writer) -> None:
            for seq, candidates in found.items():
                writer.turns.keep_candidates(seq, candidates)

        await in_thread(self._write, keep, lease)
        return found, remembered, ExtractionResult(usage=usage, over_limit=over_limit)

    def _kept(
        self, said: SourceTurns, candidate: Candidate, remembered: Sequence[Memory]
    ) -> KeptCandidate:
        """Convert a candidate to its stored form, with the memories that it may replace.

        `candidate.replaces` has positions in `remembered`; the stored form has the ids of these
        memories. A candidate may replace only memories of its own user and scope. It may replace
        none unless `said.may_replace`.
        """
        own = self._store.scope_of(self._memory(said.anchor, candidate, 0))
        asked_for = list(dict.fromkeys(candidate.replaces))

        def allowed(positions: Sequence[int]) -> list[Memory]:
            found = [
                remembered[n]
                for n in dict.fromkeys(positions)
                if said.may_replace
                and 0 <= n < len(remembered)
                and remembered[n].user == said.owner
                and self._store.scope_of(remembered[n]) == own
            ]
            return found[:_MOST_REPLACED]

        named = allowed(asked_for) if candidate.merged.strip() else []
        ended = [one.id for one in allowed(candidate.ends) if one not in named]
        if len(named) < len(asked_for):
            logger.warning(
                "a candidate of turn %s of %s names %d memories that it may not replace",
                said.anchor.name,
                said.anchor.turn.conversation,
                len(asked_for) - len(named),
            )
        return KeptCandidate(
            content=undated(candidate.content),  # the bot's turns may repeat what was dated for it
            user=candidate.user,
            owner=said.owner,
            category=candidate.category,
            intensity=candidate.intensity,
            merged=undated(candidate.merged) if named else "",
            said_in=said.names,
            named=tuple(NamedMemory(id=one.id, text_key=text_key(one.content)) for one in named),
            ended=tuple(ended),
        )

    # --- what a model is shown with them ---

    def _context(self, chunk: Sequence[PendingTurn]) -> list[Turn]:
        first = chunk[0]
        with self._store.ledger.reading() as reader:
            before = reader.turns.extracted_before(
                first.turn.conversation, first.seq, _CONTEXT_TURNS
            )
        starts = after_silences([*before, first.turn])
        return before[max(starts, default=0) :]

    def _remembered(
        self, chunk: Sequence[PendingTurn], context: Sequence[Turn]
    ) -> tuple[Memory, ...]:
        """Return public memories of the people who speak in `chunk`, oldest first.

        If several people speak in the chunk and its context, only memories that this conversation
        produced are returned: what one of them told elsewhere is not for the others.
        """
        said: dict[str, list[str]] = {}
        for one in chunk:
            if not one.turn.is_bot:
                said.setdefault(one.turn.speaker, []).append(one.turn.text)
        is_shared = len(people(context) | said.keys()) > 1
        conversation = chunk[0].turn.conversation
        try:
            found = [
                self._memories_about(texts, who, conversation, is_shared)
                for who, texts in said.items()
            ]
        except MemoryPipelineError as exc:
            logger.warning("extracted without what is remembered: %s", exc)
            return ()
        in_turn = chain.from_iterable(zip_longest(*found))
        memories = {one.id: one for one in in_turn if one is not None}
        return tuple(
            sorted(list(memories.values())[:_MOST_REMEMBERED], key=lambda one: one.timestamp)
        )

    def _memories_about(
        self, texts: Sequence[str], speaker: str, conversation: str, is_shared: bool
    ) -> list[Memory]:
        scope = Scope.of_user(speaker, is_private=False)
        with self._store.ledger.reading(self._store.clock()) as reader:
            newest = [row.memory for row in reader.memories.newest(_MOST_REMEMBERED, scope)]
        is_all = len(newest) < _MOST_REMEMBERED
        latest = [one for one in newest if one.metadata.get("conversation") == conversation]
        if is_shared:
            scope = Scope.of_user(speaker, is_private=False, conversation=conversation)
        if is_all:
            found = latest if is_shared else newest
        else:
            hits = self._store.search(
                " ".join(texts), _MOST_REMEMBERED, scope=scope, include_superseded=False
            )
            found = [*latest[:_MOST_LATEST], *(hit.memory for hit in hits)]
        return self._told_in(conversation, found) if is_shared else found

    def _told_in(self, conversation: str, memories: Sequence[Memory]) -> list[Memory]:
        """Return the memories of which every part was told in this conversation.

        A merge has the metadata of its newest part, so the parts are looked at, too.
        """
        with self._store.ledger.reading() as reader:
            return [
                one
                for one in memories
                if all(
                    _is_told_in(conversation, row.memory)
                    for row in reader.memories.rows(
                        [one.id, *reader.memories.ancestors(one.id)]
                    ).values()
                )
            ]

    # --- what becomes of what it finds ---

    async def _store_found(
        self,
        chunk: Sequence[PendingTurn],
        found: dict[int, list[KeptCandidate | None]],
        remembered: Sequence[Memory],
        lease: Lease,
    ) -> ExtractionResult:
        recalled = await in_thread(self._recalled, chunk)
        # Only a model that reads pages has compared it with what it was shown.
        compared = remembered if self._model.page_size else ()
        keys = frozenset(one.dated_key for one in compared)
        every = [
            (
                one,
                Extracted(
                    self._memory(kept, one, position), one.named, one.merged, keys, one.ended
                ),
            )
            for kept in chunk
            for position, one in enumerate(found[kept.seq])
            if one is not None
        ]
        texts = [one.content for one in (*recalled, *(new.memory for _, new in every))]
        fresh = await in_thread_if_long(texts, _unstated, every, recalled)
        outcomes = await self._deduplicator.check_and_merge_all(fresh, lease=lease)

        def finish(writer: Writer) -> None:
            for one in chunk:
                writer.turns.finish(one.seq)
            writer.turns.clear(lease.conversation, but=_CONTEXT_TURNS, older_than_s=_LONG_SILENCE_S)

        await in_thread(self._write, finish, lease)
        return ExtractionResult(
            outcomes=tuple(outcomes),
            extracted=len(chunk),
            already_remembered=len(every) - len(fresh),
            usage=sum((outcome.usage for outcome in outcomes), Usage()),
        )

    def _memory(self, kept: PendingTurn, candidate: Candidate, position: int) -> Memory:
        turn, category = kept.turn, candidate.category
        if self._categories and category not in self._categories:
            category = self._categories[0]
        metadata: dict[str, JsonValue] = {"conversation": turn.conversation, "turn": kept.name}
        owner = turn.speaker
        if isinstance(candidate, KeptCandidate):
            owner = candidate.owner or owner
            if candidate.said_in:
                metadata["turns"] = list(candidate.said_in)
        return Memory(
            id=self._store.new_id(),
            external_id=name_of_candidate(turn.conversation, kept.name, position),
            content=candidate.content,
            user=owner,
            category=category,
            intensity=candidate.intensity,
            timestamp=turn.at,
            metadata=metadata,
        )

    def _recalled(self, chunk: Sequence[PendingTurn]) -> list[Memory]:
        ids = [name for one in chunk for name in one.turn.recalled_ids]
        with self._store.ledger.reading() as reader:
            return [row.memory for row in reader.memories.rows(ids).values()]

    def _write(self, change: Callable[[Writer], None], lease: Lease) -> None:
        with self._store.ledger.writing() as writer:
            writer.leases.check(lease)
            change(writer)


def _is_told_in(conversation: str, memory: Memory) -> bool:
    own = (memory.external_id or "").startswith(f"{conversation}/")
    return own or bool(memory.merged_from and memory.external_id is None)


def _unstated(
    every: Sequence[tuple[Candidate, Extracted]], recalled: Sequence[Memory]
) -> list[Extracted]:
    return [
        new for candidate, new in every if candidate.asked or not is_told_by(recalled, new.memory)
    ]


def _to_read(chunk: Sequence[PendingTurn]) -> list[int]:
    return [
        position
        for position, one in enumerate(chunk)
        if one.candidates is None
        and not one.turn.is_bot
        and not only_asks_to_remember(one.turn.text)
    ]


def _without_model(
    chunk: Sequence[PendingTurn],
) -> tuple[dict[int, list[KeptCandidate | None]], list[PendingTurn]]:
    """Return the candidates that are known already, and the turns that the model must read.

    The candidates are a dict from each turn's number to a list. A candidate is known if it was
    stored in an earlier attempt, or if a user asked the bot to remember it. None stands for a
    stored candidate that was forgotten.
    """
    found = {
        one.seq: _requested(one.turn) if one.candidates is None else list(one.candidates)
        for one in chunk
    }
    unread = [one for one in chunk if one.candidates is None] if _to_read(chunk) else []
    return found, [one for one in unread if not only_asks_to_remember(one.turn.text)]


def _texts(chunk: Sequence[PendingTurn]) -> list[str]:
    return [one.turn.text for one in chunk]


def _requested(turn: Turn) -> list[KeptCandidate | None]:
    requests = [] if turn.is_bot else asked_to_remember(turn.text)
    contents = [retold(request, turn.speaker, turn.at) for request in requests]
    return [
        KeptCandidate(content=content, user=turn.speaker, intensity=1.0, asked=True)
        for content in contents
        if len(content) <= MAX_CONTENT
    ]


def _limited(
    candidates: Sequence[Candidate], asked: Sequence[PendingTurn]
) -> tuple[list[tuple[SourceTurns, Candidate]], int]:
    """Drop candidates over a limit, which grows with the number and the length of the turns.

    Return the kept candidates, each with its turns, and the number of candidates over the limit. If
    there are too many, the first candidate of each turn is kept, then the second of each turn, and
    so on, so that one turn cannot crowd out the others. Candidates that come only from the bot's
    turns are dropped too, but not counted.
    """
    by_turn: dict[int, list[tuple[SourceTurns, Candidate]]] = {}
    for candidate in candidates:
        if (said := source_turns(candidate, asked)) is not None:
            by_turn.setdefault(said.anchor.seq, []).append((said, candidate))
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


def after_silences(turns: Sequence[Turn]) -> list[int]:
    """Return the positions of the turns that follow a long silence.

    Turns before and after it are never read together.
    """
    return [
        n
        for n, (before, turn) in enumerate(pairwise(turns), start=1)
        if abs((turn.at - before.at).total_seconds()) > _LONG_SILENCE_S
    ]


def summed(first: ExtractionResult, other: ExtractionResult) -> ExtractionResult:
    """Return the sum of two results.

    `pending` and `known` are not added; they come from `first`. `problem` comes from `first` or, if
    it is empty there, from `other`.
    """
    return replace(
        first,
        outcomes=first.outcomes + other.outcomes,
        extracted=first.extracted + other.extracted,
        already_remembered=first.already_remembered + other.already_remembered,
        over_limit=first.over_limit + other.over_limit,
        usage=first.usage + other.usage,
        problem=first.problem or other.problem,
    )

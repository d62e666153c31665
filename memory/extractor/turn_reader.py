"""Extract memories from some turns of a conversation with a model, and store them.

If the model gives no usable answer, it is shown fewer turns at a time. So a single turn does not
prevent the extraction of the other turns.
"""

from __future__ import annotations

import logging
from calendar import month_name
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cached_property
from itertools import chain, zip_longest

from pydantic import JsonValue

from memory.coverage import covers
from memory.deduplicator import MemoryDeduplicator
from memory.errors import (
    MemoryPipelineError,
    ModelAnswerError,
    ModelError,
    ModelRefused,
    ModelTooSlow,
)
from memory.ledger import Lease, PendingTurn, Writer
from memory.models import (
    MAX_CONTENT,
    Candidate,
    Extracted,
    Extraction,
    ExtractionResult,
    KeptCandidate,
    Memory,
    NamedMemory,
    Scope,
    Turn,
    Usage,
    name_of_candidate,
)
from memory.offline import asked_to_remember, only_asks_to_remember, retold
from memory.protocols import LanguageModel
from memory.providers import Budget
from memory.runtime import in_thread, in_thread_if_long, telemetry
from memory.store import MemoryStore
from memory.text import telling_words, text_key

logger = logging.getLogger(__name__)

_ASKED = 1.0
"""Intensity, from 0 to 1, of a memory that somebody asked the bot to remember."""
_CONTEXT = 4
"""The greatest number of earlier turns, already extracted, that the model is shown as context."""
_REMEMBERED = 40
"""The greatest number of stored memories that the model is shown together with the turns."""
_LATEST = 8
"""The greatest number of a speaker's latest memories from the same conversation that are shown."""
_MOST_NAMED = 5
"""The greatest number of stored memories that one candidate may replace."""
_CANDIDATES_PER_TURN, _CHARACTERS_PER_CANDIDATE = 10, 100
"""One call may yield at most 10 candidates per turn, plus one per 100 characters of the turns."""


@dataclass(frozen=True)
class TurnsRead:
    """The result of reading some turns, with the cost of failed calls.

    `fault` is the reason why reading ended early; None if it did not.
    """

    result: ExtractionResult = field(default_factory=ExtractionResult)
    fault: ModelError | None = None


@dataclass(frozen=True)
class Shown:
    """The input of one extraction: turns, the turns before them, and stored memories."""

    turns: Sequence[Turn] = ()
    remembered: Sequence[Memory] = ()

    def _was_copied(self, candidate: Candidate, speaker: str) -> bool:
        """Return whether a candidate copies a stored memory of another speaker.

        Without this check, a turn that orders the model to repeat its memories could move a memory
        from one user to another. `speaker`: the user who would get the memory.

        The check looks at the candidate's new words, which are those that no turn contains. Names
        of speakers do not count as new. Dates within two weeks of the turns do not count either,
        because a model writes them in place of "yesterday". The candidate is a copy if one memory
        of another speaker contains all its new words. In addition, the new words must be at least
        half of its words or include a digit.
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

    def uncopied(
        self, taken: Sequence[tuple[SourceTurns, Candidate]]
    ) -> list[tuple[SourceTurns, Candidate]]:
        """Return the candidates that copy no memory of another speaker.

        `taken`: the candidates, each with the turns from which the model extracted it.
        """
        return [one for one in taken if not self._was_copied(one[1], one[0].anchor.turn.speaker)]

    @property
    def texts(self) -> list[str]:
        return [*(turn.text for turn in self.turns), *(one.content for one in self.remembered)]

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(text_key(one.content) for one in self.remembered)

    @cached_property
    def _spoken_words(self) -> frozenset[str]:
        spoken = chain.from_iterable(telling_words(turn.text) for turn in self.turns)
        return frozenset(spoken) | _words_of_days({turn.at.date() for turn in self.turns})

    @cached_property
    def _remembered_words(self) -> list[tuple[str | None, frozenset[str]]]:
        return [(one.user, self._words(one.content)) for one in self.remembered]

    def _words(self, text: str) -> frozenset[str]:
        speakers = {turn.speaker for turn in self.turns}
        names = {word for speaker in speakers for word in telling_words(speaker)}
        return frozenset(telling_words(text)) - names


def _words_of_days(dates: Set[date]) -> frozenset[str]:
    """Return the words of all dates within two weeks of `dates`.

    Each date is written in English, as YYYY-MM-DD and with Chinese characters.
    """
    days = {day + timedelta(n) for day in dates for n in range(-_DAYS_AROUND, _DAYS_AROUND + 1)}
    written = (
        f"{month_name[day.month]} {day.day} {day.year} {day} {day.year}年{day.month}月{day.day}日"
        for day in days
    )
    return frozenset(chain.from_iterable(map(telling_words, written)))


_DAYS_AROUND = 14


@dataclass(frozen=True)
class SourceTurns:
    """The turns from which a model extracted a candidate."""

    anchor: PendingTurn
    """The last of these turns that was spoken by the memory's user.

    It gives the memory its external id and its time.
    """
    names: tuple[str, ...] = ()
    """Identifiers of the source turns that people spoke; they are stored in the memory's metadata.

    Empty if the candidate comes from only one turn.
    """
    is_guess: bool = False
    """Whether these turns are a guess, because the model did not name the candidate's turns.

    A candidate with guessed turns may replace no stored memory.
    """


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
        gap_s: float,
        budget_s: float,
    ) -> None:
        """Set up reading for an open store.

        `gap_s`: seconds; turns before a longer silence are not shown as context. `budget_s`:
        seconds for one call of the model.
        """
        self._store = store
        self._deduplicator = deduplicator
        self._model = model
        self._gap_s = gap_s
        self._budget_s = budget_s

    async def read(self, chunk: Sequence[PendingTurn], lease: Lease) -> TurnsRead:
        """Extract memories from turns of one conversation, and store them.

        If the model gives no usable answer, the two halves of `chunk` are read one after the other.
        If the model fails for a reason that has nothing to do with these turns, reading ends early,
        and the result's `fault` says why. `lease`: the lease on the conversation.

        Raises: LeaseLost.
        """
        try:
            found, shown, asked = await self._candidates(chunk, lease)
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
        stored = await self._store_found(chunk, found, shown, lease)
        return TurnsRead(summed(stored, asked))

    async def count_attempts(self, chunk: Sequence[PendingTurn], lease: Lease) -> None:
        """Count one failed attempt for each turn, because the model gave no usable answer.

        `chunk`: the turns about which it was asked. `lease`: the lease on their conversation.

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

        `middle`: the position in `chunk` at which the second half starts. `lease`: the lease on the
        conversation. `failure`: the error of the failed call. If the model answers about only one
        half, a failed attempt is counted for each turn of the other half. If it answers about
        neither half, no attempt is counted, and the result holds the error.
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
    ) -> tuple[dict[int, list[KeptCandidate | None]], Shown, ExtractionResult]:
        """Find the candidates in turns, and store them in the ledger; return three results.

        `chunk`: the turns. The first result maps the number of each turn to its candidates; a
        candidate that was forgotten in the meantime is None. The second is what the model was
        shown. The third has the cost of the call, and the number of candidates dropped because
        there were too many. The model only reads turns whose candidates are not stored yet.
        `lease`: the lease on the conversation.
        """
        unread = [one for one in chunk if one.candidates is None]
        found = {one.seq: list(one.candidates or ()) for one in chunk}
        requests, to_ask = await in_thread_if_long(_texts(unread), _requests, unread)
        for seq, asked in requests.items():
            found[seq] += asked
        shown, usage, over_limit = Shown(), Usage(), 0
        if to_ask:
            extraction, shown = await self._ask(to_ask)
            usage = extraction.usage
            taken, over_limit = _limited(extraction.candidates, to_ask)
            for said, candidate in await in_thread_if_long(shown.texts, shown.uncopied, taken):
                found[said.anchor.seq].append(self._kept(said, candidate, shown))

        def keep(writer: Writer) -> None:
            for seq, candidates in found.items():
                writer.turns.keep_candidates(seq, candidates)

        await in_thread(self._write, keep, lease)
        return found, shown, ExtractionResult(usage=usage, over_limit=over_limit)

    def _kept(self, said: SourceTurns, candidate: Candidate, shown: Shown) -> KeptCandidate:
        """Convert a candidate to the form in which it is stored.

        A candidate has the positions, in `shown`, of the stored memories that it may replace. The
        stored form has the ids of these memories instead, at most five. Memories of another user or
        scope are left out. If the model did not say from which turns the candidate comes, another
        person may have spoken them, so the stored form names no memory. `said`: the turns from
        which the candidate comes.
        """
        own = self._store.scope_of(self._memory(said.anchor, candidate, 0))
        asked_for = list(dict.fromkeys(candidate.replaces))
        named = [
            shown.remembered[n]
            for n in asked_for
            if not said.is_guess
            and 0 <= n < len(shown.remembered)
            and shown.remembered[n].user == said.anchor.turn.speaker
            and self._store.scope_of(shown.remembered[n]) == own
        ]
        named = named[:_MOST_NAMED] if candidate.merged.strip() else []
        if len(named) < len(asked_for):
            logger.warning(
                "a candidate of turn %s of %s names %d memories that it may not replace",
                said.anchor.name,
                said.anchor.turn.conversation,
                len(asked_for) - len(named),
            )
        return KeptCandidate(
            content=candidate.content,
            user=candidate.user,
            category=candidate.category,
            intensity=candidate.intensity,
            merged=candidate.merged if named else "",
            said_in=said.names,
            named=tuple(NamedMemory(id=one.id, text_key=text_key(one.content)) for one in named),
        )

    async def _ask(self, to_ask: Sequence[PendingTurn]) -> tuple[Extraction, Shown]:
        """Ask the model for candidates in these turns; return its answer and what it was shown."""
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
        """Return the turns just before `chunk`, oldest first, to be shown to the model as context.

        There are at most four, all of them already extracted. Turns before a long silence are left
        out.
        """
        first = chunk[0]
        with self._store.ledger.reading() as reader:
            before = reader.turns.extracted_before(first.turn.conversation, first.seq, _CONTEXT)
        at, near = first.turn.at, list[Turn]()
        for turn in reversed(before):
            if abs((at - turn.at).total_seconds()) > self._gap_s:
                break
            near.insert(0, turn)
            at = turn.at
        return near

    def _remembered(self, chunk: Sequence[PendingTurn]) -> tuple[Memory, ...]:
        """Return at most 40 public memories of the speakers, for the model to see with the turns.

        They are the memories nearest to what the speakers say, and the latest memories from this
        conversation. They are sorted by time, oldest first. If the search fails, the result is
        empty.
        """
        said: dict[str, list[str]] = {}
        for one in chunk:
            if not one.turn.is_bot:
                said.setdefault(one.turn.speaker, []).append(one.turn.text)
        conversation = chunk[0].turn.conversation
        try:
            found = [self._memories_about(texts, who, conversation) for who, texts in said.items()]
        except MemoryPipelineError as exc:
            logger.warning("extracted without what is remembered: %s", exc)
            return ()
        in_turn = chain.from_iterable(zip_longest(*found))
        memories = {one.id: one for one in in_turn if one is not None}
        return tuple(sorted(list(memories.values())[:_REMEMBERED], key=lambda one: one.timestamp))

    def _memories_about(
        self, texts: Sequence[str], speaker: str, conversation: str
    ) -> list[Memory]:
        """Return public memories of a speaker that may be related to `texts`.

        The latest memories from the conversation `conversation` come first, then those nearest to
        `texts`. If the speaker has fewer than 40 memories, all of them are returned instead, newest
        first.
        """
        scope = Scope.of_user(speaker, is_private=False)
        with self._store.ledger.reading() as reader:
            newest = [row.memory for row in reader.memories.newest(_REMEMBERED, scope)]
        if len(newest) < _REMEMBERED:  # these are all
            return newest
        latest = [one for one in newest if one.metadata.get("conversation") == conversation]
        hits = self._store.search(" ".join(texts), _REMEMBERED, scope=scope)
        return [*latest[:_LATEST], *(hit.memory for hit in hits)]

    # --- what becomes of what it finds ---

    async def _store_found(
        self,
        chunk: Sequence[PendingTurn],
        found: dict[int, list[KeptCandidate | None]],
        shown: Shown,
        lease: Lease,
    ) -> ExtractionResult:
        recalled = await in_thread(self._recalled, chunk)
        # Only a model that reads pages has compared it with what it was shown.
        keys = shown.keys if self._model.page_size else frozenset[str]()
        every = [
            (one, Extracted(self._memory(kept, one, position), one.named, one.merged, keys))
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
            writer.turns.clear(lease.conversation, but=_CONTEXT, older_than_s=self._gap_s)

        await in_thread(self._write, finish, lease)
        return ExtractionResult(
            outcomes=tuple(outcomes),
            extracted=len(chunk),
            already_remembered=len(every) - len(fresh),
            usage=sum((outcome.usage for outcome in outcomes), Usage()),
        )

    def _memory(self, kept: PendingTurn, candidate: Candidate, position: int) -> Memory:
        """Make a memory from a candidate that was extracted from a turn.

        It belongs to the speaker of the turn, even if the candidate names another user. `kept`: the
        turn. `position`: the position of the candidate among the candidates of the turn.
        """
        turn = kept.turn
        metadata: dict[str, JsonValue] = {"conversation": turn.conversation, "turn": kept.name}
        if isinstance(candidate, KeptCandidate) and candidate.said_in:
            metadata["turns"] = list(candidate.said_in)
        return Memory(
            id=self._store.new_id(),
            external_id=name_of_candidate(turn.conversation, kept.name, position),
            content=candidate.content,
            user=turn.speaker,
            category=candidate.category,
            intensity=candidate.intensity,
            timestamp=turn.at,
            metadata=metadata,
        )

    def _recalled(self, chunk: Sequence[PendingTurn]) -> list[Memory]:
        ids = [name for one in chunk for name in one.turn.recalled_ids]
        with self._store.ledger.reading() as reader:
            return [row.memory for row in reader.memories.rows(ids).values()]

    def _write(self, change: Callable[[Writer], None], lease: Lease) -> None:
        """Call `change` in a transaction that only the holder of the lease may make."""
        with self._store.ledger.writing() as writer:
            writer.leases.check(lease)
            change(writer)


def _unstated(
    every: Sequence[tuple[Candidate, Extracted]], recalled: Sequence[Memory]
) -> list[Extracted]:
    """Return the new memories, without those that a recalled memory already states.

    `every`: each candidate with the new memory made from it. `recalled`: stored memories that the
    bot had recalled for the turns. A recalled memory only counts if it belongs to the same user or
    to no user. A new memory that somebody asked the bot to remember is always returned.
    """
    return [
        new
        for candidate, new in every
        if candidate.asked
        or not any(
            old.user in (None, new.memory.user) and covers(old.content, new.memory.content)
            for old in recalled
        )
    ]


def _to_read(chunk: Sequence[PendingTurn]) -> list[int]:
    """Return the positions, in `chunk`, of the turns that a model must read.

    A model must read a turn if two things are true: no candidates are stored for the turn yet, and
    a person says more in it than a request to remember something.
    """
    return [
        position
        for position, one in enumerate(chunk)
        if one.candidates is None
        and not one.turn.is_bot
        and not only_asks_to_remember(one.turn.text)
    ]


def _requests(
    unread: Sequence[PendingTurn],
) -> tuple[dict[int, list[KeptCandidate]], list[PendingTurn]]:
    """Find what people asked the bot to remember; return it with the turns that a model must read.

    The first result maps the number of each turn to the candidates that rules found in it. The
    second result is empty if no turn needs a model. Otherwise, it has all turns except those that
    only ask to remember something. `unread`: turns whose candidates are not stored yet.
    """
    asked = {one.seq: _requested(one.turn) for one in unread}
    to_read = unread if _to_read(unread) else ()
    return asked, [one for one in to_read if not only_asks_to_remember(one.turn.text)]


def _texts(chunk: Sequence[PendingTurn]) -> list[str]:
    return [one.turn.text for one in chunk]


def _requested(turn: Turn) -> list[KeptCandidate]:
    """Return a candidate for each request in the turn such as "Remember that I ...".

    The requests are found by rules, without a model.
    """
    requests = [] if turn.is_bot else asked_to_remember(turn.text)
    contents = [retold(request, turn.speaker, turn.at) for request in requests]
    return [
        KeptCandidate(content=content, user=turn.speaker, intensity=_ASKED, asked=True)
        for content in contents
        if len(content) <= MAX_CONTENT
    ]


def _source_turns(candidate: Candidate, asked: Sequence[PendingTurn]) -> SourceTurns | None:
    """Return the turns from which a candidate comes; None if only the bot spoke these turns.

    `asked`: the turns that the model was asked about. If the candidate names no turn, it may come
    from any of them. The new memory will belong to the user whom the candidate names, if that user
    spoke one of its turns. Otherwise it will belong to the last person who spoke in these turns.
    """
    named = [asked[n] for n in sorted(set(candidate.turns)) if 0 <= n < len(asked)]
    people = [one for one in named or asked if not one.turn.is_bot]
    if not people:
        return None
    own = [one for one in people if one.turn.speaker == candidate.user]
    anchor = (own or people)[-1]
    names = tuple(one.name for one in people) if len(named) > 1 else ()
    return SourceTurns(anchor, names, is_guess=not named)


def _limited(
    candidates: Sequence[Candidate], asked: Sequence[PendingTurn]
) -> tuple[list[tuple[SourceTurns, Candidate]], int]:
    """Keep at most as many candidates as the turns can state; return them, and the number dropped.

    Each candidate is returned with its turns. Candidates from turns that only the bot spoke are
    left out and not counted. If there are too many, the first candidate of each turn is kept, then
    the second of each turn, and so on, so that one turn cannot crowd out the others. `asked`: the
    turns that the model was asked about; the limit depends on their number and length.
    """
    by_turn: dict[int, list[tuple[SourceTurns, Candidate]]] = {}
    for candidate in candidates:
        if (said := _source_turns(candidate, asked)) is not None:
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


def summed(first: ExtractionResult, other: ExtractionResult) -> ExtractionResult:
    """Add the results of two extractions, and return the sum.

    `pending` and `known` are not added: the sum has those of `first`. If both results have a
    `problem`, the sum has that of `first`.
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

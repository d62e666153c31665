"""Pages of one scope, read by a model: verdicts, second readings, decisions; what was read."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from memory.decide import MOST_IN_GROUP, Apart, PagePlan, Part, connected, joined_as, page_parts
from memory.errors import CallsSpent, ModelAnswerError, ModelError
from memory.judging import log_merges, refusal
from memory.models import MOST_READ, Action, Decision, Memory, Question, Usage, Verdict
from memory.protocols import LanguageModel
from memory.providers import Asking, Budget, CallBudget
from memory.second_reading import SecondReader
from memory.text import Belief, text_key
from memory.threads import in_thread_if_long

logger = logging.getLogger(__name__)

T = TypeVar("T")

_SMALLEST = 8
"""A page of no more is not halved again."""
_PAGES_A_READING = 2
"""Pages whose groups are expected to fill one second reading."""

Apply = Callable[[Decision], Awaitable[Memory | None]]
"""Applies a decision; gives who lives for its newest member, None where something came first."""
Record = Callable[[set[str]], Awaitable[None]]
"""Keeps which texts, by their keys, have been read."""


@dataclass(frozen=True)
class PageReader:
    """A model, and what each of its questions may cost."""

    model: LanguageModel
    second: SecondReader
    calls: CallBudget
    budget_s: float
    concurrency: asyncio.Semaphore
    at_once: int
    """Pages of one scope that are read before their merges are checked together."""
    new_id: Callable[[], str]


@dataclass(frozen=True)
class Ground:
    """What a reading needs to know of the store."""

    apart: Apart
    similarity: Callable[[Sequence[Memory]], float]
    """Of the two members that are least alike."""
    apply: Apply
    record: Record
    came: Mapping[str, int]
    """In which order the memories came, by their ids; what was made of some came last of them."""

    def oldest_first(self, members: Iterable[Memory]) -> tuple[Memory, ...]:
        """The same, those of one time in the order in which they came."""
        return tuple(sorted(members, key=lambda one: (one.timestamp, self.came.get(one.id, 0))))


@dataclass
class _Page:
    """A page under way; where it stays open, its texts count as unread."""

    plan: PagePlan
    parts: list[Part] = field(default_factory=list)
    reason: str = ""
    usage: Usage = field(default_factory=Usage)
    """What its answer has cost, for the first decision that comes of it."""
    is_open: bool = False
    unread: set[str] = field(default_factory=set)
    """Texts of members that something came to first, or whose group gave way to a larger one."""


class ScopeReading:
    """The pages of one scope, some at once; merges of those are checked together."""

    def __init__(self, reader: PageReader, ground: Ground, pages: Sequence[PagePlan]) -> None:
        self._reader = reader
        self._ground = ground
        self._todo = list(pages)
        self._calls = reader.calls
        self._living: dict[str, Memory] = {}
        self._made: set[str] = set()
        """Text keys of what was merged."""
        """Who lives for those that this reading has merged, by their ids."""
        self._unread: set[str] = set()
        """Texts that are to be read again, whatever page they are on next."""
        self._planned = Counter(key for page in pages for key in _keys(page))
        self.usage = Usage()
        self.failure = ""
        """Why the last call that failed did."""
        self.left = 0
        """Pages that wait for the next run."""

    async def run(self, on_page: Callable[[], None]) -> None:
        """Read all pages; `on_page` hears of each that is over."""
        todo = self._todo
        while todo:
            some = todo[: self._reader.at_once]
            self._calls = self._reader.calls.part(len(some) + _readings(len(some)))
            while len(some) > 1 and len(some) + _readings(len(some)) > self._calls.left:
                some.pop()
            try:
                await self._read_together(some, on_page)
            finally:
                self._calls.close()
            todo = todo[len(some) :]

    async def _read_together(self, some: Sequence[PagePlan], on_page: Callable[[], None]) -> None:
        """Read some pages, and settle what comes of them."""
        read = await asyncio.gather(*(self._read(_Page(self._today(page))) for page in some))
        pages = [page for halves in read for page in halves]
        _untangle(pages, self._ground, min(MOST_IN_GROUP, self._reader.model.page_size))
        await self._check(pages)
        await self._once_more(pages)
        for page in pages:
            await self._settle(page)
        for whole, halves in zip(some, read, strict=True):
            await self._record(whole, halves)
            on_page()

    # --- asking ---

    async def _read(self, page: _Page) -> list[_Page]:
        """The page with its groups; one whose answer is cut off or unusable as its halves."""
        if len(page.plan.members) < 2:
            return [page]
        try:
            verdict = await self._judge(page.plan.question)
        except ModelAnswerError as exc:
            if len(page.plan.members) > _SMALLEST:
                logger.warning("a page is halved: %s", exc)
                halves = [await self._read(_Page(half)) for half in page.plan.halves()]
                return [one for half in halves for one in half]
            page.usage = Usage.of_failure(exc)
            await self._give_up(page, str(exc))
            return [page]
        except ModelError as exc:
            _log_failure(exc)
            page.is_open = True
            return [page]
        page.reason, page.usage = verdict.reason, verdict.usage
        page.parts = await self._parts(page.plan.question, verdict)
        return [page]

    async def _parts(self, question: Question, verdict: Verdict) -> list[Part]:
        texts = [*(one.content for one in question.members), *(one.text for one in verdict.parts)]
        return await in_thread_if_long(texts, page_parts, question, verdict, self._ground.apart)

    async def _judge(self, question: Question) -> Verdict:
        """Raises: ModelError."""
        return await self._asked(lambda asking: asking.ask(self._reader.model.judge, question))

    async def _asked(self, ask: Callable[[Asking], Awaitable[T]]) -> T:
        """Return what `ask` returns; count what it costs, and keep why it failed.

        Raises: ModelError.
        """
        asking = Asking(self._calls, Budget(self._reader.budget_s))
        try:
            async with self._reader.concurrency:
                return await ask(asking)
        except CallsSpent:
            raise
        except ModelError as exc:
            self.failure = str(exc)
            raise
        finally:
            self.usage += asking.usage

    async def _check(self, pages: Sequence[_Page]) -> None:
        """Have the merges that the program cannot tell read, those of all pages together."""
        doubtful = [
            (page, part) for page in pages for part in page.parts if part.belief is Belief.DOUBTFUL
        ]
        batches = (doubtful[n : n + MOST_READ] for n in range(0, len(doubtful), MOST_READ))
        await asyncio.gather(*(self._check_batch(batch) for batch in batches))

    async def _check_batch(self, doubtful: Sequence[_PagePart]) -> None:
        """Settle up to 16 merges in one call; where that fails, their pages stay open."""
        parts = [part for _, part in doubtful]
        settled: Sequence[Part] = ()
        try:
            settled = await self._asked(lambda asking: self._reader.second.settle(parts, asking))
        except ModelError as exc:
            _log_failure(exc)
        for n, (page, part) in enumerate(doubtful):
            place = next(at for at, one in enumerate(page.parts) if one is part)
            page.parts[place : place + 1] = settled[n : n + 1]
            page.is_open |= not settled

    async def _once_more(self, pages: Sequence[_Page]) -> None:
        """The judge is told what was found, and answers once more about the groups refused."""
        refused = _refused_alone(pages)
        for some in _together(refused, self._reader.model.page_size):
            parts = [part for _, part in some]
            members = {one.id: one for part in parts for one in part.merge.members}
            shown = self._ground.oldest_first(members.values())
            question = Question(
                shown, "asked once more", 0.0, objection=_objection(shown, parts), is_page=True
            )
            try:
                verdict = await self._judge(question)
            except ModelError as exc:
                logger.warning("the judge has no second answer: %s", exc)
                continue
            again = _Page(some[0][0].plan, await self._parts(question, verdict))
            await self._check([again])
            if again.is_open:  # nobody has read the new texts: the questions stay open
                continue
            _put_in_place(some, again.parts)

    # --- what comes of it ---

    async def _settle(self, page: _Page) -> None:
        """One decision a group; a refused one is recorded, and stays open where it may pass."""
        for part in page.parts:
            if part.belief is Belief.BELIEVED:
                decision = joined_as(
                    part,
                    self._ground.similarity(part.merge.members),
                    page.reason,
                    self._reader.new_id,
                    self._reader.model.name,
                )
            else:
                similarity = self._ground.similarity(part.merge.members)
                decision = refusal(part, similarity, self._reader.model.name)
            decision, page.usage = replace(decision, usage=page.usage), Usage()
            living = await self._ground.apply(decision)
            if living is None and decision.survivors:
                page.unread |= {text_key(one.content) for one in part.merge.members}
            elif living is not None and decision.survivors:
                log_merges(decision)
                self._living |= dict.fromkeys((one.id for one in decision.members), living)
                self._made.add(text_key(living.content))

    async def _give_up(self, page: _Page, why: str) -> None:
        """A small page without a usable answer: its question stays open."""
        logger.warning("DEDUP_FAIL: LLM merge failed, falling back to keep both (%s)", why)
        members = page.plan.members
        decision = Decision(
            Action.KEEP_BOTH,
            why,
            members,
            similarity=self._ground.similarity(members),
            pending=True,
            model=self._reader.model.name,
            usage=page.usage,
        )
        await self._ground.apply(decision)

    async def _record(self, whole: PagePlan, pages: Sequence[_Page]) -> None:
        """Once a text has been on its last page it is read, and what was made of it too."""
        if any(page.is_open for page in pages):
            self.left += 1
            return
        self._planned.subtract(_keys(whole))
        self._unread.update(*(page.unread for page in pages))
        read = {key for key in _keys(whole) if self._planned[key] <= 0} | self._made
        await self._ground.record(read - self._unread)

    def _today(self, page: PagePlan) -> PagePlan:
        """The page with those that were merged meanwhile as what they have become."""
        return page.with_living(self._living)


def _readings(pages: int) -> int:
    """Return how many second readings so many pages are expected to need."""
    return math.ceil(pages / _PAGES_A_READING)


def _log_failure(exc: ModelError) -> None:
    if isinstance(exc, CallsSpent):
        logger.info("a page is left for the next run: %s", exc)
    else:
        logger.warning("DEDUP_FAIL: LLM merge failed, falling back to keep both (%s)", exc)


def _keys(page: PagePlan) -> set[str]:
    return {text_key(one.content) for one in page.members}


_PagePart = tuple[_Page, Part]

_SHARED = "groups of two pages share a memory: name it in one group, with one text for all of that"


def _untangle(pages: Sequence[_Page], ground: Ground, most: int) -> None:
    """Of groups that share members the one that has all stays; others are asked about once more.

    Those that can never be one group are not: the largest stay, and who is in none is read again.
    """
    found = [(page, part) for page in pages for part in page.parts if not _is_refused(part)]
    holders: dict[str, list[int]] = {}
    for n, (_, part) in enumerate(found):
        for one in part.merge.members:
            holders.setdefault(one.id, []).append(n)
    shared = [(some[0], n) for some in holders.values() for n in some[1:]]
    for entangled in connected(len(found), shared):
        if len(entangled) == 1:
            continue
        some = [found[n] for n in entangled]
        page, whole = max(some, key=lambda one: len(one[1].merge.members))
        members = {one.id: one for _, part in some for one in part.merge.members}
        for its, part in some:
            its.parts = [one for one in its.parts if one is not part]
        if len(members) > most or ground.apart(list(members.values())):
            _keep_largest(some)
            continue
        if len(members) > len(whole.merge.members):
            merge = replace(whole.merge, members=ground.oldest_first(members.values()))
            whole = Part(merge, Belief.REFUSED, _SHARED)
        page.parts.append(whole)


def _keep_largest(entangled: Sequence[_PagePart]) -> None:
    """Keep the largest groups that share nobody; whoever is in none of them counts as unread."""
    taken: set[str] = set()
    left = []
    for page, part in sorted(entangled, key=lambda one: -len(one[1].merge.members)):
        names = {one.id for one in part.merge.members}
        if taken.isdisjoint(names):
            page.parts.append(part)
            taken |= names
        else:
            left.append((page, part))
    for page, part in left:
        page.unread |= {text_key(one.content) for one in part.merge.members if one.id not in taken}


def _is_refused(part: Part) -> bool:
    return part.belief is Belief.REFUSED


def _refused_alone(pages: Sequence[_Page]) -> list[_PagePart]:
    """The refused groups that may be mended, without those who are in an accepted one.

    A group of which nobody is left then is dropped.
    """
    accepted = {
        one.id
        for page in pages
        for part in page.parts
        if part.belief is Belief.BELIEVED
        for one in part.merge.members
    }
    found = []
    for page in pages:
        kept = []
        for part in page.parts:
            if part.belief is Belief.REFUSED and not part.is_final:
                left = tuple(one for one in part.merge.members if one.id not in accepted)
                if len(left) < 2:
                    continue
                part = replace(part, merge=replace(part.merge, members=left))
                found.append((page, part))
            kept.append(part)
        page.parts = kept
    return found


def _together(refused: Sequence[_PagePart], most: int) -> list[list[_PagePart]]:
    """As many as one question may show."""
    runs: list[list[_PagePart]] = []
    room = 0
    for one in refused:
        size = len(one[1].merge.members)
        if size > room:
            runs.append([])
            room = most
        runs[-1].append(one)
        room -= size
    return runs


def _objection(shown: Sequence[Memory], parts: Sequence[Part]) -> str:
    number = {member.id: n for n, member in enumerate(shown, start=1)}
    told = []
    for part in parts:
        named = ", ".join(str(number[one.id]) for one in part.merge.members)
        told.append(f"group {named} with the text {part.merge.text!r}: {part.reason}")
    return "; ".join(told)


def _put_in_place(refused: Sequence[_PagePart], again: Sequence[Part]) -> None:
    """The new groups instead of the refused ones; a group that is not named again is apart."""
    named = {one.id for part in again for one in part.merge.members}
    for page, part in refused:
        place = next(n for n, one in enumerate(page.parts) if one is part)
        if any(one.id in named for one in part.merge.members):
            del page.parts[place]
        else:
            reason = f"{part.reason}; told apart when asked once more"
            page.parts[place] = replace(part, reason=reason, is_final=True)
    refused[0][0].parts += again

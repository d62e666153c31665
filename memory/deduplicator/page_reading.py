"""Read the pages of one scope: ask, check merged texts, apply decisions, record what was read."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from memory.coverage import Belief
from memory.decide import MOST_IN_GROUP, Apart, PagePlan, Part, connected, joined_as, page_parts
from memory.deduplicator.judging import log_merges, refusal
from memory.deduplicator.second_reading import SecondReader
from memory.errors import CallsSpent, ModelAnswerError, ModelError
from memory.models import MOST_READ, Action, Decision, Memory, Question, Usage, Verdict
from memory.protocols import LanguageModel
from memory.providers import Asking, Budget, CallBudget
from memory.runtime import in_thread_if_long
from memory.text import text_key

logger = logging.getLogger(__name__)

T = TypeVar("T")

_SMALLEST = 8
"""A page of no more is not halved again."""
_PAGES_A_READING = 2
"""Pages whose groups are expected to fill one second reading."""

Apply = Callable[[Decision], Awaitable[Memory | None]]
"""Apply a decision; return the memory that now lives for its newest member, None on conflict."""
Record = Callable[[set[str]], Awaitable[None]]
"""Record that the texts with these keys have been read."""


@dataclass(frozen=True)
class PageReader:
    """A model that reads pages, with its limits of calls, time and concurrency."""

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
    """What reading a scope needs of the store."""

    apart: Apart
    similarity: Callable[[Sequence[Memory]], float]
    """Similarity of the two members that are least alike."""
    apply: Apply
    record: Record
    came: Mapping[str, int]
    """Order of arrival by id; a merged memory has that of its last member."""

    def oldest_first(self, members: Iterable[Memory]) -> tuple[Memory, ...]:
        """Sort by time, then by order of arrival."""
        return tuple(sorted(members, key=lambda one: (one.timestamp, self.came.get(one.id, 0))))


@dataclass
class _Page:
    """A page that is being read; if it stays open, its texts count as unread."""

    plan: PagePlan
    parts: list[Part] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    """Cost of its answer; the first decision of the page records it."""
    is_open: bool = False
    unread: set[str] = field(default_factory=set)
    """Text keys of members whose decision met a conflict, or whose group lost to a larger one."""


class ScopeReading:
    """Reads the pages of one scope, a few at a time, and checks their merges together."""

    def __init__(self, reader: PageReader, ground: Ground, pages: Sequence[PagePlan]) -> None:
        self._reader = reader
        self._ground = ground
        self._todo = list(pages)
        self._calls = reader.calls
        self._living: dict[str, Memory] = {}
        """Memory that lives for each memory that this reading has merged, by id."""
        self._made: set[str] = set()
        """Text keys of merged memories."""
        self._unread: set[str] = set()
        """Text keys that must be read again, even if a later page shows them."""
        self._planned = Counter(key for page in pages for key in _keys(page))
        self.usage = Usage()
        self.failure = ""
        """Reason of the last call that failed."""
        self.left = 0
        """Pages that wait for the next run."""

    async def run(self, on_page: Callable[[], None]) -> None:
        """Read all pages; `on_page` is called after each."""
        todo = self._todo
        while todo:
            some = todo[: self._reader.at_once]
            self._calls = self._reader.calls.part(len(some) + _readings(len(some)))
            while len(some) > 1 and len(some) + _readings(len(some)) > self._calls.left:
                some.pop()
            try:
                await self._read_batch(some, on_page)
            finally:
                self._calls.close()
            todo = todo[len(some) :]

    async def _read_batch(self, some: Sequence[PagePlan], on_page: Callable[[], None]) -> None:
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
        """Ask about a page; if its answer is cut off or unusable, ask about its halves."""
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
        page.usage = verdict.usage  # not its reason: that may quote members of no group
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
        """Tell the judge why groups were refused, and ask about these once more."""
        refused = _refused_alone(pages)
        for some in _question_batches(refused, self._reader.model.page_size):
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
        """Apply one decision for each group; record a refused group, open if it may pass later."""
        for part in page.parts:
            if part.belief is Belief.BELIEVED:
                decision = joined_as(
                    part,
                    self._ground.similarity(part.merge.members),
                    "",
                    self._reader.new_id,
                    self._reader.model.name,
                )
            else:
                similarity = self._ground.similarity(part.merge.members)
                decision = refusal(part, similarity, self._reader.model.name)
            decision, page.usage = replace(decision, usage=page.usage), Usage()
            living = await self._ground.apply(decision)
            if living is None and not part.is_final:
                page.unread |= {text_key(one.content) for one in part.merge.members}
            elif living is not None and decision.survivors:
                log_merges(decision)
                self._living |= dict.fromkeys((one.id for one in decision.members), living)
                self._made.add(text_key(living.content))

    async def _give_up(self, page: _Page, why: str) -> None:
        """Keep the question of a small page open that has no usable answer."""
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
        if await self._ground.apply(decision) is None:
            page.unread |= _keys(page.plan)

    async def _record(self, whole: PagePlan, pages: Sequence[_Page]) -> None:
        """Record the texts whose last page this was as read, and what was merged from them."""
        if any(page.is_open for page in pages):
            self.left += 1
            return
        self._planned.subtract(_keys(whole))
        self._unread.update(*(page.unread for page in pages))
        read = {key for key in _keys(whole) if self._planned[key] <= 0} | self._made
        await self._ground.record(read - self._unread)

    def _today(self, page: PagePlan) -> PagePlan:
        """Replace the members that were merged meanwhile by the memories that live for them."""
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
    """Resolve groups that share members: combine them and ask about the combination once more.

    A group that contains the others stays as it is. If they can never be one group, the largest
    disjoint ones stay, and members of none of these are read again.
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
    """Keep the largest disjoint groups; members of no kept group count as unread."""
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
    """Return the refused groups that may be mended, without members of accepted groups.

    A group with fewer than two members left is dropped.
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


def _question_batches(refused: Sequence[_PagePart], most: int) -> list[list[_PagePart]]:
    """Split refused groups into batches that one question may show."""
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
    """Replace refused groups by the new ones; one that is not named again is kept apart."""
    named = {one.id for part in again for one in part.merge.members}
    for page, part in refused:
        place = next(n for n, one in enumerate(page.parts) if one is part)
        if any(one.id in named for one in part.merge.members):
            del page.parts[place]
        else:
            reason = f"{part.reason}; told apart when asked once more"
            page.parts[place] = replace(part, reason=reason, is_final=True)
    refused[0][0].parts += again

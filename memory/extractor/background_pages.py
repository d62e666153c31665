"""Have a model read pages of the memories that were just written, in the background.

Such a reading is a batch over one scope. It is the batch that later finds what the rules and the
questions about single memories do not find.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from memory.deduplicator import MemoryDeduplicator
from memory.errors import MemoryPipelineError
from memory.extractor.extractor import Background, leased
from memory.models import MOST_ON_PAGE, Action, DeduplicationReport, Outcome, Scope
from memory.store import MemoryStore

logger = logging.getLogger(__name__)

PAGE_IS_DUE = 24
"""A scope is read when so many memories were written that the model has not read on a page."""
QUIET_S = 60.0
"""A scope with unread memories is read this many seconds after its last write."""
_LONGEST_PAUSE_S = 600.0
_WRITES = frozenset({Action.ADD, Action.REPLACE, Action.MERGE, Action.KEEP_BOTH, Action.UPDATE})

OnPages = Callable[[DeduplicationReport], None]
"""A callback that is called in the background thread with the report of each reading."""


@dataclass
class _Written:
    """A scope with memories that were just written.

    `unread`: the number of memories written since the last reading. `last_s`: when the last was
    written, in the loop's seconds. After a reading that left something unread, the scope
    rests until `not_before_s`, and the next rest lasts `pause_s`.
    """

    last_s: float
    unread: int = 0
    not_before_s: float = -math.inf
    pause_s: float = QUIET_S


class BackgroundPages(Background[Scope]):
    """Reads the scopes that were written to: one after another, in one event loop.

    A scope is due when 24 memories were written that the model has not read on a page, or a minute
    after the last of them. Only one process at a time reads a scope. `run` starts the reading. Call
    all methods in the event loop that runs `run`.
    """

    def __init__(
        self,
        store: MemoryStore,
        deduplicator: MemoryDeduplicator,
        *,
        is_on: bool = True,
        on_pages: OnPages | None = None,
    ) -> None:
        super().__init__()
        self._store = store
        self._deduplicator = deduplicator
        self._is_on = is_on and deduplicator.reads_pages
        self._on_pages = on_pages
        self._written: dict[Scope, _Written] = {}
        self._settling = False

    def wrote(self, outcomes: Iterable[Outcome]) -> None:
        """Take note of memories that were stored."""
        if not self._is_on:
            return
        now = asyncio.get_running_loop().time()
        for outcome in outcomes:
            if outcome.action in _WRITES:
                scope = self._store.scope_of(outcome.memory)
                written = self._written.setdefault(scope, _Written(now))
                written.last_s = now
                written.unread += 1
        self.wake()

    async def settle(self) -> None:
        """Wait until all memories that were written here are read, or cannot be read now."""
        for written in self._written.values():
            written.not_before_s = -math.inf
        self._settling = True
        try:
            while not self._stopped and any(map(self._is_open, self._written.values())):
                self._moved.clear()
                self.wake()
                await self._moved.wait()
        finally:
            self._settling = False

    async def is_due(self) -> bool:
        """Return whether a scope is read now, or is about to be."""
        now = asyncio.get_running_loop().time()
        return bool(self._working) or any(
            self._due_in_s(written, now) <= 0.0 for written in self._written.values()
        )

    # --- what is due ---

    def _is_open(self, written: _Written) -> bool:
        return written.unread != 0 and math.isinf(written.not_before_s)

    def _due_in_s(self, written: _Written, now: float) -> float:
        if written.unread == 0:
            return math.inf
        full = self._settling or written.unread >= PAGE_IS_DUE
        quiet_s = 0.0 if full else written.last_s + QUIET_S - now
        return max(quiet_s, written.not_before_s - now)

    async def _do_due(self) -> float | None:
        """Read all scopes that are due; return the seconds until the next is due, None if none."""
        while not self._stopped:
            now = asyncio.get_running_loop().time()
            left = {
                scope: self._due_in_s(written, now)
                for scope, written in self._written.items()
                if written.unread != 0
            }
            if not left:
                return None
            scope = min(left, key=lambda one: left[one])
            if left[scope] > 0.0:
                return left[scope]
            reading = asyncio.create_task(self._read(scope, self._written[scope]))
            self._working[scope] = reading
            try:
                await asyncio.wait([reading])
            finally:
                del self._working[scope]
            self._moved.set()
        return None

    # --- one scope ---

    async def _read(self, scope: Scope, written: _Written) -> None:
        try:
            await self._read_pages(scope, written)
        except MemoryPipelineError as exc:
            logger.warning("a page waits: %s", exc)
            self._rest(written)
        except Exception:  # an own model may raise anything; other scopes go on
            logger.exception("reading a page failed")
            self._rest(written)

    async def _read_pages(self, scope: Scope, written: _Written) -> None:
        before = written.unread
        report = await _read_alone(self._store, self._deduplicator, scope)
        if report is None or report.pages_left or report.failure:
            self._rest(written)
            return
        written.unread -= min(before, MOST_ON_PAGE)  # a reading takes the newest 48
        written.not_before_s, written.pause_s = -math.inf, QUIET_S
        if self._on_pages is not None:
            self._on_pages(report)

    def _rest(self, written: _Written) -> None:
        """Let a scope rest: no call is left, the model failed, or another process reads it."""
        written.not_before_s = asyncio.get_running_loop().time() + written.pause_s
        written.pause_s = min(2 * written.pause_s, _LONGEST_PAUSE_S)


async def _read_alone(
    store: MemoryStore, deduplicator: MemoryDeduplicator, scope: Scope, *, proposes: bool = False
) -> DeduplicationReport | None:
    """Call `read_scope`; return None if another process reads the scope now."""
    async with leased(store.ledger, f"pages of {scope.key}") as lease:
        if lease is None:
            return None
        return await deduplicator.read_scope(scope, proposes=proposes)


async def propose(store: MemoryStore, deduplicator: MemoryDeduplicator, scope: Scope) -> str:
    """Have a model read what it has not read of a scope, and record what it would merge.

    Nothing is merged. Return why a page is left unread; "" if none is.
    """
    try:
        report = await _read_alone(store, deduplicator, scope, proposes=True)
    except MemoryPipelineError as exc:
        return str(exc)
    if report is None or not report.pages_left:
        return ""
    return report.failure or "no call is left in this hour"

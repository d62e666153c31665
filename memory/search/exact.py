"""Nearest neighbours by exact search over the ledger's vectors, always as of the latest commit."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Sequence

from memory.errors import IndexFault, LedgerError
from memory.ledger import Ledger
from memory.models import Scope
from memory.protocols import Query, Shortlist
from memory.search.beside import Beside
from memory.search.live import LiveVectors

logger = logging.getLogger(__name__)

_MOST = 6_500_000
"""Numbers that are read faster than Chroma answers: of 100,000 vectors of 256, by their bounds."""
_KEPT = 25_600_000
"""Numbers in all vectors that are read to be searched exactly: 100 MB, of 100,000 of 256."""
_READ_AT_ONCE = 1_280_000
"""Numbers in vectors that are read while somebody waits: of 5,000, in some 40 ms."""
_PAGE = 100
"""Vectors that are read in one go where nobody waits for them, in some 2 ms."""
_REST = 3.0
"""How long the reading rests after each page, in the time that took it."""


class ExactIndex:
    """All live vectors in memory, caught up from the ledger before each answer."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._live = LiveVectors()
        self._reading = Beside("exact", self._steps, pause=_REST)
        self._numbers: int | None = None
        """In all live vectors, when that was last counted; None before."""
        self._fails = False
        """Whether the vectors could not be read beside others."""

    def nearest(self, queries: Sequence[Query]) -> list[Shortlist]:
        with self._lock:
            self._catch_up()
            found = self._live.nearest(queries)
        return [Shortlist(tuple(name for name, _ in some)) for some in found]

    def suffices(self) -> bool:
        """Whether it answers at once whatever is asked, however all is divided into scopes."""
        with self._ledger.reading() as reader:
            return reader.followers.count() * (reader.vectors.dim() or 0) <= _MOST

    def begin(self, *, often: bool) -> None:
        """Read the vectors: few at once, and more of them beside others where it is asked often."""
        if self._live.is_whole or self._fails or self._reading.is_under_way:
            return
        if self._numbers is None:
            with self._ledger.reading() as reader:
                self._numbers = reader.followers.count() * (reader.vectors.dim() or 0)
        if self._numbers <= _READ_AT_ONCE:
            self.follow()
        elif often and self._numbers <= _KEPT:
            self._reading.start()

    def answers_at_once(self, scope: Scope) -> bool:
        """Whether its vectors are read, and of this scope are no more than it is the faster with.

        Not while somebody else is served: that may take as long as reading all of them. It lets go
        of what has become many where all are of this scope: another one's would be read again.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            live = self._live
            if not live.is_whole or live.read_for(scope) <= _MOST:
                return live.is_whole
            if live.numbers > _KEPT and live.are_all_of(scope):
                self._live, self._numbers = LiveVectors(), live.numbers
            return False
        finally:
            self._lock.release()

    def keep_up(self) -> None:
        """Take in what the ledger has committed, where the vectors are read."""
        if self._live.is_whole:
            self.follow()

    def follow(self) -> None:
        with self._lock:
            self._catch_up()

    def _catch_up(self) -> None:
        try:
            with self._ledger.reading() as reader:
                self._live.catch_up(reader)
        except BaseException:  # half of what has changed is worse than nothing
            self._live = LiveVectors()
            raise

    def _steps(self) -> Generator[None, None, None]:
        """Nobody waits for the vectors: whoever needs them meanwhile reads them too.

        Each page is read by itself: a long look would keep the ledger's log from being cleared.
        """
        fresh, page = LiveVectors(), _PAGE
        try:
            while page:
                with self._ledger.reading() as reader:
                    page = fresh.read_page(reader, page)
                yield
            with self._ledger.reading() as reader:
                fresh.catch_up(reader)
            with self._lock:
                if not self._live.is_whole:
                    self._live = fresh
        except (IndexFault, LedgerError) as exc:
            self._fails = True
            logger.warning("the vectors cannot be read to be searched exactly: %s", exc)

    @property
    def name(self) -> str:
        return "exact search"

    def disagreement(self) -> str:
        """It reads the ledger before each answer."""
        return ""

    def rebuild(self, on_progress: Callable[[int, int], None] | None = None) -> None:  # noqa: ARG002 - at once
        with self._lock:
            self._live = LiveVectors()

    def scrub(self) -> None:
        """Nothing on disk is held."""

    def close(self) -> None:
        """Nothing on disk is held; what is under way ends, and the vectors are let go of.

        A closed store is part of reference cycles: without this they stay until Python finds them.
        """
        self._reading.stop()
        with self._lock:
            self._live = LiveVectors()

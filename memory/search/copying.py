"""Copying what is many into Chroma beside those who search."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Generator, Iterator, Sequence
from typing import TypeVar

import numpy as np

from memory.errors import IndexFault, LedgerError
from memory.ledger import Change, Ledger
from memory.models import Scope
from memory.protocols import Query
from memory.search import rows
from memory.search.beside import Beside
from memory.search.following import Follower, Page
from memory.search.place import Place

logger = logging.getLogger(__name__)

_BESIDE = 200
"""Rows that are read in one go while others search."""

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work that gives way between its steps, and its outcome."""


class Locks:
    """How those who search and those who copy take turns."""

    def __init__(self) -> None:
        self.writing = threading.Lock()
        """Held, before the other, by whoever writes Chroma's rows, moves it or reads them all."""
        self.searching = threading.RLock()
        """Held by whoever searches, or changes what is searched."""

    @contextlib.contextmanager
    def both(self) -> Iterator[None]:
        with self.writing, self.searching:
            yield


class Copying:
    """Copies what is more than may be searched exactly; others come between any two steps."""

    def __init__(self, place: Place, follower: Follower, ledger: Ledger, locks: Locks) -> None:
        self._place = place
        self._follower = follower
        self._ledger = ledger
        self._locks = locks
        self._beside = Beside("index", self._steps)
        self._fault: IndexFault | None = None

    def start(self) -> None:
        """Begin, unless it is under way or was stopped for good."""
        self._beside.start()

    def wait(self) -> None:
        """Until what is under way is copied."""
        self._beside.wait()

    def stop(self) -> None:
        """End after the step that is under way, for good."""
        self._beside.stop()

    def must_be_well(self) -> None:
        """Raises: IndexFault, what copying has met."""
        if self._fault is not None:
            raise self._fault

    def _steps(self) -> Steps[None]:
        try:
            while (yield from self._copy_page()):
                pass
            self._serve_again()
        except (IndexFault, LedgerError) as exc:
            with self._locks.searching:
                self._place.suspect()
                self._fault = exc if isinstance(exc, IndexFault) else None
            logger.warning("the index is behind (%s)", exc)

    def _copy_page(self) -> Steps[bool]:
        """Copy the next page; False where there is none, or another process is at it."""
        with self._follower.only_one() as mine:
            with self._locks.searching:
                page = self._follower.next_page(_BESIDE) if mine else None
            if page is None:
                return False
            for some in rows.batches(page.changes):
                if not self._write(page, some):
                    return True
                yield
            with self._locks.searching:
                if self._follower.continues(page):
                    self._follower.copied(page)
            return True

    def _write(self, page: Page, some: Sequence[Change]) -> bool:
        """Write some rows while others search; False where the page is not to be copied any more.

        Where all that is live is searched exactly, no search waits for Chroma meanwhile.
        """
        with self._locks.writing:
            with self._locks.searching:
                if not self._follower.continues(page):
                    return False
            try:
                rows.write(page.rows, some)
            except IndexFault:
                with self._locks.searching:
                    if self._follower.continues(page):
                        raise
                return False  # it was closed, or made again, meanwhile
        return True

    def _serve_again(self) -> None:
        """Ask Chroma again; its first answer, for which it loads its files, is nobody's."""
        with self._locks.writing:
            with self._ledger.reading() as reader:
                dim = reader.vectors.dim()
            collection = self._place.rows
            if self._place.is_open and dim is not None:
                try:
                    rows.named(collection, [Query(np.ones(dim, np.float32), Scope(()), 1)])
                except IndexFault:
                    with self._locks.searching:
                        if self._follower.is_current(collection):
                            raise
                    return  # it was closed, or made again, meanwhile
            with self._locks.searching:
                if self._place.is_open:
                    self._follower.search_the_rest_exactly()

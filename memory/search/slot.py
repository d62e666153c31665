"""Which index serves now: opened when first needed or in the background, given up on a fault."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence

from memory.errors import IndexFault, LedgerError, MemoryPipelineError
from memory.protocols import Index, Query, Shortlist
from memory.search.exact import ExactIndex

logger = logging.getLogger(__name__)

_CLOSING_S = 10.0
"""How long closing waits for an index that is still being opened in the background."""


_MOST_UNASKED = 20
"""After so many queries that exact search answered, an index takes in what was written."""
_OFTEN = 20
"""Who has asked so many queries will ask more, for which vectors are worth reading."""
_UNKNOWN = Shortlist((), complete=False)


class IndexSlot:
    """The place of one index, beside the exact search that always answers."""

    def __init__(
        self,
        exact: ExactIndex,
        open_index: Callable[[], Index | None] | None = None,
        *,
        at_once: bool = False,
    ) -> None:
        """`open_index` is called when the index is first needed; None searches exactly.

        So does what it gives, where that is None. `at_once` calls it at the first query, needed or
        not: whoever names a server wants it to follow, and to hear that it is not there.
        """
        self._exact = exact
        self._open_index = open_index
        self._at_once = at_once
        self._index: Index | None = None if open_index else exact
        self._asked = 0
        """How many queries there were."""
        self._unasked = 0
        """How many the index was not asked since it last followed."""
        self._lock = threading.Lock()
        self._opening: threading.Thread | None = None
        self._closed = False

    @property
    def serving(self) -> Index:
        """The index, opened now where it was not.

        Raises: IndexFault.
        """
        with self._lock:
            if self._index is None:
                assert self._open_index is not None
                self._index = self._open_index() or self._exact
            return self._index

    @property
    def is_exact(self) -> bool:
        """Whether nothing but exact search was ever meant to serve here."""
        return self._open_index is None

    def nearest(self, queries: Sequence[Query]) -> list[Shortlist]:
        """The index's answers, or exact search's where it fails or cannot rule out a nearer one.

        What exact search answers faster, the index is not asked at all.

        Raises: MemoryPipelineError where exact search fails too.
        """
        self._asked += len(queries)
        self._exact.begin(often=self._asked > _OFTEN)
        at_once = [self._exact.answers_at_once(query.scope) for query in queries]
        self._not_asked(sum(at_once))
        asked = [query for query, yes in zip(queries, at_once, strict=True) if not yes]
        answers = iter(self._answers(asked))
        found = [_UNKNOWN if yes else next(answers) for yes in at_once]
        left = [query for query, one in zip(queries, found, strict=True) if not one.complete]
        exact = iter(self._exact.nearest(left) if left else ())
        return [one if one.complete else next(exact) for one in found]

    def _answers(self, queries: Sequence[Query]) -> Sequence[Shortlist]:
        """The index's, complete or not."""
        if not queries:
            return []
        try:
            return self.serving.nearest(queries)
        except IndexFault as exc:
            self._give_up(f"similarity query failed, searching exactly from here on: {exc}")
            return [_UNKNOWN] * len(queries)

    def _not_asked(self, queries: int) -> None:
        """An open one follows all the same, now and then, so that it is not far behind."""
        self._unasked += queries
        if self._index is None:
            due = self._at_once and queries > 0
        else:
            due = self._unasked >= _MOST_UNASKED
        if due:
            self._unasked = 0
            self._follow()

    def follow(self) -> None:
        """Take in what was written, where an index is open, so that the next query need not."""
        with self._noted_faults():
            self._exact.keep_up()
        if self._index is not None:
            self._follow()

    def _follow(self) -> None:
        with self._noted_faults():
            self.serving.follow()

    @contextlib.contextmanager
    def _noted_faults(self) -> Iterator[None]:
        try:
            yield
        except IndexFault as exc:
            self._give_up(f"the index fails, searching exactly from here on: {exc}")
        except LedgerError as exc:
            logger.warning("the index is behind (%s); the next query catches up", exc)

    def exactly(self, query: Query) -> Shortlist:
        """What exact search says, whatever index serves."""
        [found] = self._exact.nearest([query])
        return found

    def postpone(self) -> None:
        """Search exactly until `open_in_background` has opened the index."""
        self._index = self._exact

    def open_in_background(self, when_open: Callable[[], object]) -> None:
        """Open the index while others search exactly, then call `when_open` there.

        Where exact search answers all anyway, the index stays closed until it is needed.
        """
        if self._open_index is not None and self._opening is None:
            self._opening = threading.Thread(
                target=self._open, args=(self._open_index, when_open), name="index", daemon=True
            )
            self._opening.start()

    def wait_until_open(self) -> None:
        """Let a background opening come to its end, and start no other."""
        with self._lock:
            self._closed = True
        if self._opening is not None:
            self._opening.join(_CLOSING_S)

    def close(self) -> None:
        self._exact.close()
        if self._index is not None:
            self._index.close()

    def _open(
        self, open_index: Callable[[], Index | None], when_open: Callable[[], object]
    ) -> None:
        try:
            needed = self._at_once or not self._exact.suffices()
            index = (open_index() or self._exact) if needed else None
            with self._lock:
                too_late = self._closed
                self._index = self._exact if too_late else index
            if not too_late:
                when_open()
            elif index is not None:
                index.close()
        except MemoryPipelineError as exc:
            logger.warning("the index did not open, searching exactly: %s", exc)

    def _give_up(self, why: str) -> None:
        """Once, however many it fails."""
        with self._lock:
            failed, self._index = self._index, self._exact
        if failed is not self._exact:
            logger.warning("%s", why)
            if failed is not None:
                failed.close()

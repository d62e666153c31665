"""Answers queries from vectors in RAM, from an approximate index, or directly from the ledger."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from memory.errors import IndexFault
from memory.ledger import Ledger
from memory.models import Query, Scope, VectorIndex
from memory.search.by_user import VectorsByUser, nearest_in_parts, owner_of
from memory.search.follower import Follower, index_faults
from memory.search.scores import Best, WordScores

logger = logging.getLogger(__name__)

_REMEDY = "raise memory.search.vectors_mb, or set memory.search.chroma_url"


class SearchRouter:
    """A search for the live memories of a ledger that are nearest to a query.

    It sees the latest commit. If the vectors of the query's user fit into RAM, they are searched
    there; otherwise in an approximate index or, without one, in the ledger. An object may be shared
    between threads.
    """

    def __init__(
        self,
        ledger: Ledger,
        limit: int,
        open_index: Callable[[Ledger], VectorIndex] | None = None,
        *,
        at_once: bool = False,
    ) -> None:
        """Keep at most `limit` bytes of vectors in RAM.

        `open_index` opens the index; None means that there is no index. It is called when a user's
        vectors exceed the limit. With `at_once`, it is called at the first query, so that a
        server's wrong address is noticed early.
        """
        self._ledger = ledger
        self._by_user = VectorsByUser(ledger, limit)
        self._open_index = open_index
        self._at_once = at_once
        self._lock = threading.Lock()
        self._follower: Follower | None = None
        self._searches_beyond = 0
        self._has_warned = False

    @property
    def name(self) -> str:
        """The search in use, as shown to people: "exact search" or the name of the index."""
        return "exact search" if self._follower is None else self._follower.index.name

    @property
    def has_index(self) -> bool:
        """Whether an index is open or could be opened."""
        return self._open_index is not None

    def nearest(self, queries: Sequence[Query]) -> list[list[str]]:
        """Return, for each query, the ids of memories that may be nearest to it.

        The caller must rank them; there may be more than `query.k`.

        Raises: MemoryPipelineError if the ledger cannot be searched.
        """
        if self._at_once:
            self._open_early()
        owners: dict[Scope, list[int]] = {}
        for position, query in enumerate(queries):
            owners.setdefault(owner_of(query.scope), []).append(position)
        found: list[list[str]] = [[] for _ in queries]
        for owner, positions in owners.items():
            theirs = [queries[position] for position in positions]
            vectors = self._by_user.current(owner, theirs)
            answers = vectors.nearest(theirs) if vectors else self._beyond(owner, theirs)
            for position, names in zip(positions, answers, strict=True):
                found[position] = names
        return found

    def best(self, query: Query, words: WordScores) -> Best | None:
        """Return the `query.k` memories that answer a query best by vector and by words.

        Return None if the user's vectors do not fit into RAM.

        Raises: MemoryPipelineError if the ledger cannot be searched.
        """
        if self._at_once:
            self._open_early()
        vectors = self._by_user.current(owner_of(query.scope), [query])
        return vectors.best(query, words) if vectors else None

    def scrub(self) -> None:
        if follower := self._opened():
            follower.scrub()

    def disagreement(self) -> str:
        """Return how the index differs from the ledger, as text; "" if it does not.

        Raises: IndexFault, LedgerError.
        """
        follower = self._opened() if self._by_user.has_too_large() else None
        return "" if follower is None else follower.disagreement()

    def unneeded(self) -> list[str]:
        if self._by_user.has_too_large():
            return []
        with self._ledger.reading() as reader:
            return [place for place in reader.followers.locations() if Path(place).is_dir()]

    def rebuild(self, on_progress: Callable[[int, int], None] | None = None) -> None:
        """Drop the vectors in RAM; if there is an index, refill it from the ledger.

        Raises: IndexFault, LedgerError.
        """
        self._by_user.forget_all()
        if follower := self._opened():
            follower.rebuild(on_progress)

    def close(self) -> None:
        self._by_user.forget_all()
        self._give_up()

    def _open_early(self) -> None:
        self._at_once = False
        self._approximately([])

    def _beyond(self, owner: Scope, queries: Sequence[Query]) -> list[list[str]]:
        self._searches_beyond += 1
        answers = self._approximately(queries)
        left = [query for query, names in zip(queries, answers, strict=True) if names is None]
        exact = iter(nearest_in_parts(self._ledger, owner, left) if left else ())
        return [next(exact) if names is None else names for names in answers]

    def _approximately(self, queries: Sequence[Query]) -> list[list[str] | None]:
        try:
            if follower := self._opened():
                # One query, as a command makes it, is not worth filling an index.
                return follower.nearest(queries, fill=self._searches_beyond > 1) if queries else []
        except IndexFault as exc:
            self._give_up()
            self._warn_once(f"similarity query failed, searching exactly from here on: {exc}")
        if queries:
            self._warn_once("these memories do not fit into memory, and no index is open for them")
        return [None] * len(queries)

    def _warn_once(self, problem: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning("%s; in large scopes that takes seconds: %s", problem, _REMEDY)

    def _opened(self) -> Follower | None:
        with self._lock:
            if self._follower is None and self._open_index is not None:
                with index_faults():
                    index = self._open_index(self._ledger)
                self._follower = Follower(index, self._ledger)
            return self._follower

    def _give_up(self) -> None:
        with self._lock:
            follower, self._follower, self._open_index = self._follower, None, None
        if follower is not None:
            follower.close()

"""Keeps an approximate index up to date with the ledger, and searches what the index lacks."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from memory.errors import IndexFault, LedgerError, MemoryPipelineError
from memory.ledger import Change, IndexState, Ledger, Reader
from memory.models import Scope, Vector, Vectors
from memory.protocols import Query, VectorIndex

logger = logging.getLogger(__name__)

_NEEDED = "name place id shared put remove nearest pages clear close".split()
"""The attributes of `VectorIndex`."""
_WIDER = 4
"""How many times `k` neighbours are requested from the index first.

More than `k` are needed because some neighbours belong to other scopes.
"""
_WIDEST = 4_000
"""The most neighbours that are requested from the index.

If too few of them are in the scope of the query, the index cannot answer.
"""
_PAGE = 500
"""The number of rows copied at once. A search may have to wait until a page is copied."""
_PAUSE_S = 0.02
"""Pause in seconds after each page, in which waiting searches run."""


class GuardedIndex:
    """A wrapper around an index that turns each exception of the index into an IndexFault.

    It has the same attributes as the index. An index may be somebody else's code and raise
    anything. The store catches IndexFault, and then goes on without the index.
    """

    def __init__(self, index: VectorIndex) -> None:
        """Wrap `index`.

        Raises: IndexFault if the index lacks an attribute of `VectorIndex`.
        """
        missing = [name for name in _NEEDED if not hasattr(index, name)]
        if missing:
            raise IndexFault(f"the index has no {', '.join(missing)}")
        self._index = index

    def __getattr__(self, name: str) -> Any:
        with index_faults():
            value = getattr(self._index, name)
        return index_faults()(value) if callable(value) else value

    def pages(self) -> Iterator[tuple[Sequence[str], Vectors]]:
        with index_faults():
            yield from self._index.pages()


@contextlib.contextmanager
def index_faults() -> Iterator[None]:
    """Turn whatever the block raises into an IndexFault; errors of this package stay as they are.

    Raises: IndexFault.
    """
    try:
        yield
    except MemoryPipelineError:
        raise
    except Exception as exc:  # somebody else's code may raise anything
        raise IndexFault(f"the index failed ({type(exc).__name__}: {exc})") from exc


class Follower:
    """An approximate index that is kept up to date with one ledger.

    An object may be shared between threads.
    """

    def __init__(self, index: VectorIndex, ledger: Ledger, lag: int = 200) -> None:
        """Keep `index` up to date with `ledger`.

        The index may be up to `lag` changes behind the ledger when it is searched. The changed
        memories are then searched exactly.
        """
        self.index = cast(VectorIndex, GuardedIndex(index))
        self._ledger = ledger
        self._lag = lag
        self._lock = threading.RLock()
        """Held while a thread uses the index."""
        self._stopped = threading.Event()
        self._copying: threading.Thread | None = None

    def nearest(self, queries: Sequence[Query], *, fill: bool = True) -> list[list[str] | None]:
        """Return, for each query, the ids of memories that may be nearest to it.

        The caller must compare these memories exactly. None in place of a list means that the index
        cannot answer this query: it is too far behind the ledger, or returned too few memories of
        the query's scope. If `fill` is true and the index is far behind, a thread starts to copy
        the missing changes into it.

        Raises: IndexFault, LedgerError.
        """
        with self._lock:
            watermark = self._state().watermark
            with self._ledger.reading() as reader:
                behind = reader.followers.lag(watermark)
                changes = reader.followers.changes(watermark) if behind <= self._lag else []
                known = reader.vectors.of([one.text_key for one in changes if one.live])
            is_copying = self._copying is not None and self._copying.is_alive()
            if fill and 2 * behind > self._lag and not is_copying:
                self._copying = threading.Thread(target=self._copy_on, name="index", daemon=True)
                self._copying.start()
            if behind > self._lag:
                return [None] * len(queries)
            return [self._nearest_in_both(query, changes, known) for query in queries]

    def copy_all(
        self, on_progress: Callable[[int, int], None] | None = None, pause_s: float = 0.0
    ) -> None:
        """Copy all changes of the ledger that the index lacks into the index, page by page.

        After each page, pause for `pause_s` seconds. `on_progress` is called after each page with
        the number of changes copied so far, and the number of changes to copy in all; None means
        that nothing is called. Stop early if `close` is called.

        Raises: IndexFault, LedgerError.
        """
        done, left = 0, 1
        while left and not self._stopped.is_set():
            copied, left = self._copy_page()
            done += copied
            if on_progress is not None:
                on_progress(done, done + left)
            self._stopped.wait(pause_s)

    def scrub(self) -> None:
        """Remove all vectors of forgotten memories from the index.

        An index that only this process uses is cleared instead, and refilled when it is next
        needed.

        Raises: IndexFault, LedgerError.
        """
        with self._lock:
            if not self.index.shared:
                self.index.clear()
                with self._ledger.writing() as writer:
                    writer.followers.drop_others(self.index.place, self.index.id)
                return
            self.copy_all()
            with self._ledger.writing() as writer:
                writer.followers.mark_clean(self.index.id)

    def rebuild(self, on_progress: Callable[[int, int], None] | None = None) -> None:
        """Clear the index, and refill it with the vectors in the ledger.

        `on_progress` is called after each page with the number of the ledger's changes copied so
        far, and the number of changes to copy in all; None means that nothing is called.

        Raises: IndexFault, LedgerError.
        """
        with self._lock:
            self._clear()
            self.copy_all(on_progress)

    def disagreement(self) -> str:
        """Return a text that says how the index differs from the ledger; "" if it does not differ.

        The text counts vectors, for example "2 missing, 1 surplus". Changes in the ledger that the
        index has not copied yet do not count.

        Raises: IndexFault, LedgerError.
        """
        with self._lock, self._ledger.reading() as reader:
            watermark = self._state().watermark
            newer = {one.id for one in reader.followers.changes(watermark)}
            keys = {
                row.id: row.text_key
                for rows in reader.followers.live(Scope(()))
                for row in rows
                if row.id not in newer
            }
            wrong = surplus = 0
            for ids, vectors in self.index.pages() if watermark else ():
                known = reader.vectors.of([keys[name] for name in ids if name in keys])
                for name, held in zip(ids, vectors, strict=True):
                    expected = known.get(keys.pop(name, ""))
                    surplus += expected is None and name not in newer
                    wrong += expected is not None and not np.allclose(held, expected, atol=1e-5)
            missing = len(keys) if watermark else 0
        differences = {"missing": missing, "surplus": surplus, "with a different vector": wrong}
        return ", ".join(f"{count:,} {what}" for what, count in differences.items() if count)

    def close(self) -> None:
        """Stop copying after the current page, and close the index."""
        self._stopped.set()
        if self._copying is not None:
            self._copying.join()
        with self._lock:
            self.index.close()

    # --- how far it has followed ---

    def _state(self) -> IndexState:
        """Return how far the index has copied the ledger's changes; clear the index if necessary.

        It is cleared if the ledger has no record of it, or if it may still hold forgotten memories.
        In the second case, an index that other processes share is cleared only if nothing was
        copied into it.
        """
        with self._ledger.reading() as reader:
            state = reader.followers.state(self.index.id)
        keeps = self.index.shared and state is not None and state.watermark > 0
        if state is None or (state.stale and not keeps):
            self._clear()
            return IndexState(0, stale=False)
        return state

    def _clear(self) -> None:
        self.index.clear()
        with self._ledger.writing() as writer:
            writer.followers.note(self.index.id, self.index.place, 0)
            writer.followers.drop_others(self.index.place, self.index.id)

    # --- what is near a query ---

    def _nearest_in_both(
        self, query: Query, changes: Sequence[Change], known: Mapping[str, Vector]
    ) -> list[str] | None:
        """Return ids of memories that may be nearest to a query, from the index and from `changes`.

        Return None if the index returns too few memories of the query's scope. `changes` are the
        changes of the ledger that the index has not copied. `known` has the vectors of the changed
        memories by text key.
        """
        newer = {change.id for change in changes}
        inside = [one for one in changes if one.live and one.text_key in known]
        fits = {*self._fitting(query.scope, [one.id for one in inside])}
        scored = [
            (float(known[one.text_key] @ query.vector), one.id) for one in inside if one.id in fits
        ]
        near = [name for _, name in sorted(scored, reverse=True)[: query.k]]
        wanted = _WIDER * query.k
        while True:
            named = self.index.nearest(query.vector, wanted)
            older = self._fitting(query.scope, [name for name, _ in named if name not in newer])
            least = named[-1][1] if len(named) >= wanted else -2.0
            if len(older) >= query.k or least < query.min_cosine:
                return older + near
            if wanted >= _WIDEST:
                return None
            wanted = min(4 * wanted, _WIDEST)

    def _fitting(self, scope: Scope, ids: Sequence[str]) -> list[str]:
        """Return those of the `ids` that name live memories in the scope, in the same order."""
        with self._ledger.reading() as reader:
            values = reader.followers.live_values(ids)
        return [name for name in ids if name in values and scope.holds(values[name])]

    # --- copying ---

    def _copy_on(self) -> None:
        try:
            self.copy_all(pause_s=_PAUSE_S)
        except (IndexFault, LedgerError) as exc:
            logger.warning("the index is behind (%s)", exc)

    def _copy_page(self) -> tuple[int, int]:
        """Copy one page of changes from the ledger into the index.

        Return the number of changes that were copied, and the number of changes that are left. Both
        are 0 if another process is copying.
        """
        alone: contextlib.AbstractContextManager[bool] = contextlib.nullcontext(True)
        if self.index.shared:
            alone = self._ledger.exclusive(f"index-{self.index.place}")
        with self._lock, alone as is_alone:
            if not is_alone:
                return 0, 0
            watermark = self._state().watermark
            with self._ledger.reading() as reader:
                left = reader.followers.lag(watermark)
                changes = reader.followers.changes(watermark, limit=_PAGE)
                if changes:
                    self._write(reader, changes, is_new=not watermark)
            if changes:
                with self._ledger.writing() as writer:
                    writer.followers.note(self.index.id, self.index.place, changes[-1].revision)
            return len(changes), left - len(changes)

    def _write(self, reader: Reader, changes: Sequence[Change], *, is_new: bool) -> None:
        known = reader.vectors.of([one.text_key for one in changes if one.live])
        live = [one for one in changes if one.live and one.text_key in known]
        gone = {one.id for one in changes} - {one.id for one in live}
        if gone and not is_new:
            self.index.remove(sorted(gone))
        if live:
            self.index.put(
                [one.id for one in live], np.stack([known[one.text_key] for one in live])
            )

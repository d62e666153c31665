"""Keeps an approximate index up to date with the ledger, and searches what the index lacks."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from memory.errors import IndexFault, LedgerError, MemoryPipelineError
from memory.ledger import Change, Ledger
from memory.models import Query, Scope, Vector, VectorIndex, Vectors
from memory.search.by_user import metadata_fields

logger = logging.getLogger(__name__)

_NEEDED = "name place id shared put remove nearest pages clear close".split()
_WIDER = 4
_WIDEST = 4_000
"""If `_WIDER * k` neighbours are too few, the index is asked for more, up to this number."""
_PAGE = 500
_PAUSE_S = 0.02


class GuardedIndex:
    """A wrapper that turns any foreign exception of an index into an IndexFault.

    Creating it raises IndexFault if the index lacks a method. After an IndexFault, the store goes
    on without the index.
    """

    def __init__(self, index: VectorIndex) -> None:
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
    try:
        yield
    except MemoryPipelineError:
        raise
    except Exception as exc:  # somebody else's code may raise anything
        raise IndexFault(f"the index failed ({type(exc).__name__}: {exc})") from exc


class Follower:
    """An approximate index that is kept up to date with one ledger.

    When searched, it may lack up to `lag` changes. The changed memories are then searched exactly.
    An object may be shared between threads.
    """

    def __init__(self, index: VectorIndex, ledger: Ledger, lag: int = 200) -> None:
        self.index = cast(VectorIndex, GuardedIndex(index))
        self._ledger = ledger
        self._lag = lag
        self._lock = threading.RLock()
        self._stopped = threading.Event()
        self._copying: threading.Thread | None = None

    def nearest(self, queries: Sequence[Query], *, fill: bool = True) -> list[list[str] | None]:
        """Return, for each query, the ids of memories that may be nearest to it.

        The caller must compare these memories exactly. A query gets None if the index lacks more
        than `lag` changes of the ledger, or finds too few memories in the query's scope.
        `fill`: whether a thread copies changes into the index if more than `lag / 2` are missing.

        Raises: IndexFault, LedgerError.
        """
        with self._lock:
            watermark = self._watermark()
            with self._ledger.reading() as reader:
                behind = reader.followers.lag(watermark)
                changes = (
                    reader.followers.changes(watermark, fields=metadata_fields(queries))
                    if behind <= self._lag
                    else []
                )
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
        """Copy the ledger's changes into the index until it lacks none, or `close` is called.

        `on_progress(done, total)` is called after each batch of changes, followed by a pause of
        `pause_s` seconds.

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

        An index that only this process uses is cleared completely, and refilled when it is next
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
        with self._lock:
            self._clear()
            self.copy_all(on_progress)

    def disagreement(self) -> str:
        """Return how the index differs from the ledger, such as "2 missing, 1 surplus"; else "".

        Changes that the index has not copied yet do not count.

        Raises: IndexFault, LedgerError.
        """
        with self._lock, self._ledger.reading() as reader:
            watermark = self._watermark()
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
        differences = {
            "missing": len(keys) if watermark else 0,
            "surplus": surplus,
            "with a different vector": wrong,
        }
        return ", ".join(f"{count:,} {what}" for what, count in differences.items() if count)

    def close(self) -> None:
        self._stopped.set()
        if self._copying is not None:
            self._copying.join()
        with self._lock:
            self.index.close()

    # --- how far it has followed ---

    def _watermark(self) -> int:
        """Return the revision up to which the index has copied the ledger's changes.

        The index is cleared first if the ledger does not know its id. An index that only this
        process uses is also cleared if it may still contain vectors of forgotten memories.
        """
        with self._ledger.reading() as reader:
            watermark, is_stale = reader.followers.state(self.index.id)
        if is_stale and not (self.index.shared and watermark > 0):
            self._clear()
            return 0
        return watermark

    def _clear(self) -> None:
        self.index.clear()
        with self._ledger.writing() as writer:
            writer.followers.note(self.index.id, self.index.place, 0)
            writer.followers.drop_others(self.index.place, self.index.id)

    # --- what is near a query ---

    def _nearest_in_both(
        self, query: Query, changes: Sequence[Change], known: Mapping[str, Vector]
    ) -> list[str] | None:
        """Return ids from the index and from `changes`; None if the index found too few.

        `changes`: the ledger's changes that the index lacks. `known` maps the text keys (hashes of
        texts) of the changed live memories to vectors.
        """
        newer = {change.id for change in changes}
        scored = [
            (float(known[one.text_key] @ query.vector), one.id)
            for one in changes
            if one.live and one.text_key in known and query.scope.holds(one.values)
        ]
        near = [name for _, name in sorted(scored, reverse=True)[: query.k]]
        wanted = _WIDER * query.k
        while True:
            named = self.index.nearest(query.vector, wanted)
            with self._ledger.reading() as reader:
                values = reader.followers.live_values([name for name, _ in named])
            older = [
                name
                for name, _ in named
                if name in values and name not in newer and query.scope.holds(values[name])
            ]
            least = named[-1][1] if len(named) >= wanted else -2.0
            if len(older) >= query.k or least < query.min_cosine:
                return older + near
            if wanted >= _WIDEST:
                return None
            wanted = min(4 * wanted, _WIDEST)

    # --- copying ---

    def _copy_on(self) -> None:
        try:
            self.copy_all(pause_s=_PAUSE_S)
        except (IndexFault, LedgerError) as exc:
            logger.warning("the index is behind (%s)", exc)

    def _copy_page(self) -> tuple[int, int]:
        alone = (
            self._ledger.database.exclusive(f"index-{self.index.place}")
            if self.index.shared
            else contextlib.nullcontext(True)
        )
        with self._lock, alone as is_alone:
            if not is_alone:
                return 0, 0
            watermark = self._watermark()
            with self._ledger.reading() as reader:
                left = reader.followers.lag(watermark)
                changes = reader.followers.changes(watermark, limit=_PAGE)
                known = reader.vectors.of([one.text_key for one in changes if one.live])
            if changes:
                live = [one for one in changes if one.live and one.text_key in known]
                gone = {one.id for one in changes} - {one.id for one in live}
                if gone and watermark:
                    self.index.remove(sorted(gone))
                if live:
                    vectors = np.stack([known[one.text_key] for one in live])
                    self.index.put([one.id for one in live], vectors)
                with self._ledger.writing() as writer:
                    writer.followers.note(self.index.id, self.index.place, changes[-1].revision)
            return len(changes), left - len(changes)

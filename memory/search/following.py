"""How far a collection has followed the ledger; what is newer is searched exactly."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from memory.errors import ForeignIndex, IndexFault
from memory.ledger import RESTORED, Change, IndexState, Ledger, ScopeValues
from memory.search import rows
from memory.search.chroma_client import Rows, chroma_faults
from memory.search.live import LiveVectors
from memory.search.place import Place

_PAGE = 1_000
"""Rows that are copied in one go."""


@dataclass(frozen=True)
class Page:
    """Changes that are to be copied into a collection which has followed so far."""

    rows: Rows
    after: int
    changes: Sequence[Change]


class Follower:
    """What one collection has of one ledger. Not safe to share between threads."""

    recent: LiveVectors
    """What is searched exactly, whether Chroma knows it or not."""

    def __init__(self, place: Place, ledger: Ledger, lag: int) -> None:
        """From where the collection has followed to; a new one from the start.

        Raises: ForeignIndex where a folder holds a collection that this ledger does not know.
        """
        self._place = place
        self._ledger = ledger
        self._lag = lag
        self._start()

    @property
    def searches_all_exactly(self) -> bool:
        """Whether all that is live is in `recent`."""
        return self._seen == 0

    def _start(self) -> None:
        place = self._place
        with self._ledger.reading() as reader:
            state = reader.followers.state(place.id)
            restored = reader.meta(RESTORED) is not None
        with chroma_faults():
            unknown = state is None and place.rows.count()
        if unknown and not place.served:
            raise ForeignIndex("another store's") if not restored else IndexFault("outdated")
        outdated = state is not None and state.stale and not (place.served and state.watermark)
        if unknown or outdated:
            self.start_again()
        else:
            self._go_on(state)

    def start_again(self) -> None:
        """With nothing in it: what was there goes before the ledger forgets it.

        Raises: IndexFault.
        """
        self._place.make_again()
        self._start()

    def _go_on(self, state: IndexState | None) -> None:
        self._copied = state.watermark if state is not None else 0
        if state is None:  # before anything is in it, so that a kill leaves no stranger
            with self._ledger.writing() as writer:
                writer.followers.note(self._place.id, self._place.name, 0)
                writer.drop_meta(RESTORED)
        self._forget_others()
        self._search_above(self._copied, LiveVectors(since=self._copied))

    def _forget_others(self) -> None:
        """The collections that were here before are no more, nor the folders they were in."""
        mine = (self._place.name, self._place.id)
        with self._ledger.reading() as reader:
            others = reader.followers.others(*mine)
        if any(other.stale for other in others):
            self._place.remove_damaged()
        if others:
            with self._ledger.writing() as writer:
                writer.followers.drop_others(*mine)

    # --- what is searched exactly ---

    def catch_up(self) -> bool:
        """Search what is not copied yet exactly; whether that is more than may be.

        Raises: IndexFault.
        """
        recent = self.recent
        with self._ledger.reading() as reader:
            state = reader.followers.state(self._place.id)
            recent.catch_up(reader)
        if state is None:  # another process made the collection again
            self._place.open_again()
            self._start()
        elif state.stale and not self._place.served:
            self.start_again()
        if self.recent is recent:
            return len(recent.changed) > self._lag
        with self._ledger.reading() as reader:
            self.recent.catch_up(reader)
        return False

    def search_the_rest_exactly(self) -> None:
        """Ask Chroma for what is copied, where that is nearly all."""
        with self._ledger.reading() as reader:
            caught_up = reader.followers.lag(self._copied) <= self._lag
        if caught_up and self._copied > self._seen:
            self._search_above(self._copied, LiveVectors(since=self._copied))

    def _search_above(self, revision: int, recent: LiveVectors) -> None:
        self._seen = revision
        self.recent = recent

    def scope_values(self, ids: Collection[str]) -> dict[str, ScopeValues]:
        """What scopes compare of these memories, by id: the ledger knows it, Chroma need not."""
        if not ids:
            return {}
        with self._ledger.reading() as reader:
            return reader.followers.scope_values(ids)

    # --- what is copied ---

    def only_one(self) -> contextlib.AbstractContextManager[bool]:
        """Whoever owns the folder is; of those that share a server's collection, one at a time."""
        if not self._place.served:
            return contextlib.nullcontext(True)
        return self._ledger.exclusive(f"index-{self._place.id}")

    def copy_some(self) -> None:
        """Copy the next page of changes, unless another process is at it.

        Raises: IndexFault.
        """
        with self.only_one() as mine:
            self._copied = self._watermark()
            if mine:
                self._copy_page()
        self.search_the_rest_exactly()

    def copy_all(
        self, on_progress: Callable[[int, int], None] = lambda _done, _total: None
    ) -> bool:
        """Copy every change; False where another process is at it.

        Raises: IndexFault.
        """
        with self.only_one() as mine:
            self._copied = self._watermark()
            done, left = 0, 1
            while mine and left:
                copied, left = self._copy_page()
                done += copied
                on_progress(done, done + left)
        self.search_the_rest_exactly()
        return mine

    def _copy_page(self) -> tuple[int, int]:
        """How many changes were copied, and how many are left."""
        with self._ledger.reading() as reader:
            waiting = reader.followers.lag(self._copied)
            changes = reader.followers.changes(self._copied, limit=_PAGE)
        if changes:
            rows.write(self._place.rows, changes)
            self._note(changes[-1].revision)
        return len(changes), waiting - len(changes)

    def next_page(self, limit: int) -> Page | None:
        """What is to be copied next; None where that is not worth it, or nothing is to be."""
        with self._ledger.reading() as reader:
            state = reader.followers.state(self._place.id)
            closed = not self._place.is_open
            if closed or state is None or (state.stale and not self._place.served):
                return None
            self._copied = state.watermark
            if 2 * reader.followers.lag(self._copied) <= self._lag:
                return None
            changes = reader.followers.changes(self._copied, limit=limit)
        return Page(self._place.rows, self._copied, changes)

    def continues(self, page: Page) -> bool:
        """Whether nobody has closed, made again or copied further what this is a page of."""
        same = self._place.rows is page.rows and self._copied == page.after
        return same and self._place.is_open

    def copied(self, page: Page) -> None:
        """All of it is in the collection."""
        self._note(page.changes[-1].revision)

    def is_current(self, collection: Rows) -> bool:
        """Whether this is open, and the ledger knows no newer one."""
        with self._ledger.reading() as reader:
            state = reader.followers.state(str(collection.id))
        mine = self._place.is_open and self._place.rows is collection
        return mine and state is not None and not state.stale

    def mark_clean(self) -> None:
        """The collection holds nothing any more of what was forgotten."""
        with self._ledger.writing() as writer:
            writer.followers.mark_clean(self._place.id)

    def disagreement(self) -> str:
        """How Chroma differs from the ledger as of what it has followed; empty where it does not.

        Raises: IndexFault.
        """
        with self._ledger.reading() as reader:
            expected = {
                change.id: change.vector
                for change in reader.followers.changes(0)
                if change.live and change.vector is not None and change.revision <= self._copied
            }
            changed = {change.id for change in reader.followers.changes(self._copied)}
            held = rows.held(self._place.rows)
        missing = expected.keys() - held.keys()
        surplus = held.keys() - expected.keys() - changed
        both = [name for name in expected if name in held]
        wrong = [name for name in both if not rows.same(held[name], expected[name])]
        kinds = {"missing": missing, "surplus": surplus, "with a different vector": wrong}
        return ", ".join(f"{len(ids):,} {what}" for what, ids in kinds.items() if ids)

    def _watermark(self) -> int:
        with self._ledger.reading() as reader:
            state = reader.followers.state(self._place.id)
        return state.watermark if state is not None else 0

    def _note(self, revision: int) -> None:
        with self._ledger.writing() as writer:
            writer.followers.note(self._place.id, self._place.name, revision)
        self._copied = revision

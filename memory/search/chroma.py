"""Nearest neighbours by one Chroma collection that follows the ledger.

Rows above its watermark are searched exactly; where there are many, they are copied beside those
who search. Whatever is wrong with it, the ledger can make it again.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memory.errors import ForeignIndex, IndexFault, LedgerError
from memory.ledger import Ledger, ScopeValues
from memory.protocols import Query, Shortlist
from memory.search import rows
from memory.search.chroma_client import (
    COLLECTION,
    SLACK,
    ChromaServer,
    http_client,
)
from memory.search.chroma_process import ChromaProcess
from memory.search.copying import Copying, Locks
from memory.search.folder import IndexFolder
from memory.search.following import Follower
from memory.search.place import Place

logger = logging.getLogger(__name__)

_NO_ROOM = ("disk is full", "No space left")
"""How SQLite and the system say so."""
_FULL = ("its disk is full", "make room and try again")


@dataclass(frozen=True)
class Following:
    """How closely a collection follows the ledger."""

    lag: int = 1_000
    """Rows that may be searched exactly; where there are more, they are copied into Chroma."""
    sync_threshold: int | None = None
    """After how many writes Chroma rewrites its files; None leaves that to Chroma."""


class ChromaIndex:
    """The promise of `Index` on one Chroma collection that follows one ledger."""

    def __init__(self, place: Place, ledger: Ledger, lag: int) -> None:
        """Use `embedded` or `served`."""
        self._place = place
        self._follower = Follower(place, ledger, lag)
        self._locks = Locks()
        self._copying = Copying(place, self._follower, ledger, self._locks)
        self._catch_up()

    @classmethod
    def embedded(
        cls, path: Path, ledger: Ledger, following: Following = Following()
    ) -> ChromaIndex | None:
        """Chroma in a process of its own; None where another process has this folder.

        A folder that is damaged, or another store's, is set aside, and made again from the ledger.

        Raises: IndexFault.
        """
        folder = IndexFolder(path)
        if not folder.acquire():
            return None
        try:
            return cls._open_or_rebuild(folder, ledger, following)
        except BaseException:  # Ctrl-C too must not leave the folder locked
            folder.release()
            raise

    @classmethod
    def _open_or_rebuild(
        cls, folder: IndexFolder, ledger: Ledger, following: Following
    ) -> ChromaIndex:
        whole = folder.closed_whole()
        damage = "" if whole else folder.damage()
        if _is_full(damage):
            raise IndexFault(*_FULL)
        process = ChromaProcess()  # where none can be started, the folder is not damaged
        try:
            folder.opened()
            if damage:
                raise IndexFault(f"damaged: {damage}")
            index = cls._on(process, ledger, folder, following)
            if not whole:
                index._must_agree()
            return index
        except IndexFault as exc:
            process.close()
            if _is_full(exc.problem):  # nothing is damaged, and nothing can be made again
                raise IndexFault(*_FULL) from exc
            kind = "foreign" if isinstance(exc, ForeignIndex) else "damaged"
            aside = folder.set_aside(kind)
            logger.warning(
                "the index is %s; it was set aside as %s and is made again", exc.problem, aside
            )
            return cls._on(ChromaProcess(), ledger, folder, following)
        except BaseException:  # Ctrl-C too must not leave it running
            process.close()
            raise

    @classmethod
    def _on(
        cls, process: ChromaProcess, ledger: Ledger, folder: IndexFolder, following: Following
    ) -> ChromaIndex:
        """Raises: IndexFault, and then the process has ended."""
        try:
            process.open(folder.path)
            place = Place(process, COLLECTION, folder, following.sync_threshold)
            return cls(place, ledger, following.lag)
        except BaseException:  # as above
            process.close()
            raise

    def _must_agree(self) -> None:
        """Raises: IndexFault where it differs from the ledger, and then the client is closed."""
        try:
            if difference := self.disagreement():
                raise IndexFault(f"damaged: {difference}")
        except BaseException:  # as in _on
            self._place.close()
            raise

    @classmethod
    def served(
        cls,
        server: ChromaServer,
        ledger: Ledger,
        store_id: str,
        following: Following = Following(),
    ) -> ChromaIndex:
        """A collection of this store's own on a Chroma server.

        Raises: IndexFault.
        """
        try:
            name = f"{COLLECTION}-{store_id}"
            place = Place(http_client(server), name, None, following.sync_threshold)
            return cls(place, ledger, following.lag)
        except IndexFault as exc:
            where = f"the Chroma server at {server.host}:{server.port} gave no answer"
            raise IndexFault(f"{where} ({exc})", "check memory.chroma.host and port") from exc

    def nearest(self, queries: Sequence[Query]) -> list[Shortlist]:
        """Chroma's nearest, without its slow filter, and the nearest of what it does not know yet.

        Incomplete where a row that Chroma did not name may be among the k nearest: too few of those
        it named are of the scope, and none is below `min_cosine`.
        """
        with self._locks.searching, self._noted_faults():
            self._copying.must_be_well()
            self._catch_up()
            named = self._named(queries)
            values = self._follower.scope_values({one.id for some in named for one in some})
            recent = self._follower.recent.nearest(queries)
            return [
                self._shortlist(query, values, some, near)
                for query, some, near in zip(queries, named, recent, strict=True)
            ]

    def _named(self, queries: Sequence[Query]) -> list[list[rows.Named]]:
        """What Chroma names for each; nothing while all that is live is searched exactly."""
        if self._follower.searches_all_exactly and not self._place.served:
            return [[] for _ in queries]
        return rows.named(self._place.rows, queries)

    def _shortlist(
        self,
        query: Query,
        values: Mapping[str, ScopeValues],
        named: Sequence[rows.Named],
        recent: Sequence[tuple[str, float]],
    ) -> Shortlist:
        known = values.keys() - self._follower.recent.changed
        fits = [one.id for one in named if one.id in known and query.scope.holds(values[one.id])]
        full = 0 < rows.WIDER * query.k <= len(named)
        least = named[-1].cosine + SLACK if full else -2.0
        as_near = len(fits) + sum(cosine >= least for _, cosine in recent)
        complete = as_near >= query.k or least < query.min_cosine
        return Shortlist((*fits[: query.k], *(name for name, _ in recent)), complete=complete)

    def follow(self) -> None:
        """Raises: IndexFault."""
        with self._locks.searching, self._noted_faults():
            self._catch_up()

    def settle(self) -> None:
        """Wait until what is being copied beside is copied."""
        self._copying.wait()

    @property
    def name(self) -> str:
        return "Chroma server" if self._place.served else "Chroma"

    def disagreement(self) -> str:
        """How Chroma differs from the ledger as of what it has followed; empty where it does not.

        Raises: IndexFault.
        """
        with self._locks.both():
            return self._follower.disagreement()

    def rebuild(self, on_progress: Callable[[int, int], None] | None = None) -> None:
        """Make the index again from the ledger's vectors.

        Raises: IndexFault.
        """
        with self._locks.both():
            self._follower.start_again()
            self._follower.copy_all(on_progress or (lambda _done, _total: None))

    def scrub(self) -> None:
        """Leave no vector of a forgotten memory in any file of an embedded index.

        Chroma keeps deleted vectors in its files, so the folder is made anew, and filled as
        queries come. Of a server's files only the server disposes: there the rows are deleted.

        Raises: IndexFault.
        """
        with self._locks.both():
            self._catch_up()
            if self._place.served and self._follower.copy_all():
                self._follower.mark_clean()

    def close(self) -> None:
        """Copy some of what Chroma does not know yet, and let go of the folder."""
        self._copying.stop()
        with self._locks.both():
            if not self._place.is_open:
                return
            try:
                with self._noted_faults():
                    self._catch_up()
                    self._follower.copy_some()
            except (IndexFault, LedgerError) as exc:
                logger.warning("the index is behind (%s); the next start catches up", exc)
        self.let_go()

    @contextlib.contextmanager
    def _noted_faults(self) -> Iterator[None]:
        try:
            yield
        except IndexFault:
            self._place.suspect()
            raise

    def let_go(self) -> None:
        """Close the files as they are, and let another process have them."""
        self._copying.stop()
        with self._locks.both():
            self._place.let_go()

    def _catch_up(self) -> None:
        """What is not copied yet is searched exactly: nobody waits for the copying."""
        if self._follower.catch_up():
            self._copying.start()


def _is_full(problem: str) -> bool:
    return any(told in problem for told in _NO_ROOM)

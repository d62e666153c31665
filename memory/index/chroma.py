"""Nearest neighbours by one Chroma collection that follows the ledger.

Chroma holds ids, vectors and the few values that scopes are made of; no text. Rows above its
watermark are searched exactly; where there are many, they are copied beside those who search.
Whatever is wrong with it, the ledger can make it again.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from memory.errors import ForeignIndex, IndexFault, LedgerError
from memory.index.chroma_client import (
    COLLECTION,
    SLACK,
    ChromaServer,
    Holder,
    Metadata,
    Rows,
    chroma_faults,
    close_client,
    fresh_client,
    http_client,
    load_chroma,
    open_collection,
    persistent_client,
)
from memory.index.chroma_process import ChromaProcess
from memory.index.copying import Beside
from memory.index.exact import LiveVectors
from memory.index.folder import IndexFolder
from memory.ledger import RESTORED, Change, Ledger
from memory.models import SCOPE_FIELDS, Scope, Vector
from memory.protocols import Query, Shortlist

logger = logging.getLogger(__name__)


_BATCH = 100
"""Rows in one write: a search that needs Chroma waits for the one that is under way."""
_SEARCHED_EXACTLY = 100_000
"""Up to so many rows, all are searched exactly while many are copied: nobody waits for Chroma."""
_BESIDE = 200
"""Rows that are read in one go while others search."""
_PAGE = 1_000
"""Rows that are read in one go."""
_WIDER = 4
"""How many more neighbours than wanted are asked for, since some are out of scope or retired."""


_NO_ROOM = ("disk is full", "No space left")
"""How SQLite and the system say so."""

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work that gives way between its steps, and its outcome."""


@dataclass(frozen=True)
class Following:
    """How closely a collection follows the ledger."""

    lag: int = 1_000
    """Rows that may be searched exactly; where there are more, they are copied into Chroma."""
    sync_threshold: int | None = None
    """After how many writes Chroma rewrites its files; None leaves that to Chroma."""


class _Named(NamedTuple):
    """A row that Chroma names."""

    id: str
    values: Metadata
    cosine: float


@dataclass(frozen=True)
class _Page:
    """Changes that are to be copied into a collection which has followed so far."""

    collection: Rows
    after: int
    changes: Sequence[Change]


class ChromaIndex:
    """The promise of `Index` on one Chroma collection that follows one ledger."""

    def __init__(
        self,
        client: Holder,
        name: str,
        ledger: Ledger,
        folder: IndexFolder | None,
        following: Following,
    ) -> None:
        """Use `embedded` or `served`; `folder` is what this process owns of an embedded one."""
        self._client: Holder | None = client
        self._name = name
        self._ledger = ledger
        self._folder = folder
        self._following = following
        self._writing = threading.Lock()
        """Held, before the other, by whoever writes Chroma's rows, moves it or reads them all."""
        self._lock = threading.RLock()
        self._faulty = False
        """Whether a query or a copy has failed: then the next start looks at the folder closely."""
        self._stays = False
        """Whether no process of its own could be started for Chroma."""
        self._moving = False
        """Whether Chroma is just being closed here and opened in a process of its own."""
        self._fault: IndexFault | None = None
        """What copying beside has met; the next query says so."""
        self._copying = Beside("index", self._copied_beside)
        self._start_following()
        self._catch_up()

    @classmethod
    def embedded(
        cls, path: Path, ledger: Ledger, following: Following = Following()
    ) -> ChromaIndex | None:
        """Chroma in this process; None where another process has this folder.

        A folder that is damaged, or another store's, is set aside, and made again from the ledger.

        Raises: IndexFault.
        """
        with chroma_faults():
            load_chroma()
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
        try:
            if not _is_full(damage):
                folder.opened()
            if damage:
                raise IndexFault(f"damaged: {damage}")
            index = cls._on(persistent_client(folder.path), ledger, folder, following)
            if not whole:
                index._must_agree()
            return index
        except IndexFault as exc:
            if _is_full(exc.problem):  # nothing is damaged, and nothing can be made again
                raise IndexFault("its disk is full", "make room and try again") from exc
            kind = "foreign" if isinstance(exc, ForeignIndex) else "damaged"
            aside = folder.set_aside(kind)
            logger.warning(
                "the index is %s; it was set aside as %s and is made again", exc.problem, aside
            )
            return cls._on(fresh_client(folder.path), ledger, folder, following)

    @classmethod
    def _on(
        cls, client: Holder, ledger: Ledger, folder: IndexFolder, following: Following
    ) -> ChromaIndex:
        """Raises: IndexFault, and then the client is closed."""
        try:
            return cls(client, COLLECTION, ledger, folder, following)
        except BaseException:  # Ctrl-C too must not leave it open
            close_client(client)
            raise

    def _must_agree(self) -> None:
        """Raises: IndexFault where it differs from the ledger, and then the client is closed."""
        try:
            if difference := self.disagreement():
                raise IndexFault(f"damaged: {difference}")
        except BaseException:  # as in _on
            self._close_client()
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
            return cls(http_client(server), name, ledger, None, following)
        except IndexFault as exc:
            where = f"the Chroma server at {server.host}:{server.port} gave no answer"
            raise IndexFault(f"{where} ({exc})", "check memory.chroma.host and port") from exc

    def nearest(self, queries: Sequence[Query]) -> list[Shortlist]:
        """Chroma's nearest, without its slow filter, and the nearest of what it does not know yet.

        Incomplete where a row that Chroma did not name may be among the k nearest: too few of those
        it named are of the scope, and none is below `min_cosine`; and where the scope is one of
        metadata, which Chroma does not hold.
        """
        with self._lock, self._noted_faults():
            if self._fault is not None:
                raise self._fault
            self._catch_up()
            named = self._query(queries)
            recent = self._recent.nearest(queries)
            return [self._shortlist(*one) for one in zip(queries, named, recent, strict=True)]

    def _shortlist(
        self, query: Query, named: Sequence[_Named], recent: Sequence[tuple[str, float]]
    ) -> Shortlist:
        if query.scope.of_metadata:
            return Shortlist((), complete=False)
        known = (one for one in named if one.id not in self._recent.changed)
        fits = [one.id for one in known if query.scope.holds(one.values)]
        full = 0 < _WIDER * query.k <= len(named)
        least = named[-1].cosine + SLACK if full else -2.0
        as_near = len(fits) + sum(cosine >= least for _, cosine in recent)
        complete = as_near >= query.k or least < query.min_cosine
        return Shortlist((*fits[: query.k], *(name for name, _ in recent)), complete=complete)

    def follow(self) -> None:
        """Raises: IndexFault."""
        with self._lock, self._noted_faults():
            self._catch_up()

    def settle(self) -> None:
        """Wait until what is being copied beside is copied."""
        self._copying.wait()

    @property
    def name(self) -> str:
        return "Chroma server" if self._served else "Chroma"

    def disagreement(self) -> str:
        """How Chroma differs from the ledger as of what it has followed; empty where it does not.

        Raises: IndexFault.
        """
        with self._writing, self._lock, self._ledger.reading() as reader:
            expected = {
                change.id: change.vector
                for change in reader.followers.changes(0)
                if change.live and change.vector is not None and change.revision <= self._copied
            }
            changed = {change.id for change in reader.followers.changes(self._copied)}
            held = self._held()
        missing = expected.keys() - held.keys()
        surplus = held.keys() - expected.keys() - changed
        both = [name for name in expected if name in held]
        wrong = [name for name in both if not _same(held[name], expected[name])]
        kinds = {"missing": missing, "surplus": surplus, "with a different vector": wrong}
        return ", ".join(f"{len(ids):,} {what}" for what, ids in kinds.items() if ids)

    def rebuild(self, on_progress: Callable[[int, int], None] | None = None) -> None:
        """Make the index again from the ledger's vectors.

        Raises: IndexFault.
        """
        with self._writing, self._lock:
            self._start_again()
            self._copy_all(on_progress or (lambda _done, _total: None))

    def scrub(self) -> None:
        """Leave no vector of a forgotten memory in any file of an embedded index.

        Chroma keeps deleted vectors in its files, so the folder is made anew, and filled as
        queries come. Of a server's files only the server disposes: there the rows are deleted.

        Raises: IndexFault.
        """
        with self._writing, self._lock:
            self._catch_up()
            if self._served and self._copy_all():
                with self._ledger.writing() as writer:
                    writer.followers.mark_clean(str(self._collection.id))

    def close(self) -> None:
        """Copy some of what Chroma does not know yet, and let go of the folder."""
        self._copying.stop()
        with self._writing, self._lock:
            if self._client is None:
                return
            try:
                with self._noted_faults():
                    self._catch_up()
                    self._copy_some()
            except (IndexFault, LedgerError) as exc:
                logger.warning("the index is behind (%s); the next start catches up", exc)
        self.let_go()

    @contextlib.contextmanager
    def _noted_faults(self) -> Iterator[None]:
        try:
            yield
        except IndexFault:
            self._faulty = True
            raise

    def let_go(self) -> None:
        """Close the files as they are, and let another process have them."""
        self._copying.stop()
        with self._writing, self._lock:
            self._close_client()
            if self._folder is not None:
                if not self._faulty:
                    with contextlib.suppress(OSError):  # then the next start looks closer
                        self._folder.closed()
                self._folder.release()

    def _close_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            close_client(client)
        if isinstance(client, ChromaProcess) and not client.ended_well:
            self._faulty = True

    # --- following the ledger ---

    @property
    def _open_client(self) -> Holder:
        """Raises: IndexFault once it is closed."""
        if self._client is None:
            raise IndexFault("the index is closed")
        return self._client

    @property
    def _served(self) -> bool:
        return self._folder is None

    @property
    def _place(self) -> str:
        """What stays the same when the collection is made again."""
        return self._name if self._folder is None else str(self._folder.path.absolute())

    def _start_following(self) -> None:
        """From where the collection has followed to; a new one from the start.

        Raises: ForeignIndex where a folder holds a collection that this ledger does not know.
        """
        threshold = self._following.sync_threshold
        self._collection = collection = open_collection(self._open_client, self._name, threshold)
        with self._ledger.reading() as reader:
            state = reader.followers.state(str(collection.id))
            restored = reader.meta(RESTORED) is not None
        with chroma_faults():
            unknown = state is None and collection.count()
        if unknown and not self._served:
            raise ForeignIndex("another store's") if not restored else IndexFault("outdated")
        if unknown:
            self._drop_collection()
        elif state is not None and state.stale and not (self._served and state.watermark):
            self._start_again()
        else:
            self._copied = state.watermark if state is not None else 0
            if state is None:  # before anything is in it, so that a kill leaves no stranger
                with self._ledger.writing() as writer:
                    writer.followers.note(str(collection.id), self._place, 0)
                    writer.drop_meta(RESTORED)
            self._forget_others()
            self._follow_from(self._copied)

    def _forget_others(self) -> None:
        """The collections that were here before are no more, nor the folders they were in."""
        mine = (self._place, str(self._collection.id))
        with self._ledger.reading() as reader:
            others = reader.followers.others(*mine)
        if any(other.stale for other in others) and self._folder is not None:
            self._folder.remove_damaged()
        if others:
            with self._ledger.writing() as writer:
                writer.followers.drop_others(*mine)

    def _start_again(self) -> None:
        """With nothing in it, whatever was: what was there goes before the ledger forgets it."""
        if self._folder is None:
            self._drop_collection()
            return
        close_client(self._open_client)
        self._folder.set_aside("damaged")
        self._folder.remove_damaged()
        self._client = persistent_client(self._folder.path)
        self._start_following()

    def _drop_collection(self) -> None:
        with chroma_faults():
            self._open_client.delete_collection(self._name)
        self._start_following()

    def _follow_from(self, revision: int) -> None:
        self._seen = revision
        self._recent = LiveVectors(since=revision)

    def _catch_up(self) -> None:
        """What is not copied yet is searched exactly: nobody waits for the copying."""
        with self._ledger.reading() as reader:
            state = reader.followers.state(str(self._collection.id))
            recent = self._recent
            recent.catch_up(reader)
        if self._moving:
            return
        if state is None:  # another process made the collection again
            self._start_following()
        elif state.stale and not self._served:
            self._start_again()
        elif len(recent.changed) > self._following.lag:
            self._copying.start()
        if self._recent is not recent:
            with self._ledger.reading() as reader:
                self._recent.catch_up(reader)

    def _copied_beside(self) -> Steps[None]:
        """Copy what is more than may be searched exactly; others come between any two steps."""
        try:
            self._move_out()
            while (yield from self._page_beside()):
                self._move_out()  # it may have been made again here
            self._serve_again()
        except (IndexFault, LedgerError) as exc:
            with self._lock:
                self._faulty = True
                self._fault = exc if isinstance(exc, IndexFault) else None
            logger.warning("the index is behind (%s)", exc)

    def _move_out(self) -> None:
        """From here on an embedded Chroma has a process of its own, where it holds up nobody here.

        Starting one takes a second, which is worth it once there is much to copy. Where none can
        be started, Chroma stays here.
        """
        if self._folder is None or self._client is None or self._stays:
            return
        if isinstance(self._client, ChromaProcess):
            return
        try:
            process = ChromaProcess()
        except IndexFault as exc:
            logger.warning("Chroma stays in this process (%s)", exc)
            self._stays = True
            return
        try:
            with self._writing:
                nobody_waits = self._search_all_exactly()
                with contextlib.nullcontext() if nobody_waits else self._lock:
                    self._exchange_for(process, self._folder)
        except BaseException:  # nobody else would end it
            process.close()
            raise

    def _search_all_exactly(self) -> bool:
        """Whether Chroma is asked nothing any more, until `_serve_again`."""
        if self._seen == 0:
            return True
        with self._ledger.reading() as reader:
            if reader.followers.lag(0) > _SEARCHED_EXACTLY:
                return False
            everything = LiveVectors()
            everything.catch_up(reader)
        with self._lock:
            self._seen, self._recent = 0, everything
        return True

    def _exchange_for(self, process: ChromaProcess, folder: IndexFolder) -> None:
        with self._lock:
            client, self._moving = self._client, True
        try:
            if client is None:  # closed meanwhile
                process.close()
                return
            close_client(client)
            threshold = self._following.sync_threshold
            rows = open_collection(process.open(folder.path), self._name, threshold)
            with self._lock:
                self._client, self._collection = process, rows
        finally:
            self._moving = False

    def _serve_again(self) -> None:
        """Ask Chroma again; its first answer, for which it loads its files, is nobody's."""
        with self._writing:
            with self._ledger.reading() as reader:
                dim = reader.vectors.dim()
            collection = self._collection
            if self._client is not None and dim is not None:
                ones = Query(np.ones(dim, np.float32), Scope(()), 1)
                try:
                    self._asked([ones])
                except IndexFault:
                    with self._lock:
                        if self._is_current(collection):
                            raise
                    return  # it was closed, or made again, meanwhile
            with self._lock:
                if self._client is not None:
                    self._search_the_rest_exactly()

    def _is_current(self, collection: Rows) -> bool:
        """Whether this is open, and the ledger knows no newer one."""
        with self._ledger.reading() as reader:
            state = reader.followers.state(str(collection.id))
        mine = self._client is not None and self._collection is collection
        return mine and state is not None and not state.stale

    def _page_beside(self) -> Steps[bool]:
        """Copy the next page; False where there is none, or another process is at it."""
        with self._only_follower() as mine:
            with self._lock:
                page = self._next_page() if mine else None
            if page is None:
                return False
            for some in _batches(page.changes):
                if not self._write_beside(page, some):
                    return True
                yield
            with self._lock:
                if self._continues(page):
                    self._note(page.changes[-1].revision)
            return True

    def _write_beside(self, page: _Page, some: Sequence[Change]) -> bool:
        """Write some rows while others search; False where the page is not to be copied any more.

        Where all that is live is searched exactly, no search waits for Chroma meanwhile.
        """
        with self._writing:
            with self._lock:
                if not self._continues(page):
                    return False
            try:
                self._write(page.collection, some)
            except IndexFault:
                with self._lock:
                    if self._continues(page):
                        raise
                return False  # it was closed, or made again, meanwhile
        return True

    def _next_page(self) -> _Page | None:
        with self._ledger.reading() as reader:
            state = reader.followers.state(str(self._collection.id))
            if self._client is None or state is None or (state.stale and not self._served):
                return None
            self._copied = state.watermark
            if 2 * reader.followers.lag(self._copied) <= self._following.lag:
                return None
            changes = reader.followers.changes(self._copied, limit=_BESIDE)
        return _Page(self._collection, self._copied, changes)

    def _continues(self, page: _Page) -> bool:
        """Whether nobody has closed, made again or copied further what this is a page of."""
        same = self._collection is page.collection and self._copied == page.after
        return same and self._client is not None

    def _copy_some(self) -> None:
        """Copy the next page of changes, unless another process is at it."""
        with self._only_follower() as mine:
            self._copied = self._watermark()
            if mine:
                self._copy_page()
        self._search_the_rest_exactly()

    def _copy_all(
        self, on_progress: Callable[[int, int], None] = lambda _done, _total: None
    ) -> bool:
        """Copy every change; False where another process is at it."""
        with self._only_follower() as mine:
            self._copied = self._watermark()
            done, left = 0, 1
            while mine and left:
                copied, left = self._copy_page()
                done += copied
                on_progress(done, done + left)
        self._search_the_rest_exactly()
        return mine

    def _copy_page(self) -> tuple[int, int]:
        """How many changes were copied, and how many are left."""
        with self._ledger.reading() as reader:
            waiting = reader.followers.lag(self._copied)
            changes = reader.followers.changes(self._copied, limit=_PAGE)
        if changes:
            self._write(self._collection, changes)
            self._note(changes[-1].revision)
        return len(changes), waiting - len(changes)

    def _search_the_rest_exactly(self) -> None:
        with self._ledger.reading() as reader:
            caught_up = reader.followers.lag(self._copied) <= self._following.lag
        if caught_up and self._copied > self._seen:
            self._follow_from(self._copied)

    def _only_follower(self) -> contextlib.AbstractContextManager[bool]:
        """Whoever owns the folder is; of those that share a server's collection, one at a time."""
        if self._folder is not None:
            return contextlib.nullcontext(True)
        return self._ledger.exclusive(f"index-{self._collection.id}")

    def _watermark(self) -> int:
        with self._ledger.reading() as reader:
            state = reader.followers.state(str(self._collection.id))
        return state.watermark if state is not None else 0

    def _note(self, revision: int) -> None:
        with self._ledger.writing() as writer:
            writer.followers.note(str(self._collection.id), self._place, revision)
        self._copied = revision

    def _held(self) -> dict[str, Vector]:
        """Every vector that Chroma holds, by id."""
        held: dict[str, Vector] = {}
        with chroma_faults():
            for offset in range(0, self._collection.count(), _PAGE):
                page = self._collection.get(limit=_PAGE, offset=offset, include=["embeddings"])
                held |= dict(zip(page["ids"], page["embeddings"], strict=True))
        return held

    def _write(self, collection: Rows, changes: Sequence[Change]) -> None:
        live = [(one, one.vector) for one in changes if one.live and one.vector is not None]
        gone = [one.id for one in changes if not one.live or one.vector is None]
        with chroma_faults():
            for some in _batches(live):
                collection.upsert(
                    ids=[change.id for change, _ in some],
                    embeddings=np.stack([vector for _, vector in some]),
                    metadatas=[_scope_values(change) for change, _ in some],
                )
            for ids in _batches(gone):
                collection.delete(ids=list(ids))

    def _query(self, queries: Sequence[Query]) -> list[list[_Named]]:
        """What Chroma names for each; nothing while all that is live is searched exactly."""
        if self._seen == 0 and not self._served:
            return [[] for _ in queries]
        return self._asked(queries)

    def _asked(self, queries: Sequence[Query]) -> list[list[_Named]]:
        with chroma_faults():
            answer = self._collection.query(
                query_embeddings=[query.vector for query in queries],
                n_results=_WIDER * max(query.k for query in queries),
                include=["metadatas", "distances"],
            )
        answers = zip(answer["ids"], answer["metadatas"], answer["distances"], strict=True)
        return [
            [
                _Named(name, values or {}, 1.0 - distance)
                for name, values, distance in zip(*one, strict=True)
            ]
            for one in answers
        ]


def _scope_values(change: Change) -> dict[str, str | bool]:
    """Chroma's metadata: it cannot hold None, and a scope reads what is missing as None.

    Nothing of the memory's own metadata, which may hold any text.
    """
    found = ((name, change.values[name]) for name in SCOPE_FIELDS)
    return {name: value for name, value in found if value is not None}


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + _BATCH] for start in range(0, len(items), _BATCH))


def _is_full(problem: str) -> bool:
    return any(told in problem for told in _NO_ROOM)


def _same(held: Vector, expected: Vector) -> bool:
    """Chroma's vectors come back with a relative error of up to 1e-6."""
    return bool(np.allclose(held, expected, rtol=0, atol=SLACK))

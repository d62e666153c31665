"""An approximate index: how it follows the ledger, and `VectorIndex` in one Chroma collection."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import filelock
import numpy as np

from memory.errors import IndexFault, LedgerError, MemoryPipelineError
from memory.ledger import Change, Ledger
from memory.models import Query, Scope, Vector, VectorIndex, Vectors
from memory.runtime import files
from memory.search.chroma_client import (
    COLLECTION,
    ChromaClient,
    ChromaCollection,
    ChromaProcess,
    ChromaServer,
    alone_at,
    chroma_faults,
    close_client,
    closed_record,
    heartbeat,
    http_client,
    state_of,
)

logger = logging.getLogger(__name__)

_NEEDED = "name place id shared put remove nearest pages clear close".split()
_WIDER = 4
_WIDEST = 4_000
"""If `_WIDER * k` neighbours are too few, the index is asked for more, up to this number."""
_PAGE = 500
_PAUSE_S = 0.02


@contextlib.contextmanager
def index_faults() -> Iterator[None]:
    """Turn any foreign exception into an IndexFault; the store then goes on without the index."""
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
        if missing := [name for name in _NEEDED if not hasattr(index, name)]:
            raise IndexFault(f"the index has no {', '.join(missing)}")
        self.index = index
        self._ledger = ledger
        self._lag = lag
        self._lock = threading.RLock()
        self._stopped = threading.Event()
        self._copying: threading.Thread | None = None

    @index_faults()
    def nearest(self, queries: Sequence[Query], *, fill: bool = True) -> list[list[str] | None]:
        """Return, for each query, the ids of memories that may be nearest to it.

        The caller must compare these memories exactly. A query gets None if the index lacks more
        than `lag` changes of the ledger, or finds too few memories in the query's scope.
        `fill`: whether a thread copies changes into the index if more than `lag / 2` are missing.

        Raises: IndexFault, LedgerError.
        """
        with self._lock:
            watermark = self._watermark()
            fields = {name for query in queries for name in query.scope.metadata_fields}
            with self._ledger.reading() as reader:
                behind = reader.followers.lag(watermark)
                changes = (
                    reader.followers.changes(watermark, fields=fields)
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

    @index_faults()
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

    @index_faults()
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

    @index_faults()
    def rebuild(self, on_progress: Callable[[int, int], None] | None = None) -> None:
        with self._lock:
            self._clear()
            self.copy_all(on_progress)

    @index_faults()
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

    @index_faults()
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


# --- an index in Chroma, in a local folder or on a server -----------------------------------------

_BATCH = 1_000
_TOLERANCE = 1e-5
"""Two vectors are equal if no coordinate differs by more than this. Chroma's errors reach 1e-6."""
_ID = "memory-dedup.id"
"""The file that marks a folder as our index. It holds the id of the index."""
_RECORD_BYTES = 1_000_000


class _ChromaIndex:
    settings: Mapping[str, Any] = {"space": "cosine"}

    def __init__(self, collection_name: str, connect: Callable[[], ChromaClient]) -> None:
        self._collection_name = collection_name
        self._connect = connect
        self._client: ChromaClient | None = None
        self._opened: ChromaCollection | None = None

    def put(self, ids: Sequence[str], vectors: Vectors) -> None:
        """Store vectors, shape (n, dim), under their ids (n,).

        A changed vector is deleted first: if hnswlib changes a vector in place, other vectors may
        no longer be found.
        """
        with chroma_faults():
            for start in range(0, len(ids), _BATCH):
                names, batch = list(ids[start : start + _BATCH]), vectors[start : start + _BATCH]
                page = self._collection.get(ids=names, include=["embeddings"])
                known = dict(zip(page["ids"], page["embeddings"], strict=True))
                new = [
                    n
                    for n, name in enumerate(names)
                    if name not in known
                    or not np.allclose(known[name], batch[n], rtol=0, atol=_TOLERANCE)
                ]
                self.remove([names[n] for n in new if names[n] in known])
                if new:
                    self._collection.upsert(ids=[names[n] for n in new], embeddings=batch[new])

    def remove(self, ids: Sequence[str]) -> None:
        with chroma_faults():
            for start in range(0, len(ids), _BATCH):
                self._collection.delete(ids=list(ids[start : start + _BATCH]))

    def nearest(self, vector: Vector, k: int) -> list[tuple[str, float]]:
        with chroma_faults():
            answer = self._collection.query(
                query_embeddings=[vector], n_results=k, include=["distances"]
            )
        found = zip(answer["ids"][0], answer["distances"][0], strict=True)
        return [(name, 1.0 - distance) for name, distance in found]

    def pages(self) -> Iterator[tuple[list[str], Vectors]]:
        for offset in count(step=_BATCH):
            with chroma_faults():
                page = self._collection.get(limit=_BATCH, offset=offset, include=["embeddings"])
            if not page["ids"]:
                return
            yield page["ids"], np.asarray(page["embeddings"], np.float32)

    def close(self) -> None:
        client, self._client, self._opened = self._client, None, None
        if client is not None:
            close_client(client)

    @property
    def _collection(self) -> ChromaCollection:
        if self._client is None:
            self._client = self._connect()
        if self._opened is None:
            with chroma_faults():
                self._opened = self._client.get_or_create_collection(
                    self._collection_name,
                    configuration={"hnsw": self.settings},
                    embedding_function=None,
                )
        return self._opened


class EmbeddedChroma(_ChromaIndex):
    """A vector index in a folder that only this process uses, through a `ChromaProcess`.

    Chroma is not crash-safe: a folder that was not closed properly is deleted and must be filled
    again.
    """

    name = "Chroma"
    shared = False

    def __init__(self, folder: Path) -> None:
        """Lock the folder; delete it if its index was not closed properly.

        A folder that is not an index of memory-dedup is renamed.

        Raises: IndexFault if another process has the folder open, or it cannot be locked.
        """
        super().__init__(COLLECTION, self._open_folder)
        self._folder = folder
        self._lock = files.own_lock(folder.with_suffix(".lock"))
        try:
            folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock.acquire(blocking=False)
        except filelock.Timeout as exc:
            raise IndexFault(f"{folder} is in use by another process") from exc
        except OSError as exc:
            raise IndexFault(f"{folder} cannot be locked: {exc.strerror}") from exc
        try:
            with alone_at(folder):
                if folder.exists() and not self._is_whole():
                    logger.warning(
                        "the index in %s was not closed in order; it is made again", folder
                    )
                    self._discard()
        except BaseException:  # Ctrl-C too must not leave the folder locked
            self._lock.release()
            raise

    @property
    def place(self) -> str:
        return str(self._folder.absolute())

    @property
    def id(self) -> str:
        try:
            return files.read_bounded(self._folder / _ID, 100).decode()
        except OSError:
            return ""

    def clear(self) -> None:
        """Replace the folder by an empty one with a new id.

        Deleting the vectors would not do: Chroma's files keep what was deleted.

        Raises: IndexFault.
        """
        super().close()
        with alone_at(self._folder):
            self._discard()
        try:
            self._folder.mkdir(mode=0o700)
            files.write_whole(self._folder / _ID, uuid4().hex.encode())
        except OSError as exc:
            raise IndexFault(f"{self._folder} cannot be made: {exc.strerror}") from exc

    def close(self) -> None:
        super().close()
        self._lock.release()

    def _open_folder(self) -> ChromaProcess:
        if not self._lock.is_locked:
            raise IndexFault("the index is closed")
        return ChromaProcess(self._folder, is_ours=True)

    def _is_whole(self) -> bool:
        if self.id and [path.name for path in self._folder.iterdir()] == [_ID]:
            return True
        try:
            record = json.loads(files.read_bounded(closed_record(self._folder), _RECORD_BYTES))
        except (OSError, ValueError):
            return False
        return bool(self.id) and bool(record == state_of(self._folder))

    def _discard(self) -> None:
        closed_record(self._folder).unlink(missing_ok=True)
        if not self._folder.exists():
            return
        try:
            if self.id:
                shutil.rmtree(self._folder)
                return
            aside = files.set_aside(self._folder, "foreign")
        except OSError as exc:
            raise IndexFault(f"{self._folder} cannot be cleared: {exc.strerror}") from exc
        logger.warning("%s is not this store's index; it is now %s", self._folder, aside)


class ServedChroma(_ChromaIndex):
    """A vector index in a collection of its own on a Chroma server, shared by several processes."""

    name = "Chroma server"
    shared = True

    def __init__(self, server: ChromaServer, store_id: str) -> None:
        super().__init__(f"{COLLECTION}-{store_id}", partial(http_client, server))
        try:
            heartbeat(server)
        except IndexFault as exc:
            where = f"the Chroma server at {server.host}:{server.port} gave no answer"
            raise IndexFault(f"{where} ({exc})", "check memory.search.chroma_url") from exc

    @property
    def place(self) -> str:
        return self._collection_name

    @property
    def id(self) -> str:
        """The id of the collection, read each time: another process may have cleared the index."""
        self._opened = None
        return str(self._collection.id)

    def clear(self) -> None:
        _ = self._collection
        assert self._client is not None
        with chroma_faults():
            self._client.delete_collection(self._collection_name)
        self._opened = None

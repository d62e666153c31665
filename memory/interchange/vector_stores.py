"""Read and change collections of vector stores: Chroma's and Qdrant's, in a folder or on a server.

Qdrant's library unpickles the points in a folder, and pickles can run hidden code. So a folder is
refused, unless the user says that it is trusted.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from memory.errors import IndexFault, InputError, installed
from memory.interchange.collection import (
    Embed,
    ExternalStore,
    Kind,
    OpenCollection,
    Stored,
    Vectors,
)
from memory.interchange.databases import first_line
from memory.interchange.foreign import ForeignRow
from memory.search import (
    ChromaClient,
    ChromaCollection,
    ChromaProcess,
    ChromaServer,
    chroma_faults,
    close_client,
    http_client,
    own_embedding,
)

_PAGE = 1_000
_NEVER = 10**9  # writes before Chroma rewrites its index files; this number is never reached
_PATIENCE_S = 60
_MOST_DIGITS = 20  # of a 64-bit number; a UUID without hyphens has 32


# --- Chroma ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChromaStore(ExternalStore):
    """A Chroma collection of another program, not opened yet.

    >>> theirs = ChromaStore(Path("notes"), "memories")
    >>> theirs.kind, theirs.files  # nothing is there, and nothing was opened
    ('chroma', [])
    """

    place: Path | ChromaServer
    kind: ClassVar[Kind] = "chroma"

    @property
    def address(self) -> str:
        if isinstance(self.place, Path):
            return super().address
        return f"http{'s' if self.place.ssl else ''}://{self.place.host}:{self.place.port}"

    @property
    def files(self) -> list[Path]:
        if isinstance(self.place, ChromaServer) or not (self.place / "chroma.sqlite3").is_file():
            return []
        return [
            *self.place.glob("chroma.sqlite3*"),
            *{path.parent for path in self.place.glob("*/*.bin")},
        ]

    @contextmanager
    def opened(self, copy: Path | None = None) -> Iterator[ChromaRows]:
        """Open the collection. If `copy` is given, open this copy of the folder instead.

        A folder is opened in another process, so that a crash of Chroma ends only that process.
        """
        place = self.place
        if isinstance(place, ChromaServer):
            shown, remedy = f"{place.host}:{place.port}", "does a Chroma server listen there?"
        else:
            shown, remedy = str(place), "is it complete, and not in use?"
            if not (place / "chroma.sqlite3").is_file():
                raise InputError(
                    place, "is not a Chroma folder", "give the folder with chroma.sqlite3"
                )
        try:
            client: ChromaClient = (
                http_client(place)
                if isinstance(place, ChromaServer)
                else ChromaProcess(copy or place, lock=None if copy else _lock_of(place))
            )
            try:
                yield ChromaRows(self, _named_collection(client, shown, self.name))
            finally:
                close_client(client)
        except IndexFault as exc:
            if "readonly database" in exc.problem:
                raise InputError(
                    shown, "cannot be written", "grant the right to write it, and its folder"
                ) from exc
            raise InputError(shown, exc.problem, remedy) from exc

    @contextmanager
    def writing(self, collection_id: str, sync_threshold: int | None) -> Iterator[OpenCollection]:
        """Open the collection for writing, and keep Chroma from rewriting a folder's index files.

        If Chroma is killed while it rewrites these files, the collection can never be opened again.
        So the changes are written only to Chroma's SQLite file. This is not needed for a server: it
        keeps running if this process is killed.

        Chroma's setting `sync_threshold` is the number of writes after which it rewrites the index
        files. While a folder's collection is open, the setting is a huge number. At the end, it is
        set to the parameter `sync_threshold`; None stands for Chroma's default.

        Raises: InputError if Chroma fails, or if the collection's id is not `collection_id`.
        """
        with self.opened() as rows:
            if rows.collection_id != collection_id:
                raise InputError(self.address, f"{self.name!r} is another collection now")
            if isinstance(self.place, Path):
                rows.set_sync_threshold(_NEVER)
        with self.opened() as rows:
            try:
                yield rows
            finally:
                if isinstance(self.place, Path):
                    rows.set_sync_threshold(sync_threshold or 1_000)  # Chroma's default


@dataclass(frozen=True)
class ChromaRows(OpenCollection):
    collection: ChromaCollection

    @property
    def collection_id(self) -> str:
        return str(self.collection.id)

    @property
    def sync_threshold(self) -> int | None:
        known = (self.collection.configuration_json.get("hnsw") or {}).get("sync_threshold")
        return None if known is None or known >= _NEVER else int(known)

    def set_sync_threshold(self, writes: int) -> None:
        with chroma_faults():
            self.collection.modify(configuration={"hnsw": {"sync_threshold": writes}})

    def all(self) -> Iterator[ForeignRow]:
        with chroma_faults():
            for offset in range(0, self.collection.count(), _PAGE):
                page = self.collection.get(
                    limit=_PAGE, offset=offset, include=["documents", "metadatas"]
                )
                for row in zip(page["ids"], page["documents"], page["metadatas"], strict=True):
                    yield ForeignRow(row[0], row[1], dict(row[2] or {}))

    def stored(self, ids: Sequence[str]) -> dict[str, Stored]:
        parts = ["documents", "metadatas", "embeddings"]
        with chroma_faults():
            page = self.collection.get(ids=list(ids), include=parts)
        columns = (page[part] for part in ("ids", *parts))
        return {
            name: Stored(name, document, dict(metadata or {}), {"": np.asarray(vector, np.float32)})
            for name, document, metadata, vector in zip(*columns, strict=True)
        }

    def own_embedder(self) -> Embed | None:
        return own_embedding(self.collection)

    def put(self, rows: Sequence[Stored], present: Mapping[str, Stored]) -> None:
        # A call of Chroma takes either rows with a document or rows without one.
        for exists, in_document in product((True, False), repeat=2):
            batch = [
                row
                for row in rows
                if (row.id in present) == exists and (row.document is not None) == in_document
            ]
            if batch:
                with chroma_faults():
                    (self.collection.update if exists else self.collection.add)(
                        ids=[row.id for row in batch],
                        embeddings=np.stack([row.vectors[""] for row in batch]),
                        documents=[row.document or "" for row in batch] if in_document else None,
                        metadatas=[  # Chroma removes the keys whose value is None
                            {
                                **dict.fromkeys(present[row.id].metadata if exists else ()),
                                **row.metadata,
                            }
                            or None
                            for row in batch
                        ],
                    )

    def delete(self, ids: Sequence[str]) -> None:
        with chroma_faults():
            self.collection.delete(ids=list(ids))


def _lock_of(folder: Path) -> Path:
    """Return the path of the lock file that this program uses while it has a Chroma folder open.

    If this process is killed, its Chroma process may run on and keep the lock. The next run waits
    until the Chroma process has ended.
    """
    user = getattr(os, "getuid", int)()
    name = hashlib.sha256(f"{user} {folder.resolve()}".encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"memory-dedup-{name}.open"


def _named_collection(client: ChromaClient, shown: str, name: str) -> ChromaCollection:
    with chroma_faults():
        names = sorted(collection.name for collection in client.list_collections())
        if name in names:
            return client.get_collection(name, embedding_function=None)
    raise InputError(
        shown, f"has no collection {name!r}", f"there are: {', '.join(names) or 'none'}"
    )


# --- Qdrant ---------------------------------------------------------------------------------------


def is_qdrant(folder: Path) -> bool:
    """Return whether a folder has the files of a local Qdrant.

    >>> is_qdrant(Path("no-such-folder"))
    False
    """
    return (folder / "meta.json").is_file() and (folder / "collection").is_dir()


def is_address(place: str) -> bool:
    """Return whether a text is the URL of a server, not the path of a folder.

    >>> is_address("http://localhost:6333"), is_address("./qdrant")
    (True, False)
    """
    return place.startswith(("http://", "https://"))


@dataclass(frozen=True)
class QdrantStore(ExternalStore):
    """A Qdrant collection of another program, not opened yet.

    `place` is a folder, or the URL of a server such as `http://HOST:6333`. Qdrant gives collections
    no ids, so later runs recognise a collection by its place and its name. `trusted` says that the
    pickles in a folder may be read.

    >>> QdrantStore("http://localhost:6333", "notes").address
    'http://localhost:6333'
    >>> QdrantStore(Path("qdrant"), "notes")
    Traceback (most recent call last):
        ...
    memory.errors.InputError: qdrant: is no folder of Qdrant; give the folder with...

    Raises: InputError if `place` is no folder of Qdrant, or is one that is not trusted.
    """

    place: Path | str
    trusted: bool = False
    kind: ClassVar[Kind] = "qdrant"

    def __post_init__(self) -> None:
        if isinstance(self.place, Path) and not is_qdrant(self.place):
            raise InputError(
                self.place, "is no folder of Qdrant", "give the folder with meta.json, or a URL"
            )
        if isinstance(self.place, Path) and not self.trusted:
            raise InputError(
                self.place,
                "is a folder of Qdrant, which holds Python pickles: reading them can run any code "
                "that somebody has hidden there",
                "add --trust if nobody else can write to it",
            )

    @property
    def files(self) -> list[Path]:
        if isinstance(self.place, str):
            return []
        return [self.place / "meta.json", self.place / "collection"]

    def as_read(self, stored: Stored) -> ForeignRow:
        """Return a stored point as a row; the point's payload is the row's metadata.

        LangChain keeps metadata in an object under the payload's key `metadata`. The keys of this
        object are moved to the top level, unless a key of the same name is there.
        """
        nested = _nested(stored.metadata)
        others = {
            key: value for key, value in stored.metadata.items() if not nested or key != "metadata"
        }
        return ForeignRow(stored.id, stored.document, nested | others)

    @contextmanager
    def opened(self, copy: Path | None = None) -> Iterator[OpenCollection]:
        place = self.place
        with installed("qdrant", place):
            from qdrant_client import QdrantClient
        if isinstance(place, Path):
            where: dict[str, Any] = {"path": str(copy or place)}
        else:
            where = {
                "url": place,
                "api_key": os.environ.get("QDRANT_API_KEY"),
                "timeout": _PATIENCE_S,
            }
        with _qdrant_faults(place), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # many points in a folder, a key over http, its version
            client: Any = QdrantClient(**where)
        try:
            with _qdrant_faults(place):
                names = sorted(known.name for known in client.get_collections().collections)
            if self.name not in names:
                raise InputError(
                    place,
                    f"has no collection {self.name!r}",
                    f"there are: {', '.join(names) or 'none'}",
                )
            yield _Points(self, client)
        finally:
            client.close()


@dataclass(frozen=True)
class _Points(OpenCollection):
    client: Any

    @property
    def collection_id(self) -> str:
        place = self.external.place
        return f"qdrant:{place if isinstance(place, str) else place.resolve()}:{self.external.name}"

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        with _qdrant_faults(self.external.place):
            return getattr(self.client, method)(self.external.name, *args, **kwargs)

    def all(self) -> Iterator[ForeignRow]:
        offset = None
        while True:
            page, offset = self._call("scroll", limit=_PAGE, offset=offset)
            for point in page:
                yield self.external.as_read(Stored(str(point.id), None, point.payload or {}))
            if offset is None:
                return

    def stored(self, ids: Sequence[str]) -> dict[str, Stored]:
        return {
            str(point.id): Stored(
                str(point.id), None, dict(point.payload or {}), _vectors_of(point)
            )
            for point in self._call("retrieve", [*map(_point_id, ids)], with_vectors=True)
        }

    def changed(
        self,
        stored: Stored,
        document: str | None,  # noqa: ARG002 - a point has none
        changes: Mapping[str, Any],
        now: datetime,  # noqa: ARG002
    ) -> Stored:
        payload, nested = dict(stored.metadata), dict(_nested(stored.metadata))
        for key, value in changes.items():
            (payload if key in payload or key not in nested else nested)[key] = value
        if nested:
            payload["metadata"] = nested
        return replace(stored, metadata=payload)

    def put(self, rows: Sequence[Stored], present: Mapping[str, Stored]) -> None:  # noqa: ARG002
        if rows:
            self._call("upsert", [_point(row) for row in rows])

    def delete(self, ids: Sequence[str]) -> None:
        self._call("delete", [_point_id(name) for name in ids])


def _nested(payload: Mapping[str, Any]) -> dict[str, Any]:
    nested = payload.get("metadata")
    return nested if isinstance(nested, dict) else {}


@contextmanager
def _qdrant_faults(place: Path | str) -> Iterator[None]:
    try:
        yield
    except Exception as exc:  # files, pickles, HTTP, its own checks: errors of many libraries
        remedy = (
            "does a Qdrant server listen there?" if isinstance(place, str) else "is it complete?"
        )
        problem = f"Qdrant's library failed: {first_line(exc)}"
        if getattr(exc, "status_code", None) in (401, 403):
            problem = "does not admit this key"
            remedy = "QDRANT_API_KEY names one that may read and write"
        elif "already accessed" in str(exc):
            problem, remedy = "is in use by another program", "end that one first"
        elif isinstance(exc, PermissionError) or "readonly" in str(exc):
            problem, remedy = "cannot be written", "grant the right to write it"
        raise InputError(place, problem, remedy) from exc


def _point(row: Stored) -> Any:
    from qdrant_client.models import PointStruct

    given = {name: _as_sent(vector) for name, vector in row.vectors.items()}
    return PointStruct(
        id=_point_id(row.id),
        vector=given[""] if set(given) == {""} else given,
        payload=row.metadata,
    )


def _point_id(name: str) -> int | str:
    """Return a row's id as Qdrant expects it: an integer, or the text of a UUID.

    `name` is the id as a text. At most 20 digits are an integer. Any other text is a UUID, even if
    it has only digits: a UUID without hyphens can consist of 32 digits.
    """
    return int(name) if name.isdecimal() and len(name) <= _MOST_DIGITS else name


def _as_sent(vector: Any) -> Any:
    from qdrant_client.models import SparseVector

    if isinstance(vector, np.ndarray):
        return vector.tolist()
    return SparseVector(**vector) if isinstance(vector, dict) else vector


def _vectors_of(point: Any) -> Vectors:
    named = point.vector if isinstance(point.vector, dict) else {"": point.vector}
    return {name: _as_kept(vector) for name, vector in named.items() if vector is not None}


def _as_kept(vector: Any) -> Any:
    if hasattr(vector, "indices"):
        return {"indices": list(vector.indices), "values": list(vector.values)}
    is_multiple = vector and isinstance(vector[0], list)
    return vector if is_multiple else np.asarray(vector, dtype=np.float32)

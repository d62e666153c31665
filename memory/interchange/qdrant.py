"""Read and change Qdrant collections of other programs, on a server or in a local folder.

No other file imports `qdrant_client`. That library unpickles the points in a folder, which can run
code hidden in them, so only a trusted folder may be opened.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from memory.errors import InputError
from memory.interchange.collection import ExternalStore, OpenCollection
from memory.interchange.databases import first_line
from memory.interchange.foreign import ForeignRow
from memory.interchange.undo_file import Kind, Stored, Vectors

_PAGE = 1_000
_PATIENCE_S = 60
_IN_USE = "already accessed"  # part of the library's error message
_MOST_DIGITS = 20  # of a 64-bit number; a UUID without hyphens has 32


def is_qdrant(folder: Path) -> bool:
    return (folder / "meta.json").is_file() and (folder / "collection").is_dir()


def is_address(place: str) -> bool:
    return place.startswith(("http://", "https://"))


@dataclass(frozen=True)
class QdrantStore(ExternalStore):
    """A Qdrant collection of another program, not opened yet.

    `place` is a folder, or the URL of a server such as `http://HOST:6333`. Collections
    of Qdrant have no ids, so later runs recognise a collection by its place and its name.
    """

    place: Path | str
    name: str
    kind: ClassVar[Kind] = "qdrant"

    @property
    def files(self) -> list[Path]:
        if isinstance(self.place, str):
            return []
        return [self.place / "meta.json", self.place / "collection"]

    def as_read(self, stored: Stored) -> ForeignRow:
        """Return a stored point as a row, in the form in which an import reads it.

        The row's metadata is the point's payload. LangChain puts metadata into an object under the
        payload's key `metadata`; the keys of this object are moved to the top level. If a key is at
        both levels, the value from the top level is taken.
        """
        nested = _nested(stored.metadata)
        others = {
            key: value for key, value in stored.metadata.items() if not nested or key != "metadata"
        }
        return ForeignRow(stored.id, stored.document, nested | others)

    @contextmanager
    def opened(self, copy: Path | None = None) -> Iterator[OpenCollection]:
        """Open the collection itself or, if `copy` is given, the copy of `files` in this folder.

        A folder is locked while it is open. For a server, the API key is taken from the environment
        variable `QDRANT_API_KEY`, if that is set. Qdrant writes each point as a whole, so no point
        is left half-written if this process is killed.

        Raises: InputError if the collection cannot be opened; the error names the original place.
        """
        place = self.place
        try:
            from qdrant_client import QdrantClient
        except ImportError as exc:
            remedy = "pip install '.[qdrant]'"
            problem = "is Qdrant's, and its library is not installed"
            raise InputError(place, problem, remedy) from exc
        if isinstance(place, Path):
            where: dict[str, Any] = {"path": str(copy or place)}
        else:
            key = os.environ.get("QDRANT_API_KEY")
            where = {"url": place, "api_key": key, "timeout": _PATIENCE_S}
        with _qdrant_faults(place), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # many points in a folder, a key over http, its version
            client: Any = QdrantClient(**where)
        try:
            with _qdrant_faults(place):
                names = sorted(known.name for known in client.get_collections().collections)
            if self.name not in names:
                listed = ", ".join(names) or "none"
                raise InputError(place, f"has no collection {self.name!r}", f"there are: {listed}")
            yield _Points(self, client)
        finally:
            client.close()


@dataclass(frozen=True)
class _Points(OpenCollection):
    """An open Qdrant collection; `client` is a `QdrantClient`."""

    client: Any

    @property
    def collection_id(self) -> str:
        place = self.external.place
        return f"qdrant:{place if isinstance(place, str) else place.resolve()}:{self.external.name}"

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the client with the collection's name and these arguments.

        Raises: InputError for any exception of Qdrant's library.
        """
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
        points = self._call("retrieve", [_point_id(name) for name in ids], with_vectors=True)
        return {
            str(point.id): Stored(
                str(point.id), None, dict(point.payload or {}), _vectors_of(point)
            )
            for point in points
        }

    def changed(
        self,
        stored: Stored,
        document: str | None,  # noqa: ARG002 - a point has none
        changes: Mapping[str, Any],
        now: datetime,  # noqa: ARG002
    ) -> Stored:
        """Return a copy of the row `stored` with changed payload keys and the same vectors.

        `changes` has the new values by key. LangChain puts metadata into an object under the
        payload's key `metadata`; a key in this object is changed there. `document` and `now` are
        not used.
        """
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
    """Return the object that LangChain keeps under the payload's key `metadata`; {} if none."""
    nested = payload.get("metadata")
    return nested if isinstance(nested, dict) else {}


@contextmanager
def _qdrant_faults(place: Path | str) -> Iterator[None]:
    """Run the block; turn an error of Qdrant's library into an InputError that names `place`."""
    try:
        yield
    except Exception as exc:  # files, pickles, HTTP, its own checks: errors of many libraries
        on_disk = isinstance(place, Path)
        remedy = "is it complete?" if on_disk else "does a Qdrant server listen there?"
        problem = f"Qdrant's library failed: {first_line(exc)}"
        if getattr(exc, "status_code", None) in (401, 403):
            problem = "does not admit this key"
            remedy = "QDRANT_API_KEY names one that may read and write"
        elif _IN_USE in str(exc):
            problem, remedy = "is in use by another program", "end that one first"
        elif isinstance(exc, PermissionError) or "readonly" in str(exc):
            problem, remedy = "cannot be written", "grant the right to write it"
        raise InputError(place, problem, remedy) from exc


def _point(row: Stored) -> Any:
    """Return a row as a `PointStruct` of Qdrant's library, with its vectors."""
    from qdrant_client.models import PointStruct

    given = {name: _as_sent(vector) for name, vector in row.vectors.items()}
    return PointStruct(
        id=_point_id(row.id),
        vector=given[""] if set(given) == {""} else given,
        payload=row.metadata,
    )


def _point_id(name: str) -> int | str:
    """Return a row's id as Qdrant expects it: an integer, or the text of a UUID.

    An id of at most 20 digits is an integer. A longer one is a UUID, even if it has only digits.
    """
    return int(name) if name.isdecimal() and len(name) <= _MOST_DIGITS else name


def _as_sent(vector: Any) -> Any:
    """Return a vector in the form that Qdrant's library takes.

    A dense vector becomes a list of numbers, and a sparse one a `SparseVector`. A multiple vector
    does not change.
    """
    from qdrant_client.models import SparseVector

    if isinstance(vector, np.ndarray):
        return vector.tolist()
    return SparseVector(**vector) if isinstance(vector, dict) else vector


def _vectors_of(point: Any) -> Vectors:
    """Return a point's vectors by name; a single vector without a name gets the name `""`.

    Dense vectors become float32 arrays (dim,); sparse and multiple vectors become JSON values.
    """
    named = point.vector if isinstance(point.vector, dict) else {"": point.vector}
    return {name: _read(vector) for name, vector in named.items() if vector is not None}


def _read(vector: Any) -> Any:
    if hasattr(vector, "indices"):
        return {"indices": list(vector.indices), "values": list(vector.values)}
    if vector and isinstance(vector[0], list):
        return vector
    return np.asarray(vector, dtype=np.float32)

"""Read and change Qdrant collections of other programs, on a server or in a local folder.

Qdrant's library unpickles the points in a folder, and pickles can run hidden code. So a folder is
refused, unless the user says that it is trusted.
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

from memory.errors import InputError, installed
from memory.interchange.collection import ExternalStore, Kind, OpenCollection, Stored, Vectors
from memory.interchange.databases import first_line
from memory.interchange.foreign import ForeignRow

_PAGE = 1_000
_PATIENCE_S = 60
_MOST_DIGITS = 20  # of a 64-bit number; a UUID without hyphens has 32


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

"""The only `qdrant_client` import: a server, or a folder of Qdrant's local mode.

The points of a folder lie there as pickles, which that library reads: a folder must be trusted.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from memory.errors import InputError
from memory.interchange.copies import copied
from memory.interchange.undo_file import Vectors

_PATIENCE_S = 60
_IN_USE = "already accessed"
"""What its library says of a folder that another program has locked."""


def is_qdrant(folder: Path) -> bool:
    return (folder / "meta.json").is_file() and (folder / "collection").is_dir()


Place = Path | str
"""A folder, or the address of a server: `http://HOST:6333`."""


def is_address(place: str) -> bool:
    return place.startswith(("http://", "https://"))


@contextmanager
def opened_qdrant(place: Place, name: str, copy: Path | None = None) -> Iterator[Any]:
    """A client on a server, or on a folder, which it locks until the block ends, or its copy.

    `QDRANT_API_KEY` is a server's key.

    Raises: InputError that names the place.
    """
    try:
        from qdrant_client import QdrantClient
    except ImportError as exc:
        remedy = "pip install '.[qdrant]'"
        raise InputError(place, "is Qdrant's, and its library is not installed", remedy) from exc
    if isinstance(place, Path):
        where: dict[str, Any] = {"path": str(copy or place)}
    else:
        key = os.environ.get("QDRANT_API_KEY")
        where = {"url": place, "api_key": key, "timeout": _PATIENCE_S}
    with qdrant_faults(place), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # many points in a folder, a key over http, its version
        client: Any = QdrantClient(**where)
    try:
        with qdrant_faults(place):
            names = sorted(one.name for one in client.get_collections().collections)
        if name not in names:
            there = ", ".join(names) or "none"
            raise InputError(place, f"has no collection {name!r}", f"there are: {there}")
        yield client
    finally:
        client.close()


@contextmanager
def looking_into_qdrant(place: Place, name: str) -> Iterator[Any]:
    """A client on a server, or on a copy of a folder, since opening that may write to it.

    Raises: InputError.
    """
    if isinstance(place, str):
        with opened_qdrant(place, name) as client:
            yield client
        return
    with (
        copied(place, [place / "meta.json", place / "collection"]) as copy,
        opened_qdrant(place, name, copy) as client,
    ):
        yield client


@contextmanager
def qdrant_faults(place: Place) -> Iterator[None]:
    """Whatever the library raises is an InputError that names the place."""
    try:
        yield
    except InputError:
        raise
    except Exception as exc:  # files, pickles, HTTP, its own checks: errors of many libraries
        raise _as_input_error(place, exc) from exc


def _as_input_error(place: Place, exc: Exception) -> InputError:
    if getattr(exc, "status_code", None) in (401, 403):
        problem = "does not admit this key"
        return InputError(place, problem, "QDRANT_API_KEY names one that may read and write")
    if _IN_USE in str(exc):
        return InputError(place, "is in use by another program", "end that one first")
    if isinstance(exc, PermissionError) or "readonly" in str(exc):
        return InputError(place, "cannot be written", "grant the right to write it")
    told = str(exc).strip().splitlines()[0] if str(exc).strip() else type(exc).__name__
    remedy = "is it complete?" if isinstance(place, Path) else "does a Qdrant server listen there?"
    return InputError(place, f"Qdrant's library failed: {told}", remedy)


def point(name: str, vectors: Vectors, payload: Mapping[str, Any]) -> Any:
    """A whole point, as its library writes it in one transaction."""
    from qdrant_client.models import PointStruct

    given = {slot: _given(vector) for slot, vector in vectors.items()}
    return PointStruct(
        id=point_id(name),
        vector=given[""] if set(given) == {""} else given,
        payload=dict(payload),
    )


def point_id(name: str) -> int | str:
    """A number or a UUID, whose last form may be digits alone, but has more of them."""
    return int(name) if name.isdecimal() and len(name) <= _MOST_DIGITS else name


_MOST_DIGITS = 20
"""Of a number of 64 bits."""


def _given(vector: Any) -> Any:
    from qdrant_client.models import SparseVector

    if isinstance(vector, np.ndarray):
        return vector.tolist()
    return SparseVector(**vector) if isinstance(vector, dict) else vector


def vectors_of(found: Any) -> Vectors:
    """Of a point: its rows of numbers as such, sparse and multiple vectors as JSON."""
    named = found.vector if isinstance(found.vector, dict) else {"": found.vector}
    return {slot: _read(vector) for slot, vector in named.items() if vector is not None}


def _read(vector: Any) -> Any:
    if hasattr(vector, "indices"):
        return {"indices": list(vector.indices), "values": list(vector.values)}
    if vector and isinstance(vector[0], list):
        return vector
    return np.asarray(vector, dtype=np.float32)

"""The only `qdrant_client` import: a folder of Qdrant's local mode, opened by its own library.

The points lie there as pickles, which that library reads: a folder must be trusted.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from memory.errors import InputError
from memory.interchange.copies import copied
from memory.interchange.undo_file import Vectors

_IN_USE = "already accessed"
"""What its library says of a folder that another program has locked."""


def is_qdrant(folder: Path) -> bool:
    return (folder / "meta.json").is_file() and (folder / "collection").is_dir()


@contextmanager
def opened_qdrant(folder: Path, name: str, copy: Path | None = None) -> Iterator[Any]:
    """A client on a folder, locked for others until the block ends, or on a copy of it.

    Raises: InputError that names the folder.
    """
    try:
        from qdrant_client import QdrantClient
    except ImportError as exc:
        remedy = "pip install '.[qdrant]'"
        raise InputError(folder, "is Qdrant's, and its library is not installed", remedy) from exc
    with qdrant_faults(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it thinks little of many points in a folder
        client: Any = QdrantClient(path=str(copy or folder))
    try:
        names = sorted(one.name for one in client.get_collections().collections)
        if name not in names:
            there = ", ".join(names) or "none"
            raise InputError(folder, f"has no collection {name!r}", f"there are: {there}")
        yield client
    finally:
        client.close()


@contextmanager
def looking_into_qdrant(folder: Path, name: str) -> Iterator[Any]:
    """A client on a copy, since opening a folder may write to it.

    Raises: InputError.
    """
    with (
        copied(folder, [folder / "meta.json", folder / "collection"]) as copy,
        opened_qdrant(folder, name, copy) as client,
    ):
        yield client


@contextmanager
def qdrant_faults(folder: Path) -> Iterator[None]:
    """Whatever the library raises is an InputError that names the folder."""
    try:
        yield
    except InputError:
        raise
    except Exception as exc:  # files, pickles, its own checks: it has no error of its own
        if _IN_USE in str(exc):
            raise InputError(folder, "is in use by another program", "end that one first") from exc
        if isinstance(exc, PermissionError) or "readonly" in str(exc):
            remedy = "grant the right to write it"
            raise InputError(folder, "cannot be written", remedy) from exc
        told = str(exc).strip().splitlines()[0] if str(exc).strip() else type(exc).__name__
        raise InputError(folder, f"Qdrant's library failed: {told}", "is it complete?") from exc


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

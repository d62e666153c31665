"""The file that undoes a write-back: the rows as they were, and what they became."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, JsonValue, ValidationError

from memory.errors import InputError
from memory.interchange.jsonl import read_objects
from memory.models import Frozen, UtcTime, Vector
from memory.runtime import replacing

_OWN = 0o600


Kind = Literal["chroma", "qdrant", "langgraph", "pgvector"]
"""The kind of a store."""
Vectors = dict[str, Any]
"""A row's vectors by name, `""` for an only one: dense ones as arrays, others as JSON."""


class UndoHeader(Frozen):
    """The first line of the file: the collection, and its setting `sync_threshold`."""

    format: Literal["memory-dedup write-back 1"] = "memory-dedup write-back 1"
    kind: Kind = "chroma"
    place: str
    collection: str
    collection_id: str
    sync_threshold: int | None
    rows: int
    at: UtcTime | None = None
    """When it was begun; a later run that finishes it writes the same `updated_at`."""


class RowBefore(Frozen):
    """A row as it was; `becomes` is what an update changes, None if the row is deleted."""

    id: str
    document: str | None
    metadata: dict[str, JsonValue]
    embedding: list[float] | dict[str, JsonValue]
    beside: dict[str, JsonValue] = Field(default_factory=dict)
    """What the store keeps with the row and may change by itself, such as its expiry."""
    becomes: Becomes | None = None

    @property
    def after(self) -> tuple[str | None, dict[str, JsonValue]]:
        """The document and the metadata that an update leaves."""
        assert self.becomes is not None
        return self.becomes.applied_to(self.document, self.metadata)

    @property
    def vectors(self) -> Vectors:
        named: dict[str, Any] = (
            self.embedding if isinstance(self.embedding, dict) else {"": self.embedding}
        )
        return {name: _as_vector(numbers) for name, numbers in named.items()}


class Becomes(Frozen):
    """The changes of an update, except the vectors."""

    document: str | None
    metadata: dict[str, JsonValue]
    gone: tuple[str, ...] = ()
    """Metadata keys that are removed."""
    beside: dict[str, JsonValue] = Field(default_factory=dict)
    """What the store keeps with the row and changes too: its expiry."""

    def applied_to(
        self, document: str | None, metadata: dict[str, Any]
    ) -> tuple[str | None, dict[str, Any]]:
        """Return document and metadata after the update."""
        text = document if self.document is None else self.document
        changed = metadata | self.metadata
        return text, {name: value for name, value in changed.items() if name not in self.gone}


RowBefore.model_rebuild()


@dataclass(frozen=True)
class UndoFile:
    """An undo file as it was read."""

    path: Path
    header: UndoHeader
    rows: list[RowBefore]

    def holds(self, rows: Iterable[RowBefore]) -> bool:
        known = {row.id: row for row in self.rows}
        return all(known.get(row.id) == row for row in rows)


def exact_vectors(vectors: Vectors) -> list[float] | dict[str, JsonValue]:
    """Return the vectors as they are written to the file: an only one without its name."""
    exact: dict[str, Any] = {
        name: exact_numbers(vector) if isinstance(vector, np.ndarray) else vector
        for name, vector in vectors.items()
    }
    only: list[float] | None = exact[""] if set(exact) == {""} else None
    return exact if only is None else only


def exact_numbers(vector: Vector) -> list[float]:
    """Return the shortest decimals that are read as the same float32."""
    return [float(str(number)) for number in np.asarray(vector, dtype=np.float32)]


def _as_vector(numbers: Any) -> Any:
    """Return a dense vector as an array; multiple and sparse ones as they are."""
    plain = isinstance(numbers, list) and not any(isinstance(one, list) for one in numbers)
    return np.asarray(numbers, dtype=np.float32) if plain else numbers


def write_undo_file(file: Path, header: UndoHeader, rows: Sequence[RowBefore]) -> None:
    """Write the file, whole and synced at return, or not at all.

    Raises: InputError where it exists or cannot be written.
    """
    write_lines(file, (one.model_dump_json() for one in (header, *rows)))


def write_lines(file: Path, lines: Iterable[str]) -> None:
    """Write a file that only its owner may read, whole and synced at return, or not at all.

    Raises: InputError where it exists or cannot be written.
    """
    if file.exists():
        raise InputError(file, "exists already", "name a new file with --undo-file")
    try:
        with replacing(file) as part:
            handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWN)
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.writelines(f"{line}\n" for line in lines)
    except OSError as exc:
        raise InputError(file, f"cannot be written: {exc.strerror}", "name another file") from exc


def read_undo_file(file: Path) -> UndoFile:
    """Raises: InputError where it is not whole."""
    whole: list[dict[str, Any]] = []
    for number, line in read_objects(file):
        if isinstance(line, ValueError):
            raise InputError(file, str(line), "it is no undo file of a write-back", number)
        whole.append(line)
    try:
        header = UndoHeader.model_validate_json(json.dumps(whole[0] if whole else {}))
        rows = [RowBefore.model_validate_json(json.dumps(line)) for line in whole[1:]]
    except ValidationError as exc:
        raise InputError(file, "is no undo file of a write-back", "give the file it wrote") from exc
    if len(rows) != header.rows:
        raise InputError(file, f"has {len(rows):,} of its {header.rows:,} rows", "it was cut off")
    return UndoFile(file, header, rows)

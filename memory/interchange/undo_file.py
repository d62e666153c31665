"""The file that undoes a write-back, and the notes in the ledger that lead to it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, PlainSerializer, TypeAdapter, ValidationError

from memory.errors import InputError
from memory.interchange.foreign import Reading
from memory.interchange.jsonl import read_objects
from memory.ledger import Ledger
from memory.models import Frozen, UtcTime
from memory.runtime import replacing

_OWN = 0o600
_READ, _WRITTEN = "read_from:", "written_back:"
"""Keys of the ledger's notes; each is followed by the collection's lasting name."""

Kind = Literal["chroma", "qdrant", "langgraph", "pgvector"]
"""The kind of a store."""
Vectors = dict[str, Any]
"""A row's vectors by name, `""` for an only one: dense ones as arrays, others as JSON."""


def _exact(vectors: Vectors) -> dict[str, Any]:
    """Write dense vectors as the shortest decimals that are read as the same float32."""
    return {
        name: [float(str(number)) for number in np.asarray(vector, dtype=np.float32)]
        if isinstance(vector, np.ndarray)
        else vector
        for name, vector in vectors.items()
    }


def _as_vectors(given: dict[str, Any]) -> Vectors:
    return {name: _as_vector(numbers) for name, numbers in given.items()}


def _as_vector(numbers: Any) -> Any:
    """Return a dense vector as an array; multiple and sparse ones as they are."""
    plain = isinstance(numbers, list) and not any(isinstance(one, list) for one in numbers)
    return np.asarray(numbers, dtype=np.float32) if plain else numbers


@dataclass(frozen=True, eq=False)
class Stored:
    """A row as its store keeps it."""

    id: str
    document: str | None
    metadata: dict[str, Any]
    vectors: Annotated[Vectors, BeforeValidator(_as_vectors), PlainSerializer(_exact)] = field(
        default_factory=dict
    )
    beside: dict[str, Any] = field(default_factory=dict)
    """What the store keeps with the row and may change by itself, such as its expiry."""

    def saying(self, document: str | None, metadata: dict[str, Any]) -> Stored:
        return replace(self, document=document, metadata=metadata)

    def says_the_same(self, other: Stored) -> bool:
        return (self.document, self.metadata) == (other.document, other.metadata)


@dataclass(frozen=True, eq=False)
class ChangedRow:
    """A row before a write-back, and after it; None if it is deleted.

    In the file the row after it has no vectors.
    """

    before: Stored
    after: Stored | None = None

    @property
    def line(self) -> str:
        after = None if self.after is None else replace(self.after, vectors={})
        return _ROW.dump_json(ChangedRow(self.before, after), exclude_defaults=True).decode()


_ROW = TypeAdapter(ChangedRow)


class UndoHeader(Frozen):
    """The first line of the file: the collection, and its setting `sync_threshold`."""

    format: Literal["memory-dedup write-back 1"] = "memory-dedup write-back 1"
    kind: Kind
    place: str
    collection: str
    collection_id: str
    sync_threshold: int | None
    rows: int
    at: UtcTime
    """When it was begun; a later run that finishes it writes the same `updated_at`."""


@dataclass(frozen=True)
class UndoFile:
    """An undo file as it was read."""

    path: Path
    header: UndoHeader
    rows: list[ChangedRow]

    def holds(self, rows: Iterable[ChangedRow]) -> bool:
        known = {row.before.id: json.loads(row.line) for row in self.rows}
        return all(known.get(row.before.id) == json.loads(row.line) for row in rows)


def write_undo_file(file: Path, header: UndoHeader, rows: Sequence[ChangedRow]) -> None:
    """Write the file, whole and synced at return, or not at all.

    Raises: InputError where it exists or cannot be written.
    """
    write_lines(file, [header.model_dump_json(), *(row.line for row in rows)])


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
        rows = [_ROW.validate_python(line) for line in whole[1:]]
    except ValidationError as exc:
        raise InputError(file, "is no undo file of a write-back", "give the file it wrote") from exc
    if len(rows) != header.rows:
        raise InputError(file, f"has {len(rows):,} of its {header.rows:,} rows", "it was cut off")
    return UndoFile(file, header, rows)


# --- notes in the ledger --------------------------------------------------------------------------


def note_reading(ledger: Ledger, collection_id: str, reading: Reading) -> None:
    """Note how a collection was read, so that a write-back reads it the same way."""
    with ledger.writing() as writer:
        writer.set_meta(_READ + collection_id, reading.model_dump_json())


def noted_reading(ledger: Ledger, collection_id: str) -> Reading | None:
    """Return how a collection was read; None where nothing was ever imported from it."""
    with ledger.reading() as reader:
        noted = reader.meta(_READ + collection_id)
    return None if noted is None else Reading.model_validate_json(noted)


@dataclass(frozen=True)
class WriteBackRun:
    """A write-back that was begun, and whether it came to its end."""

    undo_file: Path
    finished: bool


def noted_runs(ledger: Ledger, collection_id: str) -> list[WriteBackRun]:
    """Return the write-backs to a collection, oldest first, whose undo files still exist."""
    with ledger.reading() as reader:
        noted = json.loads(reader.meta(_WRITTEN + collection_id) or "[]")
    runs = [WriteBackRun(Path(one["undo_file"]), one["finished"]) for one in noted]
    return [run for run in runs if run.undo_file.is_file()]


def note_run(ledger: Ledger, collection_id: str, run: WriteBackRun) -> None:
    """Note a run as begun or finished, in place of what was noted about its undo file."""
    others = [one for one in noted_runs(ledger, collection_id) if one.undo_file != run.undo_file]
    noted = [{"undo_file": str(one.undo_file), "finished": one.finished} for one in (*others, run)]
    with ledger.writing() as writer:
        writer.set_meta(_WRITTEN + collection_id, json.dumps(noted))

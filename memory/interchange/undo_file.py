"""The file from which a write-back can be undone, and the ledger's notes about write-backs.

A write-back changes another program's collection: if this program merged memories that were
imported from several rows, the rows are merged too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
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
"""Prefixes of metadata keys of the ledger, each followed by a collection's id.

Under the first, the ledger notes how the collection was read; under the second, its write-backs.
"""
Kind = Literal["chroma", "qdrant", "langgraph", "pgvector"]
Vectors = dict[str, Any]
"""The vectors of a row by name; the name is `""` in a store whose vectors have no names.

Dense vectors are float32 arrays (dim,); sparse and multiple vectors are JSON values.
"""


def _exact(vectors: Vectors) -> dict[str, Any]:
    """Return the vectors of a row as JSON values, by the vector's name.

    A dense vector becomes a list of decimals. They are the shortest decimals that read back as the
    same float32 numbers.
    """
    return {
        name: [float(str(number)) for number in np.asarray(vector, dtype=np.float32)]
        if isinstance(vector, np.ndarray)
        else vector
        for name, vector in vectors.items()
    }


def _as_vectors(given: dict[str, Any]) -> Vectors:
    """Return vectors that were read from JSON, by name.

    Lists of numbers become float32 arrays (dim,). Others, such as sparse vectors, do not change.
    """
    return {
        name: np.asarray(vector, dtype=np.float32)
        if isinstance(vector, list) and not any(isinstance(part, list) for part in vector)
        else vector
        for name, vector in given.items()
    }


@dataclass(frozen=True, eq=False)
class Stored:
    """A row of another program as its store keeps it, with all that is needed to restore it.

    What `document` and `metadata` hold depends on the kind of store.
    """

    id: str
    document: str | None
    metadata: dict[str, Any]
    vectors: Annotated[Vectors, BeforeValidator(_as_vectors), PlainSerializer(_exact)] = field(
        default_factory=dict
    )
    beside: dict[str, Any] = field(default_factory=dict)
    """Other values that the store keeps with the row, such as its expiry, and may change by itself.

    They are written only if a deleted row is added again.
    """

    def says_the_same(self, other: Stored) -> bool:
        """Return whether two rows have equal documents and metadata; vectors are not compared."""
        return (self.document, self.metadata) == (other.document, other.metadata)


@dataclass(frozen=True, eq=False)
class ChangedRow:
    """A row before and after a write-back; `after` is None if the write-back deletes the row."""

    before: Stored
    after: Stored | None = None

    def is_done(self, present: Stored | None) -> bool:
        """Return whether the row is as the write-back leaves it.

        `present` is the row as the store holds it now; None if the row does not exist.
        """
        if self.after is None or present is None:
            return self.after is present
        return present.says_the_same(self.after)

    @property
    def line(self) -> str:
        """The change as a line of JSON for the undo file, without the vectors of `after`."""
        after = None if self.after is None else replace(self.after, vectors={})
        return _ROW.dump_json(ChangedRow(self.before, after), exclude_defaults=True).decode()


_ROW = TypeAdapter(ChangedRow)


class UndoHeader(Frozen):
    """The first line of an undo file: which collection was changed, and when.

    `kind` and `place` say in which store the collection is. `collection` is its name, and
    `collection_id` the id by which later runs recognise it. `rows` is the number of lines that
    follow.

    `sync_threshold` is a setting of Chroma: the number of writes after which Chroma rewrites its
    index files. A write-back changes this setting while it runs, and then restores the value given
    here. None stands for Chroma's default.
    """

    format: Literal["memory-dedup write-back 1", "memory-dedup write-back 2"] = (
        "memory-dedup write-back 2"
    )
    kind: Kind
    place: str
    collection: str
    collection_id: str
    sync_threshold: int | None
    rows: int
    at: UtcTime
    """When the write-back began, which becomes the time of the last update in changed rows.

    If the write-back is killed, the run that finishes it uses this time too.
    """

    @property
    def is_outdated(self) -> bool:
        """Whether only an earlier version of this program can undo the write-back.

        In format 1, LangGraph's items have another layout. The rows of other stores are the same in
        both formats.
        """
        return self.kind == "langgraph" and self.format.endswith("1")


@dataclass(frozen=True)
class UndoFile:
    path: Path
    header: UndoHeader
    rows: list[ChangedRow]

    def holds(self, rows: Iterable[ChangedRow]) -> bool:
        """Return whether the file contains all of these changed rows, with equal values."""
        known = {row.before.id: json.loads(row.line) for row in self.rows}
        return all(known.get(row.before.id) == json.loads(row.line) for row in rows)


def write_lines(file: Path, lines: Iterable[str]) -> None:
    """Write lines to a new file that only its owner may read.

    When this function returns, the file is complete and safely on disk. If it raises, there is no
    file.

    Raises: InputError if the file exists or cannot be written.
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
    """Read an undo file.

    Raises: InputError if it cannot be read, is incomplete, or is not an undo file.
    """
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
    """Note in the ledger how a collection was read, so that a write-back reads it the same way."""
    with ledger.writing() as writer:
        writer.set_meta(_READ + collection_id, reading.model_dump_json())


def noted_reading(ledger: Ledger, collection_id: str) -> Reading | None:
    """Return how a collection was read at its import; None if it was never imported."""
    with ledger.reading() as reader:
        noted = reader.meta(_READ + collection_id)
    return None if noted is None else Reading.model_validate_json(noted)


def noted_runs(ledger: Ledger, collection_id: str) -> dict[Path, bool]:
    """Return, for each write-back to a collection, its undo file and whether it finished.

    Write-backs are in the order in which they were noted, the oldest first. A write-back whose undo
    file no longer exists is left out.
    """
    with ledger.reading() as reader:
        notes = json.loads(reader.meta(_WRITTEN + collection_id) or "[]")
    runs = {Path(note["undo_file"]): note["finished"] for note in notes}
    return {file: finished for file, finished in runs.items() if file.is_file()}


def note_run(ledger: Ledger, collection_id: str, undo_file: Path, *, finished: bool) -> None:
    """Note in the ledger that the write-back with this undo file began, or that it `finished`."""
    runs = noted_runs(ledger, collection_id)
    runs.pop(undo_file, None)
    runs[undo_file] = finished  # as the last one
    notes = [{"undo_file": str(file), "finished": done} for file, done in runs.items()]
    with ledger.writing() as writer:
        writer.set_meta(_WRITTEN + collection_id, json.dumps(notes))

"""Notes in the ledger: how a collection was read, and which write-backs changed it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from memory.interchange.foreign import Reading
from memory.ledger import Ledger

_READ, _WRITTEN = "read_from:", "written_back:"
"""Each is followed by the collection's lasting name."""


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

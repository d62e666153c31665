"""Rows that a write-back wrote: known by what they were before, from its undo file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memory.interchange.foreign import ForeignRow
from memory.ledger import Ledger

_KEY = "written_back:"
"""And the collection's lasting name."""


@dataclass(frozen=True)
class Rewrite:
    """A row before and after an update."""

    before: ForeignRow
    after: ForeignRow


OwnWork = Mapping[str, Sequence[Rewrite]]
"""What write-backs made of rows, by the rows' ids."""


def before_own_work(row: ForeignRow, own_work: OwnWork) -> ForeignRow:
    """Return the row as it was imported, where write-backs made it what it is now."""
    todo = list(own_work.get(row.id, ()))
    found = row
    while step := next((one for one in todo if one.after.says_the_same(found)), None):
        todo.remove(step)
        found = step.before
    return found


@dataclass(frozen=True)
class WriteBackRun:
    """A write-back that was begun, and whether it came to its end."""

    undo_file: Path
    finished: bool


def noted_runs(ledger: Ledger, collection_id: str) -> list[WriteBackRun]:
    """Return the write-backs to a collection, oldest first, whose undo files are still there."""
    with ledger.reading() as reader:
        noted = json.loads(reader.meta(_KEY + collection_id) or "[]")
    runs = [WriteBackRun(Path(one["undo_file"]), one["finished"]) for one in noted]
    return [run for run in runs if run.undo_file.is_file()]


def note_run(ledger: Ledger, collection_id: str, run: WriteBackRun) -> None:
    """Note a run as begun or finished, in place of what was noted about its undo file."""
    others = (one for one in noted_runs(ledger, collection_id) if one.undo_file != run.undo_file)
    noted = [_as_json(one) for one in (*others, run)]
    with ledger.writing() as writer:
        writer.set_meta(_KEY + collection_id, json.dumps(noted))


def _as_json(run: WriteBackRun) -> dict[str, object]:
    return {"undo_file": str(run.undo_file), "finished": run.finished}

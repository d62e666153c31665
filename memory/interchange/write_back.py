"""Carry out a plan in another program's collection, and undo it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from memory.interchange.collection import (
    ExternalStore,
    OpenCollection,
    Stored,
    all_stored,
    parts,
)
from memory.interchange.foreign import ForeignRow, Reading
from memory.interchange.plan_back import Deletion, LeftAlone, OwnWork, WriteBackPlan
from memory.interchange.undo_file import (
    Becomes,
    RowBefore,
    UndoFile,
    UndoHeader,
    Vectors,
    exact_vectors,
    write_undo_file,
)
from memory.interchange.vectors import vectors_after
from memory.models import Vector

_MOVED = "it changed since it was read"
_GIVER_MOVED = "the row whose vector it was to have changed since it was read"


Tell = Callable[[int, int], None]


@dataclass(frozen=True)
class WriteBackDone:
    """The number of rows that were written, and the rows that were not after all."""

    updated: int
    deleted: int
    left_alone: tuple[LeftAlone, ...]


def write_back(
    theirs: ExternalStore,
    plan: WriteBackPlan,
    reading: Reading,
    undo_file: Path,
    now: datetime,
    made: Mapping[str, Vector],
    on_progress: Tell = lambda _done, _whole: None,
    begun: UndoFile | None = None,
) -> WriteBackDone:
    """Write the old rows to the undo file, then update and delete, checking each row again.

    `made` has a vector for each text that no row has. A kill leaves the file whole, and each row
    either old or new. `begun` is the undo file of a run that was killed: if it holds every row that
    is left to change, no other file is written.

    Raises: InputError; nothing is written where the file cannot be.
    """
    with theirs.opened() as rows:
        there = all_stored(rows, list(plan.looked_at))
        plan = _as_read(plan, rows, there)
        becomes = {one.row.id: rows.rewritten(one, there, reading, now) for one in plan.updates}
        before = _before(plan, there, becomes)
        if not before:
            return WriteBackDone(0, 0, plan.left_alone)
        vectors = _vectors(plan, rows, there, becomes, reading, made)
        header = UndoHeader(
            kind=theirs.kind,
            place=theirs.address,
            collection=theirs.name,
            collection_id=rows.collection_id,
            sync_threshold=rows.sync_threshold or (begun.header.sync_threshold if begun else None),
            rows=len(before),
            at=now,
        )
    if begun is None or not begun.holds(before.values()):
        write_undo_file(undo_file, header, list(before.values()))
    with theirs.writing(header) as rows:
        return _carry_out(rows, plan, before, vectors, on_progress)


def _as_read(
    plan: WriteBackPlan, rows: OpenCollection, there: Mapping[str, Stored]
) -> WriteBackPlan:
    """Return the plan without rows that changed since they were read."""
    moved = {name for name, row in plan.looked_at.items() if not _is(rows, there, row)}
    given = [one.row.id for one in plan.updates if one.same_as and one.same_as.id in moved]
    return plan.without(moved, _MOVED).without(given, _GIVER_MOVED)


def _before(
    plan: WriteBackPlan, there: Mapping[str, Stored], becomes: Mapping[str, Becomes]
) -> dict[str, RowBefore]:
    """Return the rows that change as they are now, by id."""
    return {
        one.row.id: RowBefore(
            id=one.row.id,
            document=there[one.row.id].document,
            metadata=there[one.row.id].metadata,
            embedding=exact_vectors(there[one.row.id].vectors),
            beside=there[one.row.id].beside,
            becomes=becomes.get(one.row.id),
        )
        for one in plan.changes
    }


def _vectors(
    plan: WriteBackPlan,
    rows: OpenCollection,
    there: Mapping[str, Stored],
    becomes: Mapping[str, Becomes],
    reading: Reading,
    made: Mapping[str, Vector],
) -> dict[str, Vectors]:
    """Return the new vectors of each updated row: reused, else made for it."""
    vectors = {}
    for one in plan.updates:
        kept, new = vectors_after(rows, one, becomes[one.row.id], there, reading)
        vectors[one.row.id] = kept | {name: made[text] for name, text in new.items()}
    return vectors


def _carry_out(
    rows: OpenCollection,
    plan: WriteBackPlan,
    before: Mapping[str, RowBefore],
    vectors: Mapping[str, Vectors],
    on_progress: Tell,
) -> WriteBackDone:
    whole, done = len(plan.updates) + len(plan.deletions), 0
    on_progress(done, whole)
    for updates in parts(plan.updates):
        with rows.step():
            there = rows.stored([one.row.id for one in updates])
            moved = [one.row.id for one in updates if not _is(rows, there, one.row)]
            plan = plan.without(moved, _MOVED)
            rows.update([before[one.row.id] for one in updates if one.row.id not in moved], vectors)
        done += len(updates)
        on_progress(done, whole)
    for deletions in parts(plan.deletions):
        with rows.step():
            there = all_stored(
                rows, list({row.id for one in deletions for row in (one.row, one.kept)})
            )
            moved = [one.row.id for one in deletions if not _still_fits(one, rows, there, before)]
            plan = plan.without(moved, _MOVED)
            gone = [one.row.id for one in deletions if one.row.id not in moved]
            if gone:
                rows.delete(gone)
        done += len(deletions)
        on_progress(done, whole)
    return WriteBackDone(len(plan.updates), len(plan.deletions), plan.left_alone)


def _still_fits(
    one: Deletion,
    rows: OpenCollection,
    there: Mapping[str, Stored],
    before: Mapping[str, RowBefore],
) -> bool:
    """Whether a row is as it was read, and the row that stands for it has its final text."""
    if not _is(rows, there, one.row):
        return False
    if one.kept.id not in before:
        return _is(rows, there, one.kept)
    kept = there.get(one.kept.id)
    return kept is not None and kept.says(*before[one.kept.id].after)


def finish_write_back(theirs: ExternalStore, header: UndoHeader) -> None:
    """Restore the store's settings that a killed run had changed."""
    with theirs.writing(header):
        pass


# --- knowing it again -----------------------------------------------------------------------------


def own_work_in(theirs: ExternalStore, files: Iterable[UndoFile], collection_id: str) -> OwnWork:
    """Return what write-backs made of the rows of a collection, from their undo files."""
    found: dict[str, list[tuple[ForeignRow, ForeignRow]]] = {}
    for file in files:
        if file.header.collection_id == collection_id:
            for row in file.rows:
                if row.becomes is not None:
                    before = theirs.as_read(Stored(row.id, row.document, row.metadata, {}))
                    after = theirs.as_read(Stored(row.id, *row.after, {}))
                    found.setdefault(row.id, []).append((before, after))
    return found


# --- taking it back -------------------------------------------------------------------------------


@dataclass(frozen=True)
class TakenBack:
    """The number of rows that were put back, or were old already, and the rows left alone."""

    restored: int
    already: int
    left_alone: tuple[LeftAlone, ...]


def undo_write_back(
    theirs: ExternalStore, header: UndoHeader, rows: Sequence[RowBefore], on_progress: Tell
) -> TakenBack:
    """Restore every row's text, metadata and vectors; leave rows alone that changed since.

    It may be repeated, and works after a write-back that was killed.

    Raises: InputError.
    """
    restored = already = 0
    left: list[LeftAlone] = []
    with theirs.writing(header) as collection:
        for some in parts(rows):
            with collection.step():
                there = collection.stored([row.id for row in some])
                todo = [row for row in some if not _is_old(there.get(row.id), row)]
                fit = [row for row in todo if _is_written(there.get(row.id), row)]
                collection.put_back(fit, there)
            left += [LeftAlone(row.id, _MOVED) for row in todo if row not in fit]
            restored += len(fit)
            already += len(some) - len(todo)
            on_progress(restored + already, len(rows))
    return TakenBack(restored, already, tuple(left))


def _is_old(stored: Stored | None, row: RowBefore) -> bool:
    if stored is None or not stored.says(row.document, row.metadata):
        return False
    return row.becomes is None or not stored.lives_as(row.becomes)


def _is_written(stored: Stored | None, row: RowBefore) -> bool:
    if row.becomes is None or stored is None:
        return row.becomes is None and stored is None
    return stored.says(*row.after)


def _is(rows: OpenCollection, there: Mapping[str, Stored], row: ForeignRow) -> bool:
    stored = there.get(row.id)
    return stored is not None and rows.as_read(stored).says_the_same(row)

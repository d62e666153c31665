"""Carry out a write-back and undo it.

A write-back changes another program's collection: if this program merged memories that were
imported from several rows, the rows are merged too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from memory.interchange.collection import (
    Embed,
    ExternalStore,
    OpenCollection,
    all_stored,
    batches,
    changes_for,
)
from memory.interchange.foreign import ForeignRow, Reading
from memory.interchange.plan_back import LeftAlone, OwnWork, RowChange, Update, WriteBackPlan
from memory.interchange.undo_file import ChangedRow, Stored, UndoFile, UndoHeader, write_lines
from memory.models import Vector
from memory.runtime import Progress

logger = logging.getLogger(__name__)

_MOVED = "it changed since it was read"
_OTHER_KIND = "it has a sparse or a multiple vector, which nobody here can make anew"
_NO_EMBEDDER = "no embedder here makes vectors like the collection's: see --embedder"
_SAMPLE = 8  # stored vectors that an embedder must reproduce before it is used
_NEAR = 0.02  # the relative distance of vectors that count as equal, as services round


# --- vectors of new texts -------------------------------------------------------------------------


def with_vectors(
    theirs: ExternalStore,
    plan: WriteBackPlan,
    rows: Sequence[ForeignRow],
    reading: Reading,
    now: datetime,
    others: Sequence[Embed],
) -> tuple[WriteBackPlan, dict[str, Vector]]:
    """Embed the new texts that `plan` writes; return a new plan, and the vectors by text.

    `theirs`: the collection. `rows`: all rows of the collection. `reading`: how the rows were read.
    `now`: the time of the update. `others`: embedding functions to try after the collection's own.

    If the new vectors of a row cannot be made, the new plan does not change this row, and has it in
    `left_alone`.
    """
    if not plan.updates:
        return plan, {}
    with theirs.looking() as look:
        present = all_stored(look, [update.row.id for update in plan.updates])
        after = _after(plan.updates, look, present, reading, now)
        news = {name: _new_texts(look, present[name], row, reading) for name, row in after.items()}
        other = [
            name
            for name, new in news.items()
            if not all(isinstance(present[name].vectors[slot], np.ndarray) for slot in new)
        ]
        texts = list(dict.fromkeys(text for new in news.values() for text in new.values()))
        made = vectors_as_theirs(look, rows, reading, texts, others)
    plan = plan.without(other, _OTHER_KIND)
    unmade = [name for name, new in news.items() if not made.keys() >= set(new.values())]
    return plan.without(unmade, _NO_EMBEDDER), made


def _after(
    updates: Iterable[Update],
    rows: OpenCollection,
    present: Mapping[str, Stored],
    reading: Reading,
    now: datetime,
) -> dict[str, Stored]:
    """Return the rows, by id, as they will be after `updates`, but with their old vectors.

    `reading`: how the rows were read. `now`: becomes the time of the last update. `present`: the
    rows by id, as the store holds them now. Rows that are not in `present` are left out.
    """
    after = {}
    for update in updates:
        if (stored := present.get(update.row.id)) is not None:
            row = rows.external.as_read(stored)
            document, changes = changes_for(row, update.text, reading, now)
            after[stored.id] = rows.changed(stored, document, changes, now)
    return after


def _new_texts(
    rows: OpenCollection, before: Stored, after: Stored, reading: Reading
) -> dict[str, str]:
    """Return the texts from which new vectors of a row must be made, by the vector's name.

    `before` and `after` are the row before and after its update. Vectors whose text does not change
    are left out. `reading` says which metadata key holds the row's text.
    """
    old = rows.texts(before, reading)
    return {
        name: text for name, text in rows.texts(after, reading).items() if old.get(name) != text
    }


def vectors_as_theirs(
    look: OpenCollection,
    rows: Sequence[ForeignRow],
    reading: Reading,
    texts: Sequence[str],
    others: Sequence[Embed],
) -> dict[str, Vector]:
    """Embed `texts` as a collection's vectors were made; return a vector for each text, by text.

    The embedding function is found by trial: it must reproduce the vectors that the collection
    stores for a sample of the rows. The collection's own function is tried first, then those in
    `others`. If none fits, the result is empty.

    `look`: the open collection. `rows`: all rows of the collection. `reading`: says which metadata
    key holds the text of a row.
    """
    if not texts:
        return {}
    sample, stored = _sample(look, rows, reading)
    for embed in _embedders(look, others):
        try:
            if _alike(np.asarray(embed(sample), dtype=np.float32), stored):
                vectors = np.asarray(embed(list(texts)), dtype=np.float32)
                return dict(zip(texts, vectors, strict=True))
        except Exception as exc:  # somebody else's code may raise anything; the next one is tried
            logger.warning("an embedder could not be used: %s", exc)
    return {}


def _embedders(look: OpenCollection, others: Sequence[Embed]) -> Iterator[Embed]:
    """Yield the collection's own embedding function, if it is available, then each of `others`."""
    own: Embed | None = None
    try:
        own = look.own_embedder()
    except Exception as exc:  # somebody else's code: its library or its key may be missing here
        logger.warning("the collection's own embedder is not here: %s", exc)
    yield from others if own is None else (own, *others)


def _sample(
    look: OpenCollection, rows: Sequence[ForeignRow], reading: Reading
) -> tuple[list[str], Any]:
    """Return texts of some rows, and the stored vectors of these texts as an array (n, dim).

    Both are empty if none of the rows has a text and a dense vector.
    """
    step = max(1, len(rows) // _SAMPLE)
    sample = look.stored([row.id for row in rows[::step][:_SAMPLE]])
    pairs = [
        (text, stored.vectors[name])
        for stored in sample.values()
        for name, text in look.texts(stored, reading).items()
        if text and isinstance(stored.vectors.get(name), np.ndarray)
    ]
    return [text for text, _ in pairs], np.asarray([vector for _, vector in pairs], np.float32)


def _alike(made: Any, stored: Any) -> bool:
    """Return whether two arrays of vectors, of shape (n, dim), are equal up to rounding.

    Return False if their shapes differ or there are no vectors.
    """
    if made.shape != stored.shape or not len(stored):
        return False
    apart = np.linalg.norm(made - stored, axis=1)
    return bool((apart <= _NEAR * np.linalg.norm(stored, axis=1)).all())


# --- writing it back ------------------------------------------------------------------------------


def write_back(
    theirs: ExternalStore,
    plan: WriteBackPlan,
    reading: Reading,
    undo_file: Path,
    now: datetime,
    made: Mapping[str, Vector],
    on_progress: Progress = lambda _done, _whole: None,
    begun: UndoFile | None = None,
) -> WriteBackPlan:
    """Save the planned changes to an undo file, then make them in the collection `theirs`.

    Return a plan with the changes that were made; its `left_alone` also has the skipped rows.

    `reading`: how the rows were read. `undo_file`: path of the new undo file. `now`: becomes the
    time of the last update in rows that get a new text. `made`: a vector for each new text, by
    text. `on_progress`: called with the number of rows done, and the number of all rows to change.
    `begun`: the undo file of an earlier run that was killed; None if there was no such run. If this
    file has all rows to change, no new undo file is written.

    A row that has changed since it was read is left alone. If the process is killed, the undo file
    is complete, and each row is either in its old or in its new state.

    Raises: InputError if the undo file cannot be written, and then nothing is changed; or if the
    collection cannot be read or written.
    """
    with theirs.opened() as rows:
        rows.check_rights()
        present = all_stored(rows, [change.row.id for change in plan.changes])
        plan = plan.without(_changed_since_read(plan.changes, rows, present), _MOVED)
        if not plan.changes:
            return plan
        changed = {
            deletion.row.id: ChangedRow(present[deletion.row.id]) for deletion in plan.deletions
        }
        for name, after in _after(plan.updates, rows, present, reading, now).items():
            new = _new_texts(rows, present[name], after, reading)
            vectors = after.vectors | {slot: made[text] for slot, text in new.items()}
            changed[name] = ChangedRow(present[name], replace(after, vectors=vectors))
        header = UndoHeader(
            kind=theirs.kind,
            place=theirs.address,
            collection=theirs.name,
            collection_id=rows.collection_id,
            sync_threshold=rows.sync_threshold or (begun.header.sync_threshold if begun else None),
            rows=len(changed),
            at=now,
        )
    if begun is None or not begun.holds(changed.values()):
        write_lines(undo_file, [header.model_dump_json(), *(row.line for row in changed.values())])
    with theirs.writing(header) as rows:
        return _carry_out(rows, plan, changed, on_progress)


def _carry_out(
    rows: OpenCollection,
    plan: WriteBackPlan,
    changed: Mapping[str, ChangedRow],
    on_progress: Progress,
) -> WriteBackPlan:
    """Update and delete rows as planned, but skip rows that have changed after the plan was made.

    Return a plan with the changes that were made. `changed` has the planned changes by row id.
    `on_progress` is called with the number of rows done, and the number of all rows to change.
    """
    whole, done = len(plan.changes), 0
    on_progress(done, whole)
    for updates in batches(plan.updates):
        with rows.step():
            present = rows.stored([update.row.id for update in updates])
            moved = _changed_since_read(updates, rows, present)
            after = [changed[update.row.id].after for update in updates]
            rows.put([row for row in after if row is not None and row.id not in moved], present)
        plan = plan.without(moved, _MOVED)
        done += len(updates)
        on_progress(done, whole)
    for deletions in batches(plan.deletions):
        with rows.step():
            ids = {row.id for deletion in deletions for row in (deletion.row, deletion.kept)}
            present = all_stored(rows, list(ids))
            moved = _changed_since_read(deletions, rows, present) | {
                deletion.row.id
                for deletion in deletions
                if not _is_as_planned(deletion.kept, rows, present, changed)
            }
            gone = [deletion.row.id for deletion in deletions if deletion.row.id not in moved]
            if gone:
                rows.delete(gone)
        plan = plan.without(moved, _MOVED)
        done += len(deletions)
        on_progress(done, whole)
    return plan


def _is_as_planned(
    row: ForeignRow,
    rows: OpenCollection,
    present: Mapping[str, Stored],
    changed: Mapping[str, ChangedRow],
) -> bool:
    """Return whether the store now holds the row `row` as the plan wants it.

    The row must have its new text if an update was planned, and must be unchanged otherwise.
    `present` has the rows as the store holds them now, by id. `changed` has the planned changes, by
    row id. Before a row is deleted, this is checked for the row that replaces it.
    """
    stored, planned = present.get(row.id), changed.get(row.id)
    if stored is None:
        return False
    if planned is None:
        return rows.external.as_read(stored).says_the_same(row)
    return planned.after is not None and stored.says_the_same(planned.after)


def _changed_since_read(
    changes: Iterable[RowChange], rows: OpenCollection, present: Mapping[str, Stored]
) -> set[str]:
    """Return the ids of the rows to be changed that are no longer as the plan read them.

    These are rows that somebody changed or deleted. `present` has the rows as the store holds them
    now, by id.
    """
    unchanged = {
        change.row.id
        for change in changes
        if change.row.id in present
        and rows.external.as_read(present[change.row.id]).says_the_same(change.row)
    }
    return {change.row.id for change in changes} - unchanged


def own_work_in(theirs: ExternalStore, files: Iterable[UndoFile], collection_id: str) -> OwnWork:
    """Return the updates that earlier write-backs made in a collection, by row id.

    An update is a pair: the row before and the row after the update. `files` are the undo files of
    the write-backs; undo files of other collections are ignored. Deletions are not returned.
    """
    updates: dict[str, list[tuple[ForeignRow, ForeignRow]]] = {}
    for file in files:
        for row in file.rows if file.header.collection_id == collection_id else ():
            if row.after is not None:
                step = theirs.as_read(row.before), theirs.as_read(row.after)
                updates.setdefault(row.before.id, []).append(step)
    return updates


# --- undoing it -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TakenBack:
    """The result of undoing a write-back.

    `restored`: the number of rows that were put back. `already`: the number of rows that needed no
    change, because they were as before the write-back. `left_alone`: the rows that were skipped,
    because somebody changed them after the write-back.
    """

    restored: int
    already: int
    left_alone: tuple[LeftAlone, ...]


def undo_write_back(
    theirs: ExternalStore, header: UndoHeader, rows: Sequence[ChangedRow], on_progress: Progress
) -> TakenBack:
    """Restore the text, metadata and vectors that each row had before a write-back.

    `header` and `rows` are the content of the write-back's undo file. `on_progress` is called with
    the number of rows that are restored or need no change, and the number of all rows. A row that
    was changed after the write-back is skipped. A second call changes nothing. A write-back that
    was killed before its end can be undone too.

    Raises: InputError if the collection cannot be read or written.
    """
    restored = already = 0
    left: list[LeftAlone] = []
    with theirs.writing(header) as collection:
        for batch in batches(rows):
            with collection.step():
                present = collection.stored([row.before.id for row in batch])
                states = [(row, present.get(row.before.id)) for row in batch]
                todo = [
                    (row, now) for row, now in states if not (now and now.says_the_same(row.before))
                ]
                fit = [row.before for row, now in todo if row.is_done(now)]
                collection.put(fit, present)
            left += [LeftAlone(row.before.id, _MOVED) for row, now in todo if not row.is_done(now)]
            restored += len(fit)
            already += len(batch) - len(todo)
            on_progress(restored + already, len(rows))
    return TakenBack(restored, already, tuple(left))

"""Carry out a write-back and undo it.

A write-back carries the result of a clean-up here over to another program's collection.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from memory.interchange.collection import Embed, ExternalStore, OpenCollection, all_stored, parts
from memory.interchange.foreign import ForeignRow, Reading, changed_keys
from memory.interchange.plan_back import Deletion, LeftAlone, OwnWork, Update, WriteBackPlan
from memory.interchange.undo_file import (
    ChangedRow,
    Stored,
    UndoFile,
    UndoHeader,
    write_undo_file,
)
from memory.models import Vector

logger = logging.getLogger(__name__)

_MOVED = "it changed since it was read"
_OTHER_KIND = "it has a sparse or a multiple vector, which nobody here can make anew"
_NO_EMBEDDER = "no embedder here makes vectors like the collection's: see --embedder"
_SAMPLE = 8
"""The number of stored vectors that an embedder must reproduce before it is used."""
_NEAR = 0.02
"""Up to this relative distance, two vectors count as equal, since embedding services round."""

Tell = Callable[[int, int], None]
"""A progress callback: called with the number of rows that are done, and of all rows."""


# --- vectors of new texts -------------------------------------------------------------------------


def with_vectors(
    theirs: ExternalStore,
    plan: WriteBackPlan,
    rows: Sequence[ForeignRow],
    reading: Reading,
    now: datetime,
    others: Sequence[Embed],
) -> tuple[WriteBackPlan, dict[str, Vector]]:
    """Make the vectors of the new texts that `plan` writes; return the plan, and vectors by text.

    `theirs` is the collection, `rows` all its rows, `reading` how they were read, and `now` the
    time of the update. The collection's own embedder is tried first, then the embedders in
    `others`. In the returned plan, a row is left alone if no embedder can make its vector.
    """
    if not plan.updates:
        return plan, {}
    with theirs.looking() as look:
        there = all_stored(look, list(plan.looked_at))
        after = _after(plan.updates, look, there, reading, now)
        news = {name: _new_texts(look, there[name], one, reading) for name, one in after.items()}
        texts = list(dict.fromkeys(text for new in news.values() for text in new.values()))
        other = [name for name, new in news.items() if not _all_dense(there[name], new)]
        made = vectors_as_theirs(look, rows, reading, texts, others)
    plan = plan.without(other, _OTHER_KIND)
    unmade = [name for name, new in news.items() if not made.keys() >= set(new.values())]
    return plan.without(unmade, _NO_EMBEDDER), made


def _after(
    updates: Iterable[Update],
    rows: OpenCollection,
    there: Mapping[str, Stored],
    reading: Reading,
    now: datetime,
) -> dict[str, Stored]:
    """Return each row as it will be after its update, but with its old vectors, by id.

    `there` has the rows as the store holds them now, by id; updates of other rows are skipped.
    """
    after = {}
    for one in updates:
        stored = there.get(one.row.id)
        lender = None if one.expires_as is None else there.get(one.expires_as.id)
        if stored is not None:
            after[one.row.id] = rows.rewritten(stored, one.new_text, lender, reading, now)
    return after


def _new_texts(
    rows: OpenCollection, before: Stored, after: Stored, reading: Reading
) -> dict[str, str]:
    """Return the texts of a row that need a new vector after its update, by the vector's name."""
    known = rows.texts(before, reading)
    return {
        name: text for name, text in rows.texts(after, reading).items() if known.get(name) != text
    }


def _all_dense(stored: Stored, names: Iterable[str]) -> bool:
    return all(isinstance(stored.vectors[name], np.ndarray) for name in names)


def vectors_as_theirs(
    look: OpenCollection,
    rows: Sequence[ForeignRow],
    reading: Reading,
    texts: Sequence[str],
    others: Sequence[Embed],
) -> dict[str, Vector]:
    """Embed `texts` as the collection does; return a vector for each text, by text.

    The embedder must reproduce the vectors that the collection stores for a sample of `rows`. The
    collection's own embedding function is tried first, then the embedders in `others`. The result
    is empty if none of them fits. `reading` says which key holds the text of a row.
    """
    if not texts:
        return {}
    sample, stored = _sample(look, rows, reading)
    for embed in _embedders(look, others):
        try:
            if _alike(_made(embed, sample), stored):
                return dict(zip(texts, _made(embed, list(texts)), strict=True))
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
    """Return a few of the collection's texts, and their stored vectors as an array (n, dim)."""
    step = max(1, len(rows) // _SAMPLE)
    there = look.stored([row.id for row in rows[::step][:_SAMPLE]])
    pairs = [
        (text, one.vectors[name])
        for one in there.values()
        for name, text in look.texts(one, reading).items()
        if text and isinstance(one.vectors.get(name), np.ndarray)
    ]
    return [text for text, _ in pairs], np.asarray([vector for _, vector in pairs], np.float32)


def _made(embed: Embed, texts: list[str]) -> Any:
    return np.asarray(embed(texts), dtype=np.float32)


def _alike(made: Any, stored: Any) -> bool:
    """Return whether two arrays of vectors (n, dim) are equal up to rounding.

    False if their shapes differ or there are no vectors.
    """
    if made.shape != stored.shape or not len(stored):
        return False
    apart = np.linalg.norm(made - stored, axis=1)
    return bool((apart <= _NEAR * np.linalg.norm(stored, axis=1)).all())


# --- writing it back ------------------------------------------------------------------------------


@dataclass(frozen=True)
class WriteBackDone:
    """The result of a write-back: how many rows were changed, and which rows were left alone."""

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
    """Save the planned changes to an undo file, then carry them out in the collection `theirs`.

    `reading` says how the rows were read, `made` has a vector for each new text, and `now` becomes
    the time of the last update in rows that get a new text. A row that has changed since it was
    read is left alone. If the process is killed, the undo file is complete, and each row is either
    old or new. `begun` is the undo file of an earlier run that was killed, if there is one; if it
    has all rows that are to be changed, no new undo file is written. `on_progress` is called with
    the number of rows that are done and the number of all rows.

    Raises: InputError if the undo file cannot be written, and then nothing is changed; or if the
    collection cannot be read or written.
    """
    with theirs.opened() as rows:
        there = all_stored(rows, list(plan.looked_at))
        moved = [
            name for name, row in plan.looked_at.items() if not _is_unchanged(rows, there, row)
        ]
        plan = plan.without(moved, _MOVED)
        if not plan.changes:
            return WriteBackDone(0, 0, plan.left_alone)
        changed = _changed(plan, rows, there, reading, now, made)
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
        write_undo_file(undo_file, header, list(changed.values()))
    with theirs.writing(header) as rows:
        return _carry_out(rows, plan, changed, on_progress)


def _changed(
    plan: WriteBackPlan,
    rows: OpenCollection,
    there: Mapping[str, Stored],
    reading: Reading,
    now: datetime,
    made: Mapping[str, Vector],
) -> dict[str, ChangedRow]:
    """Return each row that the plan changes, as it is now and as it will be, by id.

    `there` has the rows as the store holds them now, by id; `made` has the vectors of new texts, by
    text.
    """
    changed = {one.row.id: ChangedRow(there[one.row.id]) for one in plan.deletions}
    for name, after in _after(plan.updates, rows, there, reading, now).items():
        new = _new_texts(rows, there[name], after, reading)
        vectors = after.vectors | {slot: made[text] for slot, text in new.items()}
        changed[name] = ChangedRow(there[name], replace(after, vectors=vectors))
    return changed


def _carry_out(
    rows: OpenCollection,
    plan: WriteBackPlan,
    changed: Mapping[str, ChangedRow],
    on_progress: Tell,
) -> WriteBackDone:
    """Update and delete rows as planned, and leave rows alone that have changed meanwhile.

    `changed` has the planned changes by row id. `on_progress` is called with the number of rows
    that are done, and the number of all rows to change.
    """
    whole, done = len(plan.changes), 0
    on_progress(done, whole)
    for updates in parts(plan.updates):
        with rows.step():
            there = rows.stored([one.row.id for one in updates])
            moved = [one.row.id for one in updates if not _is_unchanged(rows, there, one.row)]
            plan = plan.without(moved, _MOVED)
            wanted = [changed[one.row.id] for one in updates if one.row.id not in moved]
            rows.put([_updated(one, there[one.before.id]) for one in wanted], there)
        done += len(updates)
        on_progress(done, whole)
    for deletions in parts(plan.deletions):
        with rows.step():
            there = all_stored(
                rows, list({row.id for one in deletions for row in (one.row, one.kept)})
            )
            moved = [one.row.id for one in deletions if not _still_fits(one, rows, there, changed)]
            plan = plan.without(moved, _MOVED)
            gone = [one.row.id for one in deletions if one.row.id not in moved]
            if gone:
                rows.delete(gone)
        done += len(deletions)
        on_progress(done, whole)
    return WriteBackDone(len(plan.updates), len(plan.deletions), plan.left_alone)


def _updated(one: ChangedRow, there: Stored) -> Stored:
    """Return the row as an update has to write it; `there` is the row as the store holds it now.

    Values that the store may change by itself, such as an expiry, are taken from `there`, except
    those that the update sets.
    """
    assert one.after is not None
    new = changed_keys(one.before.beside, one.after.beside)
    return replace(one.after, beside=there.beside | new)


def _still_fits(
    one: Deletion,
    rows: OpenCollection,
    there: Mapping[str, Stored],
    changed: Mapping[str, ChangedRow],
) -> bool:
    """Return whether a row may still be deleted, given the rows that the store holds now (`there`).

    It may if it has not changed since it was read, and the row that replaces it is as planned: with
    its new text if it was to be updated (`changed`), otherwise unchanged.
    """
    if not _is_unchanged(rows, there, one.row):
        return False
    survivor = changed.get(one.kept.id)
    if survivor is None:
        return _is_unchanged(rows, there, one.kept)
    kept, final = there.get(one.kept.id), survivor.after
    return kept is not None and final is not None and kept.says_the_same(final)


def _is_unchanged(rows: OpenCollection, there: Mapping[str, Stored], row: ForeignRow) -> bool:
    """Return whether a row is still as it was read; `there` has the store's rows now, by id."""
    stored = there.get(row.id)
    return stored is not None and rows.external.as_read(stored).says_the_same(row)


def finish_write_back(theirs: ExternalStore, header: UndoHeader) -> None:
    """Restore the settings that a write-back changed in the collection before it was killed.

    `header` is the first line of its undo file, which has the settings. No row is changed.
    """
    with theirs.writing(header):
        pass


def own_work_in(theirs: ExternalStore, files: Iterable[UndoFile], collection_id: str) -> OwnWork:
    """Return the updates that earlier write-backs made in a collection, by row id.

    Each update is the row before and after it. `files` are the undo files of earlier write-backs;
    files of other collections, and deletions, are ignored.
    """
    found: dict[str, list[tuple[ForeignRow, ForeignRow]]] = {}
    for file in files:
        for row in file.rows if file.header.collection_id == collection_id else ():
            if row.after is not None:
                step = theirs.as_read(row.before), theirs.as_read(row.after)
                found.setdefault(row.before.id, []).append(step)
    return found


# --- undoing it -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TakenBack:
    """The result of undoing a write-back.

    `restored` is the number of rows that were put back, `already` the number of rows that were as
    before the write-back without that, and `left_alone` has the rows that were changed later.
    """

    restored: int
    already: int
    left_alone: tuple[LeftAlone, ...]


def undo_write_back(
    theirs: ExternalStore, header: UndoHeader, rows: Sequence[ChangedRow], on_progress: Tell
) -> TakenBack:
    """Restore the text, metadata and vectors of each row as they were before the write-back.

    `header` and `rows` are the content of the write-back's undo file. A row that has changed since
    the write-back is left alone. A second call is harmless. A write-back that was killed halfway
    can be undone too. `on_progress` is called with the number of rows that are as before, and the
    number of all rows.

    Raises: InputError if the collection cannot be read or written.
    """
    restored = already = 0
    left: list[LeftAlone] = []
    with theirs.writing(header) as collection:
        for batch in parts(rows):
            with collection.step():
                there = collection.stored([row.before.id for row in batch])
                todo = [row for row in batch if not _is_old(there.get(row.before.id), row)]
                fit = [row for row in todo if _is_written(there.get(row.before.id), row)]
                collection.put([_restored(row, there.get(row.before.id)) for row in fit], there)
            left += [LeftAlone(row.before.id, _MOVED) for row in todo if row not in fit]
            restored += len(fit)
            already += len(batch) - len(todo)
            on_progress(restored + already, len(rows))
    return TakenBack(restored, already, tuple(left))


def _is_old(there: Stored | None, row: ChangedRow) -> bool:
    """Return whether a row is as before the write-back; `there` is the row in the store now.

    If the write-back gave the row another expiry, the row must not have that expiry any more.
    """
    if there is None or not there.says_the_same(row.before):
        return False
    new = {} if row.after is None else changed_keys(row.before.beside, row.after.beside)
    return not new or there.beside | new != there.beside


def _is_written(there: Stored | None, row: ChangedRow) -> bool:
    """Return whether a row is as the write-back left it; `there` is the row in the store now.

    `there` is None if the store does not hold the row.
    """
    if row.after is None or there is None:
        return row.after is None and there is None
    return there.says_the_same(row.after)


def _restored(row: ChangedRow, there: Stored | None) -> Stored:
    """Return the row as it has to be written to undo the write-back.

    It is the row as it was before; but values that the store may change by itself, such as an
    expiry, stay as they are in `there` (the row now) if they changed after the write-back.
    """
    if there is None or row.after is None:
        return row.before
    after = row.after.beside
    kept = {key for key, value in after.items() if there.beside.get(key) != value}
    old = {key: value for key, value in row.before.beside.items() if key not in kept}
    return replace(row.before, beside=there.beside | old)

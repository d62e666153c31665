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
    """Embed the new texts that `plan` writes; return a plan, and the new vectors by text.

    `theirs` is the collection, `rows` has all its rows, and `reading` says how they were read.
    `now` is the time of the update. The collection's own embedding function is tried first, then
    the functions in `others`. The returned plan does not change rows whose new vectors could not be
    made; it has them in `left_alone`.
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
    """Return each row, by id, as it will be after its update, but with its old vectors.

    `updates`: the planned updates; `reading`: how the rows were read; `now`: the time of the
    update. `there` has the rows as the store holds them now, by id. An update of a row that is not
    in `there` is skipped.
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
    """Return the texts for which a row needs a new vector after its update, by the vector's name.

    `before` and `after` are the row before and after the update.
    """
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
    """Embed `texts` in the same way as a collection; return a vector for each text, by text.

    `look` is the open collection, and `rows` has its rows. An embedding function fits if it
    reproduces the vectors that the collection stores for a sample of the rows. The collection's own
    function is tried first, then the functions in `others`. The result is empty if no function
    fits. `reading` says which metadata key holds the text of a row.
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
    """Return whether two arrays of vectors, of shape (n, dim), are equal up to rounding.

    Return False if their shapes differ or there are no vectors.
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
    """Save the planned changes to an undo file, then make them in the collection `theirs`.

    `reading`: how the rows were read. `undo_file`: path of the new undo file. `now`: becomes the
    time of the last update in rows that get a new text. `made`: a vector for each new text, by
    text. `on_progress`: called with the number of rows done, and the number of all rows to change.
    `begun`: the undo file of an earlier run that was killed; None if there is none. If it has all
    rows that are to be changed, no new undo file is written.

    A row that has changed since it was read is left alone. If the process is killed, the undo file
    is complete, and each row is either in its old or in its new state.

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
    """Return the planned changes by row id: each row as it is now, and as it will be.

    `there` has the rows as the store holds them now, by id. `made` has the vectors of new texts, by
    text. `reading` says how the rows were read. `now` becomes the time of the last update in rows
    that get a new text.
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
    """Update and delete rows as planned, but skip rows that have changed after the plan was made.

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
    """Return the row in the form in which an update writes it.

    `there` is the row as the store holds it now. The store may change some values by itself, such
    as an expiry. They are taken from `there`, unless the update sets them.
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
    """Return whether a row may still be deleted.

    The row itself must not have changed since it was read. The row that replaces it must be as
    planned: it has its new text if an update was planned, otherwise it is unchanged. `there` has
    the rows as the store holds them now, by id; `changed` has the planned changes by row id.
    """
    if not _is_unchanged(rows, there, one.row):
        return False
    survivor = changed.get(one.kept.id)
    if survivor is None:
        return _is_unchanged(rows, there, one.kept)
    kept, final = there.get(one.kept.id), survivor.after
    return kept is not None and final is not None and kept.says_the_same(final)


def _is_unchanged(rows: OpenCollection, there: Mapping[str, Stored], row: ForeignRow) -> bool:
    """Return whether a row has not changed since it was read.

    `there` has the rows as the store holds them now, by id.
    """
    stored = there.get(row.id)
    return stored is not None and rows.external.as_read(stored).says_the_same(row)


def finish_write_back(theirs: ExternalStore, header: UndoHeader) -> None:
    """Restore the collection's settings after a write-back was killed while it ran.

    A write-back changes such settings for the time that it runs. `header` is the first line of its
    undo file, which has the old settings. No row is changed.
    """
    with theirs.writing(header):
        pass


def own_work_in(theirs: ExternalStore, files: Iterable[UndoFile], collection_id: str) -> OwnWork:
    """Return the updates that earlier write-backs made in a collection, by row id.

    An update is a pair: the row before and after it. `files` are undo files; those of other
    collections are ignored. Deletions are ignored too.
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

    `restored`: the number of rows that were put back. `already`: the number of rows that did not
    need this, as they were already as before the write-back. `left_alone`: the rows that somebody
    changed after the write-back, and that were therefore skipped.
    """

    restored: int
    already: int
    left_alone: tuple[LeftAlone, ...]


def undo_write_back(
    theirs: ExternalStore, header: UndoHeader, rows: Sequence[ChangedRow], on_progress: Tell
) -> TakenBack:
    """Restore the text, metadata and vectors that each row had before a write-back.

    `header` and `rows` are the content of the write-back's undo file. `on_progress` is called with
    the number of rows that are restored or need no change, and the number of all rows. A row that
    was changed after the write-back is skipped. A second call does no harm. A write-back that was
    killed before its end can be undone too.

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
    """Return whether a row in the store is as it was before the write-back.

    `there` is the row as the store holds it now; None if the store does not hold it. If the
    write-back changed the row's expiry, the row must not have the new expiry any more.
    """
    if there is None or not there.says_the_same(row.before):
        return False
    new = {} if row.after is None else changed_keys(row.before.beside, row.after.beside)
    return not new or there.beside | new != there.beside


def _is_written(there: Stored | None, row: ChangedRow) -> bool:
    """Return whether a row in the store is as the write-back left it.

    `there` is the row as the store holds it now; None if the store does not hold it.
    """
    if row.after is None or there is None:
        return row.after is None and there is None
    return there.says_the_same(row.after)


def _restored(row: ChangedRow, there: Stored | None) -> Stored:
    """Return the row in the form in which it is written to undo the write-back.

    This is the row as it was before the write-back, with one exception. The store may change some
    values by itself, such as an expiry. If such a value changed after the write-back, it is taken
    from `there`, the row as the store holds it now.
    """
    if there is None or row.after is None:
        return row.before
    after = row.after.beside
    kept = {key for key, value in after.items() if there.beside.get(key) != value}
    old = {key: value for key, value in row.before.beside.items() if key not in kept}
    return replace(row.before, beside=there.beside | old)

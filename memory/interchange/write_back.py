"""Carry out a plan in another program's collection, and undo it."""

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
"""Stored vectors that an embedder must reproduce."""
_NEAR = 0.02
"""The relative distance at which two vectors count as equal: services round."""

Tell = Callable[[int, int], None]


# --- vectors of new texts -------------------------------------------------------------------------


def with_vectors(
    theirs: ExternalStore,
    plan: WriteBackPlan,
    rows: Sequence[ForeignRow],
    reading: Reading,
    now: datetime,
    others: Sequence[Embed],
) -> tuple[WriteBackPlan, dict[str, Vector]]:
    """Return a vector for each new text, and the plan without rows whose vector cannot be made."""
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
    """Return each updated row that is there by its id, with its old vectors."""
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
    """Return the texts whose vectors have to be made, by the name of the vector."""
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
    """Return a vector for each text; empty where no embedder here fits the collection.

    The collection's own embedding function is tried first. An embedder fits if it reproduces the
    stored vectors of some texts.
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
    own: Embed | None = None
    try:
        own = look.own_embedder()
    except Exception as exc:  # somebody else's code: its library or its key may be missing here
        logger.warning("the collection's own embedder is not here: %s", exc)
    yield from others if own is None else (own, *others)


def _sample(
    look: OpenCollection, rows: Sequence[ForeignRow], reading: Reading
) -> tuple[list[str], Any]:
    """Return some texts of the collection, and their vectors `(n, dim)`."""
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
    if made.shape != stored.shape or not len(stored):
        return False
    apart = np.linalg.norm(made - stored, axis=1)
    return bool((apart <= _NEAR * np.linalg.norm(stored, axis=1)).all())


# --- writing it back ------------------------------------------------------------------------------


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

    `made` has a vector for each new text. A kill leaves the file whole, and each row either old or
    new. `begun` is the undo file of a run that was killed: if it holds every row that is left to
    change, no other file is written.

    Raises: InputError; nothing is written where the file cannot be.
    """
    with theirs.opened() as rows:
        there = all_stored(rows, list(plan.looked_at))
        moved = [name for name, row in plan.looked_at.items() if not _is(rows, there, row)]
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
    """Return the rows that change, as they are and as they will be, by id."""
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
    whole, done = len(plan.changes), 0
    on_progress(done, whole)
    for updates in parts(plan.updates):
        with rows.step():
            there = rows.stored([one.row.id for one in updates])
            moved = [one.row.id for one in updates if not _is(rows, there, one.row)]
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
    """Return the row after an update; what the store changed by itself meanwhile stays."""
    assert one.after is not None
    new = changed_keys(one.before.beside, one.after.beside)
    return replace(one.after, beside=there.beside | new)


def _still_fits(
    one: Deletion,
    rows: OpenCollection,
    there: Mapping[str, Stored],
    changed: Mapping[str, ChangedRow],
) -> bool:
    """Whether a row is as it was read, and the row that stands for it has its final text."""
    if not _is(rows, there, one.row):
        return False
    survivor = changed.get(one.kept.id)
    if survivor is None:
        return _is(rows, there, one.kept)
    kept, final = there.get(one.kept.id), survivor.after
    return kept is not None and final is not None and kept.says_the_same(final)


def _is(rows: OpenCollection, there: Mapping[str, Stored], row: ForeignRow) -> bool:
    stored = there.get(row.id)
    return stored is not None and rows.external.as_read(stored).says_the_same(row)


def finish_write_back(theirs: ExternalStore, header: UndoHeader) -> None:
    """Restore the store's settings that a killed run had changed."""
    with theirs.writing(header):
        pass


def own_work_in(theirs: ExternalStore, files: Iterable[UndoFile], collection_id: str) -> OwnWork:
    """Return what write-backs made of the rows of a collection, from their undo files."""
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
    """The number of rows that were put back, or were old already, and the rows left alone."""

    restored: int
    already: int
    left_alone: tuple[LeftAlone, ...]


def undo_write_back(
    theirs: ExternalStore, header: UndoHeader, rows: Sequence[ChangedRow], on_progress: Tell
) -> TakenBack:
    """Restore every row's text, metadata and vectors; leave rows alone that changed since.

    It may be repeated, and works after a write-back that was killed.

    Raises: InputError.
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
    """Whether a row is as it was, and has not the expiry that the write-back gave it."""
    if there is None or not there.says_the_same(row.before):
        return False
    new = {} if row.after is None else changed_keys(row.before.beside, row.after.beside)
    return not new or there.beside | new != there.beside


def _is_written(there: Stored | None, row: ChangedRow) -> bool:
    if row.after is None or there is None:
        return row.after is None and there is None
    return there.says_the_same(row.after)


def _restored(row: ChangedRow, there: Stored | None) -> Stored:
    """Return the row before the write-back; an expiry that was refreshed since stays."""
    if there is None or row.after is None:
        return row.before
    after = row.after.beside
    kept = {key for key, value in after.items() if there.beside.get(key) != value}
    old = {key: value for key, value in row.before.beside.items() if key not in kept}
    return replace(row.before, beside=there.beside | old)

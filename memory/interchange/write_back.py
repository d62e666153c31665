"""Carry out a planned write-back, save an undo file for it, and undo a write-back."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import TypeAdapter, ValidationError

from memory.errors import InputError
from memory.interchange.collection import (
    Embed,
    ExternalStore,
    Kind,
    OpenCollection,
    Stored,
    all_stored,
    batches,
    changes_for,
)
from memory.interchange.foreign import ForeignRow, Reading
from memory.interchange.jsonl import json_line
from memory.interchange.plan_back import (
    Deletion,
    LeftAlone,
    OwnWork,
    Update,
    WriteBackPlan,
)
from memory.ledger import Ledger
from memory.models import Frozen, Progress, UtcTime, Vector
from memory.runtime import read_objects, replacing

logger = logging.getLogger(__name__)

_MOVED = "it changed since it was read"
_OTHER_KIND = "it has a sparse or a multiple vector, which nobody here can make anew"
_NO_EMBEDDER = "no embedder here makes vectors like the collection's: see --embedder"
_SAMPLE = 8  # stored vectors that an embedder must reproduce before it is used
_NEAR = 0.02  # the relative distance of vectors that count as equal, as services round
_READING_OF, _WRITE_BACKS_OF = "read_from:", "written_back:"


# --- vectors of new texts -------------------------------------------------------------------------


def with_vectors(
    theirs: ExternalStore,
    plan: WriteBackPlan,
    rows: Sequence[ForeignRow],
    reading: Reading,
    now: datetime,
    others: Sequence[Embed],
) -> tuple[WriteBackPlan, dict[str, Vector]]:
    """Embed the new texts that `plan` writes; return a new plan, and a dict from text to vector.

    The new plan leaves a row alone if its new vectors cannot be made.

    `rows`: all rows of the collection. `now`: the time of the update. `others`: embedding functions
    to try after the collection's own.

    >>> theirs, found = notes.opened()[0], notes.opened()[0].found()
    >>> plan = WriteBackPlan((), (), (), 0)
    >>> with_vectors(theirs, plan, found.rows, notes.reading, datetime.now(UTC), [])[1]
    {}
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
    """Return the updated rows, by id, with their new texts but with their old vectors.

    `rows` is the open collection. `present` maps ids to the rows that the collection has now.
    Updates of rows that are not in `present` are left out.
    """
    found = ((present[one.row.id], one) for one in updates if one.row.id in present)
    read = ((stored, rows.external.as_read(stored), update) for stored, update in found)
    after = {}
    for stored, row, update in read:
        document, changes = changes_for(row, update.text, update.said_at, reading, now)
        after[stored.id] = rows.changed(stored, document, {**changes, **update.marks}, now)
    return after


def _new_texts(
    rows: OpenCollection, before: Stored, after: Stored, reading: Reading
) -> dict[str, str]:
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
    """Return a vector for each text, made by the embedding function of the collection.

    The function is found by trial: it must reproduce the stored vectors of some rows. The
    collection's configured function is tried first, then the functions in `others`. If none fits,
    the result is empty.
    """
    if not texts:
        return {}
    embedders = list(others)
    try:
        if (own := look.own_embedder()) is not None:
            embedders.insert(0, own)
    except Exception as exc:  # somebody else's code: its library or its key may be missing here
        logger.warning("the collection's own embedder is not here: %s", exc)
    sample, stored = _sample(look, rows, reading)
    for embed in embedders:
        try:
            if _alike(np.asarray(embed(sample), dtype=np.float32), stored):
                made = np.asarray(embed(list(texts)), dtype=np.float32)
                return dict(zip(texts, made, strict=True))
        except Exception as exc:  # somebody else's code may raise anything; the next one is tried
            logger.warning("an embedder could not be used: %s", exc)
    return {}


def _sample(
    look: OpenCollection, rows: Sequence[ForeignRow], reading: Reading
) -> tuple[list[str], Any]:
    chosen = rows[:: max(1, len(rows) // _SAMPLE)][:_SAMPLE]
    pairs = [
        (text, stored.vectors[name])
        for stored in look.stored([row.id for row in chosen]).values()
        for name, text in look.texts(stored, reading).items()
        if text and isinstance(stored.vectors.get(name), np.ndarray)
    ]
    return [text for text, _ in pairs], np.asarray([vector for _, vector in pairs], np.float32)


def _alike(made: Any, stored: Any) -> bool:
    if made.shape != stored.shape or not len(stored):
        return False
    apart = np.linalg.norm(made - stored, axis=1)
    return bool((apart <= _NEAR * np.linalg.norm(stored, axis=1)).all())


# --- the undo file --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ChangedRow:
    """A row before and after a write-back; `after` is None if the write-back deletes the row."""

    before: Stored
    after: Stored | None = None

    def is_done(self, present: Stored | None) -> bool:
        """Return whether the row is as the write-back leaves it.

        `present` is the row as it is now; None if it is deleted.
        """
        if self.after is None or present is None:
            return self.after is present
        return present.has_same_content(self.after)

    @property
    def line(self) -> str:
        """The change as a line of JSON for the undo file, without the vectors of `after`."""
        after = None if self.after is None else replace(self.after, vectors={})
        changed = ChangedRow(self.before, after)
        return json_line(_ROW.dump_python(changed, exclude_defaults=True))

    @property
    def sorted_line(self) -> str:
        return json.dumps(json.loads(self.line), sort_keys=True)


_ROW = TypeAdapter(ChangedRow)


class UndoHeader(Frozen):
    """The first line of an undo file: which collection was changed, and when.

    `rows` is the number of lines that follow. `sync_threshold` is a setting of Chroma, which is
    restored at the end; None stands for Chroma's default. `at` is the time when the write-back
    began. It is also written to updated rows as the time of their last update. If the write-back
    is killed, the run that finishes it uses the same time.
    """

    format: Literal["memory-dedup write-back 2"] = "memory-dedup write-back 2"
    kind: Kind
    place: str
    collection: str
    collection_id: str
    sync_threshold: int | None
    rows: int
    at: UtcTime


@dataclass(frozen=True)
class UndoFile:
    """An undo file that was read: the header, and each row before and after its change.

    >>> from memory import undo_write_back, write_back
    >>> report = await import_memories(notes, config)
    >>> done = write_back(notes, config, approve=lambda plan: True)
    >>> undo = read_undo_file(done.undo_files[-1])
    >>> undone = undo_write_back(undo.path)
    >>> undo.header.kind, len(undo.rows)
    ('langgraph', 1)
    """

    path: Path
    header: UndoHeader
    rows: list[ChangedRow]

    def holds(self, rows: Iterable[ChangedRow]) -> bool:
        known = {row.before.id: row.sorted_line for row in self.rows}
        return all(known.get(row.before.id) == row.sorted_line for row in rows)


def write_lines(file: Path, lines: Iterable[str]) -> None:
    """Write lines to a new file that only its owner may read.

    When this function returns, the file is safely on disk. If it raises, it leaves no new file.

    Raises: InputError if the file exists or cannot be written.
    """
    if file.exists():
        raise InputError(file, "exists already", "name a new file with --undo-file")
    try:
        with replacing(file) as part:
            handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.writelines(f"{line}\n" for line in lines)
    except OSError as exc:
        raise InputError(file, f"cannot be written: {exc.strerror}", "name another file") from exc


def read_undo_file(file: Path) -> UndoFile:
    """Read an undo file.

    >>> size = Path("undo.jsonl").write_text('{"other": 1}')
    >>> read_undo_file(Path("undo.jsonl"))
    Traceback (most recent call last):
        ...
    memory.errors.InputError: undo.jsonl: is no undo file of a write-back; give the file it...

    Raises: InputError if it cannot be read, is incomplete, or is not an undo file.
    """
    whole: list[dict[str, Any]] = []
    for number, line in read_objects(file, not_finite=True):
        if isinstance(line, ValueError):
            raise InputError(file, str(line), "give the undo file that write-back wrote", number)
        whole.append(line)
    try:
        header = UndoHeader.model_validate_json(json.dumps(whole[0] if whole else {}))
        rows = [_ROW.validate_python(line) for line in whole[1:]]
    except ValidationError as exc:
        raise InputError(file, "is no undo file of a write-back", "give the file it wrote") from exc
    if len(rows) != header.rows:
        raise InputError(file, f"has {len(rows):,} of its {header.rows:,} rows", "it was cut off")
    return UndoFile(file, header, rows)


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

    A row is skipped if it has changed since it was read. A row that is to be deleted is also
    skipped if the row that replaces it was skipped or has changed. Return a copy of `plan` that
    has only the changes that were made. The copy's `left_alone` also has the skipped rows.

    `reading`: how the rows were read as memories. `now`: the time of the updates. `made`: a vector
    for each new text, by text. `on_progress`: called with the number of rows done, and the number
    of all rows to change. `begun`: the undo file of an earlier run that was killed, or None. If
    `begun` has the same changes of all these rows, `undo_file` is not written.

    The undo file is complete before the first row is changed. If the process is killed after that,
    each row is either in its old or in its new state.

    >>> report = await import_memories(notes, config)
    >>> plan, theirs, now = compare(notes, config).plan, notes.opened()[0], datetime.now(UTC)
    >>> done = write_back(theirs, plan, notes.reading, Path("mine.jsonl"), now, {})
    >>> undo = read_undo_file(Path("mine.jsonl"))
    >>> undone = undo_write_back(theirs, undo.header, undo.rows, lambda done, total: None)
    >>> len(done.deletions), undone.restored
    (1, 1)

    Raises: InputError if the undo file cannot be written (then nothing is changed), or if the
    collection cannot be read or written.
    """
    with theirs.opened() as rows:
        rows.check_rights()
        present = all_stored(rows, [change.row.id for change in plan.changes])
        moved = {
            change.row.id for change in plan.changes if not _is_unchanged(change.row, rows, present)
        }
        plan = plan.without(moved, _MOVED)
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
    with theirs.writing(header.collection_id, header.sync_threshold) as rows:
        return _carry_out(rows, plan, changed, on_progress)


def _carry_out(
    rows: OpenCollection,
    plan: WriteBackPlan,
    changed: Mapping[str, ChangedRow],
    on_progress: Progress,
) -> WriteBackPlan:
    whole, done = len(plan.changes), 0
    on_progress(done, whole)
    for batch in (*batches(plan.updates), *batches(plan.deletions)):
        ids = {change.row.id for change in batch}
        kept = {change.row.id: change.kept for change in batch if isinstance(change, Deletion)}
        with rows.step():
            present = all_stored(rows, list(ids | {row.id for row in kept.values()}))
            moved = {
                change.row.id for change in batch if not _is_unchanged(change.row, rows, present)
            }
            moved |= {
                name
                for name, row in kept.items()
                if not (
                    changed[row.id].is_done(present.get(row.id))
                    if row.id in changed
                    else _is_unchanged(row, rows, present)
                )
            }
            plan = plan.without(moved, _MOVED)
            new = (changed[update.row.id].after for update in plan.updates if update.row.id in ids)
            rows.put([row for row in new if row is not None], present)
            if gone := [deletion.row.id for deletion in plan.deletions if deletion.row.id in ids]:
                rows.delete(gone)
        done += len(batch)
        on_progress(done, whole)
    return plan


def _is_unchanged(row: ForeignRow, rows: OpenCollection, present: Mapping[str, Stored]) -> bool:
    stored = present.get(row.id)
    return stored is not None and rows.external.as_read(stored).has_same_content(row)


def own_work_in(theirs: ExternalStore, files: Iterable[UndoFile], collection_id: str) -> OwnWork:
    """Return the updates that earlier write-backs made in a collection, by row id.

    Each update is a pair: the row before the update and the row after it. `files` are undo files of
    write-backs; undo files of other collections are ignored.

    >>> own_work_in(notes.opened()[0], [], "langgraph:unknown")
    {}
    """
    updates: dict[str, list[tuple[ForeignRow, ForeignRow]]] = {}
    for file in files:
        for row in file.rows if file.header.collection_id == collection_id else ():
            if row.after is not None:
                updates.setdefault(row.before.id, []).append(
                    (theirs.as_read(row.before), theirs.as_read(row.after))
                )
    return updates


# --- notes in the ledger --------------------------------------------------------------------------


def note_reading(ledger: Ledger, collection_id: str, reading: Reading) -> None:
    """Note in the ledger how a collection was read, so that a write-back reads it the same way."""
    with ledger.writing() as writer:
        writer.set_meta(_READING_OF + collection_id, reading.model_dump_json())


def noted_reading(ledger: Ledger, collection_id: str) -> Reading | None:
    """Return how a collection was read at its import; None if it was never imported.

    >>> noted_reading(store.ledger, "langgraph:unknown")
    >>> report = await import_memories(notes, config)
    >>> noted_reading(store.ledger, notes.opened()[0].found().collection_id).user_key
    'namespace'
    """
    with ledger.reading() as reader:
        noted = reader.meta(_READING_OF + collection_id)
    return None if noted is None else Reading.model_validate_json(noted)


def noted_runs(ledger: Ledger, collection_id: str) -> dict[Path, bool]:
    """Map the undo file of each write-back of a collection to whether the write-back finished.

    The write-back that began or ended last comes last. A write-back is left out if its undo file no
    longer exists.

    >>> noted_runs(store.ledger, "langgraph:unknown")
    {}
    """
    with ledger.reading() as reader:
        notes = json.loads(reader.meta(_WRITE_BACKS_OF + collection_id) or "[]")
    return {file: note["finished"] for note in notes if (file := Path(note["undo_file"])).is_file()}


def note_run(ledger: Ledger, collection_id: str, undo_file: Path, *, finished: bool) -> None:
    """Note in the ledger that the write-back with this undo file began or, if `finished`, ended."""
    runs = noted_runs(ledger, collection_id)
    runs.pop(undo_file, None)
    runs[undo_file] = finished  # as the last one
    notes = [{"undo_file": str(file), "finished": done} for file, done in runs.items()]
    with ledger.writing() as writer:
        writer.set_meta(_WRITE_BACKS_OF + collection_id, json.dumps(notes))


# --- undoing it -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TakenBack:
    """The result of undoing a write-back.

    `restored` is the number of rows that were restored. `already` is the number of rows that needed
    no change, because they were as before the write-back. The rows in `left_alone` were changed
    after the write-back, so they were skipped.

    >>> from memory import undo_write_back, write_back
    >>> report = await import_memories(notes, config)
    >>> done = write_back(notes, config, approve=lambda plan: True)
    >>> undo_write_back(done.undo_files[-1])
    TakenBack(restored=1, already=0, left_alone=())
    """

    restored: int
    already: int
    left_alone: tuple[LeftAlone, ...]


def undo_write_back(
    theirs: ExternalStore, header: UndoHeader, rows: Sequence[ChangedRow], on_progress: Progress
) -> TakenBack:
    """Restore the text, metadata and vectors that each row had before a write-back.

    `header` and `rows` are the content of the undo file. `on_progress` is called with the number of
    rows that are again as before the write-back, and the number of all rows. A row that was changed
    after the write-back is skipped. A write-back that was killed can be undone too.

    >>> report = await import_memories(notes, config)
    >>> done = compare(notes, config).write()
    >>> undo = read_undo_file(done.undo_files[-1])
    >>> undo_write_back(notes.opened()[0], undo.header, undo.rows, lambda done, total: None)
    TakenBack(restored=1, already=0, left_alone=())

    Raises: InputError if the collection cannot be read or written.
    """
    restored = already = 0
    left: list[LeftAlone] = []
    with theirs.writing(header.collection_id, header.sync_threshold) as collection:
        for batch in batches(rows):
            with collection.step():
                present = collection.stored([row.before.id for row in batch])
                states = [(row, present.get(row.before.id)) for row in batch]
                todo = [
                    (row, now)
                    for row, now in states
                    if not (now and now.has_same_content(row.before))
                ]
                fit = [row.before for row, now in todo if row.is_done(now)]
                collection.put(fit, present)
            left += [LeftAlone(row.before.id, _MOVED) for row, now in todo if not row.is_done(now)]
            restored += len(fit)
            already += len(batch) - len(todo)
            on_progress(restored + already, len(rows))
    return TakenBack(restored, already, tuple(left))

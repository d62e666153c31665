"""A plan carried out in somebody else's collection, and taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from memory.errors import InputError
from memory.index import Collection, chroma_faults
from memory.interchange.chroma import Place, named_collection, opened, said
from memory.interchange.foreign import ForeignRow, Reading
from memory.interchange.plan_back import Deletion, LeftAlone, WriteBackPlan, rewritten
from memory.interchange.undo_file import (
    Becomes,
    RowBefore,
    UndoHeader,
    exact_numbers,
    write_undo_file,
)
from memory.models import Vector

_AT_ONCE = 100
_NEVER = 10**9
_USUAL = 1_000
"""How many writes Chroma waits by itself before it rewrites its files."""
_MOVED = "it changed since it was read"
_GIVER_MOVED = "the row whose vector it was to have changed since it was read"

T = TypeVar("T")

Tell = Callable[[int, int], None]


@dataclass(frozen=True)
class WriteBackDone:
    """What was written, and what was not after all."""

    updated: int
    deleted: int
    left_alone: tuple[LeftAlone, ...]


@dataclass(frozen=True)
class _Stored:
    """A row as it stands in the collection."""

    document: str | None
    metadata: dict[str, Any]
    embedding: Vector

    def says(self, document: str | None, metadata: Mapping[str, Any]) -> bool:
        return self.document == document and self.metadata == metadata


def write_back(
    place: Place,
    name: str,
    plan: WriteBackPlan,
    reading: Reading,
    undo_file: Path,
    now: datetime,
    made: Mapping[str, Vector],
    on_progress: Tell = lambda _done, _whole: None,
) -> WriteBackDone:
    """The old rows to the undo file, then updates, then deletions; each looked at again before.

    `made` has a vector for each text that no row has. A kill leaves the file whole, and each row
    either as it was or as it was to be.

    Raises: InputError; nothing is written where the file cannot be.
    """
    with opened(place) as client:
        collection = named_collection(client, place, name)
        there = _stored(collection, list(_rows_of(plan)))
        plan = _as_read(plan, there)
        before = _before(plan, there, reading, now)
        if not before:
            return WriteBackDone(0, 0, plan.left_alone)
        vectors = _vectors(plan, there, made)
        header = UndoHeader(
            place=_address(place),
            collection=name,
            collection_id=str(collection.id),
            sync_threshold=_threshold(collection),
            rows=len(before),
        )
    write_undo_file(undo_file, header, list(before.values()))
    with _unsynced(place, name, header.sync_threshold) as collection:
        return _carry_out(collection, plan, before, vectors, on_progress)


def _rows_of(plan: WriteBackPlan) -> dict[str, ForeignRow]:
    """Those that change, and those whose vectors they get."""
    given = (one.same_as for one in plan.updates if one.same_as is not None)
    return {row.id: row for row in (*(one.row for one in plan.changes), *given)}


def _as_read(plan: WriteBackPlan, there: Mapping[str, _Stored]) -> WriteBackPlan:
    """What is left to do where rows changed since they were read."""
    moved = {name for name, row in _rows_of(plan).items() if not _is(there.get(name), row)}
    given = [one.row.id for one in plan.updates if one.same_as and one.same_as.id in moved]
    return plan.without(moved, _MOVED).without(given, _GIVER_MOVED)


def _before(
    plan: WriteBackPlan, there: Mapping[str, _Stored], reading: Reading, now: datetime
) -> dict[str, RowBefore]:
    """The rows that change as they are, with their vectors."""
    becomes = {
        one.row.id: Becomes(document=document, metadata=changes)
        for one in plan.updates
        for document, changes in [rewritten(one.row, one.text, reading, now)]
    }
    return {
        one.row.id: RowBefore(
            id=one.row.id,
            document=one.row.document,
            metadata=one.row.metadata,
            embedding=exact_numbers(there[one.row.id].embedding),
            becomes=becomes.get(one.row.id),
        )
        for one in plan.changes
    }


def _vectors(
    plan: WriteBackPlan, there: Mapping[str, _Stored], made: Mapping[str, Vector]
) -> dict[str, Vector]:
    """Of each row that gets another text: that of a row which has it, else the one made for it."""
    return {
        one.row.id: made[one.text] if one.same_as is None else there[one.same_as.id].embedding
        for one in plan.updates
    }


def _carry_out(
    collection: Collection,
    plan: WriteBackPlan,
    before: Mapping[str, RowBefore],
    vectors: Mapping[str, Vector],
    on_progress: Tell,
) -> WriteBackDone:
    whole, done = len(plan.updates) + len(plan.deletions), 0
    on_progress(done, whole)
    for updates in _chunks(plan.updates):
        there = _stored(collection, [one.row.id for one in updates])
        moved = [one.row.id for one in updates if not _is(there.get(one.row.id), one.row)]
        plan = plan.without(moved, _MOVED)
        fit = [before[one.row.id] for one in updates if one.row.id not in moved]
        _update(collection, fit, vectors)
        done += len(updates)
        on_progress(done, whole)
    for deletions in _chunks(plan.deletions):
        names = {row.id for one in deletions for row in (one.row, one.kept)}
        there = _stored(collection, list(names))
        moved = [one.row.id for one in deletions if not _still_fits(one, there, before)]
        plan = plan.without(moved, _MOVED)
        gone = [one.row.id for one in deletions if one.row.id not in moved]
        if gone:
            with chroma_faults():
                collection.delete(ids=gone)
        done += len(deletions)
        on_progress(done, whole)
    return WriteBackDone(len(plan.updates), len(plan.deletions), plan.left_alone)


def _still_fits(
    one: Deletion, there: Mapping[str, _Stored], before: Mapping[str, RowBefore]
) -> bool:
    """Whether a row is as it was read, and the one that stands for it says what it is to say."""
    if not _is(there.get(one.row.id), one.row):
        return False
    if one.kept.id not in before:
        return _is(there.get(one.kept.id), one.kept)
    kept = there.get(one.kept.id)
    return kept is not None and kept.says(*before[one.kept.id].after)


def _update(
    collection: Collection, rows: Sequence[RowBefore], vectors: Mapping[str, Vector]
) -> None:
    """Rows whose text is their document, and rows whose text is in the metadata, are two calls."""
    for in_document in (True, False):
        some = [row for row in rows if row.becomes and _in_document(row) is in_document]
        if some:
            changes = [row.becomes.metadata or None for row in some if row.becomes]
            texts = [row.becomes.document or "" for row in some if row.becomes]
            with chroma_faults():
                collection.update(
                    ids=[row.id for row in some],
                    embeddings=np.stack([vectors[row.id] for row in some]),
                    documents=texts if in_document else None,
                    metadatas=changes,
                )


def _in_document(row: RowBefore) -> bool:
    return row.becomes is not None and row.becomes.document is not None


# --- taking it back -------------------------------------------------------------------------------


@dataclass(frozen=True)
class TakenBack:
    """What of an undo file was put back, and what was not."""

    restored: int
    already: int
    left_alone: tuple[LeftAlone, ...]


def undo_write_back(
    place: Place, header: UndoHeader, rows: Sequence[RowBefore], on_progress: Tell
) -> TakenBack:
    """Every row as it was, text, metadata and vector; what somebody changed since is left alone.

    Done twice, or after a write-back that was cut off, it does what is left to do.

    Raises: InputError.
    """
    restored = already = 0
    left: list[LeftAlone] = []
    with _unsynced(place, header.collection, header.sync_threshold) as collection:
        if str(collection.id) != header.collection_id:
            raise InputError(said(place), f"{header.collection!r} is another collection now")
        for some in _chunks(rows):
            there = _stored(collection, [row.id for row in some])
            todo = [row for row in some if not _is_old(there.get(row.id), row)]
            fit = [row for row in todo if _is_written(there.get(row.id), row)]
            left += [LeftAlone(row.id, _MOVED) for row in todo if row not in fit]
            _put_back(collection, fit, there)
            restored += len(fit)
            already += len(some) - len(todo)
            on_progress(restored + already, len(rows))
    return TakenBack(restored, already, tuple(left))


def _is_old(stored: _Stored | None, row: RowBefore) -> bool:
    return stored is not None and stored.says(row.document, row.metadata)


def _is_written(stored: _Stored | None, row: RowBefore) -> bool:
    if row.becomes is None or stored is None:
        return row.becomes is None and stored is None
    return stored.says(*row.after)


def _put_back(
    collection: Collection, rows: Sequence[RowBefore], there: Mapping[str, _Stored]
) -> None:
    """Rows with a document and rows without are two calls; so are those that are gone."""
    for kind in product((True, False), repeat=2):
        some = [row for row in rows if (row.id in there, row.document is not None) == kind]
        if not some:
            continue
        changed, in_document = kind
        ids, documents = [row.id for row in some], [row.document or "" for row in some]
        vectors = np.array([row.embedding for row in some], dtype=np.float32)
        with chroma_faults():
            (collection.update if changed else collection.add)(
                ids=ids,
                embeddings=vectors,
                documents=documents if in_document else None,
                metadatas=[_metadata_before(row, there.get(row.id)) for row in some],
            )


def _metadata_before(row: RowBefore, there: _Stored | None) -> dict[str, Any] | None:
    """What was not there then goes again: None takes a key away."""
    added = {} if there is None else dict.fromkeys(there.metadata.keys() - row.metadata.keys())
    return {**row.metadata, **added} or None


# --- the collection -------------------------------------------------------------------------------


@contextmanager
def _unsynced(place: Place, name: str, usual: int | None) -> Iterator[Collection]:
    """A folder's collection, which rewrites none of its files until the block is over.

    A kill while Chroma rewrites them leaves a collection that never opens again. What is written
    meanwhile is in its SQLite file; the owner's next writes bring the others up to date. A server
    lives on when this process dies.
    """
    if isinstance(place, Path):
        with opened(place) as client, chroma_faults():
            _wait_for(named_collection(client, place, name), _NEVER)
    with opened(place) as client:
        collection = named_collection(client, place, name)
        try:
            yield collection
        finally:
            if isinstance(place, Path):
                with chroma_faults():
                    _wait_for(collection, usual or _USUAL)


def _wait_for(collection: Collection, writes: int) -> None:
    collection.modify(configuration={"hnsw": {"sync_threshold": writes}})


def _threshold(collection: Collection) -> int | None:
    """What is set for good; not what a write-back that was killed has left."""
    known = (collection.configuration_json.get("hnsw") or {}).get("sync_threshold")
    return None if known is None or known >= _NEVER else int(known)


def _stored(collection: Collection, names: Sequence[str]) -> dict[str, _Stored]:
    found: dict[str, _Stored] = {}
    for some in _chunks(names):
        with chroma_faults():
            page = collection.get(ids=some, include=["documents", "metadatas", "embeddings"])
        rows = zip(
            page["ids"], page["documents"], page["metadatas"], page["embeddings"], strict=True
        )
        for name, document, metadata, embedding in rows:
            vector = np.asarray(embedding, dtype=np.float32)
            found[name] = _Stored(document, dict(metadata or {}), vector)
    return found


def _is(stored: _Stored | None, row: ForeignRow) -> bool:
    return stored is not None and stored.says(row.document, row.metadata)


def _chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + _AT_ONCE] for start in range(0, len(items), _AT_ONCE))


def _address(place: Place) -> str:
    if isinstance(place, Path):
        return str(place.absolute())
    return f"http{'s' if place.ssl else ''}://{place.host}:{place.port}"

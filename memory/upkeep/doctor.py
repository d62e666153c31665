"""Keep a store sound: find and repair faults, replace all vectors, back up and restore."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np

from memory.deduplicator import untrusted_readers
from memory.errors import (
    IndexFault,
    InputError,
    LedgerDamaged,
    LedgerError,
    LedgerMissing,
    LedgerOutdated,
)
from memory.ledger import UPGRADE_COPIES, Ledger, Reader, set_aside
from memory.protocols import Embedder
from memory.runtime import replacing_alone, temporary_folder
from memory.store import MemoryStore
from memory.text import normalise, text_key

_UNIT = 1e-3  # how far the length of a stored vector may differ from 1
_AT_ONCE = 1_000  # texts in one call of the embedder
_RESTORE = "restore a backup with `memory-dedup restore`"
_FIX = "run `memory-dedup doctor --fix`"
_NOT_COPIED = ("store_id", UPGRADE_COPIES)
"""Metadata keys of a ledger that a backup or a restore does not copy.

The target is a new store: it has an id of its own, and no copies from earlier upgrades.
"""

Kind = Literal["damage", "mendable", "yours"]
"""The kind of a finding.

`damage`: a fault that must never happen. `mendable`: a fault that `mend` repairs. `yours`:
something that a person may do or leave undone.
"""


@dataclass(frozen=True)
class Finding:
    """A problem of a store (`what`) and what to do about it (`remedy`), in words for people."""

    what: str
    remedy: str
    kind: Kind = "damage"


def examine(store: MemoryStore) -> list[Finding]:
    """Check a store and return its problems, database faults first; change nothing.

    Raises: LedgerError if the ledger cannot be read.
    """
    findings = [
        Finding(f"the database says: {problem}", "restore a backup")
        for problem in store.ledger.problems()
    ]
    try:
        with store.ledger.reading() as reader:
            findings += chain(_rows(reader), _vectors(reader), _episodes(reader))
            findings += chain(_left_to_do(reader), _repeated(store, reader), _index(store, reader))
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        name = store.ledger.name
        raise LedgerDamaged(f"the ledger {name} holds what cannot be read", _RESTORE) from exc
    remedy = "delete it when you no longer need it"
    aside = store.ledger.set_aside_files()
    return [*findings, *(Finding(f"{name} was set aside", remedy, "yours") for name in aside)]


def mend(store: MemoryStore, on_progress: Callable[[int, int], None] | None = None) -> None:
    """Repair everything that can be rebuilt from the ledger.

    Embed texts that have no vector. Rebuild the index if it differs from the ledger. Remove
    forgotten memories from the index. Delete summaries of episodes that may contain something from
    forgotten memories.

    `on_progress` is called only while the index is rebuilt, with the number of vectors added so far
    and the number of all vectors.

    Raises: LedgerError, EmbeddingError, IndexFault.
    """
    store.embeddings.make_missing()
    with store.ledger.writing() as writer:
        writer.episodes.forget_summaries(_telling_of_forgotten(writer))
    if store.index.disagreement():
        store.index.rebuild(on_progress)
    store.scrub()


def reembed(
    ledger: Ledger, embedder: Embedder, on_progress: Callable[[int, int], None] | None = None
) -> int:
    """Replace every vector of a ledger by a vector from `embedder`; return the number of vectors.

    All vectors are replaced in one transaction. `on_progress` is called with the number of texts
    embedded so far, and the number of all texts.

    Raises: EmbeddingError, LedgerError. After an error, the ledger still has the old vectors.
    """
    with ledger.reading() as reader:
        rows = reader.memories.all()
        texts = {row.text_key: row.memory.content for row in rows if not row.forgotten}
    parts = []
    names = list(texts)
    for start in range(0, len(names), _AT_ONCE):
        batch = names[start : start + _AT_ONCE]
        parts.append(embedder.embed([normalise(texts[name]) for name in batch]))
        if on_progress is not None:
            on_progress(start + len(batch), len(names))
    vectors = np.concatenate(parts) if parts else np.empty((0, 0), np.float32)
    with ledger.writing() as writer:
        writer.vectors.replace_all(dict(zip(names, vectors, strict=True)))
        writer.followers.start_all_again()
        writer.set_meta("embedder", embedder.fingerprint)
    return len(names)


def _rows(reader: Reader) -> Iterator[Finding]:
    """Check the ledger's rows of memories, and yield a finding for each kind of fault.

    The faults are: retired memories without a successor, links to retired memories, rows newer than
    the newest commit, and memories whose text was altered.
    """
    successors = reader.memories.successions()
    alone = [name for name in successors if not _ends_well(name, successors, reader)]
    if alone:
        yield Finding(
            _listed("retired memories without a successor", alone), "see `memory-dedup history`"
        )
    if links := reader.links.of_the_retired():
        yield Finding(f"{links:,} links lead to retired memories", "please report this as a bug")
    if reader.memories.highest_revision() > reader.revision():
        yield Finding("some rows are newer than the newest commit", "restore a backup")
    wrong = [
        row.memory.id
        for row in reader.memories.all()
        if not row.forgotten and row.text_key != text_key(row.memory.content)
    ]
    if wrong:
        yield Finding(_listed("memories whose text was altered", wrong), "restore a backup")


def _ends_well(memory_id: str, successors: dict[str, str | None], reader: Reader) -> bool:
    """Return whether a retired memory's chain of successors ends with a live or forgotten memory.

    `memory_id` is the id of the retired memory. `successors` maps the id of each retired memory to
    the id of its successor, or to None if it has no successor. The result is False if a successor
    is missing or the chain runs in a circle.
    """
    seen: set[str] = set()
    while memory_id in successors:
        successor = successors[memory_id]
        if successor is None or successor in seen:
            return False
        seen.add(successor)
        memory_id = successor
    return reader.memories.row(memory_id) is not None


def _vectors(reader: Reader) -> Iterator[Finding]:
    """Yield findings about stored vectors: different dimensions, missing vectors, wrong lengths."""
    if len(sizes := reader.vectors.byte_lengths()) > 1:
        lengths = ", ".join(f"{n:,} of {(size or 0) // 4}" for size, n in sizes.items())
        yield Finding(f"vectors have different dimensions: {lengths}", "run `memory-dedup reembed`")
        return
    keys = [row.text_key for row in reader.memories.live()]
    vectors = reader.vectors.of(keys)
    if missing := len(set(keys) - vectors.keys()):
        yield Finding(f"{missing:,} texts have no vector", _FIX, kind="mendable")
    if vectors:
        lengths_off = abs(np.linalg.norm(np.stack(list(vectors.values())), axis=1) - 1)
        if count := int((~(lengths_off < _UNIT)).sum()):
            yield Finding(f"{count:,} vectors do not have length 1", "run `memory-dedup reembed`")


def _episodes(reader: Reader) -> Iterator[Finding]:
    """Yield a finding if summaries of episodes may contain something from forgotten memories.

    An earlier version of this program can have left such summaries, because it did not record the
    user of an episode.
    """
    if telling := _telling_of_forgotten(reader):
        what = _listed("episodes whose summary may tell of forgotten memories", telling)
        yield Finding(what, f"{_FIX} to drop their summaries", kind="mendable")


def _telling_of_forgotten(reader: Reader) -> list[str]:
    """Return the ids of episodes whose summary may contain something from forgotten memories.

    These are episodes with a forgotten memory, and episodes without any memories. A memory does not
    count as forgotten if it was erased because the decision that made it was undone.
    """
    return [
        episode_id
        for episode_id, gone in reader.episodes.without_some().items()
        if not gone or not all(_was_undone(reader, name) for name in gone)
    ]


def _was_undone(reader: Reader, memory_id: str) -> bool:
    """Return whether the decision that made this memory was undone."""
    made = (one for one in reader.decisions.about(memory_id) if memory_id in one.created)
    return any(one.undone for one in made)


def _left_to_do(reader: Reader) -> Iterator[Finding]:
    """Yield a finding for each kind of work that a person can start or finish.

    There are three kinds: questions that wait for a model, conversation turns from which no
    memories were extracted yet, and models that failed their trial on test merges.
    """
    counts = reader.counts()
    if counts.pending:
        what = f"{counts.pending:,} questions are waiting for a model"
        yield Finding(what, "run `memory-dedup retry`", "yours")
    if counts.turns:
        what = f"{counts.turns:,} turns are waiting to be extracted"
        yield Finding(what, "run `memory-chat`", "yours")
    remedy = "configure another model, or try this one again with `memory-dedup retry --all`"
    yield from (Finding(what, remedy, "yours") for what in untrusted_readers(reader))


def _repeated(store: MemoryStore, reader: Reader) -> Iterator[Finding]:
    """Yield a finding that lists live memories with the same text as another memory of their scope.

    One memory of each text is not listed. Texts of which a person decided to keep several memories
    are left out. If no memory is listed, yield nothing.
    """
    kept = reader.distinct.all()
    stated: dict[tuple[str, str], list[str]] = {}
    for row in reader.memories.live():
        scoped_text = (store.scope_of(row.memory).key, row.text_key)
        if (*scoped_text, row.text_key) not in kept:
            stated.setdefault(scoped_text, []).append(row.memory.id)
    again = [name for names in stated.values() for name in names[1:]]
    if again:
        remedy = "run `memory-chat --deduplicate-memories`"
        yield Finding(_listed("memories that repeat another one", again), remedy, "yours")


def _index(store: MemoryStore, reader: Reader) -> Iterator[Finding]:
    """Yield a finding for each problem of the search index.

    There is a problem if the index cannot be read, differs from the ledger, is not needed any more,
    or may still hold vectors of forgotten memories.
    """
    try:
        difference = store.index.disagreement()
    except IndexFault as exc:
        yield Finding(
            f"the index cannot be read: {exc}", "until it can be, search is exact and slower"
        )
        return
    if difference:
        yield Finding(f"the index differs from the ledger: {difference}", _FIX, kind="mendable")
    for place in store.index.unneeded():
        remedy = "delete the folder to free its room, or leave it"
        yield Finding(f"the index in {place} is not needed any more", remedy, "yours")
    if stale := reader.followers.stale():
        what = f"an index may still hold vectors of forgotten memories: {', '.join(stale)}"
        yield Finding(what, f"{_FIX}, or delete an index that is not used", kind="mendable")


def _listed(what: str, ids: list[str]) -> str:
    """Return a phrase such as "texts: 5 (ID, ID, ID, ...)", with up to three of `ids`.

    `what`: the words before the colon. The number is that of all ids.
    """
    shown = ", ".join(ids[:3]) + (", ..." if len(ids) > 3 else "")
    return f"{what}: {len(ids):,} ({shown})"


# --- backup ---------------------------------------------------------------------------------------


def back_up(ledger: Ledger, file: Path) -> int:
    """Write a backup of a ledger to a new file; return the number of live memories in it.

    The backup is a consistent snapshot in the form of a SQLite ledger. It includes retired memories
    and decisions. If the backup fails, no file is left.

    Raises: InputError if the file exists or cannot be written; LedgerError.
    """
    try:
        if file.is_dir():
            raise InputError(file, "is a folder", "name a new file")
        if file.exists():
            raise InputError(file, "exists already", "name a new file")
        if not file.absolute().parent.is_dir():
            raise InputError(
                file, "cannot be written: its folder does not exist", "create the folder"
            )
        with replacing_alone(file) as part, Ledger.create(f"sqlite:///{part}") as copy:
            _copy(ledger, copy)
            with copy.reading() as reader:
                return reader.counts().live
    except OSError as exc:
        raise InputError(file, f"cannot be written: {exc.strerror}") from exc


def restore(file: Path, url: str) -> int:
    """Restore the backup in `file` as the ledger at `url`; return the number of live memories.

    If there is a ledger at `url` already, it must be empty; if it is damaged, it is renamed and a
    new one is created. If an earlier version of this program wrote the backup, a copy of the backup
    is upgraded and restored. The backup file itself never changes.

    Raises: InputError if the file is not a backup; LedgerError if the ledger is not empty.
    """
    with (
        temporary_folder() as folder,  # the backup's folder may be read-only
        _opened(file, folder) as backup,
        _empty_ledger(url, file.parent) as ledger,
    ):
        _copy(backup, ledger)
        with ledger.reading() as reader:
            return reader.counts().live


def _opened(file: Path, folder: Path) -> Ledger:
    """Open the backup in `file` without changing the file.

    If an earlier version of this program wrote it, a copy in `folder` is upgraded and opened.

    Raises: InputError if the file is not a backup.
    """
    url = f"sqlite:///{file}"
    try:
        with contextlib.suppress(LedgerOutdated):
            return Ledger.open(url, untouched=True)
        return Ledger.upgraded_copy(url, folder / "ledger.db", untouched=True)
    except LedgerError as exc:
        remedy = f"name a file that `memory-dedup backup` wrote ({exc.problem})"
        raise InputError(file, "is not a backup of a ledger", remedy) from exc


def _empty_ledger(url: str, folder: Path) -> Ledger:
    """Return the empty ledger at `url`; create it if there is none, or if it is damaged.

    A damaged ledger is renamed. A ledger of an earlier version is upgraded. Before the upgrade of a
    PostgreSQL ledger, a copy of it is put into `folder`.

    Raises: LedgerError if the ledger is not empty.
    """
    try:
        with contextlib.suppress(LedgerMissing):
            Ledger.upgrade(url, folder)  # so that a damaged older one can be replaced
        ledger = Ledger.create(url)
        try:
            _check_empty(ledger)
        except LedgerError:
            ledger.close()
            raise
    except LedgerDamaged:
        set_aside(url)
        return Ledger.create(url)
    return ledger


def _check_empty(ledger: Ledger) -> None:
    """Check that a ledger is sound and empty.

    Raises: LedgerDamaged if the ledger is damaged; LedgerError if it is not empty.
    """
    if problems := ledger.problems():
        raise LedgerDamaged(f"{ledger.name} is damaged: {problems[0]}")
    with ledger.reading() as reader:
        counts = reader.counts()
    if counts.live or counts.retired or counts.decisions or counts.turns:
        raise LedgerError(
            f"{ledger.name} holds {counts.live:,} memories already",
            "move it away, or set memory.data_dir to an empty folder",
        )


def _copy(source: Ledger, target: Ledger) -> None:
    """Copy all tables of `source` into the empty ledger `target`.

    Only the metadata keys in `_NOT_COPIED` are left out.
    """
    with source.reading() as reader, target.writing() as writer:
        for table, rows in reader.dump():
            writer.load(table, rows)
        for key in _NOT_COPIED:
            writer.drop_meta(key)

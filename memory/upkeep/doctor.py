"""Keep a store sound: find and repair faults, replace all vectors, back up and restore."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np

from memory.coverage import parse
from memory.deduplicator import untrusted_readers
from memory.errors import (
    IndexFault,
    InputError,
    LedgerDamaged,
    LedgerError,
    LedgerMissing,
    LedgerOutdated,
)
from memory.ledger import UPGRADE_COPIES, Ledger, Reader, identity_hash, set_aside
from memory.models import Embedder, Vector
from memory.runtime import replacing_alone, temporary_folder
from memory.store import MemoryStore
from memory.text import counted, fails, normalise, text_key

_UNIT = 1e-3  # how far the length of a stored vector may differ from 1
_AT_ONCE = 1_000  # texts in one call of the embedder
_FIX = "run `memory-dedup doctor --fix`"

Kind = Literal["damage", "mendable", "yours"]
"""The kind of a problem.

"damage" is a fault that `mend` cannot repair. "mendable" is a fault that `mend` repairs. "yours" is
a task for a person.
"""


@dataclass(frozen=True)
class Finding:
    """A problem of a store (`what`) and what to do about it (`remedy`), as messages for people."""

    what: str
    remedy: str
    kind: Kind = "damage"


def examine(store: MemoryStore) -> list[Finding]:
    """Check a store and return its problems, database faults first; change nothing.

    >>> examine(store)
    []

    Raises: LedgerError if the ledger cannot be read.
    """
    findings = [
        Finding(f"the database says: {problem}", "restore a backup")
        for problem in store.ledger.database.problems()
    ]
    try:
        with store.ledger.reading() as reader:
            findings += chain(
                _rows(reader),
                _vectors(reader),
                _listed(
                    "episodes whose summary may tell of forgotten memories",
                    _telling_of_forgotten(reader),
                    f"{_FIX} to drop their summaries",
                    "mendable",
                ),
                _left_to_do(reader),
                _repeated(store, reader),
                _listed(
                    "memories whose text makes a rule fail",
                    [
                        row.memory.id
                        for row in reader.memories.live()
                        if fails(parse, row.memory.content)
                    ],
                    "nothing is lost, but they are never recognised as repeats; please report the "
                    "lines about them in the log",
                    "yours",
                ),
                _index(store, reader),
            )
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        raise LedgerDamaged(
            f"the ledger {store.ledger.name} holds what cannot be read",
            "restore a backup with `memory-dedup store restore`",
        ) from exc
    return findings + [
        Finding(f"{name} was set aside", "delete it when you no longer need it", "yours")
        for name in store.ledger.set_aside_files()
    ]


def mend(store: MemoryStore, on_progress: Callable[[int, int], None] | None = None) -> None:
    """Repair what can be repaired without a backup.

    - Embed texts that have no vector.
    - Erase the summary of an episode (group of memories) if it may tell of a forgotten memory.
    - Rebuild the index if it differs from the ledger.
    - Erase forgotten memories from the index and from the database's files.

    `on_progress` is called only while the index is rebuilt, with the number of vectors added and
    the number of all vectors.

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

    `on_progress` is called with the number of texts embedded so far, and the number of all texts.

    >>> outcome = memories.remember("Ben rows.", user="Ben")
    >>> reembed(store.ledger, build_embedder(config)) > 0
    True

    Raises: EmbeddingError, LedgerError. After an error, the ledger still has the old vectors.
    """
    with ledger.reading() as reader:
        texts = {
            row.text_key: row.memory.content for row in reader.memories.all() if not row.forgotten
        }
    names = list(texts)
    vectors: dict[str, Vector] = {}
    for start in range(0, len(names), _AT_ONCE):
        batch = names[start : start + _AT_ONCE]
        made = embedder.embed([normalise(texts[name]) for name in batch])
        vectors.update(zip(batch, made, strict=True))
        if on_progress is not None:
            on_progress(len(vectors), len(names))
    with ledger.writing() as writer:
        writer.vectors.replace_all(vectors)
        writer.followers.start_all_again()
        writer.set_meta("embedder", embedder.fingerprint)
    return len(names)


def _rows(reader: Reader) -> Iterator[Finding]:
    successors = reader.memories.successions()
    alone = [name for name in successors if not _has_final_successor(name, successors, reader)]
    yield from _listed("retired memories without a successor", alone, "see `memory-dedup history`")
    if links := reader.links.of_the_retired():
        yield Finding(
            f"{counted(links, 'link')} to retired memories", "please report this as a bug"
        )
    if reader.followers.lag(reader.revision()):
        yield Finding("some rows are newer than the newest commit", "restore a backup")
    rewritten = {name for one in reader.decisions.all_but_additions() for name, _ in one.survivors}
    wrong = [
        row.memory.id
        for row in reader.memories.all()
        if not row.forgotten
        and (
            # The key ignores the case of letters. The hash of what arrived does not, but no longer
            # fits a memory that a decision has rewritten.
            row.text_key != text_key(row.memory.content)
            or (row.memory.id not in rewritten and row.identity_hash != identity_hash(row.memory))
        )
    ]
    yield from _listed("memories whose text was altered", wrong, "restore a backup")


def _has_final_successor(memory_id: str, successors: dict[str, str | None], reader: Reader) -> bool:
    """Return whether the successors of a retired memory lead to a live or forgotten memory.

    `successors` maps each retired memory to the memory that replaced it, or to None.
    """
    seen: set[str] = set()
    while memory_id in successors and memory_id not in seen:
        seen.add(memory_id)
        memory_id = successors[memory_id] or "no successor"
    return memory_id not in seen and reader.memories.row(memory_id) is not None


def _vectors(reader: Reader) -> Iterator[Finding]:
    if len(sizes := reader.vectors.byte_lengths()) > 1:
        lengths = ", ".join(f"{n:,} of {(size or 0) // 4}" for size, n in sizes.items())
        yield Finding(
            f"vectors have different dimensions: {lengths}", "run `memory-dedup store reembed`"
        )
        return
    keys = [row.text_key for row in reader.memories.live()]
    vectors = reader.vectors.of(keys)
    if missing := len(set(keys) - vectors.keys()):
        yield Finding(f"{counted(missing, 'text')} without a vector", _FIX, kind="mendable")
    if vectors:
        wide = np.stack(list(vectors.values()), dtype=np.float64)  # a damaged value may be huge
        lengths_off = abs(np.linalg.norm(wide, axis=1) - 1)
        if count := int((~(lengths_off < _UNIT)).sum()):
            yield Finding(
                f"{counted(count, 'vector')} of a length other than 1",
                "run `memory-dedup store reembed`",
            )


def _telling_of_forgotten(reader: Reader) -> list[str]:
    """Return the ids of episodes (groups of memories) whose summary may tell of a forgotten memory.

    An episode is returned if one of its memories was forgotten. It is also returned if it has no
    memories, because nobody knows then which memories its summary tells of. Memories that were
    created by an undone decision do not count as forgotten.
    """
    return [
        episode_id
        for episode_id, gone in reader.episodes.forgotten_members().items()
        if not gone
        or not all(
            any(one.undone for one in reader.decisions.about(name) if name in one.created)
            for name in gone
        )
    ]


def _left_to_do(reader: Reader) -> Iterator[Finding]:
    counts = reader.counts()
    if counts.pending:
        yield Finding(
            f"{counted(counts.pending, 'question')} left for a model",
            "run `memory-dedup clean --retry`",
            "yours",
        )
    if counts.turns:
        yield Finding(
            f"{counted(counts.turns, 'turn')} left to be extracted", "run `memory-chat`", "yours"
        )
    remedy = (
        "configure another model, or try this one again with `memory-dedup clean --retry --all`"
    )
    yield from (Finding(what, remedy, "yours") for what in untrusted_readers(reader))


def _repeated(store: MemoryStore, reader: Reader) -> Iterator[Finding]:
    kept = reader.distinct.all()
    stated: dict[tuple[str, str], list[str]] = {}
    for row in reader.memories.live():
        scoped_text = (store.scope_of(row.memory).key, row.dated_key)
        if (*scoped_text, row.dated_key) not in kept:
            stated.setdefault(scoped_text, []).append(row.memory.id)
    yield from _listed(
        "memories that repeat another one",
        [name for names in stated.values() for name in names[1:]],
        "run `memory-chat --deduplicate-memories`",
        "yours",
    )


def _index(store: MemoryStore, reader: Reader) -> Iterator[Finding]:
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
        yield Finding(
            f"the index in {place} is not needed any more",
            "delete the folder to free its room, or leave it",
            "yours",
        )
    if stale := reader.followers.stale():
        yield Finding(
            f"an index may still hold vectors of forgotten memories: {', '.join(stale)}",
            f"{_FIX}, or delete an index that is not used",
            kind="mendable",
        )


def _listed(what: str, ids: list[str], remedy: str, kind: Kind = "damage") -> Iterator[Finding]:
    """Yield one finding that counts `ids` and names the first three; none if there are no ids."""
    if ids:
        shown = ", ".join(ids[:3]) + (", ..." if len(ids) > 3 else "")
        yield Finding(f"{what}: {len(ids):,} ({shown})", remedy, kind)


# --- backup ---------------------------------------------------------------------------------------


def back_up(ledger: Ledger, file: Path) -> int:
    """Write a backup of a ledger to a new file; return the number of live memories in it.

    The backup is a SQLite ledger, even if `ledger` is in PostgreSQL. It holds the state of one
    moment. If writing fails, no file is left.

    >>> outcome = memories.remember("Mia rows.", user="Mia")
    >>> back_up(store.ledger, Path("backup.db")) == store.counts().live
    True

    Raises: InputError if the file exists or cannot be written; LedgerError.
    """
    try:
        if file.exists():
            problem = "is a folder" if file.is_dir() else "exists already"
            raise InputError(file, problem, "name a new file")
        if not file.absolute().parent.is_dir():
            raise InputError(
                file, "cannot be written: its folder does not exist", "create the folder"
            )
        with replacing_alone(file) as part, Ledger.create(f"sqlite:///{part}") as copy:
            return _copy(ledger, copy)
    except OSError as exc:
        raise InputError(file, f"cannot be written: {exc.strerror}") from exc


def restore(file: Path, url: str) -> int:
    """Restore the backup in `file` as the ledger at `url`; return the number of live memories.

    A ledger that is already at `url` must be empty or damaged; a damaged ledger is renamed. The
    backup is not changed, even if an earlier version wrote it.

    >>> count = back_up(store.ledger, Path("copy.db"))
    >>> restore(Path("copy.db"), "sqlite:///restored.db") == count
    True

    Raises: InputError if the file is not a backup; LedgerError if the ledger is not empty.
    """
    with (
        temporary_folder() as folder,  # the backup's folder may be read-only
        _opened(file, folder) as backup,
    ):
        _set_aside_if_damaged(url, file.parent)
        with Ledger.create(url) as ledger:
            return _copy(backup, ledger)


def _opened(file: Path, folder: Path) -> Ledger:
    """Open a backup without changing it.

    A backup of an earlier version is copied to `folder`, and the copy is upgraded.
    """
    url = f"sqlite:///{file}"
    try:
        with contextlib.suppress(LedgerOutdated):
            return Ledger.open(url, untouched=True)
        return Ledger.upgraded_copy(url, folder / "ledger.db", untouched=True)
    except LedgerError as exc:
        raise InputError(
            file,
            "is not a backup that this version can restore",
            f"name a file that `memory-dedup store backup` wrote ({exc})",
        ) from exc


def _set_aside_if_damaged(url: str, folder: Path) -> None:
    """Check that the ledger at `url` is empty or missing; rename the ledger if it is damaged.

    A ledger of an earlier version is copied and upgraded before the check. The copy of a SQLite
    ledger lies next to the ledger; the copy of a PostgreSQL ledger lies in `folder`.

    Raises: LedgerError if the ledger is not empty.
    """
    try:
        with contextlib.suppress(LedgerMissing):
            Ledger.upgrade(url, folder)  # so that a damaged older one can be replaced
        with Ledger.create(url) as ledger, ledger.reading() as reader:
            if problems := ledger.database.problems():
                raise LedgerDamaged(f"{ledger.name} is damaged: {problems[0]}")
            counts = reader.counts()
    except LedgerDamaged:
        set_aside(url)
        return
    if counts.live or counts.retired or counts.decisions or counts.turns:
        raise LedgerError(
            f"{ledger.name} holds {counted(counts.live, 'memory')} already",
            "move it away, or set memory.data_dir to an empty folder",
        )


def _copy(source: Ledger, target: Ledger) -> int:
    with source.reading() as reader, target.writing() as writer:
        for table, rows in reader.dump():
            writer.load(table, rows)
        for key in ("store_id", UPGRADE_COPIES):
            writer.drop_meta(key)
        return writer.counts().live

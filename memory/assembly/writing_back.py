"""Write a cleaned store back to the collection it came from: plan, write, undo."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

from memory.assembly.providers import build_embedder, embedder_from
from memory.assembly.sources import Source, left_namespaces, their_collection
from memory.assembly.stores import open_existing_ledger, read_store
from memory.config import Config, configured
from memory.errors import ConfigError, InputError, WrongArgument
from memory.interchange import (
    ACROSS,
    ExternalStore,
    ForeignRow,
    LeftAlone,
    Reading,
    TakenBack,
    UndoFile,
    WriteBackPlan,
    WriteBackRun,
    choose_namespaces,
    finish_write_back,
    note_run,
    noted_reading,
    noted_runs,
    own_work_in,
    plan_write_back,
    read_undo_file,
    with_vectors,
)
from memory.interchange import undo_write_back as put_back
from memory.interchange import write_back as carry_out
from memory.models import Vector
from memory.runtime import Progress
from memory.store import utc_now


@dataclass(frozen=True)
class WriteBackReport:
    """What was planned and written; nothing is written if the plan was not approved."""

    plan: WriteBackPlan
    updated: int = 0
    deleted: int = 0
    changed_meanwhile: tuple[LeftAlone, ...] = ()
    """Planned rows that changed before they could be written."""
    undo_files: tuple[Path, ...] = ()
    """The files for `undo_write_back`, to be undone last first."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedWriteBack:
    """A collection, the changes planned for it, and the killed run that it finishes, if any."""

    theirs: ExternalStore
    plan: WriteBackPlan
    notes: tuple[str, ...]
    _config: Config
    _collection_id: str
    _reading: Reading
    _begun: UndoFile | None
    _now: datetime
    _made: dict[str, Vector]

    def write(
        self, undo_file: Path | None = None, on_progress: Progress | None = None
    ) -> WriteBackReport:
        """Write the old rows to the undo file, a new one, then change the collection.

        Raises: InputError; nothing is written where the file cannot be.
        """
        begun = self._begun
        if not self.plan.changes:
            if begun is not None:  # a run killed after its last row has only settings to restore
                finish_write_back(self.theirs, begun.header)
                self._note_run(begun.path, finished=True)
            return WriteBackReport(self.plan, notes=self.notes)
        undo_file = undo_file or free_undo_file(self.theirs.name)
        if undo_file.exists():
            raise InputError(undo_file, "exists already", "name a new undo file")
        self._note_run(undo_file, finished=False)
        tell = on_progress or (lambda _done, _whole: None)
        done = carry_out(
            self.theirs, self.plan, self._reading, undo_file, self._now, self._made, tell, begun
        )
        named = (undo_file, begun.path if begun else undo_file)
        files = tuple(dict.fromkeys(file for file in named if file.exists()))
        for file in reversed(files):
            self._note_run(file, finished=True)
        changed = done.left_alone[len(self.plan.left_alone) :]
        return WriteBackReport(self.plan, done.updated, done.deleted, changed, files, self.notes)

    def _note_run(self, undo_file: Path, *, finished: bool) -> None:
        """Note where the undo file is, so that a later run recognises the rows it wrote."""
        with open_existing_ledger(self._config) as ledger:
            note_run(ledger, self._collection_id, WriteBackRun(undo_file.absolute(), finished))


def compare(
    target: Source, config: Config, across: Sequence[str] = (), embedder: str | None = None
) -> PlannedWriteBack:
    """Plan what to change in the collection of an import; nothing is written.

    One row may stand for rows that differ in the keys of `across`, such as `run_id`.
    `embedder` is a `package.module:factory` that embeds merged texts.

    Raises: InputError where nothing was ever imported from there.
    """
    theirs, _ = target.opened()
    checked_across(across)
    found = theirs.found()
    with read_store(config) as store:
        reading = noted_reading(store.ledger, found.collection_id)
        if reading is None:
            raise InputError(
                theirs.name,
                "was never imported into this store, so nothing of it is known here",
                "import it from there: what is known already is added no second time",
            )
        reading, notes = _with_namespaces(found.rows, reading, theirs)
        runs = noted_runs(store.ledger, found.collection_id)
        files = [read_undo_file(run.undo_file) for run in runs]
        begun = files[-1] if runs and not runs[-1].finished else None
        own_work = own_work_in(theirs, files, found.collection_id)
        plan = plan_write_back(found.rows, reading, store.ledger, across, own_work)
    now = (begun and begun.header.at) or utc_now()
    others = [] if not plan.updates else _embedders(config, embedder)
    plan, made = with_vectors(theirs, plan, found.rows, reading, now, others)
    return PlannedWriteBack(
        theirs, plan, tuple(notes), config, found.collection_id, reading, begun, now, made
    )


def write_back(
    target: Source,
    config: Config | Path | None = None,
    *,
    approve: Callable[[WriteBackPlan], bool],
    undo_file: Path | None = None,
    across: Sequence[str] = (),
    embedder: str | None = None,
    on_progress: Progress | None = None,
    **settings: Any,
) -> WriteBackReport:
    """Write the cleaned store back to where it was imported from, if `approve` accepts the plan.

    Absorbed rows are deleted and merged rows updated, but only rows that are as they were imported.
    The old rows go to the undo file, by default `COLLECTION.undo-N.jsonl`. `on_progress` is called
    with the number of rows written.

    Raises: ConfigError, InputError, LedgerError.
    """
    planned = compare(target, configured(config, settings), across, embedder)
    if planned.plan.changes and not approve(planned.plan):
        return WriteBackReport(planned.plan, notes=planned.notes)
    return planned.write(undo_file, on_progress)


def undo_write_back(
    undo_file: Path | str,
    *,
    moved_to: str | None = None,
    on_progress: Progress | None = None,
) -> TakenBack:
    """Restore the rows of an undo file; leave rows alone that changed since.

    Raises: InputError.
    """
    undo = read_undo_file(Path(undo_file))
    header = undo.header
    theirs = their_collection(header.kind, moved_to or header.place, header.collection)
    return put_back(theirs, header, undo.rows, on_progress or (lambda _done, _whole: None))


def checked_across(across: Sequence[str]) -> Sequence[str]:
    """Return the keys.

    Raises: WrongArgument where one of them is not in `ACROSS`.
    """
    for name in across:
        if name not in ACROSS:
            raise WrongArgument("--across", f"{name!r} is none of {', '.join(ACROSS)}")
    return across


def free_undo_file(collection: str) -> Path:
    """Return a new file name in the working directory."""
    names = (Path(f"{collection}.undo-{number}.jsonl") for number in count(1))
    return next(name for name in names if not name.exists())


def _with_namespaces(
    rows: Sequence[ForeignRow], reading: Reading, theirs: ExternalStore
) -> tuple[Reading, list[str]]:
    """Choose the namespaces, where an older import took them all."""
    if theirs.kind != "langgraph" or reading.namespaces is not None:
        return reading, []
    choice = choose_namespaces(rows, theirs.name, reading, ())
    chosen = reading.model_copy(update={"namespaces": choice.chosen})
    return chosen, left_namespaces(choice.left, by_choice=False)


def _embedders(config: Config, given: str | None) -> list[Any]:
    """Return the named embedder, else the configured one; nothing if it needs a missing key."""
    if given is not None:
        return [embedder_from(config, given).embed]
    try:
        return [build_embedder(config).embed]
    except ConfigError:
        return []

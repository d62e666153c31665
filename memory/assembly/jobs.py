"""Audit a store, import memories from another program, and write cleaned memories back there.

A write-back changes the other program's collection: rows whose memories were merged become one row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from memory import interchange
from memory.assembly.sources import (
    Brought,
    Source,
    left_namespaces,
    read_source,
    their_collection,
)
from memory.assembly.stores import (
    build_embedder,
    build_model,
    embedder_from,
    open_existing_ledger,
    open_ledger,
    open_store,
    read_store,
)
from memory.assembly.wiring import build_deduplicator
from memory.config import Config, load_config
from memory.decide import Order
from memory.deduplicator import Audit, new_run
from memory.errors import ConfigError, InputError, WrongArgument
from memory.ledger import Counts
from memory.models import (
    OFFLINE,
    DeduplicationReport,
    LanguageModel,
    Memory,
    Progress,
    Usage,
    Vector,
    checked,
)
from memory.runtime import in_thread
from memory.store import MemoryStore, add_ended, utc_now


@dataclass(frozen=True)
class AuditReport:
    """The plan of a clean-up.

    If another program's store was audited, `left_out` has an error for each memory that could not
    be read, and `notes` has advice and messages about other data that was not read.
    """

    report: DeduplicationReport
    left_out: tuple[InputError, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImportReport:
    """The result of an import.

    `read`: the number of memories read from the source. `actions`: for each action, such as "add",
    "replace" or "merge", the number of these memories. `memories_before`, `memories`: the number of
    live memories in the store before and after the import. `waiting`: the increase in the number of
    questions that wait for the model.

    `without_vector`: the number of stored texts that have no vector; `memory-dedup doctor --fix`
    computes the missing vectors. `left_out`: an error for each memory that could not be read.
    `notes`: advice, and messages about other data that was not read. `model`: the model's name; ""
    if the memories were stored unchanged. `to_clean`: about what a clean-up of the store would cost
    now.

    >>> report = await import_memories(notes, config)  # again, if it was imported before
    >>> report.read, report.memories - report.memories_before < 2
    (2, True)
    """

    read: int
    actions: Mapping[str, int]
    memories_before: int
    memories: int
    waiting: int
    without_vector: int
    left_out: tuple[InputError, ...]
    notes: tuple[str, ...]
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    to_clean: Usage = field(default_factory=Usage)


@checked
async def audit(
    source: Source | None = None,
    config: Config | Path | None = None,
    *,
    groups: int | None = None,
    user: str | None = None,
    model: LanguageModel | None = None,
    on_progress: Progress | None = None,
    **settings: Any,
) -> AuditReport:
    """Plan a clean-up of the configured store, or of `source` if given; change nothing.

    The memories of `source` are first copied to a temporary store. `settings` override single
    values of `config`, which may be the path of a configuration file. `groups`: the maximum number
    of groups of near-copies in the report (default: all). `user`: report only groups of this user.
    `model`: your own model, for which the report estimates the cost of a clean-up. The audit itself
    makes no model calls. `on_progress` is called, in another thread, with the number of texts
    compared and the number of all texts.

    >>> audited = await audit(config=config)
    >>> audited.report.retired
    0

    Raises: ConfigError; InputError; LedgerError (LedgerMissing if there is no store).
    """
    config = load_config(config, settings=settings)
    with ExitStack() as opened:
        store, brought = await in_thread(opened.enter_context, open_to_audit(source, config))
        try:
            planned = await audit_store(
                store, config, groups, user=user, on_progress=on_progress, model=model
            )
        finally:
            await in_thread(opened.close)
    return AuditReport(planned.report, brought.left_out, brought.notes)


@contextmanager
def open_to_audit(source: Source | None, config: Config) -> Iterator[tuple[MemoryStore, Brought]]:
    """Yield the store to audit, opened for reading, and a report about reading `source`.

    If `source` is None, the store is the configured one, and the report is empty. Otherwise the
    store is temporary and has copies of the memories of `source`. The report says what could not be
    read; its `memories` is empty.

    >>> with open_to_audit(notes, config) as (copies, brought):
    ...     copies.counts().live, len(brought.notes)
    (2, 1)

    Raises: InputError; LedgerError (LedgerMissing if there is no store).
    """
    if source is None:
        with read_store(config) as store:
            yield store, Brought([])
        return
    brought = read_source(source, config)
    with TemporaryDirectory(prefix="memory-audit-") as folder:
        with _open_for_import(brought, config.at(folder)) as store:
            store.add_batch(brought.memories)
        brought = replace(brought, memories=[])  # the plan needs the RAM
        with read_store(config.at(folder)) as store:
            yield store, brought


async def audit_store(
    store: MemoryStore,
    config: Config,
    groups: int | None = None,
    order: Order = "certain",
    user: str | None = None,
    *,
    on_progress: Progress | None = None,
    model: LanguageModel | None = None,
) -> Audit:
    """Plan a clean-up of an open store, as `audit` does.

    `order`: the order of the groups in the report, as in `first_groups`.

    >>> outcome = memories.remember("Flo rows.", user="Flo")
    >>> audited = await audit_store(store, config, user="Flo")
    >>> audited.report.found, audited.report.dry_run
    (0, True)
    """
    async with aclosing(build_model(config, model)) as language:
        planner = build_deduplicator(store, config, language)
        return await planner.audit(groups, order, user, on_compared=on_progress)


@checked
async def import_memories(
    source: Source | Brought | Sequence[Memory],
    config: Config | Path | None = None,
    *,
    raw: bool = False,
    max_calls: int | None = None,
    model: LanguageModel | None = None,
    on_progress: Progress | None = None,
    **settings: Any,
) -> ImportReport:
    """Import memories into the configured store.

    The deduplicator decides about each memory. If `raw` is true, memories are stored unchanged
    instead, without a model. Memories that were imported before are not added again.

    `source`: a store or file to read, or memories that were read already. `settings` override
    single values of `config`, which may be the path of a configuration file. `max_calls`: the most
    model calls (default: as configured). `model`: your own model. `on_progress` is called with the
    number of memories imported and the number of all memories.

    >>> report = await import_memories([store.new_memory("Ida rows.", user="Ida")], config)
    >>> report.actions
    {'add': 1}

    Raises: ConfigError, InputError, LedgerError.
    """
    config = load_config(config, settings=settings).with_calls_per_run(max_calls)
    if isinstance(source, Source):
        source = await in_thread(read_source, source, config)
    brought = source if isinstance(source, Brought) else Brought(list(source))
    store = await in_thread(_open_for_import, brought, config)
    try:
        before = await in_thread(store.counts)
        memories, ended = interchange.split_ended(brought.memories)
        asked: dict[str, Any] = {}
        if raw:
            actions = await _add_unchanged(store, memories, on_progress)
        else:
            actions, asked = await _add(store, memories, config, model, on_progress)
        if ended:
            actions["superseded"] = await in_thread(add_ended, store, ended)
        after, without_vector = await in_thread(_state_of, store)
    finally:
        await in_thread(store.close)
    return ImportReport(
        read=len(brought.memories),
        actions=dict(actions.most_common()),
        memories_before=before.live,
        memories=after.live,
        waiting=max(after.pending - before.pending, 0),
        without_vector=without_vector,
        left_out=brought.left_out,
        notes=brought.notes,
        **asked,
    )


async def _add(
    store: MemoryStore,
    memories: Sequence[Memory],
    config: Config,
    model: LanguageModel | None,
    on_progress: Progress | None,
) -> tuple[Counter[str], dict[str, Any]]:
    """Deduplicate and store memories; return the actions, and what `ImportReport` says of a model.

    If parallel imports came first too often, a question is left, and no offline model comes later:
    it is asked at once.
    """
    async with aclosing(build_model(config, model)) as language:
        deduplicator = build_deduplicator(store, config, language)
        before = (await in_thread(store.counts)).pending
        outcomes = await deduplicator.check_and_merge_all(
            memories, run=new_run(), on_progress=on_progress
        )
        if language.name == OFFLINE and (await in_thread(store.counts)).pending > before:
            await deduplicator.retry_pending()
    usage = sum((outcome.usage for outcome in outcomes), Usage())
    to_clean = await in_thread(deduplicator.forecast)
    asked = {"model": language.name, "usage": usage, "to_clean": to_clean}
    return Counter(outcome.action.value for outcome in outcomes), asked


def _open_for_import(brought: Brought, config: Config) -> MemoryStore:
    """Open the store; note first how the memories were read, for an import that is interrupted."""
    if brought.origin or brought.kinds or brought.across:
        with open_ledger(config) as ledger:
            if brought.origin is not None:
                interchange.note_reading(ledger, *brought.origin)
            interchange.note_kinds(ledger, brought.kinds, brought.across)
    return open_store(config)


def _state_of(store: MemoryStore) -> tuple[Counts, int]:
    with store.ledger.reading() as reader:
        return store.counts(), len(reader.vectors.missing_texts())


async def _add_unchanged(
    store: MemoryStore, memories: Sequence[Memory], on_progress: Progress | None
) -> Counter[str]:
    added = done = 0
    for batch in store.pace.parts(memories):
        added += await in_thread(store.add_batch, batch)
        done += len(batch)
        if on_progress is not None:
            on_progress(done, len(memories))
    return Counter({"add": added, "already there": len(memories) - added}) + Counter()


# --- writing back -------------------------------------------------------------------------------


@dataclass(frozen=True)
class WriteBackReport:
    """The plan of a write-back, and what was changed in the other program's collection.

    `updated`, `deleted`: the number of rows that were updated and deleted. `changed_meanwhile`: the
    rows that were skipped because a row changed after the plan was made. This was the skipped row
    or the row that was to replace it.

    `undo_files`: undo files for `undo_write_back`, in the order in which to undo them. They may
    include the file of an earlier write-back that was killed and that this write-back finished.

    >>> report = await import_memories(notes, config)
    >>> report = write_back(notes, config, approve=lambda plan: False)
    >>> len(report.plan.deletions), report.deleted  # planned, and not approved
    (1, 0)
    """

    plan: interchange.WriteBackPlan
    updated: int = 0
    deleted: int = 0
    changed_meanwhile: tuple[interchange.LeftAlone, ...] = ()
    undo_files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedWriteBack:
    """A plan of changes to another program's collection, `theirs`; `write` carries it out."""

    theirs: interchange.ExternalStore
    plan: interchange.WriteBackPlan
    notes: tuple[str, ...]
    _config: Config
    _collection_id: str
    _reading: interchange.Reading
    _begun: interchange.UndoFile | None
    _now: datetime
    _made: dict[str, Vector]

    def write(
        self, undo_file: Path | None = None, on_progress: Progress | None = None
    ) -> WriteBackReport:
        """Save the affected rows in an undo file, change the collection, and return what was done.

        If an earlier write-back to the collection was killed, finish it too. `undo_file`: a new
        file (default: `COLLECTION.undo-N.jsonl` in the working directory). No undo file is written
        if the plan has no changes. `on_progress` is called with the number of rows written and the
        number of all rows to write.

        Raises: InputError. If the undo file cannot be written, the collection is not changed.
        """
        begun = self._begun
        if not self.plan.changes:
            if begun is not None:  # a run killed after its last row has only settings to restore
                header = begun.header
                with self.theirs.writing(header.collection_id, header.sync_threshold):
                    pass  # closing the collection restores them; if this fails, a later run does it
                self._note_run(begun.path, finished=True)
            return WriteBackReport(self.plan, notes=self.notes)
        undo_file = undo_file or free_undo_file(self.theirs.name)
        if undo_file.exists():
            raise InputError(undo_file, "exists already", "name a new undo file")
        self._note_run(undo_file, finished=False)
        done = interchange.write_back(
            self.theirs,
            self.plan,
            self._reading,
            undo_file,
            self._now,
            self._made,
            on_progress or (lambda _done, _whole: None),
            begun,
        )
        named = (undo_file, begun.path if begun else undo_file)
        files = tuple(dict.fromkeys(file for file in named if file.exists()))
        for file in reversed(files):
            self._note_run(file, finished=True)
        return WriteBackReport(
            self.plan,
            updated=len(done.updates),
            deleted=len(done.deletions),
            changed_meanwhile=done.left_alone[len(self.plan.left_alone) :],
            undo_files=files,
            notes=self.notes,
        )

    def _note_run(self, undo_file: Path, *, finished: bool) -> None:
        with open_existing_ledger(self._config) as ledger:
            interchange.note_run(
                ledger, self._collection_id, undo_file.absolute(), finished=finished
            )


def compare(
    target: Source, config: Config, across: Sequence[str] = (), embedder: str | None = None
) -> PlannedWriteBack:
    """Compare the collection `target` with the store, and plan a write-back; change nothing.

    A row of the collection can replace another row only if both have the same owners, such as
    `user_id` and `run_id`, and the same expiry in their metadata. `across`: keys of
    `interchange.ACROSS` whose values may differ (default: none).

    The vectors of merged texts come from the collection's own embedder if it is known and fits the
    stored vectors. `embedder`: an embedder to try after that one, given as `package.module:factory`
    (default: the configured embedder).

    >>> report = await import_memories(notes, config)
    >>> planned = compare(notes, config)
    >>> [deletion.row.id for deletion in planned.plan.deletions]  # nothing was deleted yet
    ['memories.noa/1']

    Raises: InputError, for example if nothing was ever imported from the collection; LedgerError;
    ConfigError if the factory fails.
    """
    theirs, _ = target.opened()
    found = theirs.found()
    with read_store(config) as store:
        reading = interchange.noted_reading(store.ledger, found.collection_id)
        if reading is None:
            raise InputError(
                theirs.name,
                "was never imported into this store, so nothing of it is known here",
                "import it from there: what is known already is added no second time",
            )
        checked_across(across, reading)
        notes: list[str] = []
        if theirs.kind == "langgraph":
            if reading.namespaces is None:  # the import recorded none
                chosen, left = interchange.choose_namespaces(found.rows, theirs.name, reading, ())
                reading = reading.model_copy(update={"namespaces": chosen})
                notes = left_namespaces(left, by_choice=False)
            rows = interchange.in_namespaces(found.rows, reading.namespaces or ())
            notes.append(f"namespaces read: {interchange.described(rows, reading) or 'none'}")
        runs = interchange.noted_runs(store.ledger, found.collection_id)
        files = [interchange.read_undo_file(file) for file in runs]
        begun = files[-1] if runs and not runs[files[-1].path] else None
        own_work = interchange.own_work_in(theirs, files, found.collection_id)
        plan = interchange.plan_write_back(found.rows, reading, store.ledger, across, own_work)
    now = (begun and begun.header.at) or utc_now()
    others: list[Any] = []
    if plan.updates and embedder is not None:
        others.append(embedder_from(config, embedder).embed)
    elif plan.updates:
        with suppress(ConfigError):
            others.append(build_embedder(config).embed)
    plan, made = interchange.with_vectors(theirs, plan, found.rows, reading, now, others)
    return PlannedWriteBack(
        theirs, plan, tuple(notes), config, found.collection_id, reading, begun, now, made
    )


@checked
def write_back(
    target: Source,
    config: Config | Path | None = None,
    *,
    approve: Callable[[interchange.WriteBackPlan], bool],
    undo_file: Path | None = None,
    across: Sequence[str] = (),
    embedder: str | None = None,
    on_progress: Progress | None = None,
    **settings: Any,
) -> WriteBackReport:
    """Write the cleaned memories back to the collection `target`, from which they were imported.

    Rows of the collection whose memories were merged become one row: it gets the merged text, and
    the other rows are deleted. A row is left alone if anything other than an earlier write-back
    has changed it since the import. If the plan has changes, `approve` is called with the plan
    before anything is written. If `approve` returns False, nothing is written.

    `settings` override single values of `config`, which may be the path of a configuration file.
    `undo_file`: a new file for the affected rows (default: `COLLECTION.undo-N.jsonl` in the working
    directory). `across`: metadata keys, such as `run_id`, in which a row may differ from the row
    that replaces it (default: none). `embedder`: a factory of an embedder for merged texts, given
    as `package.module:factory` (default: the configured embedder). `on_progress` is called with the
    number of rows written and the number of all rows to write.

    >>> report = await import_memories(notes, config)
    >>> done = write_back(notes, config, approve=lambda plan: len(plan.deletions) == 1)
    >>> done.deleted, len(done.undo_files)
    (1, 1)
    >>> undone = undo_write_back(done.undo_files[0])

    Raises: ConfigError, InputError, LedgerError.
    """
    planned = compare(target, load_config(config, settings=settings), across, embedder)
    if planned.plan.changes and not approve(planned.plan):
        return WriteBackReport(planned.plan, notes=planned.notes)
    return planned.write(undo_file, on_progress)


@checked
def undo_write_back(
    undo_file: Path | str,
    *,
    moved_to: str | None = None,
    trust: bool = False,
    on_progress: Progress | None = None,
) -> interchange.TakenBack:
    """Restore the rows saved in an undo file, except rows that have changed since the write-back.

    `moved_to`: the new folder or address of the store, if it has moved. `trust`: whether the
    pickles in a local Qdrant folder may be read (see `Source`). `on_progress` is called
    with the number of rows handled and the number of all rows.

    >>> report = await import_memories(notes, config)
    >>> done = write_back(notes, config, approve=lambda plan: True)
    >>> undone = undo_write_back(done.undo_files[-1])
    >>> undone.restored, undone.left_alone
    (1, ())

    Raises: InputError if the undo file or the store cannot be used.
    """
    undo = interchange.read_undo_file(Path(undo_file))
    header = undo.header
    place = moved_to or header.place
    theirs = their_collection(header.kind, place, header.collection, trust=trust)
    return interchange.undo_write_back(
        theirs, header, undo.rows, on_progress or (lambda _done, _whole: None)
    )


def checked_across(across: Sequence[str], reading: interchange.Reading) -> None:
    """Check metadata keys given with `--across`.

    Raises: WrongArgument if a key is not one of `interchange.ACROSS` and keeps no rows apart.
    """
    for name in across:
        if name not in interchange.ACROSS and not reading.keeps_apart(name):
            known = ", ".join((*interchange.ACROSS, *reading.kind_keys))
            raise WrongArgument("--across", f"{name!r} is none of {known}, and no status or role")


def free_undo_file(collection: str) -> Path:
    """Return the first unused path `COLLECTION.undo-N.jsonl` in the working directory.

    >>> from pathlib import Path
    >>> Path("notes.undo-1.jsonl").touch()
    >>> free_undo_file("notes").name
    'notes.undo-2.jsonl'
    """
    names = (Path(f"{collection}.undo-{number}.jsonl") for number in count(1))
    return next(name for name in names if not name.exists())

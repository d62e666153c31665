"""Audit a whole store, or import another one into it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from memory.assembly.providers import build_model
from memory.assembly.sources import Brought, Source, read_source
from memory.assembly.stores import open_store, read_store
from memory.assembly.wiring import build_deduplicator
from memory.config import Config, configured
from memory.decide import GroupFilter
from memory.deduplicator import Audit, new_run
from memory.errors import InputError
from memory.models import DeduplicationReport, Memory, Usage
from memory.protocols import LanguageModel
from memory.runtime import Progress, in_thread
from memory.store import MemoryStore

if TYPE_CHECKING:
    from memory.ledger import Counts

NO_USAGE = Usage()


@dataclass(frozen=True)
class AuditReport:
    """What a clean-up would do, and the problems of the source."""

    report: DeduplicationReport
    left_out: tuple[InputError, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImportReport:
    """What an import did."""

    read: int
    """Memories that were read."""
    actions: Mapping[str, int]
    """How many were added, replaced, merged, ...: the name of each action with its number."""
    memories_before: int
    memories: int
    waiting: int
    """New questions that wait for the model: `memory-dedup retry` asks them."""
    without_vector: int
    """Texts of the store that nothing is found near: `memory-dedup doctor --fix`."""
    left_out: tuple[InputError, ...]
    notes: tuple[str, ...]
    model: str = ""
    usage: Usage = NO_USAGE
    """Calls of the model, and their tokens."""


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
    """Return what a clean-up would do with the configured store, or with a source; change nothing.

    A source is copied to a temporary folder. `groups` limits the groups of the report, None does
    not; `on_progress` is called with the number of texts compared.

    Raises: ConfigError, InputError, LedgerError (LedgerMissing where there is no store).
    """
    config = configured(config, settings)
    chosen = GroupFilter(groups, "certain", user)
    if source is None:
        return AuditReport((await _planned(config, chosen, model, on_progress)).report)
    brought = await in_thread(read_source, source, config)
    left_out, notes = brought.left_out, brought.notes
    with TemporaryDirectory(prefix="memory-audit-") as folder:
        elsewhere = config.at(folder)
        await in_thread(_store_all, elsewhere, brought.memories)
        del brought  # the plan takes as much memory again
        planned = await _planned(elsewhere, chosen, model, on_progress)
    return AuditReport(planned.report, left_out, notes)


def _store_all(config: Config, memories: Sequence[Memory]) -> None:
    with open_store(config) as store:
        store.add_batch(memories)


async def _planned(
    config: Config,
    chosen: GroupFilter,
    model: LanguageModel | None,
    on_progress: Progress | None,
) -> Audit:
    """Plan a clean-up of an existing store."""
    store = await in_thread(read_store, config)
    try:
        return await audit_store(store, config, chosen, on_progress, model)
    finally:
        await in_thread(store.close)


async def audit_store(
    store: MemoryStore,
    config: Config,
    chosen: GroupFilter,
    on_progress: Progress | None = None,
    model: LanguageModel | None = None,
) -> Audit:
    """Plan a clean-up of an open store."""
    async with aclosing(build_model(config, model)) as language:
        return await build_deduplicator(store, config, language).audit(chosen, on_progress)


async def import_memories(
    source: Source | Sequence[Memory],
    config: Config | Path | None = None,
    *,
    raw: bool = False,
    max_calls: int | None = None,
    model: LanguageModel | None = None,
    on_progress: Progress | None = None,
    **settings: Any,
) -> ImportReport:
    """Import memories through the deduplicator, or with `raw` as they are.

    Memories that exist already are not added again. `on_progress` is called with the number done.

    Raises: ConfigError, InputError, LedgerError.
    """
    config = configured(config, settings).with_calls_per_run(max_calls)
    if isinstance(source, Source):
        brought = await in_thread(read_source, source, config)
    else:
        brought = Brought(list(source))
    store = await in_thread(open_store, config)
    try:
        if raw:
            return await in_thread(import_raw, store, brought, on_progress)
        return await import_deduplicated(store, brought, config, on_progress, model)
    finally:
        await in_thread(store.close)


def import_raw(store: MemoryStore, brought: Brought, on_progress: Progress | None) -> ImportReport:
    """Store memories as they are, in batches."""
    memories, before = brought.memories, store.counts()
    added = done = 0
    for some in store.pace.parts(memories):
        added += store.add_batch(some)
        done += len(some)
        if on_progress is not None:
            on_progress(done, len(memories))
    actions = Counter({"add": added, "already there": len(memories) - added}) + Counter()
    return _imported(store, brought, actions, before)


async def import_deduplicated(
    store: MemoryStore,
    brought: Brought,
    config: Config,
    on_progress: Progress | None = None,
    model: LanguageModel | None = None,
) -> ImportReport:
    """Import memories into an open store through the deduplicator, as a run of its own."""
    before = store.counts()
    async with aclosing(build_model(config, model)) as language:
        deduplicator = build_deduplicator(store, config, language)
        outcomes = await deduplicator.check_and_merge_all(
            brought.memories, run=new_run(), on_progress=on_progress
        )
    actions = Counter(outcome.action.value for outcome in outcomes)
    usage = sum((outcome.usage for outcome in outcomes), NO_USAGE)
    return _imported(store, brought, actions, before, language.name, usage)


def _imported(
    store: MemoryStore,
    brought: Brought,
    actions: Counter[str],
    before: Counts,
    model: str = "",
    usage: Usage = NO_USAGE,
) -> ImportReport:
    brought.keep_origin(store)
    after = store.counts()
    with store.ledger.reading() as reader:
        missing = len(reader.vectors.missing_texts())
    return ImportReport(
        read=len(brought.memories),
        actions=dict(actions.most_common()),
        memories_before=before.live,
        memories=after.live,
        waiting=max(after.pending - before.pending, 0),
        without_vector=missing,
        left_out=brought.left_out,
        notes=brought.notes,
        model=model,
        usage=usage,
    )

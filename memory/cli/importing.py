"""Bringing memories in: from a file, or from somebody's Chroma folder."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memory import assembly
from memory.cli.shell import EXIT_PROBLEM, err, progress
from memory.config import Config
from memory.errors import InputError

if TYPE_CHECKING:
    from memory.models import Memory, Outcome
    from memory.store import MemoryStore

_BATCH = 2_000
"""Memories that are stored in one go with --raw."""


def import_(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(help="JSON Lines, one memory a line.")] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Store every memory as it is, without deduplication.")
    ] = False,
    from_chroma: Annotated[
        Path | None,
        typer.Option("--from-chroma", help="A Chroma folder to import from, instead of a file."),
    ] = None,
    collection: Annotated[
        str, typer.Option(help="The collection to import from that folder.")
    ] = "memories",
    user_key: Annotated[
        str | None,
        typer.Option(help="The key of the collection's metadata that says whose a memory is."),
    ] = None,
    no_user: Annotated[
        bool,
        typer.Option("--no-user", help="The collection's memories are nobody's in particular."),
    ] = False,
    assume_utc: Annotated[
        bool, typer.Option("--assume-utc", help="Take times without a time zone as UTC.")
    ] = False,
    max_calls: Annotated[
        int | None,
        typer.Option(min=0, help="Calls of the model at most [default: dedup_calls_per_run]."),
    ] = None,
) -> None:
    """Import memories, each through the deduplicator, or with --raw as they are."""
    reading = _Reading(collection, user_key, no_user, assume_utc)
    memories, problems = _sorted_out(_source(file, from_chroma, reading))
    config: Config = context.obj
    with assembly.open_store(config) as store:
        before = store.counts()
        bring_in = _add_raw if raw else _add_deduplicated
        actions = bring_in(store, memories, config.with_calls_per_run(max_calls))
        after = store.counts()
    said = ", ".join(f"{n:,} {name}" for name, n in actions.most_common()) or "nothing"
    err().print(f"imported {len(memories):,}: {said}; memories {before.live:,} -> {after.live:,}")
    if after.pending > before.pending:
        waiting = after.pending - before.pending
        err().print(f"{waiting:,} questions wait for the model: memory-dedup retry asks them")
    if problems:
        err().print(f"{problems:,} left out; the reasons are above")
        raise typer.Exit(EXIT_PROBLEM)


@dataclass(frozen=True)
class _Reading:
    """How somebody else's memories are to be read."""

    collection: str
    user_key: str | None
    no_user: bool
    assume_utc: bool


def _source(
    file: Path | None, from_chroma: Path | None, reading: _Reading
) -> Iterable[Memory | InputError]:
    from memory.interchange import read_memories

    if (file is None) == (from_chroma is None):
        raise InputError("import", "needs exactly one source", "give FILE, or --from-chroma PATH")
    if from_chroma is not None:
        return _foreign_memories(from_chroma, reading)
    if reading.user_key is not None or reading.no_user:
        raise InputError("import", "--user-key and --no-user are for --from-chroma")
    assert file is not None
    return read_memories(file, assume_utc=reading.assume_utc)


def _foreign_memories(path: Path, reading: _Reading) -> Iterator[Memory | InputError]:
    """Raises: InputError where it is not said whose they are: two users' words are no copies."""
    from memory.interchange import from_chroma_row, read_collection

    rows = list(read_collection(path, reading.collection))
    keys = sorted({key for row in rows for key in row.metadata})
    if reading.no_user == (reading.user_key is not None) or reading.user_key not in (None, *keys):
        there = ", ".join(keys) or "none"
        raise InputError(
            path,
            f"whose memories are these? its metadata has the keys: {there}",
            "name the user's with --user-key KEY, or give --no-user",
        )
    for row in rows:
        try:
            yield from_chroma_row(
                row.id,
                row.document,
                row.metadata,
                user_key=reading.user_key,
                assume_utc=reading.assume_utc,
            )
        except ValueError as exc:
            yield InputError(f"{path}: {row.id}", str(exc), "this memory is left out")


def _sorted_out(source: Iterable[Memory | InputError]) -> tuple[list[Memory], int]:
    """The memories; problems are said at once, a line each, and counted."""
    from memory.interchange import with_links_resolved

    memories: list[Memory] = []
    problems = 0
    for item in source:
        if isinstance(item, InputError):
            err().print(f"error: {item}")
            problems += 1
        else:
            memories.append(item)
    return with_links_resolved(memories), problems


def _add_raw(store: MemoryStore, memories: list[Memory], _config: Config) -> Counter[str]:
    added = 0
    with progress("importing") as tell:
        for start in range(0, len(memories), _BATCH):
            added += store.add_batch(memories[start : start + _BATCH])
            tell(min(start + _BATCH, len(memories)), len(memories))
    return Counter({"add": added, "already there": len(memories) - added}) + Counter()


def _add_deduplicated(store: MemoryStore, memories: list[Memory], config: Config) -> Counter[str]:
    async def run() -> list[Outcome]:
        async with aclosing(assembly.build_model(config)) as model:
            deduplicator = assembly.build_deduplicator(store, config, model)
            return await deduplicator.check_and_merge_all(memories, run=new_run(), on_progress=tell)

    from memory.deduplicator import new_run

    with progress("importing") as tell:
        return Counter(outcome.action.value for outcome in asyncio.run(run()))

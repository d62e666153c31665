"""Giving a cleaned store back to the collection that it came from."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memory import assembly
from memory.cli.changing import Across, checked_across, say_left, show_plan, write_changes
from memory.cli.shell import EXIT_PROBLEM, err, progress
from memory.cli.sources import say_left_namespaces
from memory.errors import ConfigError, InputError, WrongArgument

if TYPE_CHECKING:
    from memory.config import Config
    from memory.interchange import (
        ForeignRow,
        Kind,
        Reading,
        Theirs,
        UndoFile,
        WriteBackPlan,
    )
    from memory.models import Vector

ToChroma = Annotated[
    str | None, typer.Option("--to-chroma", help="A Chroma folder, or http://HOST:PORT.")
]
ToMem0 = Annotated[
    str | None,
    typer.Option("--to-mem0", help="mem0's folder, http://HOST:6333, or postgresql://..."),
]
ToQdrant = Annotated[
    str | None, typer.Option("--to-qdrant", help="A local Qdrant folder, or http://HOST:6333.")
]
ToPgvector = Annotated[
    str | None, typer.Option("--to-pgvector", help="postgresql://... of a table with vectors.")
]
ToLangGraph = Annotated[
    str | None,
    typer.Option("--to-langgraph", help="The file of a SqliteStore, or postgresql://..."),
]
ToJsonl = Annotated[
    Path | None,
    typer.Option("--to-jsonl", help="A new file of changes, to apply to any store yourself."),
]
InCollection = Annotated[
    str | None, typer.Option(help="The collection [default: memories, mem0's mem0].")
]
Embedding = Annotated[
    str | None, typer.Option(help="Who embeds merged texts: package.module:factory.")
]
UndoFileName = Annotated[
    Path | None, typer.Option(help="Where the old rows go [default: COLLECTION.undo-N.jsonl].")
]
Undo = Annotated[Path | None, typer.Option(help="Take back what was written, by its undo file.")]


def write_back(
    context: typer.Context,
    to_chroma: ToChroma = None,
    to_mem0: ToMem0 = None,
    to_qdrant: ToQdrant = None,
    to_pgvector: ToPgvector = None,
    to_langgraph: ToLangGraph = None,
    to_jsonl: ToJsonl = None,
    collection: InCollection = None,
    embedder: Embedding = None,
    undo_file: UndoFileName = None,
    across: Across = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before writing.")] = False,
    undo: Undo = None,
) -> None:
    """Write the clean-up back to the store it came from.

    It deletes rows that were absorbed and updates rows that were merged, after a question.

    Only rows that were imported, and are as they were imported, are touched.
    """
    places = _places(to_chroma, to_mem0, to_qdrant, to_pgvector, to_langgraph)
    given = [place for _, place in places]
    if to_jsonl is not None:
        if given or undo is not None:
            raise WrongArgument("--to-jsonl", "writes a file", "give it without another place")
        write_changes(context.obj, to_jsonl, undo_file or _free_name(to_jsonl.stem), across or ())
        return
    if undo is not None:
        if len(given) > 1 or any(one is not None for one in (collection, embedder, undo_file)):
            problem = "names what was written, and where"
            raise WrongArgument("--undo", problem, "give it alone, or with --to where it moved")
        _take_back(undo, *given)
        return
    if len(given) != 1:
        raise WrongArgument(
            "write-back",
            "needs one place",
            "give --to-chroma, --to-mem0, --to-qdrant, --to-pgvector, --to-langgraph or --to-jsonl",
        )
    theirs = assembly.their_collection(*places[0], collection or _collection(to_mem0, to_langgraph))
    with progress("comparing"):
        found, plan = _planned(context.obj, theirs, checked_across(across or ()))
        plan, made = _with_vectors(context.obj, theirs, plan, found, embedder)
    show_plan(plan)
    if not plan.changes:
        _finish(context.obj, theirs, found)
        err().print("nothing to write back")
        return
    _confirm(theirs, yes)
    _write(context.obj, theirs, plan, found, undo_file or _free_name(theirs.name), made)


@dataclass(frozen=True)
class _Compared:
    """What a collection holds, how it is read, and the run that is to be finished."""

    collection_id: str
    rows: Sequence[ForeignRow]
    reading: Reading
    begun: UndoFile | None
    now: datetime


def _places(
    chroma: str | None,
    mem0: str | None,
    qdrant: str | None,
    pgvector: str | None,
    langgraph: str | None,
) -> list[tuple[Kind, str]]:
    """Return the stores that were named."""
    named: dict[Kind, str | None] = {
        "chroma": chroma,
        "qdrant": qdrant,
        "pgvector": pgvector,
        "langgraph": langgraph,
    }
    of_mem0 = [] if mem0 is None else [assembly.mem0_store(mem0)]
    return of_mem0 + [(kind, place) for kind, place in named.items() if place is not None]


def _collection(mem0: str | None, langgraph: str | None) -> str:
    from memory.interchange import MEM0_COLLECTION

    if langgraph is not None:
        return "langgraph"
    return "memories" if mem0 is None else MEM0_COLLECTION


def _planned(
    config: Config, theirs: Theirs, across: Sequence[str]
) -> tuple[_Compared, WriteBackPlan]:
    """Raises: InputError where nothing was ever imported from there."""
    from memory.interchange import (
        noted_reading,
        noted_runs,
        own_work_in,
        plan_write_back,
        read_undo_file,
    )
    from memory.store import utc_now

    found = theirs.found()
    with assembly.read_store(config) as store:
        reading = noted_reading(store.ledger, found.collection_id)
        if reading is None:
            raise InputError(
                theirs.name,
                "was never imported into this store, so nothing of it is known here",
                "import it from there: what is known already is added no second time",
            )
        reading = _with_namespaces(found.rows, reading, theirs)
        runs = noted_runs(store.ledger, found.collection_id)
        files = [read_undo_file(run.undo_file) for run in runs]
        begun = files[-1] if runs and not runs[-1].finished else None
        own_work = own_work_in(theirs, files, found.collection_id)
        plan = plan_write_back(found.rows, reading, store.ledger, across, own_work)
    now = (begun and begun.header.at) or utc_now()
    return _Compared(found.collection_id, found.rows, reading, begun, now), plan


def _with_namespaces(rows: Sequence[ForeignRow], reading: Reading, theirs: Theirs) -> Reading:
    """Choose the namespaces where an older import took them all."""
    from memory.interchange import choose_namespaces

    if theirs.kind != "langgraph" or reading.namespaces is not None:
        return reading
    choice = choose_namespaces(rows, theirs.name, reading, ())
    say_left_namespaces(choice.left, by_choice=False)
    return reading.model_copy(update={"namespaces": choice.chosen})


def _with_vectors(
    config: Config, theirs: Theirs, plan: WriteBackPlan, found: _Compared, embedder: str | None
) -> tuple[WriteBackPlan, dict[str, Vector]]:
    """What needs a vector that nobody here can make is left alone."""
    from memory.interchange import with_vectors

    others = [] if not plan.updates else _embedders(config, embedder)
    return with_vectors(theirs, plan, found.rows, found.reading, found.now, others)


def _embedders(config: Config, given: str | None) -> list[Any]:
    """The one that was named, else the configured one, where it can be had."""
    if given is not None:
        return [assembly.embedder_from(config, given).embed]
    try:
        return [assembly.build_embedder(config).embed]
    except ConfigError:
        return []


def _confirm(theirs: Theirs, yes: bool) -> None:
    if yes:
        return
    warning = " No other program may have its folder open." if theirs.kind == "chroma" else ""
    err().print(f"write this to {theirs.name!r}?{warning} y or n")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        err().print("nothing was written")
        raise typer.Exit(EXIT_PROBLEM)


def _free_name(collection: str) -> Path:
    names = (Path(f"{collection}.undo-{number}.jsonl") for number in count(1))
    return next(name for name in names if not name.exists())


def _finish(config: Config, theirs: Theirs, found: _Compared) -> None:
    """A run that was killed after its last row has only its settings to put back."""
    from memory.interchange import finish_write_back

    if found.begun is not None:
        finish_write_back(theirs, found.begun.header)
        _note_run(config, found.collection_id, found.begun.path, finished=True)


def _note_run(config: Config, collection_id: str, undo_file: Path, *, finished: bool) -> None:
    """Note where the undo file is: whoever runs this again knows the rows that were written."""
    from memory.interchange import WriteBackRun, note_run

    with assembly.open_existing_ledger(config) as ledger:
        note_run(ledger, collection_id, WriteBackRun(undo_file.absolute(), finished))


def _write(
    config: Config,
    theirs: Theirs,
    plan: WriteBackPlan,
    found: _Compared,
    undo_file: Path,
    made: dict[str, Vector],
) -> None:
    from memory.interchange import write_back as carry_out

    planned, begun = len(plan.left_alone), found.begun
    if undo_file.exists():
        raise InputError(undo_file, "exists already", "name a new file with --undo-file")
    _note_run(config, found.collection_id, undo_file, finished=False)
    with progress("writing") as tell:
        done = carry_out(theirs, plan, found.reading, undo_file, found.now, made, tell, begun)
    files = [file for file in (undo_file, begun.path if begun else undo_file) if file.exists()]
    for file in dict.fromkeys(file.absolute() for file in reversed(files)):
        _note_run(config, found.collection_id, file, finished=True)
    say_left(done.left_alone[planned:])
    err().print(f"{done.updated:,} rows updated, {done.deleted:,} deleted")
    for file in dict.fromkeys(files):
        err().print(f"memory-dedup write-back --undo {file} takes it back")
    if len(done.left_alone) > planned:
        raise typer.Exit(EXIT_PROBLEM)


def _take_back(file: Path, moved_to: str | None = None) -> None:
    from memory.interchange import read_undo_file, undo_write_back

    undo = read_undo_file(file)
    header, rows = undo.header, undo.rows
    where = moved_to or header.place
    theirs = assembly.their_collection(header.kind, where, header.collection)
    with progress("putting back") as tell:
        done = undo_write_back(theirs, header, rows, tell)
    say_left(done.left_alone)
    err().print(f"{done.restored:,} rows put back, {done.already:,} were as before")
    if done.left_alone:
        raise typer.Exit(EXIT_PROBLEM)

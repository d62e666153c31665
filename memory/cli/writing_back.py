"""Giving a cleaned store back to the collection that it came from."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memory import assembly
from memory.cli.changing import Across, say_left, show_plan, write_changes
from memory.cli.shell import EXIT_PROBLEM, err, progress
from memory.errors import WrongArgument

if TYPE_CHECKING:
    from memory.config import Config
    from memory.interchange import ExternalStore

Dump = Annotated[
    Path | None, typer.Argument(help="With --to-jsonl: the store as it is now, as JSON Lines.")
]
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
    dump: Dump = None,
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
    places = {
        "chroma": to_chroma,
        "mem0": to_mem0,
        "qdrant": to_qdrant,
        "pgvector": to_pgvector,
        "langgraph": to_langgraph,
    }
    named = {kind: place for kind, place in places.items() if place is not None}
    if to_jsonl is not None or dump is not None:
        if named or undo is not None:
            raise WrongArgument("--to-jsonl", "writes a file", "give it without another place")
        _write_jsonl(context.obj, dump, to_jsonl, undo_file, across or ())
        return
    if undo is not None:
        if len(named) > 1 or any(one is not None for one in (collection, embedder, undo_file)):
            problem = "names what was written, and where"
            raise WrongArgument("--undo", problem, "give it alone, or with --to where it moved")
        _take_back(undo, *named.values())
        return
    if len(named) != 1:
        raise WrongArgument(
            "write-back",
            "needs one place",
            "give --to-chroma, --to-mem0, --to-qdrant, --to-pgvector, --to-langgraph or --to-jsonl",
        )
    target = assembly.Source(collection=collection, **named)  # type: ignore[arg-type] # a place
    with progress("comparing"):
        planned = assembly.compare(target, context.obj, across or (), embedder)
    for note in planned.notes:
        err().print(note)
    show_plan(planned.plan)
    if not planned.plan.changes:
        planned.write()
        err().print("nothing to write back")
        return
    _confirm(planned.theirs, yes)
    with progress("writing") as tell:
        done = planned.write(undo_file, tell)
    say_left(done.changed_meanwhile)
    err().print(f"{done.updated:,} rows updated, {done.deleted:,} deleted")
    for file in done.undo_files:
        err().print(f"memory-dedup write-back --undo {file} takes it back")
    if done.changed_meanwhile:
        raise typer.Exit(EXIT_PROBLEM)


def _write_jsonl(
    config: Config,
    dump: Path | None,
    file: Path | None,
    undo_file: Path | None,
    across: Sequence[str],
) -> None:
    """Write the changes of the rows of a dump to a file.

    Raises: WrongArgument where the dump or the file is missing, InputError.
    """
    if dump is None or file is None:
        problem = "needs a dump, whose rows alone are named, and a file to write"
        remedy = "memory-dedup write-back dump.jsonl --to-jsonl changes.jsonl"
        raise WrongArgument("--to-jsonl", problem, remedy)
    write_changes(config, dump, file, undo_file or assembly.free_undo_file(file.stem), across)


def _confirm(theirs: ExternalStore, yes: bool) -> None:
    if yes:
        return
    warning = " No other program may have its folder open." if theirs.kind == "chroma" else ""
    err().print(f"write this to {theirs.name!r}?{warning} y or n")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        err().print("nothing was written")
        raise typer.Exit(EXIT_PROBLEM)


def _take_back(file: Path, moved_to: str | None = None) -> None:
    with progress("putting back") as tell:
        done = assembly.undo_write_back(file, moved_to=moved_to, on_progress=tell)
    say_left(done.left_alone)
    err().print(f"{done.restored:,} rows put back, {done.already:,} were as before")
    if done.left_alone:
        raise typer.Exit(EXIT_PROBLEM)

"""Giving a cleaned store back to the collection that it came from."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memory import assembly
from memory.cli.shell import EXIT_PROBLEM, err, progress, show
from memory.cli.sources import say_left_namespaces
from memory.errors import ConfigError, InputError, WrongArgument
from memory.text import shortened

if TYPE_CHECKING:
    from memory.config import Config
    from memory.interchange import ForeignRow, Kind, LeftAlone, Reading, Theirs, WriteBackPlan
    from memory.models import Vector

_TEXT = 200
"""Characters of a text in the plan."""


ToChroma = Annotated[
    str | None, typer.Option("--to-chroma", help="A Chroma folder, or http://HOST:PORT.")
]
ToMem0 = Annotated[
    Path | None, typer.Option("--to-mem0", help="mem0's folder, or its Chroma or Qdrant folder.")
]
ToLangGraph = Annotated[
    str | None,
    typer.Option("--to-langgraph", help="The file of a SqliteStore, or postgresql://..."),
]
InCollection = Annotated[
    str | None, typer.Option(help="The collection [default: memories, mem0's mem0].")
]
Embedding = Annotated[
    str | None, typer.Option(help="Who embeds merged texts: package.module:factory.")
]
UndoFile = Annotated[
    Path | None, typer.Option(help="Where the old rows go [default: COLLECTION.undo-N.jsonl].")
]
Undo = Annotated[Path | None, typer.Option(help="Take back what was written, by its undo file.")]


def write_back(
    context: typer.Context,
    to_chroma: ToChroma = None,
    to_mem0: ToMem0 = None,
    to_langgraph: ToLangGraph = None,
    collection: InCollection = None,
    embedder: Embedding = None,
    undo_file: UndoFile = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before writing.")] = False,
    undo: Undo = None,
) -> None:
    """Delete from a collection what was absorbed, and update what was merged, after a question.

    Only rows that were imported, and are as they were imported, are touched.
    """
    from memory.interchange import vector_folder
    from memory.store import utc_now

    of_mem0 = None if to_mem0 is None else str(vector_folder(to_mem0))
    given = [one for one in (to_chroma, of_mem0, to_langgraph) if one is not None]
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
            "give --to-chroma, --to-mem0 or --to-langgraph",
        )
    theirs = _theirs(to_chroma, of_mem0, to_langgraph, collection)
    now = utc_now()
    with progress("comparing"):
        rows, reading, plan = _planned(context.obj, theirs)
        plan, made = _with_vectors(context.obj, theirs, plan, rows, reading, now, embedder)
    _show_plan(plan)
    if not plan.changes:
        err().print("nothing to write back")
        return
    _confirm(theirs, yes)
    _write(theirs, plan, reading, undo_file or _free_name(theirs.name), now, made)


def _theirs(
    to_chroma: str | None, of_mem0: str | None, to_langgraph: str | None, collection: str | None
) -> Theirs:
    """Whose collection is to change."""
    from memory.interchange import MEM0_COLLECTION, is_qdrant

    if to_chroma is not None:
        return assembly.their_collection("chroma", to_chroma, collection or "memories")
    if to_langgraph is not None:
        return assembly.their_collection("langgraph", to_langgraph, "langgraph")
    assert of_mem0 is not None
    kind: Kind = "qdrant" if is_qdrant(Path(of_mem0)) else "chroma"
    return assembly.their_collection(kind, of_mem0, collection or MEM0_COLLECTION)


def _planned(config: Config, theirs: Theirs) -> tuple[Sequence[ForeignRow], Reading, WriteBackPlan]:
    """Raises: InputError where nothing was ever imported from there."""
    from memory.interchange import noted_reading, plan_write_back

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
        return found.rows, reading, plan_write_back(found.rows, reading, store.ledger)


def _with_namespaces(rows: Sequence[ForeignRow], reading: Reading, theirs: Theirs) -> Reading:
    """Choose the namespaces where an older import took them all."""
    from memory.interchange import choose_namespaces

    if theirs.kind != "langgraph" or reading.namespaces is not None:
        return reading
    choice = choose_namespaces(rows, theirs.name, reading, ())
    say_left_namespaces(choice.left, by_choice=False)
    return reading.model_copy(update={"namespaces": choice.chosen})


def _with_vectors(
    config: Config,
    theirs: Theirs,
    plan: WriteBackPlan,
    rows: Sequence[ForeignRow],
    reading: Reading,
    now: datetime,
    embedder: str | None,
) -> tuple[WriteBackPlan, dict[str, Vector]]:
    """What needs a vector that nobody here can make is left alone."""
    from memory.interchange import with_vectors

    others = [] if not plan.updates else _embedders(config, embedder)
    return with_vectors(theirs, plan, rows, reading, now, others)


def _embedders(config: Config, given: str | None) -> list[Any]:
    """The one that was named, else the configured one, where it can be had."""
    if given is not None:
        return [assembly.embedder_from(config, given).embed]
    try:
        return [assembly.build_embedder(config).embed]
    except ConfigError:
        return []


def _show_plan(plan: WriteBackPlan) -> None:
    updates = (
        f"update {one.row.id}\n  from {_line(one.said)}\n  to   {_line(one.text)}"
        for one in plan.updates
    )
    deletions = (
        f"delete {one.row.id}  {_line(one.said)}\n  kept {one.kept.id}" for one in plan.deletions
    )
    if plan.changes:
        show("\n".join([*updates, *deletions]))
    _say_left(plan.left_alone)
    err().print(
        f"{len(plan.updates):,} rows to update, {len(plan.deletions):,} to delete; "
        f"{len(plan.left_alone):,} left alone; {plan.unknown:,} were never imported as they are"
    )


def _line(text: str) -> str:
    return shortened(text, _TEXT)


def _say_left(left: Sequence[LeftAlone]) -> None:
    for one in left:
        err().print(f"left alone {one.id}: {one.why}")


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


def _write(
    theirs: Theirs,
    plan: WriteBackPlan,
    reading: Reading,
    undo_file: Path,
    now: datetime,
    made: dict[str, Vector],
) -> None:
    from memory.interchange import write_back as carry_out

    planned = len(plan.left_alone)
    with progress("writing") as tell:
        done = carry_out(theirs, plan, reading, undo_file, now, made, tell)
    _say_left(done.left_alone[planned:])
    err().print(f"{done.updated:,} rows updated, {done.deleted:,} deleted")
    if undo_file.exists():
        err().print(f"memory-dedup write-back --undo {undo_file} takes it back")
    if len(done.left_alone) > planned:
        raise typer.Exit(EXIT_PROBLEM)


def _take_back(file: Path, moved_to: str | None = None) -> None:
    from memory.interchange import read_undo_file, undo_write_back

    header, rows = read_undo_file(file)
    where = moved_to or header.place
    theirs = assembly.their_collection(header.kind, where, header.collection)
    with progress("putting back") as tell:
        done = undo_write_back(theirs, header, rows, tell)
    _say_left(done.left_alone)
    err().print(f"{done.restored:,} rows put back, {done.already:,} were as before")
    if done.left_alone:
        raise typer.Exit(EXIT_PROBLEM)

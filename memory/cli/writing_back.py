"""Giving a cleaned store back to the collection that it came from."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memory import assembly
from memory.cli.shell import EXIT_PROBLEM, err, progress, show
from memory.errors import ConfigError, InputError, WrongArgument
from memory.text import shortened

if TYPE_CHECKING:
    from memory.config import Config
    from memory.index import ChromaServer
    from memory.interchange import LeftAlone, Reading, WriteBackPlan
    from memory.models import Vector

_TEXT = 200
"""Characters of a text in the plan."""
_NO_EMBEDDER = "no embedder here makes vectors like the collection's: see --embedder"


ToChroma = Annotated[
    str | None, typer.Option("--to-chroma", help="A Chroma folder, or http://HOST:PORT.")
]
ToMem0 = Annotated[
    Path | None, typer.Option("--to-mem0", help="mem0's folder, or its Chroma folder.")
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
    collection: InCollection = None,
    embedder: Embedding = None,
    undo_file: UndoFile = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before writing.")] = False,
    undo: Undo = None,
) -> None:
    """Delete from a collection what was absorbed, and update what was merged, after a question.

    Only rows that were imported, and are as they were imported, are touched.
    """
    if undo is not None:
        if any(one is not None for one in (to_mem0, collection, embedder, undo_file)):
            problem = "names what was written, and where"
            raise WrongArgument(
                "--undo", problem, "give it alone, or with --to-chroma where it moved"
            )
        _take_back(undo, to_chroma)
        return
    target = _target(to_chroma, to_mem0, collection)
    with progress("comparing"):
        rows, reading, plan = _planned(context.obj, target)
        plan, made = _with_vectors(context.obj, target, rows, reading, plan, embedder)
    _show_plan(plan)
    if not plan.changes:
        err().print("nothing to write back")
        return
    _confirm(target, yes)
    _write(target, plan, reading, undo_file or _free_name(target.collection), made)


@dataclass(frozen=True)
class _Target:
    """Whose collection is to change."""

    place: Path | ChromaServer
    collection: str


def _target(to_chroma: str | None, to_mem0: Path | None, collection: str | None) -> _Target:
    from memory.interchange import MEM0_COLLECTION, is_qdrant, vector_folder

    if (to_chroma is None) == (to_mem0 is None):
        raise WrongArgument(
            "write-back", "needs one place", "give --to-chroma PATH or --to-mem0 PATH"
        )
    if to_mem0 is None:
        assert to_chroma is not None
        return _Target(assembly.chroma_place(to_chroma), collection or "memories")
    folder = vector_folder(to_mem0)
    if is_qdrant(folder):
        raise InputError(folder, "is Qdrant's, which is only read", "mem0's Chroma is written to")
    return _Target(folder, collection or MEM0_COLLECTION)


def _planned(config: Config, target: _Target) -> tuple[Any, Reading, WriteBackPlan]:
    """Raises: InputError where nothing was ever imported from there."""
    from memory.interchange import noted_reading, plan_write_back, read_collection

    found = read_collection(target.place, target.collection)
    with assembly.read_store(config) as store:
        reading = noted_reading(store.ledger, found.collection_id)
        if reading is None:
            raise InputError(
                target.collection,
                "was never imported into this store, so nothing of it is known here",
                "see `memory-dedup import --from-chroma`",
            )
        return found.rows, reading, plan_write_back(found.rows, reading, store.ledger)


def _with_vectors(
    config: Config,
    target: _Target,
    rows: Sequence[Any],
    reading: Reading,
    plan: WriteBackPlan,
    embedder: str | None,
) -> tuple[WriteBackPlan, dict[str, Vector]]:
    """What needs a vector that nobody here can make is left alone."""
    from memory.interchange import vectors_as_theirs

    texts = list(dict.fromkeys(one.text for one in plan.updates if one.same_as is None))
    others = [] if not texts else _embedders(config, embedder)
    made = vectors_as_theirs(target.place, target.collection, rows, reading, texts, others)
    unmade = [one.row.id for one in plan.updates if one.same_as is None and one.text not in made]
    return plan.without(unmade, _NO_EMBEDDER), made


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


def _confirm(target: _Target, yes: bool) -> None:
    if yes:
        return
    err().print(
        f"write this to {target.collection!r}? No other program may have a folder open. y or n"
    )
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        err().print("nothing was written")
        raise typer.Exit(EXIT_PROBLEM)


def _free_name(collection: str) -> Path:
    names = (Path(f"{collection}.undo-{number}.jsonl") for number in count(1))
    return next(name for name in names if not name.exists())


def _write(
    target: _Target,
    plan: WriteBackPlan,
    reading: Reading,
    undo_file: Path,
    made: dict[str, Vector],
) -> None:
    from memory.interchange import write_back as carry_out
    from memory.store import utc_now

    planned = len(plan.left_alone)
    with progress("writing") as tell:
        done = carry_out(
            target.place, target.collection, plan, reading, undo_file, utc_now(), made, tell
        )
    _say_left(done.left_alone[planned:])
    err().print(f"{done.updated:,} rows updated, {done.deleted:,} deleted")
    if undo_file.exists():
        err().print(f"memory-dedup write-back --undo {undo_file} takes it back")
    if len(done.left_alone) > planned:
        raise typer.Exit(EXIT_PROBLEM)


def _take_back(file: Path, place: str | None) -> None:
    from memory.interchange import read_undo_file, undo_write_back

    header, rows = read_undo_file(file)
    where = assembly.chroma_place(place or header.place)
    with progress("putting back") as tell:
        done = undo_write_back(where, header, rows, tell)
    _say_left(done.left_alone)
    err().print(f"{done.restored:,} rows put back, {done.already:,} were as before")
    if done.left_alone:
        raise typer.Exit(EXIT_PROBLEM)

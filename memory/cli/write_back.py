"""Commands that write a clean-up back to the imported store, or show what to change there."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from memory import assembly, config, interchange
from memory.cli.shell import EXIT_PROBLEM, confirm, err, progress, show
from memory.errors import InputError, WrongArgument
from memory.text import shortened

_MOST_CHARACTERS = 200

Across = Annotated[
    list[str] | None,
    typer.Option(
        help="Let one row stand for rows that differ in this key, such as run_id; repeatable."
    ),
]


# --- changes --------------------------------------------------------------------------------------


def changes(
    context: typer.Context,
    dump: Annotated[
        Path | None, typer.Argument(help="The store as it is now, as JSON Lines [default: any].")
    ] = None,
    format: Annotated[  # noqa: A002 - the option's name
        Literal["text", "jsonl"], typer.Option(help="For people, or a line of JSON a row.")
    ] = "text",
    across: Across = None,
    undo_file: Annotated[
        Path | None, typer.Option(help="A new file for the changes that undo these.")
    ] = None,
) -> None:
    """Show what to change in the imported store.

    It names the rows to delete and to update, by their ids in that store.

    It changes nothing itself.
    """
    if dump is None and (format == "jsonl" or undo_file is not None):
        raise WrongArgument(
            "changes",
            "--format jsonl and --undo-file need the dump: they repeat its values as they are",
            "memory-dedup changes dump.jsonl --format jsonl",
        )
    rows = None if dump is None else _read_dump(dump)
    plan = _planned(context.obj, across or (), rows)
    if undo_file is not None:
        interchange.write_lines(undo_file, interchange.undo_lines(plan, rows or {}))
    if format == "text":
        _show_plan(plan)
        return
    for line in interchange.change_lines(plan, rows or {}, datetime.now(UTC)):
        sys.stdout.write(line + "\n")
    _say_staying(plan.staying)


def _write_changes(
    config: config.Config,
    dump: Path | None,
    file: Path | None,
    undo_file: Path | None,
    across: Sequence[str],
) -> None:
    if dump is None or file is None:
        raise WrongArgument(
            "--to-jsonl",
            "needs a dump, whose rows alone are named, and a file to write",
            "memory-dedup write-back dump.jsonl --to-jsonl changes.jsonl",
        )
    rows = _read_dump(dump)
    plan = _planned(config, across, rows)
    undo_file = undo_file or assembly.free_undo_file(file.stem)
    if file.exists():
        raise InputError(file, "exists already", "name a new file")
    interchange.write_lines(undo_file, interchange.undo_lines(plan, rows))
    interchange.write_lines(file, interchange.change_lines(plan, rows, datetime.now(UTC)))
    _say_staying(plan.staying)
    err().print(
        f"{file}: {len(plan.updates):,} rows to update, {len(plan.deletions):,} to delete; "
        f"{undo_file} undoes them"
    )


def _read_dump(dump: Path) -> dict[str, interchange.DumpedRow]:
    rows: dict[str, interchange.DumpedRow] = {}
    for row in interchange.read_rows(dump, assume_utc=True, default_time=datetime.now(UTC)):
        if isinstance(row, InputError):
            err().print(f"error: {row}")
        elif row.memory.external_id is not None:
            rows[row.memory.external_id] = row
    return rows


def _planned(
    config: config.Config,
    across: Sequence[str],
    dump: Mapping[str, interchange.DumpedRow] | None,
) -> interchange.WriteBackPlan:
    with assembly.read_store(config) as store:
        with store.ledger.reading() as reader:
            kinds = interchange.noted_kinds(reader)
        assembly.checked_across(across, interchange.Reading(kind_keys=kinds))
        return interchange.plan_changes(store.ledger, across, dump)


def _show_plan(plan: interchange.WriteBackPlan) -> None:
    updates = (
        f"mark {update.row.id}  {_short(update.said)}\n  superseded by {by}"
        if (by := update.marks.get("superseded_by"))
        else f"update {update.row.id}\n  from {_short(update.said)}\n  to   {_short(update.text)}"
        for update in plan.updates
    )
    deletions = (
        f"delete {deletion.row.id}  {_short(deletion.said)}\n  kept {deletion.kept.id}"
        + (f", which differs in {', '.join(names)}" if (names := deletion.differs_in) else "")
        for deletion in plan.deletions
    )
    if plan.changes:
        show("\n".join([*updates, *deletions]))
    _say_differences(plan.deletions)
    _say_left_alone(plan.left_alone)
    _say_staying(plan.staying)
    err().print(
        f"{len(plan.updates):,} rows to update, {len(plan.deletions):,} to delete; "
        f"{len(plan.left_alone):,} left alone; {plan.unknown:,} were not imported in this form"
    )


def _say_staying(staying: Sequence[interchange.Staying]) -> None:
    if not staying:
        return
    keys = Counter(name for row in staying for name in row.apart)
    differing = ", ".join(f"{name} ({count:,})" for name, count in keys.most_common())
    options = " ".join(f"--across {name}" for name in keys)
    err().print(
        f"{len(staying):,} rows keep their own text, since they differ from the row that "
        f"stands for them in {differing}; {options} lets one row stand for all"
    )


def _say_differences(deletions: Sequence[interchange.Deletion]) -> None:
    fields = Counter(name for deletion in deletions for name in deletion.differs_in)
    if fields:
        differing = ", ".join(f"{name} ({count:,})" for name, count in fields.most_common())
        err().print(
            f"rows to delete differ from the rows that stand for them in {differing}; to keep "
            "such rows, import again into a new data folder with --kind-key NAME"
        )


def _short(text: str) -> str:
    return shortened(text, _MOST_CHARACTERS)


def _say_left_alone(left_alone: Sequence[interchange.LeftAlone]) -> None:
    for row in left_alone:
        err().print(f"left alone {row.id}: {row.why}")


# --- write-back -----------------------------------------------------------------------------------


def write_back(
    context: typer.Context,
    dump: Annotated[
        Path | None, typer.Argument(help="With --to-jsonl: the store as it is now, as JSON Lines.")
    ] = None,
    to_chroma: Annotated[
        str | None, typer.Option("--to-chroma", help="A Chroma folder, or http://HOST:PORT.")
    ] = None,
    to_mem0: Annotated[
        str | None,
        typer.Option("--to-mem0", help="mem0's folder, http://HOST:6333, or postgresql://..."),
    ] = None,
    to_qdrant: Annotated[
        str | None, typer.Option("--to-qdrant", help="A local Qdrant folder, or http://HOST:6333.")
    ] = None,
    to_pgvector: Annotated[
        str | None, typer.Option("--to-pgvector", help="postgresql://... of a table with vectors.")
    ] = None,
    to_langgraph: Annotated[
        str | None,
        typer.Option("--to-langgraph", help="The file of a SqliteStore, or postgresql://..."),
    ] = None,
    to_jsonl: Annotated[
        Path | None,
        typer.Option("--to-jsonl", help="A new file of changes that you apply to any store."),
    ] = None,
    collection: Annotated[
        str | None, typer.Option(help="The collection [default: memories, mem0's mem0].")
    ] = None,
    embedder: Annotated[
        str | None, typer.Option(help="The embedder of merged texts: package.module:factory.")
    ] = None,
    undo_file: Annotated[
        Path | None,
        typer.Option(help="The file for the old rows [default: COLLECTION.undo-N.jsonl]."),
    ] = None,
    across: Across = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Read the pickles in a local Qdrant folder.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before writing.")] = False,
    undo: Annotated[Path | None, typer.Option(help="Undo a write-back, by its undo file.")] = None,
) -> None:
    """Write the cleaned memories back to the store they came from.

    It shows the rows to delete and to update, and asks before it writes.

    It changes only rows that were imported and have not changed since.
    """
    options = {
        "chroma": to_chroma,
        "mem0": to_mem0,
        "qdrant": to_qdrant,
        "pgvector": to_pgvector,
        "langgraph": to_langgraph,
    }
    stores = {kind: place for kind, place in options.items() if place is not None}
    if to_jsonl is not None or dump is not None:
        if stores or undo is not None:
            raise WrongArgument("--to-jsonl", "writes a file", "give it without another store")
        _write_changes(context.obj, dump, to_jsonl, undo_file, across or ())
    elif undo is not None:
        if len(stores) > 1 or any(
            option is not None for option in (collection, embedder, undo_file)
        ):
            raise WrongArgument(
                "--undo",
                "names what was written, and where",
                "give it alone, or with --to if it moved",
            )
        _take_back(undo, next(iter(stores.values()), None), trust=trust)
    elif len(stores) != 1:
        raise WrongArgument(
            "write-back",
            "needs one store",
            f"give {', '.join(f'--to-{kind}' for kind in options)} or --to-jsonl",
        )
    else:
        target = assembly.Source(collection=collection, trust=trust, **stores)  # type: ignore[arg-type] # one
        _write(context.obj, target, across or (), embedder, undo_file, yes)


def _write(
    config: config.Config,
    target: assembly.Source,
    across: Sequence[str],
    embedder: str | None,
    undo_file: Path | None,
    yes: bool,
) -> None:
    with progress("comparing"):
        planned = assembly.compare(target, config, across, embedder)
    for note in planned.notes:
        err().print(note)
    _show_plan(planned.plan)
    if not planned.plan.changes:
        planned.write()
        err().print("nothing to write back")
        return
    warning = " No other program may have its folder open." * (planned.theirs.kind == "chroma")
    confirm(yes, f"write this to {planned.theirs.name!r}?{warning}", "nothing was written")
    with progress("writing") as tell:
        done = planned.write(undo_file, tell)
    _say_left_alone(done.changed_meanwhile)
    err().print(f"{done.updated:,} rows updated, {done.deleted:,} deleted")
    needed = " --trust" * target.trust
    for file in done.undo_files:
        err().print(f"memory-dedup write-back --undo {file}{needed} undoes it")
    if done.changed_meanwhile:
        raise typer.Exit(EXIT_PROBLEM)


def _take_back(file: Path, moved_to: str | None, *, trust: bool) -> None:
    with progress("putting back") as tell:
        done = assembly.undo_write_back(file, moved_to=moved_to, trust=trust, on_progress=tell)
    _say_left_alone(done.left_alone)
    err().print(f"{done.restored:,} rows put back, {done.already:,} were as before")
    if done.left_alone:
        raise typer.Exit(EXIT_PROBLEM)

"""The command that writes a clean-up back to the store that was imported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from memory import assembly, config, interchange
from memory.cli.importing import with_targets
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


def _read_dump(dump: Path) -> dict[str, interchange.DumpedRow]:
    rows: dict[str, interchange.DumpedRow] = {}
    for row in interchange.read_rows(dump, assume_utc=True, default_time=datetime.now(UTC)):
        if isinstance(row, InputError):
            err().print(f"error: {row}")
        elif row.memory.external_id is not None:
            rows[row.memory.external_id] = row
    return rows


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
    _say_differences(plan)
    _say_left_alone(plan.left_alone)
    err().print(
        f"{len(plan.updates):,} rows to update, {len(plan.deletions):,} to delete; "
        f"{len(plan.left_alone):,} left alone; {plan.unknown:,} were not imported in this form"
    )


def _say_differences(plan: interchange.WriteBackPlan) -> None:
    apart = Counter(name for row in plan.staying for name in row.apart)
    fields = Counter(name for deletion in plan.deletions for name in deletion.differs_in)
    if fields:
        err().print(
            f"rows to delete differ from the rows that stand for them in {_counted(fields)}; to "
            "keep such rows, import again into a new data folder with --kind-key NAME"
        )
    if apart:
        options = " ".join(f"--across {name}" for name in apart)
        err().print(
            f"{len(plan.staying):,} rows keep their own text, since they differ from the row that "
            f"stands for them in {_counted(apart)}; {options} lets one row stand for all"
        )


def _counted(keys: Counter[str]) -> str:
    return ", ".join(f"{name} ({count:,})" for name, count in keys.most_common())


def _short(text: str) -> str:
    return shortened(text, _MOST_CHARACTERS)


def _say_left_alone(left_alone: Sequence[interchange.LeftAlone]) -> None:
    for row in left_alone:
        err().print(f"left alone {row.id}: {row.why}")


# --- write-back -----------------------------------------------------------------------------------


@with_targets
def write_back(
    *,
    context: typer.Context,
    dump: Annotated[
        Path | None, typer.Argument(help="With --to-jsonl: the store as it is now, as JSON Lines.")
    ] = None,
    stores: dict[str, str],
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
    if to_jsonl is not None or dump is not None:
        if stores or undo is not None:
            raise WrongArgument("--to-jsonl", "writes a file", "give it without another store")
        _write_changes(context.obj, dump, to_jsonl, undo_file, across or ())
    elif undo is not None:
        if len(stores) > 1 or (collection, embedder, undo_file) != (None, None, None):
            problem, remedy = "names what was written, and where", "with --to if it moved"
            raise WrongArgument("--undo", problem, f"give it alone, or {remedy}")
        _take_back(undo, next(iter(stores.values()), None), trust=trust)
    elif len(stores) != 1:
        raise WrongArgument("write-back", "needs one store", "give one --to option")
    else:
        target = assembly.Source(collection=collection, trust=trust, **stores)  # type: ignore[arg-type] # one
        _write(context.obj, target, across or (), embedder, undo_file, yes)


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
    with assembly.read_store(config) as store:
        with store.ledger.reading() as reader:
            kinds = interchange.noted_kinds(reader)
        assembly.checked_across(across, interchange.Reading(kind_keys=kinds))
        plan = interchange.plan_changes(store.ledger, across, rows)
    _show_plan(plan)
    undo_file = undo_file or assembly.free_undo_file(file.stem)
    if file.exists():
        raise InputError(file, "exists already", "name a new file")
    interchange.write_lines(undo_file, interchange.undo_lines(plan, rows))
    interchange.write_lines(file, interchange.change_lines(plan, rows, datetime.now(UTC)))
    err().print(f"written to {file}; {undo_file} undoes it")


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

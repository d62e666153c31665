"""What a cleaned store would change where its memories came from: shown, or as lines of JSON."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from memory import assembly
from memory.cli.shell import err, show
from memory.cli.sources import say_left_out
from memory.errors import InputError
from memory.text import shortened

if TYPE_CHECKING:
    from memory.config import Config
    from memory.interchange import LeftAlone, Staying, Update, WriteBackPlan

_TEXT = 200
"""Characters of a text in the plan."""


Across = Annotated[
    list[str] | None,
    typer.Option(
        help="Let one row stand for rows that differ in this key, such as run_id; repeatable."
    ),
]


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
        Path | None, typer.Option(help="A new file for the changes that take these back.")
    ] = None,
) -> None:
    """Show what to change in the store of an import.

    It names the rows to delete and to update.

    Rows are named by the ids that the import gave; nothing is changed.
    """
    from memory.interchange import change_lines, undo_lines, write_lines
    from memory.store import utc_now

    plan = _planned(context.obj, across or (), dump)
    if undo_file is not None:
        write_lines(undo_file, undo_lines(plan))
    if format == "text":
        show_plan(plan)
        return
    for line in change_lines(plan, utc_now()):
        sys.stdout.write(line + "\n")
    say_staying(plan.staying)


def write_changes(
    config: Config, dump: Path, file: Path, undo_file: Path, across: Sequence[str]
) -> None:
    """Write the undo file, then the changes of the rows of a dump; neither may exist already.

    Raises: InputError.
    """
    from memory.interchange import change_lines, undo_lines, write_lines
    from memory.store import utc_now

    plan = _planned(config, across, dump)
    if file.exists():
        raise InputError(file, "exists already", "name a new file")
    write_lines(undo_file, undo_lines(plan))
    write_lines(file, change_lines(plan, utc_now()))
    say_staying(plan.staying)
    err().print(
        f"{file}: {len(plan.updates):,} rows to update, {len(plan.deletions):,} to delete; "
        f"{undo_file} takes them back"
    )


def _planned(config: Config, across: Sequence[str], dump: Path | None) -> WriteBackPlan:
    from memory.interchange import plan_changes, read_memories

    rows = None
    if dump is not None:
        brought = assembly.sorted_out(read_memories(dump))
        say_left_out(brought)
        rows = {str(memory.external_id): memory.content for memory in brought.memories}
    with assembly.read_store(config) as store:
        return plan_changes(store.ledger, assembly.checked_across(across), rows)


def show_plan(plan: WriteBackPlan) -> None:
    updates = map(_update_lines, plan.updates)
    deletions = (
        f"delete {one.row.id}  {_line(one.said)}\n  kept {one.kept.id}" for one in plan.deletions
    )
    if plan.changes:
        show("\n".join([*updates, *deletions]))
    say_left(plan.left_alone)
    say_staying(plan.staying)
    err().print(
        f"{len(plan.updates):,} rows to update, {len(plan.deletions):,} to delete; "
        f"{len(plan.left_alone):,} left alone; {plan.unknown:,} were never imported as they are"
    )


def _update_lines(one: Update) -> str:
    lines = [f"update {one.row.id}"]
    if one.text != one.said:
        lines += [f"  from {_line(one.said)}", f"  to   {_line(one.text)}"]
    if one.expires_as is not None:
        lines.append(f"  expires as {one.expires_as.id}")
    return "\n".join(lines)


def say_staying(staying: Sequence[Staying]) -> None:
    """Say how many rows stay with their own text, and in which keys they differ."""
    if not staying:
        return
    keys = Counter(name for one in staying for name in one.apart)
    why = ", ".join(f"{name} ({count:,})" for name, count in keys.most_common())
    options = " ".join(f"--across {name}" for name in keys)
    err().print(
        f"{len(staying):,} rows stay with their own text, since they differ from the row that "
        f"stands for them in {why}; {options} lets one row stand for all"
    )


def _line(text: str) -> str:
    return shortened(text, _TEXT)


def say_left(left: Sequence[LeftAlone]) -> None:
    for one in left:
        err().print(f"left alone {one.id}: {one.why}")

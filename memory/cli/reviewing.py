"""A person's say: groups answered on a page, or from a file that a report saved."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memory import assembly
from memory.cli.shell import EXIT_PROBLEM, err


def apply(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A decisions file, as a report's page saves it.")],
) -> None:
    """Do what a person answered in a report; what no longer fits is refused, with the reason."""
    from memory.errors import InputError
    from memory.review import Already, Given, read_decisions

    found = read_decisions(file)
    given = already = refused = 0
    with assembly.open_existing_store(context.obj) as store:
        answers = assembly.build_answers(store, context.obj)
        for number, one in found:
            outcome = one if isinstance(one, InputError) else answers.give(one)
            given += isinstance(outcome, Given)
            already += isinstance(outcome, Already)
            if isinstance(outcome, InputError):
                err().print(f"refused: {outcome}")
                refused += 1
            elif not isinstance(outcome, (Given, Already)):
                err().print(f"refused: {InputError(file, outcome.why, line=number)}")
                refused += 1
    undo = f"; `memory-dedup undo {answers.run}` takes them back" if given else ""
    err().print(f"{given:,} applied, {already:,} were already, {refused:,} refused{undo}")
    if refused:
        raise typer.Exit(EXIT_PROBLEM)

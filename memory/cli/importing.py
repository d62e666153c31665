"""Importing memories, from a file or from another store."""

from __future__ import annotations

import asyncio
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from memory import assembly
from memory.cli.deduplicating import MaxCalls
from memory.cli.looking import say_missing_vectors
from memory.cli.shell import EXIT_PROBLEM, err, progress
from memory.cli.sources import brought_from, say_left_out, with_source
from memory.errors import InputError, WrongArgument

if TYPE_CHECKING:
    from memory.assembly import Brought, ImportReport, Source
    from memory.config import Config


@with_source
def import_(
    *,
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(help="JSON Lines, one memory a line; - is standard input.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Store every memory unchanged, without deduplication.")
    ] = False,
    source: Source,
    max_calls: MaxCalls = None,
) -> None:
    """Import memories through the deduplicator.

    With --raw they are stored unchanged.
    """
    config: Config = context.obj
    brought = _brought(config, file, source)
    config = config.with_calls_per_run(max_calls)
    with assembly.open_store(config) as store, progress("importing") as tell:
        if raw:
            done = assembly.import_raw(store, brought, tell)
        else:
            done = asyncio.run(assembly.import_deduplicated(store, brought, config, tell))
    _say_calls(config, done)
    say_missing_vectors(done.without_vector)
    actions = ", ".join(f"{n:,} {name}" for name, n in done.actions.items()) or "nothing"
    change = f"memories {done.memories_before:,} -> {done.memories:,}"
    err().print(f"imported {done.read:,}: {actions}; {change}")
    if done.waiting:
        err().print(f"{done.waiting:,} questions wait for the model: memory-dedup retry asks them")
    if done.left_out:
        err().print(f"{len(done.left_out):,} left out; the reasons are above")
    if done.left_out or done.without_vector:
        raise typer.Exit(EXIT_PROBLEM)


def _brought(config: Config, file: Path | None, source: Source) -> Brought:
    """Raises: InputError."""
    if (file is not None) + source.stores != 1:
        raise WrongArgument("import", "needs exactly one source", "give FILE, or one --from option")
    if file is None:
        return brought_from(source, config)
    if source.reading.model_copy(update={"assume_utc": False}) != type(source.reading)():
        raise WrongArgument("import", "the key options and --no-user are for --from stores")
    if str(file) != "-":
        return brought_from(replace(source, file=file), config)
    with TemporaryDirectory(prefix="memory-import-") as folder:
        spooled = Path(folder) / "stdin"
        with spooled.open("wb") as out:
            shutil.copyfileobj(sys.stdin.buffer, out)
        try:
            brought = assembly.read_source(replace(source, file=spooled), config)
        except InputError as exc:
            raise _of_stdin(exc) from exc
    brought = replace(brought, left_out=tuple(map(_of_stdin, brought.left_out)))
    say_left_out(brought)
    return brought


def _of_stdin(problem: InputError) -> InputError:
    problem.source = "standard input"
    return problem


def _say_calls(config: Config, done: ImportReport) -> None:
    from memory.cli.views import cost

    if done.usage.calls:
        price = config.llm.price
        money = None if price is None else price.of(done.usage)
        err().print(f"model calls: {cost(done.model, done.usage, money)}")

"""Bringing memories in: from a file, or from somebody else's store."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from memory import assembly
from memory.cli.looking import warn_of_missing_vectors
from memory.cli.shell import EXIT_PROBLEM, err, progress
from memory.cli.sources import (
    Brought,
    Source,
    brought_from,
    sorted_out,
    warn_of_agents,
    with_source,
)
from memory.errors import InputError, WrongArgument

if TYPE_CHECKING:
    from memory.config import Config
    from memory.models import Memory, Outcome
    from memory.store import MemoryStore


@with_source
def import_(
    *,
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(help="JSON Lines, one memory a line; - is standard input.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Store every memory as it is, without deduplication.")
    ] = False,
    source: Source,
    max_calls: Annotated[
        int | None,
        typer.Option(min=0, help="Calls of the model at most [default: dedup_calls_per_run]."),
    ] = None,
) -> None:
    """Import memories through the deduplicator.

    With --raw they are stored as they are.
    """
    brought = _brought(file, source)
    config: Config = context.obj
    warn_of_agents(config, brought.memories)
    with assembly.open_store(config) as store:
        before = store.counts()
        bring_in = _add_raw if raw else _add_deduplicated
        actions = bring_in(store, brought.memories, config.with_calls_per_run(max_calls))
        brought.keep_origin(store)
        after = store.counts()
        missing = warn_of_missing_vectors(store)
    said = ", ".join(f"{n:,} {name}" for name, n in actions.most_common()) or "nothing"
    count = len(brought.memories)
    err().print(f"imported {count:,}: {said}; memories {before.live:,} -> {after.live:,}")
    if after.pending > before.pending:
        waiting = after.pending - before.pending
        err().print(f"{waiting:,} questions wait for the model: memory-dedup retry asks them")
    if brought.left_out:
        err().print(f"{brought.left_out:,} left out; the reasons are above")
    if brought.left_out or missing:
        raise typer.Exit(EXIT_PROBLEM)


def _brought(file: Path | None, source: Source) -> Brought:
    """Raises: InputError."""
    if (file is not None) + source.stores != 1:
        raise WrongArgument("import", "needs exactly one source", "give FILE, or one --from option")
    if file is None:
        return brought_from(source)
    from memory.interchange import read_memories

    if source.reading.model_copy(update={"assume_utc": False}) != type(source.reading)():
        raise WrongArgument("import", "the keys and --no-user are for other people's stores")
    assume_utc = source.reading.assume_utc
    if str(file) != "-":
        return Brought(*sorted_out(read_memories(file, assume_utc=assume_utc)))
    with TemporaryDirectory(prefix="memory-import-") as folder:
        spooled = Path(folder) / "stdin"
        with spooled.open("wb") as out:
            shutil.copyfileobj(sys.stdin.buffer, out)
        try:
            read = list(read_memories(spooled, assume_utc=assume_utc))
        except InputError as exc:
            raise _of_stdin(exc) from exc
    named = (_of_stdin(one) if isinstance(one, InputError) else one for one in read)
    return Brought(*sorted_out(named))


def _of_stdin(problem: InputError) -> InputError:
    problem.source = "standard input"
    return problem


def _add_raw(store: MemoryStore, memories: list[Memory], _config: Config) -> Counter[str]:
    added = done = 0
    with progress("importing") as tell:
        for some in store.pace.parts(memories):
            added += store.add_batch(some)
            done += len(some)
            tell(done, len(memories))
    return Counter({"add": added, "already there": len(memories) - added}) + Counter()


def _add_deduplicated(store: MemoryStore, memories: list[Memory], config: Config) -> Counter[str]:
    async def run() -> list[Outcome]:
        async with aclosing(assembly.build_model(config)) as model:
            deduplicator = assembly.build_deduplicator(store, config, model)
            outcomes = await deduplicator.check_and_merge_all(
                memories, run=new_run(), on_progress=tell
            )
            _say_calls(config, model.name, outcomes)
            return outcomes

    from memory.batch import new_run

    with progress("importing") as tell:
        return Counter(outcome.action.value for outcome in asyncio.run(run()))


def _say_calls(config: Config, model: str, outcomes: Iterable[Outcome]) -> None:
    from memory.cli.report import cost
    from memory.models import Usage

    usage = sum((outcome.usage for outcome in outcomes), Usage())
    if usage.calls:
        price = config.llm.price
        money = None if price is None else price.of(usage)
        err().print(f"model calls: {cost(model, usage, money)}")

"""Cleaning a whole store, here, on several processes or on a cluster."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer

from memory import assembly
from memory.cli.shell import compared, progress, show
from memory.errors import WrongArgument

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from memory.config import Config
    from memory.models import DeduplicationReport
    from memory.store import MemoryStore


def dedup(
    context: typer.Context,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that look for pairs [default: this one].")
    ] = None,
    dask: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="A Dask cluster that looks for pairs.")
    ] = None,
    max_calls: Annotated[
        int | None,
        typer.Option(min=0, help="Calls of the model at most [default: dedup_calls_per_run]."),
    ] = None,
    thorough: Annotated[
        bool,
        typer.Option("--thorough", help="Show each memory with all that is near: twice the pages."),
    ] = False,
) -> None:
    """Clean the whole store: merge or retire near-copies."""
    from memory.cli.report import end_if_nothing_was_answered, view

    if workers is not None and dask is not None:
        raise WrongArgument("dedup", "takes --workers or --dask", "give one of them")
    config: Config = context.obj
    with (
        assembly.open_existing_store(config) as store,
        assembly.open_executor(workers, dask) as executor,
    ):
        report = asyncio.run(_run(store, config, executor, max_calls, thorough))
    show(view(report, groups=False))
    end_if_nothing_was_answered(report)


async def _run(
    store: MemoryStore,
    config: Config,
    executor: Executor | None,
    max_calls: int | None,
    thorough: bool,
) -> DeduplicationReport:
    from memory.cli.report import say_cost

    with progress("deduplicating") as tell:
        async with aclosing(assembly.build_model(config)) as model:
            deduplicator = assembly.build_deduplicator(store, config, model, executor)
            return await deduplicator.deduplicate_all(
                max_calls=max_calls,
                thorough=thorough,
                on_progress=tell,
                on_page=lambda page, of: tell(page, of, "page"),
                on_plan=say_cost,
                on_compared=compared(tell),
            )

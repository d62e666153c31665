"""Cleaning a whole store, and asking again what a model could not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer

from memory import assembly
from memory.cli.shell import Tell, compared, progress, show
from memory.errors import WrongArgument

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from memory.config import Config
    from memory.deduplicator import MemoryDeduplicator
    from memory.models import DeduplicationReport
    from memory.store import MemoryStore

MaxCalls = Annotated[
    int | None,
    typer.Option(min=0, help="The most calls of the model [default: memory.dedup_calls_per_run]."),
]


def dedup(
    context: typer.Context,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that look for pairs [default: this one].")
    ] = None,
    dask: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="A Dask cluster that looks for pairs.")
    ] = None,
    max_calls: MaxCalls = None,
    thorough: Annotated[
        bool,
        typer.Option(
            "--thorough", help="Show the model each memory with all near ones: twice the pages."
        ),
    ] = False,
) -> None:
    """Clean the whole store: merge or retire near-copies."""
    from memory.cli.views import say_cost

    if workers is not None and dask is not None:
        raise WrongArgument("dedup", "takes --workers or --dask", "give one of them")

    def batch(deduplicator: MemoryDeduplicator, tell: Tell) -> Awaitable[DeduplicationReport]:
        return deduplicator.deduplicate_all(
            max_calls=max_calls,
            thorough=thorough,
            on_progress=tell,
            on_page=lambda page, of: tell(page, of, "page"),
            on_plan=say_cost,
            on_compared=compared(tell),
        )

    with (
        assembly.open_existing_store(context.obj) as store,
        assembly.open_executor(workers, dask) as executor,
    ):
        _run("deduplicating", store, context.obj, batch, executor)


def retry(
    context: typer.Context,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Ask about the whole store, except what a person kept apart."),
    ] = False,
) -> None:
    """Ask the model what it could not answer before."""

    def batch(deduplicator: MemoryDeduplicator, tell: Tell) -> Awaitable[DeduplicationReport]:
        return deduplicator.retry_pending(
            again=everything,
            on_progress=tell,
            on_page=lambda page, of: tell(page, of, "page"),
            on_compared=compared(tell),
        )

    with assembly.open_existing_store(context.obj) as store:
        _run("asking again", store, context.obj, batch)


def _run(
    label: str,
    store: MemoryStore,
    config: Config,
    batch: Callable[[MemoryDeduplicator, Tell], Awaitable[DeduplicationReport]],
    executor: Executor | None = None,
) -> None:
    """Run a batch with the configured model and show its report."""
    from memory.cli.views import end_if_nothing_was_answered, view

    async def run(tell: Tell) -> DeduplicationReport:
        async with aclosing(assembly.build_model(config)) as model:
            deduplicator = assembly.build_deduplicator(store, config, model, executor)
            return await batch(deduplicator, tell)

    with progress(label) as tell:
        report = asyncio.run(run(tell))
    show(view(report, groups=False))
    end_if_nothing_was_answered(report)

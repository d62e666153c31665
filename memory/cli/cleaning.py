"""Commands that clean a whole store: audit, dedup, retry, apply and review."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import webbrowser
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from memory import assembly, decide, models, review, runtime
from memory.cli.importing import say_left_out, with_source
from memory.cli.shell import (
    EXIT_PROBLEM,
    MaxCalls,
    ProgressCallback,
    ReportFile,
    check_report,
    compared,
    err,
    progress,
    save_report,
    show,
    warn_of_missing_vectors,
)
from memory.cli.views import end_if_nothing_was_answered, say_cost, view
from memory.errors import InputError, LedgerMissing, WrongArgument

if TYPE_CHECKING:
    import socket
    from concurrent.futures import Executor

    from memory.assembly import Source
    from memory.config import Config
    from memory.store import MemoryStore

_GROUPS = 50
"""The number of groups that `audit` shows by default; with --json it shows all."""
_INSIST = 'to apply it anyway, insist in the report or write "insist": true in this line'


# --- the plan -------------------------------------------------------------------------------------


@with_source
def audit(
    *,
    context: typer.Context,
    groups: Annotated[
        int | None,
        typer.Option("--groups", min=0, help="Groups to show [default: 50, all with --json]."),
    ] = None,
    sort: Annotated[
        Literal["certain", "size", "time"],
        typer.Option("--sort", help="Least certain, largest, or newest groups first."),
    ] = "certain",
    user: Annotated[str | None, typer.Option(help="Only groups about this user.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the whole report as JSON.")
    ] = False,
    report: ReportFile = None,
    source: Source,
) -> None:
    """Show what a clean-up would do, and change nothing.

    With a --from option it reads another store and imports nothing.
    """
    check_report(report)
    if source.stores > 1:
        raise WrongArgument("audit", "needs one store at a time", "give one --from option")
    chosen = decide.GroupFilter(_GROUPS if groups is None and not as_json else groups, sort, user)
    other = source if source.stores else None
    show_audit(context.obj, chosen, other, as_json=as_json, report=report)


def show_audit(
    config: Config,
    chosen: decide.GroupFilter | None = None,
    source: Source | None = None,
    *,
    as_json: bool = False,
    report: Path | None = None,
) -> None:
    """Print what a deduplication would do; if there is no ledger, say so on stderr.

    `chosen`: selects and sorts the groups to show; None means the 50 least certain groups.
    `source`: another program's store to look at; None means the configured store. `as_json`:
    whether to print the result as JSON. `report`: path of a file to which a report is written, in
    place of the text output; None means no file.

    Raises: typer.Exit if some memories of the source could not be read.
    """
    with ExitStack() as opened:
        try:
            with progress("reading"):
                auditing = assembly.open_to_audit(source, config)
                store, brought = opened.enter_context(auditing)
        except LedgerMissing as exc:
            err().print(f"{exc}")
            return
        say_left_out(brought)
        warn_of_missing_vectors(store)
        with progress("looking") as tell:
            chosen = chosen or decide.GroupFilter(_GROUPS)
            found = asyncio.run(assembly.audit_store(store, config, chosen, compared(tell)))
        if report is not None:
            gc.freeze()  # else every collection while cards are made walks over all memories
            alike = decide.similarity_histogram(found.snapshot, store.scope_of, store.scale)
            cards, rules = review.cards_of(found.plan), config.memory.rules
            save_report(
                report, review.audit_report(found.report, cards, alike, rules, store.clock())
            )
    if as_json:
        sys.stdout.write(found.report.model_dump_json(indent=2) + "\n")
    elif report is None:
        show(view(found.report, groups=True), paged=True)
    if brought.left_out:
        err().print(f"{len(brought.left_out):,} left out; the reasons are above")
        raise typer.Exit(EXIT_PROBLEM)


# --- the batch ------------------------------------------------------------------------------------


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
    if workers is not None and dask is not None:
        raise WrongArgument("dedup", "takes --workers or --dask", "give one of them")

    with (
        assembly.open_existing_store(context.obj) as store,
        assembly.open_executor(workers, dask) as executor,
    ):
        _run_batch(
            "deduplicating",
            store,
            context.obj,
            lambda worker, **callbacks: worker.deduplicate_all(
                max_calls=max_calls, thorough=thorough, on_plan=say_cost, **callbacks
            ),
            executor,
        )


def retry(
    context: typer.Context,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Ask about the whole store, except what a person kept apart."),
    ] = False,
) -> None:
    """Repeat the questions that the model failed to answer."""
    with assembly.open_existing_store(context.obj) as store:
        _run_batch(
            "asking again",
            store,
            context.obj,
            lambda worker, **callbacks: worker.retry_pending(again=everything, **callbacks),
        )


def _run_batch(
    label: str,
    store: MemoryStore,
    config: Config,
    batch: Callable[..., Awaitable[models.DeduplicationReport]],
    executor: Executor | None = None,
) -> None:
    """Call `batch` with a deduplicator, show its progress, and print the report that it returns.

    `label`: the name of the work in the progress display. `batch`: called with the deduplicator
    and, by name, the progress callbacks `on_progress`, `on_page` and `on_compared`. `executor`:
    where the search for pairs and the planning of groups run; None means in this process.

    Raises: typer.Exit if no call of the model succeeded.
    """

    async def run(tell: ProgressCallback) -> models.DeduplicationReport:
        async with aclosing(assembly.build_model(config)) as model:
            worker = assembly.build_deduplicator(store, config, model, executor)
            pages = partial(tell, counted="page")
            return await batch(worker, on_progress=tell, on_page=pages, on_compared=compared(tell))

    with progress(label) as tell:
        report = asyncio.run(run(tell))
    show(view(report, groups=False))
    end_if_nothing_was_answered(report)


# --- a person decides -----------------------------------------------------------------------------


def apply(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A decisions file that a report saved.")],
) -> None:
    """Apply the answers that a person gave in a report.

    An answer that no longer fits the store is refused, with the reason.
    """
    lines = review.read_decisions(file)
    given = already = refused = 0
    with assembly.open_existing_store(context.obj) as store:
        answers = assembly.build_answers(store, context.obj)
        for number, answered in lines:
            outcome = answered if isinstance(answered, InputError) else answers.give(answered)
            if isinstance(outcome, review.Given):
                given += not outcome.repeated
                already += outcome.repeated
                continue
            if not isinstance(outcome, InputError):
                remedy = _INSIST if outcome.may_insist else ""
                outcome = InputError(file, outcome.why, remedy, number)
            err().print(f"refused: {outcome}")
            refused += 1
    undo = f"; `memory-dedup undo {answers.run}` undoes them" if given else ""
    err().print(f"{given:,} applied, {already:,} applied before, {refused:,} refused{undo}")
    if refused:
        raise typer.Exit(EXIT_PROBLEM)


def review_groups(
    context: typer.Context,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on [default: a free one].")
    ] = 0,
    host: Annotated[
        str,
        typer.Option(
            help="The address to listen on; others than loopback can be reached by others."
        ),
    ] = "127.0.0.1",
    blind: Annotated[
        bool, typer.Option("--blind", help="Hide similarity and plan until you have answered.")
    ] = False,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address.")
    ] = False,
) -> None:
    """Decide about groups of near-copies in a browser.

    There you apply the plan, keep a group apart, leave a member out, write one text, or undo.
    """
    with runtime.Address(host, port).listen() as listening:
        where = runtime.Address(host, listening.getsockname()[1])
        asyncio.run(_review(context.obj, where, listening, blind, open_browser=not no_browser))
    err().print("stopped; every answer that was given is kept")


async def _review(
    config: Config,
    where: runtime.Address,
    listening: socket.socket,
    blind: bool,
    *,
    open_browser: bool,
) -> None:
    """Print an address that admits one browser, and serve the review until the command is stopped.

    `listening`: the open socket. `where`: the socket's address. `blind`: whether to hide
    similarities and the plan until the person has answered. `open_browser`: whether to open the
    address in a browser.
    """
    browser = review.BrowserSession(where)
    with assembly.open_existing_store(config) as store:
        async with aclosing(assembly.build_model(config)) as model:
            session = assembly.build_review(store, config, model, blind=blind)
            await session.look()
            with runtime.stop_event() as stop:
                address = browser.address()
                sys.stdout.write(f"{address}\n")
                sys.stdout.flush()
                err().print("the address works once; Ctrl-C ends the review")
                if open_browser:  # in a thread, since some browsers return only when closed
                    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
                await runtime.serve_until(
                    stop, review.ReviewServer(session, browser).app(), listening
                )

"""Commands that clean a whole store: audit, dedup, retry, apply and review."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import webbrowser
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextlib import ExitStack, aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from memory import agent, assembly, config, models, runtime, upkeep
from memory.cli.other_stores import say_left_out, with_source
from memory.cli.shell import (
    EXIT_PROBLEM,
    MaxCalls,
    ProgressCallback,
    ReportFile,
    compared,
    cost,
    err,
    event_shown,
    members_view,
    progress,
    save_report,
    show,
    table,
    warn_of_missing_vectors,
)
from memory.errors import InputError, LedgerMissing, WrongArgument, installed
from memory.text import counted

if TYPE_CHECKING:
    from memory.assembly import Source

_GROUPS_SHOWN = 50
_USERS_SHOWN, _EXAMPLES = 10, 3
_INSIST = 'to apply it anyway, insist in the report or write "insist": true in this line'


# --- the plan -------------------------------------------------------------------------------------


@with_source
def audit(
    *,
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(help="A JSON Lines file [default: the configured store].")
    ] = None,
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

    With a file or a --from option it reads other memories and imports nothing.
    """
    if source.stores + (file is not None) > 1:
        raise WrongArgument("audit", "needs one store at a time", "give FILE, or one --from option")
    source = replace(source, file=source.file or file)
    show_audit(
        context.obj,
        source if source.stores else None,
        groups=_GROUPS_SHOWN if groups is None and not as_json else groups,
        order=sort,
        user=user,
        as_json=as_json,
        report=report,
    )


def show_audit(
    config: config.Config,
    source: Source | None = None,
    *,
    groups: int | None = _GROUPS_SHOWN,
    order: assembly.Order = "certain",
    user: str | None = None,
    as_json: bool = False,
    report: Path | None = None,
) -> None:
    """Print what a clean-up of the store would do.

    If there is no ledger, print only a message on stderr.

    `source`: another program's store (default: the configured store). `groups`, `order`, `user`:
    which groups of near-copies to show, as in `first_groups`. `as_json`: print JSON instead of a
    table. `report`: write a report to this file, and print no table.

    Raises: typer.Exit if some memories of the source could not be read.
    """
    with ExitStack() as opened:
        try:
            with progress("reading"):
                store, brought = opened.enter_context(assembly.open_to_audit(source, config))
        except LedgerMissing as exc:
            err().print(f"{exc}")
            return
        say_left_out(brought)
        warn_of_missing_vectors(store)
        with progress("looking") as tell:
            planning = assembly.audit_store(
                store, config, groups, order, user, on_progress=compared(tell)
            )
            found = asyncio.run(planning)
        if report is not None:
            alike = assembly.similarity_histogram(found.plan.snapshot, store.scope_of, store.scale)
            cards, rules = upkeep.cards_of(found.plan), config.memory.rules
            save_report(
                report, upkeep.audit_report(found.report, cards, alike, rules, store.clock())
            )
    if as_json:
        sys.stdout.write(found.report.model_dump_json(indent=2) + "\n")
    elif report is None:
        show(view(found.report, groups=True), paged=True)
    if brought.left_out:
        err().print(f"{len(brought.left_out):,} left out; the reasons are above")
        raise typer.Exit(EXIT_PROBLEM)


# --- a report as a table --------------------------------------------------------------------------


def view(report: models.DeduplicationReport, *, groups: bool) -> RenderableType:
    """Return a report as a table for the terminal; `groups`: list its groups above the table."""
    above = [
        Padding(_group(group, f"{number}/{report.found}"), (0, 0, 1, 0))
        for number, group in enumerate(report.groups, start=1)
        if groups
    ]
    rows = _planned(report) if report.dry_run else _done(report)
    return Group(*above, table([row for row in rows if row[1]]))


def _planned(report: models.DeduplicationReport) -> list[tuple[str, str]]:
    free = f", of which {report.found - report.questions:,} need no model"
    if not report.found and any(report.pairs.values()):
        free = ": each pair was decided before and stays apart; see history"
    hidden = report.found - len(report.groups)
    below = report.just_below
    near = f"from {below.low:.2f} to just below {below.high:.2f}" if below else ""
    pages = counted(report.pages, "page")
    pages += f" of memories; {report.characters:,} characters go to the model"
    priced = cost(report.model, report.estimated, report.money)
    return [
        *_found(report),
        ("groups", f"{report.found:,}{'' if report.pages else free}"),
        (
            "not shown",
            f"{counted(hidden, 'group')} that are more certain; see --groups and --json"
            if hidden
            else "",
        ),
        ("just below", f"{counted(below.pairs, 'pair')} {near}" if below else "not counted"),
        ("would retire", f"{report.retired:,} without a model"),
        ("would ask", f"about {counted(report.questions, 'question')} ({report.model})"),
        ("would read", pages if report.pages else ""),
        ("model calls", f"about {priced}" if report.estimated.calls else ""),
        ("nothing changed", f"a dry run, {report.seconds:.1f} s"),
    ]


def _done(report: models.DeduplicationReport) -> list[tuple[str, str]]:
    decisions = ", ".join(f"{n:,} {name}" for name, n in _by_count(report.decisions))
    left = f"{counted(report.left, 'group')}, for the next run (calls spent, or the model rests)"
    unread = f"{report.pages_left:,}, for the next run (calls spent, or no answer)"
    refused = f"{report.refused:,} merged texts; history and review show them"
    failed = f"{counted(report.undecided, 'pair')} that the model failed at before; see retry --all"
    counts = ((report.readings, "second readings"), (report.retries, "asked again"))
    named = ", ".join(f"{n:,} {what}" for n, what in counts if n)
    of_which = f"; of these {named}" if named else ""
    return [
        *_found(report),
        ("memories after", f"{report.memories_after:,}"),
        ("decisions", decisions or "none"),
        *((f"  {n:,}", reason) for reason, n in _by_count(report.reasons)),
        ("retired", f"{report.retired:,}, none destroyed"),
        ("merged texts", f"{report.merged:,}"),
        ("pending", f"{report.pending:,}"),
        ("refused", refused if report.refused else ""),
        ("pages read", f"{report.pages:,}" if report.pages else ""),
        ("left", left if report.left else ""),
        ("pages left", unread if report.pages_left else ""),
        ("undecided", failed if report.undecided else ""),
        ("model calls", cost(report.model, report.usage, report.money) + of_which),
        (
            "forecast",
            f"{report.estimated.calls:,} for the first round" if report.estimated.calls else "",
        ),
        ("rounds, time", f"{report.rounds}, {report.seconds:.1f} s"),
    ]


def _found(report: models.DeduplicationReport) -> list[tuple[str, str]]:
    pairs = ((f"pairs >= {band}", f"{count:,}") for band, count in report.pairs.items())
    return [("memories", f"{report.memories:,}"), *pairs]


def _by_count(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _group(group: models.GroupReport, number: str) -> RenderableType:
    privacy = ", private" if group.is_private else ""
    scores = [score for _, _, score in group.similarities] or [1.0]
    low, high = f"{min(scores):.2f}", f"{max(scores):.2f}"
    title = Text.assemble(
        (f"group {number}", "bold"),
        f"  {group.user or 'no user'}{privacy}  {low if low == high else f'{low} to {high}'}  ",
        (group.action, "bold"),
    )
    facts = [("reason", group.reason), *(("differs", line) for line in group.differences[:3])]
    return members_view(title, group.members, facts)


# --- the batch ------------------------------------------------------------------------------------


Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes that look for pairs [default: this one].")
]
Dask = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="A Dask cluster that looks for pairs.")
]
Thorough = Annotated[
    bool,
    typer.Option(
        "--thorough", help="Show the model each memory with all near ones: twice the pages."
    ),
]


def clean(
    context: typer.Context,
    workers: Workers = None,
    dask: Dask = None,
    max_calls: MaxCalls = None,
    thorough: Thorough = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be done, as `audit` does.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--retry", help="Only repeat what the model failed to answer.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="With --retry: ask about the whole store again.")
    ] = False,
) -> None:
    """Clean the whole store: merge or retire near-copies."""
    if dry_run:
        show_audit(context.obj)
        return
    if again:
        retry(context, everything)
        return
    if workers is not None and dask is not None:
        raise WrongArgument("clean", "takes --workers or --dask", "give one of them")

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
    store: assembly.MemoryStore,
    config: config.Config,
    batch: Callable[..., Awaitable[models.DeduplicationReport]],
    executor: Executor | None = None,
) -> None:
    """Run `batch` and print the report that it returns.

    `label`: the name of the work, shown with its progress. `batch` takes a deduplicator and, by
    name, the callbacks `on_event` and `on_compared`.
    """

    async def run(tell: ProgressCallback) -> models.DeduplicationReport:
        async with aclosing(assembly.build_model(config)) as model:
            worker = assembly.build_deduplicator(store, config, model, executor)
            return await batch(worker, on_event=event_shown(tell), on_compared=compared(tell))

    with progress(label) as tell:
        report = asyncio.run(run(tell))
    show(view(report, groups=False))
    if report.groups and not report.failure:
        show(summary(report))
    end_if_nothing_was_answered(report)


def summary(report: models.DeduplicationReport) -> RenderableType:
    """Return what a run did for each user, three examples, and what to type next."""
    joined = {models.Action.MERGE.value, models.Action.REPLACE.value}
    by_user = Counter(group.user for group in report.groups if group.action in joined)
    users = [f"{user or 'no user'} {n:,}" for user, n in by_user.most_common(_USERS_SHOWN)]
    more = len(by_user) - len(users)
    examples = [
        ([one.content for one in group.members if one.fate != "beside"], group.made)
        for group in report.groups
        if group.action in joined and group.made
    ]
    rows = [("joined for", ", ".join(users) + (f" and {more:,} more users" if more else ""))]
    for gone, made in sorted(examples, key=lambda example: -len(example[0]))[:_EXAMPLES]:
        rows += [("example", " | ".join(gone)), ("  becomes", " | ".join(made))]
    return table(
        [
            *(row for row in rows if row[1]),
            ("look at it", "memory-dedup history, or memory-dedup show ID"),
            ("take it back", f"memory-dedup undo {report.run}"),
        ]
    )


def say_cost(planned: models.DeduplicationReport) -> None:
    """Print on stderr the estimated cost of the model calls in the first round of a clean-up.

    `planned`: the report of the planned round. If no model calls are planned, nothing is printed.
    """
    if planned.estimated.calls:
        first = cost(planned.model, planned.estimated, planned.money)
        err().print(f"the first round asks about {first}")


def end_if_nothing_was_answered(report: models.DeduplicationReport) -> None:
    """Print the reason and end the command with status 1 if every call of the model failed.

    Raises: typer.Exit.
    """
    if report.failure:
        err().print(f"error: no call of {report.model} succeeded: {report.failure}")
        err().print("nothing was replaced or merged without an answer; the questions wait")
        raise typer.Exit(EXIT_PROBLEM)


# --- a person decides -----------------------------------------------------------------------------


def apply(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A decisions file that a report saved.")],
) -> None:
    """Apply the answers that a person gave in a report.

    An answer that no longer fits the store is refused, with the reason.
    """
    given = already = refused = 0
    answered_lines = upkeep.read_decisions(file)
    with assembly.open_existing_store(context.obj) as store:
        answers = assembly.build_answers(store, context.obj)
        for number, answered in answered_lines:
            outcome = answered if isinstance(answered, InputError) else answers.give(answered)
            if isinstance(outcome, upkeep.Given):
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
    file: Annotated[
        Path | None,
        typer.Argument(help="Apply the answers in this file, which a report saved; no browser."),
    ] = None,
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
    if file is not None:
        apply(context, file)
        return
    with installed("web", "memory-dedup review"):
        _ = upkeep.ReviewServer
    with runtime.Address(host, port).listen() as listening:
        where = runtime.Address(host, listening.getsockname()[1])
        asyncio.run(_review(context.obj, where, listening, blind, open_browser=not no_browser))
    err().print("stopped; every answer that was given is kept")


async def _review(
    config: config.Config,
    where: runtime.Address,
    listening: socket.socket,
    blind: bool,
    *,
    open_browser: bool,
) -> None:
    browser = upkeep.BrowserSession(where)
    with assembly.open_existing_store(config) as store:
        async with aclosing(assembly.build_model(config)) as model:
            workspace = agent.build_workspace(config, store.ledger)
            follow = partial(agent.follow_undo, store, workspace)
            session = assembly.build_review(store, config, model, blind=blind, follow_undo=follow)
            await session.look()
            with runtime.stop_event() as stop:
                address = browser.address()
                sys.stdout.write(f"{address}\n")
                sys.stdout.flush()
                err().print("the address works once; Ctrl-C ends the review")
                if open_browser:  # in a thread, since some browsers return only when closed
                    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
                await runtime.serve_until(
                    stop, upkeep.ReviewServer(session, browser).app(), listening
                )

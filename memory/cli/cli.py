"""`python -m memory`: parse, call, render."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memory import __version__, assembly
from memory.cli.shell import EXIT_PROBLEM, err, progress, run_shell, set_up_logging, show
from memory.config import Config, load_config
from memory.errors import InputError, LedgerMissing

if TYPE_CHECKING:
    from memory.ledger import DecisionRecord
    from memory.models import DeduplicationReport, Memory, Outcome
    from memory.protocols import LanguageModel
    from memory.store import MemoryStore
    from memory.upkeep import AlikePair, CalibrationLog

app = typer.Typer(
    name="memory-dedup",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Memories that do not fill up with near-copies: import, search, audit, export.",
)

_BATCH = 2_000


def main() -> None:
    run_shell(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        show(f"memory-dedup {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option("--config", help="Configuration file [default: ./config.yaml].")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Log every decision.")] = False,
    version: Annotated[  # noqa: ARG001 - typer calls back
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say it.")
    ] = False,
) -> None:
    set_up_logging(debug)
    context.obj = load_config(config)


# --- bringing memories in -------------------------------------------------------------------------


@app.command("import")
def import_(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(help="JSON Lines, one memory a line.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Store as they are.")] = False,
    from_chroma: Annotated[
        Path | None, typer.Option("--from-chroma", help="Somebody's Chroma folder.")
    ] = None,
    collection: Annotated[str, typer.Option(help="The collection in that folder.")] = "memories",
    assume_utc: Annotated[
        bool, typer.Option("--assume-utc", help="Read times without a zone as UTC.")
    ] = False,
) -> None:
    """Import memories, each through the deduplicator, or with --raw as they are."""
    source = _source(file, from_chroma, collection, assume_utc)
    memories, problems = _sorted_out(source)
    with assembly.open_store(context.obj) as store:
        before = store.counts().live
        bring_in = _add_raw if raw else _add_deduplicated
        actions = bring_in(store, memories, context.obj)
        live = store.counts().live
    said = ", ".join(f"{n:,} {name}" for name, n in actions.most_common()) or "nothing"
    err().print(f"imported {len(memories):,}: {said}; memories {before:,} -> {live:,}")
    if problems:
        err().print(f"{problems:,} left out, named above")
        raise typer.Exit(EXIT_PROBLEM)


def _source(
    file: Path | None, from_chroma: Path | None, collection: str, assume_utc: bool
) -> Iterable[Memory | InputError]:
    from memory.interchange import read_memories

    if (file is None) == (from_chroma is None):
        raise InputError("import", "takes one source", "name FILE, or --from-chroma PATH")
    if from_chroma is not None:
        return _foreign_memories(from_chroma, collection, assume_utc)
    assert file is not None
    return read_memories(file, assume_utc=assume_utc)


def _foreign_memories(
    path: Path, collection: str, assume_utc: bool
) -> Iterator[Memory | InputError]:
    from memory.interchange import from_chroma_row, read_collection

    for row in read_collection(path, collection):
        try:
            yield from_chroma_row(row.id, row.document, row.metadata, assume_utc=assume_utc)
        except ValueError as exc:
            yield InputError(f"{path}: {row.id}", str(exc), "this memory is left out")


def _sorted_out(source: Iterable[Memory | InputError]) -> tuple[list[Memory], int]:
    """The memories; problems are said at once, a line each, and counted."""
    from memory.interchange import with_links_resolved

    memories: list[Memory] = []
    problems = 0
    for item in source:
        if isinstance(item, InputError):
            err().print(f"error: {item}")
            problems += 1
        else:
            memories.append(item)
    return with_links_resolved(memories), problems


def _add_raw(store: MemoryStore, memories: list[Memory], _config: Config) -> Counter[str]:
    added = 0
    with progress("importing") as tell:
        for start in range(0, len(memories), _BATCH):
            added += store.add_batch(memories[start : start + _BATCH])
            tell(min(start + _BATCH, len(memories)), len(memories))
    return Counter({"add": added, "already there": len(memories) - added}) + Counter()


def _add_deduplicated(store: MemoryStore, memories: list[Memory], config: Config) -> Counter[str]:
    async def run() -> list[Outcome]:
        async with aclosing(assembly.build_model(config)) as model:
            deduplicator = assembly.build_deduplicator(store, config, model)
            return await deduplicator.check_and_merge_all(memories, run=new_run(), on_progress=tell)

    from memory.deduplicator import new_run

    with progress("importing") as tell:
        return Counter(outcome.action.value for outcome in asyncio.run(run()))


# --- looking ------------------------------------------------------------------------------------


@app.command()
def export(context: typer.Context) -> None:
    """Write every live memory to stdout, one JSON object a line; `import` reads it back."""
    from memory.interchange import write_memory

    with assembly.read_store(context.obj) as store:
        for memory in store.memories():
            sys.stdout.write(write_memory(memory) + "\n")


@app.command()
def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="What to look for.")],
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="How many.")] = 5,
    user: Annotated[str | None, typer.Option(help="Only about this user.")] = None,
) -> None:
    """Show the memories nearest to a query, most similar first."""
    from rich.table import Table
    from rich.text import Text

    from memory.models import Scope

    scope = Scope((("user", user),)) if user is not None else None
    with assembly.read_store(context.obj) as store:
        found = store.search(query, k, scope=scope)
    if not found:
        err().print("nothing found")
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for hit in found:
        grid.add_row(f"{hit.similarity:.2f}", hit.memory.id, Text(hit.memory.content))
    show(grid)


@app.command()
def stats(context: typer.Context) -> None:
    """Say what the store holds."""
    from memory.cli.report import table

    with assembly.read_store(context.obj) as store:
        counts = store.counts()
        with store.ledger.reading() as reader:
            embedder = reader.meta("embedder") or "none yet"
    users = [f"{user or 'everyone'} {n:,}" for user, n in counts.users.items()]
    shown = ", ".join(users[:20]) + (", ..." if len(users) > 20 else "")
    decided = ", ".join(f"{n:,} {name}" for name, n in sorted(counts.decisions.items()))
    rows = [
        ("memories", f"{counts.live:,} live, {counts.retired:,} retired"),
        ("users", f"{len(users):,}: {shown}" if users else "none"),
        ("decisions", decided or "none"),
        ("pending", f"{counts.pending:,}"),
        ("embedder", embedder),
        ("ledger", store.ledger.name),
    ]
    show(table(rows))


@app.command()
def audit(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="The whole report as JSON.")] = False,
) -> None:
    """Show the near-copies and what would be done about each group; changes nothing."""
    show_audit(context.obj, as_json=as_json)


def show_audit(config: Config, *, as_json: bool = False) -> None:
    """Print the plan of a deduplication; an empty place is an empty store."""
    from memory.cli.report import to_json, view

    try:
        store = assembly.read_store(config)
    except LedgerMissing as exc:
        err().print(f"{exc}")
        return

    async def plan() -> DeduplicationReport:
        async with aclosing(assembly.build_model(config)) as model:
            deduplicator = assembly.build_deduplicator(store, config, model)
            return await deduplicator.deduplicate_all(dry_run=True)

    with store:
        report = asyncio.run(plan())
    if as_json:
        sys.stdout.write(to_json(report) + "\n")
    else:
        show(view(report, groups=True))


@app.command()
def history(
    context: typer.Context,
    memory_id: Annotated[
        str | None, typer.Argument(help="A memory [default: all but additions].")
    ] = None,
) -> None:
    """Show what was decided, when and why, oldest first; `undo` takes the number."""
    from rich.table import Table
    from rich.text import Text

    with assembly.read_store(context.obj) as store:
        recorded = store.history(memory_id)
    grid = Table.grid(padding=(0, 1))
    for _ in range(4):
        grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for one in recorded:
        undone = " (undone)" if one.undone else " (pending)" if one.pending else ""
        members = " ".join(one.members)
        survivors = " ".join(name for name, _ in one.survivors)
        kept = f" -> {survivors}" if survivors else ""
        told = Text(f"{one.reason}{undone}\n{members}{kept}")
        score = f"{one.similarity:.2f}" if one.similarity is not None else ""
        grid.add_row(str(one.number), f"{one.at:%Y-%m-%d %H:%M}", one.action.value, score, told)
    show(grid)


@app.command()
def calibrate(
    context: typer.Context,
    person: Annotated[
        bool, typer.Option("--person", help="Ask you: y, n, s to skip, q for today.")
    ] = False,
    per_band: Annotated[int, typer.Option(min=1, max=10_000, help="Pairs of each band.")] = 30,
    wanted: Annotated[
        float, typer.Option(min=0.5, max=1.0, help="Precision of what is replaced unasked.")
    ] = 0.99,
) -> None:
    """Find thresholds for this store: asks which pairs are duplicates; changes no memory."""
    from memory.upkeep import CalibrationLog, lines, pairs_of, sample, suggest, tally, view

    config: Config = context.obj
    model = assembly.build_model(config)
    answers = CalibrationLog(
        Path(config.memory.data_dir) / "calibration.jsonl", "person" if person else model.name
    )
    with assembly.read_store(config) as store:
        pairs = pairs_of(store)
    known = answers.read()
    drawn = [pair for pair in sample(pairs, per_band) if pair.key not in known]
    _ask(drawn, answers, config, None if person else model)
    bands = tally(pairs, answers.read())
    show(view(bands))
    guard = config.memory.dedup_guard
    for line in lines(suggest(bands, wanted, guard=guard), wanted, guard=guard):
        sys.stdout.write(f"{line}\n")


def _ask(
    pairs: list[AlikePair], answers: CalibrationLog, config: Config, model: LanguageModel | None
) -> None:
    """Ask the model, or where there is none the person, who is shown each pair on stderr."""
    from memory.upkeep import ask_model, ask_person

    if model is None:
        ask_person(pairs, answers, lambda text: err().print(text, markup=False), _heard)
        return
    if model.name == "offline":
        err().print("the offline judge knows coverage alone: --person or a key says more")
    with progress("asking") as tell:
        ask_model(pairs, model, answers, config.llm.concurrency, tell)


def _heard() -> str | None:
    """One line of the person's, in small letters; None at the end of input."""
    line = sys.stdin.readline()
    return line.strip().lower() if line else None


# --- keeping ------------------------------------------------------------------------------------


@app.command()
def undo(
    context: typer.Context,
    target: Annotated[str, typer.Argument(help="A decision's number, or a run's name.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be taken back.")
    ] = False,
) -> None:
    """Take back a decision or a run: its memories are again what they were, and stay apart."""
    wanted = int(target) if target.isdecimal() else target
    if dry_run:
        with assembly.read_store(context.obj) as store:
            undone = store.plan_undo(wanted)
    else:
        with assembly.open_existing_store(context.obj) as store:
            undone = store.undo(wanted)
            _follow_undo(context.obj, store, undone)
    said = "would undo" if dry_run else "undone"
    for one in undone:
        what = f"{said} {one.number}: {one.action.value} of {len(one.members)} memories"
        err().print(f"{what}, {one.reason}")


def _follow_undo(config: Config, store: MemoryStore, undone: list[DecisionRecord]) -> None:
    """Where an agent's workspace tells of these memories, it tells what is true again."""
    workspace = assembly.build_workspace(config, store.ledger)
    if workspace is not None:
        try:
            workspace.follow_undo(undone, store.get)
        except OSError as exc:  # the store has committed
            err().print(f"the workspace is not up to date: {exc.strerror or type(exc).__name__}")


@app.command()
def runs(context: typer.Context) -> None:
    """Show the batches and imports that decided something, oldest first; `undo` takes the name."""
    from rich.table import Table

    with assembly.read_store(context.obj) as store:
        found = store.runs()
    grid = Table.grid(padding=(0, 1))
    for _ in range(2):
        grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for run in found:
        counts = [*run.decisions.items(), ("pending", run.pending), ("undone", run.undone)]
        said = ", ".join(f"{n:,} {name}" for name, n in counts if n)
        grid.add_row(run.name, f"{run.began_at:%Y-%m-%d %H:%M}", said)
    show(grid)


@app.command()
def retry(context: typer.Context) -> None:
    """Ask again what the model could not answer when it was asked."""
    from memory.cli.report import view

    async def ask(store: MemoryStore) -> DeduplicationReport:
        async with aclosing(assembly.build_model(context.obj)) as model:
            deduplicator = assembly.build_deduplicator(store, context.obj, model)
            return await deduplicator.retry_pending(on_progress=tell)

    with assembly.open_existing_store(context.obj) as store, progress("asking again") as tell:
        report = asyncio.run(ask(store))
    show(view(report, groups=False))


@app.command()
def forget(
    context: typer.Context,
    memory_id: Annotated[str, typer.Argument(help="As `search` and `export` show it.")],
) -> None:
    """Erase a memory and all it was made from, for good."""
    from memory.agent import forget_everywhere

    with assembly.open_existing_store(context.obj) as store:
        workspace = assembly.build_workspace(context.obj, store.ledger)
        forgotten, problem = forget_everywhere(store, workspace, memory_id)
    if problem:
        err().print(problem)
    if forgotten.erased:
        err().print("erased")
    elif forgotten.set_aside:
        names = ", ".join(forgotten.set_aside)
        err().print(f"gone from the ledger; delete what was set aside, it may hold it: {names}")
    else:
        err().print("index pending: gone from the ledger; the process that uses it clears the rest")


@app.command()
def reembed(context: typer.Context) -> None:
    """Make every vector again with the configured embedder, all or none."""
    from memory.upkeep import reembed as make_again

    with assembly.open_existing_ledger(context.obj) as ledger, progress("embedding") as tell:
        count = make_again(ledger, assembly.build_embedder(context.obj), tell)
    err().print(f"{count:,} texts embedded again")


@app.command()
def doctor(
    context: typer.Context,
    fix: Annotated[
        bool, typer.Option("--fix", help="Make again what can be made from the ledger.")
    ] = False,
) -> None:
    """Check ledger and index; say what is wrong and what to do."""
    from memory.upkeep import examine, mend

    with assembly.open_existing_store(context.obj) as store:
        found = examine(store)
        mendable = [finding for finding in found if finding.kind == "mendable"]
        if fix and mendable:
            with progress("mending") as tell:
                mend(store, tell)
            err().print(f"mended: {'; '.join(finding.what for finding in mendable)}")
            found = examine(store)
        counts = store.counts()
        searched = store.index.name
    for finding in found:
        sys.stdout.write(f"{finding.what}; {finding.remedy}\n")
    if any(finding.kind != "yours" for finding in found):
        raise typer.Exit(EXIT_PROBLEM)
    held = f"{counts.live:,} memories live, {counts.retired:,} retired"
    err().print(f"nothing is damaged: {held}, searched by {searched}")


@app.command()
def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A file that is not there yet.")],
) -> None:
    """Write the whole ledger to one file, as of one moment, while others go on."""
    from memory.upkeep import back_up

    with assembly.read_ledger(context.obj) as ledger:
        live = back_up(ledger, file)
    err().print(f"backed up {live:,} memories to {file}")


@app.command()
def restore(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="What `backup` wrote.")],
) -> None:
    """Bring a backup back, where there are no memories yet or the ledger is damaged."""
    from memory.upkeep import restore as bring_back

    live = bring_back(file, context.obj.memory.effective_ledger_url)
    err().print(f"restored {live:,} memories from {file}")


@app.command()
def upgrade(context: typer.Context) -> None:
    """Bring the ledger of an earlier version to this one; a copy of it as it was is kept."""
    copy = assembly.upgrade_ledger(context.obj)
    if copy is None:
        err().print("the ledger is of this version already")
    else:
        err().print(f"upgraded; the ledger as it was is kept in {copy}")


# --- serving --------------------------------------------------------------------------------------


@app.command()
def serve(
    context: typer.Context,
    user: Annotated[str | None, typer.Option(help="Only this user's memories.")] = None,
    workspace: Annotated[
        Path | None, typer.Option(help="Keep public memories there as Markdown too.")
    ] = None,
) -> None:
    """Serve the agent's tools over stdio, for an MCP client that starts this command."""
    from memory.agent import AgentServer, run_and_exit

    if user is not None and not user.strip():
        raise InputError("--user", "is empty", "name the user, or leave it out")
    given = {"user": user, "workspace_dir": str(workspace.absolute()) if workspace else None}
    set_here = {key: value for key, value in given.items() if value is not None}
    agent = context.obj.agent.model_copy(update=set_here)
    config = context.obj.model_copy(update={"agent": agent})
    store = assembly.open_store(config)
    assembly.keep_workspace(config, store.ledger)
    store.postpone_index()

    def when_idle() -> None:
        store.open_index_in_background()
        store.scrub()

    run_and_exit(AgentServer(assembly.build_tools(store, config), when_idle), store.close)

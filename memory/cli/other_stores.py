"""The commands `import` and `write-back`, and the options of commands that read another store."""

from __future__ import annotations

import asyncio
import inspect
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memory import assembly, config, interchange
from memory.cli.shell import (
    EXIT_PROBLEM,
    MaxCalls,
    confirm,
    cost,
    err,
    progress,
    say_missing_vectors,
    show,
)
from memory.errors import InputError, WrongArgument
from memory.text import counted, shortened

if TYPE_CHECKING:
    from memory.assembly import Brought, Source

_STORES = {
    "chroma": "A Chroma folder, or http://HOST:PORT of a server.",
    "mem0": "mem0's folder, http://HOST:6333 of its Qdrant, or postgresql://... of its pgvector.",
    "qdrant": "A local Qdrant folder, or http://HOST:6333.",
    "pgvector": "postgresql://... of a table with vectors.",
    "langgraph": "The file of LangGraph's SqliteStore, or postgresql://... of its PostgresStore.",
}


def _places(which: str) -> dict[str, tuple[Any, Any]]:
    return {
        f"{which}_{kind}": (str | None, typer.Option(f"--{which}-{kind}", help=text))
        for kind, text in _STORES.items()
    }


_OPTIONS: dict[str, tuple[Any, Any]] = {
    **_places("from"),
    "from_mcp_memory": (
        Path | None,
        typer.Option("--from-mcp-memory", help="The JSON Lines of MCP's reference memory server."),
    ),
    "collection": (
        str | None,
        typer.Option(
            "--collection", help="The collection to read [default: memories, mem0's mem0]."
        ),
    ),
    "namespace": (
        list[str] | None,
        typer.Option(
            "--namespace",
            help="A namespace of LangGraph's store and all inside it; repeatable [default: those "
            "that hold memories].",
        ),
    ),
    "text_key": (
        str | None,
        typer.Option(help="The metadata key of the text [default: detected]."),
    ),
    "user_key": (
        str | None,
        typer.Option(help="The metadata key of the user [default: detected]."),
    ),
    "time_key": (
        str | None,
        typer.Option(help="The metadata key of the time [default: detected]."),
    ),
    "id_key": (
        str | None,
        typer.Option(help="The metadata key of the id [default: the store's own id]."),
    ),
    "default_time": (str | None, typer.Option(help="The time of rows that have none, ISO 8601.")),
    "kind_key": (
        list[str] | None,
        typer.Option(
            "--kind-key",
            help="A metadata key that keeps rows apart, besides status, role, label, type, score "
            "and the like; repeatable.",
        ),
    ),
    "across": (
        list[str] | None,
        typer.Option("--across", help="A metadata key that does not keep rows apart; repeatable."),
    ),
    "no_user": (
        bool,
        typer.Option("--no-user", help="Also import rows without a user; they belong to no user."),
    ),
    "trust": (
        bool,
        typer.Option(
            "--trust",
            help="Read the pickles in a local Qdrant folder; they can run any code hidden there.",
        ),
    ),
    "assume_utc": (
        bool,
        typer.Option("--assume-utc", help="Take times without a time zone as UTC."),
    ),
}


# --- another store --------------------------------------------------------------------------------


def _source(given: dict[str, Any]) -> Source:
    if given["namespace"] and given["from_langgraph"] is None:
        raise WrongArgument("--namespace", "is for --from-langgraph")
    reading = interchange.Reading(
        text_key=given["text_key"],
        user_key=given["user_key"],
        time_key=given["time_key"],
        id_key=given["id_key"],
        default_time=None if given["default_time"] is None else _time(given["default_time"]),
        no_user=given["no_user"],
        assume_utc=given["assume_utc"],
        kind_keys=tuple(given["kind_key"] or ()),
        across=tuple(given["across"] or ()),
    )
    return assembly.Source(
        reading,
        given["collection"],
        chroma=given["from_chroma"],
        mem0=given["from_mem0"],
        qdrant=given["from_qdrant"],
        pgvector=given["from_pgvector"],
        langgraph=given["from_langgraph"],
        mcp_memory=given["from_mcp_memory"],
        namespaces=tuple(given["namespace"] or ()),
        trust=given["trust"],
    )


def _time(given: str) -> datetime:
    try:
        read = datetime.fromisoformat(given)
    except ValueError as exc:
        raise WrongArgument("--default-time", f"{given!r} is not ISO 8601", "2025-01-01") from exc
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


def _given_as(
    argument: str, options: dict[str, tuple[Any, Any]], make: Callable[[dict[str, Any]], Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds `options` to a command.

    The command receives what `make` returns for their values, in its argument `argument`.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        # loading the class `Source` would slow down `--help`
        own = inspect.signature(command, eval_str=True, locals={"Source": Any})
        added = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=False if kind is bool else None,
                annotation=Annotated[kind, option],
            )
            for name, (kind, option) in options.items()
        ]
        shown = [
            parameter
            for name, declared in own.parameters.items()
            for parameter in (added if name == argument else [declared])
        ]

        @wraps(command)
        def called(**given: Any) -> None:
            value = make({name: given.pop(name) for name in options})
            command(**{argument: value}, **given)

        # Both are what typer reads a command's options from.
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
        called.__signature__ = own.replace(parameters=shown)  # type: ignore[attr-defined] # a function's
        return called

    return decorate


with_source = _given_as("source", _OPTIONS, _source)
"""Add the options of a store to read; the command receives them as a `Source`, in `source`."""
with_targets = _given_as(
    "stores",
    _places("to"),
    lambda given: {
        name.removeprefix("to_"): place for name, place in given.items() if place is not None
    },
)
"""Add the options of a store to write; the command receives kinds and places, in `stores`."""


def say_left_out(brought: Brought) -> None:
    for note in brought.notes:
        err().print(note)
    for problem in brought.left_out:
        err().print(f"error: {problem}")


# --- import ---------------------------------------------------------------------------------------


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
    brought = _read(context.obj, file, source)
    say_left_out(brought)
    settings: config.Config = context.obj.with_calls_per_run(max_calls)
    with progress("importing") as tell:
        done = asyncio.run(assembly.import_memories(brought, settings, raw=raw, on_progress=tell))
    if done.usage.calls:
        err().print(f"model calls: {cost(done.model, done.usage, settings.llm.money(done.usage))}")
    say_missing_vectors(done.without_vector)
    actions = ", ".join(f"{n:,} {name}" for name, n in done.actions.items()) or "nothing"
    err().print(
        f"imported {done.read:,}: {actions}; memories {done.memories_before:,} -> {done.memories:,}"
    )
    if done.waiting:
        asks = "memory-dedup clean --retry asks them"
        err().print(f"{counted(done.waiting, 'question')} left for the model: {asks}")
    if done.to_clean.calls:
        asked = cost(done.model, done.to_clean, settings.llm.money(done.to_clean))
        err().print(f"memory-dedup clean would ask about {asked}")
    if done.left_out:
        err().print(f"{len(done.left_out):,} left out; the reasons are above")
    if done.left_out or done.without_vector:
        raise typer.Exit(EXIT_PROBLEM)


def _read(config: config.Config, file: Path | None, source: Source) -> Brought:
    if (file is not None) + source.stores != 1:
        raise WrongArgument("import", "needs exactly one source", "give FILE, or one --from option")
    if file is None:
        return assembly.read_source(source, config)
    for_files = {"assume_utc": False, "kind_keys": (), "across": (), "default_time": None}
    if source.reading.model_copy(update=for_files) != type(source.reading)():
        raise WrongArgument("import", "the key options and --no-user are for --from stores")
    if str(file) != "-":
        return assembly.read_source(replace(source, file=file), config)
    with TemporaryDirectory(prefix="memory-import-") as folder:
        spooled = Path(folder) / "stdin"
        with spooled.open("wb") as out:
            shutil.copyfileobj(sys.stdin.buffer, out)
        try:
            brought = assembly.read_source(replace(source, file=spooled), config)
        except InputError as exc:
            exc.source = "standard input"
            raise
    for problem in brought.left_out:
        problem.source = "standard input"
    return brought


# --- write-back -----------------------------------------------------------------------------------

_MOST_CHARACTERS = 200
Dump = Annotated[
    Path | None, typer.Argument(help="With --to-jsonl: the store as it is now, as JSON Lines.")
]
ChangesFile = Annotated[
    Path | None,
    typer.Option("--to-jsonl", help="A new file of changes that you apply to any store."),
]
NewUndoFile = Annotated[
    Path | None,
    typer.Option(help="The file for the old rows [default: COLLECTION.undo-N.jsonl]."),
]
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
        f"{counted(len(plan.updates), 'row')} to update, {len(plan.deletions):,} to delete; "
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
            f"own text kept by {counted(len(plan.staying), 'row')}: different from the row that "
            f"stands for the text in {_counted(apart)}; {options} lets one row stand for all"
        )


def _counted(keys: Counter[str]) -> str:
    return ", ".join(f"{name} ({count:,})" for name, count in keys.most_common())


def _short(text: str) -> str:
    return shortened(text, _MOST_CHARACTERS)


def _say_left_alone(left_alone: Sequence[interchange.LeftAlone]) -> None:
    for row in left_alone:
        err().print(f"left alone {row.id}: {row.why}")


@with_targets
def write_back(
    *,
    context: typer.Context,
    dump: Dump = None,
    stores: dict[str, str],
    to_jsonl: ChangesFile = None,
    collection: Annotated[
        str | None, typer.Option(help="The collection [default: memories, mem0's mem0].")
    ] = None,
    embedder: Annotated[
        str | None, typer.Option(help="The embedder of merged texts: package.module:factory.")
    ] = None,
    undo_file: NewUndoFile = None,
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
    err().print(f"{counted(done.updated, 'row')} updated, {done.deleted:,} deleted")
    needed = " --trust" * target.trust
    for file in done.undo_files:
        err().print(f"memory-dedup write-back --undo {file}{needed} undoes it")
    if done.changed_meanwhile:
        raise typer.Exit(EXIT_PROBLEM)


def _take_back(file: Path, moved_to: str | None, *, trust: bool) -> None:
    with progress("putting back") as tell:
        done = assembly.undo_write_back(file, moved_to=moved_to, trust=trust, on_progress=tell)
    _say_left_alone(done.left_alone)
    err().print(f"{counted(done.restored, 'row')} put back, {done.already:,} were as before")
    if done.left_alone:
        raise typer.Exit(EXIT_PROBLEM)

"""The command `import`, and the options of all commands that read another store."""

from __future__ import annotations

import asyncio
import inspect
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memory import assembly, interchange
from memory.cli.shell import EXIT_PROBLEM, MaxCalls, cost, err, progress, say_missing_vectors
from memory.errors import InputError, WrongArgument

if TYPE_CHECKING:
    from memory.assembly import Brought, Source
    from memory.config import Config

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


def _targets(given: dict[str, Any]) -> dict[str, str]:
    places = {name.removeprefix("to_"): place for name, place in given.items()}
    return {kind: place for kind, place in places.items() if place is not None}


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
with_targets = _given_as("stores", _places("to"), _targets)
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
    config: Config = context.obj.with_calls_per_run(max_calls)
    with progress("importing") as tell:
        done = asyncio.run(assembly.import_memories(brought, config, raw=raw, on_progress=tell))
    if done.usage.calls:
        price = config.llm.price
        money = None if price is None else price.of(done.usage)
        err().print(f"model calls: {cost(done.model, done.usage, money)}")
    say_missing_vectors(done.without_vector)
    actions = ", ".join(f"{n:,} {name}" for name, n in done.actions.items()) or "nothing"
    err().print(
        f"imported {done.read:,}: {actions}; memories {done.memories_before:,} -> {done.memories:,}"
    )
    if done.waiting:
        asks = "memory-dedup clean --retry asks them"
        err().print(f"{done.waiting:,} questions wait for the model: {asks}")
    if done.to_clean.calls:
        price = config.llm.price
        money = None if price is None else price.of(done.to_clean)
        err().print(f"memory-dedup clean would ask about {cost(done.model, done.to_clean, money)}")
    if done.left_out:
        err().print(f"{len(done.left_out):,} left out; the reasons are above")
    if done.left_out or done.without_vector:
        raise typer.Exit(EXIT_PROBLEM)


def _read(config: Config, file: Path | None, source: Source) -> Brought:
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

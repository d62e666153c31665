"""The options that name another store, and how its memories are read."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memory import assembly
from memory.cli.shell import err
from memory.errors import WrongArgument

if TYPE_CHECKING:
    from memory.assembly import Brought, Source
    from memory.config import Config

FromChroma = Annotated[
    str | None,
    typer.Option("--from-chroma", help="A Chroma folder, or http://HOST:PORT of a server."),
]
FromMem0 = Annotated[
    str | None,
    typer.Option(
        "--from-mem0",
        help="mem0's folder, http://HOST:6333 of its Qdrant, or postgresql://... of its pgvector.",
    ),
]
FromQdrant = Annotated[
    str | None, typer.Option("--from-qdrant", help="A local Qdrant folder, or http://HOST:6333.")
]
FromPgvector = Annotated[
    str | None,
    typer.Option("--from-pgvector", help="postgresql://... of a table with vectors."),
]
FromLangGraph = Annotated[
    str | None,
    typer.Option(
        "--from-langgraph",
        help="The file of LangGraph's SqliteStore, or postgresql://... of its PostgresStore.",
    ),
]
FromMcpMemory = Annotated[
    Path | None,
    typer.Option("--from-mcp-memory", help="The JSON Lines of MCP's reference memory server."),
]
CollectionName = Annotated[
    str | None,
    typer.Option("--collection", help="The collection to read [default: memories, mem0's mem0]."),
]
Namespaces = Annotated[
    list[str] | None,
    typer.Option(
        "--namespace",
        help="A namespace of LangGraph's store and all inside it; repeatable [default: those "
        "that hold memories].",
    ),
]
TextKey = Annotated[
    str | None, typer.Option(help="The metadata key of the text [default: detected].")
]
UserKey = Annotated[
    str | None, typer.Option(help="The metadata key of the user [default: detected].")
]
TimeKey = Annotated[
    str | None, typer.Option(help="The metadata key of the time [default: detected].")
]
IdKey = Annotated[
    str | None, typer.Option(help="The metadata key of the id [default: the store's own id].")
]
DefaultTime = Annotated[str | None, typer.Option(help="The time of rows that have none, ISO 8601.")]
NoUser = Annotated[
    bool, typer.Option("--no-user", help="Import rows without a user as everyone's.")
]
AssumeUtc = Annotated[
    bool, typer.Option("--assume-utc", help="Take times without a time zone as UTC.")
]


def _source(
    from_chroma: FromChroma = None,
    from_mem0: FromMem0 = None,
    from_qdrant: FromQdrant = None,
    from_pgvector: FromPgvector = None,
    from_langgraph: FromLangGraph = None,
    from_mcp_memory: FromMcpMemory = None,
    collection: CollectionName = None,
    namespace: Namespaces = None,
    text_key: TextKey = None,
    user_key: UserKey = None,
    time_key: TimeKey = None,
    id_key: IdKey = None,
    default_time: DefaultTime = None,
    no_user: NoUser = False,
    assume_utc: AssumeUtc = False,
) -> Source:
    """Raises: InputError."""
    from memory.interchange import Reading

    reading = Reading(
        text_key=text_key,
        user_key=user_key,
        time_key=time_key,
        id_key=id_key,
        default_time=None if default_time is None else _time(default_time),
        no_user=no_user,
        assume_utc=assume_utc,
    )
    if namespace and from_langgraph is None:
        raise WrongArgument("--namespace", "is for --from-langgraph")
    return assembly.Source(
        reading,
        collection,
        chroma=from_chroma,
        mem0=from_mem0,
        qdrant=from_qdrant,
        pgvector=from_pgvector,
        langgraph=from_langgraph,
        mcp_memory=from_mcp_memory,
        namespaces=tuple(namespace or ()),
    )


def with_source(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's parameter `source` by the options that name a source."""
    value = {"Source": Any}  # loading the class would slow down `--help`
    options = inspect.signature(_source, eval_str=True, locals=value).parameters
    own = inspect.signature(command, eval_str=True, locals=value)
    shown = [
        one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in own.parameters.items()
        for one in (options.values() if name == "source" else [parameter])
    ]

    @wraps(command)
    def called(**given: Any) -> None:
        source = _source(**{name: given.pop(name) for name in options})
        command(source=source, **given)

    # Both are what typer reads a command's options from.
    called.__annotations__ = {one.name: one.annotation for one in shown}
    called.__signature__ = own.replace(parameters=shown)  # type: ignore[attr-defined] # a function's
    return called


def _time(given: str) -> datetime:
    try:
        read = datetime.fromisoformat(given)
    except ValueError as exc:
        raise WrongArgument("--default-time", f"{given!r} is not ISO 8601", "2025-01-01") from exc
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


def brought_from(source: Source, config: Config) -> Brought:
    """Read a store; print a line for each memory that is left out.

    Raises: InputError.
    """
    brought = assembly.read_source(source, config)
    say_left_out(brought)
    return brought


def say_left_out(brought: Brought) -> None:
    for note in brought.notes:
        err().print(note)
    for problem in brought.left_out:
        err().print(f"error: {problem}")

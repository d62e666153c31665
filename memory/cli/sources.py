"""Where memories come from: a file of ours, or somebody else's store, and how it is read."""

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
        help="A namespace of LangGraph's store with all inside it; repeatable [default: those "
        "that hold memories].",
    ),
]
TextKey = Annotated[
    str | None, typer.Option(help="The key of its metadata that holds the text [default: found].")
]
UserKey = Annotated[
    str | None, typer.Option(help="The key that says whose a memory is [default: found].")
]
TimeKey = Annotated[
    str | None, typer.Option(help="The key that says when it was recorded [default: found].")
]
IdKey = Annotated[
    str | None, typer.Option(help="The key that names a memory [default: the store's own id].")
]
DefaultTime = Annotated[
    str | None, typer.Option(help="When rows without a time were recorded, ISO 8601.")
]
NoUser = Annotated[
    bool, typer.Option("--no-user", help="Rows that name no user are nobody's in particular.")
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
    """The command with the options that name a source, in place of its parameter `source`."""
    value = {"Source": Any}  # what it is loads more than `--help` is worth
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
    """All that a store holds; what is left out is said, a line each.

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

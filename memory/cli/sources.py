"""Where memories come from: a file of ours, or somebody else's store, and how it is read."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import wraps
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memory import assembly
from memory.cli.shell import err
from memory.errors import InputError, WrongArgument

if TYPE_CHECKING:
    from memory.config import Config
    from memory.interchange import ForeignRow, Found, Kind, Reading, Theirs
    from memory.models import Memory
    from memory.store import MemoryStore

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


_NAMED = 20
"""Namespaces in a message."""


@dataclass(frozen=True)
class Source:
    """What the options of a command name: one of the stores, and how it is to be read."""

    reading: Reading
    collection: str | None = None
    chroma: str | None = None
    mem0: str | None = None
    qdrant: str | None = None
    pgvector: str | None = None
    langgraph: str | None = None
    mcp_memory: Path | None = None
    namespaces: tuple[str, ...] = ()

    @property
    def stores(self) -> int:
        places = (*self.collections.values(), self.mem0, self.langgraph, self.mcp_memory)
        return sum(place is not None for place in places)

    @property
    def collections(self) -> dict[Kind, str | None]:
        """The stores of which one collection is named, by their kinds."""
        return {"chroma": self.chroma, "qdrant": self.qdrant, "pgvector": self.pgvector}


@dataclass(frozen=True)
class Brought:
    """What a store gave; `collection_id` is the lasting name of what can be written back to."""

    memories: list[Memory]
    left_out: int
    collection_id: str | None = None
    reading: Reading | None = None

    def keep_origin(self, store: MemoryStore) -> None:
        """Note how a collection was read, for whoever writes back to it."""
        if self.collection_id is not None and self.reading is not None:
            from memory.interchange import note_reading

            note_reading(store.ledger, self.collection_id, self.reading)


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
    stores = (from_chroma, from_mem0, from_qdrant, from_pgvector, from_langgraph, from_mcp_memory)
    return Source(reading, collection, *stores, tuple(namespace or ()))


def with_source(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options that name a source, in place of its parameter `source`."""
    options = inspect.signature(_source, eval_str=True).parameters
    own = inspect.signature(command, eval_str=True)
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


def brought_from(source: Source) -> Brought:
    """All that somebody else's store holds; what is left out is said at once, a line each.

    Raises: InputError.
    """
    from memory.interchange import as_memories

    reading = source.reading
    if source.mem0 is not None:
        return _mem0(source.mem0, source)
    for kind, place in source.collections.items():
        if place is not None:
            theirs = assembly.their_collection(kind, place, source.collection or "memories")
            return _collection(theirs.found(), _said(theirs, place), reading)
    if source.langgraph is not None:
        whose = reading.user_key or "namespace"
        by_namespace = reading.model_copy(update={"user_key": whose})
        return _langgraph(source.langgraph, by_namespace, source.namespaces)
    from memory.interchange import read_graph

    assert source.mcp_memory is not None
    rows, problems = read_graph(source.mcp_memory)
    read = as_memories(rows, str(source.mcp_memory), reading)
    return Brought(*sorted_out(chain(problems, read)))


def _mem0(place: str, source: Source) -> Brought:
    """What has expired mem0 itself shows no more."""
    from memory.interchange import MEM0_COLLECTION, unexpired, with_history

    kind, where = assembly.mem0_store(place)
    theirs = assembly.their_collection(kind, where, source.collection or MEM0_COLLECTION)
    found = theirs.found()
    if Path(place).is_dir():
        found = with_history(found, Path(place))
    current = unexpired(found.rows, datetime.now(UTC).date())
    found = _without_expired(found, current)
    return _collection(found, _said(theirs, place), source.reading)


def _said(theirs: Theirs, place: str) -> str:
    """In a message: as it was given, but for a password."""
    return theirs.address if "://" in place else place


def _langgraph(place: str, reading: Reading, wanted: Sequence[str]) -> Brought:
    from memory.interchange import choose_namespaces, langgraph_at, unexpired_items

    theirs = langgraph_at(place)
    found = theirs.found()
    current = unexpired_items(found.rows, datetime.now(UTC))
    found = _without_expired(found, current)
    choice = choose_namespaces(found.rows, theirs.said, reading, wanted)
    say_left_namespaces(choice.left, bool(wanted))
    chosen = reading.model_copy(update={"namespaces": choice.chosen})
    return _collection(replace(found, rows=choice.rows), theirs.said, chosen)


def say_left_namespaces(left: Mapping[str, int], by_choice: bool) -> None:
    """Name the namespaces that are neither read nor written, the first of them with their size."""
    if not left:
        return
    named = ", ".join(f"{name} ({count:,})" for name, count in sorted(left.items())[:_NAMED])
    more = f" and {len(left) - _NAMED:,} more" if len(left) > _NAMED else ""
    why, remedy = ", since they do not look like memories", "; --namespace NAME takes one"
    if by_choice:
        why = remedy = ""
    err().print(f"namespaces left alone{why}: {named}{more}{remedy}")


def _without_expired(found: Found, current: Iterable[ForeignRow]) -> Found:
    rows = list(current)
    if len(rows) < len(found.rows):
        err().print(f"{len(found.rows) - len(rows):,} have expired, and are left where they are")
    return replace(found, rows=rows)


def _collection(found: Found, source: str, reading: Reading) -> Brought:
    from memory.interchange import as_memories

    memories, left_out = sorted_out(as_memories(found.rows, source, reading))
    return Brought(memories, left_out, found.collection_id or None, reading)


def sorted_out(items: Iterable[Memory | InputError]) -> tuple[list[Memory], int]:
    """The memories, their links resolved; problems are said at once, a line each, and counted."""
    from memory.interchange import with_links_resolved

    memories: list[Memory] = []
    problems = 0
    for item in items:
        if isinstance(item, InputError):
            err().print(f"error: {item}")
            problems += 1
        else:
            memories.append(item)
    return with_links_resolved(memories), problems


def warn_of_agents(config: Config, memories: list[Memory]) -> None:
    """One user's memories of two agents meet, unless the configuration keeps them apart."""
    from memory.interchange import users_of_several_agents

    several = users_of_several_agents(memories)
    if several and "agent_id" not in config.memory.dedup_scope:
        err().print(
            f"{several:,} users have memories of several agents, which may be merged: "
            "memory.dedup_scope: [user, agent_id] keeps them apart"
        )

"""Where memories come from: a file of ours, or somebody else's store, and how it is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from memory import assembly
from memory.cli.shell import err
from memory.config import Config
from memory.errors import InputError

if TYPE_CHECKING:
    from memory.interchange import Reading
    from memory.models import Memory
    from memory.store import MemoryStore

FromChroma = Annotated[
    str | None,
    typer.Option("--from-chroma", help="A Chroma folder, or http://HOST:PORT of a server."),
]
CollectionName = Annotated[
    str | None, typer.Option("--collection", help="The collection to read [default: memories].")
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


@dataclass(frozen=True)
class Source:
    """What the options of a command name: one of the stores, and how it is to be read."""

    reading: Reading
    chroma: str | None = None
    collection: str | None = None

    @property
    def stores(self) -> int:
        return sum(place is not None for place in (self.chroma,))


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


def reading_of(
    text_key: str | None,
    user_key: str | None,
    time_key: str | None,
    id_key: str | None,
    default_time: str | None,
    no_user: bool,
    assume_utc: bool,
) -> Reading:
    """Raises: InputError."""
    from memory.interchange import Reading

    return Reading(
        text_key=text_key,
        user_key=user_key,
        time_key=time_key,
        id_key=id_key,
        default_time=None if default_time is None else _time(default_time),
        no_user=no_user,
        assume_utc=assume_utc,
    )


def _time(given: str) -> datetime:
    try:
        read = datetime.fromisoformat(given)
    except ValueError as exc:
        raise InputError("--default-time", f"{given!r} is not ISO 8601", "2025-01-01") from exc
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


def brought_from(source: Source) -> Brought:
    """All that somebody else's store holds; what is left out is said at once, a line each.

    Raises: InputError.
    """
    from memory.interchange import as_memories, read_collection

    if source.chroma is None:
        raise InputError("import", "names no store")
    place = assembly.chroma_place(source.chroma)
    found = read_collection(place, source.collection or "memories")
    memories, left_out = sorted_out(as_memories(found.rows, source.chroma, source.reading))
    return Brought(memories, left_out, found.collection_id, source.reading)


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

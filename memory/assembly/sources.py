"""Read another program's store: find it, read its memories, and name what is left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

from memory.assembly.stores import chroma_headers
from memory.config import Config
from memory.errors import InputError
from memory.interchange import (
    MEM0_COLLECTION,
    ChromaStore,
    ExternalStore,
    ForeignRow,
    Found,
    Kind,
    PgvectorStore,
    QdrantStore,
    Reading,
    as_memories,
    choose_namespaces,
    is_address,
    is_postgres,
    is_qdrant,
    langgraph_at,
    read_graph,
    read_memories,
    unexpired,
    unexpired_items,
    users_of_several_agents,
    vector_folder,
    with_history,
    with_links_resolved,
)
from memory.models import Memory
from memory.search import ChromaServer

_NAMED = 20
"""The most namespaces that a note names."""


@dataclass(frozen=True)
class Source:
    """Another program's store, or a file of ours, and how it is read.

    `Source(mem0="./mem0-store")`, `Source(chroma="./chroma", collection="notes")`, ...
    """

    reading: Reading = field(default_factory=Reading)
    collection: str | None = None
    chroma: str | None = None
    mem0: str | None = None
    qdrant: str | None = None
    pgvector: str | None = None
    langgraph: str | None = None
    mcp_memory: Path | str | None = None
    namespaces: tuple[str, ...] = ()
    file: Path | str | None = None
    """JSON Lines, as `memory-dedup export` writes them."""

    @property
    def stores(self) -> int:
        places = (*self.collections.values(), self.mem0, self.mcp_memory, self.file)
        return sum(place is not None for place in places)

    @property
    def collections(self) -> dict[Kind, str | None]:
        """The stores that have collections, by kind."""
        return {
            "chroma": self.chroma,
            "qdrant": self.qdrant,
            "pgvector": self.pgvector,
            "langgraph": self.langgraph,
        }

    def opened(self) -> tuple[ExternalStore, str]:
        """Return the collection, and its place as messages name it.

        Raises: InputError where not exactly one collection is named.
        """
        named = [(kind, place) for kind, place in self.collections.items() if place is not None]
        default = "memories"
        if self.mem0 is not None:
            named, default = [*named, mem0_store(self.mem0)], MEM0_COLLECTION
        if len(named) != 1:
            raise InputError("source", "needs exactly one store", "name its folder or address")
        [(kind, place)] = named
        theirs = their_collection(kind, place, self.collection or default)
        given = self.mem0 or place
        return theirs, theirs.address if "://" in given else given


@dataclass(frozen=True)
class Brought:
    """The memories of a store; `collection_id` names a collection that can be written back to."""

    memories: list[Memory]
    left_out: tuple[InputError, ...] = ()
    """The problem of each memory that could not be read."""
    notes: tuple[str, ...] = ()
    """A line for each other thing that was not read."""
    collection_id: str | None = None
    reading: Reading | None = None


def read_source(source: Source, config: Config) -> Brought:
    """Read everything in a store or a file.

    Raises: InputError.
    """
    brought = _read(source)
    several = users_of_several_agents(brought.memories)
    if several and "agent_id" not in config.memory.dedup_scope:
        note = (
            f"{several:,} users have memories of several agents, which may be merged: "
            "memory.dedup_scope: [user, agent_id] keeps them apart"
        )
        return replace(brought, notes=(*brought.notes, note))
    return brought


def sorted_out(items: Iterable[Memory | InputError]) -> Brought:
    """Separate the memories, with their links resolved, from the problems."""
    memories: list[Memory] = []
    problems: list[InputError] = []
    for item in items:
        if isinstance(item, InputError):
            problems.append(item)
        else:
            memories.append(item)
    return Brought(with_links_resolved(memories), tuple(problems))


def left_namespaces(left: Mapping[str, int], by_choice: bool) -> list[str]:
    """Return a note of the namespaces that are neither read nor written, with their sizes."""
    if not left:
        return []
    named = ", ".join(f"{name} ({count:,})" for name, count in sorted(left.items())[:_NAMED])
    more = f" and {len(left) - _NAMED:,} more" if len(left) > _NAMED else ""
    why, remedy = ", since they do not look like memories", "; --namespace NAME takes one"
    if by_choice:
        why = remedy = ""
    return [f"namespaces left alone{why}: {named}{more}{remedy}"]


def _read(source: Source) -> Brought:
    reading = source.reading
    if source.file is not None:
        return sorted_out(read_memories(Path(source.file), assume_utc=reading.assume_utc))
    if source.mcp_memory is not None:
        rows, problems = read_graph(Path(source.mcp_memory))
        return sorted_out(chain(problems, as_memories(rows, str(source.mcp_memory), reading)))
    theirs, said = source.opened()
    found = theirs.found()
    if source.langgraph is not None:
        by_namespace = reading.model_copy(update={"user_key": reading.user_key or "namespace"})
        return _langgraph(found, said, by_namespace, source.namespaces)
    notes: list[str] = []
    if source.mem0 is not None:
        if Path(source.mem0).is_dir():
            found = replace(found, rows=with_history(found.rows, Path(source.mem0)))
        # mem0 itself no longer shows them
        found, notes = _without_expired(found, unexpired(found.rows, datetime.now(UTC).date()))
    return _collection(found, said, reading, notes)


def _langgraph(found: Found, said: str, reading: Reading, wanted: Sequence[str]) -> Brought:
    found, notes = _without_expired(found, unexpired_items(found.rows, datetime.now(UTC)))
    choice = choose_namespaces(found.rows, said, reading, wanted)
    notes += left_namespaces(choice.left, bool(wanted))
    chosen = reading.model_copy(update={"namespaces": choice.chosen})
    return _collection(replace(found, rows=choice.rows), said, chosen, notes)


def _without_expired(found: Found, current: Iterable[ForeignRow]) -> tuple[Found, list[str]]:
    rows = list(current)
    gone = len(found.rows) - len(rows)
    notes = [f"{gone:,} have expired, and are left where they are"] if gone else []
    return replace(found, rows=rows), notes


def _collection(found: Found, source: str, reading: Reading, notes: Sequence[str]) -> Brought:
    brought = sorted_out(as_memories(found.rows, source, reading))
    origin = found.collection_id or None
    return replace(brought, notes=tuple(notes), collection_id=origin, reading=reading)


# --- which collection ----------------------------------------------------------------------------


def their_collection(kind: Kind, place: str, name: str) -> ExternalStore:
    """Return the collection of a kind at a place.

    Raises: InputError.
    """
    if kind == "langgraph":
        return langgraph_at(place)
    if kind == "pgvector":
        if not is_postgres(place):
            raise InputError(place, "is no address of a PostgreSQL", "give postgresql://...")
        return PgvectorStore(place, name)
    if kind == "qdrant":
        return QdrantStore(place.rstrip("/") if is_address(place) else Path(place), name)
    return ChromaStore(_chroma_place(place), name)


def mem0_store(place: str) -> tuple[Kind, str]:
    """Return the kind and place of mem0's store: a database, a server, or a folder.

    Raises: InputError.
    """
    if is_postgres(place):
        return "pgvector", place
    if is_address(place):
        return "qdrant", place
    folder = vector_folder(Path(place))
    return ("qdrant" if is_qdrant(folder) else "chroma"), str(folder)


def _chroma_place(given: str) -> Path | ChromaServer:
    """Return a Chroma folder, or the server at `http://HOST:PORT`.

    Raises: InputError.
    """
    if not given.startswith(("http://", "https://")):
        return Path(given)
    url = urlsplit(given)
    try:
        port = url.port or (443 if url.scheme == "https" else 8000)
    except ValueError as exc:
        raise InputError(given, f"has no port ({exc})", "give http://HOST:PORT") from exc
    if not url.hostname or url.path.strip("/") or url.query:
        raise InputError(given, "is no address of a Chroma server", "give http://HOST:PORT")
    return ChromaServer(
        host=url.hostname,
        port=port,
        ssl=url.scheme == "https",
        tenant="default_tenant",
        database="default_database",
        headers=chroma_headers(),
    )

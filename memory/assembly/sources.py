"""Read the memories of another program's store, and report what could not be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from memory.assembly.stores import chroma_server
from memory.config import Config
from memory.errors import InputError
from memory.interchange import (
    MEM0_COLLECTION,
    ChromaStore,
    ExternalStore,
    Kind,
    PgvectorStore,
    QdrantStore,
    Reading,
    as_memories,
    choose_namespaces,
    described,
    differing_fields,
    in_namespaces,
    is_address,
    is_postgres,
    is_qdrant,
    langgraph_at,
    read_graph,
    read_memories,
    unexpired,
    users_of_several_agents,
    vector_folder,
    with_history,
    with_links_resolved,
)
from memory.models import Memory

_NAMED = 20


@dataclass(frozen=True)
class Source:
    """Another program's store or an exported file, and how to read it.

    For example `Source(mem0="./mem0-store")` or `Source(chroma="./chroma", collection="notes")`.
    Set exactly one of `chroma`, `mem0`, `qdrant`, `pgvector`, `langgraph`, `mcp_memory` and `file`;
    its value is a folder, a path or an address. `collection`: the collection's name (default:
    "memories"; for mem0, "mem0"). `reading`: how rows become memories. `namespaces`: the namespaces
    of LangGraph to read (default: all namespaces that seem to hold memories). `trust`: whether the
    pickles in a local Qdrant folder may be read, which can run any code that is hidden there.

    >>> Source(chroma="./chroma", collection="notes").collection
    'notes'
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
    trust: bool = False
    file: Path | str | None = None

    @property
    def stores(self) -> int:
        locations = (*self.collections.values(), self.mem0, self.mcp_memory, self.file)
        return len(locations) - locations.count(None)

    @property
    def collections(self) -> dict[Kind, str | None]:
        return {
            "chroma": self.chroma,
            "qdrant": self.qdrant,
            "pgvector": self.pgvector,
            "langgraph": self.langgraph,
        }

    def opened(self) -> tuple[ExternalStore, str]:
        """Return the collection, not read yet, and its folder or address as shown in messages.

        Raises: InputError unless exactly one of `chroma`, `mem0`, `qdrant`, `pgvector` and
        `langgraph` is given.
        """
        named = [
            (kind, location) for kind, location in self.collections.items() if location is not None
        ]
        default = "memories"
        if self.mem0 is not None:
            named, default = [*named, mem0_store(self.mem0)], MEM0_COLLECTION
        if len(named) != 1:
            raise InputError("source", "needs exactly one store", "name its folder or address")
        [(kind, location)] = named
        theirs = their_collection(kind, location, self.collection or default, trust=self.trust)
        given = self.mem0 or location
        return theirs, theirs.address if "://" in given else given


@dataclass(frozen=True)
class Brought:
    """The memories read from another program's store or a file, and what was left out.

    `left_out` has one error for each memory that could not be read. `notes` has advice and messages
    about other data that was not read; each note is one line. `origin` has the id of the collection
    and the `Reading`, which says how rows became memories. It is None if cleaned memories cannot be
    written back to the source. `kinds` are the metadata fields that keep memories apart, such as
    `status`. `across` are fields that do not, even if they did after an earlier import.

    >>> brought = read_source(notes, config)
    >>> [(memory.user, memory.content) for memory in brought.memories], len(brought.notes)
    ([('memories.noa', 'Noa has a cat.'), ('memories.noa', 'Noa has a cat!')], 1)
    """

    memories: list[Memory]
    left_out: tuple[InputError, ...] = ()
    notes: tuple[str, ...] = ()
    origin: tuple[str, Reading] | None = None
    kinds: tuple[str, ...] = ()
    across: tuple[str, ...] = ()


def read_source(source: Source, config: Config) -> Brought:
    """Read all memories of another program's store or of a file.

    Memories of one user but several agents may be merged, unless `memory.dedup_scope` contains
    `agent_id`. If there are such memories that may be merged, a note in the result says so.

    >>> from pathlib import Path
    >>> size = Path("mia.jsonl").write_text('{"content": "Mia rows."}\\n{"user": "Mia"}')
    >>> brought = read_source(Source(file="mia.jsonl"), config)
    >>> [memory.content for memory in brought.memories], [str(why) for why in brought.left_out]
    (['Mia rows.'], ['mia.jsonl:2: content: is missing; this line is left out'])

    Raises: InputError if the source cannot be read.
    """
    zoned = source.reading.model_copy(update={"timezone": config.memory.timezone})
    brought = _read(replace(source, reading=zoned))
    fields = differing_fields(brought.memories, source.reading)
    brought = replace(
        brought,
        notes=(*brought.notes, *fields.notes(with_others=source.file is None)),
        kinds=fields.kinds,
        across=source.reading.across,
    )
    several = users_of_several_agents(brought.memories)
    if several and "agent_id" not in config.memory.dedup_scope:
        note = (
            f"{several:,} users have memories of several agents, which may be merged: "
            "memory.dedup_scope: [user, agent_id] keeps them apart"
        )
        return replace(brought, notes=(*brought.notes, note))
    return brought


def _sorted_out(items: Iterable[Memory | InputError]) -> Brought:
    """Separate memories from errors, and return both.

    Memories may link to each other by `external_id`, their id in another program. If a link's
    target is the `external_id` of one of these memories, the target becomes the `id` of that
    memory.
    """
    read = list(items)
    memories = [item for item in read if isinstance(item, Memory)]
    problems = tuple(item for item in read if isinstance(item, InputError))
    return Brought(with_links_resolved(memories), problems)


def left_namespaces(left: Mapping[str, int], by_choice: bool) -> list[str]:
    """Return a list with one note about the namespaces not read; [] if all were read.

    `left`: the number of rows in each namespace that was not read. `by_choice`: whether the user
    chose the namespaces to read.
    """
    if not left:
        return []
    named = ", ".join(f"{name} ({count:,})" for name, count in sorted(left.items())[:_NAMED])
    more = f" and {len(left) - _NAMED:,} more" if len(left) > _NAMED else ""
    if by_choice:
        return [f"namespaces left alone: {named}{more}"]
    return [
        f"namespaces left alone, since they do not look like memories: {named}{more}; "
        "--namespace NAME takes one"
    ]


def _read(source: Source) -> Brought:
    reading = source.reading
    if source.file is not None:
        return _of_file(Path(source.file), reading)
    if source.mcp_memory is not None:
        rows, problems = read_graph(Path(source.mcp_memory))
        return _sorted_out(chain(problems, as_memories(rows, str(source.mcp_memory), reading)))
    theirs, said = source.opened()
    found = theirs.found()
    notes: list[str] = []
    if source.mem0 is not None and Path(source.mem0).is_dir():
        found = replace(found, rows=with_history(found.rows, Path(source.mem0)))
    if source.mem0 is not None or source.langgraph is not None:  # these hide what has expired
        rows = list(unexpired(found.rows, datetime.now(UTC)))
        if gone := len(found.rows) - len(rows):
            notes.append(f"{gone:,} have expired, and are left where they are")
        found = replace(found, rows=rows)
    if source.langgraph is not None:
        reading = reading.model_copy(update={"user_key": reading.user_key or "namespace"})
        chosen, left = choose_namespaces(found.rows, said, reading, source.namespaces)
        reading = reading.model_copy(update={"namespaces": chosen})
        found = replace(found, rows=in_namespaces(found.rows, chosen))
        notes += [f"namespaces read: {described(found.rows, reading) or 'none'}"]
        notes += left_namespaces(left, bool(source.namespaces))
    brought = _sorted_out(as_memories(found.rows, said, reading))
    origin = (found.collection_id, reading) if found.collection_id else None
    return replace(brought, notes=tuple(notes), origin=origin)


def _of_file(file: Path, reading: Reading) -> Brought:
    now = datetime.now(UTC)
    default = reading.default_time or now
    zone = reading.zone
    read = read_memories(file, assume_utc=reading.assume_utc, zone=zone, default_time=default)
    brought = _sorted_out(read)
    undated = sum(one.timestamp == now for one in brought.memories)
    if not undated:
        return brought
    note = f"{undated:,} have no time: when they were said is unknown, and today counts as recorded"
    return replace(brought, notes=(note,))


# --- which collection ----------------------------------------------------------------------------


def their_collection(kind: Kind, location: str, name: str, *, trust: bool = False) -> ExternalStore:
    """Return the collection `name` of another program's store, without reading it.

    >>> their_collection("langgraph", "notes.sqlite", "store").place.name
    'notes.sqlite'
    >>> their_collection("pgvector", "notes.sqlite", "store")
    Traceback (most recent call last):
        ...
    memory.errors.InputError: notes.sqlite: is no address of a PostgreSQL; give postgresql://...

    Raises: InputError if the address is not valid, or if it is a folder of Qdrant and `trust` is
    False.
    """
    if kind == "langgraph":
        return langgraph_at(location)
    if kind == "pgvector":
        if not is_postgres(location):
            raise InputError(location, "is no address of a PostgreSQL", "give postgresql://...")
        return PgvectorStore(location, name)
    if kind == "qdrant":
        place = location.rstrip("/") if is_address(location) else Path(location)
        return QdrantStore(place, name, trust)
    return ChromaStore(chroma_server(location) if is_address(location) else Path(location), name)


def mem0_store(location: str) -> tuple[Kind, str]:
    """Return the kind and the location of the vector store in which mem0 keeps its memories.

    `location`: the folder of mem0, or the address of a PostgreSQL or Qdrant server.

    >>> mem0_store("postgresql://localhost/mem0")
    ('pgvector', 'postgresql://localhost/mem0')
    >>> mem0_store("http://localhost:6333")
    ('qdrant', 'http://localhost:6333')

    Raises: InputError if the folder does not hold exactly one such store.
    """
    if is_postgres(location):
        return "pgvector", location
    if is_address(location):
        return "qdrant", location
    folder = vector_folder(Path(location))
    return ("qdrant" if is_qdrant(folder) else "chroma"), str(folder)

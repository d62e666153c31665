"""Read and write memories as JSON Lines; read the file of MCP's reference memory server."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any, NamedTuple

from memory.errors import InputError
from memory.interchange.foreign import CREATED, LAST_DAY, ForeignRow, expiry_of, last_day, moment
from memory.models import Memory, MemoryLink, Turn, from_json, is_memory_id
from memory.runtime import BYTE_ORDER_MARK, open_regular, read_objects
from memory.text import normalise

_UNTIL, _SUPERSEDED_BY = "until", "superseded_by"
_REPLACES = "replaces"  # lists the external ids of memories that a memory has replaced


class Ended(NamedTuple):
    """A memory that no longer holds: when it ended, and the id of what superseded it, if any."""

    memory: Memory
    until: datetime
    successor_id: str | None


def write_memory(
    memory: Memory,
    stands_for: Sequence[str] = (),
    until: datetime | None = None,
    successor_id: str | None = None,
) -> str:
    """Return a memory as one line of JSON, without fields that have their default value.

    `until`, `successor_id`: of a superseded memory, as in `Ended`.

    `stands_for` has the external ids of the memories that `memory` replaced, oldest first. If
    `memory` has no external id, because it was merged, the newest of these ids is written as its
    external id. The other ids are written under the key `replaces`.

    `said` is left out if it equals the `timestamp`, and null if it is unknown.

    >>> memory = store.new_memory("Mia rows.", user="Mia")
    >>> sorted(json.loads(write_memory(memory)))
    ['content', 'id', 'timestamp', 'user']
    >>> json.loads(write_memory(memory, ("a", "b")))["replaces"]  # b becomes its external id
    ['a']
    """
    fields = memory.model_dump(mode="json", exclude_defaults=True, exclude={"said"})
    if memory.said is None or memory.said.isoformat() != memory.timestamp.isoformat():
        fields["said"] = memory.said and memory.said.isoformat()
    name = memory.external_id or (stands_for[-1] if stands_for else None)
    if name is not None:
        fields["external_id"] = name
    if stands_for:
        fields[_REPLACES] = [other for other in stands_for if other != name]
    if until is not None:
        fields |= {_UNTIL: until.isoformat(), _SUPERSEDED_BY: successor_id}
    return json.dumps({"id": memory.id, **fields}, ensure_ascii=False)


def split_ended(memories: Iterable[Memory]) -> tuple[list[Memory], list[Ended]]:
    """Divide memories of a JSON Lines file into those that hold and those that ended.

    `write_memory` marks the second kind; `to_memory` leaves its marks in the metadata.

    >>> home = store.new_memory("Mia lives in Porto.", user="Mia")
    >>> line = write_memory(home, until=home.timestamp, successor_id="mem_0123456789ab")
    >>> ended = to_memory(json.loads(line), keep_id=True, assume_utc=False)
    >>> holding, gone = split_ended([ended, store.new_memory("Mia rows.")])
    >>> [memory.content for memory in holding], len(gone)
    (['Mia rows.'], 1)
    """
    hold, ended = list[Memory](), list[Ended]()
    for memory in memories:
        until = memory.metadata.get(_UNTIL)
        at = expiry_of(until) if _SUPERSEDED_BY in memory.metadata else None
        if at is None:
            hold.append(memory)
            continue
        metadata = {**memory.metadata}
        successor = metadata.pop(_SUPERSEDED_BY)
        del metadata[_UNTIL]
        bare = memory.model_copy(update={"metadata": metadata})
        ended.append(Ended(bare, at, successor if isinstance(successor, str) else None))
    return hold, ended


@dataclass(frozen=True, eq=False)
class DumpedRow:
    """A line of a JSON Lines file: its fields as they were read, and the memory made from them.

    >>> size = Path("rows.jsonl").write_text('{"id": 7, "content": "Mia rows.", "room": "a"}')
    >>> [row] = read_rows(Path("rows.jsonl"), default_time=datetime.now(UTC))
    >>> row.name, row.others, row.memory.external_id
    (7, {'room': 'a'}, '7')
    """

    memory: Memory
    fields: dict[str, Any]

    @property
    def name(self) -> Any:
        """The row's id in its own store, as it was read; it may be a number."""
        return self.fields[self._name_key]

    @property
    def others(self) -> dict[str, Any]:
        """All fields except the row's id and its text."""
        own = (self._name_key, "content")
        return {key: value for key, value in self.fields.items() if key not in own}

    @property
    def _name_key(self) -> str:
        return "id" if self.fields.get("external_id") is None else "external_id"


def read_memories(
    path: Path,
    *,
    assume_utc: bool = False,
    zone: tzinfo | None = None,
    default_time: datetime | None = None,
) -> Iterator[Memory | InputError]:
    """Yield what `read_rows` yields, but only the memory of each row.

    >>> line = '{"content": "Mia rows.", "created_at": "2026-05-01T08:00:00Z"}'
    >>> size = Path("rows.jsonl").write_text(line)
    >>> [memory] = read_memories(Path("rows.jsonl"))
    >>> memory.content, str(memory.timestamp.date())
    ('Mia rows.', '2026-05-01')
    """
    for row in read_rows(path, assume_utc=assume_utc, zone=zone, default_time=default_time):
        yield row if isinstance(row, InputError) else row.memory


def read_rows(
    path: Path,
    *,
    assume_utc: bool = False,
    zone: tzinfo | None = None,
    default_time: datetime | None = None,
) -> Iterator[DumpedRow | InputError]:
    """Yield a row or an error for each line of a JSON Lines file, except blank lines.

    Each line is read as by `to_memory`. If two lines have the same id but different contents, the
    later one is an error.

    >>> size = Path("rows.jsonl").write_text('{"content": "Mia rows."}\\n\\n{"content": ""}')
    >>> [row, error] = read_rows(Path("rows.jsonl"), default_time=datetime.now(UTC))
    >>> row.memory.content, error.line
    ('Mia rows.', 3)

    Raises: InputError if the file cannot be read at all.
    """
    first_use: dict[str, tuple[int, str]] = {}  # by id: its first line and content
    for number, fields in read_some_objects(path):
        try:
            if isinstance(fields, ValueError):
                raise fields
            memory = to_memory(
                fields, keep_id=True, assume_utc=assume_utc, zone=zone, default_time=default_time
            )
            if (name := fields.get("id")) is not None:
                line, content = first_use.setdefault(str(name), (number, memory.content))
                if content != memory.content:
                    raise ValueError(
                        f"id {str(name)!r} is already used on line {line}, for another content"
                    )
        except ValueError as exc:
            yield InputError(path, str(exc), "this line is left out", number)
        else:
            yield DumpedRow(memory, fields)


def json_line(value: Any) -> str:
    """Return a value as a line of JSON that can be written as UTF-8.

    >>> json_line({"née": 1.50}), json_line("half of a pair: \\ud83d")
    ('{"née": 1.5}', '"half of a pair: \\\\ud83d"')
    """
    line = json.dumps(value, ensure_ascii=False)
    try:
        line.encode()
    except UnicodeEncodeError:  # only an escape can write half of a surrogate pair
        return json.dumps(value)
    return line


def read_some_objects(path: Path) -> Iterator[tuple[int, dict[str, Any] | ValueError]]:
    """Yield the same as `read_objects`, but raise an error if the file is not JSON Lines.

    Blank lines do not count.

    Raises: InputError if the file cannot be read at all, or if it has at least two lines and no
    line is a JSON object.
    """
    lines = read_objects(path)
    first = []  # up to the first JSON object
    for line in lines:
        first.append(line)
        if not isinstance(line[1], ValueError):
            break
    else:
        if len(first) > 1:
            raise _other_format(path, *first[0])
    yield from first
    yield from lines


def _other_format(path: Path, number: int, problem: object) -> InputError:
    with open_regular(path) as file:
        begin = file.read(100).removeprefix(BYTE_ORDER_MARK).lstrip()
    if begin.startswith(b"["):
        return InputError(
            path, "is one JSON array", "jq -c '.[]' writes each of it on a line of its own", number
        )
    return InputError(
        path,
        f"no line is a JSON object: {problem}",
        "jq -c . writes each on one line" if begin.startswith(b"{") else "give JSON Lines",
        number,
    )


def with_links_resolved(memories: Sequence[Memory]) -> list[Memory]:
    """Return the memories in the same order, with external ids in their links replaced.

    A memory's `external_id` is its id in another program. If a link's target is the `external_id`
    of one of `memories`, the target becomes the `id` of that memory. Other links stay as they are.

    >>> row = store.new_memory("Mia rows.").model_copy(update={"external_id": "n1"})
    >>> link = MemoryLink(target_id="n1")
    >>> sail = store.new_memory("Mia sails.").model_copy(update={"linked_ids": (link,)})
    >>> with_links_resolved([row, sail])[1].linked_ids[0].target_id == row.id
    True
    """
    ours = {memory.external_id: memory.id for memory in memories if memory.external_id}

    def resolved(link: MemoryLink) -> MemoryLink:
        return link.model_copy(update={"target_id": ours.get(link.target_id, link.target_id)})

    return [
        memory.model_copy(update={"linked_ids": tuple(map(resolved, memory.linked_ids))})
        if memory.linked_ids
        else memory
        for memory in memories
    ]


def to_turn(fields: Mapping[str, Any], zone: tzinfo | None = None) -> Turn:
    """Return a turn of a conversation from one line of a transcript.

    `fields` must have `speaker` or `user`, `text`, and `timestamp` or `at`. It may have `is_bot`,
    `id` and `conversation`. `zone`: the time zone of a time without one; None refuses such times.

    >>> turn = to_turn({"user": "Mia", "text": "I row.", "at": "2026-05-01T08:00+02:00"})
    >>> turn.speaker, turn.conversation
    ('Mia', 'Mia')

    Raises: ValueError, whose message says in one line what is wrong.
    """
    given = {
        "speaker": fields.get("speaker", fields.get("user")),
        "text": fields.get("text"),
        "at": moment(fields.get("timestamp", fields.get("at")), assume_utc=False, zone=zone),
        "is_bot": fields.get("is_bot", False),
        "id": str(fields["id"]) if fields.get("id") is not None else None,
    }
    if fields.get("conversation") is not None:
        given["conversation"] = str(fields["conversation"])
    return from_json(Turn, given)


def to_memory(
    fields: Mapping[str, Any],
    *,
    keep_id: bool,
    assume_utc: bool,
    zone: tzinfo | None = None,
    default_time: datetime | None = None,
) -> Memory:
    """Return a memory from the fields of one line of a JSON Lines file.

    With `keep_id`, an `id` in the format of this program's memory ids becomes the memory's id.
    Otherwise, the `id` becomes the memory's `external_id`, unless the line has an `external_id` of
    its own.

    With `assume_utc`, a time without a time zone is taken as UTC, otherwise as a time of `zone`; if
    that is None, such a time is an error. Without a `timestamp`, the first of CREATED counts, such
    as `created_at`. A line without any gets the `default_time`, and it is unknown when it was said;
    if `default_time` is None, it is an error.

    Keys that are not fields of a memory become metadata. The key `replaces` is dropped from a line
    whose `id` is kept.

    >>> fields = {"id": "n1", "content": "Mia rows.", "created_at": "2026-05-01", "room": "a"}
    >>> memory = to_memory(fields, keep_id=False, assume_utc=True)
    >>> memory.external_id, memory.metadata, str(memory.timestamp.date())
    ('n1', {'created_at': '2026-05-01', 'room': 'a'}, '2026-05-01')

    Raises: ValueError, whose message says in one line what is wrong.
    """
    given = {name: value for name, value in fields.items() if name in Memory.model_fields}
    extra = {name: value for name, value in fields.items() if name not in Memory.model_fields}
    name = given.pop("id", None)
    if keep_id and isinstance(name, str) and is_memory_id(name):
        given["id"] = name
        extra.pop(_REPLACES, None)
    elif name is not None:
        given.setdefault("external_id", str(name))
    metadata = given.get("metadata", {})
    if not isinstance(metadata, dict):
        raise ValueError("metadata is not an object")
    if twice := sorted(set(metadata) & set(extra)):
        raise ValueError(f"{twice[0]} is given both inside the metadata and outside of it")
    given["metadata"] = {**metadata, **extra}
    if given.get("timestamp") is None:
        written = (extra[key] for key in CREATED if extra.get(key) is not None)
        given["timestamp"] = next(written, None)
        if given["timestamp"] is None and default_time is not None:
            given |= {"timestamp": default_time.isoformat(), "said": None}
    stated = given.pop("expires_at", None)
    ends = last_day(extra.get(LAST_DAY)) if stated is None else expiry_of(stated)
    if ends is not None:
        given["expires_at"] = ends.isoformat()
    elif stated is not None:
        given["metadata"]["expires_at"] = stated
    for name in ("timestamp", *(["said"] if given.get("said") is not None else [])):
        given[name] = moment(given.get(name), assume_utc=assume_utc, zone=zone)
    return from_json(Memory, given)


# --- MCP's reference memory server: entities, observations, relations -----------------------------


def read_graph(file: Path) -> tuple[list[ForeignRow], list[InputError]]:
    """Read the file of MCP's reference memory server; return rows to import, and errors.

    The file has entities, texts about them (observations), and relations between them. Each
    observation becomes one row; the entity's name becomes the row's user. For a relation from
    entity A to entity B, the first row of A gets a link to the first row of B. Each bad line gives
    one error.

    >>> size = Path("graph.jsonl").write_text(
    ...     '{"type": "entity", "name": "Mia", "entityType": "person", "observations": ["rows"]}'
    ... )
    >>> rows, problems = read_graph(Path("graph.jsonl"))
    >>> [(row.document, row.metadata) for row in rows], problems
    ([('rows', {'user': 'Mia', 'entity': 'Mia', 'tags': ['person']})], [])

    Raises: InputError if the file cannot be read at all.
    """
    kinds: dict[str, str] = {}
    observed: dict[str, list[str]] = {}
    relations: list[dict[str, Any]] = []
    problems: list[InputError] = []
    for number, line in read_some_objects(file):
        if isinstance(line, ValueError):
            problems.append(InputError(file, str(line), "this line is left out", number))
        elif line.get("type") == "relation":
            relations.append(line)
        elif _is_entity(line):
            entity, kind = line["name"], line.get("entityType")
            kinds.setdefault(entity, kind if isinstance(kind, str) else "")
            texts = observed.setdefault(entity, [])
            texts += [text for text in line["observations"] if text not in texts]
        else:
            problems.append(
                InputError(
                    file,
                    "is neither an entity with observations nor a relation",
                    "this line is left out",
                    number,
                )
            )
    links = _links(observed, relations)
    rows = [
        ForeignRow(
            _name(entity, text),
            text,
            {"user": entity, "entity": entity, **({"tags": [kind]} if kind else {})},
            links.get(entity, []) if text is observed[entity][0] else [],
        )
        for entity, kind in kinds.items()
        for text in observed[entity]
    ]
    return rows, problems


def _is_entity(line: Mapping[str, Any]) -> bool:
    texts = line.get("observations")
    return (
        (line.get("type"), type(line.get("name"))) == ("entity", str)
        and isinstance(texts, list)
        and all(isinstance(text, str) for text in texts)
    )


def _links(
    observed: Mapping[str, Sequence[str]], relations: Iterable[dict[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    links: dict[str, list[dict[str, Any]]] = {}
    for relation in relations:
        source, target = str(relation.get("from")), str(relation.get("to"))
        if source != target and observed.get(source) and observed.get(target):
            links.setdefault(source, []).append(
                {
                    "target_id": _name(target, observed[target][0]),
                    "link_type": "related",
                    "note": str(relation.get("relationType") or ""),
                }
            )
    return links


def _name(entity: str, text: str) -> str:
    return f"{entity}/{hashlib.sha256(normalise(text).encode()).hexdigest()[:12]}"

"""Read and write memories as JSON Lines; read the file of MCP's reference memory server."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from memory.errors import InputError
from memory.interchange.foreign import ForeignRow, moment
from memory.models import Memory, Turn, first_problem, is_memory_id
from memory.runtime import open_regular
from memory.text import clean_json, normalise

_MOST = 64 * 2**20
"""The greatest length of a line that is read, in bytes; parsing a line takes far more memory."""
_MARK = b"\xef\xbb\xbf"  # a byte order mark
_REPLACES = "replaces"  # lists the external ids of memories that a memory has replaced
M = TypeVar("M", Memory, Turn)
_BEGIN = 100  # bytes from which a file's format is recognised


def write_memory(memory: Memory, stands_for: Sequence[str] = ()) -> str:
    """Return a memory as one line of JSON, without fields that have their default value.

    `stands_for` has the external ids of the memories that `memory` replaced or was merged from,
    oldest first. A merged memory has no external id, so it is written with the newest of these ids
    as its external id. All other ids are written under the key `replaces`.
    """
    fields = memory.model_dump(mode="json", exclude_defaults=True)
    name = memory.external_id or (stands_for[-1] if stands_for else None)
    if name is not None:
        fields["external_id"] = name
    replaced = [other for other in stands_for if other != name]
    if stands_for:
        fields[_REPLACES] = replaced
    return json.dumps({"id": memory.id, **fields}, ensure_ascii=False)


def read_memories(path: Path, *, assume_utc: bool = False) -> Iterator[Memory | InputError]:
    """Read memories from a JSON Lines file; yield a memory or an error for each non-blank line.

    Keys that are not fields of a memory become metadata. If an `id` is not in the format of our
    memory ids, it becomes the `external_id`. If a later line has the same id as an earlier line but
    another content, it is an error. With `assume_utc`, a time without a time zone is taken as UTC;
    otherwise it is an error.

    Raises: InputError if the file cannot be read at all.
    """
    first_use: dict[str, tuple[int, str]] = {}  # by id: its first line and content
    for number, fields in read_some_objects(path):
        try:
            if isinstance(fields, ValueError):
                raise fields
            memory = to_memory(fields, keep_id=True, assume_utc=assume_utc)
            if (name := fields.get("id")) is not None:
                line, content = first_use.setdefault(str(name), (number, memory.content))
                if content != memory.content:
                    problem = (
                        f"id {str(name)!r} is already used on line {line}, for another content"
                    )
                    raise ValueError(problem)
        except ValueError as exc:
            yield InputError(path, str(exc), "this line is left out", number)
        else:
            yield memory


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any] | ValueError]]:
    """Yield the number (from 1) of each line that is not blank, and its JSON object or an error.

    Raises: InputError if the file cannot be read at all.
    """
    for number, raw in _lines(path):
        try:
            yield number, _object(raw)
        except ValueError as exc:
            yield number, exc


def read_some_objects(path: Path) -> Iterator[tuple[int, dict[str, Any] | ValueError]]:
    """Yield the number (from 1) of each line that is not blank, and its JSON object or an error.

    If the file has several lines and none is a JSON object, the file has another format. One error
    is then raised for the whole file, and nothing is yielded.

    Raises: InputError if the file has another format, or cannot be read at all.
    """
    wrong: list[tuple[int, ValueError]] = []
    lines = read_objects(path)
    for number, fields in lines:
        if not isinstance(fields, ValueError):
            yield from wrong
            yield number, fields
            yield from lines
            return
        wrong.append((number, fields))
    if len(wrong) <= 1:
        yield from wrong
        return
    number, problem = wrong[0]
    with open_regular(path) as file:
        begin = file.read(_BEGIN).removeprefix(_MARK).lstrip()
    if begin.startswith(b"["):
        remedy = "jq -c '.[]' writes each of it on a line of its own"
        raise InputError(path, "is one JSON array", remedy, number)
    remedy = "jq -c . writes each on one line" if begin.startswith(b"{") else "give JSON Lines"
    raise InputError(path, f"no line is a JSON object: {problem}", remedy, number)


def with_links_resolved(memories: Sequence[Memory]) -> list[Memory]:
    """Return copies of the memories, in order, whose links use our memory ids.

    A link may name another memory by its external id. If one of `memories` has this external id,
    the copy of the link has the memory's id instead. All other links stay as they are.
    """
    ours = {memory.external_id: memory.id for memory in memories if memory.external_id}

    def resolved(memory: Memory) -> Memory:
        links = tuple(
            link.model_copy(update={"target_id": ours.get(link.target_id, link.target_id)})
            for link in memory.linked_ids
        )
        return memory.model_copy(update={"linked_ids": links})

    return [resolved(memory) if memory.linked_ids else memory for memory in memories]


def to_turn(fields: Mapping[str, Any]) -> Turn:
    """Return a turn of a conversation from one line of a transcript.

    `fields` must have `speaker` or `user`, `text`, and `timestamp` or `at`. It may have `is_bot`,
    `id` and `conversation`.

    Raises: ValueError, whose message says in one line what is wrong.
    """
    given = {
        "speaker": fields.get("speaker", fields.get("user")),
        "text": fields.get("text"),
        "at": moment(fields.get("timestamp", fields.get("at")), assume_utc=False),
        "is_bot": fields.get("is_bot", False),
        "id": str(fields["id"]) if fields.get("id") is not None else None,
    }
    if fields.get("conversation") is not None:
        given["conversation"] = str(fields["conversation"])
    return _validated(Turn, given)


def to_memory(fields: Mapping[str, Any], *, keep_id: bool, assume_utc: bool) -> Memory:
    """Return a memory from the fields of one line of a JSON Lines file.

    With `keep_id`, an `id` in the format of our memory ids becomes the memory's id. Any other `id`
    becomes its `external_id`. With `assume_utc`, a time without a time zone is taken as UTC;
    otherwise it is an error. Keys that are not fields of a memory become metadata.

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
    given["timestamp"] = moment(given.get("timestamp"), assume_utc=assume_utc)
    return _validated(Memory, given)


def _validated(model: type[M], fields: dict[str, Any]) -> M:
    try:
        return model.model_validate_json(json.dumps(clean_json(fields)))
    except ValidationError as exc:
        raise ValueError(str(first_problem(exc))) from exc
    except RecursionError as exc:
        raise ValueError("is nested too deeply") from exc


def _lines(path: Path) -> Iterator[tuple[int, bytes | None]]:
    """Yield the number (from 1) of each line that is not blank, and its bytes without the line end.

    The bytes are None if the line is too long.

    Raises: InputError if the file cannot be read.
    """
    try:
        with open_regular(path) as file:
            for number in count(1):
                raw = file.readline(_MOST)
                if not raw:
                    return
                if len(raw) == _MOST and not raw.endswith(b"\n"):
                    while raw and not raw.endswith(b"\n"):
                        raw = file.readline(_MOST)
                    yield number, None
                    continue
                if number == 1:
                    raw = raw.removeprefix(_MARK)
                if raw.strip():
                    yield number, raw.rstrip(b"\r\n")
    except OSError as exc:
        raise InputError(path, f"cannot be read: {exc.strerror}", "name a JSON Lines file") from exc


def _object(raw: bytes | None) -> dict[str, Any]:
    if raw is None:
        raise ValueError(f"is longer than {_MOST // 2**20} MB: split it")
    try:
        fields = json.loads(raw.decode("utf-8"), parse_constant=_no_constant, parse_int=_integer)
    except UnicodeDecodeError as exc:
        raise ValueError("is not UTF-8 text") from exc
    except json.JSONDecodeError as exc:
        raise ValueError(f"is not JSON: {exc.msg} (column {exc.colno})") from exc
    except RecursionError as exc:
        raise ValueError("is nested too deeply") from exc
    if not isinstance(fields, dict):
        raise ValueError("is not a JSON object")
    return fields


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError as exc:  # Python reads no more, for that would take long
        raise ValueError(f"has a number of {len(digits):,} digits") from exc


# --- MCP's reference memory server: entities, observations, relations -----------------------------


def read_graph(file: Path) -> tuple[list[ForeignRow], list[InputError]]:
    """Read the file of MCP's reference memory server; return its rows, and errors for bad lines.

    The file describes entities, observations about them, and relations between them. Each
    observation becomes a row, whose user is the entity. A relation of two entities becomes a link
    from the first observation of one entity to the first observation of the other.

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
            problem = "is neither an entity with observations nor a relation"
            problems.append(InputError(file, problem, "this line is left out", number))
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
    """Turn relations between entities into links; return each entity's links, by the entity's name.

    `observed` has the observations of each entity, by its name. A relation from A to B becomes a
    link of A to the first observation of B. A relation is left out if one of the two has no
    observations, or if A is B.
    """
    links: dict[str, list[dict[str, Any]]] = {}
    for relation in relations:
        source, target = str(relation.get("from")), str(relation.get("to"))
        if source != target and observed.get(source) and observed.get(target):
            link = {
                "target_id": _name(target, observed[target][0]),
                "link_type": "related",
                "note": str(relation.get("relationType") or ""),
            }
            links.setdefault(source, []).append(link)
    return links


def _name(entity: str, text: str) -> str:
    """Return the id of an observation's row; it depends only on the entity and the text."""
    return f"{entity}/{hashlib.sha256(normalise(text).encode()).hexdigest()[:12]}"

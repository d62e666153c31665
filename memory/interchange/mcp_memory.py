"""The JSON Lines of MCP's reference memory server: entities, observations, relations."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from memory.errors import InputError
from memory.interchange.foreign import ForeignRow
from memory.interchange.jsonl import read_some_objects
from memory.text import normalise


def read_graph(file: Path) -> tuple[list[ForeignRow], list[InputError]]:
    """Return each observation as a row of its entity, and the problems of bad lines.

    A relation becomes a link between the first observations of both entities.

    Raises: InputError where the file cannot be read at all.
    """
    entities: dict[str, tuple[str, list[str]]] = {}
    relations: list[dict[str, Any]] = []
    problems: list[InputError] = []
    for number, line in read_some_objects(file):
        problem = _take(line, entities, relations)
        if problem:
            problems.append(InputError(file, problem, "this line is left out", number))
    return _rows(entities, _links(entities, relations)), problems


def _take(
    line: dict[str, Any] | ValueError,
    entities: dict[str, tuple[str, list[str]]],
    relations: list[dict[str, Any]],
) -> str:
    """Add a line to the entities or relations; return its problem, empty if it has none."""
    if isinstance(line, ValueError):
        return str(line)
    if line.get("type") == "relation":
        relations.append(line)
        return ""
    name, observations = line.get("name"), line.get("observations")
    if line.get("type") != "entity" or not isinstance(name, str) or not _is_texts(observations):
        return "is neither an entity with observations nor a relation"
    kind = line.get("entityType")
    seen = entities.setdefault(name, (kind if isinstance(kind, str) else "", []))[1]
    seen += [text for text in observations or () if text not in seen]
    return ""


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _links(
    entities: dict[str, tuple[str, list[str]]], relations: Iterable[dict[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """Return, by entity, the links from its first observation."""
    found: dict[str, list[dict[str, Any]]] = {}
    told = {name: observed for name, (_, observed) in entities.items() if observed}
    for one in relations:
        source, target = str(one.get("from")), str(one.get("to"))
        if source != target and source in told and target in told:
            link = {
                "target_id": _name(target, told[target][0]),
                "link_type": "related",
                "note": str(one.get("relationType") or ""),
            }
            found.setdefault(source, []).append(link)
    return found


def _rows(
    entities: dict[str, tuple[str, list[str]]], links: dict[str, list[dict[str, Any]]]
) -> list[ForeignRow]:
    return [
        ForeignRow(
            _name(entity, text),
            text,
            {"user": entity, "entity": entity, **({"tags": [kind]} if kind else {})},
            links.get(entity, []) if number == 0 else [],
        )
        for entity, (kind, told) in entities.items()
        for number, text in enumerate(told)
    ]


def _name(entity: str, text: str) -> str:
    """Return an id that is the same at every import, in any order, by any version."""
    return f"{entity}/{hashlib.sha256(normalise(text).encode()).hexdigest()[:12]}"

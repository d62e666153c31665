"""All live memories at one revision: what a plan over a whole store is made from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from memory.ledger.distinct import TextPair
from memory.ledger.records import Row
from memory.ledger.state import Reader
from memory.models import Vector


@dataclass(frozen=True)
class Snapshot:
    """All live memories at one revision, oldest first, and what is known about their texts."""

    rows: tuple[Row, ...]
    vectors: Mapping[str, Vector]
    ancestors: Mapping[str, tuple[str, ...]]
    """Text keys of what a synthesised memory was made from, by its id."""
    distinct: frozenset[TextPair]
    """Pairs of texts that are not to be asked about: judged distinct, or failed at and not due."""
    revision: int
    waiting: int = 0
    """How many of them a model failed at."""


def take_snapshot(
    reader: Reader, distinct: Collection[TextPair], waiting: Collection[TextPair] = ()
) -> Snapshot:
    """`distinct` and `waiting` are the pairs that are not to be asked about."""
    rows = tuple(reader.memories.live_in_time_order())
    ancestors = {row.memory.id: _ancestor_keys(reader, row) for row in rows}
    keys = [row.text_key for row in rows]
    keys += [key for of_one in ancestors.values() for key in of_one]
    return Snapshot(
        rows=rows,
        vectors=reader.vectors.of(keys),
        ancestors=ancestors,
        distinct=frozenset(distinct) | frozenset(waiting),
        revision=reader.revision(),
        waiting=len(waiting),
    )


def _ancestor_keys(reader: Reader, row: Row) -> tuple[str, ...]:
    keys: dict[str, None] = {}
    todo = list(row.memory.merged_from)
    seen = set(todo)
    while todo:
        rows = reader.memories.rows(todo)
        keys.update((found.text_key, None) for found in rows.values())
        todo = [name for found in rows.values() for name in found.memory.merged_from]
        todo = [name for name in dict.fromkeys(todo) if name not in seen]
        seen.update(todo)
    return tuple(keys)

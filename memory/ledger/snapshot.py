"""All live memories at one revision, from which a batch plans."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from memory.ledger.judgements import ScopedText, TextPair
from memory.ledger.records import Row
from memory.ledger.state import Reader
from memory.ledger.vectors import VectorTable


class Lineage(Enum):
    """The texts that a memory stands for besides its own."""

    SYNTHESISED = "those that it was synthesised from"
    WHOLE = "and all that it has replaced, whether or not it states them"


@dataclass(frozen=True)
class Snapshot:
    """All live memories at one revision, oldest first, and the verdicts on their texts."""

    rows: tuple[Row, ...]
    vectors: VectorTable
    ancestors: Mapping[str, tuple[str, ...]]
    """The keys of the other texts that a memory stands for, by its id."""
    distinct: frozenset[TextPair]
    """Pairs not to be asked about: judged distinct, or failed at and not due."""
    revision: int
    waiting: int = 0
    """How many of them a model failed at."""
    judged: frozenset[TextPair] = frozenset()
    """The pairs judged distinct."""
    kept_apart: frozenset[TextPair] = frozenset()
    """The pairs that a person keeps apart."""
    stands_for: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The keys of all texts that a memory has replaced or was merged from, by its id.

    Empty if no person keeps anything apart.
    """
    read: frozenset[ScopedText] = frozenset()
    """Texts that a page need not show again."""


def take_snapshot(
    reader: Reader,
    distinct: Collection[TextPair],
    waiting: Collection[TextPair] = (),
    lineage: Lineage = Lineage.SYNTHESISED,
    before: Snapshot | None = None,
    kept_apart: Collection[TextPair] = (),
    read: Collection[ScopedText] = (),
) -> Snapshot:
    """Take a snapshot; with one from `before`, read only what has been written since.

    `distinct` and `waiting` are the pairs not to be asked about, `read` the texts not to be shown.
    """
    rows, ancestors = _all_rows(reader) if before is None else _rows_since(reader, before)
    if lineage is Lineage.WHOLE:
        ancestors |= _keys_stood_for(reader, rows)
    keys = [row.text_key for row in rows]
    keys += [key for of_one in ancestors.values() for key in of_one]
    stands_for = _keys_stood_for(reader, rows) if kept_apart else {}
    return Snapshot(
        rows=rows,
        vectors=reader.vectors.table(keys, None if before is None else before.vectors),
        ancestors=ancestors,
        distinct=frozenset(distinct) | frozenset(waiting),
        revision=reader.revision(),
        waiting=len(waiting),
        judged=frozenset(distinct),
        kept_apart=frozenset(kept_apart),
        stands_for=stands_for,
        read=frozenset(read),
    )


def snapshot_of(reader: Reader, ids: Sequence[str]) -> Snapshot:
    """Take a snapshot of these memories alone, live or not, without their ancestors."""
    found = reader.memories.rows(ids).values()
    rows = tuple(sorted(found, key=lambda row: (row.memory.timestamp, row.seq)))
    return Snapshot(
        rows=rows,
        vectors=reader.vectors.table(row.text_key for row in rows),
        ancestors={},
        distinct=frozenset(),
        revision=reader.revision(),
    )


_Rows = tuple[tuple[Row, ...], dict[str, tuple[str, ...]]]
"""Live rows, oldest first, and the text keys that each was merged from."""


def _all_rows(reader: Reader) -> _Rows:
    rows = tuple(sorted(reader.memories.live(), key=lambda row: (row.memory.timestamp, row.seq)))
    return rows, {row.memory.id: _ancestor_keys(reader, row) for row in rows}


def _rows_since(reader: Reader, before: Snapshot) -> _Rows:
    written = reader.memories.rows([one.id for one in reader.followers.changes(before.revision)])
    rows = [row for row in before.rows if row.memory.id not in written]
    rows += [row for row in written.values() if row.live]
    rows.sort(key=lambda row: (row.memory.timestamp, row.seq))
    ancestors = {
        row.memory.id: _ancestor_keys(reader, row)
        if row.memory.id in written
        else before.ancestors[row.memory.id]
        for row in rows
    }
    return tuple(rows), ancestors


def _keys_stood_for(reader: Reader, rows: Sequence[Row]) -> dict[str, tuple[str, ...]]:
    """Return the text keys of all retired memories that each memory stands for."""
    retired = reader.memories.rows(list(reader.memories.successions()))
    alive = reader.memories.living_ids(retired)
    found: dict[str, list[str]] = {row.memory.id: [] for row in rows}
    for name, end in alive.items():
        found[end].append(retired[name].text_key)
    return {name: tuple(dict.fromkeys(keys)) for name, keys in found.items() if keys}


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

"""A snapshot: all live memories at one revision, from which a batch plans."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from memory.ledger.judgements import ScopedText, TextPair
from memory.ledger.ledger import Reader
from memory.ledger.records import Row
from memory.ledger.vectors import VectorTable


@dataclass(frozen=True)
class Snapshot:
    """All live memories at one revision, oldest first, with the verdicts on their texts.

    - `ancestors`: maps a memory's id to the text keys of the memories that were merged into it,
      directly or in several steps. If the snapshot was taken with `whole_lineage`, and the memory
      has replaced others, its id is mapped to the text keys of all these retired memories instead.
    - `judged`: pairs of texts that a judge called distinct before the snapshot was taken.
    - `distinct`: pairs that the model is not asked about. These are the pairs in `judged`, and the
      pairs that the model failed to judge recently or too often.
    - `waiting`: the number of pairs that the model failed to judge recently or too often.
    - `kept_apart`: pairs that a person keeps as two memories.
    - `stands_for`: maps a memory's id to the `dated_key` of all retired memories that it has
      replaced, directly or in several steps. It is empty if `kept_apart` is empty.
    - `read`: texts that the model has already read on a page, a question about many memories.
    """

    rows: tuple[Row, ...]
    vectors: VectorTable
    ancestors: Mapping[str, tuple[str, ...]]
    distinct: frozenset[TextPair]
    revision: int
    waiting: int = 0
    judged: frozenset[TextPair] = frozenset()
    kept_apart: frozenset[TextPair] = frozenset()
    stands_for: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    read: frozenset[ScopedText] = frozenset()


def take_snapshot(
    reader: Reader,
    distinct: Collection[TextPair],
    waiting: Collection[TextPair] = (),
    before: Snapshot | None = None,
    kept_apart: Collection[TextPair] = (),
    read: Collection[ScopedText] = (),
    *,
    whole_lineage: bool = False,
    only: Sequence[Row] | None = None,
) -> Snapshot:
    """Take a snapshot of all live memories, or of those whose rows are `only`.

    `distinct`: pairs of texts that a judge called distinct; they are stored in `Snapshot.judged`.
    `waiting`: pairs that the model failed to judge recently or too often. `Snapshot.distinct` is
    the union of `distinct` and `waiting`. `before`: an earlier snapshot, from which unchanged
    memories are taken. `kept_apart`, `read` and `whole_lineage`: see `Snapshot`.
    """
    rows, ancestors = _live_rows(reader, before, only)
    if whole_lineage:
        ancestors |= {name: _text_keys(its) for name, its in _stood_for(reader, rows).items()}
    keys = [row.text_key for row in rows]
    keys += [key for of_one in ancestors.values() for key in of_one]
    stands_for = _stood_for(reader, rows) if kept_apart else {}
    return Snapshot(
        rows=rows,
        vectors=reader.vectors.table(keys, None if before is None else before.vectors),
        ancestors=ancestors,
        distinct=frozenset(distinct) | frozenset(waiting),
        revision=reader.revision(),
        waiting=len(waiting),
        judged=frozenset(distinct),
        kept_apart=frozenset(kept_apart),
        stands_for={
            name: tuple({row.dated_key: None for row in its}) for name, its in stands_for.items()
        },
        read=frozenset(read),
    )


def snapshot_of(reader: Reader, ids: Sequence[str]) -> Snapshot:
    """Take a snapshot of only the memories with these ids.

    The snapshot's fields for verdicts and ancestors are empty.

    >>> outcome = memories.remember("Hob rows.", user="Hob")
    >>> with store.ledger.reading() as reader:
    ...     [row.memory.content for row in snapshot_of(reader, [outcome.memory.id]).rows]
    ['Hob rows.']
    """
    found = reader.memories.rows(ids).values()
    rows = tuple(sorted(found, key=lambda row: (row.memory.timestamp, row.seq)))
    return Snapshot(
        rows=rows,
        vectors=reader.vectors.table(row.text_key for row in rows),
        ancestors={},
        distinct=frozenset(),
        revision=reader.revision(),
    )


def _live_rows(
    reader: Reader, before: Snapshot | None, only: Sequence[Row] | None
) -> tuple[tuple[Row, ...], dict[str, tuple[str, ...]]]:
    if before is None:
        found = reader.memories.live() if only is None else only
        rows, ancestors = list(found), dict[str, tuple[str, ...]]()
    else:
        changed = [change.id for change in reader.followers.changes(before.revision)]
        written = reader.memories.rows(changed)
        rows = [row for row in before.rows if row.memory.id not in written]
        rows += [row for row in written.values() if row.live]
        ancestors = {name: of for name, of in before.ancestors.items() if name not in written}
    rows.sort(key=lambda row: (row.memory.timestamp, row.seq))
    for row in rows:
        if row.memory.id not in ancestors:
            ancestors[row.memory.id] = _ancestor_keys(reader, row)
    return tuple(rows), ancestors


def _stood_for(reader: Reader, rows: Sequence[Row]) -> dict[str, list[Row]]:
    retired = reader.memories.rows(list(reader.memories.successions()))
    alive = reader.memories.living_ids(retired)
    found: dict[str, list[Row]] = {row.memory.id: [] for row in rows}
    for name, end in alive.items():
        if end in found:
            found[end].append(retired[name])
    return {name: its for name, its in found.items() if its}


def _ancestor_keys(reader: Reader, row: Row) -> tuple[str, ...]:
    found: dict[str, Row] = {}
    todo = row.memory.merged_from
    while todo:
        rows = reader.memories.rows(todo)
        found |= rows
        merged = dict.fromkeys(name for row in rows.values() for name in row.memory.merged_from)
        todo = tuple(name for name in merged if name not in found)
    return _text_keys(found.values())


def _text_keys(rows: Iterable[Row]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.text_key for row in rows))

"""The changes for a store that has no reader here, as JSON Lines: one line for each row."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from memory.interchange.foreign import ForeignRow, Reading
from memory.interchange.plan_back import Known, WriteBackPlan, plan_of, rewritten, seen_as
from memory.ledger import Ledger
from memory.models import Memory

_READING = Reading(user_key="user")
_NOT_METADATA = {"id", "external_id", "content", "metadata", "linked_ids", "merged_from"}
_OF_A_TURN = ({"conversation", "turn"}, {"conversation", "turn", "turns"})
"""The complete metadata of a memory that was extracted here, not imported."""


def plan_changes(
    ledger: Ledger, across: Collection[str] = (), rows: Mapping[str, str] | None = None
) -> WriteBackPlan:
    """Plan the changes of the imported rows, by the ids that the import gave.

    `rows` are the texts that the store holds now, by id; rows that are missing there or have
    another text are left out.
    """
    with ledger.reading() as reader:
        first = reader.decisions.first_states()
        arrived: dict[str, Memory] = {}
        for row in reader.memories.all():
            memory = first.get(row.memory.id, row.memory)
            if not row.forgotten and _is_imported(memory, rows):
                arrived[str(memory.external_id)] = memory
        alive = reader.memories.living_ids(memory.id for memory in arrived.values())
        living = reader.memories.rows(list(dict.fromkeys(alive.values())))
    known = [
        Known(row, memory, memory.id, living[alive[memory.id]].memory, seen_as(row, _READING))
        for row, memory in ((_as_row(name, one), one) for name, one in arrived.items())
        if memory.id in alive
    ]
    return plan_of(known, across)


def _is_imported(memory: Memory, rows: Mapping[str, str] | None) -> bool:
    if memory.external_id is None or memory.metadata.keys() in _OF_A_TURN:
        return False
    return rows is None or rows.get(memory.external_id) == memory.content


def _as_row(name: str, memory: Memory) -> ForeignRow:
    fields = memory.model_dump(mode="json", exclude_defaults=True, exclude=_NOT_METADATA)
    return ForeignRow(name, memory.content, {**memory.metadata, **fields})


def change_lines(plan: WriteBackPlan, now: datetime) -> list[str]:
    """Return a line for each row: an update with all its metadata, or a deletion and its reason."""
    lines = []
    for one in plan.updates:
        becomes = rewritten(one.row, one, _READING, now)
        metadata = one.row.metadata | becomes.metadata
        left = {name: value for name, value in metadata.items() if name not in becomes.gone}
        lines.append(_line({"update": one.row.id, "text": one.text, "metadata": left}))
    for gone in plan.deletions:
        lines.append(_line({"delete": gone.row.id, "because": f"{gone.kept.id} stands for it"}))
    return lines


def undo_lines(plan: WriteBackPlan) -> list[str]:
    """Return the lines that undo the changes; an update of a missing row adds it."""
    return [
        _line({"update": one.row.id, "text": one.said, "metadata": one.row.metadata})
        for one in plan.changes
    ]


def _line(change: dict[str, Any]) -> str:
    return json.dumps(change, ensure_ascii=False)

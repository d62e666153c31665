"""The changes of a dump: what is not changed is written back as it was read, to the letter."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory.interchange.jsonl import DumpedRow, read_rows
from memory.interchange.plan_back import change_lines, plan_changes, undo_lines
from memory.models import PERSON
from memory.store import MemoryStore
from tests.interchange.backs import MERGED, merge, replace, supersede

NOW = datetime(2026, 11, 1, tzinfo=UTC)
EAST = "2026-05-01T10:00:00+02:00"
ROWS: list[dict[str, Any]] = [
    {"id": 1, "content": "Mia sails.", "user": "mia", "timestamp": EAST},
    {"id": 2, "content": "  Mia sails on Sundays. ", "user": "mia", "timestamp": 1_777_622_400},
    {
        "id": "c", "content": "Mia paints.", "user": "mia", "timestamp": EAST, "tags": [],
        "is_private": False, "linked_ids": [], "n": 1e16, "deep": {"née": [None, 1.50]},
    },
    {
        "external_id": "d", "content": "Mia paints houses.", "user": "mia",
        "timestamp": 1_777_622_400.5, "updated_at": 1_777_622_400,
        "metadata": {"updatedAt": EAST, "half": "\ud83d"},
    },
    {"id": "e", "content": "Mia has a cat.", "user": "mia", "timestamp": EAST},
]  # fmt: skip


def dumped(folder: Path) -> dict[str, DumpedRow]:
    file = folder / "dump.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    rows = [row for row in read_rows(file) if isinstance(row, DumpedRow)]
    return {str(row.memory.external_id): row for row in rows}


def test_an_update_writes_the_text_and_its_time_and_a_deletion_the_id_as_it_was(
    store: MemoryStore, tmp_path: Path
) -> None:
    dump = dumped(tmp_path)
    store.add_batch([row.memory for row in dump.values()])
    known = {str(memory.external_id): memory for memory in store.memories()}
    replace(store, known["1"], known["2"])
    merge(store, known["c"], known["d"])
    plan = plan_changes(store.ledger, (), dump)
    update, *deletions = map(json.loads, change_lines(plan, dump, NOW))
    others = {name: ROWS[3][name] for name in ("user", "timestamp")}
    now = int(NOW.timestamp())
    assert update == {
        "update": "d", "text": MERGED,
        "metadata": others | {
            "updated_at": now, "metadata": {"updatedAt": NOW.isoformat(), "half": "\ud83d"},
        },
    }  # fmt: skip
    assert sorted(map(str, (one["delete"] for one in deletions))) == ["1", "c"]
    assert 1 in [one["delete"] for one in deletions], "a number stays a number"


def test_the_undo_of_a_dump_repeats_each_row_byte_for_byte(
    store: MemoryStore, tmp_path: Path
) -> None:
    dump = dumped(tmp_path)
    store.add_batch([row.memory for row in dump.values()])
    known = {str(memory.external_id): memory for memory in store.memories()}
    replace(store, known["1"], known["2"])
    replace(store, known["2"], known["e"])
    merge(store, known["c"], known["d"])
    plan = plan_changes(store.ledger, (), dump)
    undone = []
    for line in undo_lines(plan, dump):
        row = json.loads(line)
        name = "external_id" if row["update"] == "d" else "id"
        undone.append({name: row["update"], "content": row["text"], **row["metadata"]})
    whole = sorted(json.dumps(row, sort_keys=True) for row in ROWS[:4])
    assert sorted(json.dumps(row, sort_keys=True) for row in undone) == whole


@pytest.mark.parametrize("by", [PERSON, "some-model"])
def test_only_what_a_person_superseded_is_deleted_and_the_rest_is_marked(
    store: MemoryStore, tmp_path: Path, by: str
) -> None:
    dump = dumped(tmp_path)
    store.add_batch([row.memory for row in dump.values()])
    known = {str(memory.external_id): memory for memory in store.memories()}
    supersede(store, known["c"], known["e"], model=by)
    plan = plan_changes(store.ledger, (), dump)
    [line] = map(json.loads, change_lines(plan, dump, NOW))
    if by == PERSON:
        assert (line["delete"], line["because"]) == ("c", "e stands for it")
        return
    said = known["e"].said
    assert said is not None
    assert (line["update"], line["text"]) == ("c", "Mia paints.")
    assert line["metadata"]["superseded_by"] == "e"
    assert line["metadata"]["superseded_at"] == said.isoformat()

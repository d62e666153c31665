"""Somebody's collection brought in, cleaned here, written back to and taken back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from memory.interchange.collection import ExternalStore
from memory.interchange.foreign import Reading, as_memories
from memory.interchange.plan_back import WriteBackPlan, plan_write_back
from memory.interchange.write_back import (
    TakenBack,
    note_reading,
    own_work_in,
    read_undo_file,
    undo_write_back,
    with_vectors,
    write_back,
)
from memory.models import Action, Condition, Decision, Memory, Survivor, new_memory_id
from memory.store import MemoryStore, superseding
from tests.frameworks.word_server import word_vector

ROOT = Path(__file__).parent.parent.parent
WHEN = "2026-05-01T08:00:00+00:00"
NOW = datetime(2026, 11, 1, tzinfo=UTC)
TEXTS = {
    "a": "Mia sails.",
    "b": "Mia sails on Sundays.",
    "c": "Mia paints.",
    "d": "Mia paints houses.",
    "e": "Mia has a cat.",
}
MERGED = "Mia paints houses and pictures."
AS_IT_IS = Reading()


def word_vectors(texts: list[str]) -> list[list[float]]:
    return [word_vector(text) for text in texts]


def bring_in(
    store: MemoryStore, theirs: ExternalStore, reading: Reading = AS_IT_IS
) -> dict[str, Memory]:
    """By the name that each has there."""
    found = theirs.found()
    read = [one for one in as_memories(found.rows, "", reading) if isinstance(one, Memory)]
    store.add_batch(read)
    note_reading(store.ledger, found.collection_id, reading)
    return {str(memory.external_id): memory for memory in store.memories()}


def replace(store: MemoryStore, older: Memory, newer: Memory) -> None:
    survivor = Survivor(newer, (older.id,))
    store.apply(Decision(Action.REPLACE, "covers", (older, newer), (survivor,)))


def supersede(store: MemoryStore, older: Memory, newer: Memory, model: str) -> None:
    store.apply(superseding(older, newer, "it ended", model, Condition()))


def merge(store: MemoryStore, one: Memory, other: Memory, text: str = MERGED) -> None:
    made = other.model_copy(update={"id": new_memory_id(), "external_id": None, "content": text})
    survivor = Survivor(made, (one.id, other.id))
    store.apply(Decision(Action.MERGE, "the same", (one, other), (survivor,)))


def cleaned_of(
    store: MemoryStore,
    theirs: ExternalStore,
    ids: Mapping[str, str] | None = None,
    reading: Reading = AS_IT_IS,
) -> MemoryStore:
    """Of five rows, b stands for a, and c and d are merged; `ids` has their names in that store."""
    ids = ids or {key: key for key in TEXTS}
    known = bring_in(store, theirs, reading)
    replace(store, known[ids["a"]], known[ids["b"]])
    merge(store, known[ids["c"]], known[ids["d"]])
    return store


def planned(
    store: MemoryStore,
    theirs: ExternalStore,
    reading: Reading = AS_IT_IS,
    across: Sequence[str] = (),
) -> WriteBackPlan:
    return plan_write_back(theirs.found().rows, reading, store.ledger, across)


def carried_out(
    theirs: ExternalStore, plan: WriteBackPlan, undo: Path, reading: Reading = AS_IT_IS
) -> WriteBackPlan:
    rows = theirs.found().rows
    plan, made = with_vectors(theirs, plan, rows, reading, NOW, [word_vectors])
    return write_back(theirs, plan, reading, undo, NOW, made)


def written(
    store: MemoryStore, theirs: ExternalStore, undo: Path, reading: Reading = AS_IT_IS
) -> WriteBackPlan:
    plan = planned(store, theirs, reading)
    carried_out(theirs, plan, undo, reading)
    return plan


def run_again(
    store: MemoryStore, theirs: ExternalStore, undo: Path, reading: Reading = AS_IT_IS
) -> WriteBackPlan:
    """After a kill: what is left is done, and needs no undo file but the first one."""
    plan = planned_again(store, theirs, undo, reading)
    plan, made = with_vectors(theirs, plan, theirs.found().rows, reading, NOW, [word_vectors])
    second = undo.with_name("second.jsonl")
    begun = read_undo_file(undo)
    write_back(theirs, plan, reading, second, NOW, made, begun=begun)
    with theirs.writing(begun.header.collection_id, begun.header.sync_threshold):
        """Its settings are restored, and no row is changed."""
    assert not second.exists()
    assert planned_again(store, theirs, undo, reading).changes == ()
    return plan


def planned_again(
    store: MemoryStore, theirs: ExternalStore, undo: Path, reading: Reading = AS_IT_IS
) -> WriteBackPlan:
    found = theirs.found()
    own_work = own_work_in(theirs, [read_undo_file(undo)], found.collection_id)
    return plan_write_back(found.rows, reading, store.ledger, own_work=own_work)


def taken_back(theirs: ExternalStore, undo: Path) -> TakenBack:
    file = read_undo_file(undo)
    return undo_write_back(theirs, file.header, file.rows, lambda _done, _whole: None)


def killed(
    theirs: ExternalStore, data: Path, undo: Path, step: int, reading: Reading = AS_IT_IS
) -> int:
    """Its exit code: 9 where it has died at that step."""
    place = [theirs.kind, theirs.address, theirs.name, str(data), str(undo), str(step)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.interchange.killed_write_back", *place,
         reading.model_dump_json()],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    return done.returncode

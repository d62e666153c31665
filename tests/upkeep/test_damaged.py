"""Damaged ledgers end the doctor and an export in one clear line, never in a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.errors import LedgerError
from memory.ledger import Ledger
from memory.store import MemoryStore
from memory.upkeep.doctor import examine
from tests.conftest import MakeMemory
from tests.damage import damaged, whole_ledger
from tests.doubles import PlacedEmbedder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return whole_ledger(tmp_path_factory.mktemp("whole") / "ledger.db")


@pytest.mark.parametrize("seed", range(90))
def test_a_damaged_ledger_is_read_or_refused_in_one_line(
    whole: bytes, seed: int, tmp_path: Path
) -> None:
    file = tmp_path / "ledger.db"
    file.write_bytes(damaged(whole, seed))
    for look in (lambda store: list(store.memories()), examine):
        refused = ""
        try:
            with MemoryStore(Ledger.open(f"sqlite:///{file}"), PlacedEmbedder()) as store:
                look(store)
        except LedgerError as exc:
            refused = str(exc)
        assert "\n" not in refused


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("metadata", '{"number"'), ("tags", "boats"), ("merged_from", "7"),
        ("timestamp", "2026-01-01T00:00:00.=3"),
    ],
)  # fmt: skip
def test_a_value_that_was_never_written_names_its_row_and_what_to_do(
    store: MemoryStore, make_memory: MakeMemory, column: str, value: str
) -> None:
    kept = store.add(make_memory("Mia sails."))
    with store.ledger.database.writing() as connection:
        connection.exec_driver_sql(f"UPDATE memories SET {column} = ?", (value,))
    for look in (lambda: list(store.memories()), lambda: examine(store)):
        with pytest.raises(LedgerError, match=f"{kept.id}.*restore a backup"):
            look()

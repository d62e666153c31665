"""Every command ends in one clear line where the ledger is damaged, never in a traceback."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memory.cli.commands import app
from memory.errors import LedgerDamaged, MemoryPipelineError
from tests.damage import damaged, whole_ledger

COMMANDS = (
    "show ID", "export", "search boats", "stats", "audit", "audit --json", "history",
    "history --json", "history ID", "runs", "doctor", "backup out.db",
    "import new.jsonl", "retry", "dedup", "undo r1", "forget ID",
    "forget --user Mia --yes", "doctor --fix", "upgrade", "reembed", "calibrate --from-reviews",
    "apply report.json", "write-back new.jsonl --to-jsonl rows.jsonl --yes", "restore damaged.db",
)  # fmt: skip


CONFIG = """
memory:
  data_dir: data
  embedding:
    provider: tests.doubles:PlacedEmbedder
llm:
  provider: offline
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return whole_ledger(tmp_path_factory.mktemp("whole") / "ledger.db")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of a command, with a configuration and a dump to import."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text(CONFIG)
    row = '{"content": "Mia has 7 boats and a raft.", "user": "Mia", "timestamp": "2026-05-01"}\n'
    (tmp_path / "new.jsonl").write_text(row)
    (tmp_path / "report.json").write_text('{"decisions": 1}\n')
    return tmp_path


def an_id(whole: bytes, folder: Path) -> str:
    file = folder / "whole.db"
    file.write_bytes(whole)
    with closing(sqlite3.connect(file)) as ledger:
        [name] = ledger.execute("SELECT id FROM memories WHERE live LIMIT 1").fetchone()
    return str(name)


def ended(folder: Path, data: bytes, command: str, memory_id: str) -> BaseException | None:
    """What a command ended with on a ledger of these bytes."""
    shutil.rmtree(folder / "data", ignore_errors=True)
    (folder / "damaged.db").write_bytes(data)
    for name in ("out.db", "rows.jsonl"):
        (folder / name).unlink(missing_ok=True)
    (folder / "data").mkdir()
    if not command.startswith("restore"):  # which does not replace a ledger
        (folder / "data" / "ledger.db").write_bytes(data)
    arguments = [memory_id if one == "ID" else one for one in command.split()]
    done = CliRunner().invoke(app, ["--config", "config.yaml", *arguments])
    if isinstance(done.exception, MemoryPipelineError | SystemExit | None):
        return done.exception
    raise AssertionError(f"{command}: {done.exception!r}") from done.exception


@pytest.mark.drill
@pytest.mark.parametrize("seed", range(90))
def test_every_command_ends_in_one_line(whole: bytes, seed: int, folder: Path) -> None:
    name = an_id(whole, folder)
    data = damaged(whole, seed)
    for command in COMMANDS:
        refused = ended(folder, data, command, name)
        if isinstance(refused, MemoryPipelineError):
            assert "\n" not in str(refused)


@pytest.mark.parametrize(
    ("table", "column", "value", "command"),
    [
        ("decisions", "before", '{"rows": {"mem_1": {"id"', "history"),
        ("decisions", "before", '{"rows": {}}', "history --json"),
        ("decisions", "before", '{"rows": {"a": {"ix": 1}}, "links": []}', "undo r1"),
        ("decisions", "before", "7", "history"),
        ("decisions", "members", "boats", "runs"),
        ("decisions", "action", "nothing", "history ID"),
        ("decisions", "at", "yesterday", "show ID"),
        ("decisions", "survivors", '[{"id": 1}]', "undo r1"),
        ("turns", "turn", '{"speaker": "Mia"', "forget ID"),
        ("turns", "candidates", "{}", "forget --user Mia --yes"),
        ("turns", "turn", "{}", "forget ID"),
        ("memories", "metadata", '{"number"', "export"),
        ("memories", "metadata", '{"number"', "search boats"),
    ],
)
def test_a_damaged_row_is_named(
    whole: bytes, folder: Path, table: str, column: str, value: str, command: str
) -> None:
    name = an_id(whole, folder)
    file = folder / "torn.db"
    file.write_bytes(whole)
    with closing(sqlite3.connect(file)) as ledger:
        ledger.execute(f"UPDATE {table} SET {column} = ?", (value,))
        ledger.commit()
    refused = ended(folder, file.read_bytes(), command, name)
    assert isinstance(refused, LedgerDamaged)
    assert "row of" in str(refused)
    assert "restore a backup" in str(refused)

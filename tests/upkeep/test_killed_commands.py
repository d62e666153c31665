"""A backup and a restore that are killed lose nothing, and leave nothing that stays."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.damage import MEMORIES, whole_ledger
from tests.ledger import version_8

pytestmark = pytest.mark.drill
CONFIG = "memory:\n  data_dir: data\n  embedding:\n    provider: tests.doubles:PlacedEmbedder\n"
BESIDE = {"ledger.db-wal", "ledger.db-shm"}
"""What SQLite keeps beside a ledger."""


@pytest.fixture
def template(tmp_path: Path) -> Path:
    folder = tmp_path / "template"
    (folder / "data").mkdir(parents=True)
    (folder / "out").mkdir()
    (folder / "config.yaml").write_text(CONFIG)
    return folder


def killed(template: Path, step: int, *commands: str) -> list[dict[str, Any]]:
    """What was left by each kill of the first command, and by those that ran after it."""
    script = [sys.executable, "-m", "tests.upkeep.killed_commands", str(template), str(step)]
    run = subprocess.run(
        [*script, " -- ".join(commands)], stdout=subprocess.PIPE, text=True, check=True
    )
    found = [json.loads(line) for line in run.stdout.splitlines()]
    assert found[-1]["code"] == 0, "the last one survived"
    kills = found[:-1]
    assert len(kills) > 5
    for one in kills:
        for code, said in one["next"]:
            assert code in (0, 1), said
            assert "Traceback" not in said
    return kills


def kept_by(one: dict[str, Any]) -> set[str]:
    """The files that are there, without the index, which the doctor opens."""
    return {name for name in one["files"] if not name.startswith("data/chroma")}


def live_in(file: Path) -> int:
    with closing(sqlite3.connect(file)) as ledger:
        [number] = ledger.execute("SELECT count(*) FROM memories WHERE live").fetchone()
    return int(number)


@pytest.mark.parametrize(("target", "after"), [("out", "backup out/next.db"), ("data", "doctor")])
def test_a_killed_backup_leaves_nothing_once_another_command_has_run(
    template: Path, target: str, after: str
) -> None:
    """The next backup into a folder clears it, and the doctor the data folder."""
    whole_ledger(template / "data" / "ledger.db")
    whole = live_in(template / "data" / "ledger.db")
    assert whole > MEMORIES / 2
    files = {"config.yaml", "data/ledger.db", "out/next.db", f"{target}/copy.db"}
    files |= {f"data/{name}" for name in BESIDE}
    for one in killed(template, 5, f"backup {target}/copy.db", after):
        folder = Path(one["folder"])
        assert kept_by(one) <= files
        assert live_in(folder / "data" / "ledger.db") == whole
        copy = folder / target / "copy.db"
        assert not copy.exists() or live_in(copy) == whole


@pytest.mark.parametrize("before", ["nothing", "a damaged ledger"])
def test_a_killed_restore_is_run_again_and_leaves_nothing(template: Path, before: str) -> None:
    """The backup is of an earlier version: a copy of it is upgraded on the way."""
    shutil.copy(version_8.LEDGER, template / "out" / "old.db")
    if before != "nothing":
        (template / "data" / "ledger.db").write_bytes(b"no ledger at all" * 1_000)
    data = {"ledger.db", *BESIDE, "ledger.db.damaged-1"}
    files = {"config.yaml", "out/old.db", *(f"data/{name}" for name in data)}
    for one in killed(template, 5, "restore out/old.db", "doctor", "restore out/old.db"):
        folder = Path(one["folder"])
        assert kept_by(one) <= files
        assert (folder / "out" / "old.db").read_bytes() == version_8.LEDGER.read_bytes()
        assert live_in(folder / "data" / "ledger.db") == version_8.LIVE

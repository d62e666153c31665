"""An export names the row that keeps each memory, and the rows that it makes needless."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from memory.assembly import open_store
from memory.cli.commands import app
from memory.config import Config, MemoryConfig
from memory.models import Memory
from tests.interchange.backs import MERGED, TEXTS, WHEN, merge, replace

CONFIG = Config(memory=MemoryConfig(data_dir="data"))


def say(*command: str) -> str:
    return CliRunner().invoke(app, command, catch_exceptions=False).output


def exported() -> list[dict[str, Any]]:
    return [json.loads(line) for line in say("export").splitlines()]


def test_every_survivor_names_its_row_and_the_rows_that_it_replaces(tmp_path: Path) -> None:
    """`d` is newer than `c`; `b` stands for `a`; then all of them are one."""
    rows = [
        {"id": name, "content": text, "user": "Mia", "timestamp": WHEN.replace("08", f"{n:02}", 1)}
        for n, (name, text) in enumerate(TEXTS.items())
    ]
    with contextlib.chdir(tmp_path):
        Path("config.yaml").write_text("memory:\n  data_dir: data\n")
        Path("dump.jsonl").write_text("\n".join(map(json.dumps, rows)))
        say("import", "--raw", "dump.jsonl")
        assert [("replaces" in line, line["external_id"]) for line in exported()] == [
            (False, name) for name in TEXTS
        ]

        def by_text() -> dict[str, Memory]:
            with open_store(CONFIG) as store:
                return {memory.content: memory for memory in store.memories()}

        known = by_text()
        with open_store(CONFIG) as store:
            replace(store, known[TEXTS["a"]], known[TEXTS["b"]])
            merge(store, known[TEXTS["c"]], known[TEXTS["d"]])
        found = {line["content"]: line for line in exported()}
        shown = {text: (line["external_id"], line.get("replaces")) for text, line in found.items()}
        assert shown == {
            TEXTS["b"]: ("b", ["a"]), MERGED: ("d", ["c"]), TEXTS["e"]: ("e", None),
        }  # fmt: skip
        kept = {line["external_id"] for line in found.values()}
        gone = {name for line in found.values() for name in line.get("replaces", ())}
        assert (kept | gone, kept & gone) == (set(TEXTS), set())

        known = by_text()
        with open_store(CONFIG) as store:
            merge(store, known[MERGED], known[TEXTS["e"]], "Mia has a cat and paints houses.")
        [line] = [line for line in exported() if "cat" in line["content"]]
        assert (line["external_id"], line["replaces"]) == ("e", ["c", "d"])

        Path("out.jsonl").write_text(say("export"))
        Path("data").rename("before")
        say("import", "--raw", "out.jsonl")
        again = {line["content"]: line for line in exported()}
        assert again[line["content"]]["external_id"] == "e"
        assert not any("metadata" in line for line in again.values()), "replaces is none"
        known = by_text()
        with open_store(CONFIG) as store:
            store.forget(known[line["content"]].id)
        assert [line["external_id"] for line in exported()] == ["b"]


def test_a_backup_may_be_named_for_its_day(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        Path("config.yaml").write_text("memory:\n  data_dir: data\n")
        line = {"content": TEXTS["a"], "user": "Mia", "timestamp": WHEN}
        Path("dump.jsonl").write_text(json.dumps(line))
        say("import", "dump.jsonl")
        said = say("backup", "{date}.zip")
        [file] = tmp_path.glob("20??-??-??.zip")
        assert f"backed up 1 memory to {file.name}" in said

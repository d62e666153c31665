"""A decisions file: exactly what it says is done, the rest is refused line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from memory.cli import app
from memory.errors import InputError
from memory.ledger import Ledger
from memory.models import Memory
from memory.upkeep.answers import read_decisions
from memory.upkeep.cards import card_key, content_hash

TEXTS = (
    "Mia is running 12 km.",
    "Mia is regularly running 12 km.",
    "Mia has a cat.",
    "mia has a cat",
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text("memory: {data_dir: data}\n", encoding="utf-8")
    rows = [
        {"content": text, "user": "Mia", "timestamp": f"2026-01-0{n}T00:00:00Z"}
        for n, text in enumerate(TEXTS, start=1)
    ]
    file = tmp_path / "memories.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert run("import", str(file), "--raw").exit_code == 0
    return tmp_path


def run(*args: str) -> Result:
    return CliRunner().invoke(app, list(args))


def live(home: Path) -> list[Memory]:
    url = f"sqlite:///{home / 'data' / 'ledger.db'}"
    with Ledger.open(url) as ledger, ledger.reading() as reader:
        return [row.memory for row in reader.memories.live()]


def line(members: list[Memory], answer: str, **more: Any) -> dict[str, Any]:
    shown = [(one.id, content_hash(one.content)) for one in members]
    told = [{"id": name, "hash": text} for name, text in shown]
    return {"key": card_key(shown), "members": told, "answer": answer, **more}


def written(home: Path, *lines: object) -> str:
    file = home / "decisions.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    return str(file)


def test_it_does_exactly_what_it_says_and_twice_changes_nothing(home: Path) -> None:
    a, b, c, d = live(home)
    file = written(
        home,
        {"decisions": 1},
        line([a, b], "apply", left_out=[], text="Mia is regularly running 12 km."),
        line([c, d], "later"),
        line([c, d], "apply"),
    )
    done = run("apply", file)
    assert done.exit_code == 0, done.stderr
    assert "2 applied, 0 applied before, 0 refused" in done.stderr
    assert {one.content for one in live(home)} == {TEXTS[1], TEXTS[2]}
    before = (home / "data" / "ledger.db").read_bytes()
    again = run("apply", file)
    assert again.exit_code == 0
    assert again.stderr == "0 applied, 2 applied before, 0 refused\n"
    assert (home / "data" / "ledger.db").read_bytes() == before
    undone = run("undo", done.stderr.split("undo ")[1].split("`")[0])
    assert undone.exit_code == 0
    assert len(live(home)) == 4


def test_what_no_longer_fits_is_refused_by_line_and_the_rest_is_done(home: Path) -> None:
    a, b, c, d = live(home)
    moved = line([a, b], "keep_all")
    moved["members"][0]["hash"] = "0" * 16
    moved["key"] = card_key((one["id"], one["hash"]) for one in moved["members"])
    file = written(
        home,
        {"decisions": 1},
        moved,
        {**line([a, c], "apply"), "answer": "perhaps"},
        line([a, b], "apply", text="Mia is running 13 km."),
        line([c, d], "apply"),
    )
    done = run("apply", file)
    assert done.exit_code == 1
    assert f"refused: {file}:2: {a.id} has another text now" in done.stderr
    assert f"refused: {file}:3: answer" in done.stderr
    assert f"refused: {file}:4: " in done.stderr
    assert "1 applied, 0 applied before, 3 refused" in done.stderr
    assert {one.content for one in live(home)} == {*TEXTS[:3]}


def test_a_text_that_is_objected_to_is_applied_where_the_person_insists(home: Path) -> None:
    a, b, *_ = live(home)
    said = "Mia is running 13 km."
    refused = run("apply", written(home, {"decisions": 1}, line([a, b], "apply", text=said)))
    assert "13" in refused.stderr
    assert 'write "insist": true in this line' in refused.stderr
    insisting = line([a, b], "apply", text=said, insist=True)
    done = run("apply", written(home, {"decisions": 1}, insisting))
    assert done.exit_code == 0, done.stderr
    told = run("show", next(one.id for one in live(home) if one.content == said)).stdout
    assert "told by a person, who insists: " in " ".join(told.split())


def test_another_file_is_refused_whole(home: Path, tmp_path: Path) -> None:
    file = written(home, {"decisions": 2}, line(live(home)[:2], "keep_all"))
    with pytest.raises(InputError, match=r"line 1 is not \{"):
        read_decisions(Path(file))
    assert run("apply", str(tmp_path / "none.jsonl")).exit_code == 1
    empty = tmp_path / "empty.jsonl"
    empty.write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="is not a decisions file"):
        read_decisions(empty)

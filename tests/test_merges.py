"""The benchmark of merged texts counts what verification says of each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.merges import (
    Merge,
    as_json,
    main,
    measured,
    read,
    shown,
    tables,
    write_prompts,
)
from memory.coverage import Belief

MEMBERS = [
    {"content": "Mia has a cat.", "timestamp": "2026-01-01T00:00:00Z"},
    {"content": "Mia has a tabby cat.", "timestamp": "2026-01-02T00:00:00Z"},
]
ROWS = [
    {"text": "Mia has a tabby cat.", "faithful": True, "kind": ""},
    {"text": "Mia keeps a tabby cat.", "faithful": True, "kind": ""},
    {"text": "Mia has 2 tabby cats.", "faithful": False, "kind": "value"},
    {"text": "Mia has a tabby cat in Rome.", "faithful": False, "kind": "invented"},
]


@pytest.fixture
def merges() -> list[Merge]:
    return [measured(row | {"lang": "en", "members": MEMBERS}) for row in ROWS]


def test_each_answer_is_counted_by_group_kind_and_language(merges: list[Merge]) -> None:
    refused = {"believed": 0, "doubtful": 0, "refused": 1}
    found = as_json(merges)
    assert found["faithful"] == {"believed": 1, "doubtful": 1, "refused": 0}
    assert found["corrupted"] == {"believed": 0, "doubtful": 0, "refused": 2}
    assert found["by_kind"] == {"invented": refused, "value": refused}
    assert found["by_language"] == {"en": {"corrupted": found["corrupted"]} | {
        "faithful": found["faithful"]
    }}  # fmt: skip


def test_the_table_shows_shares_and_the_wrong_ones_are_shown(merges: list[Merge]) -> None:
    assert "| faithful | 2 | 1 (50.0%) | 1 (50.0%) | 0 (0.0%) |" in list(tables(merges))
    [told, *_] = shown(merges, Belief.DOUBTFUL)
    assert "Mia keeps" in told
    assert list(shown(merges, Belief.BELIEVED)) == []


def test_prompts_are_written_without_labels_and_answers_are_read_as_a_models(
    merges: list[Merge], tmp_path: Path
) -> None:
    write_prompts(merges, tmp_path)
    question = json.loads((tmp_path / "01.json").read_text(encoding="utf-8"))
    [merge] = question["merges"]
    assert merge["text"] == "Mia keeps a tabby cat."
    assert set(merge) == {"number", "of", "text", "under"}
    assert as_json(read(merges, tmp_path))["faithful"]["doubtful"] == 0  # nobody has answered yet
    answer = {"merges": [{"number": 1, "lost": [], "added": []}]}
    (tmp_path / "01.answer.json").write_text(json.dumps(answer), encoding="utf-8")
    assert as_json(read(merges, tmp_path))["faithful"] == {
        "believed": 2, "doubtful": 0, "refused": 0,
    }  # fmt: skip


def test_it_reads_json_lines(
    merges: list[Merge],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "merges.jsonl"
    rows = [row | {"lang": "en", "members": MEMBERS} for row in ROWS]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["merges", "--merges", str(file), "--json"])
    main()
    assert json.loads(capsys.readouterr().out) == as_json(merges)

"""The benchmark of merged texts counts what verification says of each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.merges import Merge, as_json, main, measured, shown, tables
from memory.text import Belief

MEMBERS = [{"content": "Mia has a cat."}, {"content": "Mia has a tabby cat called Pip."}]
ROWS = [
    {"text": "Mia has a tabby cat called Pip.", "faithful": True, "kind": ""},
    {"text": "Mia has a tabby cat named Pip.", "faithful": True, "kind": ""},
    {"text": "Mia has two tabby cats called Pip.", "faithful": False, "kind": "value"},
    {"text": "Mia has a tabby cat called Pip in Rome.", "faithful": False, "kind": "invented"},
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
    [_, *_, reason] = shown(merges, Belief.DOUBTFUL)
    assert "'named'" in reason
    assert list(shown(merges, Belief.BELIEVED)) == []


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

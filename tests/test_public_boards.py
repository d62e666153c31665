"""The rows of public boards, on tiny cases of our own in the boards' formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from yardstick.public import main

STATEBENCH: dict[str, Any] = {
    "facts": [
        {"n": 0, "text": "Mia lives in Porto.", "supersedes": None},
        {"n": 1, "text": "Mia now lives in Faro.", "supersedes": 0},
        {"n": 2, "text": "Mia rows on Sundays.", "supersedes": None},
    ],
    "queries": [
        {"prompt": "Where does Mia live?", "must_mention": ["Faro"], "must_not_mention": ["Porto"]}
    ],
}
FORGETEVAL: dict[str, Any] = {
    "family": "amnesia",
    "operations": [
        {"op": "inscribe", "text": "Mia's e-mail address is mia@example.org."},
        {"op": "inscribe", "text": "The office has a new printer."},
        {"op": "purge", "query": "mia@example.org"},
        {"op": "query", "text": "What is Mia's e-mail address?"},
    ],
    "must_contain": [],
    "must_not_contain": ["mia@example.org"],
    "k": 5,
}
WRONG_TARGET: dict[str, Any] = {  # the best hit is replaced, although it is about something else
    "family": "supersession",
    "operations": [
        {"op": "inscribe", "text": "The office has a new printer."},
        {"op": "supersede", "old_query": "Mia's home", "new": "Mia lives in Faro."},
        {"op": "query", "text": "Where does Mia live?"},
    ],
    "must_contain": ["Faro"],
    "must_not_contain": ["Porto"],
    "k": 5,
}
KNOWLEDGEDRIFT: dict[str, Any] = {
    "ops": [
        {"op": "inscribe", "record": {"key": "a", "title": "cap is 3", "created_at": 1e9}},
        {"op": "inscribe", "record": {"key": "b", "title": "rows are blue", "created_at": 1e9}},
        {"op": "supersede", "old": "a", "new": {"key": "c", "title": "cap is 5"}},
        {"op": "purge", "key": "b"},
        {"op": "recall", "id": "1", "query": "cap", "k": 5},
        {"op": "recall", "id": "2", "query": "blue rows", "k": 5},
    ],
    "probes": [
        {"id": "1", "family": "currency", "expect": "current", "retired": ["a"], "answer": "5"},
        {"id": "2", "family": "deletion", "expect": "absent", "victim": "b"},
    ],
}
BEAM: dict[str, Any] = {
    "question": "When is the deadline?",
    "old_turns": [{"id": 1, "text": "The deadline is on 3 May."}],
    "new_turns": [{"id": 5, "text": "The deadline is on 9 May now."}],
    "other_user_turns": [{"id": 3, "text": "I like my new desk."}],
}


@pytest.mark.parametrize(
    ("cases", "rows"),
    [
        ([STATEBENCH], ["| superseded facts still live | 1/1", "| innocent victims | 0/2"]),
        ([FORGETEVAL], ["| passes | 1/1", "LangMem 995", "| innocent victims | 0/1"]),
        ([WRONG_TARGET], ["| passes: supersession | 1/1", "| innocent victims | 1/1"]),
        ([KNOWLEDGEDRIFT], ["| currency | 1/1", "| deletion | 1/1", "| innocent victims | 0/1"]),
        ([BEAM], ["| new statement in the first 5 | 1/1", "| innocent victims | 0/2"]),
    ],
)
def test_a_board_s_rows_stand_beside_the_published_ones(
    cases: list[dict[str, Any]], rows: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "board.jsonl"
    file.write_text("\n".join(map(json.dumps, cases)), encoding="utf-8")
    main([str(file)])
    printed = capsys.readouterr().out
    assert not [row for row in rows if row not in printed], printed


@pytest.mark.parametrize("text", ["not JSON", '{"other": 1}', "[]", "3"])
def test_a_file_of_no_board_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit, match=r"^error: .* cannot be used"):
        main([str(file)])

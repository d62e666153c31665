"""The fuzzer sees the exceptions that the boundary hides, and says which covers look wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import fuzz
from benchmarks.fuzz import pairs_of, run, suspicions, texts_in

TEXTS = [f"Mia met {name} in {town}." for name in ("Leo", "Ana") for town in ("Rome", "Porto")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"id": "m1", "members": [{"content": text}]} for text in TEXTS[:2]]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (tmp_path / "b.json").write_text(json.dumps({"deep": [TEXTS[2]], "n": 1}), encoding="utf-8")
    (tmp_path / "c.txt").write_text(f"{TEXTS[3]}\n\n猫が好き\n", encoding="utf-8")
    return tmp_path


def test_texts_are_found_in_every_kind_of_file(folder: Path) -> None:
    assert texts_in(folder) == sorted([*TEXTS, "猫が好き"])


def test_each_pair_comes_in_both_directions_and_the_seed_repeats_the_draw() -> None:
    pairs = pairs_of(TEXTS, 6, seed=1)
    assert len(pairs) == 6
    assert {(b, a) for a, b in pairs} == set(pairs)
    assert pairs_of(TEXTS, 6, seed=1) == pairs


@pytest.mark.parametrize(
    ("a", "b", "found"),
    [
        ("Mia has 2 cats.", "Mia has cats.", [("digit", "adds")]),
        ("Mia has cats.", "Mia has 2 cats.", [("digit", "lacks")]),
        ("Mia gets an A+.", "Mia gets an A.", [("sign", "adds")]),
        ("Mia has an iphone.", "Mia has an iPhone.", [("inner capital", "lacks")]),
        ("Mia doesn't sing.", "Mia sings.", [("negation", "adds")]),
        ("Mia sang yesterday.", "Mia sang on Monday.", [("time word", "lacks")]),
        ("Mia sings in a choir.", "Mia sings.", []),
    ],
)
def test_what_makes_a_cover_suspicious(a: str, b: str, found: list[tuple[str, str]]) -> None:
    assert list(suspicions(a, b)) == found


def test_an_exception_is_seen_and_counted_with_its_texts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fuzz", str(folder), "--pairs", "8"])
    assert fuzz.main() == 0
    assert "5 texts, 8 pairs" in capsys.readouterr().out

    def failing(_a: str, _b: str) -> tuple[str, ...]:
        raise IndexError

    monkeypatch.setattr(sys.modules["memory.coverage.covers"], "written_otherwise", failing)
    assert fuzz.main() == 1
    out = capsys.readouterr().out
    assert "IndexError at test_fuzz.py:" in out
    assert TEXTS[0] in out


def test_a_run_ends_when_its_time_is_over() -> None:
    assert run(TEXTS, pairs_of(TEXTS, 6, seed=1), seconds=0.0).pairs == 0

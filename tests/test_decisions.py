"""The benchmark of decisions, on pairs of our own: what it counts, and what it prints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.decisions import Pair, figures, measure
from memory.models import Rules
from memory.providers import WordLlamaEmbedder

ROOT = Path(__file__).parent.parent
PAIRS = ROOT / "examples" / "pairs.jsonl"
FIGURES = {
    "at_upper", "automatic", "false", "false_rate", "interval", "duplicates_at_upper",
    "duplicates_automatic", "kept_share",
}  # fmt: skip


def pair(label: str, *, guarded: bool, at_upper: bool = True) -> Pair:
    return Pair(label, "own", "en", "", at_upper=at_upper, guarded=guarded, plain=True)


def test_false_are_the_replaced_pairs_that_are_no_duplicates() -> None:
    pairs = [
        pair("duplicate", guarded=True),
        pair("duplicate", guarded=False),
        pair("changed", guarded=True),
        pair("contradiction", guarded=False),
        pair("ambiguous", guarded=True),
        pair("duplicate", guarded=True, at_upper=False),
    ]
    found = figures(pairs, lambda one: one.guarded)
    assert (found["at_upper"], found["automatic"], found["false"]) == (5, 3, 1)
    assert found["false_rate"] == 0.5, "of the labelled ones"
    assert (found["duplicates_automatic"], found["kept_share"]) == (1, 0.5)


def test_on_our_own_pairs_the_guard_is_never_wrong_and_plain_thresholds_are() -> None:
    rows = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    result = measure(rows, WordLlamaEmbedder(), Rules(upper=0.8, lower=0.7)).as_json()
    assert result["guard"]["false"] == 0
    assert result["guard"]["kept_share"] == 1.0
    assert result["guard"]["automatic"] > 10
    assert result["plain"]["false_rate"] > 0.5
    assert result["plain"]["kept_share"] == 1.0


@pytest.mark.parametrize("as_json", [True, False])
def test_the_command_prints_one_object_or_tables(as_json: bool) -> None:
    command = [sys.executable, "-m", "benchmarks.decisions", "--pairs", str(PAIRS)]
    command += ["--embedder", "wordllama", *(["--json"] if as_json else [])]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    if not as_json:
        assert "| all |" in run.stdout
        assert "| ja |" in run.stdout
        return
    result = json.loads(run.stdout)
    assert set(result) == {"embedder", "upper", "lower", "guard", "plain", "microseconds_per_pair"}
    assert set(result["guard"]) == set(result["plain"]) == FIGURES | {"by_source"}
    assert set(result["guard"]["by_source"]["own"]) == FIGURES

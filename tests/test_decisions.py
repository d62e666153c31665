"""The rules on labelled pairs of our own: none of their decisions is false."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.decisions import measure
from memory.models import Rules
from memory.providers import WordLlamaEmbedder

ROOT = Path(__file__).parent.parent
PAIRS = ROOT / "examples" / "pairs.jsonl"


def test_on_our_own_pairs_the_guard_is_never_wrong_and_plain_thresholds_are() -> None:
    rows = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    rules = Rules(upper=0.8, lower=0.7)
    result = measure(rows, WordLlamaEmbedder(), rules, ["guard", "offline", "plain"]).as_json()
    assert result["guard"]["false"] == result["offline"]["false"] == 0
    assert result["guard"]["kept_share"] > 0.8
    assert result["guard"]["let_go"] > 10
    assert result["plain"]["false_rate"] > 0.5
    assert result["plain"]["kept_share"] == 1.0

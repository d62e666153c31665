"""The benchmark of decisions, on pairs of our own: what it counts, and what it prints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.decisions import Pair, entailments, figures, measure
from memory.models import Rules
from memory.providers import WordLlamaEmbedder

ROOT = Path(__file__).parent.parent
PAIRS = ROOT / "examples" / "pairs.jsonl"
RULES = Rules()
FIGURES = {
    "pairs", "let_go", "false", "false_rate", "interval", "right", "same", "same_kept",
    "kept_share",
}  # fmt: skip
GROUPS = {"by_source", "by_language", "by_kind"}


def pair(a: bool | None, b: bool | None, kept: str, similarity: float = 0.97) -> Pair:
    return Pair("own", "en", "", similarity, {"a": a, "b": b}, {"guard": frozenset(kept)})


def test_false_is_what_was_let_go_though_what_stays_does_not_entail_it() -> None:
    pairs = [
        pair(True, True, "b"),
        pair(True, True, ""),
        pair(True, False, "a"),
        pair(True, False, "ab"),
        pair(False, None, "b"),
        pair(True, True, "ab", similarity=0.94),
    ]
    found = figures(pairs, "guard", RULES)
    assert (found["pairs"], found["let_go"], found["false"], found["right"]) == (5, 5, 1, 3)
    assert found["false_rate"] == 0.25, "of the labelled ones"
    assert (found["same"], found["same_kept"], found["kept_share"]) == (2, 1, 0.5)


@pytest.mark.parametrize(
    ("label", "entails"), [("duplicate", True), ("ambiguous", None), ("changed", False)]
)
def test_a_label_without_a_direction_counts_for_both(label: str, entails: bool | None) -> None:
    assert entailments({"label": label}) == {"a": entails, "b": entails}


def test_a_pair_with_directions_is_decided_in_both_orders_of_time() -> None:
    row = {"a": "Mia has a cat.", "b": "Mia really has a cat.", "a_entails_b": True}
    same = measure([row | {"b_entails_a": True}], None, RULES, ["guard"])
    assert same.pairs[0].kept == {"guard": {"a", "b"}}
    one_way = {"a": "Mia has a tabby cat.", "b": "Mia has a cat.", "a_entails_b": True}
    wider = measure([one_way | {"b_entails_a": False}], None, RULES, ["guard"])
    assert wider.pairs[0].kept == {"guard": {"a"}}


def test_what_the_offline_judge_lets_go_is_counted_from_the_lower_threshold_on() -> None:
    rows = [{"a": "Mia has a cat.", "b": "Mia has a cat!", "label": "duplicate"}]
    result = measure(rows, None, RULES, ["guard", "offline"]).as_json()
    assert result["offline"]["right"] == result["guard"]["right"] == 1
    between = [pair(True, True, "", similarity=0.93)]
    judged = [Pair("own", "en", "", 0.93, {"a": True, "b": True}, {"offline": frozenset("b")})]
    assert figures(between, "guard", RULES)["pairs"] == 0
    assert figures(judged, "offline", RULES)["right"] == 1


def test_on_our_own_pairs_the_guard_is_never_wrong_and_plain_thresholds_are() -> None:
    rows = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    rules = Rules(upper=0.8, lower=0.7)
    result = measure(rows, WordLlamaEmbedder(), rules, ["guard", "offline", "plain"]).as_json()
    assert result["guard"]["false"] == result["offline"]["false"] == 0
    assert result["guard"]["kept_share"] > 0.8
    assert result["guard"]["let_go"] > 10
    assert result["plain"]["false_rate"] > 0.5
    assert result["plain"]["kept_share"] == 1.0


def decisions(*arguments: str) -> str:
    command = [sys.executable, "-m", "benchmarks.decisions", "--pairs", str(PAIRS), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_the_command_prints_tables() -> None:
    printed = decisions("--coverage-alone")
    assert "| all |" in printed
    assert "| ja |" in printed


def test_the_command_prints_one_object() -> None:
    result = json.loads(decisions("--embedder", "wordllama", "--offline", "--json"))
    policies = {"guard", "offline", "plain"}
    assert set(result) == {"embedder", "upper", "lower", "microseconds_per_pair"} | policies
    for policy in policies:
        assert set(result[policy]) == FIGURES | GROUPS
        assert set(result[policy]["by_source"]["own"]) == FIGURES

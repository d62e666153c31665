"""The ablation benchmark says what a rule earns, and leaves the rules as they were."""

from __future__ import annotations

from benchmarks.ablation import measure
from memory.coverage import covers

PAIRS = [
    {"a": "Mia is with Leo.", "b": "Leo is with Mia.", "a_entails_b": False, "b_entails_a": False},
    {"a": "Mia has a tabby cat.", "b": "Mia has a cat.", "a_entails_b": True, "b_entails_a": False},
]


def test_a_rule_earns_the_false_claims_that_it_prevents() -> None:
    rows = {row["rule"]: row for row in measure({"pairs": PAIRS}, ["order.moved"])}
    assert rows["order.moved"]["pairs false"] == 2
    assert rows["order.moved"]["pairs kept"] == 0
    assert rows["order.moved"]["statements"] > 10
    assert not covers("Mia is with Leo.", "Leo is with Mia.")

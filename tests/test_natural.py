"""The benchmark of natural memories counts what is asked, found and lost, whatever the way in."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.natural import WAYS, crowd, natural

TEXTS = [
    "Mia is looking for a studio for her pottery.",
    "Mia is still looking for a studio for her pottery.",
    "Mia's studio for pottery should be near the harbour.",
    "Mia repaired the brakes of her bicycle.",
]
MEMORIES: list[dict[str, Any]] = [
    {"user": "Mia", "content": text, "timestamp": f"2026-05-0{day}T08:00:00Z"}
    for day, text in enumerate(TEXTS, start=1)
]


def pair(a: int, b: int, label: str) -> dict[str, Any]:
    return {"user": "Mia", "a": TEXTS[a], "b": TEXTS[b], "label": label}


@pytest.mark.parametrize("how", WAYS)
def test_pairs_labelled_the_same_are_found_and_nothing_is_lost(how: str) -> None:
    found = natural(MEMORIES, [pair(0, 1, "same"), pair(0, 3, "apart")], how)
    assert (found.same_found, found.apart_joined, found.facts_lost) == (1.0, 0, 0)
    assert found.live < len(TEXTS)
    assert found.calls_of_a_second_batch == 0


@pytest.mark.parametrize("how", WAYS)
def test_one_language_in_one_store_counts_what_the_offline_judge_is_asked(how: str) -> None:
    rows = [
        {
            "a": "美咲は猫を飼っている。",
            "b": "美咲は猫を飼っている",
            "lang": "ja",
            "label": "duplicate",
        },
        {"a": "健太は大阪に住む。", "b": "健太は京都に住む。", "lang": "ja", "label": "changed"},
        {"a": "Mia has a cat.", "b": "Mia has a dog.", "lang": "en", "label": "changed"},
    ]
    found = crowd(rows, "ja", how)
    assert (found.sentences, found.facts, found.live, found.apart_joined) == (3, 3, 3, 0)

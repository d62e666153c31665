"""A new memory and a consolidation stay cheap: few hops between threads, few transactions."""

from __future__ import annotations

import pytest

from benchmarks.hops import files_of, functions_of, measure


def test_a_new_memory_costs_two_looks_and_one_write() -> None:
    cost = measure(["one new memory"])["one new memory"]
    assert cost.hops <= 3
    assert cost.transactions <= 4


def test_a_consolidation_reads_one_state_and_writes_once() -> None:
    cost = measure(["consolidate 32"])["consolidate 32"]
    assert cost.hops <= 6
    assert cost.transactions <= 4


def test_a_call_without_turns_writes_nothing() -> None:
    assert measure(["a call without turns"])["a call without turns"].writes == 0


@pytest.mark.parametrize(
    ("case", "functions", "files"),
    [("added", 92, 23), ("replaced", 135, 26), ("asked", 135, 27)],
)
def test_a_new_memory_can_be_followed_through_the_code(
    case: str, functions: int, files: int
) -> None:
    entered = functions_of(case)
    assert len(entered) <= functions
    assert files_of(entered) <= files

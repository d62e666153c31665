"""The words of the answers."""

from __future__ import annotations

from datetime import timedelta
from itertools import product

import pytest

from memory.agent import tools
from tests.doubles import START


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (-5, "just now"),
        (59, "just now"),
        (60, "1m ago"),
        (5 * 60 + 59, "5m ago"),
        (2 * 3_600, "2h ago"),
        (86_399, "23h ago"),
        (3 * 86_400, "3d ago"),
        (14 * 86_400, "2w ago"),
        (29 * 86_400, "4w ago"),
        (120 * 86_400, "4mo ago"),
        (364 * 86_400, "12mo ago"),
        (365 * 86_400, "1y ago"),
    ],
)
def test_an_age_is_told_in_its_largest_unit(seconds: int, told: str) -> None:
    assert tools.relative_time(START, START + timedelta(seconds=seconds)) == told


def test_data_and_scaffold_are_joined_by_a_line() -> None:
    assert tools.compose_response("data", "scaffold") == "data\n\n---\nscaffold"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("It is at 192.168.7.1.", "It is at 192.168.9.1.", "192.168.7.1 -> 192.168.9.1"),
        ("Mia has a cat.", "Mia has a black cat.", "adds black"),
        ("Mia has a black cat.", "Mia has a cat.", "leaves out black"),
        ("Mia has a cat.", "mia has a cat", ""),
    ],
)
def test_a_difference_goes_from_the_old_to_the_new(old: str, new: str, told: str) -> None:
    assert tools.difference(old, new) == told


def test_a_negation_is_a_difference() -> None:
    told = tools.difference("Mia likes tea.", "Mia does not like tea.")
    assert told == "likes -> does not like"


def test_a_long_difference_is_cut_on_each_side() -> None:
    old, new = (" ".join(map("".join, product(ends, "aeiou", "lmnrt"))) for ends in ("bdk", "ptv"))
    before, _, after = tools.difference(old, new).partition(" -> ")
    assert before.startswith("bal bam")
    assert [len(side) <= 123 and side.endswith("...") for side in (before, after)] == [True, True]

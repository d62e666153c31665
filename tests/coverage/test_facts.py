"""Values that conflict: what one text states in place of what another one states."""

from __future__ import annotations

import pytest

from memory.coverage.verification import conflicting_values


@pytest.mark.parametrize(
    ("old", "new", "values"),
    [
        ("The rent is 1200 euros.", "The rent is 1300 euros.", ("1200", "1300")),
        (
            "It answers at 192.168.7.1.",
            "It answers at 192.168.9.1.",
            ("192.168.7.1", "192.168.9.1"),
        ),
        ("Mia's sister is Anna.", "Mia's sister is Emma.", ("Anna", "Emma")),
        ("The lesson is on Monday.", "The lesson is on Tuesday.", ("Monday", "Tuesday")),
        ("Mia has two cats.", "Mia has three cats.", ("two", "three")),
        ("Mia was born on 4 May 1990.", "Mia was born on May 5, 1990.", ("4", "5")),
        ("田中さんの誕生日は5月4日です", "田中さんの誕生日は5月5日です", ("4", "5")),
        ("The code is A1b.", "The code is A1B.", ("A1b", "A1B")),
    ],
)
def test_values_that_conflict_are_named(old: str, new: str, values: tuple[str, str]) -> None:
    assert conflicting_values(old, new) == values


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The rent is 1,200 euros.", "The rent is €1200."),
        ("Mia runs 12 km.", "Mia runs twelve kilometres."),
        ("Mia has a cat.", "Mia has a cat named Pepper."),
        ("Mia likes her tea without sugar.", "Mia likes tea without any sugar."),
        ("Mia likes tea.", "Mia does not like tea."),
        ("Mia moved to Porto in 2021.", "In 2021 Mia moved to Porto."),
    ],
)
def test_the_same_values_and_added_ones_do_not_conflict(old: str, new: str) -> None:
    assert conflicting_values(old, new) is None

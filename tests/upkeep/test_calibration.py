"""Calibration: what is drawn, what is counted, what is suggested."""

from __future__ import annotations

from itertools import pairwise

import pytest

from memory.upkeep.calibration import EDGES, AlikePair, Band, Counted, sample, suggest, tally
from tests.conftest import Tell


def band(low: float, high: float, pairs: int, asked: int, duplicates: int) -> Band:
    counted = Counted(asked, duplicates)
    return Band(low, high, pairs, pairs, counted, counted)


def bands(*said: tuple[int, int]) -> list[Band]:
    """Bands of 10 pairs each from the lowest on, with (asked, duplicates)."""
    return [
        band(low, high, 10, *one) for (low, high), one in zip(pairwise(EDGES), said, strict=True)
    ]


def pairs(tell: Tell, *similarities: float) -> list[AlikePair]:
    return [
        AlikePair(tell(f"Mia has {n} cats."), tell(f"Mia has {n} cats and a dog."), similarity)
        for n, similarity in enumerate(similarities)
    ]


def test_each_band_is_drawn_from_and_the_same_pairs_every_time(tell: Tell) -> None:
    made = pairs(tell, *(0.80 + 0.002 * n for n in range(100)))
    drawn = sample(made, 3)
    assert sample(reversed(made), 3) == drawn
    counts = [
        counted.asked for counted in (b.every for b in tally(made, {p.key: True for p in drawn}))
    ]
    assert all(count == min(3, b.pairs) for count, b in zip(counts, tally(made, {}), strict=True))


def test_a_band_begins_at_its_own_edge(tell: Tell) -> None:
    made = pairs(tell, 0.95, 0.949999, 1.0, 0.799999)
    counted = {(b.low, b.high): b.pairs for b in tally(made, {})}
    assert counted[0.95, 0.97] == counted[0.925, 0.95] == counted[0.99, 1.0] == 1
    assert sum(counted.values()) == 3


def test_answers_are_counted_for_all_and_for_those_that_are_covered(tell: Tell) -> None:
    [covered] = pairs(tell, 0.96)
    differs = AlikePair(tell("Mia has 2 cats."), tell("Mia has 3 cats."), 0.96)
    said = {covered.key: True, differs.key: False}
    [found] = [b for b in tally([covered, differs], said) if b.pairs]
    assert (found.every, found.covered) == (Counted(2, 1), Counted(1, 1))
    assert found.every.interval[0] < 0.5 < found.every.interval[1]


def test_a_key_does_not_depend_on_the_order_and_holds_no_text(tell: Tell) -> None:
    a, b = tell("Mia has a cat."), tell("Mia has a dog.")
    assert AlikePair(a, b, 0.9).key == AlikePair(b, a, 0.9).key
    assert "Mia" not in AlikePair(a, b, 0.9).key


@pytest.mark.parametrize(
    ("said", "wanted", "upper", "lower"),
    [
        # precise from 0.95 on, worth asking from 0.90 on
        ([(9, 0), (9, 1), (9, 4), (9, 6), (9, 9), (9, 9), (9, 9), (9, 9)], 0.99, 0.95, 0.90),
        # a band below what is wanted is carried by better ones above it
        ([(9, 0), (9, 0), (9, 0), (9, 0), (9, 8), (9, 9), (9, 9), (9, 9)], 0.95, 0.95, 0.95),
        # not even the most similar are precise enough
        ([(9, 9), (9, 9), (9, 9), (9, 9), (9, 9), (9, 9), (9, 9), (9, 5)], 0.95, 1.0, 0.80),
        # nobody was asked: nothing is known
        ([(0, 0)] * 8, 0.95, 1.0, 1.0),
        # an unknown band ends the walk
        ([(9, 9), (9, 9), (9, 9), (9, 9), (0, 0), (9, 9), (9, 9), (9, 9)], 0.95, 0.97, 0.97),
    ],
)
@pytest.mark.parametrize("guard", [True, False])
def test_thresholds_are_the_lowest_that_keep_what_is_wanted(
    said: list[tuple[int, int]], wanted: float, upper: float, lower: float, guard: bool
) -> None:
    found = suggest(bands(*said), wanted, guard=guard)
    assert (found.upper, found.lower) == (upper, lower)
    assert found.precision is None or found.precision >= wanted


def test_a_band_counts_as_often_as_it_has_pairs() -> None:
    """Nine of ten small bands do not carry a large one that is wrong half of the time."""
    top = [band(0.99, 1.0, 1_000, 10, 5), band(0.98, 0.99, 1, 10, 10)]
    assert suggest(sorted(top, key=lambda b: b.low), 0.7, guard=False).upper == 1.0


def test_with_the_guard_only_what_is_covered_counts() -> None:
    covered = Counted(10, 10)
    only = Band(0.95, 1.0, 100, 20, Counted(50, 12), covered)
    assert suggest([only], 0.95, guard=True).upper == 0.95
    assert suggest([only], 0.95, guard=True).counted == covered
    assert suggest([only], 0.95, guard=False).upper == 1.0

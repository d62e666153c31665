"""Wilson's interval, against values worked out elsewhere and against counting."""

from __future__ import annotations

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yardstick.score import wilson


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (5, 10, 0.2366, 0.7634),
        (81, 263, 0.2553, 0.3662),
    ],
)
def test_it_gives_the_published_values(hits: int, of: int, low: float, high: float) -> None:
    """81 of 263 is Newcombe's example (1998)."""
    assert wilson(hits, of) == pytest.approx((low, high), abs=5e-5)


def test_of_nothing_nothing_is_known() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


@given(st.integers(1, 200).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
def test_the_share_lies_inside_and_both_sides_mirror(drawn: tuple[int, int]) -> None:
    hits, of = drawn
    low, high = wilson(hits, of)
    assert 0.0 <= low <= hits / of <= high <= 1.0
    other_low, other_high = wilson(of - hits, of)
    assert (1 - other_high, 1 - other_low) == pytest.approx((low, high))


def test_about_19_of_20_intervals_hold_the_truth() -> None:
    """Counted exactly, over what 40 draws at a true share of 0.1 can give."""
    share, of = 0.1, 40
    held = sum(
        comb(of, hits) * share**hits * (1 - share) ** (of - hits)
        for hits in range(of + 1)
        if wilson(hits, of)[0] <= share <= wilson(hits, of)[1]
    )
    assert 0.93 <= held <= 0.97

"""Pages of a scope: everybody is on one, what is near stands together, and they are few."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.decide.candidates import Pairs, candidate_pairs
from memory.decide.planning import (
    MOST_CHARACTERS,
    SURELY_MET,
    PageRules,
    pages,
)
from memory.models import MOST_ON_PAGE, NEIGHBOURS, Flags, Ints, Vectors


def vectors(seed: int, count: int) -> Vectors:
    """Clumps of some eight, so that most of what is near is in one clump."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((max(1, count // 8), 16))
    raw = centres[rng.integers(len(centres), size=count)] + 0.6 * rng.standard_normal((count, 16))
    unit: Vectors = (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)
    return unit


def graph(
    seed: int, count: int, size: int = 90, unread: int | None = None
) -> tuple[Ints, Pairs, Flags]:
    """The last `unread` are; by default all."""
    found = candidate_pairs(vectors(seed, count), np.inf, NEIGHBOURS, -1.0).nearest
    flags = np.arange(count) >= (0 if unread is None else count - unread)
    return np.full(count, size), found, flags


def met(found: list[list[int]]) -> set[tuple[int, int]]:
    return {(a, b) for page in found for a in page for b in page if a != b}


def nearest(seed: int, count: int, k: int) -> list[list[int]]:
    told = vectors(seed, count).astype(np.float64)
    cosines = told @ told.T
    np.fill_diagonal(cosines, -2.0)
    found: list[list[int]] = np.argsort(-cosines, axis=1, kind="stable")[:, :k].tolist()
    return found


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(2, 160), st.sampled_from([20, 90, 900, 9_000]))
def test_everybody_is_on_a_page_of_others_and_pages_keep_their_limits(
    seed: int, count: int, size: int
) -> None:
    found = pages(*graph(seed, count, size))
    assert {member for page in found for member in page} == set(range(count))
    for page in found:
        assert len(page) == len(set(page))
        assert 2 <= len(page) <= MOST_ON_PAGE
        assert len(page) == 2 or len(page) * size <= MOST_CHARACTERS + SURELY_MET * size
    assert found == pages(*graph(seed, count, size))


def test_one_pass_shows_most_of_what_is_near_at_few_pages() -> None:
    found = pages(*graph(7, 1_000))
    near = nearest(7, 1_000, 5)
    together = met(found)
    shown = [(a, b) in together for a, others in enumerate(near) for b in others]
    assert np.mean(shown) >= 0.9
    assert len(found) <= 40


def test_a_thorough_pass_shows_everybody_with_their_nearest_eight() -> None:
    together = met(pages(*graph(7, 1_000), PageRules(thorough=True)))
    near = nearest(7, 1_000, SURELY_MET)
    assert all((a, b) in together for a, others in enumerate(near) for b in others)


def test_a_new_memory_is_shown_with_its_nearest_eight_only() -> None:
    found = pages(*graph(7, 2_000, unread=100))
    together = met(found)
    near = nearest(7, 2_000, SURELY_MET)
    assert all((a, b) in together for a in range(1_900, 2_000) for b in near[a])
    assert len(found) <= 35


def test_nothing_new_is_no_page() -> None:
    assert pages(*graph(7, 100, unread=0)) == []
    assert pages(*graph(7, 1)) == []


def test_one_that_nobody_is_near_gets_company() -> None:
    nobody_near = candidate_pairs(vectors(1, 3), np.inf, 0, -1.0).nearest
    assert pages(np.full(3, 90), nobody_near, np.array([0, 0, 1], bool)) == [[2, 0]]

"""Neighbours and groups, each against an oracle that does it the slow way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.decide.candidates import TILE, Pairs, candidate_pairs
from memory.decide.likeness import cohesive, connected
from memory.models import Vectors, cosine_of


def clustered(seed: int, n: int, dim: int = 8) -> Vectors:
    """Unit vectors in a few clumps, so that every similarity occurs."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((max(1, n // 4), dim))
    raw = centres[rng.integers(len(centres), size=n)] + 0.3 * rng.standard_normal((n, dim))
    unit: Vectors = (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)
    return unit


def double_loop(vectors: Vectors, threshold: float) -> list[tuple[int, int, float]]:
    """The oracle: all similarities in float64, rounded, one threshold."""
    wide = vectors.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1)
    scores = np.round(wide @ wide.T / np.maximum(np.outer(lengths, lengths), 1e-30), 6)
    i, j = np.nonzero(np.triu(scores >= threshold, 1))
    return list(zip(i.tolist(), j.tolist(), scores[i, j].tolist(), strict=True))


def similar_pairs(vectors: Vectors, threshold: float, tile: int = TILE) -> Pairs:
    """Every pair at or above the threshold."""
    return candidate_pairs(vectors, threshold, 0, threshold, tile=tile).upper


def triples(pairs: Pairs) -> list[tuple[int, int, float]]:
    return list(zip(*(column.tolist() for column in pairs), strict=True))


tiles = st.sampled_from([TILE, 6, 12, 1])
"""Tiles of one row and tiles larger than all."""


@given(
    st.integers(0, 10_000),
    st.integers(0, 40),
    st.integers(1, 9),
    st.sampled_from([-0.5, 0.0, 0.5, 0.9, 0.95]),
    tiles,
)
def test_similar_pairs_are_those_of_a_double_loop(
    seed: int, n: int, dim: int, threshold: float, tile: int
) -> None:
    vectors = clustered(seed, n, dim)
    found = similar_pairs(vectors, threshold, tile)
    assert triples(found) == double_loop(vectors, threshold)


@given(st.integers(0, 10_000), st.lists(st.integers(0, 5), max_size=60), tiles)
def test_copies_rows_of_zeros_and_other_lengths_are_pairs_like_any(
    seed: int, chosen: list[int], tile: int
) -> None:
    vectors = clustered(seed, 6, 3) * np.array([[1], [0], [3], [1e-4], [1], [1]], np.float32)
    rows = vectors[chosen].reshape(len(chosen), 3)
    assert triples(similar_pairs(rows, 0.8, tile)) == double_loop(rows, 0.8)


@given(st.integers(0, 10_000), st.integers(0, 6))
def test_a_threshold_that_is_a_pairs_own_similarity_includes_it(seed: int, free: int) -> None:
    vectors = np.pad(clustered(seed, 150, max(free, 2)), ((0, 0), (0, 6)))
    scores = sorted({score for _, _, score in double_loop(vectors, 0.5)})
    for threshold in scores[:: max(1, len(scores) // 5)]:
        assert triples(similar_pairs(vectors, threshold)) == double_loop(vectors, threshold)


def test_similar_pairs_are_the_same_whatever_the_tile() -> None:
    vectors = clustered(7, 1_500)
    whole = similar_pairs(vectors, 0.9)
    tiled = similar_pairs(vectors, 0.9, 24)
    assert all(np.array_equal(a, b) for a, b in zip(whole, tiled, strict=True))
    assert len(whole.i) > 100


@pytest.mark.parametrize("cosine", [0.89, 0.90, 0.95, 0.98])
def test_a_pair_built_at_a_cosine_has_that_similarity(cosine: float) -> None:
    """In float32 most pairs built at 0.95 come out below it; float64, rounded, does not."""
    for angle in np.linspace(0, 3, 50):
        a = np.array([np.cos(angle), np.sin(angle)], dtype=np.float32)
        turned = angle + np.arccos(cosine)
        b = np.array([np.cos(turned), np.sin(turned)], dtype=np.float32)
        assert cosine_of(a, b) == cosine
        assert len(similar_pairs(np.stack([a, b]), cosine).i) == 1


edges_of = st.integers(1, 15).flatmap(
    lambda n: st.tuples(
        st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=25)
    )
)


@given(edges_of)
def test_connected_groups_are_what_walking_the_edges_reaches(
    graph: tuple[int, list[tuple[int, int]]],
) -> None:
    n, edges = graph
    reached = {node: {node} for node in range(n)}
    for _ in range(n):
        for a, b in edges:
            union = reached[a] | reached[b]
            reached.update(dict.fromkeys(union, union))
    expected = {frozenset(group) for group in reached.values()}
    assert {frozenset(group) for group in connected(n, edges)} == expected


def pairs_of(vectors: Vectors, floor: float) -> list[tuple[int, int, float]]:
    return triples(similar_pairs(vectors, floor))


def all_in(close: set[tuple[int, int]]) -> Callable[[Sequence[int], Sequence[int]], bool]:
    return lambda left, right: all((a, b) in close for a in left for b in right)


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(2, 30), st.randoms(use_true_random=False))
def test_no_cohesive_group_holds_a_pair_below_the_floor(seed: int, n: int, random: object) -> None:
    """And every member is in one group, and nobody is left out who fits a whole group."""
    vectors = clustered(seed, n)
    edges = pairs_of(vectors, 0.9)
    close = {(i, j) for i, j, _ in edges} | {(j, i) for i, j, _ in edges}
    groups = cohesive(range(n), edges, all_in(close))
    assert sorted(member for group in groups for member in group) == list(range(n))
    for group in groups:
        assert all(pair in close for pair in combinations(group, 2))
    for left, right in combinations(groups, 2):
        assert any((a, b) not in close for a in left for b in right)


def test_a_chain_whose_ends_are_unlike_is_split() -> None:
    angles = np.radians([0, 20, 40])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    edges = pairs_of(vectors, 0.9)
    assert [(i, j) for i, j, _ in edges] == [(0, 1), (1, 2)]
    close = {(0, 1), (1, 0), (1, 2), (2, 1)}
    groups = cohesive([0, 1, 2], edges, all_in(close))
    assert sorted(map(sorted, groups)) == [[0, 1], [2]]

"""Neighbours and groups, each against an oracle that does it the slow way."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.decide import cohesive, connected
from memory.index import pairs as neighbours
from memory.index.pairs import nearest, similar_pairs, similarity
from memory.models import Vectors


def clustered(seed: int, n: int, dim: int = 8) -> Vectors:
    """Unit vectors in a few clumps, so that every similarity occurs."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((max(1, n // 4), dim))
    raw = centres[rng.integers(len(centres), size=n)] + 0.3 * rng.standard_normal((n, dim))
    unit: Vectors = (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)
    return unit


def exact(a: Vectors, b: Vectors) -> float:
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    return round(float(wide_a @ wide_b / np.linalg.norm(wide_a) / np.linalg.norm(wide_b)), 6)


@given(st.integers(0, 10_000), st.integers(0, 40), st.sampled_from([0.5, 0.9, 0.95]))
def test_similar_pairs_are_those_of_a_double_loop(seed: int, n: int, threshold: float) -> None:
    vectors = clustered(seed, n)
    expected = [
        (i, j, score)
        for i, j in combinations(range(n), 2)
        if (score := exact(vectors[i], vectors[j])) >= threshold
    ]
    found = similar_pairs(vectors, threshold)
    assert list(zip(found.i, found.j, found.similarity, strict=True)) == expected


def test_similar_pairs_are_the_same_whatever_the_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = clustered(7, 200)
    whole = similar_pairs(vectors, 0.9)
    monkeypatch.setattr(neighbours, "_TILE", 17)
    tiled = similar_pairs(vectors, 0.9)
    assert all(np.array_equal(a, b) for a, b in zip(whole, tiled, strict=True))
    assert len(whole.i) > 100


@pytest.mark.parametrize("cosine", [0.89, 0.90, 0.95, 0.98])
def test_a_pair_built_at_a_cosine_has_that_similarity(cosine: float) -> None:
    """In float32 most pairs built at 0.95 come out below it; float64, rounded, does not."""
    for angle in np.linspace(0, 3, 50):
        a = np.array([np.cos(angle), np.sin(angle)], dtype=np.float32)
        turned = angle + np.arccos(cosine)
        b = np.array([np.cos(turned), np.sin(turned)], dtype=np.float32)
        assert similarity(a, b) == cosine
        assert len(similar_pairs(np.stack([a, b]), cosine).i) == 1


@given(st.integers(0, 10_000), st.integers(1, 30), st.integers(0, 40))
def test_nearest_are_the_best_of_a_full_sort(seed: int, n: int, k: int) -> None:
    vectors = clustered(seed, n)
    query = clustered(seed + 1, 1)[0]
    scores = vectors @ query
    found = nearest(vectors, query, k)
    assert len(found) == min(k, n)
    assert np.allclose(scores[found], np.sort(scores)[::-1][: len(found)])
    among = np.arange(0, n, 2)
    assert set(nearest(vectors, query, k, among)) <= set(among)


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
    found = similar_pairs(vectors, floor)
    return [
        (int(i), int(j), float(s))
        for i, j, s in zip(found.i, found.j, found.similarity, strict=True)
    ]


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(2, 30), st.randoms(use_true_random=False))
def test_no_cohesive_group_holds_a_pair_below_the_floor(seed: int, n: int, random: object) -> None:
    """And every member is in one group, and nobody is left out who fits a whole group."""
    vectors = clustered(seed, n)
    edges = pairs_of(vectors, 0.9)
    close = {(i, j) for i, j, _ in edges} | {(j, i) for i, j, _ in edges}
    groups = cohesive(range(n), edges, lambda a, b: (a, b) in close)
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
    groups = cohesive([0, 1, 2], edges, lambda a, b: (a, b) in close)
    assert sorted(map(sorted, groups)) == [[0, 1], [2]]

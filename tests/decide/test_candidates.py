"""The batch's one pass, against an oracle that does it the slow way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.decide.candidates import TILE, Pairs, candidate_pairs
from memory.models import Floats, Ints, Vectors

Triple = tuple[int, int, float]
tiles = st.sampled_from([TILE, 6, 12, 1])
"""Tiles of one row and tiles larger than all."""


def clumps(seed: int, n: int, dim: int, copies: bool) -> Vectors:
    """Unit vectors in a few clumps; with copies, many rows are the same."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((max(1, n // 4), dim))
    spread = rng.choice([0.0, 0.3], size=(n, 1)) if copies else 0.3
    raw = centres[rng.integers(len(centres), size=n)] + spread * rng.standard_normal((n, dim))
    unit: Vectors = (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)
    return unit


def all_scores(vectors: Vectors) -> Floats:
    wide = vectors.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1)
    scores: Floats = np.round(wide @ wide.T / np.outer(lengths, lengths), 6)
    return scores


def stricter(level: float | Floats, n: int) -> Floats:
    each = np.broadcast_to(level, n)
    pairs: Floats = np.maximum(each[:, None], each[None, :])
    return pairs


def nearest_by_sorting(
    vectors: Vectors, upper: float | Floats, k: int, lower: float | Floats
) -> list[Triple]:
    """The oracle: of each row all others in the band, sorted, the first k; either row's will do."""
    n, scores, kept = len(vectors), all_scores(vectors), set()
    allowed = (scores >= stricter(lower, n)) & (scores < stricter(upper, n))
    for i in range(n):
        others = [j for j in range(n) if j != i and allowed[i, j]]
        for j in sorted(others, key=lambda j: (-scores[i, j], j))[:k]:
            kept.add((min(i, j), max(i, j), float(scores[i, j])))
    return sorted(kept)


def counted(vectors: Vectors, band: float | Floats, weights: Ints) -> int:
    hits = np.triu(all_scores(vectors) >= stricter(band, len(vectors)), 1)
    return int((hits * np.outer(weights, weights)).sum())


def triples(pairs: Pairs) -> list[Triple]:
    return list(zip(*(column.tolist() for column in pairs), strict=True))


@given(
    st.integers(0, 10_000),
    st.integers(0, 40),
    st.integers(2, 9),
    st.integers(0, 7),
    st.sampled_from([-0.5, 0.0, 0.5, 0.9]),
    st.booleans(),
    tiles,
)
def test_nearest_pairs_are_those_of_sorting_each_row(
    seed: int, n: int, dim: int, k: int, threshold: float, copies: bool, tile: int
) -> None:
    """Also among copies, where whoever comes first is nearest, and for fewer rows than k."""
    vectors = clumps(seed, n, dim, copies)
    found = candidate_pairs(vectors, np.inf, k, threshold, tile=tile).nearest
    assert triples(found) == nearest_by_sorting(vectors, np.inf, k, threshold)
    assert len(found.i) <= n * k


@given(
    st.integers(0, 10_000),
    st.integers(0, 40),
    st.integers(0, 5),
    st.booleans(),
    st.booleans(),
    tiles,
)
def test_one_pass_gives_the_alike_the_nearest_and_how_many(
    seed: int, n: int, k: int, copies: bool, mixed: bool, tile: int
) -> None:
    """With one threshold for all rows, and with one for each."""
    rng = np.random.default_rng(seed)
    vectors = clumps(seed, n, 4, copies)
    weights = rng.choice([1, 1, 1, 3], size=n)
    lower = np.where(rng.random(n) < 0.3, 0.85, 0.6) if mixed else 0.6
    upper = np.where(rng.random(n) < 0.3, 0.97, 0.93) if mixed else 0.93
    bands = [0.98, upper, lower, 0.2]
    found = candidate_pairs(vectors, upper, k, lower, bands, weights, tile=tile)
    scores = all_scores(vectors) if n else np.empty((0, 0))
    i, j = np.nonzero(np.triu(scores >= stricter(upper, n), 1))
    expected = list(zip(i.tolist(), j.tolist(), scores[i, j].tolist(), strict=True))
    assert triples(found.upper) == expected
    assert triples(found.nearest) == nearest_by_sorting(vectors, upper, k, lower)
    assert found.counts.tolist() == [counted(vectors, band, weights) for band in bands]


@given(st.integers(0, 10_000), st.integers(2, 30), st.integers(1, 4))
def test_thresholds_that_are_a_pairs_own_similarity_include_it(seed: int, n: int, k: int) -> None:
    vectors = clumps(seed, n, 3, copies=False)
    scores = np.unique(all_scores(vectors)[np.triu_indices(n, 1)])
    lower, upper = float(scores[0]), float(scores[len(scores) // 2])
    found = candidate_pairs(vectors, upper, k, lower, [lower, upper])
    ones = np.ones(n, np.int64)
    assert triples(found.upper) == triples(candidate_pairs(vectors, upper, 0, upper).upper)
    assert triples(found.nearest) == nearest_by_sorting(vectors, upper, k, lower)
    assert found.counts.tolist() == [counted(vectors, band, ones) for band in (lower, upper)]


@pytest.mark.parametrize("k", [1, 5])
def test_many_tiles_give_what_one_tile_gives(k: int) -> None:
    vectors = clumps(3, 1_500, 8, copies=True)
    few = candidate_pairs(vectors, 0.95, k, 0.7, [0.9, 0.8])
    one = candidate_pairs(vectors, 0.95, k, 0.7, [0.9, 0.8], tile=400)
    assert triples(few.upper) == triples(one.upper)
    assert triples(few.nearest) == triples(one.nearest)
    assert few.counts.tolist() == one.counts.tolist()
    assert few.counts[0] > 1_000


def test_it_tells_the_share_of_all_tiles_that_is_done() -> None:
    told: list[float] = []
    candidate_pairs(clumps(3, 1_500, 8, copies=True), 0.95, 1, 0.7, on_share=told.append, tile=400)
    assert told == [n / 10 for n in range(1, 11)]

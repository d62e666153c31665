"""Shorter rows rule most out, and never one of the nearest, whatever comes and goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.models import Vectors
from memory.search.bounded import BoundedRows

DIM = 16


@pytest.fixture(autouse=True, scope="module")
def soon() -> Iterator[None]:
    """Bounds are kept of few rows already."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("memory.search.bounded._WORTH", 20)
        yield


def crowded(rng: np.random.Generator, count: int, dim: int = DIM) -> Vectors:
    """Unit rows near a few directions, some of them twice."""
    centres = np.random.default_rng(0).standard_normal((5, dim))
    rows = centres[rng.integers(5, size=count)] + 0.3 * rng.standard_normal((count, dim))
    rows[count // 2 :: 7] = rows[: len(rows[count // 2 :: 7])]
    unit: Vectors = (rows / np.linalg.norm(rows, axis=1)[:, None]).astype(np.float32)
    return unit


steps = st.lists(st.one_of(st.integers(1, 40), st.just(-1)), min_size=1, max_size=25)


@settings(max_examples=80, deadline=None)
@given(steps, st.integers(0, 10_000), st.integers(1, 6), st.sampled_from([-1.0, 0.5, 0.9]))
def test_the_nearest_are_those_of_a_full_sort(
    steps: list[int], seed: int, k: int, min_cosine: float
) -> None:
    rng = np.random.default_rng(seed)
    rows, expected = BoundedRows(), np.empty((0, DIM), np.float32)
    for step in steps:
        if step > 0:
            fresh = crowded(rng, step)
            rows.append(fresh)
            expected = np.concatenate([expected, fresh])
        elif len(expected):
            gone = int(rng.integers(len(expected)))
            rows.move_last_to(gone)
            expected[gone] = expected[-1]
            expected = expected[:-1]
    assert len(rows) == len(expected)
    assert np.array_equal(rows.matrix.ravel(), expected.ravel())
    for among in (np.arange(len(expected)), np.arange(0, len(expected), 2)):
        if not len(among):
            continue
        queries = crowded(rng, 2)
        found = rows.nearest(queries, k, among, min_cosine)
        for query, (names, products) in zip(queries, found, strict=True):
            scores = np.sort(expected[among] @ query)[::-1][:k]
            wanted = scores[scores >= min_cosine]
            assert set(names) <= set(among)
            assert np.allclose(expected[names] @ query, products, atol=1e-6)
            assert np.allclose(products[: len(wanted)], wanted, atol=1e-6)
            assert len(wanted) <= len(products) <= k


def test_most_rows_are_ruled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    rows = BoundedRows()
    rows.append(crowded(rng, 4_000))
    seen: list[int] = []
    argsort = np.argsort

    def counting(products: Vectors, **how: Any) -> object:
        seen.append(len(products))
        return argsort(products, **how)

    monkeypatch.setattr(np, "argsort", counting)
    for query in crowded(rng, 20):
        next(rows.nearest(query[None], 5, np.arange(4_000), -1.0))
    assert len(seen) == 20
    assert max(seen) < 1_000


def test_what_comes_after_all_are_gone_may_have_another_dimension() -> None:
    rng = np.random.default_rng(2)
    rows = BoundedRows()
    rows.append(crowded(rng, 30))
    for _ in range(30):
        rows.move_last_to(0)
    other = crowded(rng, 50, dim=8)
    rows.append(other)
    [(names, products)] = rows.nearest(other[7:8], 1, np.arange(50), 0.9)
    assert np.array_equal(rows.matrix, other)
    assert np.allclose(products, 1.0)
    assert np.allclose(other[names], other[7])

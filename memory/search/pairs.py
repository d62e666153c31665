"""Exact neighbours in a matrix of unit vectors. Pure numpy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memory.models import Vector, Vectors
from memory.search.products import Blocks, Ints, Products, by_strips, chunks, together

Floats = npt.NDArray[np.float64]

_CHECK = 36
"""What it costs to look at one candidate, in products of two numbers, for each dimension."""
_SHARES = (0.125, 0.1875, 0.25, 0.3125, 0.375, 0.5, 0.625)
"""How many of all axes a bound may be made of."""


_TOGETHER = 8
"""Tiles whose candidates are looked at together: enough that the work is numpy's, not Python's."""


class Pairs(NamedTuple):
    """`i < j`, sorted by (i, j); similarity is cosine rounded to 6 places. Three arrays (m,)."""

    i: Ints
    j: Ints
    similarity: Floats


def similarity(a: Vector, b: Vector) -> float:
    """Cosine of two vectors, in float64, rounded to 6 places: the one number used everywhere."""
    return float(similarities(a[None, :], b[None, :])[0])


def similarities(a: Vectors, b: Vectors) -> Floats:
    """Row by row cosine of two matrices (n, dim), in float64, rounded to 6 places: (n,)."""
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    lengths = np.linalg.norm(a64, axis=1) * np.linalg.norm(b64, axis=1)
    products: Floats = np.einsum("nd,nd->n", a64, b64) / np.maximum(lengths, 1e-30)
    return np.round(products, 6)


def similar_pairs(vectors: Vectors, threshold: float, blocks: Blocks | None = None) -> Pairs:
    """Every pair of rows at or above the threshold, exactly.

    Products of shorter rows, never below the cosines, find candidates; float64 decides. Beside the
    vectors and the answer the memory used is about one copy of the vectors, whatever n is.
    """
    unit = unit_rows(vectors)
    floor = threshold - slack(unit.shape[1])
    products = Products(bounding_rows(unit, floor), blocks or Blocks.fitting(len(unit)))

    def strip(row: int) -> Pairs:
        columns = products.columns(row)
        found = []
        for some in chunks(len(columns), _TOGETHER):
            at = (products.reaching(floor, row, column) for column in columns[some])
            found.append(_at_least(vectors, unit, *together(at), threshold))
        return joined(found)

    return in_order(joined(by_strips(strip, products)))


def joined(parts: Iterable[Pairs]) -> Pairs:
    """The pairs of all parts, in the order of the parts."""
    columns = list(zip(*parts, strict=True)) or [(), (), ()]
    i, j, scores = columns
    return Pairs(
        np.concatenate([np.empty(0, np.int64), *i]),
        np.concatenate([np.empty(0, np.int64), *j]),
        np.concatenate([np.empty(0), *scores]),
    )


def chosen(pairs: Pairs, which: npt.NDArray[np.bool_]) -> Pairs:
    """Those of the pairs for which it is true."""
    return Pairs(pairs.i[which], pairs.j[which], pairs.similarity[which])


def in_order(pairs: Pairs) -> Pairs:
    """The same pairs, sorted by (i, j)."""
    order = np.lexsort((pairs.j, pairs.i))
    return Pairs(pairs.i[order], pairs.j[order], pairs.similarity[order])


def scores_of(vectors: Vectors, i: Ints, j: Ints) -> Floats:
    """The similarity of each pair of rows, a few at a time, so that they stay in the cache."""
    parts = [similarities(vectors[i[part]], vectors[j[part]]) for part in chunks(len(i))]
    return np.concatenate([np.empty(0), *parts])


def unit_rows(vectors: Vectors) -> Vectors:
    """The rows at length 1 in float32; the very array where they are already."""
    lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64))
    if np.abs(lengths - 1).max(initial=0) < 1e-6:
        return vectors
    unit: Vectors = (vectors / np.maximum(lengths, 1e-30)[:, None]).astype(np.float32)
    return unit


def slack(dim: int) -> float:
    """How far a float32 product of unit rows may lie from the rounded similarity, at most."""
    return (dim + 8) * 2.0**-24 + 5e-6


def bounding_rows(unit: Vectors, floor: float) -> Vectors:
    """Shorter rows (n, m) whose products are never below those of the given ones.

    The leading principal axes, and the length of what they leave out as one more:
    x.y <= p.q + |x_rest| |y_rest| (Cauchy-Schwarz). How many axes is tried on a sample: fewer make
    cheaper products and more candidates. The rows themselves where that costs least.
    """
    rows, dim = unit.shape
    if rows < 16 * dim:
        return unit
    some = unit[:: rows // 4_000 + 1].astype(np.float64)
    axes = np.linalg.eigh(some.T @ some)[1][:, ::-1]
    count = _cheapest(unit[:: rows // 1_000 + 1], axes, floor)
    if count == dim:
        return unit
    bounds = np.empty((rows, count + 1), np.float32)
    for part in chunks(rows):
        bounds[part] = _shortened(unit[part], axes[:, :count])
    return bounds


def _cheapest(some: Vectors, axes: Floats, floor: float) -> int:
    """The number of leading axes with the least work for each pair of rows."""
    rows, dim = some.shape
    work: dict[int, float] = {}
    for count in [*(int(share * dim) for share in _SHARES), dim]:
        bounds = _shortened(some, axes[:, :count]).astype(np.float32)
        candidates = np.count_nonzero(bounds @ bounds.T >= floor) - rows
        work[count] = count + _CHECK * dim * max(candidates, 0) / (rows * (rows - 1))
    return min(work, key=lambda count: work[count])


def _shortened(unit: Vectors, axes: Floats) -> Floats:
    """The rows along these axes, and the length of what they leave out as one more."""
    wide = unit.astype(np.float64)
    return _with_rest(wide, wide @ axes)


def _with_rest(rows: Floats, leading: Floats) -> Floats:
    """What rows are along some axes, and the length of what these leave out: (n, m + 1)."""
    rest = np.vecdot(rows, rows) - np.vecdot(leading, leading)
    return np.column_stack([leading, np.sqrt(np.maximum(rest, 0))])


def _at_least(vectors: Vectors, unit: Vectors, i: Ints, j: Ints, threshold: float) -> Pairs:
    """Of some pairs, those whose similarity reaches the threshold; float32 sorts out most."""
    floor = threshold - slack(unit.shape[1])
    products = [np.vecdot(unit[i[part]], unit[j[part]]) for part in chunks(len(i))]
    likely = np.concatenate([np.empty(0), *products]) >= floor
    i, j = i[likely], j[likely]
    scores = scores_of(vectors, i, j)
    return chosen(Pairs(i, j, scores), scores >= threshold)

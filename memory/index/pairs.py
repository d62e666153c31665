"""Exact neighbours in a matrix of unit vectors, and the groups they form. Pure numpy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memory.models import Vector, Vectors

_TILE = 2048
FLOAT32_SLACK = 1e-5
"""How far a float32 product may lie below the float64 one, with room to spare."""


Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


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


def similar_pairs(vectors: Vectors, threshold: float) -> Pairs:
    """Every pair of rows at or above the threshold, exactly.

    Tiles of float32 products find candidates, float64 decides; beside the answer the memory used
    is one tile, whatever n is.
    """
    found = [
        _tile_pairs(vectors, row, column, threshold)
        for row in range(0, len(vectors), _TILE)
        for column in range(row, len(vectors), _TILE)
    ]
    i = np.concatenate([pairs.i for pairs in found]) if found else np.empty(0, np.int64)
    j = np.concatenate([pairs.j for pairs in found]) if found else np.empty(0, np.int64)
    cosine = np.concatenate([pairs.similarity for pairs in found]) if found else np.empty(0)
    order = np.lexsort((j, i))
    return Pairs(i[order], j[order], cosine[order])


def _tile_pairs(vectors: Vectors, row: int, column: int, threshold: float) -> Pairs:
    products = vectors[row : row + _TILE] @ vectors[column : column + _TILE].T
    local_i, local_j = np.nonzero(products >= threshold - FLOAT32_SLACK)
    i, j = local_i + row, local_j + column
    upper = i < j
    i, j = i[upper], j[upper]
    cosine = _chunked_similarities(vectors, i, j)
    hit = cosine >= threshold
    return Pairs(i[hit], j[hit], cosine[hit])


def _chunked_similarities(vectors: Vectors, i: Ints, j: Ints) -> Floats:
    chunks = [
        similarities(vectors[i[start : start + _TILE]], vectors[j[start : start + _TILE]])
        for start in range(0, len(i), _TILE)
    ]
    return np.concatenate(chunks) if chunks else np.empty(0)


def nearest(vectors: Vectors, query: Vector, k: int, among: Ints | None = None) -> Ints:
    """Rows most like the query, nearest first, at most k; `among` limits which rows count."""
    rows = np.arange(len(vectors)) if among is None else among
    if k <= 0 or not len(rows):
        return np.empty(0, np.int64)
    scores = vectors @ query if among is None else vectors[rows] @ query
    best = np.argpartition(-scores, min(k, len(rows)) - 1)[:k]
    return rows[best[np.argsort(-scores[best], kind="stable")]]

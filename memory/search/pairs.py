"""Exact cosines of pairs of vectors, computed with numpy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memory.models import Vector, Vectors
from memory.search.products import Ints, chunks

Floats = npt.NDArray[np.float64]


class Pairs(NamedTuple):
    """Pairs of rows of a matrix, `i < j`, and their cosines, rounded to 6 decimals.

    All three are arrays of shape (m,).
    """

    i: Ints
    j: Ints
    similarity: Floats


def similarity(a: Vector, b: Vector) -> float:
    """Return the cosine of two vectors, computed in float64 and rounded to 6 decimals."""
    return float(similarities(a[None, :], b[None, :])[0])


def similarities(a: Vectors, b: Vectors) -> Floats:
    """Return the cosine of each row of `a` with the same row of `b`.

    The matrices have shape (n, dim), the result (n,). The cosines are computed in float64 and
    rounded to 6 decimals.
    """
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    lengths = np.linalg.norm(a64, axis=1) * np.linalg.norm(b64, axis=1)
    products: Floats = np.einsum("nd,nd->n", a64, b64) / np.maximum(lengths, 1e-30)
    return np.round(products, 6)


def joined(parts: Iterable[Pairs]) -> Pairs:
    """Return one `Pairs` that contains the pairs of all `parts`, in the order of the parts."""
    columns = list(zip(*parts, strict=True)) or [(), (), ()]
    i, j, scores = columns
    return Pairs(
        np.concatenate([np.empty(0, np.int64), *i]),
        np.concatenate([np.empty(0, np.int64), *j]),
        np.concatenate([np.empty(0), *scores]),
    )


def chosen(pairs: Pairs, which: npt.NDArray[np.bool_]) -> Pairs:
    """Return the pairs for which the mask `which`, shape (m,), is true."""
    return Pairs(pairs.i[which], pairs.j[which], pairs.similarity[which])


def in_order(pairs: Pairs) -> Pairs:
    """Return the pairs sorted by (i, j)."""
    order = np.lexsort((pairs.j, pairs.i))
    return Pairs(pairs.i[order], pairs.j[order], pairs.similarity[order])


def scores_of(vectors: Vectors, i: Ints, j: Ints) -> Floats:
    """Return the cosines of m pairs of rows of `vectors`, as an array (m,).

    The pairs are given by the positions of their rows, `i` and `j`, as arrays (m,). Few pairs are
    computed at a time, so that they fit into the processor's cache.
    """
    parts = [similarities(vectors[i[part]], vectors[j[part]]) for part in chunks(len(i))]
    return np.concatenate([np.empty(0), *parts])


def unit_rows(vectors: Vectors) -> Vectors:
    """Return the rows scaled to length 1; the same array if all rows have that length already."""
    lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64))
    if np.abs(lengths - 1).max(initial=0) < 1e-6:
        return vectors
    unit: Vectors = (vectors / np.maximum(lengths, 1e-30)[:, None]).astype(np.float32)
    return unit


def slack(dim: int) -> float:
    """Return the maximum difference between a float32 product of unit vectors and their cosine.

    `dim` is the dimension of the vectors. The cosine is the one that is computed in float64 and
    rounded to 6 decimals.
    """
    return (dim + 8) * 2.0**-24 + 5e-6

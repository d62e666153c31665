"""Vectors by text key, their cosines, and the scale that turns a cosine into a similarity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from memory.models.values import Frozen, Vector, Vectors
from memory.text import has_cjk

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

LOWER = 0.90
"""The default of the setting `dedup_lower_threshold`, a similarity.

About half of the pairs of memories with this similarity are copies or worth merging. The `anchor`
of a scale is the cosine that the scale turns into this similarity.
"""
NEAR_COPY = 0.95
"""At this cosine and above, similarity equals cosine for every embedder."""
_PLACES = 6
_STEP = 10.0**-_PLACES


# --- cosines ---


def cosine_of(a: Vector, b: Vector) -> float:
    """Return the cosine of two vectors, computed in float64 and rounded to 6 decimals.

    >>> cosine_of(np.array([1, 0], np.float32), np.array([0.6, 0.8], np.float32))
    0.6
    """
    return float(cosines_of(a[None, :], b[None, :])[0])


def cosines_of(a: Vectors, b: Vectors) -> Floats:
    """Return the cosine of each row of `a` (n, dim) with the same row of `b`, as an array (n,).

    If `b` has only one row, each row of `a` is compared with it. The cosines are computed in
    float64 and rounded to 6 decimals.

    >>> rows = np.array([[1, 0], [0.6, 0.8]], np.float32)
    >>> cosines_of(rows, rows[:1])
    array([1. , 0.6])
    """
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    lengths = np.linalg.norm(a64, axis=1) * np.linalg.norm(b64, axis=1)
    products: Floats = np.einsum("nd,nd->n", a64, b64) / np.maximum(lengths, 1e-30)
    return np.round(products, 6)


def scores_of(vectors: Vectors, i: Ints, j: Ints) -> Floats:
    """Return the cosine of each pair of rows `i[n]`, `j[n]` of `vectors`, as an array (len(i),).

    The cosines are those of `cosines_of`, but each row's length is computed once. Few pairs are
    computed at a time, so that they fit into the processor's cache.

    >>> scores_of(np.array([[1, 0], [0.6, 0.8]], np.float32), np.array([0]), np.array([1]))
    array([0.6])
    """
    rows, place = np.unique(np.concatenate([i, j]), return_inverse=True)
    lengths = np.empty(len(rows))
    for part in chunks(len(rows)):
        lengths[part] = np.linalg.norm(vectors[rows[part]].astype(np.float64), axis=1)
    products = lengths[place[: len(i)]] * lengths[place[len(i) :]]
    cosines = np.empty(len(i))
    for part in chunks(len(i)):
        a, b = vectors[i[part]].astype(np.float64), vectors[j[part]].astype(np.float64)
        cosines[part] = np.einsum("nd,nd->n", a, b) / np.maximum(products[part], 1e-30)
    return np.round(cosines, 6)


def slack(dim: int) -> float:
    """Return the maximum error of a float32 product of two unit vectors of `dim` numbers.

    The error is the difference from the cosine that `cosine_of` computes.

    >>> slack(256) < 0.0001
    True
    """
    return (dim + 8) * 2.0**-24 + 5e-6


def chunks(size: int, step: int = 512) -> Iterator[slice]:
    """Cut the positions from 0 to `size` into slices of `step`.

    >>> list(chunks(600))
    [slice(0, 512, None), slice(512, 1024, None)]
    """
    return (slice(start, start + step) for start in range(0, size, step))


class VectorTable(Mapping[str, Vector]):
    """A read-only mapping from text key to vector; the vectors are rows of one array.

    >>> table = VectorTable(["a", "b"], np.array([[1, 0], [0, 1]], np.float32))
    >>> table.positions(["b"]), table["a"]
    (array([1]), array([1., 0.], dtype=float32))
    """

    def __init__(self, keys: Sequence[str], matrix: Vectors) -> None:
        """`matrix` has shape (m, dim), m >= len(keys): row i is the vector of `keys[i]`."""
        self._position = {key: n for n, key in enumerate(keys)}
        self.matrix = matrix

    def positions(self, keys: Iterable[str]) -> npt.NDArray[np.int64]:
        """Return the number of each key's row in `matrix`, shape (n,). Raises: KeyError."""
        return np.fromiter((self._position[key] for key in keys), np.int64)

    def of(self, keys: Sequence[str]) -> Vectors:
        """Return the vectors of these keys, shape (n, dim): a view if their rows are adjacent."""
        found = self.positions(keys)
        if len(found) and np.array_equal(found, np.arange(found[0], found[0] + len(found))):
            return self.matrix[found[0] : found[0] + len(found)]
        return self.matrix[found]

    def __getitem__(self, key: str) -> Vector:
        vector: Vector = self.matrix[self._position[key]]
        return vector

    def __contains__(self, key: object) -> bool:
        return key in self._position

    def __iter__(self) -> Iterator[str]:
        return iter(self._position)

    def __len__(self) -> int:
        return len(self._position)


# --- scales: curves that turn the cosines of an embedder into similarities ---


class Scale(Frozen):
    """A piecewise linear curve from an embedder's cosine to similarity.

    The curve goes through (0, 0), (`anchor`, 0.90) and (0.95, 0.95). If at least one of two
    compared texts has kana or Han, `anchor_kana_han` takes the place of `anchor`. Below 0 and from
    0.95 on, the similarity equals the cosine.

    Two embedders give the same two texts different cosines. If each embedder has its own scale, the
    same thresholds fit all embedders.

    >>> scale = Scale(anchor=0.70)
    >>> scale.similarity(0.70, "Mia has a cat.", "Mia got a cat."), scale.cosine(0.90)
    (0.9, 0.7)
    """

    anchor: float = Field(gt=0.0, lt=NEAR_COPY)
    anchor_kana_han: float | None = Field(default=None, gt=0.0, lt=NEAR_COPY)
    """The anchor for pairs in which a text has kana or Han; None means `anchor`."""

    @model_validator(mode="after")
    def _check_anchors(self) -> Scale:
        if self.cjk_anchor < self.anchor:
            raise ValueError(f"anchor_kana_han {self.cjk_anchor} is below anchor {self.anchor}")
        return self

    @property
    def cjk_anchor(self) -> float:
        return self.anchor if self.anchor_kana_han is None else self.anchor_kana_han

    def similarity(self, cosine: float, a: str, b: str) -> float:
        """Return the similarity of texts `a` and `b`, to 6 decimals, given their cosine."""
        return float(self.similarities(np.array([cosine]), has_cjk(a) or has_cjk(b))[0])

    def similarities(self, cosines: Floats, has_cjk: Flags | bool) -> Floats:
        """Return the similarities of n pairs of texts, given the cosines of their vectors.

        `cosines` and the result have shape (n,). `has_cjk` says whether at least one text of a pair
        has kana or Han. It is an array of shape (n,), or one value for all pairs.
        """
        cosines = np.round(cosines, _PLACES)  # 0.95 can be slightly lower in float32
        anchors = np.where(has_cjk, self.cjk_anchor, self.anchor)
        rise = (NEAR_COPY - LOWER) / (NEAR_COPY - anchors)
        below, above = cosines * (LOWER / anchors), LOWER + (cosines - anchors) * rise
        bent = np.round(np.where(cosines <= anchors, below, above), _PLACES)
        # Rounding must not lift a similarity to 0.95.
        bent = np.minimum(bent, round(NEAR_COPY - _STEP, _PLACES))
        return np.where((cosines <= 0.0) | (cosines >= NEAR_COPY), cosines, bent)

    def cosine(self, similarity: float, text: str = "") -> float:
        """Return the lowest cosine at which `text` and another text can reach this similarity.

        The other text may be any text. `text` is only checked for kana and Han; "" has neither.
        """
        return _lowest_cosine(self, similarity, has_cjk(text))

    def cosines(self, similarity: float, has_cjk: Flags) -> Floats:
        """Return the result of `cosine` for each of n texts.

        `has_cjk`, shape (n,), says which texts have kana or Han. The result has shape (n,).
        """
        return np.where(
            has_cjk, _lowest_cosine(self, similarity, True), _lowest_cosine(self, similarity, False)
        )


@lru_cache(maxsize=256)
def _lowest_cosine(scale: Scale, similarity: float, has_cjk: bool) -> float:
    if similarity < 0.0 or similarity >= NEAR_COPY:
        return similarity
    anchor = scale.cjk_anchor if has_cjk else scale.anchor
    curve = (0.0, LOWER, NEAR_COPY), (0.0, anchor, NEAR_COPY)
    found = round(float(np.interp(similarity, *curve)), _PLACES)

    def of(cosine: float) -> float:
        return float(scale.similarities(np.array([cosine]), has_cjk)[0])

    while of(found) < similarity:
        found = round(found + _STEP, _PLACES)
    while of(round(found - _STEP, _PLACES)) >= similarity:
        found = round(found - _STEP, _PLACES)
    return found


PLAIN = Scale(anchor=LOWER)
"""The scale that changes nothing: the similarity equals the cosine."""

_OWN = {
    "wordllama-": Scale(anchor=0.70, anchor_kana_han=0.88),
    "chroma-all-MiniLM-": Scale(anchor=0.77),
}
"""The scales of known embedders. A key is the beginning of an embedder's fingerprint.

Each `anchor` is fitted to a reader's verdicts on pairs of memories. A model had extracted these
memories from conversations, and none has kana or Han. WordLlama has a higher anchor for texts with
kana or Han, because a third of random pairs of such texts have a cosine above 0.70.
"""


def scale_of(fingerprint: str) -> Scale:
    """Return the scale of the embedder with this fingerprint.

    For an unknown embedder, return `PLAIN`, with which the similarity equals the cosine.

    >>> scale_of("wordllama-256").anchor, scale_of("own-model") == PLAIN
    (0.7, True)
    """
    own = (scale for start, scale in _OWN.items() if fingerprint.startswith(start))
    return next(own, PLAIN)

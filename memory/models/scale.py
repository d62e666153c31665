"""Scales. A scale is a curve that turns the cosines of an embedder into similarities."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from memory.models.memory import Frozen
from memory.text import has_cjk

LOWER = 0.90
"""The default of the setting `dedup_lower_threshold`, a similarity.

About half of the pairs of memories with this similarity are copies or worth merging. The `anchor`
of a scale is the cosine that the scale turns into this similarity.
"""
NEAR_COPY = 0.95
"""At this cosine and above, similarity equals cosine for every embedder."""
_PLACES = 6
_STEP = 10.0**-_PLACES

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


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

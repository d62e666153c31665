"""The scale: a curve from an embedder's cosine to the similarity that thresholds refer to."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from memory.models.memory import Frozen
from memory.text import has_cjk

LOWER = 0.90
"""The similarity that corresponds to the anchor (a cosine) of every scale.

At this similarity, half of the pairs of natural memories are copies or worth merging.
"""
NEAR_COPY = 0.95
"""From this cosine on, the similarity of two texts equals their cosine for every embedder."""
_PLACES = 6
_STEP = 10.0**-_PLACES

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class Scale(Frozen):
    """A piecewise linear curve from cosine to similarity.

    It goes through (0, 0), (anchor, 0.90) and (0.95, 0.95). Below 0 and from 0.95 on, the
    similarity equals the cosine. Equally similar texts have different cosines with different
    embedders; with a scale for each embedder, the same thresholds fit all of them.
    """

    anchor: float = Field(gt=0.0, lt=NEAR_COPY)
    """The cosine that corresponds to a similarity of 0.90."""
    anchor_kana_han: float | None = Field(default=None, gt=0.0, lt=NEAR_COPY)
    """The cosine that corresponds to 0.90 for texts with kana or Han; None means `anchor`.

    It is used for a pair of texts if at least one of them has such characters (Japanese, Chinese).
    """

    @model_validator(mode="after")
    def _check_anchors(self) -> Scale:
        if self.cjk_anchor < self.anchor:
            raise ValueError(f"anchor_kana_han {self.cjk_anchor} is below anchor {self.anchor}")
        return self

    @property
    def cjk_anchor(self) -> float:
        """The cosine that corresponds to 0.90 if at least one of the two texts has kana or Han."""
        return self.anchor if self.anchor_kana_han is None else self.anchor_kana_han

    def similarity(self, cosine: float, a: str, b: str) -> float:
        """Return the similarity of texts `a` and `b`, to 6 decimals, given their cosine."""
        return float(self.similarities(np.array([cosine]), has_cjk(a) or has_cjk(b))[0])

    def similarities(self, cosines: Floats, has_cjk: Flags | bool) -> Floats:
        """Return the similarities of n pairs of texts from the cosines of their vectors.

        `cosines` and the result have shape (n,). `has_cjk` says, for each pair (n,) or for all
        pairs, whether at least one of its texts has kana or Han. Cosines are rounded to 6 decimals
        first, because a cosine of 0.95 can be slightly lower in float32. After this rounding, a
        similarity below 0.95 is never rounded up to 0.95.
        """
        cosines = np.round(cosines, _PLACES)
        anchors = np.where(has_cjk, self.anchor_kana_han or self.anchor, self.anchor)
        rise = (NEAR_COPY - LOWER) / (NEAR_COPY - anchors)
        below, above = cosines * (LOWER / anchors), LOWER + (cosines - anchors) * rise
        bent = np.round(np.where(cosines <= anchors, below, above), _PLACES)
        bent = np.minimum(bent, round(NEAR_COPY - _STEP, _PLACES))
        return np.where((cosines <= 0.0) | (cosines >= NEAR_COPY), cosines, bent)

    def cosine(self, similarity: float, text: str | None = None) -> float:
        """Return the lowest cosine at which `text` and some other text are at least this similar.

        The result may be higher if `text` has kana or Han. If `text` is None, return the lowest
        such cosine of any two texts. The result is rounded to 6 decimals.
        """
        return _lowest_cosine(self, similarity, text is not None and has_cjk(text))

    def cosines(self, similarity: float, has_cjk: Flags) -> Floats:
        """Return, for each of n texts, the lowest cosine to another text that counts as similar.

        Two texts count as similar if their similarity is at least `similarity`. `has_cjk`, shape
        (n,), says which of the n texts have kana or Han. The result has shape (n,) and is rounded
        to 6 decimals.
        """
        return np.where(
            has_cjk, _lowest_cosine(self, similarity, True), _lowest_cosine(self, similarity, False)
        )


@lru_cache(maxsize=256)
def _lowest_cosine(scale: Scale, similarity: float, has_cjk: bool) -> float:
    """Return the lowest cosine at which two texts have at least this similarity, to 6 decimals.

    `has_cjk` says whether at least one of the two texts has kana or Han.
    """
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
"""Scales of known embedders, by the beginning of their fingerprints.

They are fitted to pairs of natural memories that a reader judged. Pairs with kana or Han were not
judged yet; WordLlama has a higher anchor for them, because a third of random pairs with such texts
have a cosine above 0.70.
"""


def scale_of(fingerprint: str) -> Scale:
    """Return the scale of the embedder with this fingerprint; PLAIN for an unknown embedder."""
    own = (scale for start, scale in _OWN.items() if fingerprint.startswith(start))
    return next(own, PLAIN)

"""The scale from an embedder's cosine to similarity, in which thresholds are given."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from memory.models.memory import Frozen
from memory.text import has_cjk

LOWER = 0.90
"""The similarity at which every second pair of natural memories is the same or worth merging."""
NEAR_COPY = 0.95
"""From here on the similarity is the cosine of any embedder: these are near-copies."""
_PLACES = 6
_STEP = 10.0**-_PLACES

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class Scale(Frozen):
    """A piecewise linear curve through (0, 0), (anchor, 0.90) and (0.95, 0.95).

    Below 0 and from 0.95 on the similarity is the cosine itself. A cosine of 0.90 means different
    things for different embedders, while the thresholds are the same for all.
    """

    anchor: float = Field(gt=0.0, lt=NEAR_COPY)
    """The cosine that counts as a similarity of 0.90."""
    anchor_kana_han: float | None = Field(default=None, gt=0.0, lt=NEAR_COPY)
    """The same for pairs with kana or Han in either text; None if that makes no difference."""

    @model_validator(mode="after")
    def _check_anchors(self) -> Scale:
        if self.cjk_anchor < self.anchor:
            raise ValueError(f"anchor_kana_han {self.cjk_anchor} is below anchor {self.anchor}")
        return self

    @property
    def cjk_anchor(self) -> float:
        """The anchor for pairs with kana or Han in either text."""
        return self.anchor if self.anchor_kana_han is None else self.anchor_kana_han

    def similarity(self, cosine: float, a: str, b: str) -> float:
        """Return the similarity of two texts whose vectors have this cosine, to 6 places."""
        return float(self.similarities(np.array([cosine]), has_cjk(a) or has_cjk(b))[0])

    def similarities(self, cosines: Floats, has_cjk: Flags | bool) -> Floats:
        """Return the similarities of pairs (n,); `has_cjk` says which have kana or Han.

        Cosines are rounded first, since in float32 a pair built at 0.95 may lie just below. After
        that what is below 0.95 stays below: rounding makes no near-copy.
        """
        rounded = np.round(cosines, _PLACES)
        plain = _curve(rounded, self.anchor)
        if self.anchor_kana_han is None:
            return plain
        return np.where(has_cjk, _curve(rounded, self.anchor_kana_han), plain)

    def cosine(self, similarity: float, text: str | None = None) -> float:
        """Return the least cosine, to 6 places, that has this similarity.

        It holds for a text compared with any other; without `text`, for any two texts.
        """
        return _least(self, similarity, text is not None and has_cjk(text))

    def cosines(self, similarity: float, has_cjk: Flags) -> Floats:
        """Return the same for many texts (n,); `has_cjk` says which have kana or Han."""
        return np.where(has_cjk, _least(self, similarity, True), _least(self, similarity, False))


@lru_cache(maxsize=256)
def _least(scale: Scale, similarity: float, has_cjk: bool) -> float:
    """Return the least cosine, to 6 places, that has this similarity."""
    if similarity < 0.0 or similarity >= NEAR_COPY:
        return similarity
    anchor = scale.cjk_anchor if has_cjk else scale.anchor
    found = round(float(np.interp(similarity, _SIMILARITIES, (0.0, anchor, NEAR_COPY))), _PLACES)

    def of(cosine: float) -> float:
        return float(scale.similarities(np.array([cosine]), has_cjk)[0])

    while of(found) < similarity:
        found = round(found + _STEP, _PLACES)
    while of(round(found - _STEP, _PLACES)) >= similarity:
        found = round(found - _STEP, _PLACES)
    return found


PLAIN = Scale(anchor=LOWER)
"""The similarity is the cosine."""

_OWN = {
    "wordllama-": Scale(anchor=0.70, anchor_kana_han=0.88),
    "chroma-all-MiniLM-": Scale(anchor=0.77),
}
"""By the beginning of a fingerprint. Fitted to pairs of natural memories that a reader judged.
Pairs with kana or Han are not judged yet: a third of random ones lie above WordLlama's 0.70."""


def scale_of(fingerprint: str) -> Scale:
    """Return the scale of an embedder; plain cosine if it was never calibrated."""
    own = (scale for start, scale in _OWN.items() if fingerprint.startswith(start))
    return next(own, PLAIN)


_SIMILARITIES = (0.0, LOWER, NEAR_COPY)


def _curve(cosines: Floats, anchor: float) -> Floats:
    bent = np.round(np.interp(cosines, (0.0, anchor, NEAR_COPY), _SIMILARITIES), _PLACES)
    itself = (cosines <= 0.0) | (cosines >= NEAR_COPY)
    return np.where(itself, cosines, np.minimum(bent, round(NEAR_COPY - _STEP, _PLACES)))

"""From an embedder's cosine to the one scale that every threshold speaks, and back."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from memory.models.values import Frozen
from memory.text import has_cjk

LOWER = 0.90
"""The similarity at which every second pair of natural memories is the same or worth merging."""
NEAR_COPY = 0.95
"""From here on the similarity is the cosine: these are copies, whoever embedded them."""
_PLACES = 6
_STEP = 10.0**-_PLACES

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class Scale(Frozen):
    """A monotone curve through (0, 0), (anchor, 0.90) and (0.95, 0.95), straight between.

    Below 0 and from 0.95 on the similarity is the cosine itself. Why: 0.90 of one embedder is not
    0.90 of another, and the thresholds are the same for all of them.
    """

    anchor: float = Field(gt=0.0, lt=NEAR_COPY)
    """The cosine that counts as a similarity of 0.90."""
    anchor_kana_han: float | None = Field(default=None, gt=0.0, lt=NEAR_COPY)
    """The same where kana or Han stands in either text; None where that makes no difference."""

    @model_validator(mode="after")
    def _kana_and_han_are_the_stricter(self) -> Scale:
        if self.strict_anchor < self.anchor:
            raise ValueError(f"anchor_kana_han {self.strict_anchor} is below anchor {self.anchor}")
        return self

    @property
    def strict_anchor(self) -> float:
        """The anchor where kana or Han stands in either text."""
        return self.anchor if self.anchor_kana_han is None else self.anchor_kana_han

    def similarity(self, cosine: float, a: str, b: str) -> float:
        """How alike two texts are whose vectors have this cosine, rounded to 6 places."""
        return self.one(cosine, has_cjk(a) or has_cjk(b))

    def similarities(self, cosines: Floats, strict: Flags | bool) -> Floats:
        """The same for many (n,); `strict` where kana or Han stands in either text of the pair.

        The cosine is rounded first, since float32 puts a pair built at 0.95 below it as often as
        not; after that what lies below 0.95 stays below it, and no near-copy is made by rounding.
        """
        rounded = np.round(cosines, _PLACES)
        if isinstance(strict, bool):
            return _curve(rounded, self.strict_anchor if strict else self.anchor)
        plain = _curve(rounded, self.anchor)
        return np.where(strict, _curve(rounded, self.strict_anchor), plain)

    def cosine(self, similarity: float, text: str | None = None) -> float:
        """The least cosine, of 6 places, that counts as this similarity: an index is asked for it.

        For a text that is compared with any other; without one, for whatever texts. A cosine of 6
        places reaches it exactly where its similarity reaches `similarity`.
        """
        return _least(self, similarity, text is not None and has_cjk(text))

    def cosines(self, similarity: float, strict: Flags) -> Floats:
        """The same for many texts (n,), of which these are the strict ones."""
        return np.where(strict, _least(self, similarity, True), _least(self, similarity, False))

    def one(self, cosine: float, strict: bool) -> float:
        """Of one cosine."""
        return float(self.similarities(np.array([cosine]), strict)[0])


@lru_cache(maxsize=256)
def _least(scale: Scale, similarity: float, strict: bool) -> float:
    """The least cosine of 6 places that counts as this similarity."""
    if similarity < 0.0 or similarity >= NEAR_COPY:
        return similarity
    anchor = scale.strict_anchor if strict else scale.anchor
    near = float(np.interp(similarity, _SIMILARITIES, (0.0, anchor, NEAR_COPY)))
    found = round(near, _PLACES)
    while scale.one(found, strict) < similarity:
        found = round(found + _STEP, _PLACES)
    while scale.one(round(found - _STEP, _PLACES), strict) >= similarity:
        found = round(found - _STEP, _PLACES)
    return found


PLAIN = Scale(anchor=LOWER)
"""The similarity is the cosine."""

_OWN = {
    "wordllama-": Scale(anchor=0.70, anchor_kana_han=0.88),
    "chroma-all-MiniLM-": Scale(anchor=0.77),
}
"""By how a fingerprint begins. Fitted to pairs of natural memories that a reader judged;
kana and Han are not judged yet: a third of random Japanese pairs lie above WordLlama's 0.70."""


def scale_of(fingerprint: str) -> Scale:
    """An embedder's own scale; plain cosine where it was never calibrated."""
    own = (scale for start, scale in _OWN.items() if fingerprint.startswith(start))
    return next(own, PLAIN)


_SIMILARITIES = (0.0, LOWER, NEAR_COPY)


def _curve(cosines: Floats, anchor: float) -> Floats:
    bent = np.round(np.interp(cosines, (0.0, anchor, NEAR_COPY), _SIMILARITIES), _PLACES)
    itself = (cosines <= 0.0) | (cosines >= NEAR_COPY)
    return np.where(itself, cosines, np.minimum(bent, round(NEAR_COPY - _STEP, _PLACES)))

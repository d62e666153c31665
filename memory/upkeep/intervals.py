"""How sure a share is: the Wilson score interval."""

from __future__ import annotations

from math import sqrt

Z_95 = 1.959964
"""The normal quantile of a two-sided 95 % interval."""


def wilson(hits: int, of: int, z: float = Z_95) -> tuple[float, float]:
    """Where the true share lies, given `hits` of `of` drawn; (0, 1) where nothing was drawn.

    E. B. Wilson (1927), Probable inference, the law of succession, and statistical inference,
    Journal of the American Statistical Association 22: centre and half width of
    (p + z²/2n ± z sqrt(p(1 - p)/n + z²/4n²)) / (1 + z²/n). Unlike p ± z sqrt(p(1 - p)/n) it says
    something where no hit was seen.
    """
    if of == 0:
        return 0.0, 1.0
    share, spread = hits / of, z * z / of
    centre = (share + spread / 2) / (1 + spread)
    half = z * sqrt(share * (1 - share) / of + spread / (4 * of)) / (1 + spread)
    low, high = max(0.0, centre - half), min(1.0, centre + half)
    return (0.0 if hits == 0 else low), (1.0 if hits == of else high)

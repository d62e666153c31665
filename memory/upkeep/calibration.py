"""The computations of calibration: choose pairs to ask about, count answers, fit the scale.

The scale is the curve that turns a cosine into a similarity. Its anchor is the cosine that counts
as a similarity of 0.90. Pairs are counted in bands, which are ranges of cosine.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise, zip_longest
from math import sqrt

import numpy as np
import numpy.typing as npt

from memory.coverage import compare_memories
from memory.models import LOWER, NEAR_COPY, Memory, Scale
from memory.text import has_cjk, text_key

EDGES = (
    0.40, 0.50, 0.55, 0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.90, 0.95, 0.97, 0.98, 0.99, 1.0,
)  # fmt: skip
"""The bounds of the bands. A band includes its lower bound; the highest also includes 1.0."""
_FEW = 12  # the fewest answers from which an anchor or a threshold is computed
_FIRST = 3  # pairs of each band that are asked about before any others
_AROUND = 0.05  # the cosine distance from an anchor within which answers are its evidence


class Answer(StrEnum):
    """How two memories relate.

    SAME: one can replace the other. MERGE: they overlap and are worth merging into one text. APART:
    they state different things, and both must stay.
    """

    SAME = "same"
    MERGE = "merge"
    APART = "apart"


@dataclass(frozen=True)
class AlikePair:
    """Two similar memories of one scope with different texts, and the cosine of their vectors.

    `key` identifies the two texts, in either order.
    """

    older: Memory
    newer: Memory
    cosine: float

    @cached_property
    def key(self) -> str:
        return " ".join(sorted((text_key(self.older.content), text_key(self.newer.content))))

    @cached_property
    def covered(self) -> bool:
        """Whether one of the two texts states everything that the other text states."""
        coverage = compare_memories(self.older, self.newer)
        return coverage.a_covers_b or coverage.b_covers_a

    @cached_property
    def has_cjk(self) -> bool:
        return has_cjk(self.older.content) or has_cjk(self.newer.content)


# --- which pairs to ask about ---------------------------------------------------------------------


def most_informative(
    pairs: Sequence[AlikePair],
    answers: Mapping[str, Answer],
    most: int,
    passed_over: Collection[str] = frozenset(),
) -> list[AlikePair]:
    """Choose up to `most` pairs to ask about next; return them, the most similar first.

    `answers`: the answers so far, by `AlikePair.key`. Pairs with an answer and pairs whose keys are
    in `passed_over` are not chosen.

    A few pairs of every band are chosen first. Then come the pairs with cosines nearest to the
    anchor from `fit_anchor`, where APART is about as likely as SAME or MERGE. Pairs without and
    with kana or Han are chosen alternately. The same arguments always give the same result.
    """
    ranked = [
        _ranked([pair for pair in pairs if pair.has_cjk is cjk], answers, passed_over)
        for cjk in (False, True)
    ]
    taken = [pair for both in zip_longest(*ranked) for pair in both if pair is not None]
    return sorted(taken[:most], key=lambda pair: (-pair.cosine, pair.key))


def _ranked(
    pairs: Sequence[AlikePair], answers: Mapping[str, Answer], passed_over: Collection[str]
) -> list[AlikePair]:
    asked = [pair for pair in pairs if pair.key in answers]
    left = [pair for pair in pairs if pair.key not in answers and pair.key not in passed_over]
    left.sort(key=lambda pair: hashlib.sha256(pair.key.encode()).digest())  # any fixed order
    first: list[AlikePair] = []
    for band, answered in zip(_by_band(left), _by_band(asked), strict=True):
        band.sort(key=lambda pair: pair.cosine >= NEAR_COPY and not pair.covered)
        first += band[: max(0, _FIRST - len(answered))]
    anchor = fit_anchor(asked, answers).anchor or LOWER
    drawn = {pair.key for pair in first}
    rest = [pair for pair in left if pair.key not in drawn]
    return first + sorted(rest, key=lambda pair: abs(pair.cosine - anchor))


# --- counting answers -----------------------------------------------------------------------------


def wilson(hits: int, of: int) -> tuple[float, float]:
    """Return the 95 % Wilson score interval of the share `hits` / `of`; (0, 1) if `of` is 0.

    E. B. Wilson (1927), Probable inference, the law of succession, and statistical inference,
    Journal of the American Statistical Association 22. The centre and the half width are (p + z²/2n
    ± z sqrt(p(1 - p)/n + z²/4n²)) / (1 + z²/n).
    """
    if of == 0:
        return 0.0, 1.0
    z = 1.959964  # the normal quantile of a two-sided 95 % interval
    share, spread = hits / of, z * z / of
    centre = (share + spread / 2) / (1 + spread)
    half = z * sqrt(share * (1 - share) / of + spread / (4 * of)) / (1 + spread)
    low, high = max(0.0, centre - half), min(1.0, centre + half)
    return (0.0 if hits == 0 else low), (1.0 if hits == of else high)


@dataclass(frozen=True)
class Counted:
    """The number of answers of each kind about a set of pairs."""

    same: int = 0
    merge: int = 0
    apart: int = 0

    def __add__(self, other: Counted) -> Counted:
        return Counted(self.same + other.same, self.merge + other.merge, self.apart + other.apart)

    @property
    def asked(self) -> int:
        return self.same + self.merge + self.apart

    @property
    def worth(self) -> int:
        """The number of answers SAME or MERGE; such pairs are worth a model call."""
        return self.same + self.merge

    def share(self, hits: int) -> float | None:
        return hits / self.asked if self.asked else None

    def interval(self, hits: int) -> tuple[float, float]:
        return wilson(hits, self.asked)


@dataclass(frozen=True)
class Band:
    """Counts of the pairs with a cosine from `low` up to `high`, and of the answers about them.

    `pairs` is the number of all these pairs, and `every` counts the answers about them.
    `covered_pairs` is the number of those pairs in which one text covers the other, and `covered`
    counts the answers about these. If `low` is below 0.95, both of these counts are 0.
    """

    low: float
    high: float
    pairs: int
    covered_pairs: int
    every: Counted
    covered: Counted


def tally(pairs: Iterable[AlikePair], answers: Mapping[str, Answer]) -> list[Band]:
    """Sort the pairs into bands, and count the answers of each band; the lowest band comes first.

    `answers`: the answers by `AlikePair.key`. Pairs below the lowest band are left out.
    """
    bands = []
    for (low, high), members in zip(pairwise(EDGES), _by_band(pairs), strict=True):
        covered = [pair for pair in members if low >= NEAR_COPY and pair.covered]
        bands.append(
            Band(
                low,
                high,
                pairs=len(members),
                covered_pairs=len(covered),
                every=_counted(members, answers),
                covered=_counted(covered, answers),
            )
        )
    return bands


def _by_band(pairs: Iterable[AlikePair]) -> list[list[AlikePair]]:
    bands: list[list[AlikePair]] = [[] for _ in pairwise(EDGES)]
    for pair in pairs:
        if pair.cosine >= EDGES[0]:
            bands[min(bisect_right(EDGES, pair.cosine), len(bands)) - 1].append(pair)
    return bands


def _counted(pairs: Iterable[AlikePair], answers: Mapping[str, Answer]) -> Counted:
    given = [answers[pair.key] for pair in pairs if pair.key in answers]
    return Counted(*(given.count(answer) for answer in Answer))


def prices(bands: Sequence[Band], memories: int) -> list[tuple[float, float | None]]:
    """Return the pair (cost, gain) of each band, for asking a model about it and all higher bands.

    `bands`: all bands, the lowest first. `memories`: the number of live memories. The cost is the
    number of questions for every 1,000 memories; covered pairs need no question. The gain is the
    expected number of pairs with the answer SAME or MERGE. The gain is None if this or a higher
    band has pairs but no answers.
    """
    costs: list[tuple[float, float | None]] = []
    for position in range(len(bands)):
        above = [band for band in bands[position:] if band.pairs]
        questions = 1_000 * sum(band.pairs - band.covered_pairs for band in above)
        shares = [(band.pairs, band.every.share(band.every.worth)) for band in above]
        known = [pairs * share for pairs, share in shares if share is not None]
        hits = sum(known) if len(known) == len(shares) else None
        costs.append((questions / max(1, memories), hits))
    return costs


# --- suggestions ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fit:
    """A fitted anchor, and the number of answers about pairs near the anchor.

    `anchor` is the cosine at which half of the pairs have the answer SAME or MERGE; None if no
    anchor could be fitted. `near` counts the answers about pairs whose cosine is at most 0.05 lower
    or higher than the anchor.
    """

    anchor: float | None
    near: Counted


@dataclass(frozen=True)
class Upper:
    """A suggested upper threshold.

    `threshold` is the lowest similarity at which a memory may replace another without asking a
    model. It is 1 if no threshold was found at which enough replacements are right. It is None if
    there are too few answers. `precision` is the estimated share of right replacements; None if
    `threshold` is 1 or None. `counted` counts the answers about the pairs that reach the threshold.
    """

    threshold: float | None
    precision: float | None
    counted: Counted


@dataclass(frozen=True)
class Suggestion:
    """A suggested scale and upper threshold, and the evidence for them.

    `scale` is None if no anchor could be fitted. `fits` has the fit for pairs without kana and Han,
    then for pairs with them.
    """

    scale: Scale | None
    fits: tuple[Fit, Fit]
    upper: Upper


def fit_anchor(pairs: Sequence[AlikePair], answers: Mapping[str, Answer]) -> Fit:
    """Fit the cosine (the anchor) at which half of the answers are SAME or MERGE.

    `answers`: the answers by `AlikePair.key`. The anchor lies within the cosines of the pairs that
    have an answer, and below 0.95. It is None if there are fewer than 12 answers, if none or all of
    them are APART, or if the share of SAME and MERGE does not rise with the cosine.
    """
    asked = [pair for pair in pairs if pair.key in answers]
    cosines = np.array([pair.cosine for pair in asked])
    worth = np.array([answers[pair.key] is not Answer.APART for pair in asked], dtype=np.float64)
    varies = len(asked) >= _FEW and worth.min() != worth.max()
    crossing = _logistic_half(cosines, worth) if varies else None
    if crossing is None:
        return Fit(None, Counted())
    bounds = (float(cosines.min()), min(float(cosines.max()), NEAR_COPY - 0.01))
    anchor = round(float(np.clip(crossing, *bounds)), 3)
    return Fit(
        anchor, _counted([pair for pair in asked if abs(pair.cosine - anchor) <= _AROUND], answers)
    )


def _logistic_half(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> float | None:
    """Return the x at which a fitted logistic curve is 0.5; None if the curve does not rise.

    `x` and `y` have shape (n,), and each y is 0 or 1. The curve is fitted by Newton's method. A
    small penalty keeps the slope finite if some x separates all zeros from all ones.
    """
    middle, spread = float(x.mean()), float(x.std()) or 1.0
    design = np.stack([np.ones_like(x), (x - middle) / spread], axis=1)
    penalty = np.diag([0.0, 0.05])
    weights = np.zeros(2)
    for _ in range(50):
        expected = 1.0 / (1.0 + np.exp(-np.clip(design @ weights, -30.0, 30.0)))
        gradient = design.T @ (y - expected) - penalty @ weights
        curvature = (design.T * (expected * (1.0 - expected))) @ design + penalty
        step = np.linalg.solve(curvature + 1e-9 * np.eye(2), gradient)
        weights = weights + np.clip(step, -2.0, 2.0)
    return None if weights[1] <= 0.0 else float(middle - spread * weights[0] / weights[1])


def suggest(
    pairs: Sequence[AlikePair],
    answers: Mapping[str, Answer],
    now: Scale,
    wanted: float,
    *,
    guard: bool,
) -> Suggestion:
    """Return the scale and the upper threshold that the answers suggest.

    `answers`: the answers by `AlikePair.key`. `now`: the store's present scale. `wanted` and
    `guard` are as in `suggest_upper`.
    """
    others, cjk = (
        fit_anchor([pair for pair in pairs if pair.has_cjk is cjk], answers)
        for cjk in (False, True)
    )
    return Suggestion(
        suggest_scale(now, others, cjk),
        (others, cjk),
        suggest_upper(tally(pairs, answers), wanted, guard=guard),
    )


def suggest_scale(now: Scale, others: Fit, cjk: Fit) -> Scale | None:
    """Return a copy of the scale `now` with the fitted anchors; None if no anchor could be fitted.

    `cjk` is the fit for pairs with kana or Han, `others` the fit for all other pairs. An anchor
    that could not be fitted keeps its value in `now`. The anchor for kana and Han is at least
    as high as the other anchor.
    """
    if others.anchor is None and cjk.anchor is None:
        return None
    anchor = now.anchor if others.anchor is None else others.anchor
    kana_han = now.cjk_anchor if cjk.anchor is None else cjk.anchor
    return Scale(anchor=anchor, anchor_kana_han=max(anchor, kana_han))


def suggest_upper(bands: Sequence[Band], wanted: float, *, guard: bool) -> Upper:
    """Return the lowest upper threshold (0.95 or higher) at which enough replacements are right.

    If a pair of memories reaches the threshold, one memory replaces the other. If `guard` is true,
    this is done only in covered pairs, so that other pairs do not count. A replacement is right if
    the answer about the pair is SAME. At least the share `wanted` (0 to 1) of the replacements must
    be right. The share is estimated from the answers in each band, weighted by the band's number of
    pairs. The search goes from the highest band down. It ends where the share is too small, or
    where a band has pairs but no answers.
    """
    best = Upper(1.0, None, Counted())
    pairs, right, known = 0, 0.0, Counted()
    for band in reversed([band for band in bands if band.low >= NEAR_COPY]):
        count, counted = (band.covered_pairs, band.covered) if guard else (band.pairs, band.every)
        share = counted.share(counted.same)
        if not count:
            continue
        if share is None:
            break
        pairs, right, known = pairs + count, right + count * share, known + counted
        if right / pairs < wanted:
            break
        best = Upper(band.low, right / pairs, known)
    return best if known.asked >= _FEW else Upper(None, None, Counted())

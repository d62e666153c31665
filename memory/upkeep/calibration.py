"""A scale that fits one store and embedder: pairs chosen, answers counted, anchors fitted. Pure."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise, zip_longest

import numpy as np
import numpy.typing as npt

from memory.coverage import compare
from memory.models import LOWER, NEAR_COPY, Memory, Scale
from memory.text import has_cjk, text_key
from memory.upkeep.intervals import wilson

EDGES = (
    0.40, 0.50, 0.55, 0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.90, 0.95, 0.97, 0.98, 0.99, 1.0,
)  # fmt: skip
"""Bands of cosine, each from one edge up to the next, the last one with both."""
FEW = 12
"""Fewer answers say nothing."""
_FIRST = 3
"""So many of each band are asked before any other."""
_AROUND = 0.05
"""Answers so near to an anchor say how sure it is."""


class Answer(StrEnum):
    """What is said of two memories."""

    SAME = "same"
    """One of them can stand for both."""
    MERGE = "merge"
    """They overlap: one memory made of both would be better."""
    APART = "apart"


@dataclass(frozen=True)
class AlikePair:
    """Two memories of one scope with different texts, the older first."""

    older: Memory
    newer: Memory
    cosine: float

    @cached_property
    def key(self) -> str:
        """Names the two texts, without holding them, whichever came first."""
        keys = sorted((text_key(self.older.content), text_key(self.newer.content)))
        return " ".join(keys)

    @cached_property
    def lot(self) -> str:
        """Its place among pairs that are worth the same: the same one every time."""
        return hashlib.sha256(self.key.encode()).hexdigest()

    @cached_property
    def covered(self) -> bool:
        """Whether the guard would let one of the two replace the other."""
        found = compare(self.older.content, self.newer.content)
        return found.a_covers_b or found.b_covers_a

    @cached_property
    def strict(self) -> bool:
        """Whether kana or Han stands in either text."""
        return has_cjk(self.older.content) or has_cjk(self.newer.content)


@dataclass(frozen=True)
class Counted:
    """How often each was said."""

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
        """Same, or worth merging."""
        return self.same + self.merge

    def share(self, hits: int) -> float | None:
        return hits / self.asked if self.asked else None

    def interval(self, hits: int) -> tuple[float, float]:
        """95 %, Wilson's."""
        return wilson(hits, self.asked)


@dataclass(frozen=True)
class Band:
    """The pairs from cosine `low` up to `high`: how many, and what was said of those asked."""

    low: float
    high: float
    pairs: int
    covered_pairs: int
    every: Counted
    covered: Counted


@dataclass(frozen=True)
class Price:
    """What it comes to, were everything from a band on asked about."""

    questions: float
    """For each 1,000 memories; what is covered from 0.95 on is replaced unasked."""
    found: float | None
    """How many of the pairs are the same or worth merging, by the answers' shares; None where a
    band has pairs and no answers."""


@dataclass(frozen=True)
class Fit:
    """Where every second pair is the same or worth merging; None where the answers do not say."""

    anchor: float | None
    near: Counted
    """The answers around it."""


@dataclass(frozen=True)
class Upper:
    """From where on replacing is right as often as wanted; 1 where nowhere, None where unknown."""

    threshold: float | None
    precision: float | None
    counted: Counted
    """The answers that this rests on."""


UNKNOWN = Upper(None, None, Counted())


@dataclass(frozen=True)
class Suggestion:
    """What to write into the configuration, and what it rests on."""

    scale: Scale | None
    fits: tuple[Fit, Fit]
    """Of other scripts, and of pairs with kana or Han."""
    upper: Upper


# --- what is asked --------------------------------------------------------------------------------


def most_informative(
    pairs: Sequence[AlikePair],
    answers: Mapping[str, Answer],
    most: int,
    passed_over: Collection[str] = frozenset(),
) -> list[AlikePair]:
    """The pairs to ask about next, most similar first: the same ones for the same answers.

    A few of every band first; then those about which the answers so far leave the most doubt,
    which are those around the anchor. Pairs with kana or Han and others, which have an anchor of
    their own each, take turns. Keys in `passed_over` are left alone.
    """
    by_script = [[pair for pair in pairs if pair.strict is strict] for strict in (False, True)]
    ranked = [_ranked(some, answers, passed_over) for some in by_script]
    taken = [pair for both in zip_longest(*ranked) for pair in both if pair is not None]
    return sorted(taken[:most], key=lambda pair: (-pair.cosine, pair.key))


def _ranked(
    pairs: Sequence[AlikePair], answers: Mapping[str, Answer], passed_over: Collection[str]
) -> list[AlikePair]:
    asked = [pair for pair in pairs if pair.key in answers]
    left = [pair for pair in pairs if pair.key not in answers and pair.key not in passed_over]
    left.sort(key=lambda pair: pair.lot)
    first = _first_of_each_band(left, asked)
    anchor = fit_anchor(asked, answers).anchor or LOWER
    drawn = {pair.key for pair in first}
    rest = [pair for pair in left if pair.key not in drawn]
    rest.sort(key=lambda pair: abs(pair.cosine - anchor))
    return first + rest


def _first_of_each_band(left: Sequence[AlikePair], asked: Sequence[AlikePair]) -> list[AlikePair]:
    """Of near-copies those that would be replaced unasked come first."""
    found: list[AlikePair] = []
    for some, known in zip(_by_band(left), _by_band(asked), strict=True):
        some.sort(key=lambda pair: pair.cosine >= NEAR_COPY and not pair.covered)
        found += some[: max(0, _FIRST - len(known))]
    return found


# --- what was said --------------------------------------------------------------------------------


def tally(pairs: Iterable[AlikePair], answers: Mapping[str, Answer]) -> list[Band]:
    """What is known about each band, the lowest first."""
    edges = pairwise(EDGES)
    return [
        _band(low, high, some, answers)
        for (low, high), some in zip(edges, _by_band(pairs), strict=True)
    ]


def _by_band(pairs: Iterable[AlikePair]) -> list[list[AlikePair]]:
    bands: list[list[AlikePair]] = [[] for _ in pairwise(EDGES)]
    for pair in pairs:
        if pair.cosine >= EDGES[0]:
            bands[min(bisect_right(EDGES, pair.cosine), len(bands)) - 1].append(pair)
    return bands


def _band(
    low: float, high: float, pairs: Sequence[AlikePair], answers: Mapping[str, Answer]
) -> Band:
    covered = [pair for pair in pairs if low >= NEAR_COPY and pair.covered]
    return Band(
        low=low,
        high=high,
        pairs=len(pairs),
        covered_pairs=len(covered),
        every=counted(pairs, answers),
        covered=counted(covered, answers),
    )


def counted(pairs: Iterable[AlikePair], answers: Mapping[str, Answer]) -> Counted:
    """What was said of these pairs."""
    said = [answers[pair.key] for pair in pairs if pair.key in answers]
    return Counted(*(said.count(answer) for answer in Answer))


def prices(bands: Sequence[Band], memories: int) -> list[Price]:
    """For each of the bands."""
    found: list[Price] = []
    for place in range(len(bands)):
        above = [band for band in bands[place:] if band.pairs]
        asked = sum(band.pairs - band.covered_pairs for band in above)
        shares = [(band.pairs, band.every.share(band.every.worth)) for band in above]
        known = [pairs * share for pairs, share in shares if share is not None]
        whole = len(known) == len(shares)
        found.append(Price(1_000 * asked / max(1, memories), sum(known) if whole else None))
    return found


# --- what follows ---------------------------------------------------------------------------------


def fit_anchor(pairs: Sequence[AlikePair], answers: Mapping[str, Answer]) -> Fit:
    """The cosine at which a logistic curve through the answers is one half.

    Not outside of what was asked. None where the answers are few or all the same, and where more
    cosine makes it no likelier.
    """
    asked = [pair for pair in pairs if pair.key in answers]
    cosines = np.array([pair.cosine for pair in asked])
    worth = np.array([answers[pair.key] is not Answer.APART for pair in asked], dtype=np.float64)
    if len(asked) < FEW or worth.min() == worth.max():
        return Fit(None, Counted())
    crossing = _logistic_half(cosines, worth)
    if crossing is None:
        return Fit(None, Counted())
    bounds = (float(cosines.min()), min(float(cosines.max()), NEAR_COPY - 0.01))
    anchor = round(float(np.clip(crossing, *bounds)), 3)
    near = [pair for pair in asked if abs(pair.cosine - anchor) <= _AROUND]
    return Fit(anchor, counted(near, answers))


def _logistic_half(
    x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], rounds: int = 50, ridge: float = 0.05
) -> float | None:
    """Where log odds that are linear in x are even, by Newton's method; None where they fall.

    The ridge holds the slope where the two sides part cleanly.
    """
    middle, spread = float(x.mean()), float(x.std()) or 1.0
    design = np.stack([np.ones_like(x), (x - middle) / spread], axis=1)
    penalty = np.diag([0.0, ridge])
    weights = np.zeros(2)
    for _ in range(rounds):
        expected = 1.0 / (1.0 + np.exp(-np.clip(design @ weights, -30.0, 30.0)))
        gradient = design.T @ (y - expected) - penalty @ weights
        curvature = (design.T * (expected * (1.0 - expected))) @ design + penalty
        step = np.linalg.solve(curvature + 1e-9 * np.eye(2), gradient)
        weights = weights + np.clip(step, -2.0, 2.0)
    if weights[1] <= 0.0:
        return None
    return float(middle - spread * weights[0] / weights[1])


def suggest(
    pairs: Sequence[AlikePair],
    answers: Mapping[str, Answer],
    now: Scale,
    wanted: float,
    *,
    guard: bool,
) -> Suggestion:
    """What the answers say about a store whose scale is `now`."""
    fits = (
        fit_anchor([pair for pair in pairs if not pair.strict], answers),
        fit_anchor([pair for pair in pairs if pair.strict], answers),
    )
    upper = suggest_upper(tally(pairs, answers), wanted, guard=guard)
    return Suggestion(suggest_scale(now, *fits), fits, upper)


def suggest_scale(now: Scale, others: Fit, strict: Fit) -> Scale | None:
    """The scale with what was fitted in place of what is; None where nothing was."""
    if others.anchor is None and strict.anchor is None:
        return None
    anchor = now.anchor if others.anchor is None else others.anchor
    kana_han = now.strict_anchor if strict.anchor is None else strict.anchor
    return Scale(anchor=anchor, anchor_kana_han=max(anchor, kana_han))


def suggest_upper(bands: Sequence[Band], wanted: float, *, guard: bool) -> Upper:
    """The lowest threshold from 0.95 on at which what is replaced unasked is right as often.

    Of the pairs at and above it (all, or with the guard those that are covered); each band counts
    as often as it has pairs. A band that has pairs and no answers ends the walk: nothing is known
    about it; a few answers say nothing either.
    """
    threshold, precision, answers = None, None, Counted()
    pairs, right, said = 0, 0.0, Counted()
    for band in reversed([band for band in bands if band.low >= NEAR_COPY]):
        there, counted = _replaced(band, guard)
        share = counted.share(counted.same)
        if not there:
            continue
        if share is None:
            break
        pairs, right, said = pairs + there, right + there * share, said + counted
        if right / pairs < wanted:
            threshold = threshold or 1.0
            break
        threshold, precision, answers = band.low, right / pairs, said
    return Upper(threshold, precision, answers) if said.asked >= FEW else UNKNOWN


def _replaced(band: Band, guard: bool) -> tuple[int, Counted]:
    return (band.covered_pairs, band.covered) if guard else (band.pairs, band.every)

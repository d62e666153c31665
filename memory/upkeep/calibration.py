"""Thresholds that fit one store and embedder: pairs drawn by similarity, answers counted. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from memory.models import Memory
from memory.text import compare, text_key
from memory.upkeep.intervals import wilson

EDGES = (0.80, 0.85, 0.90, 0.925, 0.95, 0.97, 0.98, 0.99, 1.0)
"""Bands of similarity, each from one edge up to the next, the last one with both."""
WORTH_ASKING = 0.2
"""The share of duplicates from which asking a judge about a pair is worth its price."""


@dataclass(frozen=True)
class AlikePair:
    """Two memories of one scope with different texts, the older first."""

    older: Memory
    newer: Memory
    similarity: float

    @property
    def key(self) -> str:
        """Names the two texts, without holding them, whichever came first."""
        keys = sorted((text_key(self.older.content), text_key(self.newer.content)))
        return " ".join(keys)

    @property
    def covered(self) -> bool:
        """Whether the guard would let one of the two replace the other."""
        found = compare(self.older.content, self.newer.content)
        return found.a_covers_b or found.b_covers_a


@dataclass(frozen=True)
class Counted:
    """Of `asked` pairs, how many were duplicates."""

    asked: int
    duplicates: int

    @property
    def precision(self) -> float | None:
        return self.duplicates / self.asked if self.asked else None

    @property
    def interval(self) -> tuple[float, float]:
        """95 %, Wilson's."""
        return wilson(self.duplicates, self.asked)


@dataclass(frozen=True)
class Band:
    """The pairs from `low` up to `high`: how many there are, and what was said of those asked."""

    low: float
    high: float
    pairs: int
    covered_pairs: int
    every: Counted
    covered: Counted


@dataclass(frozen=True)
class Suggestion:
    """Thresholds; `upper` is 1 where not even the most similar pairs are precise enough."""

    upper: float
    lower: float
    precision: float | None
    """What is to be expected at and above `upper`; None where nothing is known."""
    counted: Counted
    """The answers that this rests on."""


def sample(pairs: Iterable[AlikePair], per_band: int) -> list[AlikePair]:
    """At most so many pairs of each band, most similar first; the same ones every time."""
    drawn: list[AlikePair] = []
    for band in _by_band(pairs).values():
        drawn += sorted(band, key=_lot)[:per_band]
    return sorted(drawn, key=lambda pair: (-pair.similarity, pair.key))


def _lot(pair: AlikePair) -> str:
    return hashlib.sha256(pair.key.encode()).hexdigest()


def tally(pairs: Iterable[AlikePair], answers: Mapping[str, bool]) -> list[Band]:
    """What is known about each band, the lowest first; `answers` by the pairs' keys."""
    return [_band(low, high, some, answers) for (low, high), some in _by_band(pairs).items()]


def _by_band(pairs: Iterable[AlikePair]) -> dict[tuple[float, float], list[AlikePair]]:
    bands: dict[tuple[float, float], list[AlikePair]] = {edges: [] for edges in pairwise(EDGES)}
    for pair in pairs:
        for low, high in bands:
            if low <= pair.similarity < high or (high == 1.0 and pair.similarity >= low):
                bands[low, high].append(pair)
    return bands


def _band(low: float, high: float, pairs: Sequence[AlikePair], answers: Mapping[str, bool]) -> Band:
    covered = [pair for pair in pairs if pair.covered]
    return Band(
        low=low,
        high=high,
        pairs=len(pairs),
        covered_pairs=len(covered),
        every=_counted(pairs, answers),
        covered=_counted(covered, answers),
    )


def _counted(pairs: Sequence[AlikePair], answers: Mapping[str, bool]) -> Counted:
    said = [answers[pair.key] for pair in pairs if pair.key in answers]
    return Counted(asked=len(said), duplicates=sum(said))


def suggest(bands: Sequence[Band], wanted: float, *, guard: bool) -> Suggestion:
    """The lowest thresholds that keep what is wanted.

    `upper`: where the pairs that would be replaced at and above it (all, or with the guard those
    that are covered) are duplicates at least as often as wanted; each band counts as often as it
    has pairs. `lower`: where at least one pair in five is still a duplicate. A band that has
    pairs and no answers ends the walk: nothing is known about it.
    """
    upper, precision = _upper(bands, wanted, guard)
    above = [band.covered if guard else band.every for band in bands if band.low >= upper]
    counted = Counted(sum(one.asked for one in above), sum(one.duplicates for one in above))
    lower = upper
    for band in reversed([band for band in bands if band.high <= upper and band.pairs]):
        if (band.every.precision or 0.0) < WORTH_ASKING:
            break
        lower = band.low
    return Suggestion(upper, lower, precision, counted)


def _upper(bands: Sequence[Band], wanted: float, guard: bool) -> tuple[float, float | None]:
    upper, reached = 1.0, None
    pairs, duplicates = 0, 0.0
    for band in reversed(bands):
        there = band.covered_pairs if guard else band.pairs
        counted = band.covered if guard else band.every
        if there and counted.precision is None:
            break
        pairs += there
        duplicates += there * (counted.precision or 0.0)
        if pairs and duplicates / pairs < wanted:
            break
        if there:
            upper, reached = band.low, duplicates / pairs
    return upper, reached

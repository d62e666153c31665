"""Words and vectors together: BM25 beside the cosine, each as standard scores, added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from memory.ledger import Postings

Floats = npt.NDArray[np.float64]
_SATURATION, _BY_LENGTH = 1.2, 0.75
"""BM25's k1 and b, as Robertson and Walker found them; others score alike here."""


class WordScores(NamedTuple):
    """The BM25 scores of the memories that have any of the words; all others score 0."""

    numbers: npt.NDArray[np.int64]
    """Of the memories, in order."""
    by_number: Floats
    """The score of each number from the first of them on; the last score is 0."""
    memories: int
    """How many there are in all."""

    def best(self, k: int) -> list[int]:
        """Return the numbers of the k memories that score most, in no order."""
        best = self.numbers
        if k < len(best):
            best = best[np.argpartition(-self.by_number[best - best[0]], k)[:k]]
        return [int(number) for number in best]

    def of(self, numbers: npt.NDArray[np.int64]) -> Floats:
        """Return the standard scores of these memories, among all; 0 where all score the same."""
        if not len(self.numbers):
            return np.zeros(len(numbers))
        scores = self.by_number[self.numbers - self.numbers[0]]
        mean = scores.sum() / self.memories
        variance = np.square(scores).sum() / self.memories - mean * mean
        if variance <= 1e-12:
            return np.zeros(len(numbers))
        offsets = numbers - self.numbers[0]
        offsets[(offsets < 0) | (offsets >= len(self.by_number))] = -1
        standard: Floats = (self.by_number[offsets] - mean) / np.sqrt(variance)
        return standard


def bm25(postings: Postings) -> WordScores:
    """Score the memories by the terms that they have."""
    _, mean_length, terms, numbers, counts, lengths = postings
    memories = max(postings.memories, 1)
    if not len(numbers):
        return WordScores(np.empty(0, np.int64), np.zeros(1), memories)
    having = np.bincount(terms)
    rarity = np.log1p((memories - having + 0.5) / (having + 0.5))[terms]
    length = 1 - _BY_LENGTH + _BY_LENGTH / mean_length * lengths
    weights = rarity * counts * (_SATURATION + 1) / (counts + _SATURATION * length)
    first = int(numbers.min())
    span = int(numbers.max()) - first + 2
    scores = np.bincount(numbers - first, weights, minlength=span).astype(np.float64)
    return WordScores(np.flatnonzero(scores) + first, scores, memories)


class Spread(NamedTuple):
    """The mean and the standard deviation of a question's cosines with the memories of a scope."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, cosines: npt.NDArray[np.floating[Any]]) -> Spread:
        if not len(cosines):
            return cls(0.0, 0.0)
        return cls(float(cosines.mean(dtype=np.float64)), float(cosines.std(dtype=np.float64)))

    def standard(self, cosines: npt.NDArray[np.floating[Any]]) -> Floats:
        """Return the standard scores of cosines; 0 where all in the scope are the same."""
        if self.deviation < 1e-6:
            return np.zeros(len(cosines))
        scores = (cosines - self.mean) / self.deviation
        return scores.astype(np.float64)


class Best(NamedTuple):
    """The memories of a scope that answer a question best, best first."""

    ids: Sequence[str]
    spread: Spread

"""Ranking by words and by vector: the sum of the standard scores of BM25 and of the cosine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from memory.ledger import Postings

Floats = npt.NDArray[np.float64]
_SATURATION, _BY_LENGTH = 1.2, 0.75
"""BM25's parameters k1 and b, as found by Robertson and Walker. Other values rank about as well."""


class WordScores(NamedTuple):
    """The BM25 scores of memories for a question. Memories with no word of the question score 0."""

    numbers: npt.NDArray[np.int64]
    """The ledger's numbers of the memories that contain any of the words, ascending."""
    by_number: Floats
    """The scores; the memory with number `n` has position `n - numbers[0]`.

    The last score is always 0; it is used for all numbers without a position of their own.
    """
    memories: int
    """The number of all memories that were scored, including those that score 0."""

    def best(self, k: int) -> list[int]:
        """Return the numbers of the `k` memories with the highest scores, in no fixed order."""
        best = self.numbers
        if k < len(best):
            best = best[np.argpartition(-self.by_number[best - best[0]], k)[:k]]
        return [int(number) for number in best]

    def of(self, numbers: npt.NDArray[np.int64]) -> Floats:
        """Return the standard scores (n,) of the memories with these numbers (n,).

        A standard score is the distance from the mean of all memories, in standard deviations. All
        are 0 if all memories score the same.
        """
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
    """Return the BM25 score of each memory for the words of a question, given as `postings`."""
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
    """The mean and the standard deviation of a question's cosines with a scope's memories."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, cosines: npt.NDArray[np.floating[Any]]) -> Spread:
        if not len(cosines):
            return cls(0.0, 0.0)
        return cls(float(cosines.mean(dtype=np.float64)), float(cosines.std(dtype=np.float64)))

    def standard(self, cosines: npt.NDArray[np.floating[Any]]) -> Floats:
        """Return how many standard deviations each cosine is above the mean, as an array (n,).

        The result is all zeros if the deviation is nearly zero.
        """
        if self.deviation < 1e-6:
            return np.zeros(len(cosines))
        scores = (cosines - self.mean) / self.deviation
        return scores.astype(np.float64)


class Best(NamedTuple):
    """The ids of the memories that answer a question best, best first.

    `spread` is the mean and deviation of the question's cosines with all memories of the scope.
    """

    ids: Sequence[str]
    spread: Spread

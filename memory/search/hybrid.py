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
_SPARSE = 32
"""Numbers that lie further apart than this are sorted, not counted out."""


class WordScores(NamedTuple):
    """The memories that have any of the words, in order of number, and their scores.

    `memories` is how many there are in all: the others score 0.
    """

    numbers: npt.NDArray[np.int64]
    scores: Floats
    memories: int

    def best(self, k: int) -> list[int]:
        """The numbers of the k that score most."""
        some = self.numbers
        if k < len(some):
            some = some[np.argpartition(-self.scores, k)[:k]]
        return [int(number) for number in some]

    def of(self, numbers: npt.NDArray[np.int64]) -> Floats:
        """The standard scores of these memories, among all; 0 where all score the same."""
        mean = self.scores.sum() / self.memories
        variance = np.square(self.scores).sum() / self.memories - mean * mean
        if variance <= 1e-12:
            return np.zeros(len(numbers))
        first, last = int(self.numbers[0]), int(self.numbers[-1])
        if last - first < _SPARSE * len(numbers):
            dense = np.zeros(last - first + 2)
            dense[self.numbers - first] = self.scores
            places = numbers - first
            places[(places < 0) | (places > last - first)] = -1
            scores = dense[places]
        else:
            places = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
            scores = np.where(self.numbers[places] == numbers, self.scores[places], 0.0)
        standard: Floats = (scores - mean) / np.sqrt(variance)
        return standard


def bm25(postings: Postings) -> WordScores:
    """Score the memories by the terms that they have."""
    _, mean_length, terms, numbers, counts, lengths = postings
    memories = max(postings.memories, 1)
    if not len(numbers):
        return WordScores(np.empty(0, np.int64), np.empty(0), memories)
    having = np.bincount(terms)
    rarity = np.log1p((memories - having + 0.5) / (having + 0.5))[terms]
    length = 1 - _BY_LENGTH + _BY_LENGTH / mean_length * lengths
    weights = rarity * counts * (_SATURATION + 1) / (counts + _SATURATION * length)
    first, last = int(numbers.min()), int(numbers.max())
    if last - first < _SPARSE * len(numbers):
        scores: Floats = np.bincount(numbers - first, weights).astype(np.float64)
        places = np.flatnonzero(scores)
        return WordScores(places + first, scores[places], memories)
    known, places = np.unique(numbers, return_inverse=True)
    scores = np.bincount(places, weights).astype(np.float64)
    return WordScores(known, scores, memories)


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

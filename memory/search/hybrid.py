"""Words and vectors together: BM25 beside the cosine, each as standard scores, added."""

from __future__ import annotations

from typing import NamedTuple

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
        scores = np.zeros(len(numbers))
        places = np.searchsorted(self.numbers, numbers)
        places[places == len(self.numbers)] = 0
        known = self.numbers[places] == numbers
        scores[known] = self.scores[places[known]]
        standard: Floats = (scores - mean) / np.sqrt(variance)
        return standard


def bm25(postings: Postings) -> WordScores:
    """Score the memories by the terms that they have."""
    if not postings.of_terms:
        return WordScores(np.empty(0, np.int64), np.empty(0), max(postings.memories, 1))
    weights = []
    for _, counts, lengths in postings.of_terms:
        rarity = np.log1p((postings.memories - len(counts) + 0.5) / (len(counts) + 0.5))
        length = 1 - _BY_LENGTH + _BY_LENGTH * lengths / postings.mean_length
        weights.append(rarity * counts * (_SATURATION + 1) / (counts + _SATURATION * length))
    numbers = np.concatenate([one.numbers for one in postings.of_terms])
    first, last = int(numbers.min()), int(numbers.max())
    if last - first < _SPARSE * len(numbers):
        scores: Floats = np.bincount(numbers - first, np.concatenate(weights)).astype(np.float64)
        places = np.flatnonzero(scores)
        return WordScores(places + first, scores[places], postings.memories)
    known, places = np.unique(numbers, return_inverse=True)
    scores = np.bincount(places, np.concatenate(weights)).astype(np.float64)
    return WordScores(known, scores, postings.memories)


def standard(cosines: Floats, among: Floats) -> Floats:
    """The standard scores of cosines, among others; 0 where these are all the same."""
    deviation = float(among.std())
    if deviation < 1e-6:
        return np.zeros(len(cosines))
    scores: Floats = (cosines - among.mean()) / deviation
    return scores

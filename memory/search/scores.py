"""Scores of memories: by vector (cosine), by words (BM25), and by both together."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from memory.ledger import Postings, Reader
from memory.models import PLAIN, Row, Scale, Scope, SearchResult, Vector, cosines_of
from memory.text import has_cjk, search_terms

F = TypeVar("F", np.float32, np.float64)
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_ALONE = {1: 8_192, 2: 480_000}
"""The maximum number of multiplications in a product for which BLAS starts no threads.

The key is the `ndim` of the product's second factor: 1 for a vector, 2 for a matrix.
"""
_SATURATION, _BY_LENGTH = 1.2, 0.75
"""BM25's parameters k1 and b, as found by Robertson and Walker. Other values rank about as well."""
SHORTLIST = 50
"""The minimum size of the two selections of a search if the user's vectors are not in RAM.

One selection is made by words, the other by vector.
"""
SPARE = 10
"""How many more memories a search selects than the `k` that it returns.

The selection from vectors in RAM is less precise: it may rank one of the best `k` slightly too low.
"""
_OF_A_PART = 4
"""If a scope has several fields, this many times as many memories are selected by words.

Some memories that are selected by words may be outside of such a scope.
"""
_SAMPLE = 256


# --- by vector ---


def multiplied(rows: npt.NDArray[F], others: npt.NDArray[F]) -> npt.NDArray[F]:
    """Return the matrix product `rows @ others`, computed on the calling thread.

    It is computed in parts so small that BLAS starts no threads. BLAS threads would keep a core
    busy for 30 ms after each product.
    """
    block = max(1, _ALONE[others.ndim] // others.size)
    whole = len(rows) // block * block
    blocks = rows[:whole].reshape(-1, block, rows.shape[1]) @ others
    return np.concatenate([blocks.reshape(whole, *others.shape[1:]), rows[whole:] @ others])


class Probe(NamedTuple):
    """A text and its vector, with which stored memories are compared."""

    text: str
    vector: Vector


def ranked(reader: Reader, probe: Probe, rows: Collection[Row], scale: Scale) -> list[SearchResult]:
    """Return the memories in `rows`, most similar to `probe` first.

    Of equally similar memories, the newest comes first. Memories without a vector in the ledger are
    left out. `scale` converts cosines to the similarities by which the memories are sorted.
    """
    known = reader.vectors.of(row.text_key for row in rows)
    candidates = [row for row in rows if row.text_key in known]
    if not candidates:
        return []
    others = np.stack([known[row.text_key] for row in candidates])
    cosines = cosines_of(others, probe.vector[None])
    is_cjk = has_cjk(probe.text)
    either = np.array([is_cjk or has_cjk(row.memory.content) for row in candidates])
    scores = scale.similarities(cosines, either)
    hits = [
        SearchResult(row.memory, score, cosine)
        for row, score, cosine in zip(candidates, scores.tolist(), cosines.tolist(), strict=True)
    ]
    newest_first = np.array([-row.memory.timestamp.timestamp() for row in candidates])
    return [hits[n] for n in np.lexsort((newest_first, -scores)).tolist()]


# --- by words and vector ---


class WordScores(NamedTuple):
    """The BM25 scores of a user's memories for one search text."""

    numbers: npt.NDArray[np.int64]
    """The numbers that identify memories in the ledger, ascending.

    Only memories that contain a word of the search text are listed.
    """
    by_number: Floats
    """The score of the memory with the number `n` is at position `n - numbers[0]`.

    The array ends with an extra 0: the score of all memories whose number is below or above the
    numbers in `numbers`.
    """
    memories: int
    """How many memories were scored, including those that score 0."""

    def best(self, k: int) -> list[int]:
        best = self.numbers
        if k < len(best):
            best = best[np.argpartition(-self.by_number[best - best[0]], k)[:k]]
        return [int(number) for number in best]

    def of(self, numbers: npt.NDArray[np.int64]) -> Floats:
        """Return the standard scores of the memories with these numbers; both are arrays (n,).

        A standard score is the distance from the mean score, in standard deviations.
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
    """Return the BM25 score of each memory for the words of a search text."""
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
    """The mean and the standard deviation of a question's cosines with a scope's memories.

    They turn a cosine into a standard score: its distance from the mean, in standard deviations. If
    the cosines hardly differ, all standard scores are 0.
    """

    mean: float
    deviation: float

    @classmethod
    def of(cls, cosines: npt.NDArray[np.floating[Any]]) -> Spread:
        return cls(float(cosines.mean(dtype=np.float64)), float(cosines.std(dtype=np.float64)))

    def standard(self, cosines: npt.NDArray[np.floating[Any]]) -> Floats:
        if self.deviation < 1e-6:
            return np.zeros(len(cosines))
        return ((cosines - self.mean) / self.deviation).astype(np.float64)


class Best(NamedTuple):
    """The ids of the memories that answer a question best, best first.

    `spread`: the mean and the standard deviation that turned their cosines into standard scores.
    """

    ids: Sequence[str]
    spread: Spread


def word_scores(reader: Reader, text: str, scope: Scope) -> WordScores:
    """Return the BM25 scores of all memories of the scope's user for the words of a text.

    If the scope has no field `user`, the memories of all users are scored.
    """
    user, everyone = _whose(scope)
    return bm25(reader.terms.postings(search_terms(text), user, everyone=everyone))


def best_of_shortlist(
    reader: Reader,
    probe: Probe,
    near: Sequence[str],
    words: WordScores,
    scope: Scope,
    k: int,
    among: Collection[str] | None = None,
) -> Best:
    """Return the best `k + SPARE` memories in `scope`, for a user whose vectors are not in RAM.

    They are chosen from `near`, which an index selected by vector, and from the best in `words`.
    `among`: only memories with these ids.
    """
    wanted = max(k, SHORTLIST) * (_OF_A_PART if len(scope.values) > 1 else 1)
    rows = reader.terms.candidates(near, words.best(wanted))
    rows = [row for row in rows if scope.holds(row.values) and (among is None or row.id in among)]
    if not rows:
        return Best([], Spread(0.0, 0.0))
    sample = rows
    if words.memories > len(rows):
        user, everyone = _whose(scope)
        drawn = reader.terms.sample(_SAMPLE, user, everyone=everyone)
        sample = [row for row in drawn if scope.holds(row.values)] or rows
    vector = probe.vector[None]
    spread = Spread.of(cosines_of(np.stack([row.vector for row in sample]), vector))
    cosines = cosines_of(np.stack([row.vector for row in rows]), vector)
    scores = spread.standard(cosines) + words.of(np.array([row.number for row in rows]))
    return Best([rows[position].id for position in np.argsort(-scores)[: k + SPARE]], spread)


def results(
    reader: Reader, probe: Probe, best: Best, words: WordScores, k: int
) -> list[SearchResult]:
    """Return the `k` live memories of `best` with the highest scores, best first.

    A score is the sum of two standard scores, of the cosine and of BM25. Of equal scores, the
    higher cosine comes first, then the newer memory. A result's `similarity` is its plain cosine.
    """
    rows = [row for row in reader.memories.rows(best.ids).values() if row.live]
    hits = ranked(reader, probe, rows, PLAIN)
    number_of = {row.memory.id: row.seq for row in rows}
    numbers = np.array([number_of[hit.memory.id] for hit in hits], np.int64)
    cosines = np.array([hit.similarity for hit in hits])
    scores = np.round(best.spread.standard(cosines) + words.of(numbers), 6)
    order = np.lexsort((-numbers, -cosines, -scores))[:k]
    return [replace(hits[n], relevance=float(scores[n])) for n in order]


def _whose(scope: Scope) -> tuple[str | None, bool]:
    return scope.user, "user" not in dict(scope.values)

"""Ranking: by similarity to a text, and by words and vector together (BM25 and cosine)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from memory.ledger import Postings, RankedRow, Reader, Row
from memory.models import PLAIN, Scale, Scope, SearchResult, Vector
from memory.search.products import Floats, similarities
from memory.text import has_cjk, search_terms

_SATURATION, _BY_LENGTH = 1.2, 0.75
"""BM25's parameters k1 and b, as found by Robertson and Walker. Other values rank about as well."""
SHORTLIST = 50
"""How many memories are selected by words, and as many by vector, if vectors are not in RAM."""
SPARE = 10
"""How many memories beyond `k` are compared exactly.

Memories are selected by less precise scores, so one slightly below the k-th may be better.
"""
_OF_A_PART = 4
"""The factor by which more memories are selected by words if a scope has several fields.

Some of the selected memories are then outside of the scope.
"""
_SAMPLE = 256
"""The number of memories from which the mean and deviation of the cosine are estimated.

An estimate is needed only if the user's vectors are not in RAM.
"""


# --- by similarity ---


class Probe(NamedTuple):
    """A text and its vector, with which stored memories are compared."""

    text: str
    vector: Vector


def ranked(reader: Reader, probe: Probe, rows: Iterable[Row], scale: Scale) -> list[SearchResult]:
    """Return the memories of these rows with their similarity to `probe`, most similar first.

    `scale` turns cosines into similarities. Of equally similar memories, the newest comes first.
    Rows without a vector are left out.
    """
    candidates = list(rows)
    known = reader.vectors.of(row.text_key for row in candidates)
    return ranked_by(known, probe, candidates, scale)


def ranked_by(
    known: Mapping[str, Vector], probe: Probe, rows: Iterable[Row], scale: Scale
) -> list[SearchResult]:
    """Return the memories of these rows with their similarity to `probe`, most similar first.

    `known` holds their vectors by text key; rows whose vector is not in it are left out. `scale`
    turns cosines into similarities. Of equally similar memories, the newest comes first.
    """
    candidates = [row for row in rows if row.text_key in known]
    if not candidates:
        return []
    others = np.stack([known[row.text_key] for row in candidates])
    cosines = similarities(others, np.broadcast_to(probe.vector, others.shape))
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
    """The BM25 scores of memories for a question. Memories with no word of the question score 0."""

    numbers: npt.NDArray[np.int64]
    """The ledger's numbers of the memories that contain a word of the question, ascending."""
    by_number: Floats
    """The scores. The memory with number `n` has its score at position `n - numbers[0]`.

    The last score is always 0. It is the score of every memory whose number has no position here.
    """
    memories: int
    """The number of all memories that were scored, including those that score 0."""

    def best(self, k: int) -> list[int]:
        """Return the numbers of the `k` memories with the highest scores, in no fixed order.

        Memories with no word of the question are never returned, so the result may be shorter.
        """
        best = self.numbers
        if k < len(best):
            best = best[np.argpartition(-self.by_number[best - best[0]], k)[:k]]
        return [int(number) for number in best]

    def of(self, numbers: npt.NDArray[np.int64]) -> Floats:
        """Return the standard scores (n,) of the memories with these numbers (n,).

        A standard score is the distance from the mean score of all memories, in standard
        deviations. If all memories have the same score, all standard scores are 0.
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

    `spread` holds the mean and the standard deviation of the question's cosines with the memories
    of the scope.
    """

    ids: Sequence[str]
    spread: Spread


def word_scores(reader: Reader, text: str, scope: Scope) -> WordScores:
    """Return the BM25 scores of memories for the words of a text.

    All memories of the user of `scope` are scored, also those outside of the scope. If its field
    `user` is None, all memories without a user are scored. If it has no such field, the memories of
    all users are scored.
    """
    user, everyone = _whose(scope)
    return bm25(reader.terms.postings(search_terms(text), user, everyone=everyone))


def best_of_shortlist(
    reader: Reader, probe: Probe, near: Sequence[str], words: WordScores, scope: Scope, k: int
) -> Best:
    """Return the memories that answer a query best, for a user whose vectors are not in RAM.

    Two kinds of memories are compared: those that an index selected by vector, whose ids are
    `near`, and those with the highest scores in `words`. Memories outside of `scope` are left out.
    `probe` is the query and its vector. At most `k + SPARE` memories are returned.
    """
    wanted = max(k, SHORTLIST) * (_OF_A_PART if len(scope.values) > 1 else 1)
    rows = reader.terms.candidates(near, words.best(wanted))
    rows = [row for row in rows if scope.holds(row.values)]
    if not rows:
        return Best([], Spread(0.0, 0.0))
    sample = rows
    if words.memories > len(rows):
        user, everyone = _whose(scope)
        drawn = reader.terms.sample(_SAMPLE, user, everyone=everyone)
        sample = [row for row in drawn if scope.holds(row.values)] or rows
    spread = Spread.of(_cosines(sample, probe.vector))
    cosines = spread.standard(_cosines(rows, probe.vector))
    scores = cosines + words.of(np.array([row.number for row in rows]))
    return Best([rows[position].id for position in np.argsort(-scores)[: k + SPARE]], spread)


def results(
    reader: Reader, probe: Probe, best: Best, words: WordScores, k: int
) -> list[SearchResult]:
    """Return the `k` live memories of `best` that have the highest scores, best first.

    `probe` is the question and its vector; `words` has the BM25 scores for its words. A score is
    the sum of two standard scores: of the cosine among the scope's memories, and of BM25 among the
    user's memories. (A standard score is the distance from the mean in standard deviations.) Of
    equal scores, the higher cosine comes first, then the memory that was stored last. A result's
    `similarity` is its plain cosine.
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
    """Return a scope's user, and whether the scope covers the memories of all users.

    The user is None if the scope has no field `user`, or if its memories belong to no user.
    """
    return scope.user, "user" not in dict(scope.values)


def _cosines(rows: Sequence[RankedRow], vector: Vector) -> Floats:
    vectors = np.stack([row.vector for row in rows])
    return similarities(vectors, np.broadcast_to(vector, vectors.shape))

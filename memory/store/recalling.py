"""Ranks the memories that answer a question, by its words and by its vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from memory.ledger import RankedRow, Reader
from memory.models import PLAIN, Scope, SearchResult, Vector
from memory.search import Best, Spread, WordScores, bm25, similarities
from memory.store.applying import Probe, ranked
from memory.text import search_terms

SHORTLIST = 50
"""How many memories are selected by words, and as many by vector, if vectors are not in RAM."""
SPARE = 10
"""How many memories beyond `k` are compared exactly, because the first scores are less precise."""
_OF_A_PART = 4
"""The factor by which more memories are selected if a scope is only a part of a user's memories."""
_SAMPLE = 256
"""The number of memories from which the spread of the cosine is estimated.

An estimate is needed only if the user's vectors are not in RAM.
"""


def word_scores(reader: Reader, text: str, scope: Scope) -> WordScores:
    """Return the BM25 scores of memories for the words of a text.

    All memories of the user that `scope` names are scored, also those outside of the scope. If the
    scope names no user, the memories of all users are scored.
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
    found = reader.terms.candidates(near, words.best(wanted))
    found = [one for one in found if scope.holds(one.values)]
    if not found:
        return Best([], Spread(0.0, 0.0))
    spread = cosines = _cosines(found, probe.vector)
    if words.memories > len(found):
        user, everyone = _whose(scope)
        sample = reader.terms.sample(_SAMPLE, user, everyone=everyone)
        spread = _cosines([one for one in sample if scope.holds(one.values)] or found, probe.vector)
    among = Spread.of(spread)
    scores = among.standard(cosines) + words.of(np.array([one.number for one in found]))
    return Best([found[place].id for place in np.argsort(-scores)[: k + SPARE]], among)


def results(
    reader: Reader, probe: Probe, best: Best, words: WordScores, k: int
) -> list[SearchResult]:
    """Return the `k` live memories of `best` that have the highest scores, best first.

    A score is the sum of two standard scores: of the cosine among the scope's memories, and of BM25
    among the user's memories. A standard score is the distance from the mean in standard
    deviations, or 0 if all memories have the same value. Of equal scores, the higher cosine comes
    first, then the memory that was stored last. A result's `similarity` is its plain cosine.
    """
    rows = [row for row in reader.memories.rows(best.ids).values() if row.live]
    hits = ranked(reader, probe, rows, PLAIN)
    number_of = {row.memory.id: row.seq for row in rows}
    numbers = np.array([number_of[hit.memory.id] for hit in hits], np.int64)
    cosines = np.array([hit.similarity for hit in hits])
    scores = np.round(best.spread.standard(cosines) + words.of(numbers), 6)
    order = np.lexsort((-numbers, -cosines, -scores))[:k]
    return [replace(hits[place], relevance=float(scores[place])) for place in order]


def _whose(scope: Scope) -> tuple[str | None, bool]:
    """Return a scope's user, and whether the scope covers the memories of all users.

    The user is None if the scope names none, or if its memories belong to no user.
    """
    values = dict(scope.values)
    user = values.get("user")
    return None if user is None else str(user), "user" not in values


def _cosines(
    some: Sequence[RankedRow], vector: Vector
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    rows = np.stack([one.vector for one in some])
    return similarities(rows, np.broadcast_to(vector, rows.shape)).astype(np.float64)

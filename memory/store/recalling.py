"""The memories that answer a question best, by its words and by its vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from memory.ledger import Candidate, Reader
from memory.models import PLAIN, Scope, SearchResult, Vector
from memory.search import bm25, similarities, standard
from memory.store.applying import Probe, ranked
from memory.text import search_terms

SHORTLIST = 50
"""Memories that are looked at for each of the two, at least, to find the best by both."""
_OF_A_PART = 4
"""So many times more by words, where not all of a user's memories are in the scope."""
_SAMPLE = 256
"""Memories of whom the spread of the cosine is taken, where there are many."""


def best(
    reader: Reader, probe: Probe, near: Sequence[str], scope: Scope, k: int
) -> list[SearchResult]:
    """Return the k best of a scope, best first; `near` are those whose vectors are nearest.

    The score is the sum of two standard scores among the memories of the user: how far the cosine
    and BM25 lie above their means, in standard deviations. One that does not tell the memories
    apart counts 0. The similarity is the plain cosine.
    """
    whose = [value for name, value in scope.values if name == "user"]
    everyone = not whose
    user = None if everyone or whose[0] is None else str(whose[0])
    words = bm25(reader.terms.postings(search_terms(probe.text), user, everyone=everyone))
    wanted = max(k, SHORTLIST) * (_OF_A_PART if len(scope.values) > 1 else 1)
    found = reader.terms.candidates(near, words.best(wanted))
    found = [one for one in found if scope.holds(one.values)]
    if not found:
        return []
    cosines = _cosines(found, probe.vector)
    spread = cosines
    if words.memories > len(found):
        sample = reader.terms.sample(_SAMPLE, user, everyone=everyone)
        spread = _cosines([one for one in sample if scope.holds(one.values)] or found, probe.vector)
    numbers = np.array([one.number for one in found])
    scores = standard(cosines, spread) + words.of(numbers)
    order = np.lexsort((-numbers, -cosines, -scores))[:k]
    score_of = {found[place].id: round(float(scores[place]), 6) for place in order}
    rows = reader.memories.rows(list(score_of)).values()
    hits = ranked(reader, probe, rows, PLAIN)
    told = [replace(hit, relevance=score_of[hit.memory.id]) for hit in hits]
    return sorted(told, key=lambda hit: -hit.score)


def _cosines(
    some: Sequence[Candidate], vector: Vector
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    rows = np.stack([one.vector for one in some])
    return similarities(rows, np.broadcast_to(vector, rows.shape)).astype(np.float64)

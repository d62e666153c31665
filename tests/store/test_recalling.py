"""Recall by words and by vectors: exact over all memories of a scope, with or without memory."""

from __future__ import annotations

import random

import numpy as np
import pytest

from memory.ledger import Ledger
from memory.models import Scope
from memory.providers import WordLlamaEmbedder
from memory.search import bm25
from memory.store.store import MemoryStore
from memory.text import search_terms

WORDS = "sail row boat cat tea harbour garden piano Porto 7".split()


@pytest.mark.parametrize("vectors_mb", [512, 0])
def test_scores_are_those_of_all_memories_of_the_user(empty_url: str, vectors_mb: int) -> None:
    rng = random.Random(3)
    with MemoryStore(Ledger.create(empty_url), WordLlamaEmbedder(), vectors_mb=vectors_mb) as store:
        for _ in range(3):
            texts = {" ".join(rng.choices(WORDS, k=4)) for _ in range(10)}
            store.add_batch([store.new_memory(text, user="Mia") for text in texts])
            store.add(store.new_memory("Jonas has a boat.", user="Jonas"))
            store.forget(next(one.id for one in store.memories() if one.user == "Mia"))
            hits = store.search("Mia's boat in the harbour", 100, user="Mia")
            assert {hit.memory.id for hit in hits} == {
                one.id for one in store.memories() if one.user == "Mia"
            }
            by_words = scores_by_words(store, "Mia's boat in the harbour")
            cosines = np.array([hit.similarity for hit in hits])
            words = np.array([by_words.get(hit.memory.id, 0.0) for hit in hits])
            expected = sum((one - one.mean()) / one.std() for one in (cosines, words))
            assert [hit.score for hit in hits] == pytest.approx(list(expected), abs=1e-4)
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
            few = store.search("Mia's boat in the harbour", 3, user="Mia")
            assert [hit.memory.id for hit in few] == [hit.memory.id for hit in hits[:3]]


def scores_by_words(store: MemoryStore, question: str) -> dict[str, float]:
    """BM25 of the memories that have any of the words."""
    with store.ledger.reading() as reader:
        rows = {row.seq: row.memory.id for row in reader.memories.live()}
        postings = reader.terms.postings(search_terms(question), "Mia", everyone=False)
    found = bm25(postings)
    return {rows[n]: float(found.by_number[n - found.numbers[0]]) for n in found.numbers.tolist()}


class Counted(frozenset[str]):
    """A set that counts how often it was asked for an id."""

    asked = 0

    def __contains__(self, name: object) -> bool:
        self.asked += 1
        return super().__contains__(name)


def test_a_search_ends_where_no_further_hit_reaches_the_least_score(store: MemoryStore) -> None:
    store.add_batch([store.new_memory(f"The boat {n} sails.", user="Mia") for n in range(50)])
    among = Counted(one.id for one in store.memories())
    assert store.search("Which boat sails?", 5, user="Mia", min_score=99.0, among=among) == []
    assert among.asked == 50, "once, not once more for each time that the search widens"


def test_a_scope_is_a_part_of_what_a_user_has(store: MemoryStore) -> None:
    for n in range(20):
        one = store.new_memory(f"The boat {n} sails.", user="Mia")
        store.add(one.model_copy(update={"category": "fact" if n % 5 else "event"}))
    scope = Scope((("category", "event"), ("user", "Mia")))
    found = store.search("Which boat sails?", 10, scope=scope)
    assert [hit.memory.category for hit in found] == ["event"] * 4

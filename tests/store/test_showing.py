"""The newer of two suspects is shown first, and everything else keeps its rank."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from memory.models import PERSON, Action, Decision, Memory, SearchResult
from memory.store import MemoryStore
from memory.store.folding import newer_first

START = datetime(2026, 1, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("ranked", "k", "shown"),
    [  # a letter and its time; equal letters are suspects of each other
        ("a2 a1 b1", 3, "a2 a1 b1"),
        ("a1 b1 a2 c1", 4, "a2 a1 b1 c1"),
        ("b1 a1 c1 a2", 3, "b1 a2 a1"),
        ("b1 c1 a2 a1", 2, "b1 c1"),
        ("b1 a2 c1 a1", 2, "b1 a2"),
        ("a1 a2", 1, "a2"),
        ("a1 b1 a3 a2", 4, "a3 a2 a1 b1"),
        ("a1 b2 a2 b1", 4, "a2 a1 b2 b1"),
        ("a1 a1 b1", 3, "a1 a1 b1"),
    ],
)
def test_the_newer_stands_at_the_better_rank_and_the_older_below(
    ranked: str, k: int, shown: str
) -> None:
    hits = [
        SearchResult(Memory(content=name, timestamp=START + timedelta(days=int(name[1]))), 0.5)
        for name in ranked.split()
    ]
    arranged = newer_first(hits, k, lambda a, b: a.content[0] == b.content[0])
    assert " ".join(hit.memory.content for hit in arranged) == shown
    newest = {hit.memory.content[0]: hit.memory for hit in arranged[::-1]}
    for hit in arranged:
        other = newest[hit.memory.content[0]]
        assert hit.newer == (None if other.content == hit.memory.content else other.id)


def test_a_search_shows_the_newer_first_unless_a_person_said_that_both_hold(
    store: MemoryStore,
) -> None:
    texts = ("Ada lives in Ghent.", "Ada has a dog.", "Ada lives in Bruges.")
    old, dog, new = (
        store.add(Memory(content=text, user="Ada", timestamp=START + timedelta(days=n)))
        for n, text in enumerate(texts)
    )

    def found() -> list[str]:
        hits = store.search("Does Ada live in Ghent?", 5, user="Ada")
        return [hit.memory.id for hit in hits]

    assert found() == [new.id, old.id, dog.id]
    store.apply(
        Decision(
            Action.KEEP_BOTH, "two homes", (old, new), distinct=((old.id, new.id),), model=PERSON
        )
    )
    assert found()[0] == old.id
    assert {one.id for one in store.memories()} == {old.id, dog.id, new.id}

"""Hits that state the same are folded into one, which names the others; nothing else is hidden."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from memory.ledger import Ledger
from memory.models import PERSON, Action, Decision, Memory, Scope
from memory.providers import WordLlamaEmbedder
from memory.store import MemoryStore

CAT, BLACK, AGAIN = "Mia has a cat.", "Mia has a black cat.", "mia really has a cat"
SAID = "Mia has a cat, as Mia said again today."
START = datetime(2026, 1, 5, 9, tzinfo=UTC)


@pytest.fixture
def store(ledger: Ledger) -> Iterator[MemoryStore]:
    with MemoryStore(ledger, WordLlamaEmbedder()) as opened:
        yield opened


def told(store: MemoryStore, *texts: str, days: int = 1, **fields: object) -> list[Memory]:
    """Store texts of Mia as they are, each some days after the one before."""
    return [
        store.add(
            Memory.model_validate(
                {
                    "id": store.new_id(),
                    "content": text,
                    "user": "Mia",
                    "timestamp": START + timedelta(days=days * n),
                    **fields,
                }
            )
        )
        for n, text in enumerate(texts)
    ]


def found(store: MemoryStore, k: int = 5, query: str = "Mia's cat") -> list[list[str]]:
    """Return, for each hit, its text and the texts that it names besides."""
    hits = store.search(query, k, user="Mia")
    return [[hit.memory.content, *(one.content for one in hit.also)] for hit in hits]


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        ([CAT, BLACK], [{BLACK, CAT}]),
        ([BLACK, CAT], [{BLACK, CAT}]),
        ([CAT, AGAIN], [{AGAIN, CAT}]),
        ([CAT, AGAIN, BLACK], [{BLACK, CAT, AGAIN}]),
        ([CAT, SAID], [{CAT, SAID}]),
        ([CAT, "Mia has no cat."], [{CAT}, {"Mia has no cat."}]),
        ([CAT, "Mia had a cat."], [{CAT}, {"Mia had a cat."}]),
        (
            ["Mia fed the cat today.", "Mia fed the cat yesterday."],
            [{"Mia fed the cat today."}, {"Mia fed the cat yesterday."}],
        ),
        (["Mia has 2 cats.", "Mia has 3 cats."], [{"Mia has 2 cats."}, {"Mia has 3 cats."}]),
    ],
)  # fmt: skip
def test_what_another_hit_states_is_folded_into_it(
    store: MemoryStore, texts: list[str], shown: list[set[str]]
) -> None:
    told(store, *texts, days=0 if "cat today" in texts[0] else 1)
    groups = found(store)
    assert sorted(map(sorted, groups)) == sorted(map(sorted, shown))
    assert all(len(group[0]) == max(map(len, group)) for group in groups if BLACK in group)


def test_the_newer_of_two_equal_statements_is_shown(store: MemoryStore) -> None:
    told(store, AGAIN, CAT)
    assert found(store) == [[CAT, AGAIN]]


def test_folding_comes_before_k_and_filters_before_folding(store: MemoryStore) -> None:
    cats = told(store, *(f"{CAT[:-1]}{'!' * n}" for n in range(30)))
    told(store, "Mia has a boat.", "Mia sings.")
    groups = found(store, 3)
    assert len(groups) == 3
    assert len(groups[0]) == 30
    early = store.search("cat", 2, user="Mia", where=lambda one: one.timestamp <= cats[1].timestamp)
    assert {one.id for one in (early[0].memory, *early[0].also)} == {one.id for one in cats[:2]}


def test_private_memories_and_those_that_somebody_keeps_apart_are_not_folded(
    store: MemoryStore,
) -> None:
    first, second = told(store, CAT, BLACK)
    [private] = told(store, AGAIN, is_private=True)
    assert [AGAIN] in found(store)
    apart = Decision(
        Action.KEEP_BOTH, "two cats", (first, second),
        distinct=((first.id, second.id),), model=PERSON,
    )  # fmt: skip
    store.apply(apart)
    assert sorted(found(store)) == sorted([[CAT], [BLACK], [AGAIN]])
    assert store.get(private.id) is not None


def test_without_a_query_nothing_is_folded(store: MemoryStore) -> None:
    first, second = told(store, CAT, BLACK)
    assert store.search("", 5, user="Mia") == []
    assert {one.id for one in store.memories()} == {first.id, second.id}


def test_a_store_that_does_not_deduplicate_does_not_fold(ledger: Ledger) -> None:
    with MemoryStore(ledger, WordLlamaEmbedder(), folds=False) as store:
        first, _ = told(store, CAT, BLACK)
        assert sorted(found(store)) == [[BLACK], [CAT]]
        assert store.forget(first.id).remaining == ()


def test_forgetting_names_the_memories_that_remain(store: MemoryStore) -> None:
    first, second = told(store, CAT, BLACK)
    assert store.forget(second.id).remaining == (first,)
    assert store.forget(first.id).remaining == ()


def test_other_users_memories_are_neither_folded_nor_named(store: MemoryStore) -> None:
    told(store, CAT)
    [other] = told(store, CAT, user="Tom")
    hits = store.search("cat", 5, everyone=True)
    assert [hit.also for hit in hits] == [(), ()]
    assert store.forget(other.id).remaining == ()
    assert store.search("cat", 5, scope=Scope(()))[0].memory.user == "Mia"

"""Cards are made from the plan that applies, and from decisions as they were found."""

from __future__ import annotations

import asyncio

from memory.deduplicator import MemoryDeduplicator
from memory.models import Memory, MergeGroup, Verdict
from memory.store import MemoryStore
from memory.upkeep.cards import Card, cards_of, least_certain_first, recorded_cards
from tests.conftest import MakeMemory
from tests.doubles import PlacedEmbedder, ScriptedModel

CAT, MERGED = "Mia has a cat.", "Mia has a black cat called Tom."


def two_families(embedder: PlacedEmbedder, make_memory: MakeMemory) -> list[Memory]:
    """A copy, and two that only a model can tell to be one."""
    embedder.place(CAT)
    black = embedder.place("Mia has a black cat.", 0.92, to=CAT)
    named = embedder.place("Mia has a cat called Tom.")
    embedder.place(black, 0.92, to=named)
    return [
        make_memory("Bob works."),
        make_memory("bob works"),
        make_memory(black),
        make_memory(named),
    ]


def planned(deduplicator: MemoryDeduplicator) -> list[Card]:
    return least_certain_first(cards_of(asyncio.run(deduplicator.audit()).plan))


def recorded(store: MemoryStore) -> list[Card]:
    with store.ledger.reading() as reader:
        return recorded_cards(reader, reader.decisions.all_but_additions())


def test_open_questions_come_before_sure_replacements(
    store: MemoryStore,
    embedder: PlacedEmbedder,
    deduplicator: MemoryDeduplicator,
    make_memory: MakeMemory,
) -> None:
    store.add_batch(two_families(embedder, make_memory))
    asked, copies = planned(deduplicator)
    assert (asked.action, [one.fate for one in asked.members]) == ("judge", ["judge", "judge"])
    assert (asked.similarity, asked.kept) == (0.92, ())
    assert (copies.action, [one.fate for one in copies.members]) == ("replace", ["retire", "keep"])
    assert [(one.text, one.members, one.is_new) for one in copies.kept] == [
        ("Bob works.", (0, 1), False)
    ]
    assert asked.certainty < 0.5 < copies.certainty == 1.0


def test_a_card_has_another_key_once_a_member_says_something_else(
    store: MemoryStore,
    embedder: PlacedEmbedder,
    deduplicator: MemoryDeduplicator,
    make_memory: MakeMemory,
) -> None:
    store.add_batch(two_families(embedder, make_memory))
    asked, copies = planned(deduplicator)
    assert [card.key for card in planned(deduplicator)] == [asked.key, copies.key]
    store.update(copies.members[0].id, "BOB WORKS")
    assert {card.key for card in planned(deduplicator)} & {asked.key, copies.key} == {asked.key}


def test_a_recorded_merge_shows_the_texts_as_they_were_and_who_verified_the_new_one(
    store: MemoryStore,
    model: ScriptedModel,
    embedder: PlacedEmbedder,
    deduplicator: MemoryDeduplicator,
    make_memory: MakeMemory,
) -> None:
    store.add_batch(two_families(embedder, make_memory))
    model.answers = [Verdict(parts=(MergeGroup(members=(0, 1), text=MERGED),))]
    asyncio.run(deduplicator.deduplicate_all())
    merge = next(card for card in recorded(store) if card.action == "merge")
    store.update(merge.kept[0].id, "Mia has a dog.")
    merge, reworded = (card for card in recorded(store) if card.action in ("merge", "update"))
    assert [one.content for one in merge.members] == [
        "Mia has a black cat.",
        "Mia has a cat called Tom.",
    ]
    assert [(one.text, one.members, one.is_new) for one in merge.kept] == [(MERGED, (0, 1), True)]
    assert merge.recorded is not None
    assert (merge.recorded.by, merge.recorded.verified) == ("scripted", "by a second reading")
    assert [one.content for one in reworded.members] == [MERGED]
    assert [one.text for one in reworded.kept] == ["Mia has a dog."]


def test_only_the_id_of_a_forgotten_member_is_left(
    store: MemoryStore, deduplicator: MemoryDeduplicator, make_memory: MakeMemory
) -> None:
    one = make_memory("Bob works.")
    store.add_batch([one])
    store.update(one.id, "Bob rests.")
    store.forget(one.id)
    [reworded, *_] = recorded(store)
    assert [(member.content, member.fate) for member in reworded.members] == [("", "forgotten")]

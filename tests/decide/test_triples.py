"""Groups of three and more come through whole, and a larger family is asked in parts."""

from __future__ import annotations

import asyncio

import pytest

from memory.coverage import Belief
from memory.decide.policy import Part, checked_part
from memory.deduplicator import MemoryDeduplicator
from memory.models import MergeGroup, ProposedMerge, Question, Verdict
from memory.store import MemoryStore
from tests.conftest import MakeMemory
from tests.decide.triples import TRIPLES, Triple
from tests.doubles import PlacedEmbedder, ScriptedModel


def answered(make_memory: MakeMemory, triple: Triple) -> Part:
    """What the program says of a text that tells three memories in one."""
    return checked_part(
        ProposedMerge(tuple(make_memory(text) for text in triple.members), triple.merged)
    )


def test_nine_in_ten_families_of_three_are_believed_or_read_again(make_memory: MakeMemory) -> None:
    assert len(TRIPLES) == 50
    refused = [
        part
        for triple in TRIPLES
        if (part := answered(make_memory, triple)).belief is Belief.REFUSED
    ]
    assert len(refused) <= 5, refused


def test_three_memories_become_one(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    triple = TRIPLES[3]
    place(embedder, list(triple.members))
    model = ScriptedModel(Verdict(parts=(MergeGroup(members=(0, 1, 2), text=triple.merged),)))
    store.add_batch([make_memory(text) for text in triple.members])
    asyncio.run(MemoryDeduplicator(store, model).deduplicate_all())
    assert [memory.content for memory in store.memories()] == [triple.merged]


@pytest.mark.parametrize("size", [9, 12, 20])
def test_a_larger_family_is_asked_in_parts_of_at_most_eight_until_it_is_one(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory, size: int
) -> None:
    """A judge that merges whatever it is shown has seen every member in the end."""
    texts = [f"Mia owns book {n}." for n in range(size)]
    place(embedder, texts)

    def all_in_one(question: Question) -> Verdict:
        text = " ".join(member.content for member in question.members)
        embedder.place_at(text, [1.0])
        return Verdict(parts=(MergeGroup(members=tuple(range(len(question.members))), text=text),))

    model = ScriptedModel(*[all_in_one] * size)
    store.add_batch([make_memory(text) for text in texts])
    asyncio.run(MemoryDeduplicator(store, model).deduplicate_all())
    assert max(len(question.members) for question in model.asked) <= 8
    [one] = store.memories()
    assert all(text in one.content for text in texts)


def place(embedder: PlacedEmbedder, texts: list[str]) -> None:
    """All of them at some 0.93 to each other."""
    for n, text in enumerate(texts, start=1):
        embedder.place_at(text, [1.0, *[0.0] * n, 0.27])

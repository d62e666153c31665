"""How alike memories of a snapshot are: together as one by one."""

from __future__ import annotations

from itertools import combinations

from memory.decide.likeness import Likeness
from memory.models import Scale
from memory.store import MemoryStore
from tests.conftest import MakeMemory
from tests.doubles import PlacedEmbedder


def test_pairs_worked_out_together_are_as_alike_as_one_by_one(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    embedder.place("one")
    embedder.place("two", 0.8, "one")
    embedder.place("三つ", 0.9, "one")
    store.add_batch([make_memory(text) for text in ("one", "two", "三つ", "ONE", "alone")])
    likeness = Likeness(store.snapshot(), Scale(anchor=0.7, anchor_kana_han=0.88))
    memories = list(store.memories())
    groups = [memories[:4], memories[4:], [], memories]
    for members, alike in zip(groups, likeness.groups(groups), strict=True):
        for a, b in combinations(members, 2):
            assert alike.of(a, b) == alike.of(b, a) == likeness.of(a, b)

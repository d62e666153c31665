"""How alike memories of a snapshot are: together as one by one."""

from __future__ import annotations

from itertools import combinations

import pytest

from memory.decide.likeness import Likeness
from memory.models import Scale, cosine_of
from memory.store import MemoryStore
from memory.text import text_key
from tests.conftest import MakeMemory
from tests.doubles import PlacedEmbedder


def test_pairs_worked_out_together_are_as_alike_as_one_by_one(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    embedder.place("one")
    embedder.place("two", 0.8, "one")
    embedder.place("三つ", 0.9, "one")
    store.add_batch([make_memory(text) for text in ("one", "two", "三つ", "ONE", "alone")])
    snapshot, scale = store.snapshot(), Scale(anchor=0.7, anchor_kana_han=0.88)
    likeness = Likeness(snapshot, scale)
    memories = list(store.memories())
    groups = [memories[:4], memories[4:], [], memories]
    for members, alike in zip(groups, likeness.groups(groups), strict=True):
        for a, b in combinations(members, 2):
            left, right = (snapshot.vectors[text_key(one.content)] for one in (a, b))
            found = scale.similarity(cosine_of(left, right), a.content, b.content)
            assert alike.of(a, b) == alike.of(b, a) == pytest.approx(found)
            assert likeness.lowest(members) <= alike.of(a, b)

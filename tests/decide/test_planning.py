"""A round over a whole store: groups that hold together, whatever order the memories came in."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from itertools import combinations
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.decide.planning import Planner, PlanSettings
from memory.deduplicator import MemoryDeduplicator
from memory.ledger import Ledger
from memory.models import (
    COPIES_FROM,
    Memory,
    Row,
    Rules,
    Scope,
    Snapshot,
    Vectors,
    VectorTable,
    cosine_of,
)
from memory.providers import OfflineModel
from memory.store import MemoryStore
from memory.text import text_key
from tests.doubles import START, PlacedEmbedder, ticking

RULES = Rules()
EVERYONE = Scope(())


def memories(n: int) -> list[Memory]:
    return [
        Memory(
            id=f"mem_{number:012x}", content=f"text {number}", timestamp=START + timedelta(number)
        )
        for number in range(n)
    ]


def clumps(seed: int, n: int) -> Vectors:
    """Unit vectors in a few clumps; some of them twice, so that there are ties."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((max(1, n // 5), 8))
    raw = centres[rng.integers(len(centres), size=n)] + 0.25 * rng.standard_normal((n, 8))
    raw[n // 2 :] = np.where(rng.random((n - n // 2, 1)) < 0.3, raw[: n - n // 2], raw[n // 2 :])
    unit: Vectors = (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)
    return unit


def snapshot(vectors: Vectors, seed: int) -> Snapshot:
    """One memory a vector; some were synthesised from texts that are near or far."""
    rng = random.Random(seed)
    rows = tuple(
        Row(memory, True, None, text_key(memory.content), memory.dated_key, "", seq, 1)
        for seq, memory in enumerate(memories(len(vectors)))
    )
    known = VectorTable([row.text_key for row in rows], vectors)
    ancestors = {
        row.memory.id: tuple(rng.sample(sorted(known), rng.choice([0, 0, 1, 2]))) for row in rows
    }
    return Snapshot(rows, known, ancestors, frozenset(), 1)


def groups_of(taken: Snapshot) -> set[frozenset[str]]:
    plan = Planner(lambda _memory: EVERYONE, PlanSettings(RULES)).plan(taken)
    return {frozenset(member.id for member in group.members) for group in plan.groups}


drawn = st.tuples(st.integers(0, 10_000), st.integers(3, 24))


@settings(max_examples=40)
@given(drawn)
def test_a_question_knows_whether_its_members_are_near_copies(drawn: tuple[int, int]) -> None:
    """As the vectors say: its two least similar members decide."""
    seed, n = drawn
    taken = snapshot(clumps(seed, n), seed)
    plan = Planner(lambda _memory: EVERYONE, PlanSettings(Rules(lower=0.80))).plan(taken)
    for question in (group.question for group in plan.groups if group.question):
        vectors = [taken.vectors[text_key(member.content)] for member in question.members]
        lowest = min(cosine_of(a, b) for a, b in combinations(vectors, 2))
        assert question.are_copies == (lowest >= COPIES_FROM)


@settings(max_examples=40)
@given(drawn)
def test_no_group_holds_a_pair_below_the_floor(drawn: tuple[int, int]) -> None:
    """Nor a member that is unlike a text that another was synthesised from."""
    seed, n = drawn
    taken = snapshot(clumps(seed, n), seed)
    texts = {row.memory.id: {row.text_key, *taken.ancestors[row.memory.id]} for row in taken.rows}
    for group in groups_of(taken):
        for a, b in combinations(sorted(group), 2):
            pairs = [(x, y) for x in texts[a] for y in texts[b]]
            assert min(cosine_of(taken.vectors[x], taken.vectors[y]) for x, y in pairs) >= 0.90


@settings(max_examples=40)
@given(drawn, st.randoms(use_true_random=False))
def test_shuffled_rows_form_the_same_groups(
    drawn: tuple[int, int], shuffling: random.Random
) -> None:
    seed, n = drawn
    taken = snapshot(clumps(seed, n), seed)
    rows = list(taken.rows)
    shuffling.shuffle(rows)
    shuffled = Snapshot(tuple(rows), taken.vectors, taken.ancestors, taken.distinct, 1)
    assert groups_of(shuffled) == groups_of(taken)


TEXTS = [
    "Mia has a cat.", "Mia has a black cat.", "Mia has a black cat named Pip.", "Mia has a dog.",
    "Mia has 2 cats.", "Mia's cat is a black.", "Mia has no cat.", "Mia had a cat.",
]  # fmt: skip


@settings(max_examples=6)
@given(st.integers(0, 10_000), st.permutations(range(len(TEXTS))))
def test_the_result_of_a_batch_does_not_depend_on_the_order_of_arrival(
    seed: int, order: list[int]
) -> None:
    told = [
        memory.model_copy(update={"content": text})
        for memory, text in zip(memories(len(TEXTS)), TEXTS, strict=True)
    ]
    assert after_a_batch([told[n] for n in order], seed) == after_a_batch(told, seed)


def after_a_batch(told: list[Memory], seed: int) -> set[str]:
    """The live texts after a batch, where the texts lie in one clump or two."""
    embedder = PlacedEmbedder()
    for text, vector in zip(TEXTS, clumps(seed, len(TEXTS)), strict=True):
        embedder.place_at(text, [float(x) for x in vector])
    with (
        TemporaryDirectory() as folder,
        Ledger.create(f"sqlite:///{folder}/ledger.db") as ledger,
        MemoryStore(ledger, embedder, clock=ticking()) as store,
    ):
        store.add_batch(told)
        asyncio.run(MemoryDeduplicator(store, OfflineModel()).deduplicate_all())
        return {memory.content for memory in store.memories()}

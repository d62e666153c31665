"""Exact search follows every commit, whatever was written in between."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.index.exact import ExactIndex, LiveVectors
from memory.ledger import Ledger
from memory.models import Memory, Scope, Vector, new_memory_id
from memory.protocols import Query
from memory.text import text_key
from tests.doubles import START

ALL = Scope(())


def unit(rng: np.random.Generator) -> Vector:
    raw = rng.standard_normal(6)
    vector: Vector = (raw / np.linalg.norm(raw)).astype(np.float32)
    return vector


steps = st.lists(st.tuples(st.sampled_from("aarru"), st.integers(0, 99)), max_size=30)


@settings(max_examples=40, deadline=None)
@given(steps, st.integers(0, 1_000))
def test_the_nearest_are_those_of_a_full_sort_after_any_writes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    folder = tmp_path_factory.mktemp("index")
    live: dict[str, tuple[Memory, Vector]] = {}
    with Ledger.create(f"sqlite:///{folder / 'l.db'}") as ledger:
        index = ExactIndex(ledger)
        for kind, n in steps:
            _write(ledger, live, rng, kind, n)
            query = unit(rng)
            asked: list[Query] = []
            expected: list[list[str]] = []
            for scope in (ALL, Scope((("user", "Mia"),))):
                inside = {
                    name: float(vector @ query)
                    for name, (memory, vector) in live.items()
                    if scope.holds(memory.model_dump())
                }
                best = sorted(inside, key=lambda name: -inside[name])[:3]
                asked += [Query(query, scope, 3)]
                expected.append(best)
            assert [list(one.ids) for one in index.nearest(asked)] == expected


def _write(
    ledger: Ledger,
    live: dict[str, tuple[Memory, Vector]],
    rng: np.random.Generator,
    kind: str,
    n: int,
) -> None:
    with ledger.writing() as writer:
        if kind == "a" or not live:
            memory = Memory(
                id=new_memory_id(),
                content=f"text {rng.integers(10**9)}",
                user=["Mia", "Jonas", None][n % 3],
                timestamp=START,
            )
            vector = unit(rng)
            writer.memories.insert(memory)
            writer.vectors.put({text_key(memory.content): vector})
            live[memory.id] = (memory, vector)
            return
        name = sorted(live)[n % len(live)]
        memory, vector = live.pop(name)
        if kind == "r":
            writer.memories.retire([(name, "mem_000000000000")])
        else:
            memory = memory.model_copy(
                update={"user": "Mia", "content": f"new {rng.integers(10**9)}"}
            )
            vector = unit(rng)
            writer.memories.rewrite([memory])
            writer.vectors.put({text_key(memory.content): vector})
            live[name] = (memory, vector)


def test_since_a_revision_only_later_rows_are_known(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    live: dict[str, tuple[Memory, Vector]] = {}
    recent = LiveVectors(since=1)
    with Ledger.create(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        _write(ledger, live, rng, "a", 0)
        with ledger.reading() as reader:
            recent.catch_up(reader)
        assert recent.nearest([Query(unit(rng), ALL, 5)]) == [[]]
        first = next(iter(live))
        _write(ledger, live, rng, "a", 0)
        with ledger.reading() as reader:
            recent.catch_up(reader)
        [[(second, _)]] = recent.nearest([Query(unit(rng), ALL, 5)])
        assert second != first
        assert recent.changed == {second}

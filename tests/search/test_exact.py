"""Exact search follows every commit, whatever was written in between."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.errors import IndexFault
from memory.ledger import Ledger
from memory.models import Memory, Scope, Vector, new_memory_id
from memory.protocols import Query
from memory.search.exact import ExactIndex
from memory.search.live import LiveVectors
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


def test_what_changes_while_all_is_read_is_taken_in(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    live: dict[str, tuple[Memory, Vector]] = {}
    reading = LiveVectors()
    with Ledger.create(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        for n in range(14):
            _write(ledger, live, rng, "a", n)
        for kind in "raura":
            with ledger.reading() as reader:
                assert reading.read_page(reader, 2)
            _write(ledger, live, rng, kind, 4)
        page = 2
        while page:
            with ledger.reading() as reader:
                page = reading.read_page(reader, page)
        with ledger.reading() as reader:
            reading.catch_up(reader)
        assert reading.is_whole
        query = Query(unit(rng), ALL, 40)
        [found] = reading.nearest([query])
        [expected] = ExactIndex(ledger).nearest([query])
        assert tuple(name for name, _ in found) == expected.ids
        assert set(expected.ids) == live.keys()


def test_after_a_failure_nothing_is_taken_for_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    live: dict[str, tuple[Memory, Vector]] = {}
    with Ledger.create(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        _write(ledger, live, rng, "a", 0)
        index = ExactIndex(ledger)
        with monkeypatch.context() as patched:
            patched.setattr(LiveVectors, "_append", _fail)
            with pytest.raises(MemoryError):
                index.nearest([Query(unit(rng), ALL, 1)])
        assert not index.answers_at_once(ALL)
        [found] = index.nearest([Query(unit(rng), ALL, 1)])
        assert set(found.ids) == live.keys()


def _fail(*_: object) -> None:
    raise MemoryError


def test_vectors_of_different_dimensions_are_a_fault(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    live: dict[str, tuple[Memory, Vector]] = {}
    with Ledger.create(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        _write(ledger, live, rng, "a", 0)
        odd = Memory(id=new_memory_id(), content="odd", user="Mia", timestamp=START)
        with ledger.writing() as writer:
            writer.memories.insert(odd)
            writer.vectors.put({text_key("odd"): np.ones(1, np.float32)})
        with pytest.raises(IndexFault, match="different dimensions"):
            ExactIndex(ledger).nearest([Query(unit(rng), ALL, 1)])


def test_it_lets_go_of_vectors_that_have_become_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.search.exact._MOST", 12)
    monkeypatch.setattr("memory.search.exact._KEPT", 24)
    monkeypatch.setattr("memory.search.exact._READ_AT_ONCE", 0)
    rng = np.random.default_rng(0)
    live: dict[str, tuple[Memory, Vector]] = {}
    with Ledger.create(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        index = ExactIndex(ledger)
        index.begin(often=False)
        for n in range(5):
            _write(ledger, live, rng, "a", 3 * n)
        _write(ledger, live, rng, "a", 1)
        index.keep_up()
        assert index.answers_at_once(Scope((("user", "Jonas"),)))
        assert not index.answers_at_once(Scope((("user", "Mia"),)))
        assert index.answers_at_once(Scope((("user", "Jonas"),))), "others' are still of use"
        assert not index.answers_at_once(ALL)
        assert not index.answers_at_once(Scope((("user", "Jonas"),))), "it has let go"
        index.begin(often=True)
        assert not index.answers_at_once(Scope((("user", "Jonas"),))), "and begins no more"
        assert len(index.nearest([Query(unit(rng), ALL, 9)])[0].ids) == 6

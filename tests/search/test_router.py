"""Beyond the memory limit an index answers, kept up with the ledger; without one, the ledger."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from memory.assembly import open_store
from memory.config import Config, MemoryConfig, SearchConfig
from memory.ledger import Ledger
from memory.models import Memory, Query, Scope, new_memory_id
from memory.search.index import Follower
from memory.search.router import SearchRouter
from memory.search.scores import WordScores
from memory.store import MemoryStore
from memory.text import text_key
from memory.upkeep import examine
from tests.doubles import START, BrokenIndex
from tests.search.vectors import MIA, BruteForce, unit, write


@pytest.fixture
def ledger(empty_url: str) -> Iterator[Ledger]:
    """Each test runs on SQLite and on PostgreSQL."""
    with Ledger.create(empty_url) as opened:
        yield opened


def exactly(ledger: Ledger, query: Query) -> list[str]:
    return SearchRouter(ledger, 1 << 30).nearest([query])[0]


def filled(ledger: Ledger) -> tuple[BruteForce, Follower]:
    index = BruteForce()
    follower = Follower(index, ledger)
    follower.copy_all()
    return index, follower


def test_vectors_that_fit_into_memory_open_no_index(
    ledger: Ledger, rng: np.random.Generator
) -> None:
    def fail(_: Ledger) -> BruteForce:
        raise AssertionError("it was opened")

    mia = write(ledger, rng, 3)
    router = SearchRouter(ledger, 1 << 20, fail)
    assert {*router.nearest([Query(unit(rng), MIA, 5)])[0]} == {*mia}


def test_vectors_that_fit_again_are_searched_in_memory_again(
    ledger: Ledger, rng: np.random.Generator
) -> None:
    names = write(ledger, rng, 3)
    query, no_words = Query(unit(rng), MIA, 5), WordScores(np.empty(0, np.int64), np.zeros(1), 1)
    router = SearchRouter(ledger, 2 * unit(rng).nbytes)
    assert router.best(query, no_words) is None
    with ledger.writing() as writer:
        writer.memories.tombstone(names[:1])
    assert {*router.nearest([query])[0]} == {*names[1:]}
    for _ in range(100):
        router.nearest([query])
    best = router.best(query, no_words)
    assert best is not None
    assert {*best.ids} == {*names[1:]}


def test_an_index_agrees_with_exact_search_while_memories_come_and_go(
    ledger: Ledger, rng: np.random.Generator
) -> None:
    kept = write(ledger, rng, 300)
    write(ledger, rng, 100, user="Jonas")
    index, follower = filled(ledger)
    for step in range(6):
        write(ledger, rng, 40)
        with ledger.writing() as writer:
            writer.memories.retire([(name, kept[-1]) for name in kept[30 * step : 30 * step + 20]])
        if step == 3:
            follower.copy_all()
        query = Query(unit(rng), MIA, 5)
        [names] = follower.nearest([query], fill=False)
        assert names is not None
        assert {*exactly(ledger, query)} <= {*names}
    assert index.queries > 0
    follower.copy_all()
    assert follower.disagreement() == ""
    follower.close()


def test_an_index_that_names_other_scopes_is_asked_for_more(
    ledger: Ledger, rng: np.random.Generator
) -> None:
    mia = write(ledger, rng, 6)
    write(ledger, rng, 400, user="Jonas")
    index, follower = filled(ledger)
    [names] = follower.nearest([Query(unit(rng), MIA, 6)], fill=False)
    assert {*(names or ())} == {*mia}
    assert index.queries > 1
    follower.close()


def test_an_index_far_behind_leaves_the_answer_to_the_ledger_and_is_filled(
    ledger: Ledger, rng: np.random.Generator
) -> None:
    write(ledger, rng, 600)
    index = BruteForce()
    router = SearchRouter(ledger, 0, lambda _: index)
    for _ in range(200):
        query = Query(unit(rng), MIA, 5)
        [names] = router.nearest([query])
        assert names[:5] == exactly(ledger, query)
        if index.queries:
            break
    assert index.queries, "it was filled beside those who search"
    router.close()


def test_one_question_is_no_reason_to_fill_an_index(
    ledger: Ledger, rng: np.random.Generator
) -> None:
    write(ledger, rng, 600)
    index = BruteForce()
    router = SearchRouter(ledger, 0, lambda _: index)
    router.nearest([Query(unit(rng), MIA, 5)])
    router.close()
    assert list(index.pages()) == []


def test_scopes_of_metadata_are_told_apart_beyond_the_limit(
    ledger: Ledger, rng: np.random.Generator
) -> None:
    told = [
        Memory(
            id=new_memory_id(),
            content=f"text {n}",
            user="Mia",
            metadata={"channel": "ab"[n % 2]},
            timestamp=START,
        )
        for n in range(60)
    ]
    with ledger.writing() as writer:
        writer.memories.insert_all(told[:40])
        writer.vectors.put({text_key(one.content): unit(rng) for one in told})
    _, follower = filled(ledger)
    with ledger.writing() as writer:
        writer.memories.insert_all(told[40:])
    scope = Scope((("channel", "a"), ("user", "Mia")))
    query = Query(unit(rng), scope, 30)
    [names] = follower.nearest([query], fill=False)
    expected = {one.id for one in told[::2]}
    assert {*(names or ())} == expected
    [in_parts] = SearchRouter(ledger, 0).nearest([query])
    assert {*in_parts} == expected
    follower.close()


def test_forgotten_vectors_leave_the_index(ledger: Ledger, rng: np.random.Generator) -> None:
    names = write(ledger, rng, 50)
    index, follower = filled(ledger)
    with ledger.writing() as writer:
        writer.memories.tombstone(names[:1])
        writer.followers.mark_all_stale()
    follower.scrub()
    assert list(index.pages()) == []
    with ledger.reading() as reader:
        assert reader.followers.stale() == []
    follower.copy_all()
    [(held, _)] = index.pages()
    assert {*held} == {*names[1:]}
    follower.close()


def test_an_index_that_was_cleared_elsewhere_is_filled_again(
    ledger: Ledger, rng: np.random.Generator
) -> None:
    names = write(ledger, rng, 50)
    index, follower = filled(ledger)
    index.clear()
    follower.copy_all()
    assert {*next(iter(index.pages()))[0]} == {*names}
    index.remove(names[:2])
    assert follower.disagreement() == "2 missing"
    follower.rebuild()
    assert follower.disagreement() == ""
    follower.close()


def test_an_index_that_fails_is_given_up_and_said_once_with_a_remedy(
    ledger: Ledger, rng: np.random.Generator, caplog: pytest.LogCaptureFixture
) -> None:
    mia = write(ledger, rng, 3)
    router = SearchRouter(ledger, 0, lambda _: BrokenIndex())
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            assert {*router.nearest([Query(unit(rng), MIA, 5)])[0]} == {*mia}
    [message] = caplog.messages
    assert "searching exactly from here on: the index is broken" in message
    assert "raise memory.search.vectors_mb" in message
    router.close()


def test_a_configured_index_of_ones_own_is_opened_for_vectors_that_do_not_fit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A factory that fails does not stop the search: it says so and compares all vectors."""

    def opened(factory: str) -> tuple[str, list[str]]:
        search = SearchConfig(vectors_mb=0, index=factory)
        config = Config(memory=MemoryConfig(data_dir=str(tmp_path), search=search))
        with open_store(config) as store:
            store.add(store.new_memory(f"Mia tried {factory}.", user="Mia"))
            found = store.search(f"Mia tried {factory}.", 1, user="Mia")
            return store.index.name, [hit.memory.content for hit in found]

    own, missing = "tests.search.vectors:BruteForce", "tests.search.vectors:Missing"
    assert opened(own) == ("brute force", [f"Mia tried {own}."])
    assert not caplog.messages
    assert opened(missing)[1] == [f"Mia tried {missing}."]
    assert any("memory.search.index: " in message for message in caplog.messages)


def test_an_index_of_ones_own_that_raises_anything_loses_no_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    search = SearchConfig(vectors_mb=0, index="tests.search.vectors:Unreachable")
    config = Config(memory=MemoryConfig(data_dir=str(tmp_path), search=search))
    with open_store(config) as store:
        store.add(store.new_memory("Mia has a cat.", user="Mia"))
        assert [hit.memory.content for hit in store.search("cat", 1, user="Mia")]
        store.add(store.new_memory("Mia has a dog.", user="Mia"))
        assert len(store.search("dog", 2, user="Mia")) == 2
    assert any("ConnectionError: no route" in message for message in caplog.messages)


def test_an_index_that_was_replaced_and_deleted_keeps_no_forgotten_vector(tmp_path: Path) -> None:
    def opened(factory: str) -> MemoryStore:
        search = SearchConfig(vectors_mb=0, index=factory)
        return open_store(Config(memory=MemoryConfig(data_dir=str(tmp_path), search=search)))

    old = tmp_path / "old"
    old.mkdir()
    with opened("tests.search.vectors:BruteForce") as store:
        tea, coffee = (store.new_memory(f"Mia likes {it}.", user="Mia") for it in ("tea", "coffee"))
        store.add(tea)
        store.add(coffee)
        with store.ledger.writing() as writer:
            writer.followers.note("an earlier collection", str(old), 1)
        assert not store.forget(tea.id).erased
        assert any(str(old) in finding.what for finding in examine(store))
        old.rmdir()
        assert store.forget(coffee.id).erased
        assert not any("forgotten" in finding.what for finding in examine(store))


def test_a_copy_elsewhere_does_not_use_the_configured_index() -> None:
    config = Config(memory=MemoryConfig(search=SearchConfig(index="house.index:make")))
    assert config.at("/tmp/copy").memory.search.index == "chroma"

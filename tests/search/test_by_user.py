"""Vectors by user: exact after any writes, loaded once, changed in place, bounded."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.errors import IndexFault
from memory.ledger import Ledger
from memory.models import Memory, Query, Scope, Vector, new_memory_id
from memory.search.router import EVERYBODY, LiveVectors, VectorsByUser, nearest_in_parts, owner_of
from memory.text import text_key
from tests.doubles import START
from tests.search.vectors import DIM, MIA, unit, write

PLENTY = 1 << 30
ROW = 4 * DIM


@pytest.fixture
def ledger(empty_url: str) -> Iterator[Ledger]:
    """Each test runs on SQLite and on PostgreSQL."""
    with Ledger.create(empty_url) as opened:
        yield opened


def ids(found: VectorsByUser, query: Query) -> list[str] | None:
    vectors = found.current(owner_of(query.scope), [query])
    return None if vectors is None else vectors.nearest([query])[0]


def of(user: str) -> Scope:
    return Scope((("user", user),))


@contextmanager
def vectors_read() -> Iterator[list[str]]:
    """The statements that read many vectors."""
    said: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if "vectors" in statement and statement.startswith("SELECT vectors"):
            said.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        yield said
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)


steps = st.lists(st.tuples(st.sampled_from("aarruf"), st.integers(0, 99)), max_size=30)


@settings(max_examples=20)
@given(steps, st.integers(0, 1_000), st.booleans())
def test_the_nearest_are_those_of_a_full_sort_after_any_writes(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, int]],
    seed: int,
    in_parts: bool,
) -> None:
    rng = np.random.default_rng(seed)
    folder = tmp_path_factory.mktemp("store")
    live: dict[str, tuple[Memory, Vector]] = {}
    with Ledger.create(f"sqlite:///{folder / 'l.db'}") as ledger:
        vectors = VectorsByUser(ledger, PLENTY)
        for kind, n in steps:
            _write(ledger, live, rng, kind, n)
            probe = unit(rng)
            for scope in (EVERYBODY, of("Mia"), Scope((("user", None), ("channel", "a")))):
                inside = {
                    name: float(vector @ probe)
                    for name, (memory, vector) in live.items()
                    if scope.has(memory)
                }
                best = sorted(inside, key=lambda name: -inside[name])[:3]
                query = Query(probe, scope, 3)
                if in_parts:
                    assert nearest_in_parts(ledger, owner_of(scope), [query]) == [best]
                else:
                    assert ids(vectors, query) == best


def _write(
    ledger: Ledger,
    live: dict[str, tuple[Memory, Vector]],
    rng: np.random.Generator,
    kind: str,
    n: int,
) -> None:
    """Add a memory; or retire, forget or rewrite one, which may become somebody else's."""
    with ledger.writing() as writer:
        if kind == "a" or not live:
            memory = Memory(
                id=new_memory_id(),
                content=f"text {rng.integers(10**9)}",
                user=["Mia", "Jonas", None][n % 3],
                metadata={"channel": "ab"[n % 2]} if n % 4 else {},
                timestamp=START,
            )
            vector = unit(rng)
            writer.memories.insert_all([memory])
            writer.vectors.put({text_key(memory.content): vector})
            live[memory.id] = (memory, vector)
            return
        name = sorted(live)[n % len(live)]
        memory, vector = live.pop(name)
        if kind == "r":
            writer.memories.retire([(name, "mem_000000000000")])
        elif kind == "f":
            writer.memories.tombstone([name])
        else:
            told = {"user": "Mia", "content": f"new {rng.integers(10**9)}"}
            memory, vector = memory.model_copy(update=told), unit(rng)
            writer.memories.rewrite([memory])
            writer.vectors.put({text_key(memory.content): vector})
            live[name] = (memory, vector)


@pytest.mark.parametrize("seed", range(5))
def test_bounds_leave_out_none_of_the_nearest_after_any_writes(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.search.router.BOUNDED_FROM", 20)
    rng = np.random.default_rng(seed)
    live: dict[str, tuple[Memory, Vector]] = {}
    with Ledger.create(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        vectors = VectorsByUser(ledger, PLENTY)
        for kind in "a" * 60 + "arufa" * 20 + "r" * 50:
            _write(ledger, live, rng, kind, int(rng.integers(99)))
            if len(live) % 3:
                continue
            probe = unit(rng)
            scores = {name: float(vector @ probe) for name, (_, vector) in live.items()}
            mine = [name for name, (memory, _) in live.items() if memory.user == "Mia"]
            for scope, inside in ((EVERYBODY, list(live)), (of("Mia"), mine)):
                best = sorted(inside, key=lambda name: -scores[name])[:3]
                assert ids(vectors, Query(probe, scope, 3)) == best


def test_only_the_vectors_of_the_user_in_question_are_read(
    ledger: Ledger, rng: np.random.Generator
) -> None:
    mia, _ = write(ledger, rng, 8), write(ledger, rng, 60, user="Jonas")
    vectors = VectorsByUser(ledger, PLENTY)
    assert set(ids(vectors, Query(unit(rng), MIA, 99)) or ()) == set(mia)
    assert list(vectors.loaded) == [of("Mia")]


def test_a_write_neither_drops_vectors_nor_makes_them_read_again(
    ledger: Ledger, rng: np.random.Generator
) -> None:
    first = write(ledger, rng, 300)
    vectors = VectorsByUser(ledger, PLENTY)
    assert len(ids(vectors, Query(unit(rng), MIA, 999)) or ()) == 300
    with vectors_read() as statements:
        assert ids(vectors, Query(unit(rng), MIA, 5)) is not None
        assert statements == [], "nothing has changed"
        fresh = write(ledger, rng, 1)
        with ledger.writing() as writer:
            writer.memories.retire([(first[0], first[1])])
        del statements[:]
        found = ids(vectors, Query(unit(rng), MIA, 999))
    assert set(found or ()) == {*first[1:], *fresh}
    assert len(statements) == 1, "only the vector that came is read"


def test_however_many_ask_at_once_vectors_are_loaded_once(
    ledger: Ledger, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(ledger, rng, 50)
    vectors, loads = VectorsByUser(ledger, PLENTY), []
    load, ready = LiveVectors.__init__, threading.Barrier(6)

    def counted(self: LiveVectors, *args: object) -> None:
        loads.append(self)
        load(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(LiveVectors, "__init__", counted)
    found: list[list[str] | None] = []

    def ask(query: Query) -> None:
        ready.wait()
        found.append(ids(vectors, query))

    query = Query(unit(rng), MIA, 50)
    threads = [threading.Thread(target=ask, args=(query,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 1
    assert all(one == found[0] for one in found)
    assert len(found[0] or ()) == 50


def test_a_write_of_one_user_changes_the_vectors_of_no_other(
    ledger: Ledger, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = VectorsByUser(ledger, PLENTY)
    for n in range(5):
        write(ledger, rng, 4, user=f"user {n}")
        assert ids(vectors, Query(unit(rng), of(f"user {n}"), 9)) is not None
    changed, apply = [], LiveVectors.apply

    def noted(self: LiveVectors, *args: object) -> None:
        changed.append(self.owner)
        apply(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(LiveVectors, "apply", noted)
    write(ledger, rng, 1, user="user 3")
    assert len(ids(vectors, Query(unit(rng), of("user 3"), 9)) or ()) == 5
    assert changed == [of("user 3")]


def test_those_asked_about_last_stay_within_the_limit(
    ledger: Ledger, rng: np.random.Generator
) -> None:
    users = ["Mia", "Jonas", "Aiko"]
    for user in users:
        write(ledger, rng, 30, user=user)
    vectors = VectorsByUser(ledger, 70 * ROW)
    for user in ("Mia", "Jonas", "Mia", "Aiko"):
        assert len(ids(vectors, Query(unit(rng), of(user), 99)) or ()) == 30
    assert list(vectors.loaded) == [of("Mia"), of("Aiko")]
    assert sum(one.nbytes for one in vectors.loaded.values()) <= 70 * ROW


def test_a_user_who_just_fits_is_not_loaded_again_after_writes_of_others(
    ledger: Ledger, rng: np.random.Generator
) -> None:
    write(ledger, rng, 40)
    vectors = VectorsByUser(ledger, 40 * ROW)  # a loaded matrix has spare rows beyond the limit
    query = Query(unit(rng), MIA, 5)
    loaded = vectors.current(owner_of(MIA), [query])
    write(ledger, rng, 1, user="Jonas")
    assert loaded is not None
    assert vectors.current(owner_of(MIA), [query]) is loaded


def test_memories_without_a_user_are_searched_among_everybodys_if_these_are_loaded(
    ledger: Ledger, rng: np.random.Generator
) -> None:
    write(ledger, rng, 10, user=None)
    write(ledger, rng, 10)
    nobody = Scope((("user", None),))
    vectors = VectorsByUser(ledger, PLENTY)
    alone = ids(vectors, Query(axis := unit(rng), nobody, 20))
    vectors.forget_all()
    assert ids(vectors, Query(axis, EVERYBODY, 20)) is not None
    assert ids(vectors, Query(axis, nobody, 20)) == alone
    assert list(vectors.loaded) == [EVERYBODY]


def test_a_user_with_too_many_vectors_is_not_loaded_nor_kept(
    ledger: Ledger, rng: np.random.Generator
) -> None:
    write(ledger, rng, 80)
    write(ledger, rng, 20, user="Jonas")
    vectors = VectorsByUser(ledger, 40 * ROW)
    assert ids(vectors, Query(unit(rng), MIA, 5)) is None
    assert ids(vectors, Query(unit(rng), of("Jonas"), 5)) is not None
    write(ledger, rng, 60, user="Jonas")
    assert ids(vectors, Query(unit(rng), of("Jonas"), 5)) is None
    assert not vectors.loaded


def test_a_text_that_several_have_is_found_with_each(
    ledger: Ledger, rng: np.random.Generator
) -> None:
    probe = unit(rng)
    told = [
        Memory(id=new_memory_id(), content="tea", user="Mia", is_private=n > 1, timestamp=START)
        for n in range(4)
    ]
    with ledger.writing() as writer:
        writer.memories.insert_all(told)
        writer.vectors.put({text_key("tea"): probe})
    found = ids(VectorsByUser(ledger, PLENTY), Query(probe, MIA, 9))
    assert found == [told[0].id, told[1].id]


def test_after_a_failure_nothing_is_taken_for_read(
    ledger: Ledger, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(ledger, rng, 5)
    vectors = VectorsByUser(ledger, PLENTY)
    assert ids(vectors, Query(unit(rng), MIA, 9)) is not None
    write(ledger, rng, 1)

    def fail(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(LiveVectors, "apply", fail)
        with pytest.raises(MemoryError):
            ids(vectors, Query(unit(rng), MIA, 9))
    assert len(ids(vectors, Query(unit(rng), MIA, 9)) or ()) == 6


def test_vectors_of_different_dimensions_are_a_fault(
    ledger: Ledger, rng: np.random.Generator
) -> None:
    write(ledger, rng, 2)
    odd = Memory(id=new_memory_id(), content="odd", user="Mia", timestamp=START)
    with ledger.writing() as writer:
        writer.memories.insert_all([odd])
        writer.vectors.put({text_key("odd"): np.ones(1, np.float32)})
    with pytest.raises(IndexFault, match="different dimensions"):
        ids(VectorsByUser(ledger, PLENTY), Query(unit(rng), MIA, 1))


def test_what_is_surely_below_the_least_cosine_is_left_out(
    ledger: Ledger, rng: np.random.Generator
) -> None:
    """Most new memories have none near them, and then no row of a stored one is read."""
    write(ledger, rng, 40)
    vectors, vector = VectorsByUser(ledger, PLENTY), unit(rng)
    every = ids(vectors, Query(vector, MIA, 40))
    assert every is not None
    with ledger.reading() as reader:
        known = reader.vectors.of([text_key(row.memory.content) for row in reader.memories.live()])
        rows = reader.memories.rows(every)
    cosines = [float(known[rows[name].text_key] @ vector) for name in every]
    least = (cosines[6] + cosines[7]) / 2
    assert ids(vectors, Query(vector, MIA, 40, least)) == every[:7]

"""The record: what goes in comes out, one revision a transaction, wholly or not at all."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import Engine

from memory.errors import InputError, LedgerError, LedgerMissing
from memory.interchange import read_memories, write_memory
from memory.ledger.ledger import Ledger, open_database, take_snapshot
from memory.ledger.tables import attempts, distinct_pairs
from memory.models import Action, Decision, Judge, LinkType, Memory, MemoryLink, Scope, Turn
from memory.store import erase
from memory.text import text_key
from tests.conftest import MakeMemory
from tests.doubles import START


@pytest.fixture
def ledger(empty_url: str) -> Iterator[Ledger]:
    """Each test runs on SQLite and on PostgreSQL."""
    with Ledger.create(empty_url) as opened:
        yield opened


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)  # fmt: skip
shares = st.floats(0.0, 1.0)
ids = st.integers(0, 2**48 - 1).map(lambda n: f"mem_{n:012x}")


def _content(text: str) -> bool:
    try:
        Memory(content=text, timestamp=START)
    except InputError:
        return False
    return True


contents = st.text(min_size=1, max_size=40).filter(_content)
offsets = st.timedeltas(timedelta(hours=-12), timedelta(hours=14)).map(
    lambda offset: timezone(timedelta(minutes=offset // timedelta(minutes=1)))
)
moments = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=offsets)
memories = st.builds(
    Memory,
    id=ids,
    external_id=st.none() | contents,
    content=contents,
    user=st.none() | contents,
    category=contents,
    intensity=shares,
    importance=st.integers(1, 5),
    emotion=contents,
    tags=st.lists(contents, max_size=3).map(tuple),
    is_private=st.booleans(),
    timestamp=moments,
    said=st.none() | moments,
    merged_from=st.lists(ids, max_size=2).map(tuple),
    metadata=st.dictionaries(st.text(max_size=8), json_values, max_size=3),
)  # fmt: skip


@settings(
    max_examples=50,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(memory=memories)
def test_every_field_comes_back_from_the_ledger_and_from_an_export(
    tmp_path: Path, empty_ledger: Path, memory: Memory
) -> None:
    path = shutil.copy(empty_ledger, tmp_path / "round.db")
    with Ledger.create(f"sqlite:///{path}") as ledger:
        with ledger.writing() as writer:
            writer.memories.insert_all([memory])
        with ledger.reading() as reader:
            row = reader.memories.row(memory.id)
    assert row is not None
    assert row.memory == memory
    assert _offset(row.memory) == _offset(memory)
    line = tmp_path / "round.jsonl"
    line.write_text(write_memory(row.memory) + "\n", encoding="utf-8")
    [read] = read_memories(line)
    assert read == memory
    assert isinstance(read, Memory)
    assert _offset(read) == _offset(memory)


def _offset(memory: Memory) -> timedelta | None:
    return None if memory.said is None else memory.said.utcoffset()


def test_a_link_is_seen_from_both_ends(ledger: Ledger, make_memory: MakeMemory) -> None:
    first = make_memory("one")
    link = MemoryLink(target_id=first.id, link_type="caused_by", note="why", confidence=0.7)
    second = make_memory("two", linked_ids=(link,))
    with ledger.writing() as writer:
        writer.memories.insert_all([first])
        writer.memories.insert_all([second])
    with ledger.reading() as reader:
        rows = reader.memories.rows([first.id, second.id])
    assert rows[second.id].memory.linked_ids == (link,)
    [back] = rows[first.id].memory.linked_ids
    assert (back.target_id, back.link_type, back.note) == (second.id, "leads_to", "why")


def test_a_transaction_takes_one_revision_and_a_failed_one_takes_none(
    ledger: Ledger, make_memory: MakeMemory
) -> None:
    def revision() -> int:
        with ledger.reading() as reader:
            return reader.revision()

    def interrupted() -> None:
        with ledger.writing() as writer:
            writer.memories.insert_all([make_memory("three")])
            raise ZeroDivisionError

    with ledger.writing() as writer:
        writer.memories.insert_all([make_memory("one")])
        writer.memories.insert_all([make_memory("two")])
    assert revision() == 1
    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert revision() == 1
    with ledger.reading() as reader:
        assert [row.memory.content for row in reader.memories.live()] == ["one", "two"]


def test_a_known_memory_is_not_taken_for_new(ledger: Ledger, make_memory: MakeMemory) -> None:
    memory = make_memory("Mia has a cat.")
    turn = Turn(speaker="Mia", text="I have a cat.", at=START)
    with ledger.writing() as writer:
        writer.memories.insert_all([memory])
        writer.vectors.put({text_key(memory.content): np.ones(4, np.float32)})
        assert writer.turns.keep(turn, "1")
    with ledger.writing() as writer:
        assert not writer.turns.keep(turn, "1")
        writer.vectors.put({text_key(memory.content): np.ones(4, np.float32)})
    with ledger.reading() as reader:
        assert reader.revision() == 1, "whoever follows reads nothing again"


def test_changes_never_split_a_revision(ledger: Ledger, make_memory: MakeMemory) -> None:
    for batch in range(4):
        with ledger.writing() as writer:
            for n in range(3):
                writer.memories.insert_all([make_memory(f"{batch} {n}")])
    with ledger.reading() as reader:
        assert [change.revision for change in reader.followers.changes(0, limit=4)] == [
            1,
            1,
            1,
            2,
            2,
            2,
        ]
        assert [change.revision for change in reader.followers.changes(2)] == [3, 3, 3, 4, 4, 4]
        assert reader.followers.lag(1) == 9


def test_a_retired_memory_keeps_its_text_and_names_who_lives_for_it(
    ledger: Ledger, make_memory: MakeMemory
) -> None:
    first, second, third = make_memory("one"), make_memory("two"), make_memory("three")
    with ledger.writing() as writer:
        for memory in (first, second, third):
            writer.memories.insert_all([memory])
        writer.memories.retire([(first.id, second.id)])
        writer.memories.retire([(second.id, third.id)])
    with ledger.reading() as reader:
        row = reader.memories.row(first.id)
        assert row is not None
        assert (row.memory.content, row.live) == ("one", False)
        alive = reader.memories.living(first.id)
        assert alive is not None
        assert alive.memory.id == third.id


def test_no_call_breaks_above_the_number_of_variables_of_sqlite(
    ledger: Ledger, make_memory: MakeMemory
) -> None:
    known = make_memory("one")
    with ledger.writing() as writer:
        writer.memories.insert_all([known])
        writer.vectors.put({text_key("one"): np.ones(3, np.float32)})
    many = [f"mem_{n:012x}" for n in range(40_000)] + [known.id]
    with ledger.reading() as reader:
        assert list(reader.memories.rows(many)) == [known.id]
        assert len(reader.vectors.of([*map(str, range(40_000))])) == 0


def test_an_earlier_arrival_is_known_by_its_id_and_its_external_id(
    ledger: Ledger, make_memory: MakeMemory
) -> None:
    told = make_memory("one", external_id="7", user="Mia")
    with ledger.writing() as writer:
        writer.memories.insert_all([told])
        again = told.model_copy(update={"id": "mem_000000000001"})
        assert writer.memories.earlier_arrivals([told])[0][0] is not None
        assert writer.memories.earlier_arrivals([again])[0][0] is not None
        others = ({"content": "two"}, {"user": "Jonas"}, {"external_id": None})
        for other in (*others, {"is_private": True}):
            assert writer.memories.earlier_arrivals([again.model_copy(update=other)])[0][0] is None


def test_the_same_moment_on_another_day_is_another_arrival(
    ledger: Ledger, make_memory: MakeMemory
) -> None:
    """07:30 UTC is still the 13th in California and the 14th in Berlin."""
    california, berlin = (datetime.fromisoformat(at) for at in (
        "2024-05-13T23:30:00-08:00", "2024-05-14T08:30:00+01:00"
    ))  # fmt: skip
    texts = ("Mia flies today.", "Mia flies.")
    said = [make_memory(text, timestamp=california, said=california) for text in texts]
    again = [
        one.model_copy(update={"id": f"mem_{n:012x}", "said": berlin}) for n, one in enumerate(said)
    ]
    with ledger.writing() as writer:
        writer.memories.insert_all(said)
        found = [row is not None for row, _ in writer.memories.earlier_arrivals(again)]
    assert found == [False, True]


def test_a_decision_is_recorded_with_the_state_before_it(
    ledger: Ledger, make_memory: MakeMemory
) -> None:
    memory = make_memory("one")
    with ledger.writing() as writer:
        writer.memories.insert_all([memory])
    with ledger.writing() as writer:
        decision = Decision(Action.KEEP_BOTH, "told apart", (memory,), pending=True)
        image = writer.memories.image([memory.id])
        writer.decisions.record([(decision, image)], START, "run_1")
    with ledger.reading() as reader:
        assert reader.counts().decisions == {"keep_both": 1}
        assert reader.counts().pending == 1
    with ledger.writing() as writer:
        writer.decisions.close_about([memory.id], 10)
        assert writer.counts().pending == 0


def test_live_memories_come_oldest_first_and_at_the_same_time_in_order_of_arrival(
    ledger: Ledger, make_memory: MakeMemory
) -> None:
    late, early, same = (
        make_memory("late", timestamp=START + timedelta(days=1)),
        make_memory("early", timestamp=START),
        make_memory("same", timestamp=START),
    )
    with ledger.writing() as writer:
        for memory in (late, early, same):
            writer.memories.insert_all([memory])
    with ledger.reading() as reader:
        rows = take_snapshot(reader, ()).rows
    assert [row.memory.content for row in rows] == ["early", "same", "late"]


def test_an_arrival_is_known_again_whatever_became_of_its_row(
    ledger: Ledger, make_memory: MakeMemory
) -> None:
    told = make_memory("one", external_id="7")
    later = told.timestamp + timedelta(days=9)
    with ledger.writing() as writer:
        writer.memories.insert_all([told])
        writer.memories.rewrite([told.model_copy(update={"timestamp": later, "external_id": "8"})])
        again = told.model_copy(update={"id": "mem_000000000001"})
        assert writer.memories.earlier_arrivals([again])[0][0] is not None


def test_links_to_what_has_not_arrived_follow_whoever_is_retired(
    ledger: Ledger, make_memory: MakeMemory
) -> None:
    friend, stand_in = make_memory("friend"), make_memory("friend of mine")
    link = MemoryLink(target_id=friend.id, link_type="caused_by")
    first, successor = make_memory("one", linked_ids=(link,)), make_memory("one!")
    with ledger.writing() as writer:
        writer.memories.insert_all([first])
        writer.memories.insert_all([successor])
        writer.memories.retire([(first.id, successor.id)])
    with ledger.writing() as writer:
        writer.memories.insert_all([friend])
        writer.memories.insert_all([stand_in])
        assert [
            end.target_id
            for end in writer.memories.rows([successor.id])[successor.id].memory.linked_ids
        ] == [friend.id]
        writer.memories.retire([(friend.id, stand_in.id)])
    with ledger.reading() as reader:
        rows = reader.memories.rows([successor.id, stand_in.id])
    [there], [back] = rows[successor.id].memory.linked_ids, rows[stand_in.id].memory.linked_ids
    assert (there.target_id, there.link_type) == (stand_in.id, "caused_by")
    assert (back.target_id, back.link_type) == (successor.id, "leads_to")


def test_forgetting_erases_every_holder_and_keeps_a_tombstone(
    ledger: Ledger, make_memory: MakeMemory
) -> None:
    secret, successor, other = (
        make_memory("the word is xyzzy"),
        make_memory("the word is xyzzy!"),
        make_memory("other"),
    )
    vector = np.ones(4, np.float32)
    with ledger.writing() as writer:
        for memory in (secret, successor, other):
            writer.memories.insert_all([memory])
            writer.vectors.put({text_key(memory.content): vector})
        scope = Scope.of(successor, ("user",))
        writer.distinct.mark(scope, successor.dated_key, other.dated_key, "test", "model")
        decision = Decision(Action.REPLACE, "said xyzzy", (secret, successor))
        image = writer.memories.image([secret.id, successor.id])
        writer.decisions.record([(decision, image)], START, None)
        writer.memories.retire([(secret.id, successor.id)])
    erase(ledger, successor.id, START)
    with ledger.reading() as reader:
        assert reader.vectors.of([text_key(successor.content)]) == {}
        assert reader.vectors.of([text_key(other.content)]) != {}
        assert reader.distinct.all() == set()
        gone = reader.memories.row(successor.id)
        assert gone is not None
        assert (gone.live, gone.memory.content) == (False, "")
    ledger.close()
    files = [path for path in Path(ledger.name).parent.rglob("*") if path.is_file()]
    assert not any(b"xyzzy" in path.read_bytes() for path in files)


def test_a_dry_look_after_a_kill_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    code = (
        "import os, sys; from memory.ledger import Ledger; from memory.models import Memory\n"
        "from tests.doubles import START\n"
        f"ledger = Ledger.create('sqlite:///{tmp_path / 'l.db'}')\n"
        "with ledger.writing() as writer:\n"
        "    writer.memories.insert_all([Memory(content='one', timestamp=START)])\n"
        "os._exit(9)"
    )
    root = Path(__file__).parent.parent.parent
    subprocess.run([sys.executable, "-c", code], cwd=root, check=False)
    assert (tmp_path / "l.db-wal").stat().st_size > 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with Ledger.open(f"sqlite:///{tmp_path / 'l.db'}") as ledger, ledger.reading() as reader:
        assert reader.counts().live == 1
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert after["l.db"] == before["l.db"]
    assert after["l.db-wal"] == before["l.db-wal"]


@pytest.mark.parametrize("url", ["nonsense", "postgresql://bob:s3cret@host/db", "sqlite://"])
def test_a_url_that_is_no_ledger_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(LedgerError, match=r"memory\.ledger_url") as caught:
        Ledger.create(url)
    assert "s3cret" not in str(caught.value)


def test_how_often_a_model_failed_at_a_text_goes_with_the_text(
    ledger: Ledger, empty_url: str, make_memory: MakeMemory
) -> None:
    told = make_memory("the word is xyzzy")
    key = text_key(told.content)
    with ledger.writing() as writer:
        writer.memories.insert_all([told])
        writer.vectors.put({text_key(told.content): np.ones(4, np.float32)})
    with closing(open_database(empty_url, create=True)) as other, other.writing() as rows:
        failed = {"scope": "", "low_key": "", "high_key": key, "model": "any", "attempts": 1}
        rows.execute(attempts.insert().values(failed))
    erase(ledger, told.id, START)
    with closing(open_database(empty_url, create=False)) as other, other.reading() as rows:
        assert rows.execute(sa.select(attempts)).all() == []


def test_a_persons_word_that_two_texts_differ_stands_over_a_models(
    ledger: Ledger, empty_url: str
) -> None:
    def judged(by: Judge) -> str:
        with ledger.writing() as writer:
            writer.distinct.mark(Scope(()), "one", "two", f"said {by}", by)
        query = sa.select(distinct_pairs.c.reason, distinct_pairs.c.by)
        with (
            closing(open_database(empty_url, create=False)) as looked,
            looked.reading() as rows,
        ):
            [(reason, stored)] = rows.execute(query)
        assert reason == f"said {stored}"
        return str(stored)

    words: list[Judge] = ["offline", "model", "offline", "person", "model", "offline"]
    assert [judged(by) for by in words] == [
        "offline", "model", "model", "person", "person", "person",
    ]  # fmt: skip


# --- faults -----------------------------------------------------------------------------------


def test_reading_what_is_not_there_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(LedgerMissing, match="no memories"):
        Ledger.open(f"sqlite:///{tmp_path / 'none' / 'ledger.db'}")
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_opened_for_reading_cannot_be_written(
    ledger: Ledger, empty_url: str, make_memory: MakeMemory
) -> None:
    with (
        Ledger.open(empty_url) as readable,
        pytest.raises(LedgerError, match="cannot be written"),
        readable.writing() as writer,
    ):
        writer.memories.insert_all([make_memory("one")])


def test_a_reading_transaction_cannot_write(ledger: Ledger, make_memory: MakeMemory) -> None:
    with pytest.raises(LedgerError, match="cannot be written"), ledger.reading() as reader:
        reader.memories.insert_all([make_memory("one")])
    with ledger.writing() as writer:
        writer.memories.insert_all([make_memory("one")])


def test_a_file_that_is_no_ledger_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(b"something else entirely, long enough to look like a page" * 40)
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="is not a ledger"):
        Ledger.create(f"sqlite:///{path}")
    assert path.read_bytes() == before


@pytest.fixture
def opened(tmp_path: Path, make_memory: MakeMemory) -> Iterator[Ledger]:
    """A ledger in a folder of its own that has been written to."""
    with Ledger.create(f"sqlite:///{tmp_path / 'data' / 'ledger.db'}") as ledger:
        with ledger.writing() as writer:
            writer.memories.insert_all([make_memory("Mia has a cat.")])
        yield ledger


def _move(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def _replace(folder: Path) -> None:
    _move(folder)
    Ledger.create(f"sqlite:///{folder / 'ledger.db'}").close()


@pytest.mark.parametrize("happens", [_move, shutil.rmtree, _replace])
def test_a_ledger_that_is_no_longer_at_its_path_acknowledges_no_write(
    opened: Ledger, tmp_path: Path, make_memory: MakeMemory, happens: Callable[[Path], None]
) -> None:
    happens(tmp_path / "data")
    for _ in range(2):
        with (
            pytest.raises(LedgerError, match="was moved, deleted or replaced"),
            opened.writing() as writer,
        ):
            writer.memories.insert_all([make_memory("Mia has a dog.")])


def test_a_ledger_that_goes_while_it_is_written_does_not_acknowledge_the_write(
    opened: Ledger, tmp_path: Path, make_memory: MakeMemory
) -> None:
    def write() -> None:
        with opened.writing() as writer:
            writer.memories.insert_all([make_memory("Mia has a dog.")])
            _move(tmp_path / "data")

    with pytest.raises(LedgerError, match="was moved, deleted or replaced"):
        write()


def test_a_new_connection_to_another_ledger_at_the_path_is_refused(
    opened: Ledger, tmp_path: Path
) -> None:
    with opened.reading():  # so that the next one needs a connection of its own
        _replace(tmp_path / "data")
        with (
            pytest.raises(LedgerError, match="was moved, deleted or replaced"),
            opened.reading() as reader,
        ):
            reader.counts()


def test_a_ledger_that_is_put_back_is_written_again(
    opened: Ledger, tmp_path: Path, make_memory: MakeMemory
) -> None:
    _move(tmp_path / "data")
    with pytest.raises(LedgerError), opened.writing():
        pass
    (tmp_path / "elsewhere").rename(tmp_path / "data")
    with opened.writing() as writer:
        writer.memories.insert_all([make_memory("Mia has a dog.")])
    with opened.reading() as reader:
        assert reader.counts().live == 2


def test_the_log_stays_short_however_much_is_written(tmp_path: Path) -> None:
    log = tmp_path / "ledger.db-wal"
    with Ledger.create(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        for n in range(12):
            with ledger.writing() as writer:
                vectors = {f"{n} {key}": np.ones(1_000, np.float32) for key in range(400)}
                writer.vectors.put(vectors)  # 1.6 MB
        assert log.stat().st_size < 8_000_000
        with ledger.reading() as reader:
            assert reader.vectors.byte_lengths() == {4_000: 4_800}


def test_a_log_that_somebody_reads_is_shortened_later(tmp_path: Path) -> None:
    def write(ledger: Ledger, name: str) -> None:
        with ledger.writing() as writer:
            writer.vectors.put({f"{name} {n}": np.ones(1_000, np.float32) for n in range(1_200)})

    with Ledger.create(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        write(ledger, "first")
        with ledger.reading() as reader:
            assert reader.vectors.byte_lengths() == {4_000: 1_200}
            write(ledger, "second")
            assert reader.vectors.byte_lengths() == {4_000: 1_200}
        write(ledger, "third")
        write(ledger, "fourth")
        assert (tmp_path / "ledger.db-wal").stat().st_size < 16_000_000
        with ledger.reading() as reader:
            assert reader.vectors.byte_lengths() == {4_000: 4_800}


def all_links(ledger: Ledger) -> list[Any]:
    with ledger.reading() as reader:
        rows = reader.links.touching([row.memory.id for row in reader.memories.all()])
        return [tuple(row) for row in rows]


@pytest.mark.parametrize("seed", range(12))
def test_retiring_together_hands_links_on_as_retiring_one_by_one(
    tmp_path: Path, make_memory: MakeMemory, seed: int
) -> None:
    drawn = random.Random(seed)
    kinds: tuple[LinkType, ...] = ("related", "caused_by", "leads_to", "similar")
    told = [make_memory(f"text {n}") for n in range(14)]
    names = [memory.id for memory in told] + ["mem_ffffffffffff"]
    linked = [
        memory.model_copy(
            update={
                "linked_ids": tuple(
                    MemoryLink(target_id=name, link_type=drawn.choice(kinds), note=f"{n}")
                    for name in drawn.sample(names, 4)
                )
            }
        )
        for n, memory in enumerate(told)
    ]
    order = drawn.sample(told, 10)
    successions = [(one.id, drawn.choice(order[n + 1 :] + told).id) for n, one in enumerate(order)]
    successions = [(one, other) for one, other in successions if one != other]
    with (
        Ledger.create(f"sqlite:///{tmp_path / 'a.db'}") as together,
        Ledger.create(f"sqlite:///{tmp_path / 'b.db'}") as singly,
    ):
        for one_of_them in (together, singly):
            with one_of_them.writing() as writer:
                writer.memories.insert_all(linked)
                writer.memories.tombstone([told[-1].id])
        with together.writing() as writer:
            writer.memories.retire(successions)
        for succession in successions:
            with singly.writing() as writer:
                writer.memories.retire([succession])
        assert all_links(together) == all_links(singly)
        assert len(all_links(together)) > 1


def test_a_memory_hands_on_many_links_as_cheaply_as_few(
    ledger: Ledger, make_memory: MakeMemory
) -> None:
    def statements(count: int) -> int:
        seen: list[str] = []
        friends = [make_memory(f"text {n}") for n in range(count)]
        ends = tuple(MemoryLink(target_id=friend.id) for friend in friends)
        hub, successor = make_memory("a hub", linked_ids=ends), make_memory("what stands for it")
        with ledger.writing() as writer:
            writer.memories.insert_all([*friends, hub, successor])
        listen = (Engine, "before_cursor_execute", lambda *told: seen.append(told[2]))
        sa.event.listen(*listen)
        try:
            with ledger.writing() as writer:
                writer.memories.retire([(hub.id, successor.id)])
        finally:
            sa.event.remove(*listen)
        with ledger.reading() as reader:
            assert len(reader.links.touching([successor.id])) == count
        return len(seen)

    assert statements(40) == statements(3) < 24


def test_a_connection_in_use_is_closed_when_it_is_returned_to_a_closed_ledger(
    empty_url: str,
) -> None:
    """A background thread may still read when its ledger is closed."""
    Ledger.create(empty_url).close()
    database = open_database(empty_url, create=False)
    with database.reading() as connection:
        driver: Any = connection.connection.driver_connection
        database.close()
        assert connection.scalar(sa.text("SELECT 1")) == 1
    with pytest.raises(Exception, match="closed"):
        driver.execute("SELECT 1")

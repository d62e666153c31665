"""LangGraph's own stores, on SQLite and PostgreSQL: read, written back to, and taken back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from memory.errors import InputError
from memory.interchange.foreign import Reading
from memory.interchange.selection import unexpired
from memory.interchange.tables import LangGraphStore, langgraph_at
from memory.store import MemoryStore
from tests.interchange.backs import (
    MERGED,
    NOW,
    TEXTS,
    bring_in,
    carried_out,
    cleaned_of,
    killed,
    merge,
    planned,
    replace,
    run_again,
    taken_back,
    word_vectors,
    written,
)

pytestmark = pytest.mark.framework
MIA = ("memories", "mia")
BY_NAMESPACE = Reading(user_key="namespace")


@dataclass(frozen=True)
class Place:
    """A database that LangGraph made, and how its own store is opened on it."""

    address: str
    on_postgres: bool

    @property
    def theirs(self) -> LangGraphStore:
        return langgraph_at(self.address)

    @contextmanager
    def opened(self, fields: tuple[str, ...] = ("text",)) -> Iterator[Any]:
        named = {key: list(fields) for key in ("fields", "text_fields")}  # SqliteStore's own name
        index = {"dims": 256, "embed": word_vectors, **named}
        if self.on_postgres:
            from langgraph.store.postgres import PostgresStore

            opened = PostgresStore.from_conn_string(self.address, index=index)
        else:
            from langgraph.store.sqlite import SqliteStore

            opened = SqliteStore.from_conn_string(self.address, index=index)
        with opened as store:
            store.setup()
            yield store

    def put(self, key: str, value: dict[str, Any], **more: Any) -> None:
        namespace = more.pop("namespace", MIA)
        with self.opened(more.pop("fields", ("text",))) as store:
            store.put(namespace, key, value, **more)

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        if self.on_postgres:
            import psycopg

            with psycopg.connect(self.address) as connection:
                cursor = connection.execute(statement)
                return cursor.fetchall() if cursor.description else []
        with closing(sqlite3.connect(self.address)) as file, file:
            return file.execute(statement).fetchall()

    @contextmanager
    def holding(self, statement: str) -> Iterator[Callable[[], None]]:
        """A statement that has run and is not committed before that is called for."""
        if self.on_postgres:
            import psycopg

            with psycopg.connect(self.address) as connection:
                connection.execute(statement)
                yield connection.commit
            return
        with closing(sqlite3.connect(self.address)) as file:
            file.execute(statement)
            yield file.commit

    def held(self) -> list[tuple[Any, ...]]:
        """Both tables, every column as the database keeps it."""
        if self.on_postgres:
            told = ("SELECT store::text FROM store", "SELECT v::text FROM store_vectors v")
        else:
            kinds = "typeof(value), typeof(created_at), typeof(expires_at), typeof(ttl_minutes)"
            told = (f"SELECT {kinds}, * FROM store", "SELECT * FROM store_vectors")
        return sorted(row for statement in told for row in self.run(statement))

    def value(self, key: str, namespace: tuple[str, ...] = MIA) -> Any:
        with self.opened() as store:
            item = store.get(namespace, key, refresh_ttl=False)
        return None if item is None else item.value


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Five items of Mia with vectors, as LangGraph puts them; what else is in them must stay."""
    if request.param == "postgresql":
        pytest.importorskip("langgraph.store.postgres")
        url = request.getfixturevalue("postgres_url")
        made = Place(url.replace("postgresql+psycopg://", "postgresql://"), True)
    else:
        pytest.importorskip("langgraph.store.sqlite")
        if not hasattr(sqlite3.Connection, "enable_load_extension"):
            pytest.skip("this Python's SQLite loads no extensions, and LangGraph's vectors are one")
        made = Place(str(tmp_path / "store.db"), False)
    with made.opened() as store:
        for key, text in TEXTS.items():
            value = {"text": text, "note": key, "share": 1.50, "more": {"née": [1e16, None]}}
            store.put(MIA, key, value)
        store.put(("files",), "f", {"lines": ["Mia sails."]}, index=False)
    return made


def name(key: str, namespace: tuple[str, ...] = MIA) -> str:
    return f"{'.'.join(namespace)}/{key}"


@pytest.fixture
def cleaned(store: MemoryStore, place: Place) -> MemoryStore:
    return cleaned_of(store, place.theirs, {key: name(key) for key in TEXTS}, BY_NAMESPACE)


def test_what_was_absorbed_goes_and_what_was_merged_says_so_in_value_and_vector(
    cleaned: MemoryStore, place: Place, tmp_path: Path
) -> None:
    before = {row[-1] if place.on_postgres else row: row for row in place.held()}
    kept = {key: place.value(key) for key in "bde"}
    written(cleaned, place.theirs, tmp_path / "undo.jsonl", BY_NAMESPACE)
    assert [place.value(key) for key in "ac"] == [None, None]
    assert place.value("b") == kept["b"]
    assert place.value("e") == kept["e"]
    assert place.value("d") == kept["d"] | {"text": MERGED}
    with place.opened() as theirs:
        first = theirs.search(MIA, query=MERGED, limit=1)[0]
        assert (first.key, round(first.score, 6)) == ("d", 1.0)
        assert first.updated_at.replace(tzinfo=UTC) == NOW
        assert theirs.get(("files",), "f").value == {"lines": ["Mia sails."]}
    same = [row for row in place.held() if row in before.values()]
    assert len(same) == 5, "b, e and the file, and two vectors: not a bit of them changed"
    assert len(place.held()) == 7
    assert planned(cleaned, place.theirs, BY_NAMESPACE).changes == ()


def test_the_undo_file_brings_every_item_and_vector_back_to_the_bit(
    cleaned: MemoryStore, place: Place, tmp_path: Path
) -> None:
    before = place.held()
    written(cleaned, place.theirs, tmp_path / "undo.jsonl", BY_NAMESPACE)
    assert place.held() != before
    assert taken_back(place.theirs, tmp_path / "undo.jsonl").restored == 3
    assert place.held() == before
    again = taken_back(place.theirs, tmp_path / "undo.jsonl")
    assert (again.restored, again.already) == (0, 3)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_kill_at_any_step_leaves_a_whole_undo_file_and_a_store_that_recovers(
    cleaned: MemoryStore, place: Place, tmp_path: Path, step: int
) -> None:
    before = place.held()
    undo = tmp_path / "undo.jsonl"
    assert killed(place.theirs, tmp_path / "data", undo, step, BY_NAMESPACE) == 9
    gone = taken_back(place.theirs, undo)
    assert (gone.restored, gone.already) == [(0, 3), (1, 2), (3, 0)][step - 1]
    assert place.held() == before
    written(cleaned, place.theirs, tmp_path / "second.jsonl", BY_NAMESPACE)
    left = [key for key in TEXTS if place.value(key)]
    assert left in (["b", "c", "e"], ["b", "d", "e"]), "what was put back stands last in SQLite"


@pytest.mark.parametrize("step", [1, 2, 3])
def test_after_a_kill_the_same_command_does_the_rest_and_the_first_undo_file_undoes_all(
    cleaned: MemoryStore, place: Place, tmp_path: Path, step: int
) -> None:
    before = place.held()
    undo = tmp_path / "undo.jsonl"
    assert killed(place.theirs, tmp_path / "data", undo, step, BY_NAMESPACE) == 9
    run_again(cleaned, place.theirs, undo, BY_NAMESPACE)
    assert [key for key in TEXTS if place.value(key)] == ["b", "d", "e"]
    assert place.value("d")["text"] == MERGED
    taken_back(place.theirs, undo)
    assert place.held() == before


def test_what_somebody_changed_since_the_plan_or_the_write_back_is_left_alone(
    cleaned: MemoryStore, place: Place, tmp_path: Path
) -> None:
    plan = planned(cleaned, place.theirs, BY_NAMESPACE)
    place.put("a", {"text": "Mia rows."})
    done = carried_out(place.theirs, plan, tmp_path / "undo.jsonl", BY_NAMESPACE)
    assert [one.id for one in done.left_alone] == [name("a")]
    assert place.value("a") == {"text": "Mia rows."}
    place.put("d", {"text": "Mia paints ships."})
    back = taken_back(place.theirs, tmp_path / "undo.jsonl")
    assert (back.restored, [one.id for one in back.left_alone]) == (1, [name("d")])
    assert place.value("d") == {"text": "Mia paints ships."}
    assert place.value("c")["text"] == TEXTS["c"]


def test_what_another_program_is_writing_is_waited_for_and_then_left_alone(
    cleaned: MemoryStore, place: Place, tmp_path: Path
) -> None:
    plan = planned(cleaned, place.theirs, BY_NAMESPACE)
    mine = json.dumps({"text": TEXTS["a"], "note": "mine"})
    news = f"UPDATE store SET value = '{mine}' WHERE key = 'a'"
    with ThreadPoolExecutor() as threads, place.holding(news) as commit:
        writing = threads.submit(
            carried_out, place.theirs, plan, tmp_path / "undo.jsonl", BY_NAMESPACE
        )
        commit()
        done = writing.result()
    assert [one.id for one in done.left_alone] == [name("a")]
    assert (len(done.updates), len(done.deletions)) == (1, 1)
    assert place.value("a")["note"] == "mine"


def test_items_that_expire_apart_or_lie_in_two_namespaces_keep_their_own_text(
    store: MemoryStore, place: Place, tmp_path: Path
) -> None:
    other = ("notes", "mia")
    place.put("soon", {"text": TEXTS["a"]}, ttl=600)
    place.put("there", {"text": TEXTS["a"]}, namespace=other)
    reading = Reading(user_key="namespace.1")
    known = bring_in(store, place.theirs, reading)
    replace(store, known[name("soon")], known[name("b")])
    replace(store, known[name("there", other)], known[name("b")])
    before = place.held()
    plan = written(store, place.theirs, tmp_path / "undo.jsonl", reading)
    assert plan.changes == ()
    assert {(one.row.id, one.apart) for one in plan.staying} == {
        (name("soon"), ("expires_at",)), (name("there", other), ("namespace",)),
    }  # fmt: skip
    assert place.held() == before
    plan = planned(store, place.theirs, reading, across=["namespace", "expires_at"])
    assert {one.row.id for one in plan.deletions} == {name("soon"), name("there", other)}


def test_a_survivor_expires_with_the_last_of_its_group_and_the_undo_file_takes_that_back(
    store: MemoryStore, place: Place, tmp_path: Path
) -> None:
    place.put("soon", {"text": "Mia rows."}, ttl=60)
    place.put("later", {"text": "Mia rows boats."}, ttl=600)
    place.put("late", {"text": "Mia rows boats!"}, ttl=6_000)
    known = bring_in(store, place.theirs, BY_NAMESPACE)
    for key in ("soon", "late"):
        replace(store, known[name(key)], known[name("later")])
    lasting = "SELECT expires_at, ttl_minutes FROM store WHERE key = "
    [life], value, before = place.run(f"{lasting}'late'"), place.value("later"), place.held()
    plan = planned(store, place.theirs, BY_NAMESPACE, across=["expires_at"])
    carried_out(place.theirs, plan, tmp_path / "undo.jsonl", BY_NAMESPACE)
    assert [place.value(key) for key in ("soon", "later")] == [None, None]
    assert place.run(f"{lasting}'late'") == [life]
    assert place.value("late") == value
    assert taken_back(place.theirs, tmp_path / "undo.jsonl").restored == 3
    assert place.held() == before


def test_what_has_expired_is_left_where_it_is_and_a_refreshed_time_is_no_change(
    store: MemoryStore, place: Place, tmp_path: Path
) -> None:
    for key in ("x", "y"):
        place.put(key, {"text": f"Mia owns {key}."}, ttl=600)
    place.run("UPDATE store SET expires_at = '2027-01-01 00:00:00+00:00' WHERE key IN ('x', 'y')")
    rows = place.theirs.found().rows
    assert {row.id for row in rows} - {
        row.id for row in unexpired(rows, datetime(2028, 1, 1, tzinfo=UTC))
    } == {name("x"), name("y")}
    known = bring_in(store, place.theirs, BY_NAMESPACE)
    replace(store, known[name("x")], known[name("y")])
    place.run("UPDATE store SET expires_at = '2027-02-01 00:00:00+00:00' WHERE key IN ('x', 'y')")
    before = place.held()
    written(store, place.theirs, tmp_path / "undo.jsonl", BY_NAMESPACE)
    assert place.value("x") is None
    taken_back(place.theirs, tmp_path / "undo.jsonl")
    assert place.held() == before


def test_a_vector_of_the_whole_value_or_of_several_texts_is_made_anew_where_it_says_otherwise(
    store: MemoryStore, place: Place, tmp_path: Path
) -> None:
    for key, text in (("w", "Mia swims."), ("v", "Mia swims daily.")):
        value = {"text": text, "facts": ["one", "two"]}
        place.put(key, value, fields=("$", "facts[*]", "text"))
    known = bring_in(store, place.theirs, BY_NAMESPACE)
    replace(store, known[name("w")], known[name("v")])
    merge(store, known[name("v")], known[name("e")], "Mia swims daily and has a cat.")
    before = place.held()
    written(store, place.theirs, tmp_path / "undo.jsonl", BY_NAMESPACE)
    after = place.held()
    assert len([row for row in after if row not in before]) == 3, "the item, its $ and its text"
    with place.opened() as theirs:
        whole = json.dumps(place.value("v"), sort_keys=True, ensure_ascii=False)
        assert round(theirs.search(MIA, query=whole, limit=1)[0].score, 6) == 1.0
    taken_back(place.theirs, tmp_path / "undo.jsonl")
    assert place.held() == before


def test_without_an_embedder_like_theirs_what_has_no_vector_is_written_and_the_rest_left_alone(
    store: MemoryStore, place: Place, tmp_path: Path
) -> None:
    from memory.interchange.write_back import with_vectors

    for key in ("p", "q"):
        place.put(key, {"text": f"Mia owns {key}."}, index=False)
    known = bring_in(store, place.theirs, BY_NAMESPACE)
    merge(store, known[name("p")], known[name("q")], "Mia owns p and q.")
    merge(store, known[name("c")], known[name("d")])
    plan = planned(store, place.theirs, BY_NAMESPACE)
    rows = place.theirs.found().rows
    plan, made = with_vectors(place.theirs, plan, rows, BY_NAMESPACE, NOW, [])
    assert made == {}
    assert {one.row.id for one in plan.changes} == {name("p"), name("q")}
    assert {one.id for one in plan.left_alone} == {name("c"), name("d")}


def test_a_role_that_may_only_read_reads_and_is_told_so_before_anything_is_begun(
    cleaned: MemoryStore, place: Place, tmp_path: Path
) -> None:
    if not place.on_postgres:
        pytest.skip("SQLite knows no roles")
    role = f"reader_{uuid4().hex[:8]}"
    place.run(f"CREATE ROLE {role} LOGIN PASSWORD 'geheim'")
    try:
        place.run(f"GRANT SELECT ON store, store_vectors TO {role}")
        theirs = langgraph_at(place.address.replace("postgres:@", f"{role}:geheim@"))
        before = place.held()
        with pytest.raises(InputError, match="cannot be written; grant this role SELECT") as told:
            written(cleaned, theirs, tmp_path / "undo.jsonl", BY_NAMESPACE)
        assert "geheim" not in str(told.value)
        assert not (tmp_path / "undo.jsonl").exists()
        assert place.held() == before
    finally:
        place.run(f"DROP OWNED BY {role}")
        place.run(f"DROP ROLE {role}")


def test_a_name_that_could_be_two_items_is_neither(place: Place) -> None:
    place.put("b/c", {"text": "One."}, namespace=("a",))
    place.put("c", {"text": "Two."}, namespace=("a/b",))
    with place.theirs.looking() as rows:
        assert rows.stored(["a/b/c"]) == {}
        assert set(rows.stored([name("a"), name("none")])) == {name("a")}

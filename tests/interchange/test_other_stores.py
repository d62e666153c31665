"""What mem0, LangGraph and MCP's reference memory server keep, read as it lies on disk."""

from __future__ import annotations

import json
import pickle
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import chromadb
import pytest
from chromadb.config import Settings

from memory.assembly import Source, mem0_store, their_collection
from memory.errors import InputError
from memory.interchange.collection import Stored
from memory.interchange.databases import copied
from memory.interchange.foreign import ForeignRow, Reading, as_memories, as_memory
from memory.interchange.jsonl import read_graph, to_memory, with_links_resolved
from memory.interchange.selection import unexpired, vector_folder, with_history
from memory.interchange.tables import PgvectorStore, langgraph_at
from memory.models import Memory

pytestmark = pytest.mark.usefixtures("forked_chroma")

WHEN = "2026-05-01T08:00:00+00:00"


@pytest.fixture
def mem0(tmp_path: Path) -> Path:
    """A folder as mem0 leaves it: the vectors, and its history beside them."""
    settings = Settings(anonymized_telemetry=False)
    client: Any = chromadb.PersistentClient(str(tmp_path / "db"), settings=settings)
    collection = client.create_collection("mem0", embedding_function=None)
    collection.add(
        ids=["a", "b"],
        embeddings=[[1.0, 0.0], [0.0, 1.0]],
        metadatas=[
            {"data": "Mia sails.", "hash": "x", "user_id": "mia", "created_at": WHEN},
            {"data": "Jonas sails.", "user_id": "jonas"},
        ],
    )
    client.close()
    with closing(sqlite3.connect(tmp_path / "history.db")) as history, history:
        history.execute("CREATE TABLE history (id, memory_id, created_at, updated_at)")
        history.execute("INSERT INTO history VALUES (1, 'b', ?, NULL)", [WHEN])
    return tmp_path


def read_mem0(folder: Path) -> list[ForeignRow]:
    found = their_collection(*mem0_store(str(folder)), "mem0").found()
    return with_history(found.rows, folder)


def memories(rows: list[ForeignRow], **reading: Any) -> list[Memory]:
    read = list(as_memories(rows, "theirs", Reading(**reading)))
    assert all(isinstance(one, Memory) for one in read), read
    return with_links_resolved([one for one in read if isinstance(one, Memory)])


@pytest.mark.parametrize("where", [".", "db"])
def test_mem0s_folder_or_its_vectors_give_each_memory_of_its_user(mem0: Path, where: str) -> None:
    before = {path: path.read_bytes() for path in mem0.rglob("*.*")}
    read = memories(read_mem0(mem0 / where))
    assert [(one.external_id, one.user, one.content) for one in read] == [
        ("a", "mia", "Mia sails."), ("b", "jonas", "Jonas sails."),
    ]  # fmt: skip
    assert {one.timestamp.isoformat() for one in read} == {WHEN}, "the second's is in the history"
    assert before == {path: path.read_bytes() for path in mem0.rglob("*.*")}


def test_what_may_only_be_read_is_read_from_a_copy_that_may_be_written(mem0: Path) -> None:
    """A database writes to what it reads."""
    for path in (mem0 / "db").rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    assert len(read_mem0(mem0)) == 2
    with copied(mem0, [mem0 / "db"]) as copy:
        for path in (copy / "db").rglob("*"):
            assert path.stat().st_mode & 0o600 == 0o600, path
            assert not path.is_dir() or path.stat().st_mode & 0o700 == 0o700, path


def test_a_folder_that_is_no_store_or_holds_several_is_one_clear_line(mem0: Path) -> None:
    (mem0 / "empty").mkdir()
    with pytest.raises(InputError, match="holds no store of mem0"):
        vector_folder(mem0 / "empty")
    with pytest.raises(InputError, match="there is no such folder"):
        vector_folder(mem0 / "none")
    for name in ("migrations_qdrant", "qdrant"):
        assert vector_folder(mem0) == mem0 / "db", "what mem0 keeps for itself is no store"
        (mem0 / name / "collection").mkdir(parents=True)
        (mem0 / name / "meta.json").write_text("{}")
    with pytest.raises(InputError, match="several stores: db, qdrant"):
        vector_folder(mem0)


def test_a_folder_of_qdrant_holds_pickles_and_is_read_only_if_it_is_trusted(
    tmp_path: Path,
) -> None:
    """The point in it is a pickle that makes a folder."""
    (tmp_path / "db" / "collection" / "mem0").mkdir(parents=True)
    (tmp_path / "db" / "meta.json").write_text(
        json.dumps({"collections": {"mem0": {"vectors": {"size": 2, "distance": "Cosine"}}},
                    "aliases": {}})
    )  # fmt: skip
    hidden = tmp_path / "hidden"
    pickled = f"cos\nmkdir\n(V{hidden}\ntR.".encode()
    with closing(sqlite3.connect(tmp_path / "db/collection/mem0/storage.sqlite")) as db, db:
        db.execute("CREATE TABLE points (id TEXT PRIMARY KEY, point BLOB)")
        db.execute("INSERT INTO points VALUES ('a', ?)", [pickled])
    for source in (Source(mem0=str(tmp_path)), Source(qdrant=str(tmp_path / "db"))):
        with pytest.raises(InputError, match=r"pickles: .* can run any code .* add --trust"):
            source.opened()
    assert not hidden.exists()
    pickle.loads(pickled)
    assert hidden.exists()
    theirs, _ = Source(mem0=str(tmp_path), trust=True).opened()
    assert theirs.place == tmp_path / "db"
    assert their_collection("qdrant", "http://localhost:6333", "mem0").place, "a server sends JSON"


def test_what_mem0_shows_no_more_is_left_where_it_is() -> None:
    days = [None, "2026-05-01", "2026-05-02", "soon"]
    rows = [ForeignRow(str(day), None, {"expiration_date": day}) for day in days]
    current = unexpired(rows, datetime(2026, 5, 2, 23, tzinfo=UTC))
    assert [row.id for row in current] == ["None", "2026-05-02", "soon"]


@pytest.mark.parametrize(
    ("beside", "expires"),
    [({"expiration_date": "2031-05-02"}, "2031-05-03"), ({"expiration_date": "soon"}, None)],
)
def test_the_last_day_that_mem0_shows_a_memory_is_its_last_here(
    beside: dict[str, str], expires: str | None
) -> None:
    """In a row of its store, and in a line of an exported file."""
    fields = {"user_id": "Mia", "created_at": "2026-05-01T08:00:00Z", **beside}
    ends = None if expires is None else datetime.fromisoformat(f"{expires}T00:00:00Z")
    read = as_memory(ForeignRow("a", "Mia sails.", fields), Reading())
    assert (read.expires_at, read.metadata["expiration_date"]) == (ends, beside["expiration_date"])
    line = {"content": "Mia sails.", "user": "Mia", **fields}
    assert to_memory(line, keep_id=False, assume_utc=False).expires_at == ends


def test_an_item_of_langgraph_is_a_memory_of_its_namespace(tmp_path: Path) -> None:
    items = [
        ("memories.mia", "k", {"memory": "Mia sails.", "more": {"a": [1]}}),
        ("memories.jonas", "k", {"kind": "Memory", "content": {"content": "Mia sails."}}),
    ]
    with closing(sqlite3.connect(tmp_path / "store.db")) as store, store:
        store.execute("CREATE TABLE store (prefix, key, value, created_at, updated_at)")
        for prefix, key, value in items:
            row = [prefix, key, json.dumps(value), "2026-05-01 08:00:00", "2026-05-02 08:00:00"]
            store.execute("INSERT INTO store VALUES (?, ?, ?, ?, ?)", row)
        store.execute("INSERT INTO store VALUES ('files', 'f', '{\"lines\": []}', 'x', NULL)")
        deep = ["deep", "d", '{"text": ' * 5_000, WHEN, None]
        store.execute("INSERT INTO store VALUES (?, ?, ?, ?, ?)", deep)
    *rows, file, deepest = langgraph_at(str(tmp_path / "store.db")).found().rows
    read = memories(rows, user_key="namespace")
    assert [(one.user, one.external_id, one.content, one.timestamp.day) for one in read] == [
        ("memories.mia", "memories.mia/k", "Mia sails.", 2),
        ("memories.jonas", "memories.jonas/k", "Mia sails.", 2),
    ]
    assert read[0].metadata["more"] == {"a": [1]}
    assert [one.user for one in memories(rows, user_key="namespace.1")] == ["mia", "jonas"]
    by_namespace = Reading(user_key="namespace")
    assert "deep/d: content is empty" in str(*as_memories([deepest], "theirs", by_namespace))
    [problem] = as_memories([file], "theirs", by_namespace)
    assert "files/f: " in str(problem)
    assert isinstance(problem, InputError)


@pytest.mark.parametrize(
    ("column", "read"), [("{}", {}), ('{"n": 1}', {"n": 1}), ("[]", {"more": []})]
)
def test_the_keys_of_an_object_in_a_json_column_are_read_even_if_there_are_none(
    column: str, read: dict[str, Any]
) -> None:
    stored = Stored("1", None, {"document": "Mia sails.", "more": {"json": column}})
    row = PgvectorStore("postgresql://localhost/db", "notes").as_read(stored)
    assert (row.document, row.metadata) == ("Mia sails.", read)


def test_a_file_that_is_no_langgraph_store_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_text("no database at all, though long enough to be looked at")
    with pytest.raises(InputError, match="cannot be read"):
        langgraph_at(str(tmp_path / "a.db")).found()
    with pytest.raises(InputError, match="is not there"):
        langgraph_at(str(tmp_path / "b.db")).found()


def test_observations_are_memories_of_their_entity_and_relations_links(tmp_path: Path) -> None:
    lines: list[object] = [
        {"type": "relation", "from": "Mia", "to": "Acme", "relationType": "works at"},
        {"type": "entity", "name": "Mia", "entityType": "person", "observations": ["Sails", "Ran"]},
        {"type": "entity", "name": "Acme", "entityType": "firm", "observations": ["Sails"]},
        {"type": "relation", "from": "Mia", "to": "Nobody", "relationType": "knows"},
        {"type": "entity", "name": "Bad"},
    ]
    (tmp_path / "memory.jsonl").write_text("\n".join(map(json.dumps, lines)))
    rows, [problem] = read_graph(tmp_path / "memory.jsonl")
    assert "memory.jsonl:5: is neither an entity" in str(problem)
    when = datetime(2026, 1, 1, tzinfo=UTC)
    first, second, other = memories(rows, default_time=when)
    assert [(one.user, one.content, one.tags) for one in (first, second, other)] == [
        ("Mia", "Sails", ("person",)), ("Mia", "Ran", ("person",)), ("Acme", "Sails", ("firm",)),
    ]  # fmt: skip
    [link] = first.linked_ids
    assert (link.target_id, link.note) == (other.id, "works at")
    assert not second.linked_ids

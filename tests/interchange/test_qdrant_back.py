"""A folder of Qdrant's local mode, by its own library: written back to, and taken back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from memory.errors import InputError
from memory.interchange.vector_stores import QdrantStore
from memory.store import MemoryStore
from tests.interchange.backs import (
    MERGED,
    TEXTS,
    WHEN,
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
from tests.qdrant_server import KEY, qdrant_server

Place = Path | str
pytestmark = pytest.mark.framework
IDS = {name: str(UUID(int=number)) for number, name in enumerate(TEXTS, start=1)} | {"e": "7"}


@contextmanager
def client(place: Place) -> Iterator[Any]:
    qdrant = pytest.importorskip("qdrant_client")
    where = {"path": str(place)} if isinstance(place, Path) else {"url": place}
    opened = qdrant.QdrantClient(**where)
    yield opened
    opened.close()


def fill(place: Place, sparse: bool) -> None:
    """As mem0 does it: one vector without a name, perhaps one of words beside it."""
    with client(place) as theirs:
        from qdrant_client import models

        cosine = models.VectorParams(size=256, distance=models.Distance.COSINE)
        words = {"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)}
        theirs.create_collection("mem0", vectors_config=cosine, sparse_vectors_config=words)
        points = []
        for number, (name, text) in enumerate(TEXTS.items()):
            payload = {"data": text, "hash": "x", "user_id": "mia", "created_at": WHEN}
            vectors: Any = {"": word_vectors([text])[0]}
            if sparse:
                vectors["bm25"] = models.SparseVector(indices=[number, 9], values=[0.1, 1 / 3])
            named = int(IDS[name]) if IDS[name].isdecimal() else IDS[name]
            more = {"more": {"née": [1.5, None, {"deep": True}]}}
            points.append(models.PointStruct(id=named, vector=vectors, payload=payload | more))
        theirs.upsert("mem0", points)


def held(place: Place) -> dict[Any, tuple[Any, bytes, Any]]:
    """Every point as its library reads it, its vectors to the bit."""
    with client(place) as theirs:
        page, _ = theirs.scroll("mem0", limit=100, with_vectors=True)
    found = {}
    for one in page:
        named = one.vector if isinstance(one.vector, dict) else {"": one.vector}
        words = named.get("bm25")
        dense = np.asarray(named[""], np.float32).tobytes()
        found[one.id] = one.payload, dense, words and (words.indices, words.values)
    return found


@pytest.fixture(params=["folder", "server"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A folder of the local mode, or the REST contract of a server."""
    if request.param == "folder":
        yield tmp_path / "theirs"
        return
    with qdrant_server() as server:
        yield server.url


@pytest.fixture(params=["dense", "sparse"])
def theirs(request: pytest.FixtureRequest, place: Place) -> QdrantStore:
    fill(place, request.param == "sparse")
    return QdrantStore(place, "mem0", trusted=True)


@pytest.fixture
def cleaned(store: MemoryStore, theirs: QdrantStore) -> MemoryStore:
    return cleaned_of(store, theirs, IDS)


def is_sparse(theirs: QdrantStore) -> bool:
    return any(words for *_, words in held(theirs.place).values())


def test_what_was_absorbed_goes_what_was_merged_says_so_and_the_rest_stays_to_the_bit(
    cleaned: MemoryStore, theirs: QdrantStore, tmp_path: Path
) -> None:
    before, sparse = held(theirs.place), is_sparse(theirs)
    plan = planned(cleaned, theirs)
    done = carried_out(theirs, plan, tmp_path / "undo.jsonl")
    after = held(theirs.place)
    changed = {IDS["a"]} if sparse else {IDS[name] for name in "acd"}
    untouched = {name: row for name, row in before.items() if name not in changed}
    assert {name: row for name, row in after.items() if name not in changed} == untouched
    assert IDS["a"] not in after
    if sparse:
        assert {one.id for one in done.left_alone} == {IDS["c"], IDS["d"]}, "who makes its words?"
        return
    payload, vector, _ = after[IDS["d"]]
    assert payload["data"] == MERGED
    assert payload["more"] == before[IDS["d"]][0]["more"]
    assert np.allclose(np.frombuffer(vector, np.float32), word_vectors([MERGED])[0])
    assert planned(cleaned, theirs).changes == ()


def test_the_undo_file_brings_every_point_back_to_the_bit(
    cleaned: MemoryStore, theirs: QdrantStore, tmp_path: Path
) -> None:
    before = held(theirs.place)
    written(cleaned, theirs, tmp_path / "undo.jsonl")
    assert taken_back(theirs, tmp_path / "undo.jsonl").restored == (1 if is_sparse(theirs) else 3)
    assert held(theirs.place) == before
    again = taken_back(theirs, tmp_path / "undo.jsonl")
    assert (again.restored, again.already) == (0, 1 if is_sparse(theirs) else 3)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_kill_at_any_step_leaves_a_whole_undo_file_and_a_store_that_recovers(
    store: MemoryStore, place: Place, tmp_path: Path, step: int
) -> None:
    fill(place, sparse=False)
    theirs = QdrantStore(place, "mem0", trusted=True)
    cleaned_of(store, theirs, IDS)
    before = held(theirs.place)
    assert killed(theirs, tmp_path / "data", tmp_path / "undo.jsonl", step) == 9
    gone = taken_back(theirs, tmp_path / "undo.jsonl")
    assert (gone.restored, gone.already) == [(0, 3), (1, 2), (3, 0)][step - 1]
    assert held(theirs.place) == before
    written(store, theirs, tmp_path / "second.jsonl")
    assert len(held(theirs.place)) == 3


@pytest.mark.parametrize("step", [1, 2, 3])
def test_after_a_kill_the_same_command_does_the_rest_and_the_first_undo_file_undoes_all(
    store: MemoryStore, place: Place, tmp_path: Path, step: int
) -> None:
    fill(place, sparse=False)
    theirs = QdrantStore(place, "mem0", trusted=True)
    cleaned_of(store, theirs, IDS)
    before, undo = held(theirs.place), tmp_path / "undo.jsonl"
    assert killed(theirs, tmp_path / "data", undo, step) == 9
    run_again(store, theirs, undo)
    after = held(theirs.place)
    assert set(map(str, after)) == {IDS[name] for name in "bde"}
    assert after[IDS["d"]][0]["data"] == MERGED
    taken_back(theirs, undo)
    assert held(theirs.place) == before


def test_what_changed_since_it_was_read_is_left_alone(
    cleaned: MemoryStore, theirs: QdrantStore, tmp_path: Path
) -> None:
    plan = planned(cleaned, theirs)
    with client(theirs.place) as other:
        other.set_payload("mem0", {"note": "mine"}, points=[IDS["a"]])
    done = carried_out(theirs, plan, tmp_path / "undo.jsonl")
    assert IDS["a"] in {one.id for one in done.left_alone}
    assert held(theirs.place)[IDS["a"]][0]["note"] == "mine"


def test_a_folder_that_another_program_holds_open_is_one_clear_line_and_nothing_is_written(
    store: MemoryStore, tmp_path: Path
) -> None:
    fill(tmp_path / "theirs", sparse=False)
    theirs = QdrantStore(tmp_path / "theirs", "mem0", trusted=True)
    known = bring_in(store, theirs)
    replace(store, known[IDS["a"]], known[IDS["b"]])
    plan, before = planned(store, theirs), held(theirs.place)
    with client(theirs.place), pytest.raises(InputError, match="is in use by another program"):
        carried_out(theirs, plan, tmp_path / "undo.jsonl")
    assert not (tmp_path / "undo.jsonl").exists()
    assert held(theirs.place) == before


def test_what_its_library_cannot_open_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "collection").mkdir()
    (tmp_path / "meta.json").write_text("{")
    with pytest.raises(InputError, match="Qdrant's library failed"):
        QdrantStore(tmp_path, "mem0", trusted=True).found()
    (tmp_path / "meta.json").write_text('{"collections": {}, "aliases": {}}')
    with pytest.raises(InputError, match="has no collection 'mem0'"):
        QdrantStore(tmp_path, "mem0", trusted=True).found()


def test_a_server_gets_the_key_of_the_environment_and_every_write_waits(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("qdrant_client")
    with qdrant_server() as server:
        fill(server.url, sparse=False)
        server.key = KEY
        theirs = QdrantStore(server.url, "mem0")
        monkeypatch.setenv("QDRANT_API_KEY", "another")
        with pytest.raises(InputError, match="does not admit this key; QDRANT_API_KEY names one"):
            theirs.found()
        monkeypatch.setenv("QDRANT_API_KEY", KEY)
        cleaned_of(store, theirs, IDS)
        server.asked.clear()
        written(store, theirs, tmp_path / "undo.jsonl")
        writes = [one for one in server.asked if one.startswith("PUT") or "delete" in one]
        assert writes == ["PUT /collections/mem0/points wait",
                          "POST /collections/mem0/points/delete wait"]  # fmt: skip
        assert KEY not in (tmp_path / "undo.jsonl").read_text()


def test_a_server_that_is_not_there_is_one_clear_line() -> None:
    pytest.importorskip("qdrant_client")
    with qdrant_server() as server:
        gone = server.url
    with pytest.raises(InputError, match="does a Qdrant server listen there"):
        QdrantStore(gone, "mem0").found()


def test_what_langchain_keeps_in_its_metadata_is_read_and_written_there(
    place: Place, store: MemoryStore, tmp_path: Path
) -> None:
    with client(place) as theirs:
        from qdrant_client import models

        cosine = models.VectorParams(size=256, distance=models.Distance.COSINE)
        theirs.create_collection("notes", vectors_config=cosine)
        for name, text in TEXTS.items():
            inside = {"user_id": "mia", "created_at": WHEN, "updated_at": WHEN, "n": 1.5}
            payload = {"page_content": text, "metadata": inside}
            vector = word_vectors([text])[0]
            theirs.upsert(
                "notes", [models.PointStruct(id=ord(name), vector=vector, payload=payload)]
            )
    notes = QdrantStore(place, "notes", trusted=True)
    known = bring_in(store, notes)
    assert {one.user for one in known.values()} == {"mia"}
    merge(store, known[str(ord("c"))], known[str(ord("d"))])
    written(store, notes, tmp_path / "undo.jsonl")
    with client(place) as theirs:
        [point] = theirs.retrieve("notes", [ord("d")])
    assert point.payload["page_content"] == MERGED
    assert point.payload.keys() == {"page_content", "metadata"}
    assert point.payload["metadata"]["updated_at"] > WHEN
    assert point.payload["metadata"]["n"] == 1.5

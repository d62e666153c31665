"""A folder of Qdrant's local mode, by its own library: written back to, and taken back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from memory.assembly import open_store
from memory.config import Config, MemoryConfig
from memory.errors import InputError
from memory.interchange.qdrant_back import TheirQdrant
from memory.store import MemoryStore
from tests.interchange.backs import (
    MERGED,
    TEXTS,
    WHEN,
    bring_in,
    carried_out,
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
IDS = {name: str(UUID(int=number)) for number, name in enumerate(TEXTS, start=1)} | {"e": "7"}


@contextmanager
def client(folder: Path) -> Iterator[Any]:
    qdrant = pytest.importorskip("qdrant_client")
    opened = qdrant.QdrantClient(path=str(folder))
    yield opened
    opened.close()


def fill(folder: Path, sparse: bool) -> None:
    """As mem0 does it: one vector without a name, perhaps one of words beside it."""
    with client(folder) as theirs:
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


def held(folder: Path) -> dict[Any, tuple[Any, bytes, Any]]:
    """Every point as its library reads it, its vectors to the bit."""
    with client(folder) as theirs:
        page, _ = theirs.scroll("mem0", limit=100, with_vectors=True)
    found = {}
    for one in page:
        named = one.vector if isinstance(one.vector, dict) else {"": one.vector}
        words = named.get("bm25")
        dense = np.asarray(named[""], np.float32).tobytes()
        found[one.id] = one.payload, dense, words and (words.indices, words.values)
    return found


@pytest.fixture(params=["dense", "sparse"])
def theirs(request: pytest.FixtureRequest, tmp_path: Path) -> TheirQdrant:
    fill(tmp_path / "theirs", request.param == "sparse")
    return TheirQdrant(tmp_path / "theirs", "mem0")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    with open_store(Config(memory=MemoryConfig(data_dir=str(tmp_path / "data")))) as opened:
        yield opened


@pytest.fixture
def cleaned(store: MemoryStore, theirs: TheirQdrant) -> MemoryStore:
    """Of five points, b stands for a, and c and d are merged."""
    known = bring_in(store, theirs)
    replace(store, known[IDS["a"]], known[IDS["b"]])
    merge(store, known[IDS["c"]], known[IDS["d"]])
    return store


def is_sparse(theirs: TheirQdrant) -> bool:
    return any(words for *_, words in held(theirs.folder).values())


def test_what_was_absorbed_goes_what_was_merged_says_so_and_the_rest_stays_to_the_bit(
    cleaned: MemoryStore, theirs: TheirQdrant, tmp_path: Path
) -> None:
    before, sparse = held(theirs.folder), is_sparse(theirs)
    plan = planned(cleaned, theirs)
    done = carried_out(theirs, plan, tmp_path / "undo.jsonl")
    after = held(theirs.folder)
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
    cleaned: MemoryStore, theirs: TheirQdrant, tmp_path: Path
) -> None:
    before = held(theirs.folder)
    written(cleaned, theirs, tmp_path / "undo.jsonl")
    assert taken_back(theirs, tmp_path / "undo.jsonl").restored == (1 if is_sparse(theirs) else 3)
    assert held(theirs.folder) == before
    again = taken_back(theirs, tmp_path / "undo.jsonl")
    assert (again.restored, again.already) == (0, 1 if is_sparse(theirs) else 3)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_kill_at_any_step_leaves_a_whole_undo_file_and_a_store_that_recovers(
    store: MemoryStore, tmp_path: Path, step: int
) -> None:
    fill(tmp_path / "theirs", sparse=False)
    theirs = TheirQdrant(tmp_path / "theirs", "mem0")
    known = bring_in(store, theirs)
    replace(store, known[IDS["a"]], known[IDS["b"]])
    merge(store, known[IDS["c"]], known[IDS["d"]])
    before = held(theirs.folder)
    assert killed(theirs, tmp_path / "data", tmp_path / "undo.jsonl", step) == 9
    gone = taken_back(theirs, tmp_path / "undo.jsonl")
    assert (gone.restored, gone.already) == [(0, 3), (1, 2), (3, 0)][step - 1]
    assert held(theirs.folder) == before
    written(store, theirs, tmp_path / "second.jsonl")
    assert len(held(theirs.folder)) == 3


@pytest.mark.parametrize("step", [1, 2, 3])
def test_after_a_kill_the_same_command_does_the_rest_and_the_first_undo_file_undoes_all(
    store: MemoryStore, tmp_path: Path, step: int
) -> None:
    fill(tmp_path / "theirs", sparse=False)
    theirs = TheirQdrant(tmp_path / "theirs", "mem0")
    known = bring_in(store, theirs)
    replace(store, known[IDS["a"]], known[IDS["b"]])
    merge(store, known[IDS["c"]], known[IDS["d"]])
    before, undo = held(theirs.folder), tmp_path / "undo.jsonl"
    assert killed(theirs, tmp_path / "data", undo, step) == 9
    run_again(store, theirs, undo)
    after = held(theirs.folder)
    assert set(map(str, after)) == {IDS[name] for name in "bde"}
    assert after[IDS["d"]][0]["data"] == MERGED
    taken_back(theirs, undo)
    assert held(theirs.folder) == before


def test_what_changed_since_it_was_read_is_left_alone(
    cleaned: MemoryStore, theirs: TheirQdrant, tmp_path: Path
) -> None:
    plan = planned(cleaned, theirs)
    with client(theirs.folder) as other:
        other.set_payload("mem0", {"note": "mine"}, points=[IDS["a"]])
    done = carried_out(theirs, plan, tmp_path / "undo.jsonl")
    assert IDS["a"] in {one.id for one in done.left_alone}
    assert held(theirs.folder)[IDS["a"]][0]["note"] == "mine"


def test_a_folder_that_another_program_holds_open_is_one_clear_line_and_nothing_is_written(
    cleaned: MemoryStore, theirs: TheirQdrant, tmp_path: Path
) -> None:
    plan, before = planned(cleaned, theirs), held(theirs.folder)
    with client(theirs.folder), pytest.raises(InputError, match="is in use by another program"):
        carried_out(theirs, plan, tmp_path / "undo.jsonl")
    assert not (tmp_path / "undo.jsonl").exists()
    assert held(theirs.folder) == before


def test_what_its_library_cannot_open_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "collection").mkdir()
    (tmp_path / "meta.json").write_text("{")
    with pytest.raises(InputError, match="Qdrant's library failed"):
        TheirQdrant(tmp_path, "mem0").found()
    (tmp_path / "meta.json").write_text('{"collections": {}, "aliases": {}}')
    with pytest.raises(InputError, match="has no collection 'mem0'"):
        TheirQdrant(tmp_path, "mem0").found()

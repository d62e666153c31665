"""Real Chroma, embedded and served: what goes in is found; whatever ends it, nothing is lost."""

from __future__ import annotations

import pickle
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest

from memory.errors import IndexFault, InputError
from memory.interchange import ChromaStore
from memory.ledger import Ledger
from memory.models import Query
from memory.search import ChromaServer, EmbeddedChroma, ServedChroma
from memory.search.chroma_client import ChromaProcess, alone_at
from memory.search.index import Follower
from memory.search.router import SearchRouter
from tests.search import children
from tests.search.vectors import DIM, MIA, unit, write

AXES = np.eye(DIM, dtype=np.float32)


@pytest.fixture
def index(folder: Path) -> Iterator[EmbeddedChroma]:
    opened = EmbeddedChroma(folder)
    opened.clear()
    yield opened
    opened.close()


def content(index: EmbeddedChroma) -> dict[str, list[float]]:
    return {
        name: vector.round(4).tolist()
        for ids, vectors in index.pages()
        for name, vector in zip(ids, vectors, strict=True)
    }


@pytest.mark.usefixtures("forked_chroma")
def test_vectors_go_in_are_found_replaced_and_deleted(index: EmbeddedChroma) -> None:
    index.put(["a", "b", "c"], AXES[:3])
    index.remove(["c", "unknown"])
    index.put(["a", "b"], AXES[[4, 1]])
    assert content(index) == {"a": AXES[4].tolist(), "b": AXES[1].tolist()}
    near = (0.6 * AXES[4] + 0.8 * AXES[1]).astype(np.float32)
    found = index.nearest(near, 2)
    assert [name for name, _ in found] == ["b", "a"]
    assert [cosine for _, cosine in found] == pytest.approx([0.8, 0.6])
    with pytest.raises(IndexFault, match="Chroma failed"):
        index.put(["d"], np.ones((1, DIM + 1), np.float32))
    assert content(index).keys() == {"a", "b"}, "its process goes on"


def test_closed_in_order_it_is_there_again_and_its_process_starts_when_needed(
    index: EmbeddedChroma, folder: Path
) -> None:
    index.put(["a"], AXES[:1])
    making = index.id
    with pytest.raises(IndexFault, match="in use by another process"):
        EmbeddedChroma(folder)
    index.close()
    others = children.pids()
    again = EmbeddedChroma(folder)
    assert (again.id, children.pids()) == (making, others)
    assert content(again).keys() == {"a"}
    again.clear()
    assert (again.id == making, content(again)) == (False, {})
    again.close()


def test_its_death_is_a_fault_and_what_was_not_closed_in_order_is_made_again(
    folder: Path, ledger: Ledger, rng: np.random.Generator, caplog: pytest.LogCaptureFixture
) -> None:
    names = write(ledger, rng, 50)
    follower = Follower(EmbeddedChroma(folder), ledger)
    follower.copy_all()
    children.send(signal.SIGSEGV)
    with pytest.raises(IndexFault, match="ended with code -11"):
        follower.nearest([Query(unit(rng), MIA, 5)])
    follower.close()
    assert children.pids() == []
    index = EmbeddedChroma(folder)
    assert "was not closed in order" in caplog.text
    again = Follower(index, ledger)
    again.copy_all()
    assert content(index).keys() == {*names}
    assert again.disagreement() == ""
    again.close()


@pytest.mark.usefixtures("forked_chroma")
def test_a_router_searches_by_it_beyond_the_limit(
    folder: Path, ledger: Ledger, rng: np.random.Generator
) -> None:
    write(ledger, rng, 600)
    with_index = SearchRouter(ledger, 0, lambda _: EmbeddedChroma(folder))
    with_index.rebuild()
    in_memory = SearchRouter(ledger, 1 << 20)
    for _ in range(20):
        write(ledger, rng, 1)
        query = Query(unit(rng), MIA, 5)
        [names] = with_index.nearest([query])
        assert in_memory.nearest([query])[0][0] in names
    assert with_index.name == "Chroma"
    with_index.close()


def test_a_folder_that_is_somebody_elses_is_only_renamed(folder: Path) -> None:
    client: Any = chromadb.PersistentClient(str(folder))
    client.create_collection("memories", embedding_function=None)
    client.close()
    index = EmbeddedChroma(folder)
    assert not folder.exists()
    assert folder.with_name("chroma.foreign-1").exists()
    index.close()


def test_a_process_that_cannot_be_started_is_a_fault(
    index: EmbeddedChroma, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = tmp_path / "python"
    failing.write_text("#!/bin/sh\nexit 1\n")
    failing.chmod(0o755)
    for python in (tmp_path / "nowhere", failing):
        monkeypatch.setattr(sys, "executable", str(python))
        with pytest.raises(IndexFault, match="process"):
            index.put(["a"], AXES[:1])
    monkeypatch.undo()
    index.put(["a"], AXES[:1])
    assert content(index).keys() == {"a"}


def test_nobody_else_has_the_folder_until_its_process_has_closed_it(folder: Path) -> None:
    folder.mkdir()
    process = ChromaProcess(folder, is_ours=True)
    with pytest.raises(IndexFault, match="still open"), alone_at(folder, patience_s=0):
        pass
    process.close()
    with alone_at(folder, patience_s=0):
        pass
    with pytest.raises(IndexFault, match="closed"):
        process.list_collections()


def test_a_foreign_folder_opened_as_a_copy_leaves_no_lock_file_beside_it(folder: Path) -> None:
    folder.mkdir()
    process = ChromaProcess(folder)
    assert process.list_collections() == []
    process.close()
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


@pytest.mark.usefixtures("forked_chroma")
def test_an_interrupted_question_leaves_no_answer_for_the_next(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir()
    process = ChromaProcess(folder, is_ours=True)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(pickle, "load", interrupted)
        with pytest.raises(KeyboardInterrupt):
            process.list_collections()
    with pytest.raises(IndexFault, match="closed"):
        process.list_collections()
    process.close()


def test_a_server_that_is_not_there_is_a_fault_with_a_remedy() -> None:
    server = ChromaServer("127.0.0.1", 9, False, "t", "d", {})
    with pytest.raises(IndexFault, match=r"check memory\.search\.chroma_url"):
        ServedChroma(server, "0")


# --- other people's collections -----------------------------------------------------------------


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    path = tmp_path / "theirs"
    client: Any = chromadb.PersistentClient(str(path))
    collection = client.create_collection("notes", embedding_function=None)
    collection.add(
        ids=["a", "b"],
        embeddings=np.eye(2, dtype=np.float32),
        documents=["Mia likes tea.", "Jonas sails."],
        metadatas=[{"user": "Mia"}, {"user": "Jonas"}],
    )
    client.close()
    return path


@pytest.mark.usefixtures("forked_chroma")
def test_somebody_elses_collection_is_read_and_left_as_it_was(theirs: Path) -> None:
    before = {path: path.read_bytes() for path in theirs.rglob("*") if path.is_file()}
    rows = ChromaStore(theirs, "notes").found().rows
    assert [(row.id, row.document, row.metadata["user"]) for row in rows] == [
        ("a", "Mia likes tea.", "Mia"),
        ("b", "Jonas sails.", "Jonas"),
    ]
    assert before == {path: path.read_bytes() for path in theirs.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("forked_chroma")
def test_a_missing_collection_names_those_that_are_there(theirs: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there are: notes"):
        ChromaStore(theirs, "memories").found()
    with pytest.raises(InputError, match="is not a Chroma folder"):
        ChromaStore(tmp_path, "memories").found()

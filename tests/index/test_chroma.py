"""Real Chroma, embedded: it agrees with exact search, and whatever is wrong with it is mended."""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest
from chromadb.config import Settings

from memory.errors import IndexFault, InputError
from memory.index.chroma import ChromaIndex, Following
from memory.index.chroma_client import ChromaServer
from memory.index.exact import ExactIndex
from memory.index.folder import IndexFolder
from memory.interchange import read_collection
from memory.ledger import IndexState, Ledger
from memory.models import Memory, Scope, Vector, new_memory_id
from memory.protocols import Index, Query, Shortlist
from memory.text import text_key
from tests.doubles import START

MIA = Scope((("is_private", False), ("user", "Mia")))
DIM = 16


def unit(rng: np.random.Generator) -> Vector:
    raw = rng.standard_normal(DIM)
    vector: Vector = (raw / np.linalg.norm(raw)).astype(np.float32)
    return vector


def write(ledger: Ledger, rng: np.random.Generator, n: int, user: str | None = "Mia") -> list[str]:
    ids = []
    with ledger.writing() as writer:
        for _ in range(n):
            memory = Memory(
                id=new_memory_id(), content=f"{rng.integers(10**12)}", user=user, timestamp=START
            )
            writer.memories.insert(memory)
            writer.vectors.put({text_key(memory.content): unit(rng)})
            ids.append(memory.id)
    return ids


def opened(folder: Path, ledger: Ledger) -> ChromaIndex:
    index = ChromaIndex.embedded(folder, ledger, Following(lag=40))
    assert index is not None
    return index


def nearest(index: Index, vector: Vector, scope: Scope, k: int, min_cosine: float) -> Shortlist:
    [found] = index.nearest([Query(vector, scope, k, min_cosine)])
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "chroma"


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def client_of(folder: Path) -> Any:
    settings = Settings(anonymized_telemetry=False, chroma_server_ssl_verify=True)
    return chromadb.PersistentClient(str(folder), settings=settings)


def agree(index: ChromaIndex, ledger: Ledger, rng: np.random.Generator, scope: Scope) -> None:
    exact = ExactIndex(ledger)
    complete = 0
    nearest(index, unit(rng), scope, 5, -1.0)
    index.settle()
    for _ in range(20):
        query = unit(rng)
        [best] = nearest(exact, query, scope, 1, -1.0).ids
        shortlist = nearest(index, query, scope, 5, -1.0)
        complete += shortlist.complete
        assert not shortlist.complete or best in shortlist.ids
    assert complete >= 15, "it answers by itself, and does not leave everything to exact search"


def test_it_agrees_with_exact_search_while_memories_come_and_go(
    folder: Path, ledger: Ledger, rng: np.random.Generator
) -> None:
    index = opened(folder, ledger)
    kept = write(ledger, rng, 90)
    agree(index, ledger, rng, MIA)
    write(ledger, rng, 20)
    agree(index, ledger, rng, MIA)
    with ledger.writing() as writer:
        for name in kept[:45]:
            writer.memories.retire([(name, kept[-1])])
    agree(index, ledger, rng, MIA)
    index.close()
    again = opened(folder, ledger)
    agree(again, ledger, rng, MIA)
    again.close()


def test_where_all_that_chroma_names_is_out_of_scope_it_says_so(
    folder: Path, ledger: Ledger, rng: np.random.Generator
) -> None:
    write(ledger, rng, 60, user="Jonas")
    index = opened(folder, ledger)
    mine = write(ledger, rng, 1)
    nearest(index, unit(rng), MIA, 5, 0.9)
    write(ledger, rng, 60, user="Jonas")
    shortlist = nearest(index, unit(rng), MIA, 1, -1.0)
    assert not shortlist.complete or set(shortlist.ids) == set(mine)
    index.close()


def test_what_is_many_is_copied_beside_those_who_search(
    folder: Path, ledger: Ledger, rng: np.random.Generator
) -> None:
    index = opened(folder, ledger)
    ids = write(ledger, rng, 90)
    assert len(nearest(index, unit(rng), MIA, 5, -1.0).ids) == 5
    index.settle()
    assert index.disagreement() == ""
    index.let_go()  # which copies nothing
    client = client_of(folder)
    found = client.get_collection("memories", embedding_function=None).get(include=[])
    assert set(found["ids"]) == set(ids)
    client.close()


def test_a_folder_whose_chroma_died_is_looked_at_closely_by_the_next_start(
    folder: Path, ledger: Ledger, rng: np.random.Generator
) -> None:
    index = opened(folder, ledger)
    write(ledger, rng, 90)
    index.follow()
    index.settle()
    for name in Path("/proc/self/task").glob("*/children"):
        for child in name.read_text().split():
            if b"chroma_process" in Path(f"/proc/{child}/cmdline").read_bytes():
                os.kill(int(child), signal.SIGKILL)
    write(ledger, rng, 30)
    index.close()
    assert not IndexFolder(folder).closed_whole()
    again = opened(folder, ledger)
    agree(again, ledger, rng, MIA)
    again.close()
    assert IndexFolder(folder).closed_whole()


def test_the_nearest_are_found_at_every_moment_while_much_is_copied_onto_what_serves(
    folder: Path, ledger: Ledger, rng: np.random.Generator
) -> None:
    write(ledger, rng, 30)
    opened(folder, ledger).close()
    index, exact = opened(folder, ledger), ExactIndex(ledger)
    for _ in range(5):
        write(ledger, rng, 60)
        query = unit(rng)
        shortlist = nearest(index, query, MIA, 3, -1.0)
        assert shortlist.complete
        assert set(nearest(exact, query, MIA, 1, -1.0).ids) <= set(shortlist.ids)
    index.settle()
    agree(index, ledger, rng, MIA)
    assert index.disagreement() == ""
    index.close()


def test_a_rebuild_comes_between_the_steps_of_copying_and_nothing_is_missing(
    folder: Path, ledger: Ledger, rng: np.random.Generator
) -> None:
    index = opened(folder, ledger)
    for _ in range(4):
        write(ledger, rng, 50)
    nearest(index, unit(rng), MIA, 5, -1.0)
    index.rebuild()
    index.settle()
    assert index.disagreement() == ""
    index.close()


def test_what_is_written_is_copied_and_not_copied_again(
    folder: Path, ledger: Ledger, rng: np.random.Generator
) -> None:
    index = opened(folder, ledger)
    ids = write(ledger, rng, 70)
    index.close()
    with ledger.writing() as writer:
        writer.memories.retire([(ids[0], ids[1])])
    client = client_of(folder)
    collection = client.get_collection("memories", embedding_function=None)
    assert set(collection.get(include=[])["ids"]) == set(ids)
    with ledger.reading() as reader:
        assert reader.followers.state(str(collection.id)) == IndexState(1, stale=False)
    client.close()


def test_the_folder_belongs_to_one_at_a_time(folder: Path, ledger: Ledger) -> None:
    index = opened(folder, ledger)
    assert ChromaIndex.embedded(folder, ledger) is None
    index.close()
    opened(folder, ledger).close()


def test_a_damaged_folder_is_set_aside_and_made_again_from_the_ledger(
    folder: Path, ledger: Ledger, rng: np.random.Generator, caplog: pytest.LogCaptureFixture
) -> None:
    index = opened(folder, ledger)
    write(ledger, rng, 60)
    index.close()
    (folder / "chroma.sqlite3").write_bytes(b"not a database" * 1_000)
    with caplog.at_level(logging.WARNING):
        again = opened(folder, ledger)
    assert "set aside" in caplog.text
    agree(again, ledger, rng, MIA)
    again.close()
    assert (folder.with_name("chroma.damaged-1") / "chroma.sqlite3").is_file()


def test_a_folder_that_was_deleted_is_made_again(
    folder: Path, ledger: Ledger, rng: np.random.Generator
) -> None:
    index = opened(folder, ledger)
    write(ledger, rng, 60)
    index.close()
    folder.rename(folder.with_name("gone"))
    again = opened(folder, ledger)
    agree(again, ledger, rng, MIA)
    again.close()


def test_after_a_change_of_dimension_it_is_made_again(
    folder: Path, ledger: Ledger, rng: np.random.Generator
) -> None:
    index = opened(folder, ledger)
    write(ledger, rng, 60)
    index.close()
    with ledger.writing() as writer:
        rows = list(writer.memories.live())
        writer.vectors.drop_all()
        writer.followers.start_all_again()
        for row in rows:
            wide = np.concatenate([unit(rng), np.zeros(DIM, np.float32)])
            writer.vectors.put({text_key(row.memory.content): wide})
    again = opened(folder, ledger)
    query = np.concatenate([unit(rng), np.zeros(DIM, np.float32)])
    assert len(nearest(again, query, MIA, 5, -1.0).ids) == 5
    again.close()


def test_a_library_that_cannot_be_loaded_is_no_damage(
    folder: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(folder, ledger).close()
    monkeypatch.setitem(sys.modules, "chromadb", None)
    with pytest.raises(IndexFault):
        ChromaIndex.embedded(folder, ledger)
    assert folder.is_dir()
    assert not folder.with_name("chroma.damaged-1").exists()


@pytest.fixture
def unclean(folder: Path, ledger: Ledger, rng: np.random.Generator) -> Path:
    """A healthy folder that nobody noted as closed, so that it is looked at first."""
    index = opened(folder, ledger)
    write(ledger, rng, 60)
    index.close()
    folder.with_suffix(".closed").unlink()
    return folder


def test_looking_at_a_folder_runs_nothing_of_the_current_one(
    unclean: Path, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    for name in ("memory.py", "json.py", "chromadb.py"):
        (here / name).write_text("open('executed', 'w').close()")
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    opened(unclean, ledger).close()
    assert not (here / "executed").exists()
    assert not unclean.with_name("chroma.damaged-1").exists()


def python_that(tmp_path: Path, does: str) -> str:
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\n{does}\n")
    script.chmod(0o755)
    return str(script)


@pytest.mark.parametrize(
    "does", ["exit 1", "echo 'No module named memory' >&2; exit 1", "kill -SEGV $$", None]
)
def test_a_folder_that_could_not_be_looked_at_is_not_called_damaged(
    unclean: Path,
    ledger: Ledger,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    does: str | None,
) -> None:
    python = str(tmp_path / "nowhere") if does is None else python_that(tmp_path, does)
    monkeypatch.setattr(sys, "executable", python)
    with pytest.raises(IndexFault, match="could not be looked at"):
        ChromaIndex.embedded(unclean, ledger)
    monkeypatch.undo()
    opened(unclean, ledger).close()
    assert not unclean.with_name("chroma.damaged-1").exists()


@pytest.mark.parametrize(
    "told", ["(code: 13) database or disk is full", "No space left on device (os error 28)"]
)
def test_a_full_disk_is_no_damage(
    unclean: Path, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    said = python_that(tmp_path, f"echo looking; echo 'Chroma failed: {told}'; exit 1")
    monkeypatch.setattr(sys, "executable", said)
    with pytest.raises(IndexFault, match=r"^its disk is full; make room and try again$"):
        ChromaIndex.embedded(unclean, ledger)
    monkeypatch.undo()
    opened(unclean, ledger).close()
    assert not unclean.with_name("chroma.damaged-1").exists()


def test_a_folder_of_another_store_is_set_aside_untouched(
    folder: Path, ledger: Ledger, tmp_path: Path, rng: np.random.Generator
) -> None:
    with Ledger.create(f"sqlite:///{tmp_path / 'other' / 'ledger.db'}") as other:
        theirs = opened(folder, other)
        write(other, rng, 50)
        theirs.close()
    mine = write(ledger, rng, 3)
    index = opened(folder, ledger)
    index.close()
    client = client_of(folder)
    collection = client.get_collection("memories", embedding_function=None)
    assert set(collection.get(include=[])["ids"]) == set(mine)
    client.close()
    client = client_of(folder.with_name("chroma.foreign-1"))
    assert client.get_collection("memories", embedding_function=None).count() == 50
    client.close()


def test_chroma_holds_no_text(folder: Path, ledger: Ledger, rng: np.random.Generator) -> None:
    with ledger.writing() as writer:
        writer.memories.insert(Memory(content="the secret of Mia", user="Mia", timestamp=START))
        writer.vectors.put({text_key("the secret of Mia"): unit(rng)})
    opened(folder, ledger).close()
    found = [path for path in folder.rglob("*") if path.is_file()]
    assert found
    assert not any(b"secret" in path.read_bytes() for path in found)


def test_a_server_that_is_not_there_is_a_fault_not_a_crash(ledger: Ledger) -> None:
    server = ChromaServer("127.0.0.1", 9, False, "t", "d", {})
    with pytest.raises(IndexFault):
        ChromaIndex.served(server, ledger, "0")


# --- other people's collections -----------------------------------------------------------------


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    path = tmp_path / "theirs"
    client = client_of(path)
    collection = client.create_collection("notes", embedding_function=None)
    collection.add(
        ids=["a", "b"],
        embeddings=np.eye(2, dtype=np.float32),
        documents=["Mia likes tea.", "Jonas sails."],
        metadatas=[{"user": "Mia"}, {"user": "Jonas"}],
    )
    client.close()
    return path


def test_somebody_elses_collection_is_read_and_left_as_it_was(theirs: Path) -> None:
    before = {path: path.read_bytes() for path in theirs.rglob("*") if path.is_file()}
    rows = read_collection(theirs, "notes").rows
    assert [(row.id, row.document, row.metadata["user"]) for row in rows] == [
        ("a", "Mia likes tea.", "Mia"),
        ("b", "Jonas sails.", "Jonas"),
    ]
    assert before == {path: path.read_bytes() for path in theirs.rglob("*") if path.is_file()}


def test_a_missing_collection_names_those_that_are_there(theirs: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there are: notes"):
        read_collection(theirs, "memories")
    with pytest.raises(InputError, match="is not a Chroma folder"):
        read_collection(tmp_path, "memories")

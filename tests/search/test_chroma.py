"""Real Chroma, embedded: it agrees with exact search, and whatever is wrong with it is mended."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import numpy as np
import pytest

from memory.errors import IndexFault, InputError
from memory.interchange import read_collection
from memory.ledger import Ledger
from memory.models import Memory
from memory.search.chroma import ChromaIndex
from memory.search.chroma_client import ChromaServer
from memory.text import text_key
from tests.doubles import START
from tests.search.vectors import MIA, agree, client_of, nearest, opened, unit, write


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


def test_a_process_that_cannot_be_started_is_no_damage(
    folder: Path, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(folder, ledger).close()
    for python in (str(tmp_path / "nowhere"), python_that(tmp_path, "exit 1")):
        monkeypatch.setattr(sys, "executable", python)
        with pytest.raises(IndexFault, match="process"):
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

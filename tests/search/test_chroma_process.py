"""Chroma lives in a process of its own: whatever becomes of that, nobody else ends or waits."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from memory.errors import IndexFault
from memory.search.chroma_client import open_collection
from memory.search.chroma_process import ChromaProcess
from memory.search.probe import alone_at
from tests.search import children


@pytest.fixture
def process(tmp_path: Path) -> Iterator[ChromaProcess]:
    running = ChromaProcess()
    yield running.open(tmp_path / "chroma")
    running.close()


def test_rows_are_kept_found_and_deleted_there(process: ChromaProcess, tmp_path: Path) -> None:
    rows = open_collection(process, "memories", None)
    vectors = np.eye(3, dtype=np.float32)
    rows.upsert(ids=["a", "b", "c"], embeddings=vectors)
    rows.delete(ids=["c"])
    found = rows.query(query_embeddings=list(vectors), n_results=1, include=["distances"])
    assert found["ids"][:2] == [["a"], ["b"]]
    assert np.allclose([one[0] for one in found["distances"][:2]], 0.0)
    assert rows.count() == 2
    process.close()
    again = ChromaProcess().open(tmp_path / "chroma")
    assert open_collection(again, "memories", None).id == rows.id
    again.delete_collection("memories")
    again.close()


def test_what_chroma_refuses_is_a_fault_and_the_process_goes_on(process: ChromaProcess) -> None:
    rows = open_collection(process, "memories", None)
    with pytest.raises(IndexFault, match="Chroma failed"):
        rows.upsert(ids=["a"], embeddings=np.ones((2, 3), np.float32))
    assert rows.count() == 0


def test_its_death_is_a_fault_and_not_the_end_of_who_asks(process: ChromaProcess) -> None:
    rows = open_collection(process, "memories", None)
    children.send(signal.SIGSEGV)
    for _ in range(2):
        with pytest.raises(IndexFault, match="ended with code -11"):
            rows.count()
    process.close()
    with pytest.raises(IndexFault, match="closed"):
        rows.count()


def test_only_one_that_closed_its_files_ended_well(process: ChromaProcess, tmp_path: Path) -> None:
    process.close()
    process.close()
    killed = ChromaProcess().open(tmp_path / "chroma")
    children.send(signal.SIGKILL)
    killed.close()
    assert (process.ended_well, killed.ended_well) == (True, False)


def test_nobody_else_has_the_folder_until_it_has_closed_its_files(
    process: ChromaProcess, tmp_path: Path
) -> None:
    folder = tmp_path / "chroma"
    with pytest.raises(IndexFault, match="still open"), alone_at(folder, patience_s=0):
        pass
    process.close()
    with alone_at(folder, patience_s=0):
        pass


def test_an_interrupted_question_leaves_no_answer_for_the_next(
    process: ChromaProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = open_collection(process, "memories", None)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(process, "_received", interrupted)
        with pytest.raises(KeyboardInterrupt):
            rows.count()
    with pytest.raises(IndexFault, match="closed"):
        rows.count()

"""A store that mem0 itself made, by its own API, goes through us and back; mem0 answers from it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.interchange import QdrantStore, Reading, as_memories, vector_folder
from memory.models import Memory
from tests.frameworks.mem0_story import DRIVER, ROOT, go_round, script
from tests.frameworks.word_server import word_server
from tests.qdrant_server import qdrant_server
from tests.servers import postgres_database, postgres_server

pytestmark = pytest.mark.framework
USERS, COUNT = 20, 400


@pytest.fixture(params=["chroma", "qdrant", "a Qdrant server", "pgvector"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """One in a folder, or an address."""
    if request.param == "a Qdrant server":
        with qdrant_server() as server:
            yield server.url
    elif request.param == "pgvector":
        with postgres_server() as postgres, postgres_database(postgres) as url:
            yield url.replace("postgresql+psycopg://", "postgresql://")
    else:
        yield request.param


def test_a_store_of_mem0_is_cleaned_and_written_back_and_taken_back(
    tmp_path: Path, backend: str
) -> None:
    with word_server() as port:
        done = go_round(tmp_path, port, script(USERS, COUNT), backend)
    assert sum(len(one["all"]) for one in done.before.values()) == COUNT
    for user, was in done.before.items():
        now = done.after[user]
        rows = {one["id"]: one for one in was["all"]}
        assert {one["user_id"] for one in now["all"]} == {user}
        assert {one["id"] for one in now["all"]} < rows.keys()
        assert sorted(one["memory"] for one in now["all"]) == sorted(done.live[user])
        assert now["first"] == now["all"][0]["memory"].rstrip(".").lower()
        # mem0 averages this with a rank of the words where its store has one (on pgvector 0.01).
        assert now["similarity"] == 1.0, "the vector is that of the text"
        touched = [one for one in now["all"] if one != rows[one["id"]]]
        assert all(one["updated_at"] > rows[one["id"]]["updated_at"] for one in touched)
    assert done.undone == done.before


def test_a_local_qdrant_folder_of_mem0_is_read(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps(script(2, 20)))
    with word_server() as port:
        make = [str(DRIVER), "make", "qdrant", str(tmp_path), str(port), "script.json"]
        subprocess.run(
            [sys.executable, *make],
            cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True,
        )  # fmt: skip
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    theirs = QdrantStore(vector_folder(tmp_path), "mem0", trusted=True)
    read = list(as_memories(theirs.found().rows, "theirs", Reading()))
    memories = [one for one in read if isinstance(one, Memory)]
    told = sorted((user, text) for user, texts in script(2, 20) for text in texts)
    assert sorted((str(one.user), one.content) for one in memories) == told
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before

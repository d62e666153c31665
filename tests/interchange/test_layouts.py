"""A collection that several programs filled: every row comes in, or is named with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.assembly import open_store
from memory.config import Config, MemoryConfig
from memory.interchange.foreign import Reading, as_memories
from memory.interchange.vector_stores import ChromaStore
from memory.models import Memory
from tests.interchange.layouts import fill

pytestmark = pytest.mark.usefixtures("forked_chroma")


@pytest.mark.parametrize("count", [400, pytest.param(20_000, marks=pytest.mark.drill)])
def test_four_layouts_in_one_collection_all_rows_in_or_named(tmp_path: Path, count: int) -> None:
    owners = fill(tmp_path / "theirs", count)
    before = {path: path.read_bytes() for path in (tmp_path / "theirs").rglob("*.*")}
    rows = ChromaStore(tmp_path / "theirs", "memories").found().rows
    items = list(as_memories(rows, "theirs", Reading()))
    memories = [one for one in items if isinstance(one, Memory)]
    assert {one.external_id: one.user for one in memories} == {
        name: owner for name, owner in owners.items() if owner is not None
    }
    left_out = [str(one) for one in items if not isinstance(one, Memory)]
    assert len(left_out) == count // 50
    assert all("whose memory" in one or "timestamp is missing" in one for one in left_out)
    with open_store(Config(memory=MemoryConfig(data_dir=str(tmp_path / "data")))) as store:
        assert store.add_batch(memories) == len(memories)
        assert (
            store.add_batch(
                [one for one in as_memories(rows, "", Reading()) if isinstance(one, Memory)]
            )
            == 0
        )
    assert before == {path: path.read_bytes() for path in (tmp_path / "theirs").rglob("*.*")}

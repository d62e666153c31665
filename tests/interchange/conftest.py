"""A store of ours, beside somebody else's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.assembly import open_store
from memory.config import Config, MemoryConfig
from memory.store import MemoryStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    with open_store(Config(memory=MemoryConfig(data_dir=str(tmp_path / "data")))) as opened:
        yield opened

"""Where an index is, and chance that is the same each time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "chroma"


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)

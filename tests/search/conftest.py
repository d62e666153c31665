"""A folder for an index, and a seeded random generator."""

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

"""No file and no table holds a forgotten word, whatever the store has lived through."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmarks import churn
from benchmarks.churn import config_of, live, searched


@pytest.mark.drill
@pytest.mark.parametrize("chroma", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_a_random_life_leaves_no_forgotten_word(
    ledger_url: str, tmp_path: Path, forked_chroma: None, seed: int, chroma: bool
) -> None:
    url = ledger_url if ledger_url.startswith("postgresql") else None
    asyncio.run(live(seed, 80, config_of(tmp_path / "data", url, chroma=chroma)))
    found = searched(seed, tmp_path / "data", url, chroma=chroma)
    assert (found.erased, found.left) == (True, {})
    assert found.words > 100


@pytest.mark.drill
@pytest.mark.parametrize("seed", range(2))
def test_a_killed_life_leaves_no_forgotten_word(ledger_url: str, tmp_path: Path, seed: int) -> None:
    url = ledger_url if ledger_url.startswith("postgresql") else None
    churn.killed(seed, 10_000, tmp_path / "data", url)
    found = searched(seed, tmp_path / "data", url)
    assert (found.erased, found.left) == (True, {})
    assert found.words > 0

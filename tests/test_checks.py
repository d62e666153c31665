"""Format, lint and types, so that one command checks everything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(["ruff", "format", "--check"], id="format"),
        pytest.param(["ruff", "check"], id="lint"),
        pytest.param(["mypy"], id="types", marks=pytest.mark.drill),  # a minute without its cache
    ],
)
def test_the_code_passes(check: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *check], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr

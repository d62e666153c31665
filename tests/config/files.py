"""The config.yaml that is shipped, and those of the tests."""

from __future__ import annotations

from pathlib import Path

SHIPPED = Path(__file__).parents[2] / "config.yaml"


def written(folder: Path, text: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return path

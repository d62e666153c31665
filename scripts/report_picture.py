"""Make docs/report.png: the page that `audit --report` writes about examples/memories.jsonl.

    python -m scripts.report_picture [FILE.png]

Needs Chromium and its driver (Debian: chromium, chromium-driver) and `pip install -e .[dev]`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.upkeep.chromium import chromium

ROOT = Path(__file__).parent.parent
SIZE = 1120, 1180


def main() -> None:
    picture = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "docs" / "report.png"
    with tempfile.TemporaryDirectory() as scratch:
        page = Path(scratch) / "audit.html"
        run(scratch, "import", "--raw", str(ROOT / "examples" / "memories.jsonl"))
        run(scratch, "audit", "--report", str(page))
        draw(page, picture)


def run(folder: str, *command: str) -> None:
    environment = os.environ | {"MEMORY_DATA_DIR": folder, "MEMORY_LLM_PROVIDER": "offline"}
    subprocess.run(
        [sys.executable, "-m", "memory", *command],
        cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip


def draw(page: Path, picture: Path) -> None:
    width, height = SIZE
    with chromium(width, height) as browser:
        browser.get(page.as_uri())
        browser.save_screenshot(str(picture))


if __name__ == "__main__":
    main()

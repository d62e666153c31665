"""Make docs/report.png: the page that `audit --report` writes about examples/memories.jsonl.

    python scripts/report_picture.py

Needs Chromium and its driver (Debian: chromium, chromium-driver) and `pip install selenium`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

ROOT = Path(__file__).parent.parent
SIZE = 1120, 1180


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        page = Path(scratch) / "audit.html"
        run(scratch, "import", "--raw", str(ROOT / "examples" / "memories.jsonl"))
        run(scratch, "audit", "--report", str(page))
        draw(page, ROOT / "docs" / "report.png", Path(scratch) / "profile")


def run(folder: str, *command: str) -> None:
    environment = os.environ | {"MEMORY_DATA_DIR": folder, "MEMORY_LLM_PROVIDER": "offline"}
    subprocess.run(
        [sys.executable, "-m", "memory", *command],
        cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip


def draw(page: Path, picture: Path, profile: Path) -> None:
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"):
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    width, height = SIZE
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(page.as_uri())
    browser.save_screenshot(str(picture))
    browser.quit()


if __name__ == "__main__":
    main()

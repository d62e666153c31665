"""A real Chromium without a window, driven as a person drives it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

LOOKS = [(1280, False), (1280, True), (360, False), (360, True)]
"""Widths in pixels, each in light and in dark."""
AXE = Path(
    os.environ.get("AXE_CORE", Path(__file__).parents[2] / ".ci/node_modules/axe-core/axe.min.js")
)
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@contextmanager
def chromium(width: int = 1280, height: int = 900, *, dark: bool = False) -> Iterator[Driver]:
    """A browser of its own, with a new profile; the test is skipped where there is none."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("there is no Chromium with its driver: apt install chromium chromium-driver")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        options = webdriver.ChromeOptions()
        options.binary_location = browser
        for flag in (*_FLAGS, f"--user-data-dir={Path(folder) / 'profile'}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        opened = webdriver.Chrome(options=options, service=Service(driver))
        try:
            show_as(opened, width, dark=dark, height=height)
            yield opened
        finally:
            opened.quit()


Driver = webdriver.Chrome


def show_as(opened: Driver, width: int, *, dark: bool, height: int = 900) -> None:
    """From here on as on a screen of this size, for eyes that want it light or dark."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def complaints(driver: Driver) -> list[str]:
    """What the console has to say since it was last asked."""
    told: list[dict[str, str]] = driver.get_log("browser")  # type: ignore[no-untyped-call]
    return [entry["message"] for entry in told]


def faults(driver: Driver) -> list[tuple[str, str]]:
    """What axe calls serious or critical on this page, as it looks now: the rule, and where.

    The test is skipped where there is no axe.
    """
    if not AXE.is_file():
        pytest.skip(f"axe-core is not at {AXE}: npm install --prefix .ci axe-core@4")
    if not driver.execute_script("return Boolean(window.axe)"):
        driver.execute_script(AXE.read_text(encoding="utf-8"))
    found = driver.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
    return [
        (one["id"], one["nodes"][0]["html"])
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]

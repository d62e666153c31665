"""A report in a real Chromium, opened from its file: what a reader does, what texts cannot do."""

from __future__ import annotations

import asyncio
import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from memory.decide import similarity_histogram
from memory.deduplicator import MemoryDeduplicator
from memory.models import Memory, Rules
from memory.review.answers import Answered, read_decisions
from memory.review.cards import cards_of
from memory.review.report import audit_report, write_report
from memory.store import MemoryStore
from tests.conftest import MakeMemory
from tests.doubles import START, PlacedEmbedder
from tests.review.chromium import LOOKS, Driver, chromium, complaints, faults

pytestmark = pytest.mark.browser
HOSTILE = (
    "<img src=x onerror=\"document.title='harmed'\">",
    "</script><script>document.title='harmed'</script>",
    "\u202eright to left\u202e, and back",
    "word " * 19_999,
)


@pytest.fixture
def page(
    store: MemoryStore,
    embedder: PlacedEmbedder,
    deduplicator: MemoryDeduplicator,
    make_memory: MakeMemory,
    tmp_path: Path,
) -> Path:
    """An audit of hostile texts, of three that differ, and of enough copies for two pages."""
    told: list[Memory] = []
    for text in HOSTILE:
        told += [make_memory(text, user="<b>Eve</b>"), make_memory(text + ".", user="<b>Eve</b>")]
    red = embedder.place("Mia paints a red boat.")
    blue = embedder.place("Mia paints a blue boat.", 0.93, to=red)
    told += [
        make_memory(red, user="Mia"),
        make_memory(blue, user="Mia"),
        make_memory(red + "!", user="Mia"),
    ]
    told += [make_memory(f"{n} is said twice", user="Bob") for n in range(40) for _ in range(2)]
    store.add_batch(told)
    found = asyncio.run(deduplicator.audit())
    alike = similarity_histogram(found.plan.snapshot, store.scope_of, store.scale)
    report = audit_report(found.report, cards_of(found.plan), alike, Rules(), START)
    write_report(report, tmp_path / "audit.html")
    return tmp_path / "audit.html"


@pytest.fixture(params=LOOKS, ids=str)
def driver(request: pytest.FixtureRequest, page: Path) -> Iterator[Driver]:
    width, dark = request.param
    with chromium(width, dark=dark) as opened:
        opened.get(page.as_uri())
        yield opened


def shown(driver: Driver) -> str:
    return driver.find_element(By.ID, "count").text


def wait_for(driver: Driver, told: str) -> None:
    WebDriverWait(driver, 10).until(lambda _: shown(driver) == told)


def press(driver: Driver, *keys: str) -> None:
    for key in keys:
        ActionChains(driver).send_keys(key).perform()


def test_nothing_is_harmed_and_nothing_overflows(driver: Driver) -> None:
    assert driver.title == "45 groups of near-copies among 91 memories"
    assert driver.find_elements(By.CSS_SELECTOR, "#cards img, #cards script, #cards b") == []
    sizes = "return [document.documentElement.scrollWidth, window.innerWidth]"
    wide, window = driver.execute_script(sizes)
    assert wide <= window
    first = driver.find_element(By.CSS_SELECTOR, ".card")
    assert [mark.text for mark in first.find_elements(By.TAG_NAME, "mark")] == [
        "red",
        "blue",
        "red",
        "!",
    ]
    driver.find_element(By.NAME, "user").send_keys("eve")
    wait_for(driver, "1 to 4 of 4 that match, of 45")
    assert "<img src=x onerror=" in driver.find_element(By.ID, "cards").text
    assert complaints(driver) == []


def test_axe_finds_no_serious_fault(driver: Driver) -> None:
    assert faults(driver) == []


def test_cards_are_filtered_sorted_and_paged(driver: Driver) -> None:
    assert shown(driver) == "1 to 25 of 45"
    press(driver, Keys.ARROW_RIGHT)
    assert shown(driver) == "26 to 45 of 45"
    driver.find_element(By.NAME, "text").send_keys("7 IS said")
    wait_for(driver, "1 to 4 of 4 that match, of 45")
    driver.find_element(By.NAME, "text").clear()
    driver.find_element(By.NAME, "text").send_keys(" ")
    driver.find_element(By.NAME, "high").send_keys("0.95")
    wait_for(driver, "1 to 1 of 1 that match, of 45")
    driver.find_element(By.NAME, "low").send_keys("0.94")
    wait_for(driver, "Nothing matches these filters.")


def test_answers_given_by_keyboard_are_saved_as_a_decisions_file(
    page: Path, tmp_path: Path
) -> None:
    with chromium() as driver:
        driver.execute_cdp_cmd(
            "Page.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
        )
        driver.get(page.as_uri())
        press(driver, "j", "e")
        press(driver, " Or not.", Keys.ESCAPE, "i", "y", "1", "n", "s", "u")
        assert driver.find_element(By.ID, "answered-count").text == "3 of 45 answered"
        driver.find_element(By.ID, "save").click()
        said = driver.find_element(By.ID, "answered-count").text
        assert said.startswith("3 saved; 42 still open: “")
        saved = tmp_path / "decisions.jsonl"
        WebDriverWait(driver, 10).until(lambda _: saved.is_file())
        driver.execute_script("window.onbeforeunload = null")
    told = [one for _, one in read_decisions(saved) if isinstance(one, Answered)]
    assert [one.answer.value for one in told] == ["apply", "same", "keep_all"]
    assert told[0].text == "Mia paints a red boat.! Or not."
    assert [one.insist for one in told] == [True, False, False]
    assert told[1].stays == told[1].members[0].id
    assert json.loads(saved.read_text().splitlines()[0]) == {"decisions": 1}


def test_writing_into_an_answered_card_opens_it_again(page: Path) -> None:
    with chromium() as driver:
        driver.get(page.as_uri())
        press(driver, "j", "e", "!", Keys.ESCAPE, "y", "k")
        assert driver.find_element(By.ID, "answered-count").text == "1 of 45 answered"
        area = driver.find_element(By.TAG_NAME, "textarea")
        area.send_keys(Keys.END)
        press(driver, "?", "?")
        area = driver.find_element(By.TAG_NAME, "textarea")
        assert area.get_attribute("value") == "Mia paints a red boat.!!??"
        assert not driver.find_element(By.ID, "answered").is_displayed()
        assert driver.find_elements(By.CSS_SELECTOR, ".is-answered") == []
        assert complaints(driver) == []


def test_it_is_read_on_paper_too(page: Path) -> None:
    with chromium() as driver:
        driver.get(page.as_uri())
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        hidden = driver.execute_script(
            "return ['.filters', '.pager', '.answers', '.keys'].filter(one =>"
            " getComputedStyle(document.querySelector(one)).display !== 'none')"
        )
        assert hidden == []


def test_the_manuals_picture_of_it_is_drawn_by_its_script(tmp_path: Path) -> None:
    picture = tmp_path / "report.png"
    script = [sys.executable, "-m", "scripts.report_picture", str(picture)]
    subprocess.run(script, cwd=Path(__file__).parents[2], check=True, capture_output=True)
    assert struct.unpack(">II", picture.read_bytes()[16:24]) == (1120, 1180)

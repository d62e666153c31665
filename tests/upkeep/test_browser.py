"""The page in a real Chromium: an audit's file and a running review, by keyboard."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from memory.assembly import open_store
from memory.config import Config, load_config
from memory.decide import similarity_histogram
from memory.deduplicator import MemoryDeduplicator
from memory.ledger import DecisionRecord
from memory.models import Action, Memory, Rules
from memory.store import MemoryStore
from memory.upkeep.answers import Answered, read_decisions
from memory.upkeep.cards import cards_of
from memory.upkeep.report import audit_report, write_report
from tests import commands
from tests.conftest import MakeMemory
from tests.doubles import START, PlacedEmbedder
from tests.upkeep.chromium import LOOKS, Driver, chromium, complaints, faults, show_as
from tests.upkeep.crowd import crowd

pytestmark = pytest.mark.browser
HOSTILE = (
    "<img src=x onerror=\"document.title='harmed'\">",
    "</script><script>document.title='harmed'</script>",
    "\u202eright to left\u202e, and back",
    "word " * 19_999,
)


def press(driver: Driver, *keys: str) -> None:
    """Keys go to whatever has the focus, as they do on a keyboard."""
    for key in keys:
        ActionChains(driver).send_keys(key).perform()


def read(driver: Driver, script: str) -> str:
    """What a whole page says; empty while another one is on its way."""
    ready = "document.readyState === 'complete' && document.getElementById('count')?.textContent"
    return str(driver.execute_script(f"return {ready} ? String({script}) : ''"))


def until(driver: Driver, holds: Callable[[], bool]) -> None:
    WebDriverWait(driver, 20, 0.02).until(lambda _: holds())


def shown(driver: Driver) -> str:
    return driver.find_element(By.ID, "count").text


def wait_for(driver: Driver, said: str) -> None:
    WebDriverWait(driver, 10).until(lambda _: shown(driver) == said)


def unharmed(driver: Driver) -> None:
    assert driver.find_elements(By.CSS_SELECTOR, "main img, main script, main card b") == []
    sizes = "return [document.documentElement.scrollWidth, window.innerWidth]"
    wide, window = driver.execute_script(sizes)
    assert wide <= window
    assert "\u202e" not in str(driver.execute_script("return document.body.innerText"))
    assert "harmed" not in driver.title
    assert complaints(driver) == []


# --- an audit's file ----------------------------------------------------------------------------


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
    told += [make_memory(text, user="Mia") for text in (red, blue, red + "!")]
    told += [make_memory(f"{n} is said twice", user="Bob") for n in range(40) for _ in range(2)]
    store.add_batch(told)
    found = asyncio.run(deduplicator.audit())
    alike = similarity_histogram(found.plan.snapshot, store.scope_of, store.scale)
    report = audit_report(found.report, cards_of(found.plan), alike, Rules(), START)
    write_report(report, tmp_path / "audit.html")
    return tmp_path / "audit.html"


@pytest.fixture
def driver(page: Path) -> Iterator[Driver]:
    with chromium() as opened:
        opened.get(page.as_uri())
        yield opened


def test_nothing_is_harmed_nothing_overflows_and_axe_finds_no_fault(driver: Driver) -> None:
    assert driver.title == "45 groups of near-copies among 91 memories"
    first = driver.find_element(By.CSS_SELECTOR, ".card")
    marks = [mark.text for mark in first.find_elements(By.TAG_NAME, "mark")]
    assert marks == ["red", "blue", "red", "!"]
    driver.find_element(By.NAME, "user").send_keys("eve")
    wait_for(driver, "1 to 4 of 4 that match, of 45")
    assert "<img src=x onerror=" in driver.find_element(By.ID, "cards").text
    driver.find_element(By.NAME, "user").clear()
    for width, dark in LOOKS:
        show_as(driver, width, dark=dark)
        unharmed(driver)
        assert faults(driver) == [], (width, dark)


def test_a_text_and_its_actions_stand_on_one_line(driver: Driver) -> None:
    text, acts = (
        driver.find_element(By.CSS_SELECTOR, f".member {part}").rect for part in (".text", ".acts")
    )
    assert text["x"] < acts["x"]
    assert abs(text["y"] - acts["y"]) < text["height"]


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
    driver: Driver, tmp_path: Path
) -> None:
    driver.execute_cdp_cmd(
        "Page.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    press(driver, "j", "e")
    press(driver, " Or not.", Keys.ESCAPE, "i", "y", "1", "n", "s", "u")
    assert driver.find_element(By.ID, "answered-count").text == "3 of 45 answered"
    driver.find_element(By.ID, "save").click()
    said = driver.find_element(By.ID, "answered-count").text
    assert said.startswith("3 saved; 42 still open: “")
    saved = tmp_path / "decisions.jsonl"
    WebDriverWait(driver, 10).until(lambda _: saved.is_file())
    assert complaints(driver) == []
    told = [one for _, one in read_decisions(saved) if isinstance(one, Answered)]
    assert [one.answer.value for one in told] == ["apply", "same", "keep_all"]
    assert told[0].text == "Mia paints a red boat.! Or not."
    assert [one.insist for one in told] == [True, False, False]
    assert told[1].stays == told[1].members[0].id
    assert json.loads(saved.read_text().splitlines()[0]) == {"decisions": 1}


def test_writing_into_an_answered_card_opens_it_again(driver: Driver) -> None:
    press(driver, "j", "e", "!", Keys.ESCAPE, "y", "k")
    assert driver.find_element(By.ID, "answered-count").text == "1 of 45 answered"
    area = driver.find_element(By.TAG_NAME, "textarea")
    area.send_keys(Keys.END)
    press(driver, "?", "?")
    area = driver.find_element(By.TAG_NAME, "textarea")
    assert area.get_attribute("value") == "Mia paints a red boat.!!??"
    assert not driver.find_element(By.ID, "answered").is_displayed()
    assert driver.find_elements(By.CSS_SELECTOR, ".is-answered") == []
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    on_paper = driver.execute_script(
        "return ['#find', '.pager', '.answers', '.keys'].filter(one =>"
        " getComputedStyle(document.querySelector(one)).display !== 'none')"
    )
    assert on_paper == []


@pytest.mark.drill
def test_the_manuals_picture_of_it_is_drawn_by_its_script(tmp_path: Path) -> None:
    picture = tmp_path / "report.png"
    script = [sys.executable, "-m", "scripts.report_picture", str(picture)]
    subprocess.run(script, cwd=Path(__file__).parents[2], check=True, capture_output=True)
    assert struct.unpack(">II", picture.read_bytes()[16:24]) == (1120, 1180)


# --- a running review ---------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text(
        "memory: {data_dir: data}\nllm: {provider: offline}\n", encoding="utf-8"
    )
    return tmp_path


def fill(home: Path, memories: Iterator[Memory] | list[Memory]) -> list[Memory]:
    told = list(memories)
    with open_store(config(home)) as store:
        store.add_batch(told)
    return told


def config(home: Path) -> Config:
    return load_config(home / "config.yaml")


def by_person(home: Path) -> list[DecisionRecord]:
    with open_store(config(home)) as store, store.ledger.reading() as reader:
        return sorted(reader.decisions.by_person(), key=lambda one: one.number)


def live(home: Path) -> set[tuple[str, str]]:
    with open_store(config(home)) as store:
        return {(memory.id, memory.content) for memory in store.memories()}


@contextmanager
def review(home: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the command itself; yield it and the address that it prints."""
    command = [commands.python(), "-m", "memory", "review", "--no-browser", *options]
    with subprocess.Popen(command, cwd=home, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.terminate()
            process.wait(30)


def answered(driver: Driver) -> int:
    """How many groups are, as the page says; -1 while it is on its way."""
    told = read(driver, "document.querySelector('.progress').innerText.trim()")
    return int(told.split()[0].replace(",", "")) if told else -1


def has(driver: Driver, selector: str) -> bool:
    return read(driver, f"document.querySelector({selector!r}) !== null") == "true"


OPEN = ".card:not(.is-answered)"


def answer(driver: Driver, chance: random.Random) -> bool:
    """Answer a group by keys alone; return False if no group is open.

    A key that comes while the page is drawn anew is lost, as it would be to a person, who reloads.
    """
    try:
        return answer_by_keys(driver, chance)
    except TimeoutException:
        driver.refresh()
        until(driver, lambda: answered(driver) >= 0)
        return True


def answer_by_keys(driver: Driver, chance: random.Random) -> bool:
    before = answered(driver)
    if not has(driver, OPEN):
        driver.refresh()
        until(driver, lambda: answered(driver) >= before)
    if not has(driver, OPEN):
        return False
    if not has(driver, f"{OPEN}:focus"):
        driver.execute_script(f"document.querySelector({OPEN!r}).focus()")
    said = chance.choice("yyynw1")
    if said == "y" and not has(driver, ".card:focus [data-key=y]:not(:disabled)"):
        said = "n"
    if said == "w":
        press(driver, "e")
        control = ActionChains(driver).key_down(Keys.CONTROL)
        control.send_keys(Keys.ENTER).key_up(Keys.CONTROL).perform()
        objected = ".card:focus-within .note:not(:empty)"
        until(driver, lambda: answered(driver) > before or has(driver, objected))
        if answered(driver) == before:
            press(driver, "i", "y")
    else:
        press(driver, said)
    refused = f"{OPEN} .note:not(:empty)"  # such as an answer to a group that has changed
    until(driver, lambda: answered(driver) > before or has(driver, refused))
    if answered(driver) == before:
        driver.execute_script(f"document.querySelector({OPEN!r}).focus()")
        press(driver, "n")
        until(driver, lambda: answered(driver) > before)
    return True


def test_a_blind_review_asks_same_or_different_and_records_what_was_answered(home: Path) -> None:
    texts = [f"Mia keeps {n} goats on the hill." for n in (2, 3)]
    texts += [f"Jonas swims {n} lengths each day." for n in (20, 30)]
    now = datetime.now(UTC)
    fill(home, [Memory(content=text, timestamp=now, user="Mia") for text in texts])
    with chromium() as driver, review(home, "--blind") as (_, address):
        driver.get(address)
        assert "similarity" not in read(driver, "document.querySelector('main').innerText")
        for count, key in enumerate("yn"):
            until(driver, lambda: has(driver, f"{OPEN}:focus"))
            press(driver, key)
            until(driver, lambda count=count: answered(driver) == count + 1)  # type: ignore[misc]
        press(driver, "?")
        assert has(driver, "details.keys[open]")
        assert complaints(driver) == []
    same, different = by_person(home)
    assert (same.action, same.reason) == (Action.REPLACE, "called the same by a person")
    assert (different.action, different.reason) == (Action.KEEP_BOTH, "kept apart by a person")


@pytest.mark.drill
def test_three_hundred_groups_by_keyboard_with_a_kill_in_the_middle(home: Path) -> None:
    told = fill(home, crowd(300))
    chance = random.Random(3)
    with chromium() as driver:
        with review(home) as (process, address):
            driver.get(address)
            for _ in range(120):
                answer(driver, chance)
            refused = "409 (Conflict)"  # a text to which the check objects
            assert [one for one in complaints(driver) if refused not in one] == []
            acknowledged = answered(driver)
            press(driver, "n")
            process.send_signal(signal.SIGKILL)
            process.wait(30)
        kept = sum(not one.left_for_later for one in by_person(home))
        assert kept in (acknowledged, acknowledged + 1), "no answer is lost"
        with review(home) as (_, address):
            driver.get(address)
            complaints(driver)  # that the killed one was gone
            assert answered(driver) == kept
            while answer(driver, chance):
                pass
            before = answered(driver)
            press(driver, "u")
            until(driver, lambda: answered(driver) == before - 1)
            until(driver, lambda: has(driver, OPEN))
            assert answer(driver, chance)
            press(driver, "h")
            until(driver, lambda: "/history" in driver.current_url and has(driver, ".card"))
        assert complaints(driver) == []
    decided = by_person(home)
    assert len({frozenset(one.members) for one in decided}) >= 300
    with open_store(config(home)) as store:
        for run in dict.fromkeys(str(one.run) for one in reversed(decided)):
            store.undo(run)
    assert live(home) == {(one.id, one.content) for one in told}


@pytest.mark.drill
def test_two_browsers_at_once_do_not_decide_one_group_twice(home: Path) -> None:
    fill(home, crowd(12, seed=2))
    with review(home) as (_, address), chromium() as one, chromium() as two:
        base = address.partition("?")[0]
        one.get(address)
        one.find_element(By.ID, "invite").click()
        until(one, lambda: has(one, "footer code"))
        two.get(one.find_element(By.CSS_SELECTOR, "footer code").text)
        for _ in range(10):
            for driver in (one, two):
                driver.get(base)
                until(driver, lambda driver=driver: has(driver, f"{OPEN}:focus"))  # type: ignore[misc]
            pressing = [
                threading.Thread(target=press, args=(driver, key))
                for driver, key in ((one, "n"), (two, "y"))
            ]
            for thread in pressing:
                thread.start()
            for thread in pressing:
                thread.join()
            until(one, lambda: has(one, ".is-answered, .note:not(:empty)"))
    decided = [frozenset(record.members) for record in by_person(home)]
    assert len(decided) == len(set(decided)) >= 10

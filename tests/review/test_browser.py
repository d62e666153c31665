"""The review in a real Chromium: 300 groups by keyboard, a kill in the middle, two browsers."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support import expected_conditions
from selenium.webdriver.support.wait import WebDriverWait

from memory.assembly import open_store
from memory.config import Config, load_config
from memory.ledger import DecisionRecord
from memory.models import Action, Memory, new_memory_id
from tests.doubles import START
from tests.review.chromium import Driver, chromium, complaints
from tests.review.crowd import crowd

pytestmark = pytest.mark.browser
CAN_APPLY = "[data-key=y]:not(:disabled)"
HOSTILE = '<img src=x onerror="document.title=1">', "</script><script>document.title=2</script>"


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
        return reader.decisions.by_person()


def live(home: Path) -> set[tuple[str, str]]:
    with open_store(config(home)) as store:
        return {(memory.id, memory.content) for memory in store.memories()}


@contextmanager
def review(
    home: Path, command: Sequence[str] = (sys.executable, "-m", "memory", "review", "--no-browser")
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the command itself; yield it and the address that it prints."""
    with subprocess.Popen(command, cwd=home, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.terminate()
            process.wait(30)


def press(driver: Driver, *keys: str) -> None:
    """Keys go to whatever has the focus, as they do on a keyboard."""
    for key in keys:
        ActionChains(driver).send_keys(key).perform()


def read(driver: Driver, script: str) -> str:
    """What a whole page says; empty while another one is on its way."""
    ready = "document.readyState === 'complete'"
    return str(driver.execute_script(f"return {ready} ? String({script}) : ''"))


def answered(driver: Driver) -> int:
    """How many groups are, as the page says; -1 while it is on its way."""
    told = read(driver, "document.querySelector('.progress').innerText")
    return int(told.split()[0].replace(",", "")) if told else -1


def says(driver: Driver, words: str) -> bool:
    return words in read(driver, "document.querySelector('.progress').innerText")


def has(driver: Driver, selector: str) -> bool:
    return read(driver, f"document.querySelector({selector!r}) !== null") == "true"


def until(driver: Driver, holds: Callable[[], bool]) -> None:
    WebDriverWait(driver, 20, 0.02).until(lambda _: holds())


def answer(driver: Driver, chance: random.Random) -> None:
    """Answer one group by keys alone: applied, kept, one chosen, or in other words."""
    before = answered(driver)
    said = chance.choice("yyynw1")
    if said == "y" and not has(driver, CAN_APPLY):
        said = "n"
    if said == "w":
        press(driver, "e")
        control = ActionChains(driver).key_down(Keys.CONTROL)
        control.send_keys(Keys.ENTER).key_up(Keys.CONTROL).perform()
        until(driver, lambda: answered(driver) > before or has(driver, "[name=insist]"))
        if has(driver, "[name=insist]"):
            press(driver, "i", "w")
    else:
        press(driver, said)
    until(driver, lambda: answered(driver) > before)


def shows_history(driver: Driver, address: str) -> bool:
    """Asked anew each time: the page after an answer may still be on its way, and come instead."""
    driver.get(address.partition("?")[0] + "history")
    return has(driver, ".card")


def test_a_blind_review_asks_same_or_different_and_records_what_was_answered(home: Path) -> None:
    texts = [f"Mia keeps {n} goats on the hill." for n in (2, 3)]
    texts += [f"Jonas swims {n} lengths each day." for n in (20, 30)]
    now = datetime.now(UTC)
    fill(home, [Memory(content=text, timestamp=now, user="Mia") for text in texts])
    command = [sys.executable, "-m", "memory", "review", "--blind", "--no-browser"]
    with chromium() as driver, review(home, command) as (_, address):
        driver.get(address)
        for key in "yn":
            assert "Same or different?" in read(driver, "document.querySelector('h1').innerText")
            press(driver, key)
            until(driver, partial(says, driver, "1 answered" if key == "y" else "2 answered"))
        press(driver, "?")
        assert has(driver, "details.keys[open]")
        assert complaints(driver) == []
    same, different = sorted(by_person(home), key=lambda one: one.number)
    assert (same.action, same.reason) == (Action.REPLACE, "called the same by a person")
    assert (different.action, different.reason) == (Action.KEEP_BOTH, "kept apart by a person")


def test_enter_on_a_box_answers_nothing(home: Path) -> None:
    now = datetime.now(UTC)
    texts = [f"Mia keeps {n} goats on the hill." for n in (2, 3, 4)]
    fill(home, [Memory(content=text, timestamp=now, user="Mia") for text in texts])
    with chromium() as driver, review(home) as (_, address):
        driver.get(address)
        box = driver.find_element(By.NAME, "left_out")
        box.send_keys(Keys.ENTER)
        WebDriverWait(driver, 20).until(expected_conditions.staleness_of(box))
        until(driver, lambda: has(driver, "#answer"))
        assert answered(driver) == 0
    assert by_person(home) == []


def test_three_hundred_groups_by_keyboard_with_a_kill_in_the_middle(home: Path) -> None:
    told = fill(home, crowd(300))
    chance = random.Random(3)
    with chromium() as driver:
        with review(home) as (process, address):
            driver.get(address)
            for _ in range(120):
                answer(driver, chance)
            assert complaints(driver) == []
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
            while has(driver, "#answer"):
                answer(driver, chance)
            press(driver, "u")
            until(driver, lambda: has(driver, "#answer"))
            press(driver, "n")
            until(driver, lambda: has(driver, "h1") and not has(driver, "#answer"))
            until(driver, lambda: shows_history(driver, address))
        assert complaints(driver) == []
    decided = by_person(home)
    assert len({frozenset(one.members) for one in decided}) >= 300
    with open_store(config(home)) as store:
        for run in dict.fromkeys(str(one.run) for one in reversed(decided)):
            store.undo(run)
    assert live(home) == {(one.id, one.content) for one in told}


def test_two_browsers_at_once_do_not_decide_one_group_twice(home: Path) -> None:
    fill(home, crowd(12, seed=2))
    with review(home) as (_, address), chromium() as one, chromium() as two:
        base = address.partition("?")[0]
        one.get(address)
        one.find_element(By.XPATH, "//button[text()='Open in another browser']").click()
        until(one, lambda: "another browser" in read(one, "document.querySelector('h1').innerText"))
        two.get(one.find_element(By.CSS_SELECTOR, "main code").text)
        for _ in range(10):
            for driver in (one, two):
                driver.get(base)
            keys = "n", "y"
            pressing = [
                threading.Thread(target=press, args=(driver, key))
                for driver, key in zip((one, two), keys, strict=True)
            ]
            for thread in pressing:
                thread.start()
            for thread in pressing:
                thread.join()
    decided = [frozenset(record.members) for record in by_person(home)]
    assert len(decided) == len(set(decided)) >= 10


def hostile() -> list[Memory]:
    texts = [*HOSTILE, "\u202eevil \u2066text", "long " * 19_000 + "end"]
    told = []
    for number, text in enumerate(texts):
        for more in ("", " indeed"):
            at = START.replace(minute=number)
            memory = Memory(
                id=new_memory_id(), content=text + more, user=f"{HOSTILE[0]}{number}", timestamp=at
            )
            told.append(memory)
    return told


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (360, True)])
def test_hostile_texts_harm_no_page_and_none_is_too_wide(
    home: Path, width: int, dark: bool
) -> None:
    fill(home, hostile())
    with review(home) as (_, address), chromium(width, dark=dark) as driver:
        base = address.partition("?")[0]
        driver.get(address)
        for number in range(4):
            unharmed(driver, width)
            left = driver.current_url
            press(driver, "n" if number % 2 else "s")
            until(driver, lambda left=left: read(driver, "location.href") not in ("", left))  # type: ignore[misc]
        retired = by_person(home)[0].members[0]
        pages = ["", "groups", "questions", "history", "figures", f"memory/{retired}"]
        for page in pages:
            driver.get(base + page)
            unharmed(driver, width)
        assert complaints(driver) == []


def unharmed(driver: Driver, width: int) -> None:
    until(driver, lambda: read(driver, "document.title").endswith("memory-dedup"))
    assert driver.find_elements(By.CSS_SELECTOR, "main img, main script") == []
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    assert "\u202e" not in str(driver.execute_script("return document.body.innerText"))

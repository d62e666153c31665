"""What axe says of every page of a running review, wide and narrow, in light and in dark."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from memory.deduplicator import MemoryDeduplicator
from memory.errors import ModelUnavailable
from memory.providers import OfflineModel
from memory.store import MemoryStore
from tests.conftest import MakeMemory
from tests.doubles import PlacedEmbedder, ScriptedModel
from tests.upkeep.chromium import LOOKS, Driver, chromium, complaints, faults, show_as
from tests.upkeep.serving import served
from tests.upkeep.test_browser import press, unharmed

pytestmark = pytest.mark.browser
HOSTILE = "<img src=x onerror=\"document.title='harmed'\">", "\u202eevil \u2066text"


@pytest.fixture
def driver() -> Iterator[Driver]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def filled(store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory) -> MemoryStore:
    """A question at which a model failed, hostile and long copies, and groups of three."""
    sails = embedder.place("Mia sails."), embedder.place("Mia dives.", 0.93, "Mia sails.")
    store.add_batch([make_memory(text, user="Mia") for text in sails])
    long = "word " * 2_000
    store.add_batch([make_memory(text, user="Eve") for text in (long, long.upper())])
    asyncio.run(MemoryDeduplicator(store, ScriptedModel(ModelUnavailable("no"))).deduplicate_all())
    for text in HOSTILE:
        store.add_batch([make_memory(text + end, user=HOSTILE[0]) for end in ("", " indeed")])
    for user in ("Ann", "Ben"):
        run = embedder.place(f"{user} is running 12 km.")
        more = embedder.place(f"{user} is regularly running 12 km.", 0.97, run)
        other = embedder.place(f"{user} runs 21 km.", 0.96, run)
        store.add_batch([make_memory(text, user=user) for text in (run, more, other)])
    told = ("lives in Porto", "lives in Lisbon")
    store.add_batch([make_memory(f"Mia {text}.", user="Mia") for text in told])
    return store


def look_at(driver: Driver, what: str) -> None:
    """Nothing is wrong with the page that is open, however it is looked at."""
    for width, dark in LOOKS:
        show_as(driver, width, dark=dark)
        assert faults(driver) == [], (what, width, dark)
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    show_as(driver, 1280, dark=False)


def until(driver: Driver, holds: Callable[[], object]) -> None:
    WebDriverWait(driver, 20, 0.02).until(lambda _: holds())


def test_no_page_has_a_fault_while_groups_are_answered(driver: Driver, filled: MemoryStore) -> None:
    with served(filled, ScriptedModel()) as there:
        driver.get(there.session.address())
        unharmed(driver)
        focused = ".card:focus"
        for answers, key in enumerate("nse"):
            press(driver, key)
            if key != "e":
                until(driver, lambda answers=answers: len(  # type: ignore[misc]
                    driver.find_elements(By.CSS_SELECTOR, ".is-answered")
                ) > answers)  # fmt: skip
        until(driver, lambda: driver.find_elements(By.TAG_NAME, "textarea"))
        press(driver, " On the moon, 77 times.")
        driver.find_element(By.CSS_SELECTOR, ".card:focus-within [data-key=y]").click()
        until(driver, lambda: "77" in driver.find_element(By.CSS_SELECTOR, ".note").text
              or "Not done" in driver.page_source)  # fmt: skip
        driver.find_element(By.CSS_SELECTOR, ".leave input").click()
        until(driver, lambda: driver.find_elements(By.CSS_SELECTOR, ".is-out"))
        look_at(driver, f"answered, objected to, left out; {focused}")
        gone = next(one for one in filled.history() if one.survivors).members[0]
        pages = ("conflicts", "questions", "history", f"memory/{gone}", "memory/none", "nothing")
        for place in pages:
            driver.get(f"{there.url}/{place}")
            look_at(driver, place)


def test_a_conflict_is_answered_by_one_key_and_undone_by_another(
    driver: Driver, filled: MemoryStore
) -> None:
    with served(filled, OfflineModel()) as there:
        driver.get(there.session.address())
        press(driver, "c")
        until(driver, lambda: driver.find_elements(By.CSS_SELECTOR, "[data-action=conflict]"))
        press(driver, "j", "2")
        until(driver, lambda: driver.find_elements(By.CSS_SELECTOR, ".is-answered"))
        assert "Mia lives in Porto." not in {one.content for one in filled.memories()}
        press(driver, "u")
        until(driver, lambda: not driver.find_elements(By.CSS_SELECTOR, ".is-answered"))
        assert complaints(driver) == []
    assert "Mia lives in Porto." in {one.content for one in filled.memories()}


def test_a_blind_and_an_empty_review_have_no_fault(driver: Driver, store: MemoryStore) -> None:
    with served(store, OfflineModel(), blind=True) as there:
        driver.get(there.session.address())
        look_at(driver, "blind and empty")

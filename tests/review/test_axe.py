"""What axe says of every page of a running review, wide and narrow, in light and in dark."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support import expected_conditions
from selenium.webdriver.support.wait import WebDriverWait

from memory.deduplicator import MemoryDeduplicator
from memory.errors import ModelUnavailable
from memory.offline import OfflineModel
from memory.store import MemoryStore
from tests.conftest import MakeMemory
from tests.doubles import PlacedEmbedder, ScriptedModel
from tests.review.chromium import LOOKS, Driver, chromium, faults, show_as
from tests.review.serving import Served, served

pytestmark = pytest.mark.browser


@pytest.fixture
def driver() -> Iterator[Driver]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def filled(store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory) -> MemoryStore:
    """A question at which a model failed, long copies of which one went, groups of three."""
    sails = embedder.place("Mia sails."), embedder.place("Mia dives.", 0.93, "Mia sails.")
    store.add_batch([make_memory(text, user="Mia") for text in sails])
    long = "word " * 2_000
    store.add_batch([make_memory(text, user="Eve") for text in (long, long.upper())])
    asyncio.run(MemoryDeduplicator(store, ScriptedModel(ModelUnavailable("no"))).deduplicate_all())
    for user in ("Ann", "Ben", "Cem", "Dan"):
        run = embedder.place(f"{user} runs 12 km.")
        more = embedder.place(f"{user} runs 12 km on Sundays.", 0.97, run)
        other = embedder.place(f"{user} runs 21 km.", 0.96, run)
        store.add_batch([make_memory(text, user=user) for text in (run, more, other)])
    return store


def look_at(driver: Driver, place: str) -> None:
    """Nothing is wrong with the page that is open, however it is looked at."""
    for width, dark in LOOKS:
        show_as(driver, width, dark=dark)
        assert faults(driver) == [], (place, width, dark)


def look_at_all(driver: Driver, there: Served, *places: str) -> None:
    for place in places:
        driver.get(f"{there.url}/{place}")
        look_at(driver, place)


def go(driver: Driver, button: str) -> None:
    """Press a button that leads to another page, and wait for that."""
    pressed = driver.find_element(By.CSS_SELECTOR, button)
    pressed.click()
    WebDriverWait(driver, 20).until(expected_conditions.staleness_of(pressed))


def test_axe_finds_no_serious_fault_on_any_page(driver: Driver, filled: MemoryStore) -> None:
    with served(filled, ScriptedModel()) as there:
        driver.get(there.session.address())
        for key in ("y", "n", "s"):
            go(driver, f"#answer [data-key={key}]:not(:disabled)")
            look_at(driver, f"after {key}")
        gone = next(one for one in filled.history() if one.survivors).members[0]
        look_at_all(driver, there, "", "groups", "questions", "history", "figures")
        look_at_all(driver, there, f"memory/{gone}", "memory/mem_none", "nothing")


def test_nor_on_a_group_that_is_answered_bit_by_bit(driver: Driver, filled: MemoryStore) -> None:
    with served(filled, ScriptedModel()) as there:
        driver.get(there.session.address())
        go(driver, "[data-key=n]")  # the first has two members alone
        driver.find_element(By.NAME, "left_out").click()
        go(driver, "[data-key=y]")
        look_at(driver, "one is left out")
        driver.find_element(By.TAG_NAME, "body").send_keys("e")
        look_at(driver, "a text is written")
        driver.find_element(By.NAME, "text").send_keys(" On the moon.")
        go(driver, "[data-key=w]")
        look_at(driver, "objections")
        for memory in list(filled.memories()):
            filled.update(memory.id, f"{memory.content} So they say.")
        go(driver, "[data-key=n]")
        look_at(driver, "it has changed")
        go(driver, "form[action='/invite'] button")
        look_at(driver, "another browser")


def test_nor_where_similarity_is_hidden(driver: Driver, filled: MemoryStore) -> None:
    with served(filled, OfflineModel(), blind=True) as there:
        driver.get(there.session.address())
        look_at(driver, "blind")
        while driver.find_elements(By.ID, "answer"):
            go(driver, "[data-key=n]")
        look_at(driver, "all are answered")


def test_nor_where_there_is_nothing(driver: Driver, store: MemoryStore) -> None:
    with served(store, OfflineModel()) as there:
        driver.get(there.session.address())
        look_at_all(driver, there, "", "groups", "questions", "history", "figures")

"""Processes die, race and tear files, and nothing is lost. Longer drills: benchmarks/drills.py."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from benchmarks.drills import (
    KillReport,
    RaceReport,
    a_fact,
    a_memory,
    check,
    config_for,
    kill_drill,
    open_closely,
    race_drill,
)
from memory.assembly import open_store
from memory.store import MemoryStore

pytestmark = pytest.mark.drill
MEMORIES = 120


@pytest.mark.parametrize("seed", [11, 12, 13])
def test_thirty_killed_writers_lose_nothing(tmp_path: Path, seed: int) -> None:
    report = kill_drill(tmp_path, kills=10, seed=seed, base=150)
    assert report.problems == []
    assert (report.kills, report.lost, report.holes) == (10, 0, 0)
    assert report.acknowledged > 10


def test_processes_that_race_on_one_folder_store_each_fact_once(tmp_path: Path) -> None:
    check_race(race_drill(tmp_path, processes=4, writes=200))


def test_processes_that_race_on_postgresql_and_a_chroma_server_do_too(
    tmp_path: Path, postgres_url: str, chroma_port: int
) -> None:
    check_race(race_drill(tmp_path, ledger_url=postgres_url, chroma_port=chroma_port))


def check_race(report: RaceReport) -> None:
    assert report.writes == 800
    assert report.facts > 90
    assert (report.live, report.missing, report.copies) == (report.facts, 0, 0)


# --- Chroma's files -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose index has files of every kind."""
    folder = tmp_path_factory.mktemp("whole")
    rng = random.Random(1)
    with open_closely(folder) as store:
        store.add_batch([a_memory(a_fact(rng)) for _ in range(MEMORIES)])
        store.index.rebuild()
        assert store.index.name == "Chroma"
    return folder


def find(store: MemoryStore) -> None:
    """Ask the index; it copies a page of what it does not know yet."""
    some = next(store.memories())
    assert store.find_similar(some.content + " Indeed.", 0.5, user="Mia") is not None


CHROMA_FILES = ["chroma.sqlite3", "data_level0.bin", "header.bin", "length.bin", "link_lists.bin"]
CHROMA_FILES += ["index_metadata.pickle"]


@pytest.mark.parametrize("name", CHROMA_FILES)
@pytest.mark.parametrize("how", ["truncated", "garbled", "deleted", "blown up"])
def test_a_store_opens_and_loses_nothing_with_any_torn_file_of_chroma(
    whole: Path, tmp_path: Path, name: str, how: str
) -> None:
    folder = tmp_path / "torn"
    shutil.copytree(whole, folder)
    [victim] = (folder / "data" / "chroma").rglob(name)
    tear(victim, how)
    report = KillReport()
    check(folder, report)
    assert report.problems == []
    with open_store(config_for(folder)) as store:
        assert store.counts().live == MEMORIES
        find(store)
        assert store.index.disagreement() == ""
        assert store.index.name == "Chroma"


def tear(victim: Path, how: str) -> None:
    size = victim.stat().st_size
    if how == "deleted":
        victim.unlink()
    elif how == "truncated":
        os.truncate(victim, size // 2)
    elif how == "garbled":
        middle = victim.read_bytes()
        victim.write_bytes(middle[: size // 3] + os.urandom(size // 3) + middle[2 * (size // 3) :])
    else:
        os.truncate(victim, 1 << 40)  # sparse: what a torn rewrite left in the wild


def test_a_folder_from_another_store_is_left_alone_and_nothing_is_lost(
    whole: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "mixed"
    shutil.copytree(whole, folder)
    shutil.rmtree(folder / "data" / "chroma")
    with open_store(config_for(tmp_path / "other")) as other:
        other.add(a_memory("Somebody else sails."))
        other.index.rebuild()
    shutil.copytree(tmp_path / "other" / "data" / "chroma", folder / "data" / "chroma")
    report = KillReport()
    check(folder, report)
    assert report.problems == []


def test_an_older_copy_of_the_folder_is_seen_and_made_again(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "older"
    shutil.copytree(whole, folder)
    data = folder / "data"
    shutil.copytree(data / "chroma", tmp_path / "kept")
    with open_store(config_for(folder)) as store:
        store.add(a_memory("Mia planted a lemon tree."))
        store.index.rebuild()
    shutil.rmtree(data / "chroma")
    shutil.copytree(tmp_path / "kept", data / "chroma")
    report = KillReport()
    check(folder, report)
    assert report.problems == []
    assert report.holes == 0

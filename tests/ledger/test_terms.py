"""The terms of the ledger are those of its live memories, whatever happened to these."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.ledger import Ledger
from memory.ledger.search_data import fill_terms
from memory.models import Action, Decision, Memory, Outcome, Survivor
from memory.store import MemoryStore
from memory.text import search_terms
from tests.conftest import MakeMemory
from tests.doubles import PlacedEmbedder, under
from tests.ledger import version_8

TABLES = (t.postings, t.term_lists, t.term_totals)


@pytest.fixture
def ledger(empty_url: str) -> Iterator[Ledger]:
    """Each test runs on SQLite and on PostgreSQL."""
    with Ledger.create(empty_url) as opened:
        yield opened


def held(url: str) -> list[list[Any]]:
    """What the tables say, the entries of a block in whatever order."""
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        found = [[tuple(row) for row in connection.execute(sa.select(table))] for table in TABLES]
    engine.dispose()
    postings = [(*key, sorted(np.frombuffer(one, "<u4"))) for *key, one in found[0]]
    return [sorted(rows) for rows in (postings, *found[1:])]


def filled_anew(url: str) -> list[list[Any]]:
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for table in TABLES:
            connection.execute(table.delete())
        fill_terms(connection)
    engine.dispose()
    return held(url)


def test_whatever_is_written_the_terms_are_those_of_the_live_memories(
    store: MemoryStore, empty_url: str
) -> None:
    rng = random.Random(5)
    words = "sail row boat cat tea 東京 散歩 Porto 7".split()
    texts = [" ".join(rng.choices(words, k=3)) for _ in range(50)]
    undoable = list[int]()
    for _ in range(60):
        text = rng.choice(texts)
        live = list(store.memories())
        one = rng.choice(live) if live else None
        what = rng.choice(["add", "add", "update", "replace", "forget", "undo"])
        if what == "add" or one is None:
            store.add(store.new_memory(text, user=rng.choice(["Mia", "Jonas", None])))
        elif what == "update":
            store.update(one.id, text)
        elif what == "forget":
            store.forget(one.id)
        elif what == "undo" and undoable:
            store.undo(undoable.pop())
        elif what == "replace":
            others = [row for row in live if row.user == one.user and row.id != one.id]
            if others:
                undoable = [replaced(store, one, others[0])]
        if what in ("update", "forget"):
            undoable.clear()
    before = held(empty_url)
    assert before[0]
    assert before == filled_anew(empty_url)


def replaced(store: MemoryStore, kept: Memory, retired: Memory) -> int:
    with store.ledger.reading() as reader:
        since = reader.revision()
    survivor = Survivor(kept, (retired.id,))
    decision = Decision(Action.REPLACE, "test", (retired, kept), (survivor,))
    done = store.apply(under(decision, since))
    assert isinstance(done, Outcome)
    return done.number


def test_postings_say_how_often_and_how_long(ledger: Ledger, make_memory: MakeMemory) -> None:
    texts = [f"Item {n} is red red." if n % 3 else f"Item {n}." for n in range(300)]
    with ledger.writing() as writer:
        writer.memories.insert_all([make_memory(text, user="Mia") for text in texts])
        writer.memories.insert_all([make_memory("Red.", user="Jonas")])
    with ledger.reading() as reader:
        mine = reader.terms.postings(["red"], "Mia", everyone=False)
        every = reader.terms.postings(["red", "nothing"], None, everyone=True)
    assert mine.memories == 300
    assert len(mine.numbers) == len(set(mine.numbers.tolist())) == 200
    assert set(mine.terms.tolist()) == {0}
    assert set(mine.counts.tolist()) == {2}
    assert set(mine.lengths.tolist()) == {4}
    assert (every.memories, np.bincount(every.terms).tolist()) == (301, [201])


def test_an_upgrade_gives_an_older_ledger_its_terms(ledger_url: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(exist_ok=True)
    version_8.put_at(ledger_url)
    Ledger.upgrade(ledger_url, tmp_path / "data")
    before = held(ledger_url)
    assert before[0]
    assert before == filled_anew(ledger_url)


def test_terms_are_those_that_ledgers_hold() -> None:
    """Where this fails, ledgers find nothing by the old terms: see `memory/text/terms.py`."""
    assert search_terms("Mia's two cats were adopted in 2023.") == [
        "mia", "2", "cat", "were", "adopt", "2023",
    ]  # fmt: skip
    assert search_terms("健太は東京でギターを弾く。") == [
        "ギタ", "く", "健", "太", "健太", "東", "京", "東京", "弾",
    ]  # fmt: skip


def test_words_are_read_before_the_transaction(
    tmp_path: Path, embedder: PlacedEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text of 90,000 characters takes 100 ms, in which no other process could write."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    seen: list[str] = []

    def while_others_may_write(text: str) -> list[str]:
        with Ledger.create(url) as other, other.writing() as writer:
            writer.set_meta("other", text)
        seen.append(text)
        return search_terms(text)

    with MemoryStore(Ledger.create(url), embedder) as store:
        monkeypatch.setattr("memory.ledger.search_data.search_terms", while_others_may_write)
        store.add(store.new_memory("Mia rows."))
        store.add_batch([store.new_memory("Mia sails.")])
    assert seen == ["Mia rows.", "Mia sails."]

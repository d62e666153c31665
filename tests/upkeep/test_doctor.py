"""The doctor sees what is wrong, says what to do, and makes again what can be made again."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from memory.assembly import open_store
from memory.config import Config, LLMConfig, MemoryConfig
from memory.errors import LedgerDamaged
from memory.ledger import Ledger
from memory.models import Action, Decision, Outcome, Survivor
from memory.search import EmbeddedChroma
from memory.store import MemoryStore
from memory.upkeep.doctor import examine, mend
from tests.conftest import MakeMemory
from tests.doubles import PlacedEmbedder
from tests.search.vectors import BruteForce

pytestmark = pytest.mark.usefixtures("forked_chroma")


@pytest.fixture
def healthy(store: MemoryStore, make_memory: MakeMemory) -> MemoryStore:
    a = store.add(make_memory("Mia sails."))
    store.add(make_memory("Mia dives."))
    store.update(a.id, "Mia sails far.")
    return store


def spoil(store: MemoryStore, statement: str) -> None:
    """Change the file behind the ledger's back."""
    with sqlite3.connect(store.ledger.name) as raw:
        raw.execute(statement)
    raw.close()


def said(store: MemoryStore) -> str:
    return " | ".join(finding.what for finding in examine(store))


def test_a_healthy_store_has_no_findings(healthy: MemoryStore) -> None:
    assert examine(healthy) == []


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("UPDATE memories SET successor_id = NULL WHERE NOT live", "without a successor"),
        ("UPDATE memories SET successor_id = id WHERE NOT live", "without a successor"),
        ("UPDATE memories SET successor_id = 'mem_0' WHERE NOT live", "without a successor"),
        ("INSERT INTO links SELECT id, 'mem_f', 'related', '', 0.5 FROM memories WHERE NOT live",
         "to retired memories"),
        ("UPDATE memories SET revision = 99", "newer than the newest commit"),
        ("UPDATE memories SET content = 'Mia walks.' WHERE live", "text was altered"),
        ("UPDATE memories SET content = 'm' || substr(content, 2) WHERE live", "text was altered"),
        ("UPDATE vectors SET vector = zeroblob(length(vector))", "of a length other than 1"),
        ("UPDATE vectors SET vector = zeroblob(8) WHERE rowid = 1", "different dimensions"),
        ("DELETE FROM vectors", "without a vector"),
        ("UPDATE decisions SET pending = 1", "for a model"),
    ],
)  # fmt: skip
def test_each_damage_is_named(healthy: MemoryStore, statement: str, finding: str) -> None:
    spoil(healthy, statement)
    assert finding in said(healthy)


def test_two_live_memories_with_one_text_are_for_a_person(
    healthy: MemoryStore, make_memory: MakeMemory
) -> None:
    healthy.add(make_memory("MIA DIVES!"))
    [finding] = examine(healthy)
    assert (finding.kind, finding.remedy) == ("yours", "run `memory-chat --deduplicate-memories`")


def test_memories_whose_text_makes_a_rule_fail_are_counted(
    healthy: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsing = sys.modules["memory.coverage.parse"]
    tokens = parsing.tokens

    def failing(text: str) -> object:
        return tokens(text) if "sails" in text else tokens(text)[99]

    monkeypatch.setattr(parsing, "tokens", failing)
    parsing.parse.cache_clear()
    [finding] = examine(healthy)
    dives = next(one for one in healthy.memories() if "dives" in one.content)
    assert finding.what == f"memories whose text makes a rule fail: 1 ({dives.id})"
    assert finding.kind == "yours"


def test_missing_vectors_are_made_again(healthy: MemoryStore) -> None:
    spoil(healthy, "DELETE FROM vectors")
    mend(healthy)
    assert examine(healthy) == []


@pytest.fixture
def indexed(
    tmp_path: Path, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> Iterator[tuple[MemoryStore, EmbeddedChroma]]:
    """A store on a real Chroma that has copied all."""
    ledger = Ledger.create(f"sqlite:///{tmp_path / 'ledger.db'}")

    chroma = EmbeddedChroma(tmp_path / "chroma")
    with MemoryStore(ledger, embedder, lambda _: chroma, vectors_mb=0) as store:
        store.add_batch([make_memory(f"Mia knows word {n}.") for n in range(5)])
        store.index.rebuild()
        assert examine(store) == []
        yield store, chroma


def test_an_index_that_differs_is_said_and_made_again(
    indexed: tuple[MemoryStore, EmbeddedChroma],
) -> None:
    store, chroma = indexed
    [([first, second, *_], _)] = chroma.pages()
    chroma.remove([first])
    chroma.put(["stray", second], np.eye(2, 64)[::-1].astype(np.float32))
    told = "the index differs from the ledger: 1 missing, 1 surplus, 1 with a different vector"
    assert said(store) == told
    mend(store)
    assert examine(store) == []


def test_an_index_that_is_not_needed_any_more_is_said_and_is_no_damage(
    tmp_path: Path, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    url, index = f"sqlite:///{tmp_path / 'ledger.db'}", BruteForce()
    index.place = str(tmp_path)
    with MemoryStore(Ledger.create(url), embedder, lambda _: index, vectors_mb=0) as store:
        store.add(make_memory("Mia sails."))
        store.index.rebuild()
        assert examine(store) == []
    with MemoryStore(Ledger.create(url), embedder) as store:
        [finding] = examine(store)
    assert finding.what == f"the index in {tmp_path} is not needed any more"
    assert finding.kind == "yours"


def test_a_ledger_that_is_no_database_is_damage_and_says_what_to_do(tmp_path: Path) -> None:
    config = Config(memory=MemoryConfig(data_dir=str(tmp_path)), llm=LLMConfig(provider="offline"))
    open_store(config).close()
    file = tmp_path / "ledger.db"
    file.write_bytes(b"\0" * 100 + file.read_bytes()[100:])
    with pytest.raises(LedgerDamaged, match="memory-dedup store restore"):
        open_store(config)
    shutil.rmtree(tmp_path)


def old_episode(store: MemoryStore, name: str, *held: str) -> None:
    """As a ledger from before episodes had owners brings it along."""
    told = "'2026-01-01T00:00:00+00:00'"
    spoil(
        store,
        "INSERT INTO episodes (id, summary, start_time, end_time, importance) "
        f"VALUES ('{name}', 'Mia met her doctor.', {told}, {told}, 3)",
    )
    for position, one in enumerate(held):
        spoil(store, f"INSERT INTO episode_memories VALUES ('{name}', '{one}', {position})")


def test_an_old_episode_that_tells_of_forgotten_memories_is_found_and_loses_its_summary(
    healthy: MemoryStore, make_memory: MakeMemory
) -> None:
    kept, gone = healthy.add(make_memory("Mia rests.")), healthy.add(make_memory("Mia sings."))
    healthy.forget(gone.id)
    old_episode(healthy, "ep_000000000001", kept.id, gone.id)
    old_episode(healthy, "ep_000000000002")
    old_episode(healthy, "ep_000000000003", kept.id)
    [finding] = examine(healthy)
    assert finding.kind == "mendable"
    assert finding.what == (
        "episodes whose summary may tell of forgotten memories: 2 "
        "(ep_000000000001, ep_000000000002)"
    )
    assert finding.remedy == "run `memory-dedup doctor --fix` to drop their summaries"
    mend(healthy)
    assert examine(healthy) == []
    with healthy.ledger.reading() as reader:
        left = [reader.episodes.get(f"ep_00000000000{n}") for n in (1, 2, 3)]
    summaries = [episode and episode.summary for episode in left]
    assert summaries == ["(forgotten)", "(forgotten)", "Mia met her doctor."]


def test_an_episode_whose_memory_went_with_an_undone_merge_is_nothing_to_mend(
    healthy: MemoryStore, make_memory: MakeMemory
) -> None:
    a, b = healthy.add(make_memory("Mia rests.")), healthy.add(make_memory("Mia sings."))
    made = b.model_copy(update={"id": healthy.new_id(), "content": "Mia rests and sings."})
    decision = Decision(Action.MERGE, "test", (a, b), (Survivor(made, (a.id, b.id)),))
    done = healthy.apply(decision)
    assert isinstance(done, Outcome)
    old_episode(healthy, "ep_000000000001", made.id)
    healthy.undo(done.number)
    assert examine(healthy) == []

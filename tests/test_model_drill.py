"""While the model fails in every way it can, no memory is lost and no failure is silent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from benchmarks.model_drill import (
    DOWN,
    FAULTS,
    Embedder,
    Report,
    Witness,
    drill,
    lost,
    unexplained,
)
from memory.deduplicator import MemoryDeduplicator
from memory.errors import ModelError
from memory.ledger import Ledger
from memory.models import Memory
from memory.store import MemoryStore
from tests.doubles import START, ScriptedModel

pytestmark = pytest.mark.drill

ROOT = Path(__file__).parent.parent
WRITES = 400


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return drill(WRITES, 1, tmp_path_factory.mktemp("drill"), settle=True)


def test_nothing_is_lost_and_every_failure_is_explained(report: Report) -> None:
    assert (report.writes, report.lost, report.unexplained) == (WRITES, 0, 0)


def test_the_model_failed_in_every_way_and_many_writes_needed_it(report: Report) -> None:
    assert set(report.faults) == set(FAULTS) > set(DOWN)
    assert report.asked > WRITES / 3
    assert report.pending > len(FAULTS)


def test_the_ledger_tells_each_kind_of_failure_apart(report: Report) -> None:
    reasons = " ".join(report.reasons)
    for told in ("not asked", "cut off", "blocked", "malformed", "connection", "answered"):
        assert told in reasons
    assert sum(report.reasons.values()) == report.pending


def test_a_batch_on_a_model_that_works_again_settles_what_stayed_open(report: Report) -> None:
    assert report.undecided > 0
    assert (report.undecided_after, report.lost_after) == (0, 0)


# --- the drill sees what it looks for -------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    with MemoryStore(Ledger.create(f"sqlite:///{tmp_path / 'l.db'}"), Embedder()) as opened:
        yield opened


def memory(text: str, minute: int) -> Memory:
    return Memory(content=text, user="Mia", timestamp=START + timedelta(minutes=minute))


def test_a_memory_never_stored_or_wrongly_replaced_counts_as_lost(
    store: MemoryStore,
) -> None:
    kept, replaced, never = (memory(f"Mia keeps {n} balan.", n) for n in (3, 4, 5))
    store.add_batch([kept, replaced])
    with store.ledger.writing() as writer:
        writer.memories.retire([(replaced.id, kept.id)])
    assert lost(store, [kept, replaced, never]) == [replaced.content, never.content]


def test_a_failure_that_the_ledger_does_not_tell_is_seen(store: MemoryStore) -> None:
    witness = Witness(ScriptedModel(ModelError("answered 403")))
    deduplicator = MemoryDeduplicator(store, witness)
    told = [memory("Mia keeps 3 big balan.", 1), memory("Mia keeps 4 old balan.", 2)]
    asyncio.run(deduplicator.check_and_merge_all(told))
    assert unexplained(store, witness) == []
    [members] = witness.ended
    witness.ended[members] = "another reason"
    assert unexplained(store, witness) == [members]
    witness.ended = {members: "", tuple(reversed(members)): ""}
    assert unexplained(store, witness) == [tuple(reversed(members))]

"""One at a time extracts a conversation: who is dead or late has lost it, and stores nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from memory.deduplicator import MemoryDeduplicator
from memory.errors import LeaseLost
from memory.extractor.extractor import MemoryExtractor, leased
from memory.ledger import AdaptiveBatchSize, Lease, Ledger
from memory.models import Candidate, Extraction, Turn
from memory.store import MemoryStore
from tests.doubles import START, ScriptedModel

MINE, THEIRS = Lease("c", "mine"), Lease("c", "theirs")


@pytest.fixture
def shared(empty_url: str) -> Iterator[Ledger]:
    """A ledger that several processes could share, on each database in turn."""
    with Ledger.create(empty_url) as opened:
        yield opened


def claim(ledger: Ledger, lease: Lease, seconds: float) -> bool:
    with ledger.writing() as writer:
        return writer.leases.claim(lease, seconds)


def held(ledger: Ledger, lease: Lease) -> bool:
    try:
        with ledger.reading() as reader:
            reader.leases.check(lease)
    except LeaseLost:
        return False
    return True


def ends_at(ledger: Ledger, lease: Lease) -> float:
    query = sa.text("SELECT expires_at FROM leases WHERE token = :token")
    with ledger.database.reading() as connection:
        return float(connection.scalar(query, {"token": lease.token}) or 0.0)


def test_a_lease_is_held_by_one_until_it_runs_out(shared: Ledger) -> None:
    assert claim(shared, MINE, 60.0)
    assert not claim(shared, THEIRS, 60.0)
    assert (held(shared, MINE), held(shared, THEIRS)) == (True, False)


def test_a_lease_that_has_run_out_holds_until_another_claims_it(shared: Ledger) -> None:
    assert claim(shared, MINE, 0.0)
    assert held(shared, MINE)
    assert claim(shared, THEIRS, 60.0)
    assert not held(shared, MINE)


def test_a_lease_is_renewed_from_now_on_and_a_lost_one_is_not(shared: Ledger) -> None:
    claim(shared, MINE, 0.0)
    with shared.writing() as writer:
        writer.leases.renew(MINE, 60.0)
    assert not claim(shared, THEIRS, 60.0)
    with pytest.raises(LeaseLost), shared.writing() as writer:
        writer.leases.renew(THEIRS, 60.0)


def test_giving_back_a_lost_lease_takes_it_from_nobody(shared: Ledger) -> None:
    claim(shared, THEIRS, 60.0)
    with shared.writing() as writer:
        writer.leases.release(MINE)
    assert held(shared, THEIRS)


def test_a_lease_of_a_clock_that_was_set_back_is_held_by_nobody(shared: Ledger) -> None:
    claim(shared, MINE, 86_400.0)
    assert claim(shared, THEIRS, 60.0)
    assert not held(shared, MINE)


def test_a_second_holder_gets_no_lease_until_the_first_gives_it_back(shared: Ledger) -> None:
    async def taken() -> bool:
        async with leased(shared, "c") as lease:
            return lease is not None

    async def work() -> tuple[bool, bool]:
        async with leased(shared, "c"):
            meanwhile = await taken()
        return meanwhile, await taken()

    assert asyncio.run(work()) == (False, True)


def test_a_lease_is_renewed_while_the_event_loop_is_held(shared: Ledger) -> None:
    async def work() -> None:
        async with leased(shared, "c", 0.3) as lease:
            assert lease is not None
            until = ends_at(shared, lease)
            ended = time.monotonic() + 60.0
            while ends_at(shared, lease) <= until:
                assert time.monotonic() < ended
                time.sleep(0.05)

    asyncio.run(work())


class Robbed(ScriptedModel):
    """While it answers, another process takes the conversation over."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger

    async def extract(self, turns: Sequence[Turn], **_: Any) -> Extraction:
        with self._ledger.writing() as writer:
            writer.leases.free("c")
            writer.leases.claim(THEIRS, 3_600.0)
        return Extraction(candidates=(Candidate(content="Mia sails.", turns=(0,)),))


class RobbedLater(ScriptedModel):
    """Finds two things; when the first is stored, another process takes the conversation over."""

    async def extract(self, turns: Sequence[Turn], **_: Any) -> Extraction:
        found = [
            Candidate(content=text, turns=(0,)) for text in ("Mia sails.", "Jonas bakes bread.")
        ]
        return Extraction(candidates=tuple(found))


SAID = Turn(speaker="Mia", text="I sail, Jonas bakes.", at=START, id="1", conversation="c")


def work_at(extractor: MemoryExtractor) -> None:
    async def work() -> None:
        await extractor.keep([SAID])
        assert await extractor.extract_conversation("c") is None, "another does, by now"

    asyncio.run(work())


def test_a_late_finisher_that_lost_its_lease_stores_nothing(
    ledger: Ledger, store: MemoryStore
) -> None:
    model = Robbed(ledger)
    work_at(MemoryExtractor(store, MemoryDeduplicator(store, model), model))
    assert list(store.memories()) == []
    with ledger.reading() as reader:
        [waiting] = reader.turns.waiting()
    assert waiting.candidates is None
    assert held(ledger, THEIRS)


def test_a_lease_that_is_lost_between_two_memories_stops_the_second(
    ledger: Ledger, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, store.pace = RobbedLater(), AdaptiveBatchSize(first=1)
    write = store.write

    def then_robbed(*args: Any, **rest: Any) -> Any:
        done = write(*args, **rest)
        with ledger.writing() as writer:
            writer.leases.free("c")
        return done

    monkeypatch.setattr(store, "write", then_robbed)
    work_at(MemoryExtractor(store, MemoryDeduplicator(store, model), model))
    assert [memory.content for memory in store.memories()] == ["Mia sails."]
    with ledger.reading() as reader:
        assert len(reader.turns.waiting()) == 1

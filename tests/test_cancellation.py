"""Whoever stops waiting leaves nothing half done, and may write the same memory again, once."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable
from datetime import datetime

import pytest

from memory.deduplicator import MemoryDeduplicator
from memory.ledger import Ledger
from memory.models import Action, Memory, MergeGroup, Verdict
from memory.runtime import in_thread
from memory.store import MemoryStore
from tests.conftest import MakeMemory
from tests.doubles import HangingModel, PlacedEmbedder, ScriptedModel, living_for, ticking

CAT, BLACK, BOTH = "Mia has a cat.", "Mia has a black.", "Mia has a black cat."
MERGED = Verdict(parts=(MergeGroup(members=(0, 1), text=BOTH),))


class Gate:
    """A clock that can be stopped; the store reads it inside of its transaction.

    `free`: how many readings go before the one that is stopped, such as those for what expires.
    """

    def __init__(self) -> None:
        self.free = 0
        self.reached = threading.Event()
        self.let_go = threading.Event()
        self.let_go.set()
        self._read = ticking()

    def __call__(self) -> datetime:
        if not self.let_go.is_set() and self.free:
            self.free -= 1
        else:
            self.reached.set()
            assert self.let_go.wait(30)
        return self._read()


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def store(ledger: Ledger, embedder: PlacedEmbedder, gate: Gate) -> MemoryStore:
    embedder.place(CAT)
    embedder.place(BLACK, 0.92, CAT)
    embedder.place(BOTH, 0.93, CAT)
    return MemoryStore(ledger, embedder, clock=gate)


def rows(store: MemoryStore) -> dict[str, bool]:
    """Every text in the ledger, and whether it is live; each row once."""
    with store.ledger.reading() as reader:
        found = [(row.memory.content, row.live) for row in reader.memories.all()]
    assert len(found) == len(dict(found))
    return dict(found)


def test_a_second_cancellation_too_waits_for_the_thread() -> None:
    started, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    async def work() -> None:
        def slow() -> None:
            started.set()
            assert may_end.wait(20)
            ended.set()

        task = asyncio.create_task(in_thread(slow))
        assert await asyncio.to_thread(started.wait, 20)
        for _ in range(3):
            task.cancel()
            await asyncio.wait([task], timeout=0.001)  # the task sees the cancellation
            assert not task.done()
        may_end.set()
        await asyncio.wait([task])
        assert (task.cancelled(), ended.is_set()) == (True, True)

    asyncio.run(work())


async def cancelled(work: Awaitable[Memory], when: Callable[[], Awaitable[None]]) -> None:
    """Start the work, and cancel it at that moment."""
    task = asyncio.ensure_future(work)
    await when()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_cancelled_while_the_model_hangs_nothing_is_stored_and_it_can_be_written_again(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    model = HangingModel(MERGED)
    deduplicator = MemoryDeduplicator(store, model)
    old, new = make_memory(CAT), make_memory(BLACK)
    store.add(old)

    async def run() -> Memory:
        await cancelled(deduplicator.check_and_merge(new), model.reached)
        assert rows(store) == {CAT: True}
        assert store.history() == []
        model.hangs = False
        return await deduplicator.check_and_merge(new)

    merged = asyncio.run(run())
    assert rows(store) == {CAT: False, BLACK: False, BOTH: True}
    assert [living_for(store, one) for one in (old, new)] == [merged, merged]
    assert [decision.action for decision in store.history()] == [Action.MERGE]


def test_cancelled_while_the_store_applies_it_ends_when_the_store_has_and_is_known_then(
    store: MemoryStore, gate: Gate, make_memory: MakeMemory
) -> None:
    deduplicator = MemoryDeduplicator(store, ScriptedModel(MERGED))
    store.add(make_memory(CAT))
    new = make_memory(BLACK)
    gate.reached.clear()
    gate.let_go.clear()
    gate.free = 1

    async def inside() -> None:
        assert await asyncio.to_thread(gate.reached.wait, 30)
        asyncio.get_running_loop().call_later(0.05, gate.let_go.set)

    async def run() -> Memory:
        await cancelled(deduplicator.check_and_merge(new), inside)
        assert gate.let_go.is_set(), "it did not end before the store had"
        assert rows(store) == {CAT: False, BLACK: False, BOTH: True}
        return await deduplicator.check_and_merge(new)

    assert asyncio.run(run()).content == BOTH
    assert rows(store) == {CAT: False, BLACK: False, BOTH: True}
    assert [decision.action for decision in store.history()] == [Action.MERGE]


def test_a_batch_cancelled_while_the_model_hangs_changes_nothing_and_the_next_one_does_it(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    model = HangingModel(MERGED)
    deduplicator = MemoryDeduplicator(store, model)
    store.add_batch([make_memory(CAT), make_memory(BLACK)])

    async def run() -> None:
        batch = asyncio.create_task(deduplicator.deduplicate_all())
        await model.reached()
        batch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await batch
        assert rows(store) == {CAT: True, BLACK: True}
        model.hangs = False
        await deduplicator.deduplicate_all()

    asyncio.run(run())
    assert rows(store) == {CAT: False, BLACK: False, BOTH: True}


@pytest.mark.parametrize("seed", range(8))
def test_cancelled_at_any_moment_each_memory_is_written_wholly_or_not_at_all_and_then_once(
    store: MemoryStore, make_memory: MakeMemory, seed: int
) -> None:
    """Several cancelled in a row, each then written again by somebody more patient."""
    draw = random.Random(seed)
    told = [make_memory(text, user=f"user {n}") for n in range(6) for text in (CAT, BLACK)]
    deduplicator = MemoryDeduplicator(store, ScriptedModel(*[MERGED] * 12))
    stopped: list[bool] = []

    async def one(new: Memory) -> None:
        task = asyncio.create_task(deduplicator.check_and_merge(new))
        await asyncio.sleep(draw.uniform(0.0, 0.015) * (len(stopped) % 3))  # each third at once
        stopped.append(task.cancel())
        await asyncio.wait([task])
        before = living_for(store, new)
        alive = await deduplicator.check_and_merge(new)
        assert before is None or before == alive

    async def run() -> None:
        for new in told:
            await one(new)

    asyncio.run(run())
    assert any(stopped)
    assert [memory.content for memory in store.memories()] == [BOTH] * 6
    assert store.counts().retired == 12
    assert store.counts().decisions == {"add": 6, "merge": 6}

"""Pages are read in the background of an open chat memory, never in the way of a write."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from memory.config import MemoryConfig
from memory.deduplicator import MemoryDeduplicator
from memory.errors import ModelUnavailable
from memory.extractor import ChatMemory, MemoryExtractor
from memory.ledger import Lease
from memory.models import Action, DeduplicationReport, Memory, Question, Verdict
from memory.store import MemoryStore
from tests.conftest import MakeMemory
from tests.doubles import START, Groups, PageModel, PlacedEmbedder

DUE = 24


def boats(texts: list[str]) -> Groups:
    """Group the texts that name the same boat."""
    named: dict[str, list[int]] = {}
    for n, text in enumerate(texts):
        named.setdefault(text.split()[1], []).append(n)
    return [
        (members, f"The {name} is red and fast.")
        for name, members in named.items()
        if len(members) > 1
    ]


def told(n: int) -> str:
    return f"The boat{n // 2} {'is red' if n % 2 else 'is fast'}."


class Slow(PageModel):
    """A model that answers a page only after `may_answer` is set."""

    def __init__(self) -> None:
        super().__init__(boats)
        self.may_answer = False

    async def judge(self, question: Question) -> Verdict:
        while not self.may_answer:
            await asyncio.sleep(0.01)
        return await super().judge(question)


def chat(
    store: MemoryStore,
    model: PageModel,
    work: Callable[[ChatMemory], Awaitable[None]],
    **settings: object,
) -> list[DeduplicationReport]:
    """Do some work with an open chat memory; return the reports of its readings."""
    reports: list[DeduplicationReport] = []
    config = MemoryConfig.model_validate(settings)
    deduplicator = MemoryDeduplicator(store, model, config=config)

    async def run() -> None:
        async with ChatMemory(
            store,
            MemoryExtractor(store, deduplicator, model),
            deduplicator,
            background_pages=config.background_pages,
            on_pages=reports.append,
        ) as memory:
            await work(memory)

    asyncio.run(run())
    return reports


async def write(memory: ChatMemory, count: int, user: str = "Mia") -> None:
    for n in range(count):
        await memory.remember(told(n), user=user)


def name_of_lease(store: MemoryStore) -> str:
    return f"pages of {store.scope_of(Memory(content='Hi.', user='Mia', timestamp=START)).key}"


async def idle(memory: ChatMemory) -> None:
    async with asyncio.timeout(20):
        while await memory.reads_pages():
            await asyncio.sleep(0.01)


def test_a_page_is_read_when_24_memories_are_unread_and_what_is_left_when_the_chat_settles(
    store: MemoryStore,
) -> None:
    model = PageModel(boats)

    async def work(memory: ChatMemory) -> None:
        await write(memory, DUE - 1)
        await idle(memory)
        assert not model.asked
        await memory.remember(told(DUE - 1), user="Mia")
        await idle(memory)
        assert [len(page) for page in model.pages] == [DUE]
        await memory.remember("The boat3 is old.", user="Mia")
        await idle(memory)
        assert len(model.asked) == 1
        await memory.settle()
        assert len(model.asked) == 2

    first, second = chat(store, model, work)
    assert (first.merged, second.retired) == (DUE // 2, 1)
    assert store.counts().live == DUE // 2
    assert len(store.undo(second.run)) == 1
    with store.ledger.reading() as reader:
        assert not reader.leases.is_held(name_of_lease(store), 15.0)


def test_a_write_does_not_wait_for_a_page_and_neither_does_close(store: MemoryStore) -> None:
    model = Slow()

    async def work(memory: ChatMemory) -> None:
        await write(memory, DUE)
        assert await memory.reads_pages()
        done = await memory.remember("The boat0 floats.", user="Mia")
        assert done.action is Action.ADD

    assert chat(store, model, work) == []
    assert store.counts().live == DUE + 1
    model.may_answer = True

    async def settle(memory: ChatMemory) -> None:
        await memory.remember("The boat1 floats.", user="Mia")
        await memory.settle()

    [report] = chat(store, model, settle)
    assert report.merged == DUE // 2, "what was cut off is read with the next"


@pytest.mark.parametrize(
    "settings", [{"background_pages": False}, {"dedup_calls_per_hour": 0}, {"dedup_enabled": False}]
)
def test_pages_can_be_switched_off(store: MemoryStore, settings: dict[str, object]) -> None:
    model = PageModel(boats)

    async def work(memory: ChatMemory) -> None:
        await write(memory, DUE)
        await memory.settle()

    assert chat(store, model, work, **settings) == []
    assert (model.asked, store.counts().live) == ([], DUE)


def test_private_memories_are_read_only_if_the_setting_says_so(store: MemoryStore) -> None:
    model = PageModel(boats)

    async def work(memory: ChatMemory) -> None:
        for n in range(DUE):
            await memory.remember(told(n), user="Mia", is_private=True)
        await memory.settle()

    assert chat(store, model, work) == []
    [report] = chat(store, model, lambda memory: write_private(memory), read_private=True)
    assert report.merged == DUE // 2


async def write_private(memory: ChatMemory) -> None:
    await memory.remember("The boat99 is new.", user="Mia", is_private=True)
    await memory.settle()


def test_another_process_that_reads_a_user_is_left_alone(store: MemoryStore) -> None:
    model = PageModel(boats)
    lease = Lease(name_of_lease(store), "theirs")
    with store.ledger.writing() as writer:
        assert writer.leases.claim(lease, 15.0)

    async def work(memory: ChatMemory) -> None:
        await write(memory, DUE)
        await memory.settle()
        await write(memory, DUE, "Leo")
        await memory.settle()

    users = [{group.user for group in report.groups} for report in chat(store, model, work)]
    assert users == [{"Leo"}]


def test_a_model_that_fails_is_left_alone_and_nothing_is_lost(store: MemoryStore) -> None:
    class Down(PageModel):
        async def judge(self, question: Question) -> Verdict:
            self.asked.append(question)
            raise ModelUnavailable("503")

    model = Down(boats)

    async def work(memory: ChatMemory) -> None:
        await write(memory, DUE)
        await memory.settle()
        asked = len(model.asked)
        await memory.remember("The boat0 floats.", user="Mia")
        await idle(memory)
        assert len(model.asked) == asked == 1

    assert chat(store, model, work) == []
    assert store.counts().live == DUE + 1


def test_an_imported_store_waits_for_a_batch(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    old = [
        embedder.place_at(f"The ship{n} is old.", [0.0] * 40 + [n % 7 - 3.5, n // 7 - 5.5])
        for n in range(80)
    ]
    store.add_batch([make_memory(text, user="Mia") for text in old])
    model = PageModel(boats)

    async def work(memory: ChatMemory) -> None:
        await write(memory, DUE)
        await memory.settle()

    [report] = chat(store, model, work)
    assert report.merged == DUE // 2
    with store.ledger.reading() as reader:
        left = reader.readings.count_unread(model.name, private=False)
    assert left == len(old) - (48 - DUE)
    forecast = MemoryDeduplicator(store, model).forecast()
    assert 2 <= forecast.calls <= 8


def test_what_was_written_while_another_scope_was_read_is_read_too(
    store: MemoryStore, embedder: PlacedEmbedder
) -> None:
    """More than a page of memories may come while the model answers: none stays unread."""
    model = Slow()
    for n in range(DUE + 100):
        embedder.place_at(told(n), [(n >> bit & 1) - 0.5 for bit in range(7)])

    async def work(memory: ChatMemory) -> None:
        for n in range(DUE + 100):
            await memory.remember(told(n), user="Mia" if n < DUE else "Rex")
        model.may_answer = True
        await memory.settle()

    chat(store, model, work, dedup_calls_per_hour=100)

    with store.ledger.reading() as reader:
        read = {text for _, text in reader.readings.all(model.name)}
        assert [
            row.memory.content for row in reader.memories.live() if row.dated_key not in read
        ] == []

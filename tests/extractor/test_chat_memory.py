"""A bot's turns are durable at once, and each becomes memories once, whoever lives to do it."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from memory import Config, open_chat_memory, open_store
from memory.assembly import build_extractor, build_model
from memory.config import LLMConfig, MemoryConfig
from memory.errors import InputError, LedgerError
from memory.models import Turn
from memory.store import forget_user
from tests import servers
from tests.gemini_server import Asked, GeminiServer, said
from tests.live_bot import START
from tests.live_bot import said as turn
from tests.loopback import Raw

ROOT = Path(__file__).parent.parent


def found(asked: Asked) -> dict[str, Any]:
    """What a model finds in each turn: that its speaker owns the item that it names."""
    turns = asked.data["turns"]
    rows = [
        {"content": f"{one['speaker']} owns {one['text'][6:]}", "turns": [one["number"]]}
        for one in turns
    ]
    return said(json.dumps({"memories": rows}))


class SlowGemini:
    """Answers extraction after a while, and knows how often each turn was asked about."""

    def __init__(self, server: GeminiServer, latency_s: float) -> None:
        self.server = server
        self.latency_s = latency_s
        server.default = self.answer

    def answer(self, asked: Asked) -> Raw:
        body = json.dumps(found(asked)).encode()
        return Raw(200, body, {"content-type": "application/json"}, hang_s=self.latency_s)

    def texts(self) -> list[str]:
        return [one["text"] for asked in self.server.asked for one in asked.data["turns"]]


@pytest.fixture
def gemini() -> Iterator[GeminiServer]:
    with GeminiServer().running() as server:
        yield server


def settings(folder: Path, gemini: GeminiServer, **memory: Any) -> Config:
    kept = MemoryConfig(data_dir=str(folder), dedup_enabled=False, **memory)
    config = Config(memory=kept, llm=LLMConfig(base_url=gemini.url, budget_s=20.0))
    return config.model_copy(update={"api_key": _SECRET})


_SECRET = SecretStr("secret-key")


def items(config: Config) -> list[str]:
    with open_store(config) as store:
        return sorted(memory.content for memory in store.memories())


def owned(numbers: range) -> list[str]:
    return sorted(f"Mia owns item number {n}." for n in numbers)


def bot(folder: Path, gemini: GeminiServer, *args: str) -> subprocess.Popen[str]:
    env = os.environ | {"GEMINI_URL": gemini.url, "GEMINI_API_KEY": "secret-key"}
    env |= {"PYTHONPATH": str(ROOT), "MEMORY_DEDUP_ENABLED": "false"}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.live_bot", str(folder), *args],
        cwd=folder, env=env, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.drill
def test_a_turn_that_was_heard_survives_a_kill_and_is_extracted_once(
    tmp_path: Path, gemini: GeminiServer
) -> None:
    slow = SlowGemini(gemini, latency_s=30.0)
    with bot(tmp_path, gemini, "hang", "0", "20") as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "heard\n"
        first.kill()
    slow.latency_s = 0.0
    second = bot(tmp_path, gemini, "settle", "0", "0")
    said_last, _ = second.communicate(timeout=60)
    assert said_last.splitlines()[-1] == "20 0"
    assert items(settings(tmp_path, gemini)) == owned(range(20))


@pytest.mark.drill
def test_two_processes_share_a_ledger_and_extract_each_turn_once(
    tmp_path: Path, gemini: GeminiServer
) -> None:
    slow = SlowGemini(gemini, latency_s=0.3)
    both = [bot(tmp_path, gemini, "settle", *ends) for ends in (("0", "10"), ("10", "20"))]
    told = [one.communicate(timeout=60)[0].splitlines()[-1].split() for one in both]
    assert sum(int(extracted) for extracted, _ in told) == 20
    assert [pending for _, pending in told] == ["0", "0"]
    assert sorted(slow.texts()) == sorted(turn(n).text for n in range(20))
    assert items(settings(tmp_path, gemini)) == owned(range(20))


def test_whoever_stops_waiting_loses_nothing(tmp_path: Path, gemini: GeminiServer) -> None:
    SlowGemini(gemini, latency_s=0.5)
    config = settings(tmp_path, gemini)

    async def impatient() -> None:
        with open_store(config) as store:
            hook = build_extractor(store, config, build_model(config))
            calls = [hook.extract_and_store([turn(n)]) for n in range(20)]
            waited = [asyncio.wait_for(one, 0.7) for one in calls]
            await asyncio.gather(*waited, return_exceptions=True)
            await hook.extract_and_store()

    asyncio.run(impatient())
    assert items(config) == owned(range(20))


@pytest.mark.parametrize("by", ["hook", "chat memory"])
def test_six_threads_with_a_loop_each_store_all(
    tmp_path: Path, gemini: GeminiServer, by: str
) -> None:
    SlowGemini(gemini, latency_s=0.05)
    config = settings(tmp_path, gemini)
    with open_store(config) as store:
        hook = build_extractor(store, config, build_model(config))
        memory = open_chat_memory(config)

        async def hear(n: int) -> None:
            one = turn(n, f"c{n % 6}")
            await (memory.hear(one) if by == "chat memory" else hook.extract_and_store([one]))

        def work(first: int) -> None:
            for n in range(first, first + 5):
                asyncio.run(hear(n))

        threads = [threading.Thread(target=work, args=(5 * k,)) for k in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        asyncio.run(memory.settle())
        asyncio.run(memory.close())
    assert items(config) == owned(range(30))


def test_interleaved_conversations_are_extracted_ten_turns_at_a_time(
    tmp_path: Path, gemini: GeminiServer
) -> None:
    slow = SlowGemini(gemini, latency_s=0.0)
    config = settings(tmp_path, gemini)

    async def busy() -> None:
        async with open_chat_memory(config) as memory:
            for n in range(60):
                await memory.hear(turn(n, f"c{n % 6}"))
            result = await memory.settle()
            assert (result.extracted, result.pending, result.problem) == (60, 0, "")

    asyncio.run(busy())
    assert len(slow.server.asked) == 6
    assert items(config) == owned(range(60))


def test_turns_wait_for_more_unless_there_are_ten(tmp_path: Path, gemini: GeminiServer) -> None:
    slow = SlowGemini(gemini, latency_s=0.0)
    config = settings(tmp_path, gemini, extraction_wait=3_600.0)
    extracted = threading.Event()

    async def talk() -> None:
        async with open_chat_memory(config) as memory:
            for n in range(9):
                await memory.hear(turn(n, "few"))
            for n in range(10, 20):
                await memory.hear(turn(n, "many"))
            while await memory.waiting() > 9:
                await asyncio.sleep(0.01)
            assert not extracted.is_set()
            assert await memory.waiting() == 9

    asyncio.run(talk())
    assert sorted(slow.texts()) == sorted(turn(n).text for n in range(10, 20))


def test_what_was_extracted_before_is_context_and_what_is_known_goes_in(
    tmp_path: Path, gemini: GeminiServer
) -> None:
    slow = SlowGemini(gemini, latency_s=0.0)
    config = settings(tmp_path, gemini)

    async def talk() -> None:
        async with open_chat_memory(config) as memory:
            for n in range(6):
                await memory.hear(turn(n))
            await memory.settle()
            await memory.hear(turn(6))
            await memory.settle()

    asyncio.run(talk())
    data = slow.server.asked[-1].data
    assert [one["text"] for one in data["said_before"]] == [turn(n).text for n in range(2, 6)]
    assert [one["text"] for one in data["turns"]] == [turn(6).text]
    assert {text for day in data["already_remembered"].values() for _, _, text in day} == set(
        owned(range(6))
    )


def test_a_memory_is_recalled_and_forgotten(tmp_path: Path, gemini: GeminiServer) -> None:
    SlowGemini(gemini, latency_s=0.0)
    config = settings(tmp_path, gemini)

    async def talk() -> None:
        async with open_chat_memory(config) as memory:
            await memory.hear(turn(1))
            await memory.settle()
            [mine] = await memory.recall("item number 1", user="Mia")
            assert await memory.recall("item number 1", user="Jonas") == []
            await memory.forget(mine.id)
            assert await memory.recall("item number 1", user="Mia") == []

    asyncio.run(talk())


def test_explicit_memories_are_deduplicated_listed_and_forgotten_by_user(tmp_path: Path) -> None:
    config = Config(memory=MemoryConfig(data_dir=str(tmp_path)), llm=LLMConfig(provider="offline"))

    async def talk() -> None:
        async with open_chat_memory(config) as memory:
            await memory.remember("Mia has a cat.", user="Mia")
            form = {"from": "form"}
            first = await memory.remember("mia has a cat", user=" Mia", metadata=form)
            newer = await memory.remember("Mia's PIN is 4711.", user="Mia", is_private=True)
            theirs = await memory.remember("Jonas's PIN is 1234.", user="Jonas")
            assert first.metadata == {"from": "form"}
            assert [one.id for one in await memory.list(user="Mia ")] == [newer.id, first.id]
            assert [one.id for one in await memory.list(user="Mia", limit=1)] == [newer.id]
            with pytest.raises(InputError, match="user=NAME"):
                await memory.recall("What is the PIN?")
            everyones = await memory.recall("What is the PIN?", everyone=True)
            assert newer.id not in [one.id for one in everyones]
            assert theirs.id in [one.id for one in everyones]
            with pytest.raises(InputError, match="memory"):
                await memory.remember("  ", user="Mia")
            await memory.hear(Turn(speaker="Mia", text="I sail.", at=START))
            assert (await memory.forget_user("Mia")).memories == 2
            assert await memory.list(user="Mia") == []
            assert await memory.waiting() == 0
            assert [one.id for one in await memory.list(user="Jonas")] == [theirs.id]

    asyncio.run(talk())


def test_the_best_are_recalled_however_low_they_score(tmp_path: Path, gemini: GeminiServer) -> None:
    """The real embedder: a question has little in common with its answer."""
    config = settings(tmp_path, gemini)
    with open_store(config) as store:
        for text in ("Mia lives in Porto.", "Mia bought a red lamp.", "Mia's tabby cat is Pepper."):
            store.add(store.new_memory(text, user="Mia"))

    async def talk() -> None:
        async with open_chat_memory(config) as memory:
            found = await memory.recall("Where do I live?", user="Mia", k=2)
            assert [one.content for one in found][:1] == ["Mia lives in Porto."]
            assert len(found) == 2
            assert found[0].score > found[1].score
            least = (found[0].score + found[1].score) / 2
            above = await memory.recall("Where do I live?", user="Mia", min_score=least)
            assert [one.id for one in above] == [found[0].id]

    asyncio.run(talk())


def test_i_and_my_in_a_question_are_the_user_who_asks(tmp_path: Path, gemini: GeminiServer) -> None:
    config = settings(tmp_path, gemini)
    with open_store(config) as store:
        for name in ("Jonas", "Mia", "Eva", "Tom"):
            store.add(store.new_memory(f"{name} lives by a river.", user="Mia"))

    async def talk() -> None:
        async with open_chat_memory(config) as memory:
            [found] = await memory.recall("Where do I live?", user="Mia", k=1)
            assert found.content == "Mia lives by a river."

    asyncio.run(talk())


def test_a_name_with_space_around_it_is_the_same_user(tmp_path: Path, gemini: GeminiServer) -> None:
    gemini.default = found
    config = settings(tmp_path, gemini)

    async def run() -> None:
        async with open_chat_memory(config) as memory:
            for n, name in enumerate(("Mia", " Mia\t")):
                at = START + timedelta(seconds=n)
                await memory.hear(Turn(speaker=name, text=f"I own item {n}.", at=at))
            await memory.settle()
            for name in ("Mia", "Mia ", "\nMia"):
                recalled = await memory.recall("which item?", user=name)
                assert len(recalled) == 2
                assert {one.user for one in recalled} == {"Mia"}

    asyncio.run(run())
    with open_store(config) as store:
        assert forget_user(store.ledger, store.index, " Mia", START).memories == 2
        assert store.counts().live == 0


@pytest.mark.parametrize("back_s", [86_400.0, 30.0])
def test_a_turn_heard_before_the_clock_was_set_back_is_extracted(
    tmp_path: Path, gemini: GeminiServer, back_s: float
) -> None:
    """Nobody settles: it is due by itself, at the latest after twice the wait."""
    gemini.default = found
    config = settings(tmp_path, gemini, extraction_wait=3_600.0)

    async def hear() -> None:
        async with open_chat_memory(config) as memory:
            await memory.hear(turn(1))

    asyncio.run(hear())
    with open_store(config) as store:
        extractor = build_extractor(store, config, build_model(config))
        with sqlite3.connect(tmp_path / "ledger.db") as database:
            database.execute("UPDATE turns SET heard_at = heard_at + ?", (back_s,))
        [waiting] = asyncio.run(extractor.waiting())
        assert back_s - 60.0 < waiting.waited_s <= back_s
        work = asyncio.run(extractor.extract_conversation("c", wait_s=3_600.0))
        assert work is not None
        assert work.result.extracted == (1 if back_s > 3_600.0 else 0)


def test_what_is_opened_and_closed_again_and_again_leaves_nothing_large_behind(
    tmp_path: Path, gemini: GeminiServer
) -> None:
    """Not even until Python looks for reference cycles, which it seldom does."""
    gemini.default = found
    config = settings(tmp_path, gemini)

    async def talk(n: int) -> None:
        async with open_chat_memory(config) as memory:
            await memory.hear(turn(n))
            await memory.settle()
            assert await memory.recall(f"item number {n}", user="Mia")

    asyncio.run(talk(0))
    gc.collect()
    before = held()
    gc.disable()
    try:
        for n in range(1, 9):
            asyncio.run(talk(n))
        wait_until(lambda: held()["numbers"] == before["numbers"])
        assert len(alive("WordLlamaInference")) == 1, "one for all stores of this process"
    finally:
        gc.enable()
    gc.collect()
    wait_until(lambda: held() == before)


def wait_until(is_so: Callable[[], bool]) -> None:
    """Let threads that are ending end: the model's server on loopback closes its own later."""
    until = time.monotonic() + 10.0
    while not is_so():
        assert time.monotonic() < until, held()
        time.sleep(0.02)


def held() -> dict[str, int]:
    """How many there are of what an open memory holds."""
    kinds = ("MemoryStore", "ChatMemory", "Ledger", "Engine", "LiveVectors")
    return {kind: len(alive(kind)) for kind in kinds} | {
        "numbers": sum(live.numbers for live in alive("LiveVectors")),
        "threads": threading.active_count(),
        "files": len(list(Path("/proc/self/fd").iterdir())),
    }


def alive(kind: str) -> list[Any]:
    """The objects of a class of this name that Python still holds."""
    return [one for one in gc.get_objects() if type(one).__name__ == kind]


def test_it_is_closed_once_from_any_loop_and_then_hears_nothing(
    tmp_path: Path, gemini: GeminiServer
) -> None:
    memory = open_chat_memory(settings(tmp_path, gemini))
    asyncio.run(memory.close())
    asyncio.run(memory.close())
    with pytest.raises(LedgerError, match="closed"):
        asyncio.run(memory.hear(turn(1)))


def test_whoever_waits_while_it_is_closed_is_told_what_is_left(
    tmp_path: Path, gemini: GeminiServer
) -> None:
    slow = SlowGemini(gemini, latency_s=30.0)
    memory = open_chat_memory(settings(tmp_path, gemini))

    async def talk() -> int:
        await memory.hear(turn(0))
        settling = asyncio.create_task(memory.settle())
        while not slow.server.asked:
            await asyncio.sleep(0.01)
        await memory.close()
        return (await settling).pending

    assert asyncio.run(talk()) == 1


def test_turns_without_an_id_are_known_by_their_time(tmp_path: Path, gemini: GeminiServer) -> None:
    config = settings(tmp_path, gemini, extraction_wait=3_600.0)

    async def talk() -> int:
        async with open_chat_memory(config) as memory:
            for second in (0, 0, 1):
                at = START.replace(second=second)
                await memory.hear(Turn(speaker="Mia", text="Yes, I do.", at=at))
            return await memory.waiting()

    assert asyncio.run(talk()) == 2


@pytest.fixture
def restartable() -> Iterator[tuple[str, Callable[[], None], Callable[[], None]]]:
    """The ledger URL of a PostgreSQL, and how to stop and to start that server."""
    with (
        servers.restartable_postgres() as (server, stop, start),
        servers.postgres_database(server) as url,
    ):
        yield url, stop, start


def test_processes_that_were_idle_while_postgresql_restarted_extract_each_turn_once(
    tmp_path: Path,
    gemini: GeminiServer,
    restartable: tuple[str, Callable[[], None], Callable[[], None]],
) -> None:
    slow = SlowGemini(gemini, latency_s=2.5)  # long enough for the others to look
    url, stop, start = restartable
    config = settings(tmp_path, gemini, ledger_url=url, extraction_wait=0.0)
    memories = [open_chat_memory(config) for _ in range(3)]

    async def talk() -> list[int]:
        stop()
        start()
        for n in range(3):
            await memories[0].hear(turn(n, f"c{n}"))
        results = await asyncio.gather(*(memory.settle() for memory in memories))
        await asyncio.gather(*(memory.close() for memory in memories))
        return [result.pending for result in results]

    assert asyncio.run(talk()) == [0, 0, 0]
    assert sorted(slow.texts()) == sorted(turn(n).text for n in range(3))
    assert items(config) == owned(range(3))


def test_closing_never_raises_while_postgresql_is_away(
    tmp_path: Path,
    gemini: GeminiServer,
    restartable: tuple[str, Callable[[], None], Callable[[], None]],
) -> None:
    slow = SlowGemini(gemini, latency_s=30.0)
    url, stop, start = restartable
    config = settings(tmp_path, gemini, ledger_url=url, extraction_wait=0.0)

    async def talk() -> None:
        idle, busy = open_chat_memory(config), open_chat_memory(config)
        await busy.hear(turn(0))
        while not slow.server.asked:
            await asyncio.sleep(0.01)
        stop()
        try:
            await busy.close()
            await idle.close()
        finally:
            start()

    asyncio.run(talk())
    with open_store(config) as store, store.ledger.reading() as reader:
        assert reader.turns.count_waiting() == 1

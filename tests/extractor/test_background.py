"""Turns are extracted in the background, each once, whoever lives to do it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory import open_chat_memory, open_store
from memory.assembly import build_extractor, build_model
from tests import servers
from tests.extractor.owners import SlowGemini, find_owners, items, owned, settings
from tests.gemini_server import GeminiServer
from tests.live_bot import said as turn

ROOT = Path(__file__).parent.parent.parent


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


def test_a_caller_that_stops_waiting_loses_nothing(tmp_path: Path, gemini: GeminiServer) -> None:
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


@pytest.mark.parametrize("by", [pytest.param("hook", marks=pytest.mark.drill), "chat memory"])
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

    async def talk() -> None:
        async with open_chat_memory(config) as memory:
            for n in range(9):
                await memory.hear(turn(n, "few"))
            for n in range(10, 20):
                await memory.hear(turn(n, "many"))
            while await memory.waiting() > 9:
                await asyncio.sleep(0.01)
            assert await memory.waiting() == 9

    asyncio.run(talk())
    assert sorted(slow.texts()) == sorted(turn(n).text for n in range(10, 20))


def test_the_model_sees_earlier_turns_and_known_memories(
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


@pytest.mark.parametrize("back_s", [86_400.0, 30.0])
def test_a_turn_heard_before_the_clock_was_set_back_is_extracted(
    tmp_path: Path, gemini: GeminiServer, back_s: float
) -> None:
    """Nobody settles: it is due by itself, at the latest after twice the wait."""
    gemini.default = find_owners
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


def test_settling_during_a_close_returns_how_many_turns_are_left(
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


@pytest.fixture
def restartable() -> Iterator[tuple[str, Callable[[], None], Callable[[], None]]]:
    """Yield the ledger URL of a PostgreSQL, and functions that stop and start its server."""
    with (
        servers.restartable_postgres() as (server, stop, start),
        servers.postgres_database(server) as url,
    ):
        yield url, stop, start


@pytest.mark.drill
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

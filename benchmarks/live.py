"""Simulate a busy bot: turns of many users, interleaved, with a slow model.

A local server in place of Gemini answers after `--latency`. The bot hears `--rate` turns per second
in `--users` conversations for `--seconds`. Reported are the turns extracted by then, model calls
per 1,000 turns, how long a turn waited until it was extracted, and how long `hear` took. With
`--rows`, the store holds that many memories before, and `hear` is also timed while they are copied
into Chroma.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import SecretStr

from memory.assembly import build_chat_memory, build_model, open_store
from memory.config import Config, LLMConfig, MemoryConfig
from memory.extractor import ChatMemory
from memory.models import ExtractionResult, Memory, Turn
from memory.store import MemoryStore
from tests.gemini_server import Asked, GeminiServer, said
from tests.loopback import Raw

NAMES = ("Mia", "Jonas", "Aiko", "Tomo", "Runa")
SAID = (
    "I bought a violin in {place}.",
    "I am allergic to walnuts since a holiday in {place}.",
    "I adopted a tabby cat from a shelter in {place}.",
    "I start as a night nurse at the hospital of {place} on Monday.",
    "I broke my left ankle skiing near {place}.",
    "I grew up on a sheep farm outside {place}.",
    "I learned Portuguese from my aunt in {place}.",
    "I want to open a bakery in {place}.",
    "I ran the marathon of {place} in four hours.",
    "I lost my passport at the airport of {place}.",
    "I play chess every Thursday with a judge from {place}.",
    "I painted the kitchen of my flat in {place} green.",
)
PLACES = ("Porto", "Oslo", "Kyoto", "Lima", "Graz", "Tartu", "Perth")


@dataclass(frozen=True)
class Load:
    """The load on the bot: turns per second, users, the model's latency, and so on."""

    rate: float = 4.0
    users: int = 40
    latency_s: float = 1.0
    seconds: float = 60.0
    wait_s: float = 45.0
    rows: int = 0
    """The number of memories in the store that are not in the index yet when the bot begins."""


@dataclass(frozen=True)
class Measured:
    """The figures of a run. A turn's wait ends when its memories are stored."""

    heard: int
    extracted: int
    calls_per_1000_turns: float
    judgements: int
    median_wait_s: float
    longest_wait_s: float
    hear_p50_ms: float
    hear_p99_ms: float
    copying_s: float
    """How long it took to copy the rows into the index."""
    heard_while_copying: int
    hear_p99_while_copying_ms: float | None
    left_at_the_end: int


class Bot:
    """A bot that hears turns, and records when each was heard and when it was extracted."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.heard_at: dict[str, float] = {}
        self.waited: list[float] = []
        self.took: list[tuple[float, float]] = []
        """When each call of `hear` began, and how long it took, in seconds."""
        self.began = self.copied_at = 0.0
        self.calls = 0
        self.judgements = 0
        self._lock = threading.Lock()

    def answer(self, asked: Asked) -> Raw:
        """Answer as the model: one memory for each turn, and no two memories are the same."""
        turns = asked.data.get("turns", [])
        rows = [{"content": _memory(one), "turns": [one["number"]]} for one in turns]
        told = {"memories": rows} if turns else {"groups": []}
        with self._lock:
            self.judgements += not turns
        headers = {"content-type": "application/json"}
        body = json.dumps(said(json.dumps(told))).encode()
        return Raw(200, body, headers, hang_s=self.load.latency_s)

    def stored(self, result: ExtractionResult) -> None:
        """Record that the turns of one extraction were stored."""
        now = time.monotonic()
        self.calls += 1
        for outcome in result.outcomes:
            self.waited.append(now - self.heard_at[str(outcome.memory.metadata["turn"])])

    def watch(self, store: MemoryStore) -> None:
        """Fill the index with the rows while the bot runs, and record when that ends."""
        if self.load.rows:
            store.index.rebuild()
        self.copied_at = time.monotonic()

    async def run(self, memory: ChatMemory) -> None:
        """Say turns at the fixed rate, each user in turn, without waiting for a slow `hear`."""
        count = round(self.load.rate * self.load.seconds)
        began, speaking = time.monotonic(), []
        for n in range(count):
            await asyncio.sleep(max(0.0, began + n / self.load.rate - time.monotonic()))
            speaking.append(asyncio.create_task(self._speak(memory, n)))
        await asyncio.gather(*speaking)
        await asyncio.sleep(max(0.0, began + self.load.seconds - time.monotonic()))

    async def _speak(self, memory: ChatMemory, n: int) -> None:
        user = n % self.load.users
        nth = n // self.load.users + user
        text = SAID[nth % len(SAID)].format(place=PLACES[nth % len(PLACES)])
        turn = Turn(
            speaker=f"{NAMES[user % len(NAMES)]} {user}",
            text=text,
            at=datetime.now(UTC),
            id=str(n),
            conversation=f"talk {user}",
        )
        self.heard_at[str(n)] = started = time.monotonic()
        await memory.hear(turn)
        self.took.append((started, time.monotonic() - started))


def _memory(one: dict[str, Any]) -> str:
    return f"{one['speaker']} {one['text'].removeprefix('I ')}"


def old(rows: int) -> list[Memory]:
    """Return `rows` memories of other people, no two of them similar."""
    return [
        Memory(
            content=f"Guest {n} has room {7 * n}.", user=f"guest {n}", timestamp=datetime.now(UTC)
        )
        for n in range(rows)
    ]


def measure(load: Load, folder: Path) -> Measured:
    """Run the load with a new store in the folder, and return the figures."""
    bot = Bot(load)
    with GeminiServer(bot.answer).running() as server:
        kept = MemoryConfig(data_dir=str(folder), extraction_wait=load.wait_s)
        config = Config(memory=kept, llm=LLMConfig(base_url=server.url))
        config = config.model_copy(update={"api_key": SecretStr("none")})
        counts = asyncio.run(live(bot, config))
    return figures(bot, *counts)


async def live(bot: Bot, config: Config) -> tuple[int, int, int]:
    """Run the bot; return the numbers of extracted turns, model calls and judgements by its end."""
    model = build_model(config)
    with open_store(config) as store:
        store.add_batch(old(bot.load.rows))
        async with (
            aclosing(model),
            build_chat_memory(store, config, model, on_extracted=bot.stored) as memory,
        ):
            bot.began = time.monotonic()
            copying = threading.Thread(target=bot.watch, args=(store,))
            copying.start()
            await bot.run(memory)
            copying.join()
            then = len(bot.waited), bot.calls, bot.judgements
            await memory.settle()
            assert await memory.waiting() == 0
    return then


def figures(bot: Bot, extracted: int, calls: int, judgements: int) -> Measured:
    waits = np.array(bot.waited[:extracted])
    took = [1_000 * took for _, took in bot.took]
    meanwhile = [1_000 * took for at, took in bot.took if at < bot.copied_at]
    return Measured(
        heard=len(took),
        extracted=extracted,
        calls_per_1000_turns=round(1_000 * calls / max(extracted, 1), 1),
        judgements=judgements,
        median_wait_s=round(float(np.median(waits)), 2),
        longest_wait_s=round(float(waits.max()), 2),
        hear_p50_ms=percentile(took, 50),
        hear_p99_ms=percentile(took, 99),
        copying_s=round(bot.copied_at - bot.began, 1),
        heard_while_copying=len(meanwhile),
        hear_p99_while_copying_ms=percentile(meanwhile, 99) if meanwhile else None,
        left_at_the_end=len(took) - extracted,
    )


def percentile(values: Sequence[float], share: float) -> float:
    return round(float(np.percentile(values, share)), 1)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in asdict(Load()).items():
        option = "--" + name.removesuffix("_s")
        parser.add_argument(option, dest=name, type=type(default), default=default)
    load = Load(**vars(parser.parse_args(arguments)))
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(load, Path(folder))
    sys.stdout.write(json.dumps({"load": asdict(load), "measured": asdict(measured)}, indent=1))
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()

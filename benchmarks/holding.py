"""Measure how long an event loop is blocked while long texts of the worst shapes are remembered.

    python -m benchmarks.holding [--characters 100000] [--shapes expanding passive] [--where]

For each shape, the user Mia says a text of that length to a real `ChatMemory`, and then the same
text with one more word, while Leo says a short one. Then the deduplicator reads the whole store.
The model is an OpenAI server in another process. It makes a memory of each whole turn, merges all
memories that a question shows, and reads merges as a careful reader does.

One ticker runs on the caller's loop, another on the loop that makes memories. Each records the
longest gap between two of its ticks. Gaps are in CPU time of the process, so other programs do not
count. A thread that holds the interpreter during one long call blocks the loops too, and counts.

Each shape has a process of its own. The first turn and question of a process load the model's
client and are reported separately. After them the loaded libraries are frozen (`gc.freeze`), as a
bot may do at its start, since Python's garbage collector would block every loop for some 90 ms to
look through them. `--where` prints the stack of the thread that was late.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.shapes import MORE, SHAPES, text_of
from memory.assembly import build_chat_memory, build_deduplicator, build_model, open_store
from memory.config import Config, LLMConfig, MemoryConfig
from memory.models import Turn
from tests.openai_server import Asked, OpenAIServer, careful
from tests.readings import memories_shown

WORST = ("expanding", "any character", "passive", "emoji", "many facts", "superscripts", "chinese")
AT = datetime(2026, 5, 8, tzinfo=UTC)
_TICK_S = 0.001
_IDLE = {"threading.py", "thread.py", "selectors.py", "holding.py"}
_LATE_S = 0.03
"""A ticker is late after this CPU time without a tick; its thread's stack is then recorded."""


@dataclass
class Ticker:
    """Records the longest gap between two ticks on an event loop, in CPU seconds of the process."""

    name: str
    longest_s: float = 0.0
    first_s: float = 0.0
    """The longest gap while the process's first turn was remembered."""
    places: Counter[str] = field(default_factory=Counter)
    """How often each stack of its thread, or of another thread, was seen while it was late."""
    _thread: int = 0
    _last: float = 0.0

    async def run(self) -> None:
        self._thread = threading.get_ident()
        self._last = time.process_time()
        while True:
            await asyncio.sleep(_TICK_S)
            now = time.process_time()
            self.longest_s = max(self.longest_s, now - self._last)
            self._last = now

    def start_over(self) -> None:
        self.first_s, self.longest_s = self.longest_s, 0.0

    def look(self) -> None:
        if self._last and time.process_time() - self._last > _LATE_S:
            for thread, frame in sys._current_frames().items():
                stack = traceback.extract_stack(frame)
                told = [one for one in stack if "frozen" not in one.filename]
                places = [f"{Path(one.filename).name}:{one.lineno}" for one in told[-9:]]
                if not _IDLE.intersection(place.partition(":")[0] for place in places[-1:]):
                    on_loop = "on the loop" if thread == self._thread else "in a thread"
                    self.places[f"{on_loop}: {' > '.join(places)}"] += 1


@contextmanager
def watched(tickers: Sequence[Ticker]) -> Iterator[None]:
    """Record the stacks of late tickers' threads while the block runs, every few milliseconds."""
    stopped = threading.Event()

    def watch() -> None:
        while not stopped.wait(0.005):
            for ticker in tickers:
                ticker.look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def answer(asked: Asked) -> str:
    """Answer as the model: each turn is a memory, and all memories of a question are one."""
    if (read := careful(asked)) is not None:
        return read
    if "turns" in asked.data:
        turns = [one for one in asked.data["turns"] if not one.get("context")]
        return json.dumps(
            {"memories": [{"content": one["text"], "turn": one["number"]} for one in turns]}
        )
    members = memories_shown(asked.data)
    numbers = [number for number, _ in members]
    return json.dumps({"groups": [{"members": numbers, "text": members[0][1]}]})


def serve() -> None:
    """Run the model's server until standard input ends."""
    with OpenAIServer(answer).running() as server:
        print(server.url, flush=True)
        sys.stdin.read()


@contextmanager
def model_server() -> Iterator[str]:
    """Run the model's server in another process, so that it blocks no loop here; yield its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.holding", "--serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait()


async def live(shape: str, characters: int, config: Config, tickers: Sequence[Ticker]) -> str:
    """Say the texts of a shape, recall, and run a batch; return what became of the texts."""
    model = build_model(config)
    caller, making = tickers
    text = text_of(shape, characters - 100)
    with open_store(config) as store:
        store.embeddings.embed([store.new_memory("warm", user="Zoe")])
        async with aclosing(model), build_chat_memory(store, config, model) as memory:
            ticking = asyncio.create_task(caller.run())
            made = memory._loop.start(making.run())
            deduplicator = build_deduplicator(store, config, model)
            await memory.hear(Turn(speaker="Zoe", text="I ski.", at=AT))
            await memory.settle()
            await deduplicator.deduplicate_all()
            gc.collect()
            gc.freeze()
            await asyncio.sleep(0.05)  # the tick that the collector held belongs to the first turn
            caller.start_over()
            making.start_over()
            said = [("Mia", text), ("Leo", "I like tea."), ("Mia", f"{text} tabby")]
            said += [("Leo", f"I have {n} cats.") for n in range(3)]
            for n, (speaker, words) in enumerate(said):
                await memory.hear(Turn(speaker=speaker, text=words, at=AT, id=str(n)))
            await memory.settle()
            await memory.recall(text, user="Mia")
            await memory.remember(f"Zora {text}", user="Mia")
            await deduplicator.deduplicate_all()
            made.cancel()
            ticking.cancel()
        with store.ledger.reading() as reader:
            decided = reader.counts().decisions
        return f"{len(list(store.memories()))} memories live, decided {decided}"


def measure(shape: str, characters: int, where: bool) -> dict[str, Any]:
    """Return the longest gaps of one shape in milliseconds, and what became of its texts."""
    tickers = Ticker("caller"), Ticker("memories")
    with tempfile.TemporaryDirectory() as folder, model_server() as url:
        config = Config(
            memory=MemoryConfig(data_dir=folder, extraction_wait=0.0),
            llm=LLMConfig(provider="openai", base_url=url, model="held"),
        )
        with watched(tickers if where else ()):
            became = asyncio.run(live(shape, characters, config, tickers))
    for ticker in tickers:
        for place, times in ticker.places.most_common(12):
            print(f"    {ticker.name} {times:>4} x {place}", file=sys.stderr)
    longest = {one.name: round(1_000 * one.longest_s) for one in tickers}
    first = max(round(1_000 * one.first_s) for one in tickers)
    return {"shape": shape, "longest_ms": longest, "first_ms": first, "became": became}


def measured(shape: str, characters: int, where: bool = False) -> dict[str, Any]:
    """Return what `measure` returns, measured in a process of its own."""
    asked = ["--one", shape, "--characters", str(characters), *(["--where"] if where else [])]
    command = [sys.executable, "-m", "benchmarks.holding", *asked]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--characters", type=int, default=100_000)
    parser.add_argument("--shapes", nargs="+", default=WORST, choices=[*SHAPES, *MORE])
    parser.add_argument("--where", action="store_true", help="say where a late thread stood")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    logging.basicConfig(level=logging.CRITICAL)
    if args.serve:
        serve()
    elif args.one:
        print(json.dumps(measure(args.one, args.characters, args.where)))
    else:
        for shape in args.shapes:
            print(json.dumps(measured(shape, args.characters, args.where)), flush=True)


if __name__ == "__main__":
    main()

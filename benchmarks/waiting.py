"""Measure how long a user's calls wait on the agent's server while another user sends long texts.

    python -m benchmarks.waiting [--characters 9900 90000] [--calls 32] [--json]

A real server answers over HTTP. Mia's client calls `remember` and `recall` in turn, every 50 ms,
with short texts: first alone, then while Ben's client, in another process, sends many long
`remember` calls at once. The clock covers a call as the client sees it. Other programs on the
machine count too, so compare the figures of one run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from mcp import Client

from tests.agent.serving import serving
from tests.agent.test_over_http import BEN, LINES, MIA, call, client

ALONE_S, PAUSE_S = 4.0, 0.05


@dataclass(frozen=True)
class Waited:
    """How long Mia's calls of one tool took; `beside` is while Ben's long texts are remembered."""

    characters: int
    tool: str
    beside: bool
    calls: int
    p50_ms: float
    p95_ms: float
    longest_ms: float


class Caller:
    """Calls two tools in turn until told to stop, and notes how long each call took."""

    def __init__(self, one: Client) -> None:
        self._client = one
        self._stopped = asyncio.Event()
        self.took: dict[str, list[float]] = {"remember": [], "recall": []}
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        number = 0
        while not self._stopped.is_set():
            number += 1
            await self._timed("remember", content=f"Mia saw heron {number} at stone {3 * number}.")
            await self._timed("recall", context="heron")
            await asyncio.sleep(PAUSE_S)

    async def _timed(self, tool: str, **arguments: str) -> None:
        started = time.perf_counter()
        await call(self._client, tool, **arguments)
        self.took[tool].append(1_000 * (time.perf_counter() - started))

    async def stop(self, characters: int, *, beside: bool) -> list[Waited]:
        self._stopped.set()
        await self._task
        return [
            Waited(characters, tool, beside, len(took), *map(_rounded, _shares(sorted(took))))
            for tool, took in self.took.items()
        ]


def _shares(took: list[float]) -> tuple[float, float, float]:
    return took[len(took) // 2], took[len(took) * 95 // 100], took[-1]


def _rounded(value: float) -> float:
    return round(value, 1)


async def measured(at: str, characters: int, calls: int) -> list[Waited]:
    command = [sys.executable, "-m", "benchmarks.waiting", "--ben", at]
    command += ["--characters", str(characters), "--calls", str(calls)]
    async with client(at, MIA, 300.0) as mia:
        await call(mia, "remember", content="There is a lake.")  # loads the embedder
        caller = Caller(mia)
        await asyncio.sleep(ALONE_S)
        alone = await caller.stop(characters, beside=False)
        ben = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        assert ben.stdout is not None
        await ben.stdout.readline()
        caller = Caller(mia)
        assert await ben.wait() == 0
        return [*alone, *await caller.stop(characters, beside=True)]


async def send_long(at: str, characters: int, calls: int) -> None:
    lines = (f"The {n}th stone of the wall weighs {n * 7} kg." for n in range(characters // 20))
    text = "\n".join(lines)[:characters]
    async with client(at, BEN, 300.0) as ben:
        print("ready", flush=True)
        told = (call(ben, "remember", content=f"{n}: {text}") for n in range(calls))
        assert not any(answer.is_error for answer in await asyncio.gather(*told))


def measure(characters: int, calls: int) -> Iterator[Waited]:
    with tempfile.TemporaryDirectory(prefix="waiting-") as name:
        folder = Path(name)
        (folder / "tokens").write_text(LINES)
        (folder / "tokens").chmod(0o600)
        with serving(folder, "--tokens", "tokens", "--quiet-scaffolds") as at:
            yield from asyncio.run(measured(at, characters, calls))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--characters", type=int, nargs="+", default=[9_900, 90_000])
    parser.add_argument("--calls", type=int, default=32)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--ben", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.ben:
        asyncio.run(send_long(args.ben, args.characters[0], args.calls))
        return
    for characters in args.characters:
        for one in measure(characters, args.calls):
            print(json.dumps(asdict(one)) if args.json else one, flush=True)


if __name__ == "__main__":
    main()

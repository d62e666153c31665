"""Measure how long an agent waits for its first answers from `memory-dedup serve`.

    python benchmarks/first_answer.py [--memories 0] [--rounds 7] [--json]

The clock starts before the server's process and stops when an answer was read from its pipe. Two
answers are timed: to `initialize`, for which clients have a time-out, and to the first `remember`
or `recall`. The latter includes every import, opening the ledger, loading the embedder and writing.
Each figure is the median of the rounds. The server's CPU time is shown next to it, since other work
on the machine affects it less.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from memory.assembly import open_store
from memory.config import Config, LLMConfig, MemoryConfig

ROOT = Path(__file__).parent.parent
CALLS = {"remember": {"content": "Mia has a cat."}, "recall": {"context": "Mia's pets"}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--memories", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rounds: dict[str, list[Took]] = {"initialize": [], **{tool: [] for tool in CALLS}}
    for tool in CALLS:
        with tempfile.TemporaryDirectory(prefix="memory-first-answer-") as scratch:
            fill(Path(scratch), args.memories)
            for _ in range(args.rounds):
                hands, answered = first_answer(Path(scratch), tool)
                rounds["initialize"].append(hands)
                rounds[tool].append(answered)
    result = {
        name: {"s": round(median(one.wall for one in took), 2),
               "cpu_s": round(median(one.cpu for one in took), 2)}
        for name, took in rounds.items()
    }  # fmt: skip
    lines = (f"{name:>10}: {one['s']:.2f} s ({one['cpu_s']:.2f})" for name, one in result.items())
    print(json.dumps(result) if args.json else "\n".join(lines))


def fill(folder: Path, memories: int) -> None:
    config = Config(memory=MemoryConfig(data_dir=str(folder)), llm=LLMConfig(provider="offline"))
    with open_store(config) as store:
        told = [store.new_memory(f"Fact {n} about town {n % 97}.") for n in range(memories)]
        store.add_batch(told)


class Took(NamedTuple):
    """The seconds since the process started, and the CPU seconds that it has used."""

    wall: float
    cpu: float


def first_answer(folder: Path, tool: str) -> tuple[Took, Took]:
    """Return the times until the answers to `initialize` and to the first call of `tool`."""
    started = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "memory", "serve"],
        env=os.environ | {"PYTHONPATH": str(ROOT), "MEMORY_DATA_DIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        who = {"name": "benchmark", "version": "0"}
        begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who}
        ask(server, 1, "initialize", begin)
        hands = Took(time.perf_counter() - started, cpu_of(server.pid))
        ask(server, None, "notifications/initialized", {})
        answer = ask(server, 2, "tools/call", {"name": tool, "arguments": CALLS[tool]})
        took = Took(time.perf_counter() - started, cpu_of(server.pid))
        if answer["result"].get("isError"):
            raise SystemExit(f"{tool} failed: {answer}")
    return hands, took


def cpu_of(process: int) -> float:
    """Return the CPU seconds that a process has used, by its id. It works on Linux only."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def ask(server: subprocess.Popen[str], number: int | None, method: str, params: Any) -> Any:
    """Send a request to the server and return the answer.

    A notification has no `number` and gets no answer, so None is returned.
    """
    assert server.stdin is not None
    assert server.stdout is not None
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    told = message if number is None else {**message, "id": number}
    server.stdin.write(json.dumps(told) + "\n")
    server.stdin.flush()
    return None if number is None else json.loads(server.stdout.readline())


if __name__ == "__main__":
    main()

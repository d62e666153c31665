"""How long an agent waits for its first answer from `memory-dedup serve`.

    python benchmarks/first_answer.py [--memories 0] [--rounds 7] [--json]

The clock starts before the process does and stops when the answer to the first `remember` (or
`recall`) has been read from its pipe; it includes starting Python, every import, opening the
ledger, the handshake, loading the embedder and writing. Each figure is the median of the rounds.
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
from typing import Any

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
    result = {}
    for tool in CALLS:
        with tempfile.TemporaryDirectory(prefix="memory-first-answer-") as scratch:
            fill(Path(scratch), args.memories)
            took = [first_answer(Path(scratch), tool) for _ in range(args.rounds)]
        result[tool] = round(median(took), 2)
    lines = (f"{name:>10}: {seconds:.2f} s" for name, seconds in result.items())
    print(json.dumps(result) if args.json else "\n".join(lines))


def fill(folder: Path, memories: int) -> None:
    config = Config(memory=MemoryConfig(data_dir=str(folder)), llm=LLMConfig(provider="offline"))
    with open_store(config) as store:
        told = [store.new_memory(f"Fact {n} about town {n % 97}.") for n in range(memories)]
        store.add_batch(told)


def first_answer(folder: Path, tool: str) -> float:
    """Seconds from starting the process."""
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
        ask(server, None, "notifications/initialized", {})
        answer = ask(server, 2, "tools/call", {"name": tool, "arguments": CALLS[tool]})
        took = time.perf_counter() - started
        if answer["result"].get("isError"):
            raise SystemExit(f"{tool} failed: {answer}")
    return took


def ask(server: subprocess.Popen[str], number: int | None, method: str, params: Any) -> Any:
    """The answer; None for a notification, which has no number."""
    assert server.stdin is not None
    assert server.stdout is not None
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    told = message if number is None else {**message, "id": number}
    server.stdin.write(json.dumps(told) + "\n")
    server.stdin.flush()
    return None if number is None else json.loads(server.stdout.readline())


if __name__ == "__main__":
    main()

"""The agent's server on hand-placed vectors, with an observer that writes down what it heard.

Reads `placed.json` in the working directory: `[text, cosine, other text]` each.
"""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path

from memory import agent
from memory.agent.server import AgentServer, Opened, run_and_exit
from memory.config import load_config
from memory.ledger import Ledger
from memory.models import Memory
from memory.store import MemoryStore
from tests.doubles import PlacedEmbedder


class RoomyEmbedder(PlacedEmbedder):
    """Room for more texts that are unlike each other."""

    fingerprint = "placed-1024"
    dim = 1024


def write_down(memory: Memory) -> None:
    with Path("heard.txt").open("a", encoding="utf-8") as heard:
        heard.write(memory.id + "\n")


def fail(memory: Memory) -> None:
    raise RuntimeError("an observer that is broken")


def main() -> None:
    embedder = RoomyEmbedder()
    for text, cosine, other in json.loads(Path("placed.json").read_text(encoding="utf-8")):
        embedder.place(text, cosine, other)
    config = load_config()
    store = MemoryStore(Ledger.create(config.memory.effective_ledger_url), embedder)
    tools = agent.build_tools(store, config, observers=(fail, write_down))
    opening: Future[Opened] = Future()
    opening.set_result(Opened(lambda _user: tools, store.close))
    run_and_exit(AgentServer(opening))


if __name__ == "__main__":
    main()

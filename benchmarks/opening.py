"""What opening an undamaged store costs, beside opening the Chroma inside it alone.

    python benchmarks/opening.py [--memories 20000] [--rounds 7] [--json]

Both open the same folder in the same process, in turn, with everything imported: Chroma alone makes
a client, gets the collection and counts it; the store opens ledger and index and counts its
memories. The second pair of figures goes on to the first query. The clock includes no import and
no closing; each figure is the median of the rounds.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import chromadb
from chromadb.config import Settings

from memory.assembly import open_store
from memory.config import Config, LLMConfig, MemoryConfig
from memory.models import Memory
from memory.store import MemoryStore, utc_now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--memories", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memory-opening-") as scratch:
        result = measure(Path(scratch), args.memories, args.rounds)
    lines = (f"{name:>24}: {value}" for name, value in result.items())
    print(json.dumps(result) if args.json else "\n".join(lines))


def measure(folder: Path, memories: int, rounds: int) -> dict[str, Any]:
    """Milliseconds to open, and to have the first answer, for Chroma alone and for the store."""
    config = Config(memory=MemoryConfig(data_dir=str(folder)), llm=LLMConfig(provider="offline"))
    vector = _fill(config, memories)
    took: dict[str, list[float]] = {}

    def clocked(name: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        answer = call(*args, **kwargs)
        took.setdefault(name, []).append(1_000 * (time.perf_counter() - started))
        return answer

    for _ in range(rounds):
        client, collection = clocked("chroma", _chroma_alone, folder)
        clocked("chroma_query", collection.query, query_embeddings=[vector], n_results=20)
        client.close()
        _look_unchanged(config)
        store = clocked("store", _store_counted, config)
        scope = store.scope_of(next(store.memories()))
        clocked("store_query", store.index.serving.nearest, vector, scope, 5, 0.9)
        store.close()
    ms = {name: median(times) for name, times in took.items()}
    return {
        "memories": memories,
        "chroma_alone_ms": round(ms["chroma"], 1),
        "store_ms": round(ms["store"], 1),
        "store_costs_more_ms": round(ms["store"] - ms["chroma"], 1),
        "ratio": round(ms["store"] / ms["chroma"], 2),
        "chroma_first_query_ms": round(ms["chroma_query"], 1),
        "store_first_query_ms": round(ms["store_query"], 1),
    }


def _fill(config: Config, memories: int) -> Any:
    """Distinct texts, all of them copied into Chroma; gives the vector of one."""
    rng = random.Random(1)
    words = [f"{a}{b}" for a in ("bal", "cor", "dun", "fer", "gil") for b in ("ado", "ine", "ux")]
    with open_store(config) as store:
        for start in range(0, memories, 1_000):
            store.add_batch(
                [
                    Memory(
                        content=f"{' '.join(rng.choices(words, k=6))} {start + n}",
                        user=f"user {n % 10}",
                        timestamp=utc_now(),
                    )
                    for n in range(min(1_000, memories - start))
                ]
            )
        store.index.serving.rebuild()
        [one] = store.embeddings.embed([next(store.memories())])
    return one.vector


def _chroma_alone(folder: Path) -> tuple[Any, Any]:
    settings = Settings(anonymized_telemetry=False)
    client: Any = chromadb.PersistentClient(path=str(folder / "chroma"), settings=settings)
    collection = client.get_collection("memories", embedding_function=None)
    collection.count()
    return client, collection


def _look_unchanged(config: Config) -> None:
    """Chroma alone may have touched its files: open and close once, so that they are as noted."""
    with open_store(config) as store:
        assert store.index.serving.name == "Chroma"


def _store_counted(config: Config) -> MemoryStore:
    store = open_store(config)
    assert store.index.serving.name == "Chroma"
    store.counts()
    return store


if __name__ == "__main__":
    main()

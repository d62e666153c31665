"""Kill a write-back to LangGraph or Qdrant at random moments, undo it, and check every row.

    pip install langgraph-checkpoint-sqlite langgraph-checkpoint-postgres qdrant-client
    python -m benchmarks.killed_backs --kills 20 [--seed 1] [sqlite postgres qdrant]

Each store is made by its own library, with vectors. Of its 2,400 rows, the write-back deletes 1,200
and updates 100. `lost` counts kills after which, once the write-back was undone, any row, column or
bit of a vector differed from before. SQLite needs a Python that can load SQLite extensions.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from memory.assembly import open_store
from memory.config import Config, MemoryConfig
from memory.interchange import ExternalStore, QdrantStore, Reading, langgraph_at
from tests.frameworks.word_server import word_vector
from tests.interchange.backs import bring_in, merge, replace, taken_back
from tests.servers import postgres_database, postgres_server

ROWS, ABSORBED, MERGED = 2_400, 1_200, 100
TEXTS = [f"Mia owns the box numbered {n} in room {n * 7}." for n in range(ROWS)]
NAMESPACE = ("memories", "mia")
NEVER = str(10**9)
Held = Callable[[], Any]


def vectors(texts: list[str]) -> list[list[float]]:
    return [word_vector(text) for text in texts]


@contextmanager
def sqlite(folder: Path) -> Iterator[tuple[ExternalStore, Held]]:
    from langgraph.store.sqlite import SqliteStore

    file = str(folder / "store.db")
    index = {"dims": 256, "embed": vectors, "text_fields": ["text"]}
    with SqliteStore.from_conn_string(file, index=index) as store:
        put(store)
        told = "SELECT * FROM store", "SELECT * FROM store_vectors"
        yield langgraph_at(file), lambda: {row for one in told for row in store.conn.execute(one)}


@contextmanager
def postgres(_folder: Path) -> Iterator[tuple[ExternalStore, Held]]:
    from langgraph.store.postgres import PostgresStore

    with postgres_server() as server, postgres_database(server) as url:
        address = url.replace("postgresql+psycopg://", "postgresql://")
        index = {"dims": 256, "embed": vectors, "fields": ["text"]}
        with PostgresStore.from_conn_string(address, index=index) as store:
            put(store)
            told = (
                "SELECT s::text AS row FROM store s UNION ALL SELECT v::text FROM store_vectors v"
            )
            yield (
                langgraph_at(address),
                lambda: {row["row"] for row in store.conn.execute(told).fetchall()},
            )


def put(store: Any) -> None:
    from langgraph.store.base import PutOp

    store.setup()
    for start in range(0, ROWS, 100):
        some = range(start, start + 100)
        store.batch([PutOp(NAMESPACE, str(n), {"text": TEXTS[n], "n": n / 3}) for n in some])


@contextmanager
def qdrant(folder: Path) -> Iterator[tuple[ExternalStore, Held]]:
    from qdrant_client import QdrantClient, models

    client = QdrantClient(path=str(folder / "qdrant"))
    cosine = models.VectorParams(size=256, distance=models.Distance.COSINE)
    client.create_collection("mem0", vectors_config=cosine)
    rows = (
        {"data": text, "user_id": "mia", "created_at": "2026-05-01T08:00:00Z"} for text in TEXTS
    )
    points = [
        models.PointStruct(id=n, vector=word_vector(row["data"]), payload=row)
        for n, row in enumerate(rows)
    ]
    client.upsert("mem0", points)
    client.close()

    def held() -> Any:
        opened = QdrantClient(path=str(folder / "qdrant"))
        page, _ = opened.scroll("mem0", limit=ROWS, with_vectors=True)
        opened.close()
        return {one.id: (one.payload, np.asarray(one.vector, np.float32).tobytes()) for one in page}

    yield QdrantStore(folder / "qdrant", "mem0", trusted=True), held


def clean(theirs: ExternalStore, reading: Reading, data: Path) -> None:
    with open_store(Config(memory=MemoryConfig(data_dir=str(data)))) as store:
        known = list(bring_in(store, theirs, reading).values())
        for n in range(ABSORBED):
            replace(store, known[n], known[ROWS // 2 + n])
        living = list(store.memories())
        for n in range(MERGED):
            older, newer = living[n], living[MERGED + n]
            merge(store, older, newer, f"{older.content} {newer.content}")


def started(
    theirs: ExternalStore, reading: Reading, data: Path, undo: Path
) -> subprocess.Popen[bytes]:
    """Start a write-back in another process; return when its undo file is on disk."""
    place = [theirs.kind, theirs.address, theirs.name, str(data), str(undo), NEVER]
    run = subprocess.Popen(
        [sys.executable, "-m", "tests.interchange.killed_write_back", *place,
         reading.model_dump_json()]
    )  # fmt: skip
    while not undo.exists():
        time.sleep(0.001)
    return run


def kills(
    theirs: ExternalStore, held: Held, folder: Path, count: int, chance: random.Random
) -> str:
    reading = Reading(user_key="namespace" if theirs.kind == "langgraph" else None)
    clean(theirs, reading, folder / "data")
    before, seen, lost = held(), [], 0
    run, begun = started(theirs, reading, folder / "data", folder / "undo"), time.perf_counter()
    assert run.wait() == 0
    took = time.perf_counter() - begun
    whole = taken_back(theirs, folder / "undo").restored
    for number in range(count):
        undo = folder / f"undo-{number}"
        run = started(theirs, reading, folder / "data", undo)
        time.sleep(chance.uniform(0.0, took))
        run.kill()
        run.wait()
        back = taken_back(theirs, undo)
        seen.append(back.restored)
        lost += held() != before or bool(back.left_alone)
    inside = sum(0 < n < whole for n in seen)
    return f"{count:,} kills, {inside:,} with some rows written and others not; lost {lost}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    options.add_argument("stores", nargs="*", default=["sqlite", "postgres", "qdrant"])
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    for name in given.stores:
        make = {"sqlite": sqlite, "postgres": postgres, "qdrant": qdrant}[name]
        with tempfile.TemporaryDirectory() as scratch, make(Path(scratch)) as (theirs, held):
            told = kills(theirs, held, Path(scratch), given.kills, random.Random(given.seed))
            print(f"{name}: {told}", flush=True)


if __name__ == "__main__":
    main()

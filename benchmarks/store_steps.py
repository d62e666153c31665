"""Measure each step of an import from another program's store and of the write-back to it.

    pip install mem0ai langchain-postgres langgraph-checkpoint-postgres langgraph-checkpoint-sqlite
    python -m benchmarks.other_stores --steps 50000 [chroma qdrant sqlite postgres mem0 ... jsonl]

Rows are made up (`made_up.py`), for 500 users; one row in ten repeats another one of its user. Each
step is a command, timed from its start to its end, without an API key. Resident memory is the peak
of the command with all processes that it starts, read 20 times per second. A database server is not
counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from benchmarks.made_up import memories
from memory.models import Memory
from tests.frameworks.word_server import word_vector
from tests.servers import postgres_database, postgres_server

ROOT = Path(__file__).parent.parent
USERS = 500
_AT_ONCE = 1_000
_EMBEDDER = ("--embedder", "tests.frameworks.word_server:WordEmbedder")


def steps(folder: Path, stores: Sequence[str], count: int) -> list[dict[str, object]]:
    """Measure the named stores, or all if none is named.

    Return a row for each store, with the seconds and MB of its steps.
    """
    unknown = set(stores) - STORES.keys()
    if unknown:
        raise SystemExit(f"error: {', '.join(sorted(unknown))}: no such store")
    return [measured(folder / name, name, count) for name in stores or STORES]


def measured(folder: Path, name: str, count: int) -> dict[str, object]:
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("memory:\n  data_dir: data\n")
    with STORES[name](folder, memories(count, USERS)) as (came_from, goes_to):
        line: dict[str, object] = {"store": name, "rows": count}
        audit = ["audit", *came_from, "--groups", "1"]
        line["audit"] = "-" if name == "jsonl" else step(folder, *audit)
        line["import"] = step(folder, "import", "--raw", *came_from)
        line["clean"] = step(folder, "dedup")
        line["write back"] = step(folder, "write-back", *goes_to)
        undo = [] if name == "jsonl" else sorted(folder.glob("*.undo-1.jsonl"))
        line["undo"] = (
            step(folder, "write-back", "--trust", "--undo", str(undo[0])) if undo else "-"
        )
        print(line, flush=True)
    return line


def step(folder: Path, *command: str) -> str:
    """Run a command; return as text its seconds, and the peak memory of it and its children."""
    started = time.perf_counter()
    keyless = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
    run = subprocess.Popen(
        [sys.executable, "-m", "memory", *command],
        cwd=folder, env=keyless | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    peak = 0
    told: list[str] = []
    reading = threading.Thread(target=lambda: told.append(run.communicate()[1]))
    reading.start()
    while reading.is_alive():
        peak = max(peak, resident(run.pid))
        reading.join(0.05)
    if run.returncode:
        raise SystemExit(f"error: {' '.join(command)}: {told[0][-2000:]}")
    return f"{time.perf_counter() - started:.0f} s, {peak / 2**20:,.0f} MB"


def resident(pid: int) -> int:
    """Return the resident bytes of a process and of all its descendants; 0 if it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(resident(int(one)) for one in children)


# --- the stores, each filled by its own library ---------------------------------------------------

Options = tuple[list[str], list[str]]


def parts(rows: Iterator[Memory]) -> Iterator[list[Memory]]:
    part: list[Memory] = []
    for row in rows:
        part.append(row)
        if len(part) == _AT_ONCE:
            yield part
            part = []
    if part:
        yield part


def uuid(n: int) -> str:
    return str(UUID(int=n + 1, version=4))


def mem0_payload(row: Memory) -> dict[str, Any]:
    at = row.timestamp.isoformat()
    return {"data": row.content, "hash": "-", "user_id": row.user, "created_at": at}


@contextmanager
def chroma(folder: Path, rows: Iterator[Memory]) -> Iterator[Options]:
    import chromadb
    from chromadb.config import Settings

    settings = Settings(anonymized_telemetry=False)
    client: Any = chromadb.PersistentClient(str(folder / "chroma"), settings=settings)
    made = client.create_collection("mem0", embedding_function=None)
    for number, part in enumerate(parts(rows)):
        made.add(
            ids=[uuid(number * _AT_ONCE + n) for n in range(len(part))],
            embeddings=[word_vector(row.content) for row in part],
            metadatas=[mem0_payload(row) for row in part],
        )
    client.close()
    there = str(folder / "chroma")
    yield ["--from-mem0", there], ["--to-mem0", there, *_EMBEDDER, "--yes"]


@contextmanager
def qdrant(folder: Path, rows: Iterator[Memory]) -> Iterator[Options]:
    from qdrant_client import QdrantClient, models

    client = QdrantClient(path=str(folder / "qdrant"))
    cosine = models.VectorParams(size=256, distance=models.Distance.COSINE)
    client.create_collection("mem0", vectors_config=cosine)
    for number, part in enumerate(parts(rows)):
        client.upsert(
            "mem0",
            [
                models.PointStruct(
                    id=uuid(number * _AT_ONCE + n),
                    vector=word_vector(row.content),
                    payload=mem0_payload(row),
                )
                for n, row in enumerate(part)
            ],
        )
    client.close()
    there = str(folder / "qdrant")
    yield ["--from-mem0", there, "--trust"], ["--to-mem0", there, "--trust", *_EMBEDDER, "--yes"]


@contextmanager
def jsonl(folder: Path, rows: Iterator[Memory]) -> Iterator[Options]:
    file = folder / "dump.jsonl"
    with file.open("w") as out:
        for row in rows:
            line = {"id": row.id, "content": row.content, "user": row.user}
            out.write(json.dumps(line | {"timestamp": row.timestamp.isoformat()}) + "\n")
    yield [str(file)], [str(file), "--to-jsonl", str(folder / "changes.jsonl")]


@contextmanager
def langgraph(opened: Any, address: str, rows: Iterator[Memory]) -> Iterator[Options]:
    from langgraph.store.base import PutOp

    with opened as store:
        store.setup()
        for part in parts(rows):
            puts = [
                PutOp(("memories", str(row.user)), row.id, {"text": row.content}) for row in part
            ]
            store.batch(puts)
    yield ["--from-langgraph", address], ["--to-langgraph", address, *_EMBEDDER, "--yes"]


def vectors(texts: list[str]) -> list[list[float]]:
    return [word_vector(text) for text in texts]


@contextmanager
def langgraph_sqlite(folder: Path, rows: Iterator[Memory]) -> Iterator[Options]:
    from langgraph.store.sqlite import SqliteStore

    file = str(folder / "store.db")
    with langgraph(SqliteStore.from_conn_string(file), file, rows) as options:
        yield options


@contextmanager
def langgraph_postgres(_folder: Path, rows: Iterator[Memory]) -> Iterator[Options]:
    from langgraph.store.postgres import PostgresStore

    with database() as address:
        index: Any = {"dims": 256, "embed": vectors, "fields": ["text"]}
        opened = PostgresStore.from_conn_string(address, index=index)
        with langgraph(opened, address, rows) as options:
            yield options


@contextmanager
def database() -> Iterator[str]:
    with postgres_server() as server, postgres_database(server) as url:
        yield url.replace("postgresql+psycopg://", "postgresql://")


@contextmanager
def pgvector_mem0(_folder: Path, rows: Iterator[Memory]) -> Iterator[Options]:
    """Make a pgvector store with mem0's own code."""
    from mem0.vector_stores.pgvector import PGVector

    with database() as address:
        theirs = PGVector(
            None, "mem0", 256, None, None, None, None, False, True, connection_string=address
        )
        for number, part in enumerate(parts(rows)):
            theirs.insert(
                [word_vector(row.content) for row in part],
                [mem0_payload(row) for row in part],
                [uuid(number * _AT_ONCE + n) for n in range(len(part))],
            )
        theirs.connection_pool.close()
        yield ["--from-mem0", address], ["--to-mem0", address, *_EMBEDDER, "--yes"]


@contextmanager
def pgvector_langchain(_folder: Path, rows: Iterator[Memory]) -> Iterator[Options]:
    """Make a pgvector store with langchain-postgres' PGVectorStore."""
    from langchain_postgres import PGEngine, PGVectorStore

    from tests.frameworks.word_server import WordEmbeddings

    with database() as address:
        engine = PGEngine.from_connection_string(
            address.replace("postgresql://", "postgresql+psycopg://")
        )
        engine.init_vectorstore_table("memories", 256)
        theirs = PGVectorStore.create_sync(engine, WordEmbeddings(), "memories")
        for number, part in enumerate(parts(rows)):
            theirs.add_texts(
                [row.content for row in part],
                [{"user_id": row.user, "created_at": row.timestamp.isoformat()} for row in part],
                ids=[uuid(number * _AT_ONCE + n) for n in range(len(part))],
            )
        yield ["--from-pgvector", address], ["--to-pgvector", address, *_EMBEDDER, "--yes"]


STORES: dict[str, Callable[[Path, Iterator[Memory]], Any]] = {
    "chroma": chroma,
    "qdrant": qdrant,
    "langgraph-sqlite": langgraph_sqlite,
    "langgraph-postgres": langgraph_postgres,
    "pgvector-mem0": pgvector_mem0,
    "pgvector-langchain": pgvector_langchain,
    "jsonl": jsonl,
}

"""Memories with random vectors in a ledger, and a Chroma folder that follows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import chromadb
import numpy as np
from chromadb.config import Settings

from memory.ledger import Ledger
from memory.models import Memory, Scope, Vector, new_memory_id
from memory.protocols import Index, Query, Shortlist
from memory.search.chroma import ChromaIndex, Following
from memory.search.exact import ExactIndex
from memory.text import text_key
from tests.doubles import START

MIA = Scope((("is_private", False), ("user", "Mia")))
DIM = 16
LAG = 40


def unit(rng: np.random.Generator) -> Vector:
    raw = rng.standard_normal(DIM)
    vector: Vector = (raw / np.linalg.norm(raw)).astype(np.float32)
    return vector


def write(ledger: Ledger, rng: np.random.Generator, n: int, user: str | None = "Mia") -> list[str]:
    ids = []
    with ledger.writing() as writer:
        for _ in range(n):
            memory = Memory(
                id=new_memory_id(), content=f"{rng.integers(10**12)}", user=user, timestamp=START
            )
            writer.memories.insert(memory)
            writer.vectors.put({text_key(memory.content): unit(rng)})
            ids.append(memory.id)
    return ids


def opened(folder: Path, ledger: Ledger) -> ChromaIndex:
    index = ChromaIndex.embedded(folder, ledger, Following(lag=LAG))
    assert index is not None
    return index


def client_of(folder: Path) -> Any:
    settings = Settings(anonymized_telemetry=False, chroma_server_ssl_verify=True)
    return chromadb.PersistentClient(str(folder), settings=settings)


def nearest(index: Index, vector: Vector, scope: Scope, k: int, min_cosine: float) -> Shortlist:
    [found] = index.nearest([Query(vector, scope, k, min_cosine)])
    return found


def agree(index: ChromaIndex, ledger: Ledger, rng: np.random.Generator, scope: Scope) -> None:
    exact = ExactIndex(ledger)
    complete = 0
    nearest(index, unit(rng), scope, 5, -1.0)
    index.settle()
    for _ in range(20):
        query = unit(rng)
        [best] = nearest(exact, query, scope, 1, -1.0).ids
        shortlist = nearest(index, query, scope, 5, -1.0)
        complete += shortlist.complete
        assert not shortlist.complete or best in shortlist.ids
    assert complete >= 15, "it answers by itself, and does not leave everything to exact search"

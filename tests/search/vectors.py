"""Memories with random vectors in a ledger, and an index of another kind than Chroma."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import uuid4

import numpy as np

from memory.ledger import Ledger
from memory.models import Memory, Scope, Vector, Vectors, new_memory_id
from memory.text import text_key
from tests.doubles import START

MIA = Scope((("is_private", False), ("user", "Mia")))
DIM = 16


class BruteForce:
    """An index as somebody might add one: all vectors in a numpy array, compared one by one."""

    name = "brute force"
    place = "memory"
    shared = False

    def __init__(self) -> None:
        self.id = ""
        self.queries = 0
        self._vectors: dict[str, Vector] = {}

    def put(self, ids: Sequence[str], vectors: Vectors) -> None:
        self._vectors.update(zip(ids, vectors, strict=True))

    def remove(self, ids: Sequence[str]) -> None:
        for name in ids:
            self._vectors.pop(name, None)

    def nearest(self, vector: Vector, k: int) -> list[tuple[str, float]]:
        self.queries += 1
        if not self._vectors:
            return []
        ids, rows = zip(*self._vectors.items(), strict=True)
        cosines = np.stack(rows) @ vector
        return [(ids[n], float(cosines[n])) for n in np.argsort(-cosines)[:k]]

    def pages(self) -> Iterator[tuple[Sequence[str], Vectors]]:
        if self._vectors:
            yield list(self._vectors), np.stack(list(self._vectors.values()))

    def clear(self) -> None:
        self._vectors.clear()
        self.id = uuid4().hex

    def close(self) -> None: ...


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
            writer.memories.insert_all([memory])
            writer.vectors.put({text_key(memory.content): unit(rng)})
            ids.append(memory.id)
    return ids


class Unreachable(BruteForce):
    """An index whose author did not map the errors of its server."""

    def nearest(self, vector: Vector, k: int) -> list[tuple[str, float]]:
        raise ConnectionError("no route")

    def put(self, ids: Sequence[str], vectors: Vectors) -> None:
        raise ConnectionError("no route")

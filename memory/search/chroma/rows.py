"""One collection of Chroma's: ids and vectors, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from memory.models import Vector, Vectors
from memory.search.chroma.client import SLACK, Collection, chroma_faults

_BATCH = 1_000
"""Rows in one write."""


class ChromaRows:
    """What an index asks of a collection; each method raises IndexFault."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    def put(self, ids: Sequence[str], vectors: Vectors) -> None:
        """Store vectors under their ids.

        A vector that is there already stays. A different one under the same id is deleted first:
        where hnswlib moves a vector in place, its graph can lose the way to others.
        """
        with chroma_faults():
            for start in range(0, len(ids), _BATCH):
                some, fresh = list(ids[start : start + _BATCH]), vectors[start : start + _BATCH]
                page = self._collection.get(ids=some, include=["embeddings"])
                known = dict(zip(page["ids"], page["embeddings"], strict=True))
                new = [n for n, name in enumerate(some) if not same(known.get(name), fresh[n])]
                self.remove([some[n] for n in new if some[n] in known])
                if new:
                    names = [some[n] for n in new]
                    self._collection.upsert(ids=names, embeddings=fresh[new])

    def remove(self, ids: Sequence[str]) -> None:
        """Delete vectors; those that are not there are ignored."""
        with chroma_faults():
            for start in range(0, len(ids), _BATCH):
                self._collection.delete(ids=list(ids[start : start + _BATCH]))

    def nearest(self, vector: Vector, k: int) -> list[tuple[str, float]]:
        """The ids of the k nearest and their cosines, nearest first."""
        with chroma_faults():
            answer = self._collection.query(
                query_embeddings=[vector], n_results=k, include=["distances"]
            )
        found = zip(answer["ids"][0], answer["distances"][0], strict=True)
        return [(name, 1.0 - distance) for name, distance in found]

    def page(self, offset: int) -> tuple[list[str], Vectors]:
        """Ids and vectors from an offset on; none behind the last."""
        with chroma_faults():
            page = self._collection.get(limit=_BATCH, offset=offset, include=["embeddings"])
        return page["ids"], np.asarray(page["embeddings"], np.float32)


def same(held: Vector | None, vector: Vector) -> bool:
    """Chroma's vectors come back with a relative error of up to 1e-6."""
    return held is not None and bool(np.allclose(held, vector, rtol=0, atol=SLACK))

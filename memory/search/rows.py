"""What is in a collection of Chroma's: ids and vectors, and nothing of what was told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from memory.ledger import Change
from memory.models import Vector
from memory.protocols import Query
from memory.search.chroma_client import SLACK, Rows, chroma_faults

WIDER = 4
"""How many more neighbours than wanted are asked for, since some are out of scope or retired."""
_BATCH = 100
"""Rows in one write: a search that needs Chroma waits for the one that is under way."""
_PAGE = 1_000
"""Rows that are read in one go."""

T = TypeVar("T")


class Named(NamedTuple):
    """A row that Chroma names."""

    id: str
    cosine: float


def write(rows: Rows, changes: Sequence[Change]) -> None:
    """Take over what has changed; what is not live any more goes.

    A vector that is there already stays. Another one's predecessor goes first: where hnswlib moves
    a vector in place, its graph can lose the way to others, which are never found again.

    Raises: IndexFault.
    """
    live = [(one.id, one.vector) for one in changes if one.live and one.vector is not None]
    gone = [one.id for one in changes if not one.live or one.vector is None]
    with chroma_faults():
        for some in batches(live):
            page = rows.get(ids=[name for name, _ in some], include=["embeddings"])
            known = dict(zip(page["ids"], page["embeddings"], strict=True))
            fresh = [(name, v) for name, v in some if not same(known.get(name), v)]
            if moved := [name for name, _ in fresh if name in known]:
                rows.delete(ids=moved)
            if fresh:
                rows.upsert(
                    ids=[name for name, _ in fresh],
                    embeddings=np.stack([vector for _, vector in fresh]),
                )
        for some_gone in batches(gone):
            rows.delete(ids=list(some_gone))


def same(held: Vector | None, vector: Vector) -> bool:
    """Chroma's vectors come back with a relative error of up to 1e-6."""
    return held is not None and bool(np.allclose(held, vector, rtol=0, atol=SLACK))


def named(rows: Rows, queries: Sequence[Query]) -> list[list[Named]]:
    """What Chroma names for each query, nearest first, whatever its scope.

    Raises: IndexFault.
    """
    with chroma_faults():
        answer = rows.query(
            query_embeddings=[query.vector for query in queries],
            n_results=WIDER * max(query.k for query in queries),
            include=["distances"],
        )
    return [
        [Named(name, 1.0 - distance) for name, distance in zip(*one, strict=True)]
        for one in zip(answer["ids"], answer["distances"], strict=True)
    ]


def held(rows: Rows) -> dict[str, Vector]:
    """Every vector that Chroma holds, by id.

    Raises: IndexFault.
    """
    found: dict[str, Vector] = {}
    with chroma_faults():
        for offset in range(0, rows.count(), _PAGE):
            page = rows.get(limit=_PAGE, offset=offset, include=["embeddings"])
            found |= dict(zip(page["ids"], page["embeddings"], strict=True))
    return found


def batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """As many at a time as one write takes."""
    return (items[start : start + _BATCH] for start in range(0, len(items), _BATCH))

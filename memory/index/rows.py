"""What is in a collection of Chroma's: ids, vectors and the few values that scopes are made of.

No text, and nothing of a memory's own metadata, which may hold any text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from memory.index.chroma_client import Metadata, Rows, chroma_faults
from memory.ledger import Change
from memory.models import SCOPE_FIELDS, Vector
from memory.protocols import Query

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
    values: Metadata
    cosine: float


def write(rows: Rows, changes: Sequence[Change]) -> None:
    """Take over what has changed; what is not live any more goes.

    Raises: IndexFault.
    """
    live = [(one, one.vector) for one in changes if one.live and one.vector is not None]
    gone = [one.id for one in changes if not one.live or one.vector is None]
    with chroma_faults():
        for some in batches(live):
            rows.upsert(
                ids=[change.id for change, _ in some],
                embeddings=np.stack([vector for _, vector in some]),
                metadatas=[_scope_values(change) for change, _ in some],
            )
        for ids in batches(gone):
            rows.delete(ids=list(ids))


def named(rows: Rows, queries: Sequence[Query]) -> list[list[Named]]:
    """What Chroma names for each query, nearest first, whatever its scope.

    Raises: IndexFault.
    """
    with chroma_faults():
        answer = rows.query(
            query_embeddings=[query.vector for query in queries],
            n_results=WIDER * max(query.k for query in queries),
            include=["metadatas", "distances"],
        )
    answers = zip(answer["ids"], answer["metadatas"], answer["distances"], strict=True)
    return [
        [
            Named(name, values or {}, 1.0 - distance)
            for name, values, distance in zip(*one, strict=True)
        ]
        for one in answers
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


def _scope_values(change: Change) -> dict[str, str | bool]:
    """Chroma's metadata: it cannot hold None, and a scope reads what is missing as None."""
    found = ((name, change.values[name]) for name in SCOPE_FIELDS)
    return {name: value for name, value in found if value is not None}

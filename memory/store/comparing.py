"""Compares stored memories with a new text that names, repeats or asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from memory.ledger import Reader
from memory.models import Embedded, Extracted, Judge, Memory, Scope
from memory.search import similarities
from memory.store.applying import Probe, ranked
from memory.store.store import MemoryStore
from memory.text import clean, text_key


@dataclass(frozen=True)
class Named:
    """A new memory and those that it names, oldest first."""

    members: tuple[Memory, ...]
    similarity: float | None
    """The similarity of the new memory and the least similar named one; None without vectors."""
    keeper: Judge | None
    """The judge who keeps two of them apart, or two texts that they were made from."""


def find_named(
    store: MemoryStore, new: Sequence[tuple[Extracted, Embedded]]
) -> tuple[list[Named | str], int]:
    """Return what each of these names, and the revision; a text says why it cannot be joined.

    If several name the same memory, the first one gets it.
    """
    taken: set[str] = set()
    found: list[Named | str] = []
    with store.ledger.reading() as reader:
        for said, embedded in new:
            found.append(one := _found(store, reader, said, embedded, taken))
            if isinstance(one, Named):
                taken |= {name.id for name in said.named}
        return found, reader.revision()


def _found(
    store: MemoryStore, reader: Reader, said: Extracted, new: Embedded, taken: set[str]
) -> Named | str:
    rows = reader.memories.rows([one.id for one in said.named])
    for one in said.named:
        row = rows.get(one.id)
        if one.id in taken:
            return f"another memory of these turns replaces {one.id}"
        if row is None or not row.live or row.text_key != one.text_key:
            return f"{one.id} changed after it was shown"
    hits = []
    if new.vector is not None:
        probe = Probe(new.memory.content, new.vector)
        hits = ranked(reader, probe, rows.values(), store.scale)
    stored = [row.memory for row in rows.values()]
    members = sorted([*stored, new.memory], key=lambda one: one.timestamp)
    return Named(
        tuple(members),
        min((hit.similarity for hit in hits), default=None),
        _keeper(reader, store.scope_of(new.memory), members),
    )


def _keeper(reader: Reader, scope: Scope, members: Sequence[Memory]) -> Judge | None:
    stand_for = [
        {text_key(one.content), *_keys(reader, reader.memories.ancestors(one.id))}
        for one in members
    ]
    keys = sorted(set().union(*stand_for))
    judges: tuple[Judge, ...] = ("person", "model")
    for judge in judges:
        apart = reader.distinct.of_all([(scope, key) for key in keys], (judge,))
        distinct = dict(zip(keys, apart, strict=True))
        if any(
            not distinct[key].isdisjoint(other)
            for one, other in combinations(stand_for, 2)
            for key in one
        ):
            return judge
    return None


def _keys(reader: Reader, ids: Sequence[str]) -> set[str]:
    return {row.text_key for row in reader.memories.rows(ids).values()}


def is_like_all_of(
    store: MemoryStore, new: Embedded, memory_id: str, min_similarity: float
) -> bool:
    """Whether a new memory is similar enough to every text that a stored one stands for."""
    if new.vector is None:
        return True
    with store.ledger.reading() as reader:
        rows = reader.memories.rows(reader.memories.ancestors(memory_id)).values()
        alike = ranked(reader, Probe(new.memory.content, new.vector), rows, store.scale)
    return all(hit.similarity >= min_similarity for hit in alike)


def cosines_to(
    store: MemoryStore, reader: Reader, query: str, text_keys: Mapping[str, str]
) -> dict[str, float]:
    """Return the cosine of each memory, given by the key of its text, to a query.

    Raises: EmbeddingError.
    """
    if not clean(query) or not text_keys:
        return {}
    asked = store.embeddings.query(clean(query))
    store.embeddings.check(reader)
    known = reader.vectors.of(text_keys.values())
    names = [name for name, key in text_keys.items() if key in known]
    if not names:
        return {}
    vectors = np.stack([known[text_keys[name]] for name in names])
    found = similarities(vectors, np.broadcast_to(asked, vectors.shape))
    return dict(zip(names, found.tolist(), strict=True))

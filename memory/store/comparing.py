"""Compares a new memory with stored ones that a model named, or a query with stored vectors."""

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
    """A new memory and the stored memories that a model named as repeated or updated by it.

    `members` holds the new one and the stored ones, oldest first.
    """

    members: tuple[Memory, ...]
    similarity: float | None
    """The lowest similarity of the new memory to a stored one; None without vectors."""
    keeper: Judge | None
    """The kind of judge who called two members, or texts merged into them, distinct; or None."""


def find_named(
    store: MemoryStore, new: Sequence[tuple[Extracted, Embedded]]
) -> tuple[list[Named | str], int]:
    """Look up the stored memories that each new memory names, as the model that extracted it said.

    Return one item for each, in order, and the ledger's revision. An item is a string, which gives
    the reason, if the named memories cannot be merged with the new one. If several new memories
    name the same stored one, only the first may be merged with it.
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
    """Return a new memory with the stored ones it names, or the reason why they cannot be merged.

    `taken` holds the ids of the memories that earlier new memories name.
    """
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
    """Return the kind of judge who called two members, or texts merged into them, distinct.

    None if nobody did. A person's verdict is returned rather than a model's.
    """
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
    """Return whether a new memory is similar to every retired text that a stored one stands for.

    It must have at least `min_similarity` to each. True if the new memory has no vector.
    """
    if new.vector is None:
        return True
    with store.ledger.reading() as reader:
        rows = reader.memories.rows(reader.memories.ancestors(memory_id)).values()
        alike = ranked(reader, Probe(new.memory.content, new.vector), rows, store.scale)
    return all(hit.similarity >= min_similarity for hit in alike)


def cosines_to(
    store: MemoryStore, reader: Reader, query: str, text_keys: Mapping[str, str]
) -> dict[str, float]:
    """Return the cosine of each memory's vector with that of a query, by the memory's name.

    `text_keys` gives the key of each memory's text by the same names. Memories without a vector are
    left out. The result is empty if the query is.

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

"""Looks up the stored memories that a model says a new memory repeats or updates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from memory.ledger import Reader
from memory.models import Embedded, Extracted, Judge, Memory, Scope
from memory.search import Probe, ranked
from memory.store.store import MemoryStore


@dataclass(frozen=True)
class Named:
    """A new memory, and the stored memories that a model says it repeats or updates.

    `members` holds the new memory and the stored ones, oldest first. `similarity`: the lowest
    similarity of the new memory to a stored member; None if no vectors are known. `keeper`: who
    called two members distinct, a person or a model; None if nobody did. A verdict on a memory that
    a member replaced counts as one on the member.
    """

    members: tuple[Memory, ...]
    similarity: float | None
    keeper: Judge | None


def find_named(
    store: MemoryStore, new: Sequence[tuple[Extracted, Embedded]]
) -> tuple[list[Named | str], int]:
    """Look up, for each new memory, the stored memories in its `Extracted.named`.

    Return a list, and the ledger's revision. The list has an item for each new memory, in order: a
    Named, or the reason why the new memory cannot be merged with these stored memories. No stored
    memory is in more than one Named.
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
    """Return who called two members distinct, a person or a model; None if nobody did.

    If both did, return the person. A verdict on a memory that a member replaced counts as one on
    the member.
    """
    stored = reader.memories
    stand_for = [
        {member.dated_key}
        | {row.dated_key for row in stored.rows(stored.ancestors(member.id)).values()}
        for member in members
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

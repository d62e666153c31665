"""Supersede one memory by another, which says what holds now; list the pairs that may be so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import combinations
from typing import Literal, NamedTuple

from memory.coverage import still_stated
from memory.errors import InputError, MemoryNotFound
from memory.models import (
    OFFLINE,
    PERSON,
    Action,
    Condition,
    Decision,
    Memory,
    Outcome,
    Scope,
    Survivor,
)
from memory.store.store import MemoryStore
from memory.text import clean, telling_words

Holds = Literal["newer", "older", "both"]


class Suspect(NamedTuple):
    """Two live memories of one scope; `older` may be outdated by `newer`.

    >>> old = memories.remember("Liv lives in Porto.", user="Liv").memory
    >>> new = memories.remember("Liv lives in Faro.", user="Liv").memory
    >>> [(pair.older.content, pair.newer.content) for pair in suspects(store, "Liv")]
    [('Liv lives in Porto.', 'Liv lives in Faro.')]
    """

    older: Memory
    newer: Memory


def suspects(store: MemoryStore, user: str | None = None) -> list[Suspect]:
    """Return the pairs of live memories of which one may be outdated, oldest pair first.

    `user`: only this user's memories; None means those of all users. Pairs that a person called
    distinct are left out.

    >>> old = memories.remember("Max lives in Porto.", user="Max").memory
    >>> new = memories.remember("Max moved to Faro.", user="Max").memory
    >>> len(suspects(store, "Max")), suspects(store, "nobody")
    (1, [])
    """
    scopes: dict[Scope, list[Memory]] = {}
    for memory in store.memories():
        if user is None or memory.user == clean(user):
            scopes.setdefault(store.scope_of(memory), []).append(memory)
    found = []
    for memories in scopes.values():
        memories.sort(key=lambda one: one.timestamp)
        found += [
            Suspect(memories[n], memories[m])
            for n, m in sorted(_with_a_shared_word(memories))
            if store.showing.is_suspect(memories[m], memories[n])
        ]
    return found


_MOST_WITH_A_WORD = 40
"""In a scope of more memories, a word that more than these have leads to no pair."""


def _with_a_shared_word(memories: Sequence[Memory]) -> set[tuple[int, int]]:
    """Return the pairs of positions, the lower first, of memories that share a rare word."""
    having: dict[str, list[int]] = {}
    for n, memory in enumerate(memories):
        for word in telling_words(memory.content):
            having.setdefault(word, []).append(n)
    if len(memories) <= _MOST_WITH_A_WORD:
        return set(combinations(range(len(memories)), 2))
    rare = (held for held in having.values() if len(held) <= _MOST_WITH_A_WORD)
    return {pair for held in rare for pair in combinations(held, 2)}


def answer(store: MemoryStore, pair: Suspect, holds: Holds, *, force: bool = False) -> Outcome:
    """Record a person's answer about a pair: which memory holds now, or that both do.

    `force`: as in `supersede`.

    >>> old = memories.remember("Ned lives in Porto.", user="Ned").memory
    >>> new = memories.remember("Ned lives in Faro.", user="Ned").memory
    >>> outcome = answer(store, Suspect(old, new), "newer")
    >>> outcome.action.value, [memory.content for memory in memories.list(user="Ned")]
    ('supersede', ['Ned lives in Faro.'])

    Raises: MemoryNotFound; InputError as `supersede`.
    """
    if holds != "both":
        older, newer = pair if holds == "newer" else reversed(pair)
        reason = f"the {holds} holds"
        return supersede(store, older.id, newer.id, reason=reason, force=force)
    ids = pair.older.id, pair.newer.id
    both = Decision(Action.KEEP_BOTH, "both hold", tuple(pair), distinct=(ids,), model=PERSON)
    done = store.apply(both)
    assert isinstance(done, Outcome)  # it has no condition
    return done


def supersede(
    store: MemoryStore,
    older_id: str,
    newer_id: str,
    *,
    reason: str = "superseded by a person",
    model: str | None = PERSON,
    force: bool = False,
) -> Outcome:
    """Retire a memory because another one, which is live, says what holds now.

    The older memory may be superseded already; if that is undone, it stays retired by this one.

    `force`: also if the older memory states something that the newer one says nothing about.

    Raises: MemoryNotFound if one of them is neither live nor superseded; InputError if they are the
    same memory, of two scopes, or if something that still holds would be lost.
    """
    older_id, newer_id = clean(older_id), clean(newer_id)
    while True:
        with store.ledger.reading() as reader:
            rows, revision = reader.memories.rows([older_id, newer_id]), reader.revision()
        for name in (older_id, newer_id):
            ended = name == older_id and name in rows and rows[name].until is not None
            if name not in rows or not (rows[name].live or ended):
                raise MemoryNotFound(name)
        if rows[older_id].successor_id == newer_id:
            raise InputError(older_id, f"is superseded by {newer_id} already")
        older, newer = rows[older_id].memory, rows[newer_id].memory
        check_superseding(store, older, newer, force=force)
        decision = superseding(older, newer, reason, model, Condition(revision))
        done = store.apply(decision)
        if isinstance(done, Outcome):
            return done


def add_ended(
    store: MemoryStore, ended: Sequence[tuple[Memory, datetime, str | None]], run: str | None = None
) -> int:
    """Store memories that ended elsewhere; return how many of them were not stored before.

    Each comes with the time when it ended and the id, or external id, of what superseded it. If
    that is None or not in the store, the memory is stored as expired.
    """
    with store.ledger.reading() as reader:
        own = {memory.id for memory, _, _ in ended}
        names = {name for _, _, name in ended if name is not None} - own
        known = {name: found[0] for name in names if (found := reader.memories.named(name))}
    outer = [
        memory.model_copy(update={"expires_at": until})
        if successor is None or (successor not in own and successor not in known)
        else memory
        for memory, until, successor in ended
    ]
    added = store.add_batch(outer, run=run)
    for memory, _, successor in ended:
        with store.ledger.reading() as reader:
            older = next(iter(reader.memories.named(memory.id)), None)
            newer = next(iter(reader.memories.named(successor)), None) if successor else None
            condition = Condition(reader.revision())
        if older is not None and newer is not None and older.live:
            why = "it was superseded where it comes from"
            store.apply(superseding(older.memory, newer.memory, why, OFFLINE, condition), run=run)
    return added


def check_superseding(store: MemoryStore, older: Memory, newer: Memory, *, force: bool) -> None:
    """Raises: InputError if `newer` must not supersede `older`."""
    if older.id == newer.id:
        raise InputError(older.id, "cannot supersede itself", "give two ids")
    if store.scope_of(older) != store.scope_of(newer):
        raise InputError(older.id, f"is of another scope than {newer.id}")
    if not newer.lasts_as_long_as(older):
        raise InputError(newer.id, f"expires before {older.id}")
    kept = () if force else still_stated(newer.content, older.content)
    if kept:
        said = "; ".join(f'"{clause}"' for clause in kept)
        raise InputError(older.id, f"also states {said}", "force it, or merge the two")


def superseding(
    older: Memory, newer: Memory, reason: str, model: str | None, condition: Condition
) -> Decision:
    """Return the decision that `newer` supersedes `older`.

    >>> old, new = store.new_memory("Mia lives in Porto."), store.new_memory("Mia lives in Faro.")
    >>> decision = superseding(old, new, "moved", None, Condition())
    >>> decision.action.value, decision.retired == (old.id,)
    ('supersede', True)
    """
    return Decision(
        Action.SUPERSEDE,
        reason,
        (older, newer),
        (Survivor(newer, (older.id,)),),
        model=model,
        condition=condition,
    )

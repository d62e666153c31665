"""Save, correct and merge the memories of an agent.

Before each save, a guard looks for a near-copy and may block the save. A saved memory is linked
with the memories that are near it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from memory.coverage import conflicting_values
from memory.decide import inherit, oldest_first
from memory.errors import IndexFault, InputError
from memory.models import (
    Action,
    Decision,
    Embedded,
    Memory,
    MemoryLink,
    SearchResult,
    Survivor,
)
from memory.store import (
    NOBODY,
    AlreadyStored,
    Applied,
    Condition,
    MemoryStore,
    Neighbours,
    WhileMergeable,
    WhileNearest,
    WhileUnchanged,
    reworded,
)

ONE_SCOPE = "only memories of one user and privacy belong together"
_MAX_ATTEMPTS = 5


class Distances(NamedTuple):
    """Limits for a save.

    `guard`: a stored memory blocks the save if its distance from the new one (`1 - similarity`) is
    below `guard`. If `guard` is 0, no near-copy blocks a save. `link`: the new memory is linked
    with stored memories whose distance (`1 - cosine`) is below `link`, at most `max_links` of them.
    """

    guard: float = 0.05
    link: float = 0.3
    max_links: int = 5


@dataclass(frozen=True)
class Saved:
    """The outcome of a save.

    `memory`: the new memory; None if the save was blocked. `related`: the stored memories that the
    new memory was linked with, nearest first. `duplicate_of`: the stored memory that blocked the
    save. `replaced`: the stored memory that the new memory corrects. `decision`: the number of the
    decision that retired it. `differs_from`: a stored memory that is near enough to block the save,
    but did not, because it contradicts the new memory, for example with another number.
    """

    memory: Memory | None
    related: tuple[SearchResult, ...] = ()
    duplicate_of: SearchResult | None = None
    replaced: Memory | None = None
    decision: int | None = None
    differs_from: ValueConflict | None = None


class ValueConflict(NamedTuple):
    memory: Memory
    old: str
    new: str


def save_guarded(store: MemoryStore, memory: Memory, distances: Distances) -> Saved:
    """Save a memory unless it repeats a stored one of its scope, and link it with near memories.

    Raises: InputError if each of several attempts fails because others write at the same time;
    IndexFault, LedgerError.
    """
    for attempt in range(_MAX_ATTEMPTS):
        prepared = _prepared(store, memory, max(distances.max_links, 1), distances)
        if isinstance(prepared, AlreadyStored):
            return Saved(None, duplicate_of=SearchResult(prepared.memory, 1.0))
        new, found = prepared
        differs_from: ValueConflict | None = None
        for hit in found.matches:
            if hit.distance >= distances.guard:
                break
            values = conflicting_values(hit.memory.content, memory.content)
            if values is None:
                return Saved(None, duplicate_of=hit)
            differs_from = differs_from or ValueConflict(hit.memory, *values)
        linked, near = _linked(new.memory, found.matches, distances)
        forced = distances.guard <= 0 or attempt == _MAX_ATTEMPTS - 1
        decision = Decision(
            Action.ADD,
            "told by the agent",
            (linked,),
            similarity=found.matches[0].similarity if found.matches else None,
            candidates=_candidates(found),
        )
        condition: Condition = (
            WhileMergeable(found.revision)
            if forced
            else WhileNearest(found.revision, NOBODY.bound_by, min_similarity=1.0 - distances.guard)
        )
        done = store.apply(decision, condition, arrival=Embedded(linked, new.vector))
        if isinstance(done, Applied):
            return Saved(done.memory, near, differs_from=differs_from)
    raise InputError(memory.id, "is written by others too, again and again", "try again")


def save_correction(store: MemoryStore, memory: Memory, old: Memory, distances: Distances) -> Saved:
    """Save a memory that corrects `old`, link it with near memories, and retire `old`.

    Raises: InputError if `old` belongs to another scope or has changed since it was read, or if the
    new memory is already stored; IndexFault, LedgerError.
    """
    if store.scope_of(old) != store.scope_of(memory):
        raise InputError(old.id, "is of another scope", "give the same user and is_private")
    prepared = _prepared(store, memory, distances.max_links + 1, distances)
    if isinstance(prepared, AlreadyStored):
        raise InputError(memory.id, "arrived meanwhile", "look at it with recall")
    new, found = prepared
    others = [hit for hit in found.matches if hit.memory.id != old.id]
    linked, near = _linked(new.memory, others, distances)
    linked = inherit(linked, (old, new.memory))
    decision = Decision(
        Action.REPLACE,
        "corrected by the agent",
        oldest_first(old, linked),
        (Survivor(linked, (old.id,)),),
        similarity=next((hit.similarity for hit in found.matches if hit.memory.id == old.id), None),
        candidates=_candidates(found),
    )
    done = store.apply(
        decision, WhileUnchanged(found.revision), arrival=Embedded(linked, new.vector)
    )
    if not isinstance(done, Applied):
        raise InputError(old.id, done.why, "look at it again with recall")
    return Saved(done.memory, near, replaced=old, decision=done.number)


def decide_merge(store: MemoryStore, keep: Memory, remove: Memory, content: str | None) -> Decision:
    """Return the decision that retires `remove` in favour of `keep`. Nothing is changed yet.

    `keep` takes over the links and tags of `remove`, and gets the higher importance and intensity
    of the two. If `content` is given, it becomes the text of `keep`, and the former text becomes a
    retired memory.

    Raises: InputError if the scopes differ or `content` is not valid.
    """
    if store.scope_of(keep) != store.scope_of(remove):
        raise InputError(keep.id, f"is of another scope than {remove.id}", ONE_SCOPE)
    survivor = reworded(keep, content, store.new_id()) if content is not None else Survivor(keep)
    if survivor.memory.content == keep.content:
        survivor = Survivor(keep)
    retired = (remove.id, *survivor.stands_for)
    synthesised = retired if survivor.version is not None else ()
    merged = survivor.memory.model_copy(
        update={
            "tags": tuple(dict.fromkeys((*keep.tags, *remove.tags))),
            "importance": max(keep.importance, remove.importance),
            "intensity": max(keep.intensity, remove.intensity),
            "merged_from": (*keep.merged_from, *synthesised),
        }
    )
    return Decision(
        Action.MERGE,
        "merged by the agent",
        oldest_first(keep, remove),
        (replace(survivor, memory=merged, stands_for=retired),),
    )


def _prepared(
    store: MemoryStore, memory: Memory, k: int, distances: Distances
) -> AlreadyStored | tuple[Embedded, Neighbours]:
    # A limit on the plain cosine. As a similarity it is lowest for texts with kana or Han, and a
    # stored memory may be such a text.
    linked = store.scale.similarities(np.array([1.0 - distances.link]), has_cjk=True)
    [found] = store.prepare([memory], k, min(1.0 - distances.guard, float(linked[0])))
    if isinstance(found, AlreadyStored):
        return found
    if isinstance(found.neighbours, str):
        raise IndexFault(found.neighbours)
    return found.new, found.neighbours


def _linked(
    memory: Memory, matches: Sequence[SearchResult], distances: Distances
) -> tuple[Memory, tuple[SearchResult, ...]]:
    near = tuple(
        hit
        for hit in matches
        if round(1.0 - (hit.similarity if hit.cosine is None else hit.cosine), 6) < distances.link
    )[: distances.max_links]
    links = tuple(MemoryLink(target_id=hit.memory.id, link_type="similar") for hit in near)
    return memory.model_copy(update={"linked_ids": links}), near


def _candidates(found: Neighbours) -> tuple[tuple[str, float], ...]:
    return tuple((hit.memory.id, hit.similarity) for hit in found.matches)

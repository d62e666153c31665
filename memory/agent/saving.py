"""Save, correct and merge the memories of an agent, by the policy of `decide_new`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from memory import MemoryStore
from memory.assembly import (
    Nearby,
    NewMemory,
    decide_new,
    inherit,
    oldest_first,
    reworded,
    states,
    still_stated,
)
from memory.errors import ChangedMeanwhile, IndexFault, InputError
from memory.models import (
    COMPARED,
    Action,
    Condition,
    Decision,
    Embedded,
    Memory,
    MemoryLink,
    Outcome,
    Rules,
    SearchResult,
    Survivor,
)

ONE_SCOPE = "only memories of one user and privacy belong together"


@dataclass(frozen=True)
class SaveRules:
    """The rules for a save.

    `rules`: the policy of all writes. The new memory is linked with stored memories whose distance
    (`1 - cosine`) is below `link`, at most `max_links` of them. Only if `rules.guard` is off,
    `dedup` counts: a stored memory blocks the save if its distance (`1 - similarity`) is below
    `dedup`. `force`: save whatever is stored.
    """

    rules: Rules
    link: float = 0.3
    max_links: int = 5
    dedup: float = 0.05
    force: bool = False


@dataclass(frozen=True)
class Saved:
    """The outcome of a save.

    `memory`: the new memory; None if the save was refused. `related`: the stored memories that the
    new memory was linked with, nearest first. `existing`: the stored memory that states the new one
    already, or that the new memory replaced; None if there is none.
    """

    memory: Memory | None
    related: tuple[SearchResult, ...] = ()
    existing: SearchResult | None = None


class _Save:
    """Decides about one new memory, and remembers what it linked and replaced."""

    def __init__(self, store: MemoryStore, by: SaveRules, old: Memory | None) -> None:
        # A limit on the plain cosine. As a similarity it is lowest for texts with kana or Han, and
        # a stored memory may be such a text.
        linked = store.scale.similarities(np.array([1.0 - by.link]), has_cjk=True)
        lowest = min(by.rules.lower, 1.0 - by.dedup, float(linked[0]))
        self.nearby = Nearby(max(COMPARED, by.max_links + 1), lowest)
        self._by = by
        self._old = old
        self.related: tuple[SearchResult, ...] = ()
        self.replaced: SearchResult | None = None

    def decide(self, new: NewMemory) -> Decision | SearchResult:
        """Return the decision; if a stored memory states the new one already, return that one."""
        if new.fault:
            raise IndexFault(new.fault)
        decision = self._correction(new, self._old) if self._old else self._by_policy(new)
        if isinstance(decision, SearchResult):
            return decision
        gone = decision.retired
        others = [hit for hit in new.matches if hit.memory.id not in gone]
        linked, self.related = _linked(new.memory, others, self._by)
        return replace(decision, arrival=Embedded(linked, new.vector))

    def _by_policy(self, new: NewMemory) -> Decision | SearchResult:
        told = Decision(Action.ADD, "told by the agent", (new.memory,))
        if new.matches:
            told = replace(told, similarity=new.matches[0].similarity)
        if self._by.force:
            return told
        if not self._by.rules.guard:
            near = (hit for hit in new.matches if hit.distance < self._by.dedup)
            return next(near, told)
        for hit in new.matches[:COMPARED]:
            decision, _ = decide_new(new.memory, [hit], self._by.rules, asks=False)
            if isinstance(decision, Decision) and decision.survivors:
                if states(hit.memory, new.memory) and hit.memory.lasts_as_long_as(new.memory):
                    return hit
                if self.replaced is None:
                    told, self.replaced = decision, hit
        return told

    def _correction(self, new: NewMemory, old: Memory) -> Decision:
        if not self._by.force and still_stated(new.memory.content, old.content):
            return Decision(Action.ADD, "told by the agent", (new.memory,))
        found = (hit for hit in new.matches if hit.memory.id == old.id)
        self.replaced = next(found, SearchResult(old, 0.0))
        ends = {"expires_at": new.memory.expires_at}
        corrected = inherit(new.memory, (old, new.memory)).model_copy(update=ends)
        return Decision(
            Action.SUPERSEDE,
            "corrected by the agent",
            oldest_first(old, corrected),
            (Survivor(corrected, (old.id,)),),
            similarity=self.replaced.similarity or None,
        )


def save(store: MemoryStore, memory: Memory, by: SaveRules, old: Memory | None = None) -> Saved:
    """Save a memory and link it with near ones, unless a stored memory states it already.

    A stored memory that the new one states completely is replaced. `old`: a stored memory that the
    new one corrects; it is retired, and nothing else is compared.

    Raises: InputError if `old` belongs to another scope; ChangedMeanwhile if it has changed since
    it was read, or if the new memory is already stored; IndexFault, LedgerError.
    """
    if old is not None and store.scope_of(old) != store.scope_of(memory):
        raise InputError(old.id, "is of another scope", "give the same user and is_private")
    if old is not None and not memory.lasts_as_long_as(old):
        raise InputError(old.id, "would outlast what replaces it", "leave out expires_at")
    saving = _Save(store, by, old)
    with store.ledger.reading() as reader:
        condition = Condition(reader.revision())

    def decide(new: NewMemory) -> Decision | SearchResult:
        decision = saving.decide(new)
        if old is None or isinstance(decision, SearchResult):
            return decision
        return replace(decision, condition=condition)

    [found] = store.write(store.prepare([memory], saving.nearby), decide)
    if isinstance(found, SearchResult):
        return Saved(None, existing=found)
    if not isinstance(found, Outcome):
        assert old is not None
        raise ChangedMeanwhile(old.id, found.why)
    if found.action is not Action.KNOWN:
        return Saved(found.memory, saving.related, saving.replaced)
    if old is not None:
        raise ChangedMeanwhile(memory.id, "it arrived meanwhile")
    return Saved(None, existing=SearchResult(found.memory, 1.0))


def decide_merge(
    store: MemoryStore, keep: Memory, remove: Memory, content: str | None, condition: Condition
) -> Decision:
    """Return the decision that retires `remove` in favour of `keep`. Nothing is changed yet.

    `keep` takes over what every memory that stays takes over (see `inherit`), but keeps its
    category, emotion and time. If `content` is given, it becomes the text of `keep`, and the former
    text becomes a retired memory.

    Raises: InputError if the scopes differ or `content` is not valid.
    """
    if store.scope_of(keep) != store.scope_of(remove):
        raise InputError(keep.id, f"is of another scope than {remove.id}", ONE_SCOPE)
    survivor = reworded(keep, content, store.new_id()) if content is not None else Survivor(keep)
    if survivor.memory.content == keep.content:
        survivor = Survivor(keep)
    retired = (remove.id, *survivor.stands_for)
    synthesised = retired if survivor.version is not None else ()
    members = oldest_first(keep, remove)
    merged = inherit(survivor.memory, members).model_copy(
        update={
            **{name: getattr(keep, name) for name in ("category", "emotion", "timestamp")},
            "merged_from": (*keep.merged_from, *synthesised),
        }
    )
    return Decision(
        Action.MERGE,
        "merged by the agent",
        members,
        (replace(survivor, memory=merged, stands_for=retired),),
        condition=condition,
    )


def _linked(
    memory: Memory, matches: Sequence[SearchResult], by: SaveRules
) -> tuple[Memory, tuple[SearchResult, ...]]:
    near = tuple(
        hit
        for hit in matches
        if round(1.0 - (hit.similarity if hit.cosine is None else hit.cosine), 6) < by.link
    )[: by.max_links]
    links = tuple(MemoryLink(target_id=hit.memory.id, link_type="similar") for hit in near)
    return memory.model_copy(update={"linked_ids": links}), near

"""Forgetting, for good: from the ledger at once, and from whatever else may still hold it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from memory.errors import IndexFault, MemoryNotFound, StillStatedBy
from memory.index import IndexSlot
from memory.ledger import DecisionRecord, Ledger, Writer
from memory.models import Action, Decision, Memory
from memory.store.forgotten_turns import forget_turns, forget_turns_of
from memory.text import clean

logger = logging.getLogger(__name__)

_UNSCRUBBED = "unscrubbed"
"""Set in the ledger until index and log hold nothing more of what was forgotten."""


@dataclass(frozen=True)
class Forgotten:
    """What a memory was; `erased` is False while an index or a log still has to be scrubbed."""

    memory: Memory
    erased: bool
    origins: tuple[Memory, ...] = ()
    """All that it was made from, gone with it."""
    set_aside: tuple[str, ...] = ()
    """Damaged ledgers that a restore set aside: they may hold anything, and are left to people."""


def erase(writer: Writer, memory_id: str, at: datetime) -> tuple[Memory, tuple[Memory, ...]]:
    """Erase a memory and all it was made from; gives what it was, and what they were.

    Tombstones keep the ids. Text, metadata, vectors, links, distinct pairs, turns that wait, items
    whose text they were, and what decisions recorded of them go. A vector or a pair that another
    memory's same text needs stays. Every index is marked as stale: an earlier state of the memory
    may have been copied.

    Raises: MemoryNotFound, StillStatedBy.
    """
    memory = _living(writer, memory_id)
    [origins] = _erase_all(writer, [memory], at)
    forget_turns(writer, [memory, *origins])
    return memory, origins


def forget_user(ledger: Ledger, slot: IndexSlot, user: str, at: datetime) -> list[Forgotten]:
    """As `MemoryStore.forget`, all that is about a user; what they said is not extracted either."""
    user = clean(user)
    with ledger.writing() as writer:
        memories = [row.memory for row in writer.memories.live_of(user)]
        forget_turns_of(writer, user)
        writer.episodes.forget_user(user)
        origins = _erase_all(writer, memories, at)
    aside = tuple(ledger.set_aside_files())
    erased = scrub(ledger, slot) and not aside
    return [
        Forgotten(memory, erased=erased, origins=its, set_aside=aside)
        for memory, its in zip(memories, origins, strict=True)
    ]


def _erase_all(
    writer: Writer, memories: Sequence[Memory], at: datetime
) -> list[tuple[Memory, ...]]:
    """What each of these live memories was made from, gone with it."""
    origins = [writer.memories.ancestors(memory.id) for memory in memories]
    ids = [*(memory.id for memory in memories), *(name for names in origins for name in names)]
    rows = writer.memories.rows(ids)
    writer.episodes.forget(ids)
    writer.items.forget(ids)
    writer.memories.bury(ids)
    keys = {row.text_key for row in rows.values()}
    writer.drop_unused_texts(keys)
    writer.readings.drop(keys)
    _forget_reasons(writer, writer.decisions.scrub(set(ids)))
    writer.followers.mark_all_stale()
    writer.set_meta(_UNSCRUBBED, uuid4().hex)
    if memories:
        told = Decision(Action.FORGET, "forgotten", tuple(memories))
        writer.decisions.record(told, writer.memories.image([]), at, None)
    return [tuple(rows[name].memory for name in names) for names in origins]


def _forget_reasons(writer: Writer, scrubbed: Sequence[DecisionRecord]) -> None:
    """A judge's reason may quote any member of its group, and stands with every pair of it."""
    judged = [record for record in scrubbed if record.model is not None]
    rows = writer.memories.rows([name for record in judged for name in record.involved])
    keys = {row.text_key for row in rows.values()}
    reasons = {record.reason for record in judged}
    writer.distinct.forget_reasons(reasons, keys)
    writer.decisions.forget_reasons(reasons, keys)


def _living(writer: Writer, memory_id: str) -> Memory:
    row = writer.memories.row(memory_id)
    alive = writer.memories.living(row) if row is not None else None
    if row is None or alive is None:
        raise MemoryNotFound(memory_id)
    if alive.memory.id != memory_id:
        raise StillStatedBy(memory_id, alive.memory.id)
    return alive.memory


def scrub(ledger: Ledger, slot: IndexSlot) -> bool:
    """Clear index and log of what was forgotten; whether nothing is left anywhere."""
    with ledger.reading() as reader:
        forgotten = reader.meta(_UNSCRUBBED)
        stale = reader.followers.stale()
    if forgotten is None and not stale:
        return True
    if stale:
        _scrub_index(slot)
    emptied = ledger.checkpoint()
    with ledger.writing() as writer:
        clean = emptied and not writer.followers.stale()
        if clean and writer.meta(_UNSCRUBBED) == forgotten:  # else another came meanwhile
            writer.drop_meta(_UNSCRUBBED)
    return clean


def _scrub_index(slot: IndexSlot) -> None:
    try:
        slot.serving.scrub()
    except IndexFault as exc:
        logger.warning("the index is not scrubbed yet: %s", exc)

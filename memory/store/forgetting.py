"""Erases memories for good: from the ledger, then from the search index and the database's log."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import uuid4

from memory.errors import IndexFault, LedgerError, MemoryNotFound, StillStatedBy
from memory.ledger import (
    FORGOTTEN_REASON,
    NOTHING_BEFORE,
    DecisionRecord,
    Ledger,
    Reader,
    Row,
    Writer,
)
from memory.models import Action, Decision, Memory
from memory.search import SearchRouter
from memory.store.forgotten_turns import ComparisonCache, TurnsToForget, forget_turns_of
from memory.text import clean

logger = logging.getLogger(__name__)

_COMPARISONS = 2
"""How often `erase` compares turns with the memory before its transaction.

The second comparison is short, because only turns that arrived during the first are new.
"""
_UNSCRUBBED = "unscrubbed"
"""Metadata key in the ledger, set while an index or the log may still hold forgotten memories."""


@dataclass(frozen=True)
class Forgotten:
    """The result of erasing a memory; `memory` is the memory as it was before.

    `erased` is False if a search index, the database's log or a copy of the ledger may still hold
    the memory.
    """

    memory: Memory
    erased: bool
    origins: tuple[Memory, ...] = ()
    """The retired memories that the memory had replaced. They were erased too."""
    set_aside: tuple[str, ...] = ()
    """Paths of ledger copies that a restore or an upgrade left. A person must delete them."""


def erase(ledger: Ledger, memory_id: str, at: datetime) -> tuple[Memory, tuple[Memory, ...]]:
    """Erase a memory and all retired memories that it replaced.

    Return the memory, and a tuple of the retired memories, as they were before.

    Only the ids of these memories stay. Their texts, metadata, vectors, links and verdicts are
    erased, but a vector or a verdict stays if another memory has the same text. Items (values
    stored under a key) that became these memories are deleted. The words of these memories are
    removed from waiting turns and from recorded decisions. All search indexes are marked as stale,
    because an index may have copied an earlier state of the memories. `at` is recorded as the time
    of the erasure.

    Raises: MemoryNotFound; StillStatedBy if the memory was retired and its successor is live;
    LedgerError.
    """
    comparisons = ComparisonCache()
    for _ in range(_COMPARISONS):
        with ledger.reading() as reader:
            turns = TurnsToForget(reader, _with_origins(reader, memory_id)[1])
        turns.compare(comparisons)
    with ledger.writing() as writer:
        rows, gone = _with_origins(writer, memory_id)
        turns = TurnsToForget(writer, gone)
        turns.compare(comparisons)
        _erase_rows(writer, rows, at)
        turns.write(writer)
    return gone[0], tuple(gone[1:])


def _with_origins(reader: Reader, memory_id: str) -> tuple[list[Row], list[Memory]]:
    """Return what to erase to forget a memory: the rows, and the memories in these rows.

    The first of the memories is the one with the id `memory_id`. The others are its origins, the
    retired memories that it replaced. The rows are in no fixed order.

    Raises: MemoryNotFound; StillStatedBy if the memory was retired and its successor is live.
    """
    row = reader.memories.row(memory_id)
    alive = reader.memories.living(row) if row is not None else None
    if alive is None:
        raise MemoryNotFound(memory_id)
    if alive.memory.id != memory_id:
        raise StillStatedBy(memory_id, alive.memory.id)
    rows = reader.memories.rows([memory_id, *reader.memories.ancestors(memory_id)])
    origins = (row.memory for name, row in rows.items() if name != memory_id)
    return list(rows.values()), [alive.memory, *origins]


@dataclass(frozen=True)
class ForgottenUser:
    """The result of erasing everything about a user.

    `erased` is False if a search index, the database's log or a copy of the ledger may still hold
    something. `set_aside` has the paths of ledger copies that a person must delete.
    """

    memories: int
    """The number of the user's memories that were live."""
    erased: bool
    set_aside: tuple[str, ...] = ()


def forget_user(
    ledger: Ledger, index: SearchRouter, user: str, at: datetime, *, at_once: int = 200
) -> ForgottenUser:
    """Erase everything about a user: memories, episodes, and turns that wait for extraction.

    Each transaction erases `at_once` memories and the memories that they replaced. If the process
    crashes between two transactions, call this function again to erase the rest. At the end, the
    forgotten memories are removed from the search index `index`. `at` is recorded as the time of
    the erasure.

    Raises: LedgerError.
    """
    user = clean(user)
    with ledger.writing() as writer:
        _forget_said_by(writer, user)
    count = 0
    try:
        while (erased := _forget_some_of(ledger, user, at, at_once)) is not None:
            count += erased
    except LedgerError as exc:
        problem = f"{count:,} memories of {user} are erased, others are not: {exc.problem}"
        remedy = f"{exc.remedy}; then forget the user again" if exc.remedy else "forget them again"
        raise LedgerError(problem, remedy) from exc
    aside = tuple(ledger.set_aside_files())
    return ForgottenUser(count, scrub(ledger, index) and not aside, aside)


def _forget_some_of(ledger: Ledger, user: str, at: datetime, most: int) -> int | None:
    """Erase up to `most` memories of a user, and the retired memories that they replaced.

    Return how many of the erased memories were live. If the user has no memories left, erase the
    user's turns and episodes instead, and return None. `at` is recorded as the time of the erasure.
    """
    with ledger.writing() as writer:
        rows = writer.memories.first_of(user, most)
        if not rows:
            _forget_said_by(writer, user)  # what was said meanwhile
            return None
        names = [row.memory.id for row in rows]
        origins = writer.memories.rows(writer.memories.ancestors(*names))
        _erase_rows(writer, [*rows, *origins.values()], at)
    return sum(row.live for row in rows)


def _forget_said_by(writer: Writer, user: str) -> None:
    """Erase a user's turns and episodes, inside the writer's transaction.

    Also record that the search index and the database's log may still hold forgotten texts.
    """
    forget_turns_of(writer, user)
    writer.episodes.forget_user(user)
    writer.set_meta(_UNSCRUBBED, uuid4().hex)


def _erase_rows(writer: Writer, rows: Sequence[Row], at: datetime) -> None:
    """Erase the memories in `rows`, live or retired, and what the ledger recorded about them.

    `at` is recorded as the time of the erasure.
    """
    ids = [row.memory.id for row in rows]
    keys = {row.text_key for row in rows}
    writer.items.forget(ids)
    writer.memories.tombstone(ids)
    writer.drop_unused_texts(keys)
    writer.readings.drop(keys)
    scrubbed = writer.decisions.scrub(set(ids))
    _forget_reasons(writer, scrubbed)
    # what an undone decision made of them had taken up their words
    made = {name for record in scrubbed if record.undone for name, _ in record.survivors}
    writer.episodes.forget(made.union(ids))
    writer.followers.mark_all_stale()
    writer.set_meta(_UNSCRUBBED, uuid4().hex)
    live = tuple(row.memory for row in rows if row.live)
    if live:
        decision = Decision(Action.FORGET, FORGOTTEN_REASON, live)
        writer.decisions.record([(decision, NOTHING_BEFORE)], at, None)


def _forget_reasons(writer: Writer, scrubbed: Sequence[DecisionRecord]) -> None:
    """Erase the reasons that models gave for the decisions `scrubbed`, wherever they are stored.

    `scrubbed` are the decisions about forgotten memories, as they were before the erasure. A reason
    may quote a forgotten memory. The same reason is also erased from verdicts on the texts of these
    decisions, and from other decisions about these texts.
    """
    judged = [record for record in scrubbed if record.model is not None]
    reasons = {record.reason for record in judged} - {FORGOTTEN_REASON}
    if not reasons:
        return
    rows = writer.memories.rows([name for record in judged for name in record.involved])
    keys = {row.text_key for row in rows.values()}
    writer.distinct.forget_reasons(reasons, keys)
    writer.decisions.forget_reasons(reasons, keys)


def scrub(ledger: Ledger, index: SearchRouter) -> bool:
    """Erase what the search index and the database's log still hold of forgotten memories.

    Return whether both are free of forgotten memories afterwards.
    """
    with ledger.reading() as reader:
        forgotten = reader.meta(_UNSCRUBBED)
        stale = reader.followers.stale()
    if forgotten is None and not stale:
        return True
    if stale:
        with ledger.writing() as writer:
            for place in stale:
                if Path(place).is_absolute() and not Path(place).exists():
                    writer.followers.drop_others(place, "")  # its owner deleted the index
        try:
            index.scrub()
        except IndexFault as exc:
            logger.debug("the index is not scrubbed yet: %s", exc)  # the result says so too
    emptied = ledger.checkpoint()
    with ledger.writing() as writer:
        clean = emptied and not writer.followers.stale()
        if clean and writer.meta(_UNSCRUBBED) == forgotten:  # else another came meanwhile
            writer.drop_meta(_UNSCRUBBED)
    return clean

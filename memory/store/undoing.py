"""Undoes decisions: the members get back their texts, values and links."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from itertools import combinations
from typing import Any

from memory.errors import CannotUndo
from memory.ledger import (
    NOTHING_BEFORE,
    REVERSIBLE,
    DecisionRecord,
    Ledger,
    Reader,
    Row,
    TextPair,
    Writer,
    seen_from,
)
from memory.models import Action, Decision, Memory, MemoryLink, Scope


def plan_undo(reader: Reader, target: int | str) -> list[DecisionRecord]:
    """Return the decisions that undoing `target` would undo, newest first; change nothing.

    `target` is the number of a decision or the name of a run.

    >>> older = memories.remember("Olu rows.", user="Olu")
    >>> newer = memories.remember("Olu rows!", user="Olu")
    >>> with store.ledger.reading() as reader:
    ...     [record.action.value for record in plan_undo(reader, newer.number)]
    ['replace']

    Raises: CannotUndo if there is nothing to undo, if a later decision builds on one of the
    decisions, or if a member was forgotten.
    """
    doomed = [_one(reader, target)] if isinstance(target, int) else _whole_run(reader, target)
    numbers = {one.number for one in doomed}
    later: set[int] = set()
    for one in doomed:
        is_edge = one.action is Action.SUPERSEDE  # only the edge is taken back
        later.update(reader.decisions.after(one) if one.survivors and not is_edge else ())
        later.update(reader.decisions.parted_after(one) if one.verdicts else ())
    later -= numbers
    if later:
        raise CannotUndo(target, f"decisions {sorted(later)} build on it", "undo those first")
    if scrubbed := [one.number for one in doomed if one.scrubbed]:
        raise CannotUndo(target, f"a member of decision {scrubbed} was forgotten since")
    return sorted(doomed, key=lambda one: -one.number)


def _one(reader: Reader, number: int) -> DecisionRecord:
    record = reader.decisions.get(number)
    if record is None:
        raise CannotUndo(number, "there is no such decision")
    if record.undone:
        raise CannotUndo(number, "it is undone already")
    if not record.reversible:
        raise CannotUndo(number, f"{record.action} retired nothing")
    return record


def _whole_run(reader: Reader, run: str) -> list[DecisionRecord]:
    decided = reader.decisions.of_run(run)
    if not decided:
        raise CannotUndo(run, "there is no such run", "see `memory-dedup history --runs`")
    doomed = [one for one in decided if one.reversible and not one.undone]
    if not doomed:
        raise CannotUndo(run, "there is nothing left to take back")
    return doomed


def undo(
    writer: Writer,
    target: int | str,
    scope_of: Callable[[Memory], Scope],
    clock: Callable[[], datetime],
    keep_apart: bool,
) -> list[DecisionRecord]:
    """Undo the decisions that `plan_undo` returns for `target`, and return them.

    `keep_apart`: whether memories joined by an undone decision are recorded as distinct. The record
    counts as a person's verdict, so no batch joins these memories again.

    Raises: CannotUndo if any part cannot be undone; nothing is undone then.
    """
    undone = plan_undo(writer, target)
    for record in undone:
        if record.action is Action.SUPERSEDE:
            _take_back_edges(writer, record)
        elif record.survivors:
            _take_back(writer, record)
        writer.distinct.restore(record.verdicts)
        writer.decisions.mark_undone(record.number, pending=False)
        members = [row.memory for row in writer.memories.rows(record.members).values()]
        if record.survivors and keep_apart:
            keys = {member.id: member.dated_key for member in members}
            joined = [
                [member for member in members if member.id in {survivor, *stands_for}]
                for survivor, stands_for in record.survivors
            ]
            why = "does not end it" if record.action is Action.SUPERSEDE else "kept by a person"
            parted = [
                (scope_of(a), keys[a.id], keys[b.id], why)
                for together in joined
                for a, b in combinations(together, 2)
            ]
            writer.distinct.mark_all(parted, "person")
        decision = Decision(Action.UNDO, f"decision {record.number} taken back", tuple(members))
        writer.decisions.record([(decision, NOTHING_BEFORE)], clock(), None)
    return undone


def reopen_pending(
    ledger: Ledger,
    unasked: Callable[[Reader], set[TextPair]],
    scope_of: Callable[[Memory], Scope],
    most: int,
    scope: Scope | None = None,
) -> list[DecisionRecord]:
    """Return pending decisions, so that the caller can ask the model; undo them where possible.

    `scope`: only decisions about memories of this scope.

    Pending decisions were made without the model's answer. At most `most` are returned, oldest
    first. The returned decisions stay pending until `close_pending` is called.

    A returned decision stays in force if later decisions build on it, or if one of its members was
    forgotten. A decision that retired nothing needs no undo.

    A pending decision is left as it is, and not returned, in two cases:

    - The texts of two members are a pair that `unasked` returns. The model must not be asked about
      these pairs.
    - The decision retired memories, a later decision builds on it, and at most one of the members'
      texts is live.

    Raises: LedgerError.
    """
    with ledger.reading() as reader:
        if not reader.decisions.count_pending():
            return []
    with ledger.writing() as writer:
        closed = unasked(writer)
        waiting = writer.decisions.pending()
        if scope is not None:
            rows = writer.memories.rows([record.members[0] for record in waiting])
            own = {name for name, row in rows.items() if scope_of(row.memory) == scope}
            waiting = [record for record in waiting if record.members[0] in own]
        numbers = {record.number for record in waiting}
        questions = [
            record
            for record in waiting
            if not _pairs_of(writer, record, scope_of) & closed
            and not _is_superseded(writer, record, numbers)
        ][:most]
        reopened = set[int]()
        for record in reversed(questions):
            if _is_undoable(record) and not writer.decisions.after(record):
                _take_back(writer, record)
                writer.decisions.mark_undone(record.number, pending=True)
                reopened.add(record.number)
        return [
            record
            for record in questions
            if record.number in reopened or not _is_superseded(writer, record, set())
        ]


def _is_undoable(record: DecisionRecord) -> bool:
    return record.action in REVERSIBLE and not record.undone and not record.scrubbed


def _is_superseded(reader: Reader, record: DecisionRecord, open_numbers: Collection[int]) -> bool:
    """Return whether a later decision builds on this one and at most one member's text is live.

    The question whether the members state the same fact is then settled.

    Later decisions with a number in `open_numbers` do not count, because the caller may undo them.
    """
    if not _is_undoable(record) or set(reader.decisions.after(record)) <= set(open_numbers):
        return False
    rows = reader.memories.rows(record.members).values()
    return (
        len({row.dated_key for row in rows if row.live}) < 2 <= len({row.dated_key for row in rows})
    )


def _pairs_of(
    reader: Reader, record: DecisionRecord, scope_of: Callable[[Memory], Scope]
) -> set[TextPair]:
    rows = reader.memories.rows(record.members).values()
    return {
        (scope_of(a.memory).key, min(a.dated_key, b.dated_key), max(a.dated_key, b.dated_key))
        for a, b in combinations(rows, 2)
    }


def close_pending(ledger: Ledger, questions: Sequence[DecisionRecord]) -> None:
    """Record that these decisions, which `reopen_pending` returned, are no longer pending."""
    if questions:
        with ledger.writing() as writer:
            writer.decisions.close(record.number for record in questions)


def _take_back_edges(writer: Writer, record: DecisionRecord) -> None:
    """Make the superseded memories of a decision live again, with their links.

    If another memory, which is not retired for another reason, supersedes one of them too, that one
    becomes its successor instead. Nothing else of the decision is taken back.
    """
    links = json.loads(record.before)["links"]
    for survivor, ended in record.survivors:
        for name in ended:
            row = writer.memories.row(name)
            if row is None or row.until is None or row.successor_id != survivor:
                continue
            other = _other_end(writer, record, name)
            if other is not None:
                writer.memories.retire([(name, other.memory.id)])
                writer.superseded.end({name: other.memory.said or other.memory.timestamp})
                continue
            writer.superseded.revive(name)
            own = [
                (low, MemoryLink(target_id=high, link_type=kind, note=note, confidence=confidence))
                for low, high, kind, note, confidence in links
                if name in (low, high)
            ]
            writer.memories.restore_links(own)


def _other_end(writer: Writer, record: DecisionRecord, name: str) -> Row | None:
    for one in writer.decisions.about(name):
        if one.action is not Action.SUPERSEDE or one.undone or one.number == record.number:
            continue
        for survivor, ended in one.survivors:
            row = writer.memories.row(survivor)
            if name in ended and row is not None and (row.live or row.until is not None):
                return row
    return None


def _take_back(writer: Writer, record: DecisionRecord) -> None:
    """Restore a decision's members and their links, and erase the memories that it created.

    If a link between two memories was made after the decision, it stays. If it was a link of an
    erased memory, it becomes a link of the newest member.
    """
    before = json.loads(record.before)["links"]
    links = [
        (low, MemoryLink(target_id=high, link_type=kind, note=note, confidence=confidence))
        for low, high, kind, note, confidence in before
    ]
    links += _later_links(writer, record, before)
    keys = {row.text_key for row in writer.memories.rows(record.involved).values()}
    writer.links.drop(record.members)
    writer.memories.tombstone(record.created)
    writer.memories.restore(record.before)
    writer.memories.restore_links(links)
    writer.drop_unused_texts(keys)


def _later_links(
    writer: Writer, record: DecisionRecord, before: Sequence[Sequence[Any]]
) -> list[tuple[str, MemoryLink]]:
    successor = {name: survivor for survivor, retired in record.survivors for name in retired}
    ends = {end for link in before for end in link[:2]}
    alive = writer.memories.resolved(ends)
    found = {frozenset(successor.get(end) or alive.get(end) for end in link[:2]) for link in before}
    instead = dict.fromkeys(record.created, record.members[-1])
    later = []
    for link in writer.links.touching([survivor for survivor, _ in record.survivors]):
        if frozenset((link.low_id, link.high_id)) not in found:
            end = seen_from(link.low_id, link)
            moved = end.model_copy(update={"target_id": instead.get(end.target_id, end.target_id)})
            later.append((instead.get(link.low_id, link.low_id), moved))
    return later

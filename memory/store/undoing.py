"""Undoes decisions: the members get back their texts, values and links."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import combinations

from memory.errors import CannotUndo
from memory.ledger import (
    NOTHING_BEFORE,
    REVERSIBLE,
    DecisionRecord,
    Ledger,
    Reader,
    Writer,
    seen_from,
)
from memory.models import INVERSE_LINK, Action, Decision, Memory, MemoryLink, Row, Scope, TextPair
from memory.text import clean


def plan_undo(reader: Reader, target: int | str) -> list[DecisionRecord]:
    """Return the decisions that undoing `target` would undo, newest first; change nothing.

    `target` is the number of a decision, the name of a run, or the id of a memory, which means the
    latest decision about it that can be undone.

    >>> older = memories.remember("Olu rows.", user="Olu")
    >>> newer = memories.remember("Olu rows!", user="Olu")
    >>> with store.ledger.reading() as reader:
    ...     [record.action.value for record in plan_undo(reader, newer.number)]
    ['replace']

    Raises: CannotUndo if there is nothing to undo, if a later decision builds on one of the
    decisions, or if a member was forgotten.
    """
    doomed = [_one(reader, target)] if isinstance(target, int) else _of_name(reader, target)
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


def _of_name(reader: Reader, name: str) -> list[DecisionRecord]:
    run = reader.decisions.of_run(name)
    decided = run or reader.decisions.about(clean(name))
    if not decided:
        remedy = "see `memory-dedup history`, also with --runs"
        raise CannotUndo(name, "there is no such run, and no such memory", remedy)
    doomed = [one for one in decided if one.reversible and not one.undone]
    if not doomed:
        raise CannotUndo(name, "there is nothing left to take back")
    return doomed if run else doomed[-1:]


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
        writer.decisions.mark_undone(record, pending=False)
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
    return [replace(record, undone=True) for record in undone]


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
                writer.decisions.mark_undone(record, pending=True)
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
    links = _links_before(record)
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
            writer.memories.restore_links([one for one in links if name in _ends(one)])
    _prolong_as_items(writer, record)


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

    What was written after the decision stays: new links, new labels of links, and later expiries. A
    new link of an erased memory becomes a link of the newest member.
    """
    rows = writer.memories.rows(record.involved)
    links = [*_later_links(writer, record), *_links_before(record)]
    writer.links.drop(record.members)
    writer.memories.tombstone(record.created)
    writer.memories.restore(record.before)
    writer.memories.restore_links(links)  # of two links of the same memories, the first
    _prolong_as_survivors(writer, record, rows)
    _prolong_as_items(writer, record)
    writer.drop_unused_texts({row.text_key for row in rows.values()})


def _prolong_as_survivors(writer: Writer, record: DecisionRecord, was: Mapping[str, Row]) -> None:
    """Let members live as long as a later write let the memory live that stood for them.

    `was`: the rows before the undo. A decision itself gives a survivor the latest expiry of all.
    """
    restored = [row.memory for row in writer.memories.rows(record.members).values()]
    for survivor, stands_for in record.survivors:
        ends = was[survivor].memory
        if not any(memory.lasts_as_long_as(ends) for memory in restored):
            for name in {survivor, *stands_for}.intersection(record.members):
                writer.superseded.prolong(name, ends.expires_at)


def _prolong_as_items(writer: Writer, record: DecisionRecord) -> None:
    """Let members live as long as the items of which they were made."""
    for item in writer.items.of_memories(record.members):
        if item.memory_id is not None:
            writer.superseded.prolong(item.memory_id, item.expires_at)


Link = tuple[str, MemoryLink]
"""The id of a memory, and a link from this memory."""


def _links_before(record: DecisionRecord) -> list[Link]:
    return [
        (low, MemoryLink(target_id=high, link_type=kind, note=note, confidence=confidence))
        for low, high, kind, note, confidence in json.loads(record.before)["links"]
    ]


def _ends(link: Link) -> tuple[str, str]:
    return link[0], link[1].target_id


def _later_links(writer: Writer, record: DecisionRecord) -> list[Link]:
    """Return the links of survivors that were made or labelled after the decision.

    They are returned as the links of members that they will be. If the decision joined several
    links into one, the new label is for the one that it kept.
    """
    successor = {name: survivor for survivor, retired in record.survivors for name in retired}
    rank = {name: n for n, name in enumerate([*dict(record.survivors), *successor])}
    before = sorted(
        _links_before(record), key=lambda link: min(rank.get(end, len(rank)) for end in _ends(link))
    )
    alive = writer.memories.resolved({end for link in before for end in _ends(link)})
    known: dict[tuple[str | None, ...], list[Link]] = {}
    for link in before:
        for one in (link, _reversed(link)):
            places = (successor.get(end) or alive.get(end) for end in _ends(one))
            known.setdefault(tuple(places), []).append(one)
    instead = dict.fromkeys(record.created, record.members[-1])
    later = []
    for row in writer.links.touching([survivor for survivor, _ in record.survivors]):
        now = seen_from(row.low_id, row)
        was = known.get((row.low_id, row.high_id), [])
        if any(now == one.model_copy(update={"target_id": row.high_id}) for _, one in was):
            continue
        source, target = row.low_id, row.high_id
        if was and all(end in successor or alive[end] == end for end in _ends(was[0])):
            source, target = _ends(was[0])
        moved = now.model_copy(update={"target_id": instead.get(target, target)})
        later.append((instead.get(source, source), moved))
    return later


def _reversed(link: Link) -> Link:
    kind = INVERSE_LINK[link[1].link_type]
    return link[1].target_id, link[1].model_copy(update={"target_id": link[0], "link_type": kind})

"""Plan a write-back: merge rows of another program's collection as their memories were merged.

The rows of the collection were imported as memories. Then a clean-up in this program merged some of
these memories. If the memories of several rows were merged into one memory, the write-back turns
these rows into one row. The row that stays is called `kept`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from memory.coverage import covers
from memory.interchange.collection import changes_for
from memory.interchange.foreign import EXPIRY, ForeignRow, Reading, as_memory, moment
from memory.interchange.selection import in_namespaces
from memory.ledger import Ledger
from memory.models import Memory

_OWNERS = ("user_id", "userId", "agent_id", "run_id", "actor_id", "session_id", "thread_id",
           "app_id", "org_id", "project_id", "tenant_id", "namespace")  # fmt: skip
"""Metadata keys by which queries of the other program select rows."""
_IDENTITY = (*_OWNERS, *EXPIRY)
"""The metadata keys that decide which queries find a row, and until when they find it."""
ACROSS = tuple(name for name in _IDENTITY if name not in ("user_id", "userId"))
"""The metadata keys that the option `--across` may name.

Normally a row replaces another row only if both have the same values of the keys in `_IDENTITY`.
They may differ in the keys that the option names. A row never replaces rows of another user.
"""
_COMPARED = ("content", "user", "timestamp", "is_private", "tags", "metadata", "category",
             "importance", "intensity", "emotion")  # fmt: skip
"""Fields of a memory that must be as they were at the import; otherwise its row is left alone."""

_NEVER = datetime.max.replace(tzinfo=UTC)
_BY_USER = Reading(user_key="user")
_NOT_METADATA = {"id", "external_id", "content", "metadata", "linked_ids", "merged_from"}
_OF_A_TURN = ({"conversation", "turn"}, {"conversation", "turn", "turns"})
"""The metadata keys of a memory that this program extracted from turns, and did not import."""

OwnWork = Mapping[str, Sequence[tuple[ForeignRow, ForeignRow]]]
"""The rows that earlier write-backs updated, by row id: each row before and after each update."""


@dataclass(frozen=True)
class RowChange:
    """A planned change of a row; `said` is the text that the row has now."""

    row: ForeignRow
    said: str


@dataclass(frozen=True)
class Update(RowChange):
    """A planned change of a row's text to `text`."""

    text: str


@dataclass(frozen=True)
class Deletion(RowChange):
    """A planned deletion of a row, because the row `kept` replaces it."""

    kept: ForeignRow


@dataclass(frozen=True)
class LeftAlone:
    """A row that the clean-up would change, but that a write-back skips.

    `id` is the row's id; `why` is the reason, worded for people.
    """

    id: str
    why: str


@dataclass(frozen=True)
class Staying:
    """A row that must stay, although its memory was merged with the memory of the row `kept`.

    The two rows differ in metadata keys by which queries filter rows. So a query that finds `row`
    would not find `kept`.
    """

    row: ForeignRow
    kept: ForeignRow
    apart: tuple[str, ...]
    """The keys in which `row` and `kept` differ, such as `agent_id`."""


@dataclass(frozen=True)
class WriteBackPlan:
    """The changes that a write-back is to make in a collection, and the rows that it skips.

    `left_alone` has the rows that the clean-up would change, but that the write-back skips.
    `staying` has the rows that must stay although their memories were merged into other memories.
    """

    updates: tuple[Update, ...]
    deletions: tuple[Deletion, ...]
    left_alone: tuple[LeftAlone, ...]
    unknown: int
    """The number of rows of the collection that the plan does not know.

    Such a row is not as it was imported, or its memory was forgotten after the import. Rows in
    `left_alone` are not counted.
    """
    staying: tuple[Staying, ...] = ()

    @property
    def changes(self) -> tuple[RowChange, ...]:
        """All updates, then all deletions."""
        return (*self.updates, *self.deletions)

    def without(self, ids: Iterable[str], why: str) -> WriteBackPlan:
        """Return a copy of this plan that does not change the rows with the ids `ids`.

        These rows go into `left_alone`, with the reason `why`. If a skipped row was to replace
        another row, the other row is not deleted, and goes into `left_alone` too.
        """
        skipped = set(ids)
        named = [
            LeftAlone(change.row.id, why) for change in self.changes if change.row.id in skipped
        ]
        dependent = [
            LeftAlone(deletion.row.id, f"{deletion.kept.id} would stand for it: {why}")
            for deletion in self.deletions
            if deletion.kept.id in skipped and deletion.row.id not in skipped
        ]
        rest = {change.row.id for change in self.changes} - {
            left.id for left in (*named, *dependent)
        }
        return replace(
            self,
            updates=tuple(update for update in self.updates if update.row.id in rest),
            deletions=tuple(deletion for deletion in self.deletions if deletion.row.id in rest),
            left_alone=(*self.left_alone, *named, *dependent),
        )


@dataclass(frozen=True, eq=False)
class _Known:
    """A row that nobody changed after it was imported or written back, with its live memory."""

    row: ForeignRow
    memory: Memory
    """The row as it is now, read as a memory."""
    arrived_as: str
    """The id of the memory that the import made from the row."""
    alive: Memory
    """The live memory that stands for the row now: the memory in `arrived_as`, or its successor."""
    seen: dict[str, str]
    """The row's values by which queries find it, by metadata key; its expiry is included."""


def plan_write_back(
    rows: Sequence[ForeignRow],
    reading: Reading,
    ledger: Ledger,
    across: Collection[str] = (),
    own_work: OwnWork | None = None,
) -> WriteBackPlan:
    """Plan a write-back: rows whose memories were merged into one memory become one row.

    `rows`: all rows of the collection, as they are now. `reading`: how the rows were read at the
    import. `ledger`: the ledger into which the rows were imported. `across`: metadata keys, such as
    `run_id`, in which a row may differ from the row that replaces it; in all other keys of
    `_IDENTITY`, the two rows must be equal. `own_work`: the updates that earlier write-backs made.

    The plan changes a row only if nobody but an earlier write-back changed it since the import. The
    row's memory is found by the row's id, user, time and text. Then all values of the row and of
    the imported memory are compared. For a row in `own_work`, the row before the updates is used.
    """
    if reading.namespaces is not None:
        rows = in_namespaces(rows, reading.namespaces)
    read = list(_as_imported(rows, reading, own_work or {}))
    with ledger.reading() as reader:
        arrivals = reader.memories.earlier_arrivals([before for _, _, before in read])
        arrived = [None if row is None else row.memory for row, _ in arrivals]
        living = reader.memories.living_rows(memory.id for memory in arrived if memory)
        first = reader.decisions.first_states()
    known: list[_Known] = []
    changed: list[LeftAlone] = []
    for (row, memory, before), arrival in zip(read, arrived, strict=True):
        if arrival is None or arrival.id not in living:
            continue
        alive = living[arrival.id].memory
        imported = first.get(arrival.id, arrival)
        if all(getattr(imported, name) == getattr(before, name) for name in _COMPARED):
            known.append(_Known(row, memory, arrival.id, alive, _seen_as(row, reading)))
        elif alive.id != arrival.id or alive.content != memory.content:
            changed.append(LeftAlone(row.id, "its metadata changed since it was imported"))
    unknown = len(rows) - len(known) - len(changed)
    return replace(_plan_of(known, across), left_alone=tuple(changed), unknown=unknown)


def _plan_of(rows: Sequence[_Known], across: Collection[str]) -> WriteBackPlan:
    """Return the plan for rows whose live memories are known.

    Rows form a group if the same live memory stands for them. One row of a group is kept. Each of
    the others is deleted, or must stay because `kept` differs from it in a key by which queries
    find rows. `across`: keys in which a row may differ from the row that replaces it.
    """
    groups: dict[str, list[_Known]] = {}
    for row in rows:
        groups.setdefault(row.alive.id, []).append(row)
    updates: list[Update] = []
    deletions: list[Deletion] = []
    staying: list[Staying] = []
    for group in groups.values():
        best = max(reversed(group), key=_worth)
        parts = _seen_together(group, across)
        kept = max(reversed(next(part for part in parts if best in part)), key=_lasting)
        if kept.memory.content != kept.alive.content:
            updates.append(Update(kept.row, kept.memory.content, kept.alive.content))
        for part in parts:
            stand_ins = ((row, kept) for row in part) if kept in part else _stand_ins(part)
            for row, stand_in in stand_ins:
                if stand_in is None:
                    staying.append(Staying(row.row, kept.row, _apart(row, kept)))
                elif stand_in is not row:
                    deletions.append(Deletion(row.row, row.memory.content, stand_in.row))
    return WriteBackPlan(tuple(updates), tuple(deletions), (), 0, tuple(staying))


def _seen_together(group: Sequence[_Known], across: Collection[str]) -> list[list[_Known]]:
    """Split a group of rows into parts; a query finds either all rows of a part or none of them.

    Rows of a part have the same values of the metadata keys by which queries filter. The keys in
    `across` are not compared.
    """
    parts: dict[tuple[tuple[str, str], ...], list[_Known]] = {}
    for row in group:
        seen = tuple(item for item in row.seen.items() if item[0] not in across)
        parts.setdefault(seen, []).append(row)
    return list(parts.values())


def _stand_ins(part: Sequence[_Known]) -> Iterator[tuple[_Known, _Known | None]]:
    """Yield each row of `part` with another row of `part` that can replace it, or with None.

    None means that no other row can replace the row, so it must stay. Row A can replace row B if
    the text of A states everything that the text of B states, or is the text of the live memory.

    `part` does not contain the row that the whole group keeps. Only that row gets the merged text,
    so all rows of `part` keep their texts.
    """
    staying: list[_Known] = []
    for row in sorted(part, key=_lasting, reverse=True):
        stand_ins = (
            other
            for other in staying
            if other.memory.content == other.alive.content
            or covers(other.memory.content, row.memory.content)
        )
        stand_in = next(stand_ins, None)
        if stand_in is None:
            staying.append(row)
        yield row, stand_in


def _apart(row: _Known, kept: _Known) -> tuple[str, ...]:
    """Return the metadata keys by which queries find rows, and in which these two rows differ."""
    keys = {**row.seen, **kept.seen}
    return tuple(name for name in keys if row.seen.get(name) != kept.seen.get(name))


def _as_imported(
    rows: Sequence[ForeignRow], reading: Reading, own_work: OwnWork
) -> Iterator[tuple[ForeignRow, Memory, Memory]]:
    """Yield each row with two memories that are read from the row.

    The first memory is read from the row as it is now. The second one is read from the row as it
    was before the updates in `own_work`, which earlier write-backs made. The two are the same if
    there were no updates. A row that cannot be read as a memory is left out, as it is in an import.
    """
    for row in rows:
        before = _before_own_work(row, own_work)
        try:
            memory = as_memory(row, reading)
            yield row, memory, memory if before is row else as_memory(before, reading)
        except ValueError:
            continue


def _before_own_work(row: ForeignRow, own_work: OwnWork) -> ForeignRow:
    """Return the row as it was before earlier write-backs updated it; `row` itself if none did."""
    updates = list(own_work.get(row.id, ()))
    while update := next((pair for pair in updates if pair[1].says_the_same(row)), None):
        updates.remove(update)
        row = update[0]
    return row


def _seen_as(row: ForeignRow, reading: Reading) -> dict[str, str]:
    """Return, by metadata key, the values of a row that decide which queries find the row.

    If `reading` names a key for the user, this key's value is returned under the key `user`. If the
    store keeps the row's expiry outside of the metadata, it is returned under `expires_at`.
    """
    keys = dict.fromkeys((*_IDENTITY, *([reading.user_key] if reading.user_key else [])))
    seen = {name: str(row.metadata[name]) for name in keys if row.metadata.get(name) is not None}
    if reading.user_key in seen:
        seen["user"] = seen.pop(str(reading.user_key))
    return seen if row.expires is None else seen | {"expires_at": row.expires.isoformat()}


def _worth(row: _Known) -> tuple[bool, bool, datetime]:
    """Return a sort key for rows; the row with the greatest key is the one to keep.

    The key has three parts: whether the row has the live memory's text, whether the row itself was
    imported as the live memory, and the row's time.
    """
    has_text = row.memory.content == row.alive.content
    return has_text, row.arrived_as == row.alive.id, row.memory.timestamp


def _lasting(row: _Known) -> tuple[datetime, tuple[bool, bool, datetime]]:
    """Return a sort key for rows that may replace each other; the greatest is the one to keep.

    A row that expires later has a greater key. If rows expire at the same time, `_worth` decides.
    """
    expiries = (_moment(row.seen[name]) for name in EXPIRY if name in row.seen)
    return min(expiries, default=_NEVER), _worth(row)


def _moment(given: str) -> datetime:
    """Return a time of expiry; `given` is the text of a number, or ISO 8601.

    If `given` cannot be read, the result is the latest possible time: the row never expires, as in
    mem0.
    """
    for form in (float, str):
        try:
            return datetime.fromisoformat(moment(form(given), assume_utc=True))
        except ValueError:
            continue
    return _NEVER


# --- for a store that has no reader here ----------------------------------------------------------


def plan_changes(
    ledger: Ledger, across: Collection[str] = (), rows: Mapping[str, str] | None = None
) -> WriteBackPlan:
    """Plan the changes of a store that this program cannot read, from the ledger alone.

    The rows were imported from a file. The plan names each row by its id in that file, which the
    ledger keeps as `external_id`. `across`: metadata keys in which a row may differ from the row
    that replaces it. `rows`: the texts that the store holds now, by row id; None if they are not
    known. If `rows` does not have a row, or has another text than at the import, the plan does not
    change this row.
    """
    with ledger.reading() as reader:
        first = reader.decisions.first_states()
        arrived: dict[str, Memory] = {}
        for row in reader.memories.all():
            memory = first.get(row.memory.id, row.memory)
            is_ours = memory.external_id is None or memory.metadata.keys() in _OF_A_TURN
            if row.forgotten or is_ours:
                continue
            name = str(memory.external_id)
            if rows is None or rows.get(name) == memory.content:
                arrived[name] = memory
        living = reader.memories.living_rows(memory.id for memory in arrived.values())
    known: list[_Known] = []
    for name, memory in arrived.items():
        if memory.id in living:
            fields = memory.model_dump(mode="json", exclude_defaults=True, exclude=_NOT_METADATA)
            theirs = ForeignRow(name, memory.content, {**memory.metadata, **fields})
            seen = _seen_as(theirs, _BY_USER)
            known.append(_Known(theirs, memory, memory.id, living[memory.id].memory, seen))
    return _plan_of(known, across)


def change_lines(plan: WriteBackPlan, now: datetime) -> list[str]:
    """Return the plan's changes as JSON lines, updates first.

    An update has the row's id, its text and all its metadata; a deletion has the id and a reason.
    In a row that gets a new text, the time of the last update becomes `now`.
    """
    lines = []
    for update in plan.updates:
        _, changes = changes_for(update.row, update.text, _BY_USER, now)
        lines.append(_update_line(update, update.text, {**update.row.metadata, **changes}))
    for deletion in plan.deletions:
        line = {"delete": deletion.row.id, "because": f"{deletion.kept.id} stands for it"}
        lines.append(json.dumps(line, ensure_ascii=False))
    return lines


def undo_lines(plan: WriteBackPlan) -> list[str]:
    """Return JSON lines by which another program can undo the plan's changes.

    Each line has the id, the old text and the old metadata of a row. The program has to update the
    row, or to add it if it was deleted.
    """
    return [_update_line(change, change.said, change.row.metadata) for change in plan.changes]


def _update_line(change: RowChange, text: str, metadata: Mapping[str, Any]) -> str:
    line = {"update": change.row.id, "text": text, "metadata": metadata}
    return json.dumps(line, ensure_ascii=False)

"""Plan the changes that bring a collection to the ledger's state."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from memory.coverage import covers
from memory.interchange.foreign import ForeignRow, Reading, as_memory, moment, text_key_of
from memory.interchange.namespaces import in_namespaces
from memory.interchange.undo_file import Becomes
from memory.ledger import Ledger, Row
from memory.models import Memory

_EXPIRY = ("expiration_date", "expires_at")
"""Keys that decide when a row expires."""
_OWNERS = ("user_id", "userId", "agent_id", "run_id", "actor_id", "session_id", "thread_id",
           "app_id", "org_id", "project_id", "tenant_id", "namespace")  # fmt: skip
"""Keys that decide in which queries a row is found."""
_IDENTITY = (*_OWNERS, *_EXPIRY)
ACROSS = tuple(name for name in _IDENTITY if name not in ("user_id", "userId"))
"""Keys in which rows may differ that one row stands for, if asked; never the user."""
_UPDATED = ("updated_at", "updatedAt")
_COMPARED = ("content", "user", "timestamp", "is_private", "tags", "metadata", "category",
             "importance", "intensity", "emotion")  # fmt: skip


OwnWork = Mapping[str, Sequence[tuple[ForeignRow, ForeignRow]]]
"""By row id, the rows that write-backs changed: as they were before, and after."""


@dataclass(frozen=True)
class RowChange:
    """A row that changes, and its text until then."""

    row: ForeignRow
    said: str


@dataclass(frozen=True)
class Update(RowChange):
    """A row that gets another text, a longer life, or both."""

    text: str
    """The new text; the old one where only the expiry changes."""
    same_as: ForeignRow | None
    """A row of the collection with this text, whose vector is reused; None if there is none."""
    expires_as: ForeignRow | None = None
    """The row whose expiry it takes over; None if it keeps its own."""


@dataclass(frozen=True)
class Deletion(RowChange):
    """A row that is deleted because another row stands for it."""

    kept: ForeignRow


@dataclass(frozen=True)
class LeftAlone:
    """A row that is not changed although the ledger's state differs."""

    id: str
    why: str


@dataclass(frozen=True)
class Staying:
    """A row that keeps its text, since queries that find it would not find the survivor."""

    row: ForeignRow
    kept: ForeignRow
    apart: tuple[str, ...]
    """The keys in which the two differ."""


@dataclass(frozen=True)
class WriteBackPlan:
    """The changes of a collection, row by row."""

    updates: tuple[Update, ...]
    deletions: tuple[Deletion, ...]
    left_alone: tuple[LeftAlone, ...]
    unknown: int
    """Rows that were never imported as they stand: new, or changed since."""
    staying: tuple[Staying, ...] = ()

    @property
    def changes(self) -> tuple[RowChange, ...]:
        return (*self.updates, *self.deletions)

    @property
    def looked_at(self) -> dict[str, ForeignRow]:
        """The rows that change, and those whose vectors or expiries they take over, by id."""
        given = (row for one in self.updates for row in (one.same_as, one.expires_as) if row)
        return {row.id: row for row in (*(one.row for one in self.changes), *given)}

    def without(self, ids: Iterable[str], why: str) -> WriteBackPlan:
        """Return the plan without these rows, and without the deletions that depend on them."""
        gone = set(ids)
        named = [LeftAlone(one.row.id, why) for one in self.changes if one.row.id in gone]
        resting = [
            LeftAlone(one.row.id, f"{one.kept.id} would stand for it: {why}")
            for one in self.deletions
            if one.kept.id in gone and one.row.id not in gone
        ]
        return WriteBackPlan(
            tuple(one for one in self.updates if one.row.id not in gone),
            tuple(one for one in self.deletions if not {one.row.id, one.kept.id} & gone),
            (*self.left_alone, *named, *resting),
            self.unknown,
            self.staying,
        )


@dataclass(frozen=True)
class Known:
    """A row that is still as it was imported or written back, and its living memory."""

    row: ForeignRow
    memory: Memory
    """The row as a memory."""
    arrived_as: str
    alive: Memory
    seen: dict[str, str]
    """The values of the keys that decide where, and how long, the row is found."""


def plan_write_back(
    rows: Sequence[ForeignRow],
    reading: Reading,
    ledger: Ledger,
    across: Collection[str] = (),
    own_work: OwnWork | None = None,
) -> WriteBackPlan:
    """Plan one row for all rows whose memories became one; leave everything else alone.

    Only rows that are as they were imported are considered: a row is found by its id, user, time
    and text, and every value is compared with the memory as it arrived. A row that a write-back
    wrote counts as the row that it was before. One row stands for rows that differ in a key of
    `_IDENTITY` only if `across` names that key.
    """
    if reading.namespaces is not None:
        rows = in_namespaces(rows, reading.namespaces)
    known, changed, unknown = _known(rows, reading, ledger, own_work or {})
    return plan_of(known, across, tuple(changed), unknown)


def plan_of(
    known: Sequence[Known],
    across: Collection[str],
    changed: tuple[LeftAlone, ...] = (),
    unknown: int = 0,
) -> WriteBackPlan:
    """Plan each group of rows whose memories became one."""
    groups: dict[str, list[Known]] = {}
    for one in known:
        groups.setdefault(one.alive.id, []).append(one)
    same = {one.memory.content: one.row for one in known}
    updates: list[Update] = []
    deletions: list[Deletion] = []
    staying: list[Staying] = []
    for group in groups.values():
        kept = _kept(group)
        for part in _seen_together(group, across):
            if any(one is kept for one in part):
                updates += _updates(kept, part, same)
                deletions += [_deletion(one, kept) for one in part if one is not kept]
                continue
            for one, stand_in in _stand_ins(part):
                if stand_in is None:
                    staying.append(Staying(one.row, kept.row, _apart(one, kept)))
                else:
                    deletions.append(_deletion(one, stand_in))
    return WriteBackPlan(tuple(updates), tuple(deletions), changed, unknown, tuple(staying))


def _updates(
    kept: Known, part: Sequence[Known], same: Mapping[str, ForeignRow]
) -> Iterator[Update]:
    """Yield the survivor's update, if it needs one: the living text, the latest expiry."""
    text, lender = kept.alive.content, max(part, key=_expiry)
    given_life = lender.row if _expiry(lender) > _expiry(kept) else None
    if kept.memory.content != text:
        yield Update(kept.row, kept.memory.content, text, same.get(text), given_life)
    elif given_life is not None:
        yield Update(kept.row, text, text, None, given_life)


def _deletion(one: Known, kept: Known) -> Deletion:
    return Deletion(one.row, one.memory.content, kept.row)


def _seen_together(group: Sequence[Known], across: Collection[str]) -> Iterable[list[Known]]:
    """Split a group by the keys in which its rows differ, except those of `across`."""
    parts: dict[tuple[tuple[str, str], ...], list[Known]] = {}
    for one in group:
        apart = tuple(item for item in one.seen.items() if item[0] not in across)
        parts.setdefault(apart, []).append(one)
    return parts.values()


def _stand_ins(part: Sequence[Known]) -> Iterator[tuple[Known, Known | None]]:
    """Yield each row, and another one that states everything it says, or None.

    None of them is rewritten: it would become an exact copy of the survivor elsewhere.
    """
    staying: list[Known] = []
    for one in sorted(part, key=_worth, reverse=True):
        stand_in = next((other for other in staying if _states_all(other, one)), None)
        if stand_in is None:
            staying.append(one)
        yield one, stand_in


def _states_all(other: Known, one: Known) -> bool:
    said = other.memory.content
    return said == other.alive.content or covers(said, one.memory.content)


def _apart(one: Known, kept: Known) -> tuple[str, ...]:
    return tuple(name for name, value in one.seen.items() if kept.seen.get(name) != value) + tuple(
        name for name in kept.seen if name not in one.seen
    )


def _known(
    rows: Sequence[ForeignRow], reading: Reading, ledger: Ledger, own_work: OwnWork
) -> tuple[list[Known], list[LeftAlone], int]:
    read = _as_imported(rows, reading, own_work)
    with ledger.reading() as reader:
        found = reader.memories.earlier_arrivals([one.arrived for one in read])
        arrived = [row for row, _ in found]
        alive = reader.memories.living_ids(row.memory.id for row in arrived if row is not None)
        living = reader.memories.rows(list(dict.fromkeys(alive.values())))
        first = reader.decisions.first_states()
    known: list[Known] = []
    changed: list[LeftAlone] = []
    for one, known_as in zip(read, arrived, strict=True):
        if known_as is None or known_as.memory.id not in alive:
            continue
        end = living[alive[known_as.memory.id]].memory
        if _as_it_arrived(known_as, first, one.arrived):
            seen = seen_as(one.row, reading)
            known.append(Known(one.row, one.memory, known_as.memory.id, end, seen))
        elif end.id != known_as.memory.id or end.content != one.memory.content:
            changed.append(LeftAlone(one.row.id, "its metadata changed since it was imported"))
    return known, changed, len(rows) - len(known) - len(changed)


@dataclass(frozen=True)
class _Read:
    """A row, as a memory now, and as a memory when it was imported."""

    row: ForeignRow
    memory: Memory
    arrived: Memory


def _as_imported(rows: Sequence[ForeignRow], reading: Reading, own_work: OwnWork) -> list[_Read]:
    """Read the rows; those that cannot be read were left out at the import too."""
    read = []
    for row in rows:
        before = _before_own_work(row, own_work)
        try:
            memory = as_memory(row, reading)
            read.append(_Read(row, memory, memory if before is row else as_memory(before, reading)))
        except ValueError:
            continue
    return read


def _before_own_work(row: ForeignRow, own_work: OwnWork) -> ForeignRow:
    """Return the row as it was imported, where write-backs made it what it is now."""
    todo = list(own_work.get(row.id, ()))
    found = row
    while step := next((one for one in todo if one[1].says_the_same(found)), None):
        todo.remove(step)
        found = step[0]
    return found


def _as_it_arrived(known_as: Row, first: dict[str, Memory], memory: Memory) -> bool:
    arrived = first.get(known_as.memory.id, known_as.memory)
    return all(getattr(arrived, name) == getattr(memory, name) for name in _COMPARED)


def seen_as(row: ForeignRow, reading: Reading) -> dict[str, str]:
    keys = dict.fromkeys((*_IDENTITY, *([reading.user_key] if reading.user_key else [])))
    seen = {name: str(row.metadata[name]) for name in keys if row.metadata.get(name) is not None}
    if reading.user_key in seen:
        seen["user"] = seen.pop(str(reading.user_key))
    return seen if row.expires is None else seen | {"expires_at": row.expires.isoformat()}


def _kept(group: Sequence[Known]) -> Known:
    """Return the row that stays: of the living text, else of that memory, else the newest."""
    return max(reversed(group), key=_worth)


def _worth(one: Known) -> tuple[bool, bool, datetime]:
    same = one.memory.content == one.alive.content
    return same, one.arrived_as == one.alive.id, one.memory.timestamp


def _expiry(one: Known) -> datetime:
    """Return when the row expires."""
    return min((_moment(one.seen[name]) for name in _EXPIRY if name in one.seen), default=_NEVER)


_NEVER = datetime.max.replace(tzinfo=UTC)


def _moment(given: str) -> datetime:
    """Return a time; like mem0, take what cannot be parsed as never."""
    try:
        return datetime.fromisoformat(moment(_number(given), assume_utc=True))
    except ValueError:
        return _NEVER


def _number(given: str) -> str | float:
    try:
        return float(given)
    except ValueError:
        return given


def rewritten(row: ForeignRow, update: Update, reading: Reading, now: datetime) -> Becomes:
    """Return the new document (None if the text is metadata), and the keys that change or go."""
    document, changes = None, _expiry_changes(row, update.expires_as)
    gone = tuple(name for name, value in changes.items() if value is None)
    if update.text != update.said:
        document, of_text = _text_changes(row, update.text, reading, now)
        changes |= of_text
    kept = {name: value for name, value in changes.items() if name not in gone}
    return Becomes(document=document, metadata=kept, gone=gone)


def _expiry_changes(row: ForeignRow, lender: ForeignRow | None) -> dict[str, Any]:
    if lender is None:
        return {}
    wanted = {name: lender.metadata.get(name) for name in _EXPIRY}
    return {name: value for name, value in wanted.items() if row.metadata.get(name) != value}


def _text_changes(
    row: ForeignRow, text: str, reading: Reading, now: datetime
) -> tuple[str | None, dict[str, Any]]:
    key = text_key_of(row, reading)
    changes: dict[str, Any] = {} if key is None else {key: text}
    if key == "data" and "hash" in row.metadata:
        changes["hash"] = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    if key == "data" and "text_lemmatized" in row.metadata:
        changes["text_lemmatized"] = text
    for name in _UPDATED:
        if row.metadata.get(name) not in (None, ""):
            changes[name] = _same_kind(row.metadata[name], now)
    return (text if key is None else None), changes


def _same_kind(value: object, now: datetime) -> object:
    if isinstance(value, str):
        return now.isoformat()
    seconds = now.timestamp()
    if isinstance(value, int):
        return int(seconds * 1000) if value >= 1e11 else int(seconds)
    return seconds

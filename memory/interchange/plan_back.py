"""What a collection would have to change to say what the ledger says of its rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memory.interchange.foreign import ForeignRow, Reading, as_memory, text_key_of
from memory.interchange.namespaces import in_namespaces
from memory.ledger import Ledger, Row
from memory.models import Memory

_IDENTITY = ("user_id", "agent_id", "run_id", "actor_id", "namespace", "expiration_date")
"""Keys that decide where and for how long a row is seen: only rows alike in all stand together."""
_UPDATED = ("updated_at", "updatedAt")
_COMPARED = ("content", "user", "timestamp", "is_private", "tags", "metadata", "category",
             "importance", "intensity", "emotion")  # fmt: skip


@dataclass(frozen=True)
class Change:
    """A row that changes, and what it says until then."""

    row: ForeignRow
    said: str


@dataclass(frozen=True)
class Update(Change):
    """A row that gets another text."""

    text: str
    same_as: ForeignRow | None
    """A row of the collection that has this text, and so its vector; None: no row has."""


@dataclass(frozen=True)
class Deletion(Change):
    """A row whose memory another row stands for."""

    kept: ForeignRow


@dataclass(frozen=True)
class LeftAlone:
    """A row that is not touched though the ledger has more to say of it."""

    id: str
    why: str


@dataclass(frozen=True)
class WriteBackPlan:
    """What would be done to a collection, row by row."""

    updates: tuple[Update, ...]
    deletions: tuple[Deletion, ...]
    left_alone: tuple[LeftAlone, ...]
    unknown: int
    """Rows that were never imported as they stand: new, or changed since."""

    @property
    def changes(self) -> tuple[Change, ...]:
        return (*self.updates, *self.deletions)

    @property
    def looked_at(self) -> dict[str, ForeignRow]:
        """The rows that change, and those whose vectors they get."""
        given = (one.same_as for one in self.updates if one.same_as is not None)
        return {row.id: row for row in (*(one.row for one in self.changes), *given)}

    def without(self, ids: Iterable[str], why: str) -> WriteBackPlan:
        """The same without these rows, and without the deletions that rest on them."""
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
        )


@dataclass(frozen=True)
class _Known:
    """A row that was imported as it stands, and the memory that lives for it."""

    row: ForeignRow
    memory: Memory
    arrived_as: str
    alive: Memory


def plan_write_back(rows: Sequence[ForeignRow], reading: Reading, ledger: Ledger) -> WriteBackPlan:
    """Rows whose memories are one now become one row with its text; nothing else is touched.

    Only a row that is as it was imported counts: it is found again by its id, user, time and text,
    and every value is compared with the memory as it arrived.
    """
    if reading.namespaces is not None:
        rows = in_namespaces(rows, reading.namespaces)
    known, changed, unknown = _known(rows, reading, ledger)
    groups: dict[tuple[object, ...], list[_Known]] = {}
    for one in known:
        groups.setdefault((one.alive.id, *_seen_as(one.row, reading)), []).append(one)
    same = {one.memory.content: one.row for one in known}
    updates: list[Update] = []
    deletions: list[Deletion] = []
    for group in groups.values():
        kept = _kept(group)
        text = kept.alive.content
        if kept.memory.content != text:
            updates.append(Update(kept.row, kept.memory.content, text, same.get(text)))
        deletions += [
            Deletion(one.row, one.memory.content, kept.row) for one in group if one is not kept
        ]
    return WriteBackPlan(tuple(updates), tuple(deletions), tuple(changed), unknown)


def _known(
    rows: Sequence[ForeignRow], reading: Reading, ledger: Ledger
) -> tuple[list[_Known], list[LeftAlone], int]:
    read = _as_imported(rows, reading)
    with ledger.reading() as reader:
        arrived = reader.memories.earlier_arrivals([memory for _, memory in read])
        alive = reader.memories.living_ids(row.memory.id for row in arrived if row is not None)
        living = reader.memories.rows(list(dict.fromkeys(alive.values())))
        first = reader.decisions.first_states()
    known: list[_Known] = []
    changed: list[LeftAlone] = []
    for (row, memory), known_as in zip(read, arrived, strict=True):
        if known_as is None or known_as.memory.id not in alive:
            continue
        end = living[alive[known_as.memory.id]].memory
        if _as_it_arrived(known_as, first, memory):
            known.append(_Known(row, memory, known_as.memory.id, end))
        elif end.id != known_as.memory.id or end.content != memory.content:
            changed.append(LeftAlone(row.id, "its metadata changed since it was imported"))
    return known, changed, len(rows) - len(known) - len(changed)


def _as_imported(rows: Sequence[ForeignRow], reading: Reading) -> list[tuple[ForeignRow, Memory]]:
    """What cannot be read was left out at the import as well."""
    read = []
    for row in rows:
        try:
            read.append((row, as_memory(row, reading)))
        except ValueError:
            continue
    return read


def _as_it_arrived(known_as: Row, first: dict[str, Memory], memory: Memory) -> bool:
    arrived = first.get(known_as.memory.id, known_as.memory)
    return all(getattr(arrived, name) == getattr(memory, name) for name in _COMPARED)


def _seen_as(row: ForeignRow, reading: Reading) -> tuple[object, ...]:
    keys = _IDENTITY if reading.user_key is None else (*_IDENTITY, reading.user_key)
    return row.expires, *(str(row.metadata.get(key)) for key in keys)


def _kept(group: Sequence[_Known]) -> _Known:
    """One with the living memory's text, else that memory's own row, else the newest, the last."""

    def worth(one: _Known) -> tuple[bool, bool, datetime]:
        same = one.memory.content == one.alive.content
        return same, one.arrived_as == one.alive.id, one.memory.timestamp

    return max(reversed(group), key=worth)


def rewritten(
    row: ForeignRow, text: str, reading: Reading, now: datetime
) -> tuple[str | None, dict[str, Any]]:
    """The document (None where the text is in the metadata), and the keys that change."""
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

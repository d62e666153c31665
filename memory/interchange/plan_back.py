"""Plan a write-back: if memories were merged, merge the rows that they were imported from.

The rows are in another program's store. To merge rows, one row gets the merged text, and the rows
that it replaces are deleted. The row that remains is called `kept`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from memory.coverage import states
from memory.interchange.collection import touched
from memory.interchange.foreign import (
    EXPIRY,
    OWNERS,
    ForeignRow,
    Reading,
    as_memory,
    expiry_of,
    grouped,
)
from memory.interchange.jsonl import DumpedRow, json_line
from memory.interchange.selection import differences, in_namespaces
from memory.ledger import Ledger, Reader
from memory.models import OFFLINE, PERSON, Action, Memory

_IDENTITY = (*OWNERS, *EXPIRY)
# The metadata keys that the option `--across` may name. A row replaces another row only if they
# have the same owners and expiry, except in these keys.
ACROSS = tuple(name for name in _IDENTITY if name not in ("user_id", "userId"))
_UNCHANGED_FIELDS = ("content", "user", "timestamp", "is_private", "tags", "metadata", "category",
             "importance", "intensity", "emotion")  # fmt: skip

_KINDS = "kind_keys"
_NEVER = datetime.max.replace(tzinfo=UTC)
_BY_USER = Reading(user_key="user")
_NOT_METADATA = {"id", "external_id", "content", "metadata", "linked_ids", "merged_from"}
_KEYS_OF_A_TURN = ({"conversation", "turn"}, {"conversation", "turn", "turns"})

# The rows that earlier write-backs updated, by row id: each row before and after each update
OwnWork = Mapping[str, Sequence[tuple[ForeignRow, ForeignRow]]]


@dataclass(frozen=True)
class RowChange:
    """A planned change of a row; `said` is the row's text before the change."""

    row: ForeignRow
    said: str


@dataclass(frozen=True)
class Update(RowChange):
    """A planned new `text` of a row, whose relative words count from `said_at` (None: unknown).

    `marks`: metadata values to write besides. They say what superseded the row's memory, and when.
    """

    text: str
    said_at: datetime | None
    marks: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Deletion(RowChange):
    kept: ForeignRow

    @property
    def differs_in(self) -> tuple[str, ...]:
        """The metadata fields in which the deleted row differs from the row that is kept."""
        return differences(self.row.metadata, self.kept.metadata)


@dataclass(frozen=True)
class LeftAlone:
    """A row that a write-back skips although its memory was merged.

    `id` is the row's id. `why` is the reason, worded for a user.

    >>> report = await import_memories(notes, config)
    >>> plan = compare(notes, config).plan
    >>> fewer = plan.without(["memories.noa/1"], "a person wants to keep it")
    >>> [(row.id, row.why) for row in fewer.left_alone], fewer.deletions
    ([('memories.noa/1', 'a person wants to keep it')], ())
    """

    id: str
    why: str


@dataclass(frozen=True)
class Staying:
    """A row that stays, although its memory was merged with the memory of the row `kept`.

    A query that finds `row` would not find `kept`: they differ in the metadata keys `apart`, such
    as `agent_id`.
    """

    row: ForeignRow
    kept: ForeignRow
    apart: tuple[str, ...]


@dataclass(frozen=True)
class WriteBackPlan:
    """The changes that a write-back is to make in a collection, and the rows that it skips.

    `left_alone` and `staying` have rows that are not changed although their memories were merged.
    `unknown` is the number of further rows that are skipped: they were never imported, they were
    changed after the import, or their memories were forgotten. In a plan of `plan_changes`,
    `unknown` is 0, because that function does not count such rows.

    >>> report = await import_memories(notes, config)
    >>> plan = compare(notes, config).plan
    >>> [row.id for row in plan.updates], [row.row.id for row in plan.deletions]
    ([], ['memories.noa/1'])
    """

    updates: tuple[Update, ...]
    deletions: tuple[Deletion, ...]
    left_alone: tuple[LeftAlone, ...]
    unknown: int
    staying: tuple[Staying, ...] = ()

    @property
    def changes(self) -> tuple[RowChange, ...]:
        return (*self.updates, *self.deletions)

    def without(self, ids: Iterable[str], why: str) -> WriteBackPlan:
        """Return a copy of this plan that skips the rows `ids`, and the rows that these replace.

        `why` is the reason, worded for a user.
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


class _Ended(NamedTuple):
    """When a memory was superseded, what holds now, and whether a person or caller said so."""

    until: datetime
    successor_id: str
    told: bool


@dataclass(frozen=True, eq=False)
class _UnchangedRow:
    """A row that counts as unchanged since its import or its last write-back.

    `memory` has the row's present text. `arrived_as` is the id of the memory that the import made
    from the row. If the imported memory is live, `alive` is this memory; if it is retired, `alive`
    is its live successor. `seen` has the row's owners, such as `user_id`, its expiry, and what says
    of which kind it is, by metadata key. Queries for rows may filter by these values. `ended`: how
    the imported memory ended, if it was superseded; `alive` is then this memory.
    """

    row: ForeignRow
    memory: Memory
    arrived_as: str
    alive: Memory
    seen: dict[str, str]
    ended: _Ended | None


def plan_write_back(
    rows: Sequence[ForeignRow],
    reading: Reading,
    ledger: Ledger,
    across: Collection[str] = (),
    own_work: OwnWork | None = None,
) -> WriteBackPlan:
    """Plan a write-back: rows whose memories were merged into one memory become one row.

    `rows`: all rows of the collection, as they are now. `reading`: how the rows were read at the
    import into `ledger`. `across`: metadata keys, such as `run_id`. Rows
    that differ in one of these keys may replace each other, and rows that differ in another one may
    not. `own_work`: the updates that earlier write-backs made.

    A row is left alone if anything other than an earlier write-back has changed it since the
    import.

    >>> report = await import_memories(notes, config)
    >>> rows = notes.opened()[0].found().rows
    >>> reading = notes.reading.model_copy(update={"user_key": "namespace"})
    >>> plan = plan_write_back(rows, reading, store.ledger)
    >>> [deletion.row.id for deletion in plan.deletions]
    ['memories.noa/1']
    """
    if reading.namespaces is not None:
        rows = in_namespaces(rows, reading.namespaces)
    read = list(_as_imported(rows, reading, own_work or {}))
    with ledger.reading() as reader:
        arrived = [
            None if row is None else row.memory
            for row, _ in reader.memories.earlier_arrivals([before for _, _, before in read])
        ]
        first = reader.decisions.first_states()
        ends = _ends(reader, [memory for memory in arrived if memory])
    known: list[_UnchangedRow] = []
    changed: list[LeftAlone] = []
    for (row, memory, before), arrival in zip(read, arrived, strict=True):
        if arrival is None or arrival.id not in ends:
            continue
        alive, ended = ends[arrival.id]
        imported = first.get(arrival.id, arrival)
        if all(getattr(imported, name) == getattr(before, name) for name in _UNCHANGED_FIELDS):
            seen = _seen_as(row, reading)
            known.append(_UnchangedRow(row, memory, arrival.id, alive, seen, ended))
        elif alive.id != arrival.id or alive.content != memory.content:
            changed.append(LeftAlone(row.id, "its metadata changed since it was imported"))
    unknown = len(rows) - len(known) - len(changed)
    return replace(_plan_of(known, across), left_alone=tuple(changed), unknown=unknown)


def _ends(reader: Reader, memories: Sequence[Memory]) -> dict[str, tuple[Memory, _Ended | None]]:
    """Return what each memory became, by its id: `alive` and `ended` of `_UnchangedRow`.

    Forgotten memories are left out.
    """
    living = reader.memories.living_rows(memory.id for memory in memories)
    ends: dict[str, tuple[Memory, _Ended | None]] = {
        name: (row.memory, None) for name, row in living.items()
    }
    for row in reader.memories.rows([memory.id for memory in memories]).values():
        end = None if row.until is None else reader.superseded.end_of_chain(row)
        if end is not None and row.until is not None:
            deciding = (
                one
                for one in reversed(reader.decisions.about(row.memory.id))
                if one.action is Action.SUPERSEDE and not one.undone
            )
            by = next((one.model for one in deciding), OFFLINE)
            ended = _Ended(row.until, end.memory.id, told=by in (None, PERSON))
            ends[row.memory.id] = (row.memory, ended)
    return ends


def _plan_of(rows: Sequence[_UnchangedRow], across: Collection[str]) -> WriteBackPlan:
    def seen(row: _UnchangedRow) -> Hashable:
        return tuple(item for item in row.seen.items() if item[0] not in across)

    updates: list[Update] = []
    deletions: list[Deletion] = []
    staying: list[Staying] = []
    known = [row for row in rows if row.ended is None]
    for group in grouped(known, lambda row: row.alive.id).values():
        best = max(reversed(group), key=_worth)
        parts = list(grouped(group, seen).values())
        kept = max(reversed(next(part for part in parts if best in part)), key=_lasting)
        if kept.memory.content != kept.alive.content:
            alive = kept.alive
            updates.append(Update(kept.row, kept.memory.content, alive.content, alive.said))
        for part in parts:
            stand_ins = ((row, kept) for row in part) if kept in part else _stand_ins(part)
            for row, stand_in in stand_ins:
                if stand_in is None:
                    apart = tuple(
                        name
                        for name in {**row.seen, **kept.seen}
                        if row.seen.get(name) != kept.seen.get(name)
                    )
                    staying.append(Staying(row.row, kept.row, apart))
                elif stand_in is not row:
                    deletions.append(Deletion(row.row, row.memory.content, stand_in.row))
    ended = list(_of_ended(rows))
    return WriteBackPlan(
        (*updates, *(one for one in ended if isinstance(one, Update))),
        (*deletions, *(one for one in ended if isinstance(one, Deletion))),
        left_alone=(),
        unknown=0,
        staying=tuple(staying),
    )


def _of_ended(rows: Sequence[_UnchangedRow]) -> Iterator[Update | Deletion]:
    """Yield the changes of the rows whose memories were superseded.

    A row is deleted if a person or caller superseded its memory, and the store has a row of the
    memory that holds now. Other rows are marked in their metadata, and stay.
    """
    of_live = {one.alive.id: one.row for one in rows if one.ended is None}
    for row in rows:
        if (end := row.ended) is None:
            continue
        kept, text = of_live.get(end.successor_id), row.memory.content
        if end.told and kept is not None:
            yield Deletion(row.row, text, kept)
            continue
        by = end.successor_id if kept is None else kept.id
        marks = {"superseded_by": by, "superseded_at": end.until.isoformat()}
        if not marks.items() <= row.row.metadata.items():
            yield Update(row.row, text, text, row.memory.said, marks)


def _stand_ins(
    part: Sequence[_UnchangedRow],
) -> Iterator[tuple[_UnchangedRow, _UnchangedRow | None]]:
    """Yield each row of `part` with the other row of `part` that replaces it; None if it stays.

    The memories of all these rows have the same live successor. The rows that stay keep their
    texts. So a row can replace another row only if its text is the successor's text, or covers the
    text of the other row.
    """
    staying: list[_UnchangedRow] = []
    for row in sorted(part, key=_lasting, reverse=True):
        stand_ins = (
            other
            for other in staying
            if other.memory.content == other.alive.content or states(other.memory, row.memory)
        )
        stand_in = next(stand_ins, None)
        if stand_in is None:
            staying.append(row)
        yield row, stand_in


def _as_imported(
    rows: Sequence[ForeignRow], reading: Reading, own_work: OwnWork
) -> Iterator[tuple[ForeignRow, Memory, Memory]]:
    """Yield each readable row, its memory as it is now, and its memory as it was imported.

    To get the imported memory, the updates in `own_work`, which earlier write-backs made, are taken
    back in a copy of the row. Any other change of the row since the import is not taken back.
    """
    for row in rows:
        before, updates = row, list(own_work.get(row.id, ()))
        while update := next((pair for pair in updates if pair[1].has_same_content(before)), None):
            updates.remove(update)
            before = update[0]
        try:
            memory = as_memory(row, reading)
            yield row, memory, memory if before is row else as_memory(before, reading)
        except ValueError:
            continue


def _seen_as(row: ForeignRow, reading: Reading) -> dict[str, str]:
    kinds = filter(reading.keeps_apart, row.metadata)
    keys = dict.fromkeys((*_IDENTITY, *([reading.user_key] if reading.user_key else []), *kinds))
    seen = {name: str(row.metadata[name]) for name in keys if row.metadata.get(name) is not None}
    if reading.user_key in seen:
        seen["user"] = seen.pop(str(reading.user_key))
    return seen if row.expires is None else seen | {"expires_at": row.expires.isoformat()}


def _worth(row: _UnchangedRow) -> tuple[bool, bool, datetime]:
    """Return a sort key; the row that is most like its live memory sorts last."""
    return (
        row.memory.content == row.alive.content,
        row.arrived_as == row.alive.id,
        row.memory.timestamp,
    )


def _lasting(row: _UnchangedRow) -> tuple[datetime, tuple[bool, bool, datetime]]:
    expiries = [expiry_of(row.seen[name]) or _NEVER for name in EXPIRY if name in row.seen]
    return min(expiries, default=_NEVER), _worth(row)


# --- for a store that has no reader here ----------------------------------------------------------


def plan_changes(
    ledger: Ledger, across: Collection[str], dump: Mapping[str, DumpedRow]
) -> WriteBackPlan:
    """Plan the changes of a store that this program cannot read, from the ledger alone.

    The rows were imported from a file. The plan names each row by its id in that file, which the
    ledger keeps as `external_id`.

    `across`: metadata keys in which a row may differ from the row that replaces it. `dump` maps the
    ids of the store's rows to the rows as they are now. A row is left alone if it is missing there,
    or if its text is not the same as at the import.

    >>> texts = enumerate(("Ida rows.", "Ida rows!"))
    >>> rows = [json.dumps({"id": f"i{n}", "user": "Ida", "content": text}) for n, text in texts]
    >>> size = Path("ida.jsonl").write_text("\\n".join(rows))
    >>> report = await import_memories(Source(file="ida.jsonl"), config)
    >>> read = read_rows(Path("ida.jsonl"), default_time=datetime.now(UTC))
    >>> dump = {str(row.name): row for row in read}
    >>> [row.row.id for row in plan_changes(store.ledger, (), dump).deletions]
    ['i0']
    """
    with ledger.reading() as reader:
        reading = _BY_USER.model_copy(update={"kind_keys": noted_kinds(reader)})
        first = reader.decisions.first_states()
        arrived: dict[str, Memory] = {}
        for row in reader.memories.all():
            memory = first.get(row.memory.id, row.memory)
            name = memory.external_id
            if (
                name is not None
                and not row.forgotten
                and memory.metadata.keys() not in _KEYS_OF_A_TURN
                and name in dump
                and dump[name].memory.content == memory.content
            ):
                arrived[name] = memory
        ends = _ends(reader, list(arrived.values()))
    known: list[_UnchangedRow] = []
    for name, memory in arrived.items():
        if memory.id in ends:
            fields = memory.model_dump(mode="json", exclude_defaults=True, exclude=_NOT_METADATA)
            theirs = ForeignRow(name, memory.content, {**memory.metadata, **fields})
            seen, (alive, ended) = _seen_as(theirs, reading), ends[memory.id]
            known.append(_UnchangedRow(theirs, memory, memory.id, alive, seen, ended))
    return _plan_of(known, across)


def change_lines(plan: WriteBackPlan, dump: Mapping[str, DumpedRow], now: datetime) -> list[str]:
    """Return the plan's changes as JSON lines, updates first.

    An update has the row's id, its new text and all its other fields. A deletion has the row's id
    and a reason. `dump` has the plan's rows, by id: what a plan does not change is written as it
    was read. `now` is the time of the updates.

    >>> texts = enumerate(("Ida rows.", "Ida rows!"))
    >>> rows = [json.dumps({"id": f"i{n}", "user": "Ida", "content": text}) for n, text in texts]
    >>> size = Path("ida.jsonl").write_text("\\n".join(rows))
    >>> report = await import_memories(Source(file="ida.jsonl"), config)
    >>> read = read_rows(Path("ida.jsonl"), default_time=datetime.now(UTC))
    >>> dump = {str(row.name): row for row in read}
    >>> plan = plan_changes(store.ledger, (), dump)
    >>> [sorted(json.loads(line)) for line in change_lines(plan, dump, datetime.now(UTC))]
    [['because', 'delete']]
    """
    updates = [
        _update_line(
            dump[update.row.id],
            update.text,
            {**_touched(dump[update.row.id].others, now), **update.marks},
        )
        for update in plan.updates
    ]
    deletions = (
        {
            "delete": dump[deletion.row.id].name,
            "because": f"{deletion.kept.id} stands for it",
        }
        for deletion in plan.deletions
    )
    return [*updates, *map(json_line, deletions)]


def undo_lines(plan: WriteBackPlan, dump: Mapping[str, DumpedRow]) -> list[str]:
    """Return JSON lines by which another program can undo the plan's changes.

    Each line has the id, the text and all other fields of a row, as they were read from the dump.
    The program has to update the row, or to add it if it was deleted.

    >>> texts = enumerate(("Ida rows.", "Ida rows!"))
    >>> rows = [json.dumps({"id": f"i{n}", "user": "Ida", "content": text}) for n, text in texts]
    >>> size = Path("ida.jsonl").write_text("\\n".join(rows))
    >>> report = await import_memories(Source(file="ida.jsonl"), config)
    >>> read = read_rows(Path("ida.jsonl"), default_time=datetime.now(UTC))
    >>> dump = {str(row.name): row for row in read}
    >>> plan = plan_changes(store.ledger, (), dump)
    >>> [json.loads(line)["text"] for line in undo_lines(plan, dump)]
    ['Ida rows.']
    """
    rows = (dump[change.row.id] for change in plan.changes)
    return [_update_line(row, row.fields["content"], row.others) for row in rows]


def _touched(fields: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return a row's fields, with `now` as the time of its last update if it has such a time."""
    inner = fields.get("metadata")
    nested = {"metadata": inner | touched(inner, now)} if isinstance(inner, dict) else {}
    return {**fields, **nested, **touched(fields, now)}


def _update_line(row: DumpedRow, text: str, others: Mapping[str, Any]) -> str:
    return json_line({"update": row.name, "text": text, "metadata": others})


# --- notes in the ledger --------------------------------------------------------------------------


def note_kinds(ledger: Ledger, kinds: Iterable[str], across: Iterable[str] = ()) -> None:
    """Note in the ledger that memories that differ in these fields are never compared.

    What is noted of the fields in `across` is deleted.
    """
    with ledger.writing() as writer:
        before = noted_kinds(writer)
        names = [name for name in dict.fromkeys([*before, *kinds]) if name not in across]
        if names != list(before):
            writer.set_meta(_KINDS, json.dumps(names))


def noted_kinds(reader: Reader) -> tuple[str, ...]:
    """Return the metadata fields that keep memories apart in this ledger.

    >>> note_kinds(store.ledger, ["status"])
    >>> with store.ledger.reading() as reader:
    ...     noted_kinds(reader)
    ('status',)
    """
    return tuple(json.loads(reader.meta(_KINDS) or "[]"))

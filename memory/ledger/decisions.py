"""The table of decisions: what was decided and why, and the state that undo restores."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from pydantic import TypeAdapter

from memory.ledger import tables as t
from memory.ledger.judgements import FORGOTTEN_REASON, KnownPair
from memory.ledger.memories import to_row
from memory.ledger.tables import Prepared, TableGroup, among, naming_damage
from memory.models import PERSON, Action, Decision, Memory, Refusal
from memory.text import text_of

REVERSIBLE = (Action.REPLACE, Action.MERGE, Action.UPDATE, Action.SUPERSEDE)
"""The actions that retire memories and can be undone."""

NOTHING_BEFORE = '{"rows": {}, "links": []}'
"""The saved state of a decision that has nothing to restore."""

VERDICTS = "distinct"


def with_verdicts(image: str, verdicts: Sequence[KnownPair]) -> str:
    """Return `image`, the JSON that a decision saves for undo, with `verdicts` added."""
    return json.dumps({**json.loads(image), VERDICTS: verdicts})


@dataclass(frozen=True, repr=False)
class DecisionRecord:
    """A decision as stored. Its `number` increases with each new decision.

    `run`: the batch or import that made the decision, if any. `members`: the ids of the memories
    that the decision is about. `survivors` has pairs: the id of a memory that the decision kept
    live, and the ids of the memories that it replaced. `before`: JSON with the state that undo
    restores: rows of the table `memories`, links and verdicts. `model`: the model's name, or
    "person"; None if rules decided alone. `refused`: the merged texts that were refused.

    `similarity` and `cosine`: those of the compared memories on which the decision is based. For
    more than two memories, they are the lowest. Each of them is None if it was not recorded.

    `verified`: how merged texts were checked: "by words", which is a comparison of their words with
    those of the members; "by a second reading" of a model; or "by a person". None if no check is
    recorded.

    >>> outcome = memories.remember("Ari rows.", user="Ari")
    >>> newer = memories.remember("Ari rows!", user="Ari")
    >>> [record] = store.history(newer.memory.id)[-1:]
    >>> record.reason, record.reversible, record.number == newer.number
    ('same text', True, True)
    """

    number: int
    run: str | None
    at: datetime
    action: Action
    reason: str
    similarity: float | None
    members: tuple[str, ...]
    survivors: tuple[tuple[str, tuple[str, ...]], ...]
    before: str
    pending: bool
    undone: bool
    model: str | None
    cosine: float | None = None
    verified: str | None = None
    refused: tuple[Refusal, ...] = ()

    def __repr__(self) -> str:
        """Return what a reader looks for, without `before`."""
        state = ", undone" if self.undone else ", pending" if self.pending else ""
        return (
            f"DecisionRecord({self.number}, {self.action.value!r}, {self.reason!r}, "
            f"members={list(self.members)}{state})"
        )

    @property
    def scrubbed(self) -> bool:
        """Whether a memory in `before` was forgotten later, so that undo cannot restore it."""
        image = json.loads(self.before)
        return None in image["rows"].values() or image.get(VERDICTS, ()) is None

    @property
    def by_person(self) -> bool:
        return self.model == PERSON

    @property
    def left_for_later(self) -> bool:
        return self.by_person and not self.survivors and not self.verdicts

    @property
    def reversible(self) -> bool:
        """Whether undo accepts this kind of decision.

        Undo accepts decisions that retire memories, and a person's decisions to keep all members.
        """
        return self.action in REVERSIBLE or (self.by_person and self.action is Action.KEEP_BOTH)

    @property
    def verdicts(self) -> tuple[KnownPair, ...]:
        """The pairs of texts that a person called distinct in this decision.

        Each pair comes with the earlier verdict on the pair, not with this person's verdict. Undo
        restores the earlier verdict. There are no pairs if a model or rules decided, or if the
        earlier verdicts were erased.
        """
        return tuple(KnownPair(*verdict) for verdict in json.loads(self.before).get(VERDICTS) or ())

    @property
    def created(self) -> tuple[str, ...]:
        """Ids of the rows that the decision created.

        These are new memories, and retired copies that keep the earlier text of a changed memory.
        """
        named = [name for survivor, retired in self.survivors for name in (survivor, *retired)]
        return tuple(name for name in dict.fromkeys(named) if name not in self.members)

    @property
    def joined(self) -> tuple[str, ...]:
        """Ids of the members that the decision kept live or replaced, as `survivors` records.

        If `survivors` names no member, the result has all members.
        """
        named = {name for end, stands_for in self.survivors for name in (end, *stands_for)}
        return tuple(name for name in self.members if name in named) or self.members

    @property
    def involved(self) -> tuple[str, ...]:
        return (*self.members, *self.created)


@dataclass(frozen=True)
class Run:
    """A batch or import. `began_at` is the time of its first decision.

    `decisions`: the number of its decisions by action. `pending` and `undone`: how many of its
    decisions are pending or undone.
    """

    name: str
    began_at: datetime
    decisions: dict[str, int]
    pending: int
    undone: int


_HIGHEST_NUMBER = 2**31 - 1  # of an integer column in PostgreSQL


class Decisions(TableGroup):
    """The table of decisions; its methods return lists of decisions with the oldest first."""

    def get(self, number: int) -> DecisionRecord | None:
        if number > _HIGHEST_NUMBER:
            return None
        query = sa.select(t.decisions).where(t.decisions.c.seq == number)
        return next(iter(self._found(query)), None)

    def about(self, memory_id: str) -> list[DecisionRecord]:
        return self._found(sa.select(t.decisions).where(_involving([memory_id])))

    def all_but_additions(self) -> list[DecisionRecord]:
        return self._found(sa.select(t.decisions).where(t.decisions.c.action != Action.ADD.value))

    def pending(self) -> list[DecisionRecord]:
        return self._found(sa.select(t.decisions).where(t.decisions.c.pending))

    def of_run(self, run: str) -> list[DecisionRecord]:
        return self._found(sa.select(t.decisions).where(t.decisions.c.run == run))

    def after(self, record: DecisionRecord) -> list[int]:
        """Return the numbers of later decisions that must be undone before `record` is undone.

        A later decision must be undone first if its action retires memories and it concerns a
        member of `record` or a memory that `record` created. Decisions already undone do not count.
        """
        later = sa.select(t.decisions.c.seq).where(
            t.decisions.c.seq > record.number,
            sa.not_(t.decisions.c.undone),
            t.decisions.c.action.in_(REVERSIBLE),
        )
        involving = _involving([*record.members, *record.created])
        return sorted(self._connection.scalars(later.where(involving)))

    def parted_after(self, record: DecisionRecord) -> list[int]:
        """Return the numbers of later decisions by people that must be undone before `record`.

        In such a decision, a person called two texts distinct, and `record` calls the same two
        texts distinct. If `record` were undone first, the later verdict would be lost.
        """
        pairs = {known.pair for known in record.verdicts}
        return [
            later.number
            for later in self.by_person()
            if later.number > record.number and pairs & {known.pair for known in later.verdicts}
        ]

    def latest(self, most: int, below: int | None = None) -> list[DecisionRecord]:
        """Return the last `most` decisions, oldest first, without those that only added a memory.

        If `below` is given, only decisions with a lower number count.
        """
        columns = t.decisions.c
        shown = sa.select(columns.seq).where(columns.action != Action.ADD.value)
        if below is not None:
            shown = shown.where(columns.seq < below)
        shown = shown.order_by(columns.seq.desc()).limit(most)
        return self._found(sa.select(t.decisions).where(columns.seq.in_(shown)))

    def by_person(self) -> list[DecisionRecord]:
        kept = sa.and_(t.decisions.c.model == PERSON, sa.not_(t.decisions.c.undone))
        return self._found(sa.select(t.decisions).where(kept))

    def left_for_later(self, members: Sequence[Memory]) -> bool:
        names = {member.id for member in members}
        put_off = sa.and_(t.decisions.c.model == PERSON, t.decisions.c.pending)
        found = self._found(sa.select(t.decisions).where(put_off, _involving([members[0].id])))
        return any(set(record.members) == names for record in found)

    def runs(self) -> list[Run]:
        found: dict[str, list[DecisionRecord]] = {}
        for record in self._found(sa.select(t.decisions).where(t.decisions.c.run.is_not(None))):
            found.setdefault(str(record.run), []).append(record)
        return [
            Run(
                name=name,
                began_at=decided[0].at,
                decisions=dict(Counter(record.action.value for record in decided)),
                pending=sum(record.pending for record in decided),
                undone=sum(record.undone for record in decided),
            )
            for name, decided in found.items()
        ]

    def count_pending(self) -> int:
        return self._transaction.count(t.decisions, t.decisions.c.pending)

    def first_states(self) -> dict[str, Memory]:
        """Map the id of each memory to its oldest version among those saved for undo.

        Memories without a saved version are left out.
        """
        found: dict[str, Memory] = {}
        c = t.decisions.c
        for seq, before in self._connection.execute(sa.select(c.seq, c.before).order_by(c.seq)):
            with naming_damage(f"decision {seq}"):
                for name, columns in json.loads(before)["rows"].items():
                    if columns is not None and name not in found:
                        found[name] = to_row(columns, ()).memory
        return found

    def _found(self, query: sa.Select[Any]) -> list[DecisionRecord]:
        found = self._connection.execute(query.order_by(t.decisions.c.seq))
        return [_record(row) for row in found]

    # --- writing ---

    def record(
        self, decided: Sequence[tuple[Decision, str]], at: datetime, run: str | None
    ) -> list[int]:
        """Record decisions, and return their numbers in the given order.

        `decided`: pairs of a decision and the state that undo restores, as JSON from
        `MemoryRows.image`. `run`: the name of the batch or import; None if there is none.
        """
        common = {"revision": self._transaction.revision, "run": run, "at": at.isoformat()}
        rows = [common | _columns(decision, before) for decision, before in decided]
        _INSERT.run(self._connection, rows)
        self._transaction.numbered = True
        last = _LAST.rows(self._connection, most=len(rows))  # nobody else writes meanwhile
        numbers = sorted(row.seq for row in last)
        mentions = []
        for number, (decision, before) in zip(numbers, decided, strict=True):
            involved = {member.id for member in decision.members}
            for survivor in decision.survivors:
                involved |= {survivor.memory.id, *survivor.stands_for}
            compared = {name for name, _ in decision.candidates}
            compared |= {name for refusal in decision.refused for name in refusal.members}
            compared |= {end for link in json.loads(before)["links"] for end in link[:2]}
            mentions += [
                {"decision": number, "memory_id": name, "involved": name in involved}
                for name in sorted(involved | compared)
            ]
        _MENTION.run(self._connection, mentions)
        return numbers

    def close(self, numbers: Iterable[int]) -> None:
        closed = t.decisions.update().where(t.decisions.c.seq.in_(list(numbers)))
        self._connection.execute(closed.values(pending=False))

    def close_about(self, ids: Collection[str], number: int) -> None:
        """Mark pending decisions as answered by a later decision.

        A pending decision is answered if all its members are among `ids`, the members of the later
        decision, whose number is `number`.
        """
        pending = map(_record, _PENDING_ABOUT.rows(self._connection, ids=ids))
        closed = [one.number for one in pending if one.number < number and {*one.members} <= {*ids}]
        if closed:
            self.close(closed)

    def mark_undone(self, record: DecisionRecord, *, pending: bool) -> None:
        """Mark a decision as undone, and drop what it saved, except verdicts.

        Nothing restores it again, and it may state what only a memory forgotten later states.
        """
        image = with_verdicts(NOTHING_BEFORE, record.verdicts)
        undone = t.decisions.update().where(t.decisions.c.seq == record.number)
        self._connection.execute(undone.values(undone=True, pending=pending, before=image))

    def scrub(self, ids: set[str]) -> list[DecisionRecord]:
        """Erase what decisions recorded about the forgotten memories `ids`, except their ids.

        A merge may have put words of a forgotten memory into the text of the survivor. If the merge
        was undone, decisions between the merge and the undo may have saved this text. It is erased
        from these decisions, too.

        Return the decisions from which something may have been erased, as they were before.
        """
        records: dict[int, DecisionRecord] = {}
        others: dict[int, set[str]] = {}  # besides `ids`
        scrubbed_before = sa.and_(
            t.decisions.c.reason == FORGOTTEN_REASON,
            sa.not_(t.decisions.c.pending),
            t.decisions.c.before == NOTHING_BEFORE,
        )
        unscrubbed = sa.select(t.decisions).where(_mentioning(ids), sa.not_(scrubbed_before))
        todo = [(record, frozenset[str]()) for record in self._found(unscrubbed)]
        while todo:
            record, names = todo.pop()
            known = others.setdefault(record.number, set())
            if record.number not in records or not names <= known:
                records[record.number] = record
                known |= names
                if any(name in ids or name in names for name in record.involved):
                    todo += self._quoting(record)
        scrubbed = [_scrubbed(record, others[name], ids) for name, record in records.items()]
        if changed := [values for values in scrubbed if values is not None]:
            self._connection.execute(_SCRUB, changed)
        return list(records.values())

    def _quoting(self, record: DecisionRecord) -> list[tuple[DecisionRecord, frozenset[str]]]:
        """Return the decisions that may have saved a survivor's text from the undone `record`.

        These decisions mention a survivor of `record`. They came after `record`, but before the
        next decision with the same members. That next decision is the undo of `record`, or the
        answer when its question was asked again.

        Each decision is returned with the ids of all survivors of `record`. The list is empty if
        `record` is not undone or has no survivors.
        """
        if not record.undone or not record.survivors:
            return []
        names = frozenset(name for name, _ in record.survivors)
        mentioning = self._found(sa.select(t.decisions).where(_mentioning(names)))
        later = [decision for decision in mentioning if decision.number > record.number]
        same = [
            decision.number for decision in later if set(decision.members) == set(record.members)
        ]
        until = min(same, default=_HIGHEST_NUMBER)  # when it was undone or asked again
        return [(decision, names) for decision in later if decision.number < until]

    def forget_reasons(self, reasons: Collection[str], keys: Collection[str]) -> None:
        """Erase reasons of verdicts that are saved in a person's decisions.

        If a person calls a pair of texts distinct, the decision saves the earlier verdict on this
        pair, so that undo can restore it. A saved verdict loses its reason if the reason is in
        `reasons` and the key of at least one text of the pair is in `keys`.
        """
        by_index: sa.ColumnElement[bool] = sa.literal_column("model = 'person'")
        for record in self._found(sa.select(t.decisions).where(by_index)):
            verdicts = tuple(
                known._replace(reason=FORGOTTEN_REASON)
                if known.reason in reasons and any(text_of(key) in keys for key in known.pair[1:])
                else known
                for known in record.verdicts
            )
            if verdicts != record.verdicts:
                where = t.decisions.c.seq == record.number
                image = with_verdicts(record.before, verdicts)
                self._connection.execute(t.decisions.update().where(where).values(before=image))


class Refusals(TableGroup):
    """The merged texts that decisions refused."""

    def of(self, ids: Collection[str]) -> list[Refusal]:
        """Return the texts that were refused for any of these memories, oldest first."""
        query = sa.select(t.decisions.c.refused).where(_REFUSED, _mentioning(ids))
        found = self._connection.scalars(query.order_by(t.decisions.c.seq))
        return [one for stored in found for one in _refused(stored)]

    def count(self) -> int:
        """Count the decisions that refused a merged text, and that nobody has undone."""
        return self._transaction.count(
            t.decisions, sa.and_(_REFUSED, sa.not_(t.decisions.c.undone))
        )


def _scrubbed(
    record: DecisionRecord, others: set[str], forgotten: set[str]
) -> dict[str, Any] | None:
    """Return the parameters of the statement `_SCRUB` for a decision; None if nothing changes.

    `forgotten`: ids of the forgotten memories. `others`: ids of further memories, whose saved texts
    may contain words of a forgotten memory.

    - The statement erases the decision's reason.
    - From the state saved for undo, it erases the rows and links of memories in `forgotten` or
      `others`.
    - If a member of the decision is in `forgotten` or `others`, it erases all saved verdicts.
    - If a member of the decision is in `forgotten`, the decision is no longer pending.
    """
    image = json.loads(record.before)
    named = {*record.members, *image["rows"], *(end for link in image["links"] for end in link[:2])}
    names = named & (forgotten | others)
    rows = {name: None if name in names else kept for name, kept in image["rows"].items()}
    links = [link for link in image["links"] if not names & set(link[:2])]
    verdicts = {VERDICTS: image[VERDICTS]} if VERDICTS in image else {}
    if verdicts and names & set(record.members):
        verdicts = {VERDICTS: None}  # they hold the keys of forgotten texts
    pending = record.pending and forgotten.isdisjoint(record.members)
    kept_image = {"rows": rows, "links": links, **verdicts}
    if (kept_image, FORGOTTEN_REASON, pending) == (image, record.reason, record.pending):
        return None
    return {"number": record.number, "left": json.dumps(kept_image), "still_pending": pending}


def _record(row: Any) -> DecisionRecord:
    with naming_damage(f"decision {row.seq}"):
        _check_image(json.loads(row.before))
        return DecisionRecord(
            number=row.seq,
            run=row.run,
            at=datetime.fromisoformat(row.at),
            action=Action(row.action),
            reason=row.reason,
            similarity=row.similarity,
            members=tuple(json.loads(row.members)),
            survivors=tuple(
                (one["id"], tuple(one["stands_for"])) for one in json.loads(row.survivors)
            ),
            before=row.before,
            pending=row.pending,
            undone=row.undone,
            model=row.model,
            cosine=row.cosine,
            verified=row.verified,
            refused=_refused(row.refused),
        )


_REFUSALS = TypeAdapter(tuple[Refusal, ...])
_REFUSED = t.decisions.c.refused != ""


def _refused(stored: str) -> tuple[Refusal, ...]:
    return _REFUSALS.validate_json(stored) if stored else ()


def _check_image(image: Mapping[str, Any]) -> None:
    for columns in image["rows"].values():
        if columns is not None and not columns.keys() <= _COLUMNS:
            raise KeyError(*columns.keys() - _COLUMNS)
    for low, high, *_ in image["links"]:
        if not isinstance(low, str) or not isinstance(high, str):
            raise TypeError("a link between no memories")


_COLUMNS = set(t.memories.c.keys())


def _mentioning(
    ids: str | Collection[str], *roles: sa.ColumnElement[bool]
) -> sa.ColumnElement[bool]:
    """Return the SQL condition that a decision mentions one of these memories.

    `ids`: the ids of the memories, or the name of the SQL parameter that receives them. `roles`:
    SQL conditions on the table `mentions`; a mention that does not meet them does not count.
    """
    mentioned = sa.select(t.mentions.c.decision).where(among(t.mentions.c.memory_id, ids), *roles)
    return t.decisions.c.seq.in_(mentioned)


def _involving(ids: str | Collection[str]) -> sa.ColumnElement[bool]:
    return _mentioning(ids, t.mentions.c.involved)


_INSERT = Prepared(t.decisions.insert())
_MENTION = Prepared(t.mentions.insert())
_LAST = Prepared(
    sa.select(t.decisions.c.seq).order_by(t.decisions.c.seq.desc()).limit(sa.bindparam("most"))
)
_PENDING_ABOUT = Prepared(sa.select(t.decisions).where(t.decisions.c.pending, _involving("ids")))
_SCRUB = (
    t.decisions.update()
    .where(t.decisions.c.seq == sa.bindparam("number"))
    .values(
        before=sa.bindparam("left"),
        pending=sa.bindparam("still_pending"),
        reason=FORGOTTEN_REASON,
        refused="",
    )
)


def _columns(decision: Decision, before: str) -> dict[str, Any]:
    survivors = [
        {"id": survivor.memory.id, "stands_for": survivor.stands_for}
        for survivor in decision.survivors
    ]
    return {
        "action": decision.action.value,
        "reason": decision.reason,
        "similarity": decision.similarity,
        "cosine": decision.cosine,
        "candidates": json.dumps(decision.candidates),
        "members": json.dumps([member.id for member in decision.members]),
        "survivors": json.dumps(survivors),
        "before": before,
        "pending": decision.pending,
        "undone": False,
        "model": decision.model,
        "verified": decision.verified,
        "refused": _REFUSALS.dump_json(decision.refused).decode() if decision.refused else "",
        "usage": decision.usage.model_dump_json(),
    }

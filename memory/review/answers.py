"""One person's answer to one group becomes a decision in the ledger, or the reason why not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from memory.coverage import Belief, verify_by_words
from memory.decide import RoundPlan, inherit, merged, plan_again, survive
from memory.ledger import DecisionRecord, Reader, Row, Snapshot, snapshot_of
from memory.models import PERSON, Action, Decision, Memory, Rules, Survivor
from memory.review.cards import card_key, content_hash
from memory.review.decisions_file import Answer, Answered
from memory.store import Afterwards, Applied, MemoryStore, WhileUnanswered
from memory.text import identity

_BY_PERSON = "by a person"


@dataclass(frozen=True)
class Given:
    """The answer is a decision under this number, committed."""

    number: int


@dataclass(frozen=True)
class Already:
    """The same answer was given before, under this number; nothing was done."""

    number: int


@dataclass(frozen=True)
class Objected:
    """The person's text may not be true to what it is made of; nothing was done.

    A person may insist.
    """

    why: str


@dataclass(frozen=True)
class Refused:
    """The answer fits no more, or never did; nothing was done."""

    why: str


Outcome = Given | Already | Objected | Refused


@dataclass(frozen=True)
class _Group:
    """What an answer is about, as it is now."""

    plan: RoundPlan
    members: tuple[Memory, ...]
    """All of them, oldest to newest."""
    rest: tuple[Memory, ...]
    """Those that are not left out."""

    @property
    def left_out(self) -> tuple[Memory, ...]:
        return tuple(member for member in self.members if member not in self.rest)

    @property
    def similarity(self) -> float:
        """Of the two that are least alike."""
        return min(self.plan.likeness.of(a, b) for a, b in combinations(self.members, 2))


class Answers:
    """Gives one person's answers, each a decision of one run."""

    def __init__(self, store: MemoryStore, rules: Rules, run: str) -> None:
        self.run = run
        self._store = store
        self._rules = rules

    def give(self, answered: Answered, proposal: Decision | None = None) -> Outcome:
        """Apply one answer in one transaction, if its members are still what was shown.

        `proposal` is the decision about those not left out that was shown, where a model made one.

        Raises: LedgerError, EmbeddingError.
        """
        answered = answered.plain
        names = [member.id for member in answered.members]
        with self._store.ledger.reading() as reader:
            earlier = _earlier(reader, answered)
            snapshot = snapshot_of(reader, names)
        if earlier is not None:
            return Already(earlier)
        fault = next(_faults(answered, snapshot, self._store), "")
        if fault:
            return Refused(fault)
        group = self._group(answered, snapshot)
        decision = self._decided(answered, group, proposal)
        if not isinstance(decision, Decision):
            return decision
        condition = WhileUnanswered(snapshot.revision, (PERSON,))
        done = self._store.apply(decision, condition, run=self.run)
        return Given(done.number) if isinstance(done, Applied) else Refused(done.why)

    def take_back(self) -> DecisionRecord | None:
        """Undo the last answer of this run, so that its question is open again; gives it.

        Raises: CannotUndo.
        """
        with self._store.ledger.reading() as reader:
            own = [one for one in reader.decisions.of_run(self.run) if not one.undone]
        if not own:
            return None
        self._store.undo(own[-1].number, Afterwards.OPEN)
        return own[-1]

    # --- inside ---

    def _group(self, answered: Answered, snapshot: Snapshot) -> _Group:
        members = tuple(row.memory for row in snapshot.rows)
        rest = tuple(one for one in members if one.id not in answered.left_out)
        plan = plan_again(among(snapshot, rest), self._rules, self._store.scale)
        whole = plan_again(snapshot, self._rules, self._store.scale)
        return _Group(replace(plan, likeness=whole.likeness), members, rest)

    def _decided(
        self, answered: Answered, group: _Group, proposal: Decision | None
    ) -> Decision | Objected | Refused:
        if answered.answer is Answer.KEEP_ALL:
            return _kept_apart(group)
        if answered.answer is Answer.LATER:
            return _decision(group, Action.KEEP_BOTH, f"left for later {_BY_PERSON}", pending=True)
        if answered.answer is Answer.SAME:
            return _the_same(answered, group)
        if answered.text is not None:
            return self._told(answered, group)
        if proposal is not None:
            return _as_proposed(group, proposal)
        return _as_planned(answered, group)

    def _told(self, answered: Answered, group: _Group) -> Decision | Objected:
        """The person's own text for those that are not left out, held against them."""
        assert answered.text is not None
        found = verify_by_words(answered.text, [member.content for member in group.rest])
        believed = found.belief is Belief.BELIEVED
        if not believed and not answered.insist:
            return Objected(found.reason)
        survivor = merged(answered.text, group.rest, self._store.new_id)
        why = (
            f"told {_BY_PERSON}" if believed else f"told {_BY_PERSON}, who insists: {found.reason}"
        )
        decision = _decision(group, Action.MERGE, why, (survivor,))
        return replace(decision, verified="by words" if believed else "by a person")


def among(snapshot: Snapshot, members: Iterable[Memory]) -> Snapshot:
    """The same of these memories alone."""
    names = {member.id for member in members}
    rows = tuple(row for row in snapshot.rows if row.memory.id in names)
    return replace(snapshot, rows=rows)


# --- whether it fits ----------------------------------------------------------------------------


def _faults(answered: Answered, snapshot: Snapshot, store: MemoryStore) -> Iterator[str]:
    """Why the answer cannot be given, if anything is."""
    names = [member.id for member in answered.members]
    if len(set(names)) < max(2, len(names)):
        yield "a group has two members or more, each once"
    if card_key((member.id, member.hash) for member in answered.members) != answered.key:
        yield "the key is not that of these members"
    if unknown := set(answered.left_out) - set(names):
        yield f"{min(unknown)} is left out and no member"
    if answered.stays is not None and answered.stays not in set(names) - set(answered.left_out):
        yield f"{answered.stays} cannot stay: it is left out, or no member"
    rows = {row.memory.id: row for row in snapshot.rows}
    yield from filter(None, (moved(one.id, one.hash, rows.get(one.id)) for one in answered.members))
    if len({store.scope_of(row.memory) for row in snapshot.rows}) > 1:
        yield "its members are not of one scope, and are never merged"


def moved(name: str, shown: str, row: Row | None) -> str:
    """What has become of a memory since its text of this hash was shown; empty where nothing."""
    if row is None or row.forgotten:
        return f"{name} is not there any more"
    if not row.live:
        return f"{name} was retired meanwhile; {row.successor_id} stands for it"
    return "" if content_hash(row.memory.content) == shown else f"{name} has another text now"


def _earlier(reader: Reader, answered: Answered) -> int | None:
    """The number under which a person has said just this, and not taken it back."""
    names = {member.id for member in answered.members}
    for record in reader.decisions.about(answered.members[0].id) if answered.members else ():
        standing = record.by_person and not record.undone
        if standing and set(record.members) == names and _says(reader, record, answered):
            return record.number
    return None


def _says(reader: Reader, record: DecisionRecord, answered: Answered) -> bool:
    if answered.answer in (Answer.KEEP_ALL, Answer.LATER):
        if answered.answer is Answer.LATER:
            return record.left_for_later and record.pending
        return record.action is Action.KEEP_BOTH and not record.left_for_later
    gone = {name for _, absorbed in record.survivors for name in absorbed}
    touched = gone | {survivor for survivor, _ in record.survivors}
    if not touched or touched & set(answered.left_out):
        return False
    if answered.answer is Answer.SAME:
        rest = {member.id for member in answered.members} - set(answered.left_out)
        survivors = {survivor for survivor, _ in record.survivors}
        return touched == rest and (answered.stays is None or survivors == {answered.stays})
    if answered.text is None:
        return answered.retired is None or gone == set(answered.retired)
    if not {member.id for member in answered.members} - set(answered.left_out) <= touched:
        return False
    rows = reader.memories.rows([survivor for survivor, _ in record.survivors])
    return any(_same(row.memory.content, answered.text) for row in rows.values())


def _same(text: str, other: str) -> bool:
    return identity(text) == identity(other)


# --- what it amounts to -------------------------------------------------------------------------


def _as_planned(answered: Answered, group: _Group) -> Decision | Refused:
    """What the rules do without a model about those that are not left out."""
    planned = group.plan.groups[0].replacement
    if planned is None:
        return Refused("only a reader can tell what becomes of these: write a text, or keep them")
    if answered.retired is not None and set(answered.retired) != set(planned.retired):
        return Refused("what would be done about it is not what was shown")
    why = f"applied {_BY_PERSON}: {planned.reason}"
    return _decision(group, Action.REPLACE, why, planned.survivors)


def _the_same(answered: Answered, group: _Group) -> Decision:
    """One of them stands for all: the chosen one, else the one that covers all, else the newest."""
    member = next((one for one in group.rest if one.id == answered.stays), None)
    if member is not None:
        why = f"chosen {_BY_PERSON} to stand for the others"
        return _decision(group, Action.REPLACE, why, (survive(member, group.rest),))
    planned = group.plan.groups[0].replacement
    whole = planned is not None and len(planned.retired) == len(group.rest) - 1
    survivors = planned.survivors if planned and whole else (survive(group.rest[-1], group.rest),)
    return _decision(group, Action.REPLACE, f"called the same {_BY_PERSON}", survivors)


def _as_proposed(group: _Group, proposal: Decision) -> Decision:
    """What a model has proposed, whoever it keeps apart included."""
    why = f"applied {_BY_PERSON}, as {proposal.model} proposed: {proposal.reason}"
    survivors = [_as_of_today(survivor, group.members) for survivor in proposal.survivors]
    decision = _decision(group, proposal.action, why, survivors)
    return replace(
        decision,
        distinct=tuple(dict.fromkeys((*decision.distinct, *proposal.distinct))),
        usage=proposal.usage,
        verified=proposal.verified,
    )


def _as_of_today(survivor: Survivor, members: Sequence[Memory]) -> Survivor:
    """The same text with the time, tags and importance that its members have by now."""
    its = [one for one in members if one.id in (survivor.memory.id, *survivor.stands_for)]
    text_of = next((one for one in its if one.id == survivor.memory.id), survivor.memory)
    return replace(survivor, memory=inherit(text_of, its))


def _kept_apart(group: _Group) -> Decision:
    pairs = tuple((a.id, b.id) for a, b in combinations(group.members, 2))
    decision = _decision(group, Action.KEEP_BOTH, f"kept apart {_BY_PERSON}")
    return replace(decision, distinct=pairs)


def _decision(
    group: _Group,
    action: Action,
    reason: str,
    survivors: Sequence[Survivor] = (),
    *,
    pending: bool = False,
) -> Decision:
    """About all members; who is left out is told from all others, and from what they become."""
    told = {member.id: member for member in group.rest}
    told |= {survivor.memory.id: survivor.memory for survivor in survivors}
    pairs = tuple((name, out.id) for out in group.left_out for name in told)
    return Decision(
        action,
        reason,
        group.members,
        tuple(survivors),
        similarity=group.similarity,
        distinct=() if pending else pairs,
        pending=pending,
        model=PERSON,
    )

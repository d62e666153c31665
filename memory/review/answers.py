"""Turns a person's answer about a group of near-copies into a decision, and applies it.

Judges (a model, or the free judge that needs no model) may propose the decision to the person.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

from memory.coverage import Belief, verify_by_words
from memory.decide import GroupPlan, RoundPlan, inherit, merged, plan_again, survive
from memory.deduplicator import Judging
from memory.errors import ModelError
from memory.ledger import DecisionRecord, Reader, Row, Snapshot, snapshot_of
from memory.models import PERSON, Action, Decision, Memory, Question, Rules, Survivor, Usage
from memory.providers import Asking, Budget, CallBudget
from memory.review.cards import card_key, content_hash
from memory.review.decisions_file import Answered, ReviewAnswer
from memory.store import Applied, MemoryStore, WhileUnanswered
from memory.text import identity

logger = logging.getLogger(__name__)

_BY_PERSON = "by a person"
_CALLS = 8
"""The most model calls for one proposal, repeated calls included."""
Selection = tuple[str, frozenset[str]]
"""A group without some of its members: the key of the group's card, and the ids left out."""


class Given(NamedTuple):
    """The result of an answer that was applied; `number` is the number of the recorded decision."""

    number: int
    repeated: bool = False
    """Whether a person had given the same answer before; if so, nothing was changed now."""


class Refused(NamedTuple):
    """The result of an answer that was not applied. `why` is the reason; nothing was changed."""

    why: str
    may_insist: bool = False
    """Whether a check rejected the text that the person wrote, and the person may insist on it.

    True only if this is the only reason for the refusal.
    """


AnswerResult = Given | Refused


@dataclass(frozen=True)
class _Group:
    """The group of memories that an answer is about, in its present state."""

    members: tuple[Memory, ...]
    """All members of the group, oldest first."""
    plan: GroupPlan
    """The plan of the rules for the members that the person did not leave out."""
    similarity: float


class Answers:
    """Applies people's answers. Their decisions are recorded under the run name `run`."""

    def __init__(self, store: MemoryStore, rules: Rules, run: str) -> None:
        self.run = run
        self._store = store
        self._rules = rules

    def give(self, answered: Answered, proposal: Decision | None = None) -> AnswerResult:
        """Apply a person's answer in one transaction, and return the result.

        The answer is refused if a member has changed after the person saw it. If a person gave the
        same answer before, nothing is changed. `proposal`: the judge's proposal that the page
        showed, about the members that the person did not leave out; None if the page showed none.

        Raises: LedgerError, EmbeddingError.
        """
        answered = answered.plain
        with self._store.ledger.reading() as reader:
            earlier = _same_answer_before(reader, answered)
            snapshot = snapshot_of(reader, [member.id for member in answered.members])
        if earlier is not None:
            return Given(earlier, repeated=True)
        fault = next(_faults(answered, snapshot, self._store), "")
        if fault:
            return Refused(fault)
        decision = self._decided(answered, self._group(answered, snapshot), proposal)
        if isinstance(decision, Refused):
            return decision
        condition = WhileUnanswered(snapshot.revision, (PERSON,))
        done = self._store.apply(decision, condition, run=self.run)
        return Given(done.number) if isinstance(done, Applied) else Refused(done.why)

    def take_back(self) -> DecisionRecord | None:
        """Undo the latest answer of this run that is not undone yet, and open its question again.

        Return the undone decision; None if there is no answer to undo.

        Raises: CannotUndo.
        """
        with self._store.ledger.reading() as reader:
            own = [record for record in reader.decisions.of_run(self.run) if not record.undone]
        if not own:
            return None
        self._store.undo(own[-1].number, keep_apart=False)
        return own[-1]

    # --- inside ---

    def _group(self, answered: Answered, snapshot: Snapshot) -> _Group:
        members = tuple(row.memory for row in snapshot.rows)
        remaining = only(snapshot, {member.id for member in members} - set(answered.left_out))
        plan = plan_again(remaining, self._rules, self._store.scale)
        return _Group(members, plan.groups[0], plan.likeness.lowest(members))

    def _decided(
        self, answered: Answered, group: _Group, proposal: Decision | None
    ) -> Decision | Refused:
        if answered.answer is ReviewAnswer.KEEP_ALL:
            pairs = tuple((a.id, b.id) for a, b in combinations(group.members, 2))
            decision = _decision(group, Action.KEEP_BOTH, f"kept apart {_BY_PERSON}")
            return replace(decision, distinct=pairs)
        if answered.answer is ReviewAnswer.LATER:
            decision = _decision(group, Action.KEEP_BOTH, f"left for later {_BY_PERSON}")
            return replace(decision, distinct=(), pending=True)
        if answered.answer is ReviewAnswer.SAME:
            return _as_same(answered, group)
        if answered.text is not None:
            return self._written(answered.text, answered.insist, group)
        if proposal is not None:
            return _as_proposed(group, proposal)
        return _as_planned(answered, group)

    def _written(self, text: str, insist: bool, group: _Group) -> Decision | Refused:
        """Return a decision that merges the members into `text`, which a person wrote.

        Members that the person left out are not merged. Return Refused if the word check finds that
        the text loses or adds something. If `insist` is true, the decision is returned even then.
        """
        found = verify_by_words(text, [member.content for member in group.plan.members])
        believed = found.belief is Belief.BELIEVED
        if not believed and not insist:
            return Refused(found.reason, may_insist=True)
        survivor = merged(text, group.plan.members, self._store.new_id)
        why = f"told {_BY_PERSON}" + ("" if believed else f", who insists: {found.reason}")
        decision = _decision(group, Action.MERGE, why, (survivor,))
        return replace(decision, verified="by words" if believed else "by a person")


def only(snapshot: Snapshot, ids: Collection[str]) -> Snapshot:
    return replace(snapshot, rows=tuple(row for row in snapshot.rows if row.memory.id in ids))


# --- whether it fits ----------------------------------------------------------------------------


def _faults(answered: Answered, snapshot: Snapshot, store: MemoryStore) -> Iterator[str]:
    """Yield the reasons why an answer cannot be applied; yield nothing if it can be applied.

    `snapshot` has the members as they are now. `store` says which scope a member belongs to.
    """
    names = [member.id for member in answered.members]
    if len(set(names)) < max(2, len(names)):
        yield "a group needs two or more different members"
    if card_key((member.id, member.hash) for member in answered.members) != answered.key:
        yield "the key does not belong to these members"
    if unknown := set(answered.left_out) - set(names):
        yield f"{min(unknown)} is left out but is not a member"
    if answered.stays is not None and answered.stays not in set(names) - set(answered.left_out):
        yield f"{answered.stays} cannot stay: it is left out or not a member"
    rows = {row.memory.id: row for row in snapshot.rows}
    changes = (
        change_since(member.id, member.hash, rows.get(member.id)) for member in answered.members
    )
    yield from filter(None, changes)
    if len({store.scope_of(row.memory) for row in snapshot.rows}) > 1:
        yield "its members belong to different scopes, which are never merged"


def change_since(name: str, shown: str, row: Row | None) -> str:
    """Describe in words how a memory has changed after a person saw it; "" if it has not changed.

    `name` is the memory's id, and `shown` the hash of the text that the person saw. `row` is the
    memory's present row, or None if it has no row any more.
    """
    if row is None or row.forgotten:
        return f"{name} does not exist any more"
    if not row.live:
        return f"{name} was retired since; {row.successor_id} stands for it"
    return "" if content_hash(row.memory.content) == shown else f"{name} has another text now"


def _same_answer_before(reader: Reader, answered: Answered) -> int | None:
    """Return the number of the decision by which a person already gave the answer `answered`.

    Return None if there is no such decision, or if it was undone.
    """
    names = {member.id for member in answered.members}
    for record in reader.decisions.about(answered.members[0].id) if answered.members else ():
        standing = record.by_person and not record.undone
        if standing and set(record.members) == names and _is_same(reader, record, answered):
            return record.number
    return None


def _is_same(reader: Reader, record: DecisionRecord, answered: Answered) -> bool:
    """Return whether a recorded decision did what this answer asks for.

    The caller has checked that both are about the same members.
    """
    if answered.answer is ReviewAnswer.LATER:
        return record.left_for_later and record.pending
    if answered.answer is ReviewAnswer.KEEP_ALL:
        return record.action is Action.KEEP_BOTH and not record.left_for_later
    survivors = [survivor for survivor, _ in record.survivors]
    retired = {name for _, stands_for in record.survivors for name in stands_for}
    touched, left_out = retired.union(survivors), set(answered.left_out)
    rest = {member.id for member in answered.members} - left_out
    if not touched or touched & left_out:
        return False
    if answered.answer is ReviewAnswer.SAME:
        return touched == rest and (answered.stays is None or survivors == [answered.stays])
    if answered.text is None:
        return answered.retired is None or retired == set(answered.retired)
    rows = reader.memories.rows(survivors).values()
    text = identity(answered.text)
    return rest <= touched and any(identity(row.memory.content) == text for row in rows)


# --- what it becomes ----------------------------------------------------------------------------


def _as_planned(answered: Answered, group: _Group) -> Decision | Refused:
    """Return a decision that carries out what the rules planned for the group.

    The plan is about the members that the person did not leave out. Return Refused if the rules
    planned no replacement. Also return Refused if they would retire other members than those that
    the page showed as retired.
    """
    planned = group.plan.replacement
    if planned is None:
        return Refused("the rules cannot decide this group: write a text, or keep the members")
    if answered.retired is not None and set(answered.retired) != set(planned.retired):
        return Refused("the plan has changed since it was shown")
    why = f"applied {_BY_PERSON}: {planned.reason}"
    return _decision(group, Action.REPLACE, why, planned.survivors)


def _as_same(answered: Answered, group: _Group) -> Decision:
    """Return a decision by which one member replaces all other members that are not left out.

    The member that stays is the one that the person chose. If the person chose none, a member stays
    whose text states everything that the others state. If there is no such member, the newest
    stays.
    """
    chosen = next((member for member in group.plan.members if member.id == answered.stays), None)
    if chosen is not None:
        why = f"chosen {_BY_PERSON} to stand for the others"
        return _decision(group, Action.REPLACE, why, (survive(chosen, group.plan.members),))
    planned = group.plan.replacement
    covers_all = planned is not None and len(planned.retired) == len(group.plan.members) - 1
    newest = (survive(group.plan.members[-1], group.plan.members),)
    survivors = planned.survivors if planned and covers_all else newest
    return _decision(group, Action.REPLACE, f"called the same {_BY_PERSON}", survivors)


def _as_proposed(group: _Group, proposal: Decision) -> Decision:
    """Return a decision that carries out a judge's proposal, recorded as made by a person.

    It records as distinct the pairs of members that the proposal calls distinct. It also records
    each member that the person left out as distinct from the members that were not left out.
    """
    why = f"applied {_BY_PERSON}, as {proposal.model} proposed: {proposal.reason}"
    survivors = [_with_values_of(group.members, survivor) for survivor in proposal.survivors]
    decision = _decision(group, proposal.action, why, survivors)
    return replace(
        decision,
        distinct=tuple(dict.fromkeys((*decision.distinct, *proposal.distinct))),
        usage=proposal.usage,
        verified=proposal.verified,
    )


def _with_values_of(members: Sequence[Memory], survivor: Survivor) -> Survivor:
    """Update a proposed survivor with the present values of the members that it replaces.

    Return a copy of `survivor` with their time, tags and other values (see `inherit`). `members`:
    all members of the group, oldest first; those that it does not replace are ignored.
    """
    own = [member for member in members if member.id in (survivor.memory.id, *survivor.stands_for)]
    text_of = next((member for member in own if member.id == survivor.memory.id), survivor.memory)
    return replace(survivor, memory=inherit(text_of, own))


def _decision(
    group: _Group, action: Action, reason: str, survivors: Sequence[Survivor] = ()
) -> Decision:
    """Return a decision about the group, recorded as made by a person.

    `survivors`: the memories that stay, with the ids of the members that each replaces. Each member
    that the person left out is recorded as distinct from every survivor, and from every member that
    was not left out. `reason` is recorded, too.
    """
    names = dict.fromkeys(member.id for member in group.plan.members)
    names |= dict.fromkeys(survivor.memory.id for survivor in survivors)
    left_out = [member.id for member in group.members if member not in group.plan.members]
    return Decision(
        action,
        reason,
        group.members,
        tuple(survivors),
        similarity=group.similarity,
        distinct=tuple((name, out) for out in left_out for name in names),
        model=PERSON,
    )


# --- proposals ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Proposal:
    """A decision about a group, proposed by the judge called `by`.

    It is applied only if a person agrees.
    """

    by: str
    decision: Decision

    @property
    def token(self) -> str:
        """A hash that identifies the content of the proposal, as 16 hexadecimal digits.

        The page sends it back with the answer. This shows whether the proposal has changed after
        the person saw it.
        """
        parts = [self.by, self.decision.action.value, *(m.id for m in self.decision.members)]
        for survivor in self.decision.survivors:
            parts += [survivor.memory.id, survivor.memory.content, *survivor.stands_for]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    @property
    def failed(self) -> bool:
        return self.decision.pending


class Proposals:
    """Asks judges about groups, and keeps their proposals in `latest`.

    `latest` has the latest proposal for each group and each choice of members left out.
    """

    def __init__(self, judges: Mapping[str, Judging], budget_s: float) -> None:
        """Start without proposals.

        `judges`: the judges by name; the first judge must be one that needs no model.
        `budget_s`: the most seconds to wait for one proposal.
        """
        self.judges = judges
        self.latest: dict[Selection, Proposal] = {}
        self._budget_s = budget_s

    async def ask(self, by: str, selection: Selection, plan: RoundPlan) -> Proposal:
        """Ask the judge called `by` about one group; keep and return the proposal.

        `selection` names the group and the members left out; it is the key of the proposal in
        `latest`. `plan` contains only this group, without the members left out. The judge is asked
        once. If it gives no usable answer, the proposal's `failed` is true.
        """
        question = _question_about(plan)
        decision = await self.judges[by].decide(question, self._asking(), most_answers=1)
        self.latest[selection] = Proposal(by, decision)
        return self.latest[selection]

    async def ask_together(self, by: str, plans: Mapping[Selection, RoundPlan]) -> set[Selection]:
        """Ask the judge called `by` about several groups in one question, and keep the proposals.

        Each plan contains one group, without the members left out. All groups belong to one scope.
        Return the keys of the plans whose groups got a proposal. If the judge's answer joins
        members of two groups, neither group gets a proposal. Nothing is asked about a single group.
        """
        if len(plans) < 2:
            return set()
        asking = self._asking()
        try:
            questions = list(map(_question_about, plans.values()))
            decisions = await self.judges[by].decide_together(questions, asking)
        except ModelError as exc:
            logger.warning("several groups could not be asked together: %s", exc)
            return set()
        answered = {of: one for of, one in zip(plans, decisions, strict=True) if one is not None}
        first = next(iter(answered), None)  # the cost is recorded once
        for selection, decision in answered.items():
            usage = asking.usage if selection == first else Usage()
            self.latest[selection] = Proposal(by, replace(decision, usage=usage))
        return set(answered)

    def _asking(self) -> Asking:
        return Asking(CallBudget(_CALLS), Budget(self._budget_s))


def _question_about(plan: RoundPlan) -> Question:
    [group] = plan.groups
    if group.question is not None and group.replacement is None:
        return group.question
    return Question(group.members, "a person asks", plan.likeness.lowest(group.members))

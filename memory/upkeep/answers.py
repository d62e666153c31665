"""A person's answers about groups of near-copies: the decisions file, and how they are applied.

The file is in JSON Lines. Its first line is `{"decisions": 1}`, the version of the format. Each
further line is the answer about one group. If a group occurs twice, the later line counts:

    {"key": "1f3a5c7e9b2d4f60",
     "members": [{"id": "mem_0123456789ab", "hash": "0f1e2d3c4b5a6978"}, ...],
     "answer": "apply", "left_out": [], "text": null,
     "insist": false, "retired": ["mem_0123456789ab"], "stays": null}

- `key`: the hash that identifies the group, made from `members` (see `card_key`).
- `members`: all members of the group, oldest to newest, each with the hash of its exact text
  (`content_hash`), so that a text that has changed is noticed.
- `answer`: one of `ReviewAnswer`.
- `left_out`: members that stay as they are while the answer is applied to the others.
- `text`: a merged text that the person wrote; null if they wrote none.
- `insist`: apply `text` even if the check of its words (`verify_by_words`) refuses it.
- `retired`: the members that the plan retired when the person saw it. If the answer is to apply
  the plan, and the plan now retires other members, the answer is refused. null: no such check.
- `stays`: if the answer is `same`, the member that replaces the others; null if the person chose
  none.

`left_out`, `text`, `insist`, `retired` and `stays` may be missing. The file contains no text of a
memory, only what the person wrote.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from memory.coverage import Belief, verify_by_words
from memory.decide import GroupPlan, inherit, merged, plan_again, survivor_of
from memory.errors import InputError
from memory.ledger import DecisionRecord, Reader, snapshot_of
from memory.models import (
    PERSON,
    Action,
    Condition,
    Content,
    Decision,
    Frozen,
    Memory,
    Rules,
    Snapshot,
    Survivor,
    from_json,
)
from memory.runtime import read_objects
from memory.store import Conflict, MemoryStore
from memory.text import identity
from memory.upkeep.cards import card_key, content_hash

_BY_PERSON = "by a person"
_FIRST = {"decisions": 1}
_MOST_VALUES = 1_000_000  # three for each member, and a group may have many members


# --- what a person answers: the decisions file ---------------------------------------------------


class ReviewAnswer(StrEnum):
    """A person's answer about a group of near-copies.

    APPLY: apply the planned decision, the judge's proposal, or the person's own text. SAME: one
    member replaces the others. KEEP_ALL: all members differ. LATER: the question is postponed.
    """

    APPLY = "apply"
    SAME = "same"
    KEEP_ALL = "keep_all"
    LATER = "later"


class AnsweredMember(Frozen):
    """A member's id, and the hash of the text that the person saw."""

    id: str
    hash: str


class Answered(Frozen):
    """A person's answer about one group. The docstring of this module describes the fields.

    >>> cats = [store.new_memory(f"Amy has {n} cats.", user="Amy") for n in (2, 3)]
    >>> count = store.add_batch(cats)
    >>> audited = await audit_store(store, config)
    >>> [card] = [one for one in cards_of(audited.plan) if one.user == "Amy"]
    >>> seen = tuple(AnsweredMember(id=one.id, hash=one.content_hash) for one in card.members)
    >>> answered = Answered(key=card.key, members=seen, answer=ReviewAnswer.SAME)
    >>> alone = answered.model_copy(update={"left_out": (cats[0].id,)})
    >>> answered.plain.answer.value, alone.plain.answer.value
    ('same', 'keep_all')
    """

    key: str
    members: tuple[AnsweredMember, ...]
    answer: ReviewAnswer
    left_out: tuple[str, ...] = ()
    text: Content | None = None
    insist: bool = False
    stays: str | None = None
    retired: tuple[str, ...] | None = None

    @property
    def plain(self) -> Answered:
        """This answer, or `keep_all` if too few members remain for it.

        An answer `apply` or `same` needs two or more members that are not in `left_out`.
        """
        rest = {member.id for member in self.members} - set(self.left_out)
        joins = self.answer in (ReviewAnswer.APPLY, ReviewAnswer.SAME)
        if not joins or not self.left_out or len(rest) > 1:
            return self
        return self.model_copy(
            update={
                "answer": ReviewAnswer.KEEP_ALL,
                "left_out": (),
                "text": None,
                "stays": None,
            }
        )

    @property
    def takes_plan(self) -> bool:
        return self.answer is ReviewAnswer.APPLY and self.text is None


def read_decisions(path: Path) -> list[tuple[int, Answered | InputError]]:
    """Read a decisions file; return pairs of a line number and an answer, in the order of the file.

    If several lines are about the same group, only the last one counts. For a line that is not
    valid, an InputError takes the place of the answer.

    >>> size = Path("answers.jsonl").write_text('{"decisions": 1}\\n{"key": "k"}\\n')
    >>> [(line, problem)] = read_decisions(Path("answers.jsonl"))
    >>> line, str(problem)
    (2, 'answers.jsonl:2: members: is missing')

    Raises: InputError if this is not a decisions file of a known version.
    """
    answers: dict[object, tuple[int, Answered | InputError]] = {}
    lines = read_objects(path)
    number, first = next(lines, (1, {}))
    if first != _FIRST:
        raise InputError(
            path,
            f"is not a decisions file: line 1 is not {json.dumps(_FIRST)}",
            "give a file that was saved in a report (audit --report audit.html)",
            number,
        )
    for number, fields in lines:
        if isinstance(fields, ValueError):
            answers[number] = number, InputError(path, str(fields), line=number)
            continue
        try:
            answered = from_json(Answered, fields, _MOST_VALUES)
        except ValueError as exc:
            answers[number] = number, InputError(path, str(exc), line=number)
        else:
            answers.pop(answered.key, None)
            answers[answered.key] = number, answered
    return list(answers.values())


# --- applying an answer ---------------------------------------------------------------------------


class Given(NamedTuple):
    """The result of an answer that is recorded as a decision; `number` is the decision's number.

    `repeated`: whether an earlier decision already recorded the same answer. Then `number` is that
    decision's number, and nothing was changed.

    >>> cats = [store.new_memory(f"Cem has {n} cats.", user="Cem") for n in (2, 3)]
    >>> count = store.add_batch(cats)
    >>> audited = await audit_store(store, config)
    >>> [card] = [one for one in cards_of(audited.plan) if one.user == "Cem"]
    >>> seen = tuple(AnsweredMember(id=one.id, hash=one.content_hash) for one in card.members)
    >>> apart = Answered(key=card.key, members=seen, answer=ReviewAnswer.KEEP_ALL)
    >>> [build_answers(store, config).give(apart).repeated for _ in range(2)]
    [False, True]
    """

    number: int
    repeated: bool = False


class Refused(NamedTuple):
    """The result of an answer that was not applied; `why` is the reason.

    `may_insist`: whether the person may give the answer again with `insist`. This is so if the
    person wrote a text, and the check of its words (`verify_by_words`) refused it.
    """

    why: str
    may_insist: bool = False


AnswerResult = Given | Refused


@dataclass(frozen=True)
class _Group:
    members: tuple[Memory, ...]
    plan: GroupPlan
    similarity: float


class Answers:
    """Applies people's answers. Their decisions are recorded under the run name `run`.

    >>> cats = [store.new_memory(f"Ben has {n} cats.", user="Ben") for n in (2, 3)]
    >>> count = store.add_batch(cats)
    >>> audited = await audit_store(store, config)
    >>> [card] = [one for one in cards_of(audited.plan) if one.user == "Ben"]
    >>> seen = tuple(AnsweredMember(id=one.id, hash=one.content_hash) for one in card.members)
    >>> same = Answered(key=card.key, members=seen, answer=ReviewAnswer.SAME, stays=cats[1].id)
    >>> given = build_answers(store, config).give(same)
    >>> [memory.content for memory in memories.list(user="Ben")]
    ['Ben has 3 cats.']
    """

    def __init__(self, store: MemoryStore, rules: Rules, run: str) -> None:
        self.run = run
        self._store = store
        self._rules = rules

    def give(self, answered: Answered, proposal: Decision | None = None) -> AnswerResult:
        """Apply a person's answer in one transaction.

        The answer is refused if a member has changed since the person saw it. `proposal`: what a
        judge proposed; the answer `apply` without a text then applies it instead of the plan.

        Raises: LedgerError, EmbeddingError.
        """
        answered = answered.plain
        with self._store.ledger.reading() as reader:
            earlier = _same_answer_before(reader, answered)
            snapshot = snapshot_of(reader, [member.id for member in answered.members])
        if earlier is not None:
            return Given(earlier, repeated=True)
        if fault := next(_faults(answered, snapshot, self._store), ""):
            return Refused(fault)
        decision = self._decided(answered, self._group(answered, snapshot), proposal)
        if isinstance(decision, Refused):
            return decision
        condition = Condition(snapshot.revision, (PERSON,), is_answer=True)
        done = self._store.apply(replace(decision, condition=condition), run=self.run)
        return Refused(done.why) if isinstance(done, Conflict) else Given(done.number)

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
            return replace(
                _decision(group, Action.KEEP_BOTH, f"kept apart {_BY_PERSON}"),
                distinct=tuple((a.id, b.id) for a, b in combinations(group.members, 2)),
            )
        if answered.answer is ReviewAnswer.LATER:
            return replace(
                _decision(group, Action.KEEP_BOTH, f"left for later {_BY_PERSON}"),
                distinct=(),
                pending=True,
            )
        if answered.answer is ReviewAnswer.SAME:
            return _as_same(answered, group)
        if answered.text is not None:
            return self._written(answered.text, answered.insist, group)
        if proposal is not None:
            return _as_proposed(group, proposal)
        return _as_planned(answered, group)

    def _written(self, text: str, insist: bool, group: _Group) -> Decision | Refused:
        members = group.plan.members
        said = [member.said for member in members]
        found = verify_by_words(text, [member.content for member in members], said)
        believed = found.belief is Belief.BELIEVED
        if not believed and not insist:
            return Refused(found.reason, may_insist=True)
        survivor = merged(text, group.plan.members, self._store.new_id)
        why = f"told {_BY_PERSON}" + ("" if believed else f", who insists: {found.reason}")
        return replace(
            _decision(group, Action.MERGE, why, (survivor,)),
            verified="by words" if believed else "by a person",
        )


def only(snapshot: Snapshot, ids: Collection[str]) -> Snapshot:
    return replace(snapshot, rows=tuple(row for row in snapshot.rows if row.memory.id in ids))


# --- whether it fits ----------------------------------------------------------------------------


def _faults(answered: Answered, snapshot: Snapshot, store: MemoryStore) -> Iterator[str]:
    names = [member.id for member in answered.members]
    if len(set(names)) < max(2, len(names)):
        yield "a group needs two or more different members"
    if card_key((member.id, member.hash) for member in answered.members) != answered.key:
        yield "the key does not belong to these members"
    if unknown := set(answered.left_out) - set(names):
        yield f"{min(unknown)} is left out but is not a member"
    if answered.stays is not None and answered.stays not in set(names) - set(answered.left_out):
        yield f"{answered.stays} cannot stay: it is left out or not a member"
    yield from changes_since(((member.id, member.hash) for member in answered.members), snapshot)
    if len({store.scope_of(row.memory) for row in snapshot.rows}) > 1:
        yield "its members belong to different scopes, which are never merged"


def changes_since(shown: Iterable[tuple[str, str]], now: Snapshot) -> Iterator[str]:
    """Yield a message for each memory that has changed since a person saw it.

    `shown`: pairs of a memory's id and the hash of the text that the person saw.
    """
    rows = {row.memory.id: row for row in now.rows}
    for name, text_hash in shown:
        row = rows.get(name)
        if row is None or row.forgotten:
            yield f"{name} does not exist any more"
        elif not row.live:
            yield f"{name} was retired since; {row.successor_id} stands for it"
        elif content_hash(row.memory.content) != text_hash:
            yield f"{name} has another text now"


def _same_answer_before(reader: Reader, answered: Answered) -> int | None:
    names = {member.id for member in answered.members}
    for record in reader.decisions.about(min(names, default="")):
        standing = record.by_person and not record.undone
        if standing and set(record.members) == names and _is_same(reader, record, answered):
            return record.number
    return None


def _is_same(reader: Reader, record: DecisionRecord, answered: Answered) -> bool:
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
    texts = {identity(row.memory.content) for row in reader.memories.rows(survivors).values()}
    return rest <= touched and identity(answered.text) in texts


# --- what it becomes ----------------------------------------------------------------------------


def _as_planned(answered: Answered, group: _Group) -> Decision | Refused:
    planned = group.plan.replacement
    if planned is None:
        return Refused("the rules cannot decide this group: write a text, or keep the members")
    if answered.retired is not None and set(answered.retired) != set(planned.retired):
        return Refused("the plan has changed since it was shown")
    why = f"applied {_BY_PERSON}: {planned.reason}"
    return _decision(group, Action.REPLACE, why, planned.survivors)


def _as_same(answered: Answered, group: _Group) -> Decision:
    members, planned = group.plan.members, group.plan.replacement
    chosen = next((member for member in members if member.id == answered.stays), None)
    if chosen is not None:
        why = f"chosen {_BY_PERSON} to stand for the others"
        return _decision(group, Action.REPLACE, why, (survivor_of(chosen, members),))
    covers_all = planned is not None and len(planned.retired) == len(members) - 1
    survivors = (
        planned.survivors if planned and covers_all else (survivor_of(members[-1], members),)
    )
    return _decision(group, Action.REPLACE, f"called the same {_BY_PERSON}", survivors)


def _as_proposed(group: _Group, proposal: Decision) -> Decision:
    why = f"applied {_BY_PERSON}, as {proposal.model} proposed: {proposal.reason}"
    survivors = []
    for survivor in proposal.survivors:
        ids = (survivor.memory.id, *survivor.stands_for)
        own = [member for member in group.members if member.id in ids]
        text_of = next((one for one in own if one.id == survivor.memory.id), survivor.memory)
        survivors.append(replace(survivor, memory=inherit(text_of, own)))
    decision = _decision(group, proposal.action, why, survivors)
    return replace(
        decision,
        distinct=tuple(dict.fromkeys((*decision.distinct, *proposal.distinct))),
        usage=proposal.usage,
        verified=proposal.verified,
    )


def _decision(
    group: _Group, action: Action, reason: str, survivors: Sequence[Survivor] = ()
) -> Decision:
    """Return a person's decision about a group.

    Each member that the person left out is recorded as distinct from every remaining member
    (`group.plan.members`) and from every survivor.
    """
    kept = (*group.plan.members, *(survivor.memory for survivor in survivors))
    names = dict.fromkeys(memory.id for memory in kept)
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

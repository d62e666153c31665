"""Check the groups of a model's verdict, and turn them into decisions, without I/O or model calls.

A verdict is a model's answer: groups of memories to merge, each with a merged text. `resolve`
checks the groups. If a merged text is doubtful, a model compares it with the original memories in a
second reading; `as_read` applies the result. `decided` makes the decision.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from memory.coverage import Belief, states, still_stated, verify, verify_by_words
from memory.decide.policy import inherit, survivor_of
from memory.models import (
    Action,
    Decision,
    Judge,
    Memory,
    MergeReading,
    ProposedMerge,
    Question,
    Refusal,
    Refuser,
    Succession,
    Survivor,
    Verdict,
    Verified,
)
from memory.text import text_key, undated


@dataclass(frozen=True)
class Part:
    """A proposed merge of memories, with the result of checking its merged text.

    `belief`: BELIEVED for an accepted merge, REFUSED, or DOUBTFUL if a model must read the text.
    `reason`: if the merge is refused, why, worded for a model. If it is accepted, a remark on
    values of older members that the text leaves out because they are outdated, or "". `verified`:
    how an accepted text was checked. `is_final`: whether the merge is refused for good. The model
    is then not asked about it again. `why`: the model's reason for proposing the merge, or "".
    `by`: who refused the merge.
    """

    merge: ProposedMerge
    belief: Belief
    reason: str = ""
    verified: Verified | None = None
    is_final: bool = False
    why: str = ""
    by: Refuser = "the program"

    @property
    def ids(self) -> set[str]:
        return {member.id for member in self.merge.members}

    @property
    def is_refused(self) -> bool:
        return self.belief is Belief.REFUSED

    @property
    def is_believed(self) -> bool:
        return self.belief is Belief.BELIEVED

    @property
    def is_doubtful(self) -> bool:
        return self.belief is Belief.DOUBTFUL

    def refused(self, members: tuple[Memory, ...], why: str) -> Part:
        """Return the refusal of this merge, as one of `members`."""
        return Part(replace(self.merge, members=members), Belief.REFUSED, why)

    @property
    def key(self) -> str:
        """A hash of the merged text and of the members' texts."""
        texts = sorted(member.dated_key for member in self.merge.members)
        end = ["ends the others"] if self.merge.ends else []
        return text_key("\n".join([*texts, self.merge.text, *end]))

    @property
    def refusal(self) -> Refusal:
        """The record of this merge, which was refused."""
        members = tuple(member.id for member in self.merge.members)
        return Refusal(
            members=members, text=self.merge.text, by=self.by, why=self.reason, key=self.key
        )


MOST_IN_GROUP = 12
"""The maximum number of memories that a model may merge into one."""
LONGEST = 400
Apart = Callable[[Sequence[Memory]], Judge | None]
"""Takes memories; returns the judge who ruled that two of them are different facts, or None."""


def resolve(question: Question, verdict: Verdict, apart: Apart = lambda _: None) -> list[Part]:
    """Check each group of a verdict without a model; return one part per group, in order.

    Each group is accepted or refused separately. A group is refused if `apart` finds a judge who
    ruled that two of its members are different facts. If a person ruled so, the refusal is final.
    If a model ruled so, the refusal is final only when `question` repeats an earlier question. The
    members of a part are the memories of its group that were shown; they may be fewer than two.
    """
    shown = range(len(question.members))
    taken: set[int] = set()
    parts = []
    for group in verdict.parts:
        named = set(group.members)
        known = sorted(named.intersection(shown))
        merge = ProposedMerge(tuple(question.members[n] for n in known), group.text.strip())
        fault = "" if taken.isdisjoint(named) else "one of its memories is in another group"
        if len(known) < 2:
            fault = "it names fewer than two memories"
        if len(known) < len(named):
            fault = "it names a memory that was not shown"
        taken.update(known if len(known) > 1 else ())
        keeper = apart(merge.members)
        part = part_alone(merge, keeper, fault, is_last=bool(question.objection))
        parts.append(replace(part, why=group.reason))
    return parts


def part_alone(
    merge: ProposedMerge, keeper: Judge | None, fault: str = "", is_last: bool = False
) -> Part:
    """Check one proposed merge without a model; return it as accepted, refused or DOUBTFUL.

    A merge of too many memories, or with too long a text, is refused for good.

    `keeper`: the judge who ruled earlier that two of the members are different facts; None if no
    judge did. After such a ruling, the merge is refused. This refusal is final if the judge is a
    person. `is_last`: whether it is final after the ruling of another judge, too.

    `fault`: a reason for refusal that the caller has found; "" if there is none.
    """
    merge = replace(merge, text=_without_marks(merge))
    longest = max((len(member.content) for member in merge.members), default=0)
    most = max(LONGEST + LONGEST // 10, longest + longest // 5)  # models count words badly
    final = ""
    if keeper == "person":
        final = "a person keeps two of them apart"
    elif len(merge.members) > MOST_IN_GROUP:
        final = f"a group has at most {MOST_IN_GROUP} memories"
    elif len({member.expires_at for member in merge.members}) > 1:
        final = "they expire at different times"
    elif len(merge.text) > most:
        final = f"the merged text has more than {most} characters"
    if final:
        by: Refuser = "a person" if keeper == "person" else "the program"
        return Part(merge, Belief.REFUSED, final, is_final=True, by=by)
    if keeper is not None:
        why = "an earlier verdict says that two of them are different facts"
        return Part(merge, Belief.REFUSED, why, is_final=is_last, by="the model")
    fault = fault if merge.text else "the merged text is empty"
    return Part(merge, Belief.REFUSED, fault) if fault else checked(merge)


def _without_marks(merge: ProposedMerge) -> str:
    """Return the text without bracketed days and dates, which are shown but not stored."""
    plain = undated(merge.text)
    return merge.text if any(undated(m.content) != m.content for m in merge.members) else plain


def checked(merge: ProposedMerge, *, by_words: bool = False) -> Part:
    """Check a merge without a model, and return it as accepted, refused or DOUBTFUL.

    DOUBTFUL means that a model must read the text.

    `by_words`: true if no model will read the text. Then the result is never DOUBTFUL. The text is
    accepted only if it adds no word and states everything that the members state. It may leave out
    an older member's number or date if a newer member gives another number or date instead. The
    text of a member that states all other members, times included, is accepted in any case.
    """
    same = (one for one in merge.members if one.content == merge.text)
    if any(all(states(one, other) for other in merge.members) for one in same):
        return Part(merge, Belief.BELIEVED, verified="by words")
    check = verify_by_words if by_words else verify
    members = merge.members
    if merge.ends:
        return _checked_end(merge, by_words=by_words)
    found = check(merge.text, [one.content for one in members], [one.said for one in members])
    verified: Verified | None = "by words" if found.belief is Belief.BELIEVED else None
    return Part(merge, found.belief, found.reason, verified)


def _checked_end(merge: ProposedMerge, *, by_words: bool) -> Part:
    if by_words:
        why = "only a model with a second reading may end a memory"
        return Part(merge, Belief.REFUSED, why, is_final=True)
    *older, newest = merge.members
    left = [part for one in older for part in still_stated(newest.content, one.content)]
    if left:
        return Part(merge, Belief.REFUSED, f"the merged text loses: {'; '.join(left)}")
    return Part(merge, Belief.DOUBTFUL)


def as_read(part: Part, reading: MergeReading | None) -> Part:
    """Return a doubtful part as accepted or refused, depending on its second reading.

    `reading`: the result of the model's comparison of the merged text with the original memories.
    None means that the model did not answer; the part is then refused.
    """
    if reading is None:
        return replace(
            part,
            belief=Belief.REFUSED,
            reason="the second reading did not answer about the merged text",
        )
    if reading.accepted:
        return replace(part, belief=Belief.BELIEVED, reason="", verified="by a second reading")
    faults = [f"loses: {'; '.join(reading.lost)}"] if reading.lost else []
    faults += [f"adds: {'; '.join(reading.added)}"] if reading.added else []
    why = f"the merged text {', and '.join(faults)}"
    return replace(part, belief=Belief.REFUSED, reason=why, by="a second reading")


def refused_again(part: Part, before: Collection[Refusal]) -> Part:
    """Return a doubtful part as refused if a second reading refused this text for its members."""
    read = (one for one in before if one.by == "a second reading")
    known = next((one for one in read if one.key == part.key), None)
    if part.belief is not Belief.DOUBTFUL or known is None:
        return part
    return replace(part, belief=Belief.REFUSED, reason=known.why, by=known.by)


def objection(
    members: Sequence[Memory], refused: Sequence[Part], stand: Sequence[Part] = ()
) -> str:
    """Return what a model is told of its last answer before it is asked once more.

    `members`: the memories that it is shown now, in order. `refused`: its groups whose text was
    refused. `stand`: its groups of these memories that were accepted.
    """
    number = {member.id: str(n) for n, member in enumerate(members, start=1)}

    def named(part: Part) -> str:
        shown = (number[one.id] for one in part.merge.members if one.id in number)
        return f"group {', '.join(shown)} with the text {part.merge.text!r}"

    why = [f"{named(part)}: {part.reason}" for part in refused]
    return "; ".join([*why, *(f"accepted: {named(part)}" for part in stand)])


def successions(question: Question, verdict: Verdict) -> tuple[Succession, ...]:
    """Return which members of a question end which others, as the model named them."""
    members, shown = question.members, range(len(question.members))
    return tuple(
        Succession(members[one.older].id, members[one.newer].id, one.reason)
        for one in verdict.updates
        if one.older in shown and one.newer in shown
    )


def decided(
    question: Question,
    verdict: Verdict,
    parts: Sequence[Part],
    new_id: Callable[[], str],
    model: str,
    refused: Sequence[Part] = (),
) -> Decision:
    """Return the decision that carries out a model's answer to a question.

    `parts`: the merges in the answer that have passed their checks. Members that are not in the
    same part are recorded as distinct. `refused`: the other merges; their members are left out of
    the decision, unless they are in `parts` too.
    """
    survivors = tuple(merged(part.merge.text, part.merge.members, new_id) for part in parts)
    part_of = {one.id: n for n, part in enumerate(parts) for one in part.merge.members}
    gone = {one.id for part in refused for one in part.merge.members} - part_of.keys()
    members = tuple(member for member in question.members if member.id not in gone)
    by_reading = any(part.verified == "by a second reading" for part in parts)
    why = verdict.reason or "judged distinct"
    if verdict.parts and not verdict.reason:
        why = same_fact("; ".join(dict.fromkeys(part.why for part in parts if part.why)))
    reasons = [why, *(part.reason for part in parts if part.reason)]
    if refused:
        faults = "; ".join(part.reason for part in refused)
        reasons.append(f"another group is refused: {faults}")
    return Decision(
        Action.MERGE if survivors else Action.KEEP_BOTH,
        "; ".join(reasons),
        members,
        survivors,
        similarity=question.similarity,
        cosine=question.cosine,
        distinct=tuple(
            (a.id, b.id)
            for a, b in combinations(members, 2)
            if a.id not in part_of or part_of[a.id] != part_of.get(b.id)
        ),
        model=model,
        usage=verdict.usage,
        verified=("by a second reading" if by_reading else "by words") if survivors else None,
    )


def same_fact(why: str) -> str:
    """Return the reason of a merge; `why`: what the model said about it, or ""."""
    return f"states the same fact: {why}" if why else "states the same fact"


def merged(text: str, group: tuple[Memory, ...], new_id: Callable[[], str]) -> Survivor:
    """Return the memory that stays after the memories of `group` are merged into the text `text`.

    `group` is ordered oldest first. If members have this text already, the newest of these members
    stays, and keeps the day from which its words count. Otherwise, a new memory is made, which
    stands under the newest member's day.
    """
    if (unchanged := ProposedMerge(group, text).unchanged) is not None:
        return survivor_of(unchanged, group)
    seed = group[-1].model_copy(
        update={
            "id": new_id(),
            "external_id": None,
            "content": text.strip(),
            "merged_from": tuple(member.id for member in group),
        }
    )
    return Survivor(inherit(seed, group), tuple(member.id for member in group))

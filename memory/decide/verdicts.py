"""Check the groups of a model's verdict, and turn them into decisions; no I/O and no model calls.

`resolve` accepts or refuses each merged text, if that is possible without a model. The caller has
doubtful ones read and passes the result to `as_read`, or calls `checked` with `by_words` if no
model reads. `decided` then makes the decision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from memory.coverage import Belief, verify, verify_by_words
from memory.decide.policy import inherit, survive
from memory.models import (
    Action,
    Decision,
    Judge,
    Memory,
    MergeReading,
    ProposedMerge,
    Question,
    Survivor,
    Verdict,
    Verified,
)
from memory.text import identity


@dataclass(frozen=True)
class Part:
    """A group of a model's verdict as a proposed merge, and the result of checking its text."""

    merge: ProposedMerge
    belief: Belief
    """DOUBTFUL means that the text needs a second reading."""
    reason: str = ""
    """Why the merge was refused, worded for a model, or which values are outdated."""
    verified: Verified | None = None
    """How the text was accepted; None if it was not."""
    is_final: bool = False
    """Whether a refused merge must not be asked about again."""


def resolve(question: Question, verdict: Verdict) -> tuple[Part, ...] | str:
    """Return the groups of a verdict, each checked without a model, or why the whole verdict is
    invalid.

    A verdict is a model's answer to the question which members state the same fact.
    """
    named = [index for group in verdict.parts for index in group.members]
    if any(not 0 <= index < len(question.members) for index in named):
        return "the answer names a memory that was not shown"
    if len(set(named)) < len(named):
        return "the answer puts one memory into two groups"
    return tuple(
        checked(
            ProposedMerge(tuple(question.members[n] for n in sorted(group.members)), group.text)
        )
        for group in verdict.parts
    )


def checked(merge: ProposedMerge, *, by_words: bool = False) -> Part:
    """Accept or refuse a merge if that is possible without a model; otherwise it is DOUBTFUL.

    `by_words`: no model will read the text, so each statement and value of the members must be in
    it, or have a newer value. Then the result is never DOUBTFUL.
    """
    check = verify_by_words if by_words else verify
    found = check(merge.text, [member.content for member in merge.members])
    verified: Verified | None = "by words" if found.belief is Belief.BELIEVED else None
    return Part(merge, found.belief, found.reason, verified)


MOST_IN_GROUP = 12
"""Maximum number of memories that a model may merge into one when it reads a page."""
LONGEST = 400
"""Maximum number of characters of a merged text, unless its longest member is nearly as long."""
Apart = Callable[[Sequence[Memory]], Judge | None]
"""Return which judge ruled that two of these memories are different facts, or None."""


def page_parts(question: Question, verdict: Verdict, apart: Apart) -> list[Part]:
    """Check each group of an answer about a page, which is a question about up to 48 memories.

    A refused group does not affect the others. Groups of fewer than two members are left out. A
    group that contradicts an earlier verdict of a model may be proposed once more, without one of
    the two memories. `apart`: returns the judge that keeps two of its arguments apart.
    """
    shown = range(len(question.members))
    taken: set[int] = set()
    parts = []
    for group in verdict.parts:
        named = sorted(set(group.members) & set(shown))
        if len(named) < 2:
            continue
        merge = ProposedMerge(tuple(question.members[n] for n in named), group.text.strip())
        fault = "" if taken.isdisjoint(named) else "one of its memories is in another group"
        if not set(group.members) <= set(shown):
            fault = "it names a memory that was not shown"
        taken |= set(named)
        parts.append(part_alone(merge, apart, fault, is_last=bool(question.objection)))
    return parts


def part_alone(merge: ProposedMerge, apart: Apart, fault: str = "", is_last: bool = False) -> Part:
    """Check one merge without a model, and return it with the result.

    `apart`: returns the judge that keeps two of the members apart; `fault`: a reason to refuse that
    is already known, or ""; `is_last`: whether a merge that an earlier verdict forbids is refused
    for good.
    """
    keeper = apart(merge.members)
    if final := _never(merge, keeper):
        return Part(merge, Belief.REFUSED, final, is_final=True)
    if keeper is not None:
        return Part(merge, Belief.REFUSED, _JUDGED_APART, is_final=is_last)
    fault = fault if merge.text else "the merged text is empty"
    return Part(merge, Belief.REFUSED, fault) if fault else checked(merge)


_SAME_FACT = "states the same fact"
_JUDGED_APART = "an earlier verdict says that two of them are different facts"


def _never(merge: ProposedMerge, keeper: Judge | None) -> str:
    """Return why a group is refused whatever its text states, or "" if it is not.

    `keeper`: the judge that keeps two of its members apart, or None.
    """
    if keeper == "person":
        return "a person keeps two of them apart"
    if len(merge.members) > MOST_IN_GROUP:
        return f"a group has at most {MOST_IN_GROUP} memories"
    longest = max(len(member.content) for member in merge.members)
    if len(merge.text) > max(LONGEST, longest + longest // 5):
        return "the merged text is too long"
    return ""


def joined_as(
    part: Part, similarity: float | None, reason: str, new_id: Callable[[], str], model: str
) -> Decision:
    """Return the decision to apply one accepted merge.

    `reason`: "" for the usual one; `new_id`: returns the id of a new memory; `model`: the model's
    name.
    """
    return Decision(
        Action.MERGE,
        reason or _SAME_FACT,
        part.merge.members,
        (merged(part.merge.text, part.merge.members, new_id),),
        similarity=similarity,
        model=model,
        verified=part.verified,
    )


def as_read(part: Part, reading: MergeReading | None) -> Part:
    """Accept or refuse a doubtful part by its second reading; refuse it if `reading` is None."""
    if reading is None:
        reason = "the second reading did not answer about the merged text"
        return replace(part, belief=Belief.REFUSED, reason=reason)
    if reading.accepted:
        return replace(part, belief=Belief.BELIEVED, reason="", verified="by a second reading")
    faults = [f"loses: {'; '.join(reading.lost)}"] if reading.lost else []
    faults += [f"adds: {'; '.join(reading.added)}"] if reading.added else []
    reason = f"the merged text {', and '.join(faults)}"
    return replace(part, belief=Belief.REFUSED, reason=reason)


def decided(
    question: Question,
    verdict: Verdict,
    parts: Sequence[Part],
    new_id: Callable[[], str],
    model: str,
) -> Decision:
    """Return the decision for a verdict after all of its parts were accepted.

    `new_id`: returns the id of a new memory; `model`: the model's name. Members of different parts,
    or of none, are recorded as distinct.
    """
    survivors = tuple(merged(part.merge.text, part.merge.members, new_id) for part in parts)
    by_reading = any(part.verified == "by a second reading" for part in parts)
    why = verdict.reason or (_SAME_FACT if verdict.parts else "judged distinct")
    return Decision(
        Action.MERGE if survivors else Action.KEEP_BOTH,
        "; ".join([why, *(part.reason for part in parts if part.reason)]),
        question.members,
        survivors,
        similarity=question.similarity,
        cosine=question.cosine,
        distinct=_distinct_pairs(question, parts),
        model=model,
        usage=verdict.usage,
        verified=("by a second reading" if by_reading else "by words") if survivors else None,
    )


def merged(text: str, group: tuple[Memory, ...], new_id: Callable[[], str]) -> Survivor:
    """Return the survivor of a merge: the newest member that has this text, else a new memory."""
    same = [member for member in group if identity(member.content) == identity(text)]
    if same:
        return survive(same[-1], group)
    seed = group[-1].model_copy(
        update={
            "id": new_id(),
            "external_id": None,
            "content": text.strip(),
            "merged_from": tuple(member.id for member in group),
        }
    )
    return Survivor(inherit(seed, group), tuple(member.id for member in group))


def _distinct_pairs(question: Question, parts: Sequence[Part]) -> tuple[tuple[str, str], ...]:
    part_of = {one.id: n for n, part in enumerate(parts) for one in part.merge.members}
    return tuple(
        (a.id, b.id)
        for a, b in combinations(question.members, 2)
        if a.id not in part_of or part_of[a.id] != part_of.get(b.id)
    )

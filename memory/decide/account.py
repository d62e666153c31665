"""The account of a batch run: what it has decided, and what it leaves for the next run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal, NamedTuple

from memory.decide.likeness import AlikeGroup
from memory.decide.pages import PagePlan
from memory.decide.planning import RoundPlan
from memory.decide.policy import GroupPlan, differences
from memory.ledger import ScopedText, TextPair
from memory.models import (
    JUDGES,
    Decision,
    DeduplicationReport,
    GroupReport,
    Judge,
    MemberReport,
    Memory,
    Scope,
    Usage,
)
from memory.text import clean, identity, text_key

MOST_READINGS = 2
"""The maximum number of times that a model reads the pages of one scope in one run.

A page is a list of memories of one scope that a model reads in one question.
"""
Order = Literal["certain", "size", "time"]
"""The order in which groups are shown.

"certain" puts the least certain groups first, "size" the largest, "time" the newest.
"""


@dataclass(frozen=True)
class GroupFilter:
    """Which groups of a plan to show, and in which order.

    `most`: the maximum number of groups; None for all. `order`: the least certain, the largest or
    the newest groups first; "certain" without `most` leaves the groups in the plan's order. `user`:
    show only the groups of this user; None for all users.
    """

    most: int | None = None
    order: Order = "certain"
    user: str | None = None

    def of(self, groups: Sequence[GroupPlan]) -> Sequence[GroupPlan]:
        if self.user is not None:
            groups = [group for group in groups if group.members[0].user == clean(self.user)]
        if self.most is None and self.order == "certain":
            return groups
        return sorted(groups, key=_SORT_KEYS[self.order])[: self.most]


@dataclass
class Account:
    """Keeps track of what a batch run has decided, asked and left to the next run; not thread-safe.

    A group is identified by the set of its members' ids.
    """

    run: str
    first: RoundPlan
    started: float
    """When planning began, in seconds of the monotonic clock."""
    only_ids: set[str] | None = None
    """Ids of the memories to which the run is limited, or None for no limit.

    Only groups with at least one of these memories are settled.
    """
    rounds: int = 0
    merged: int = 0
    """The number of new memories made by merging."""
    pending: int = 0
    """The number of decisions that stay open because the model failed to answer their question."""
    usage: Usage = field(default_factory=Usage)
    failure: str = ""
    """The reason of the model's latest failure to answer a question, or "" if it has not failed."""
    decided: list[GroupReport] = field(default_factory=list)
    failed: set[frozenset[str]] = field(default_factory=set)
    """Groups about which the model failed to answer."""
    left: set[frozenset[str]] = field(default_factory=set)
    """Groups left for the next run: the model could not be called, or two decisions conflicted."""
    apart: set[TextPair] = field(default_factory=set)
    """Pairs of texts that this run judged different; the model is not asked about them twice."""
    readings: Counter[Scope] = field(default_factory=Counter)
    """How many times the pages of each scope were read in this run.

    If some pages are left unread, the number is at least `MOST_READINGS`: this run reads no more.
    """
    pages: int = 0
    pages_left: int = 0
    unread_ids: set[str] = field(default_factory=set)
    """For scopes of which some pages were left unread: ids of the memories on all their pages."""
    shown: set[ScopedText] = field(default_factory=set)
    """For scopes of which all pages were read: the texts on these pages."""
    conflicts: set[frozenset[str]] = field(default_factory=set)
    """Groups with one decision that was not written, because a member changed after planning.

    After a second such decision, a group is left for the next run.
    """
    bound_by: tuple[Judge, ...] = JUDGES
    """The judges whose earlier verdicts this run respects."""
    latest: RoundPlan = field(init=False)

    def __post_init__(self) -> None:
        self.latest = self.first

    def undecided(self, plan: RoundPlan) -> list[GroupPlan]:
        """Return the groups of a round that this run still has to settle.

        Groups with a replacement, which needs no model, come before groups with only a question.
        Groups of the same kind are sorted by similarity, the most similar first. Groups whose only
        step is a question on a page of many memories are left out. Also store the plan as `latest`.
        """
        self.latest = plan
        over = self.failed | self.left
        wanted = [
            group
            for group in plan.groups
            if _ids(group) not in over
            and (group.replacement or not group.on_pages)
            and (self.only_ids is None or self.only_ids & _ids(group))
        ]
        return sorted(wanted, key=_replacements_first)

    def unread(self, plan: RoundPlan) -> list[list[PagePlan]]:
        """Return the pages that a model still has to read in this run, one list per scope.

        A page is a list of memories of one scope that a model reads in one question. The pages of a
        scope are read at most twice. The second reading covers only memories that had changed
        before their decision could be written.
        """
        by_scope = plan.pages_by_scope.items()
        return [pages for scope, pages in by_scope if self.readings[scope] < MOST_READINGS]

    def mark_read(self, pages: Sequence[PagePlan], left: int) -> None:
        """Record that a model has read the pages of one scope, except for `left` of them.

        `pages`: all pages of the scope, also those not read. `left`: the number of pages not read;
        they are left for the next run.
        """
        self.readings[pages[0].scope] += MOST_READINGS if left else 1
        self.pages += len(pages) - left
        self.pages_left += left
        members = [(page.scope.key, one) for page in pages for one in page.members]
        if left:
            self.unread_ids.update(one.id for _, one in members)
        else:
            self.shown.update((scope, text_key(one.content)) for scope, one in members)

    def left_any_of(self, members: Collection[str]) -> bool:
        return any(not group.isdisjoint(members) for group in (self.unread_ids, *self.left))

    def conflict(self, group: GroupPlan) -> None:
        """Record that the decision about a group was not written, because a member had changed.

        If this happens twice to the same group, the group is left for the next run.
        """
        if _ids(group) in self.conflicts:
            self.leave(group)
        self.conflicts.add(_ids(group))

    def leave(self, group: GroupPlan) -> None:
        self.left.add(_ids(group))

    def reported(self, group: GroupPlan, decision: Decision) -> GroupReport:
        """Return a report on a group: its members, what the decision does with each, and why.

        This method changes nothing, so any thread may call it.
        """
        fates = {member.id: "keep" for member in group.members}
        fates |= dict.fromkeys(decision.retired, "retire")
        steps = Steps(decision.action.value, decision.reason, fates)
        return _group_report(group, self.latest.likeness.group(group.members), steps)

    def done(self, group: GroupPlan, decision: Decision, report: GroupReport) -> None:
        """Count a decision that was applied, and add its report to the report of the run."""
        known = {member.id for member in decision.members}
        self.merged += sum(s.memory.id not in known for s in decision.survivors)
        if self.only_ids is not None:
            self.only_ids |= {survivor.memory.id for survivor in decision.survivors}
        if decision.pending:
            self.pending += 1
            self.failed.add(_ids(group))
        self.decided.append(report)

    def planned(self, model: str, wanted: GroupFilter) -> DeduplicationReport:
        """Return the report of a dry run: the first plan, with the groups that `wanted` selects.

        `model`: the name of the language model.
        """
        plan = self.first
        shown = wanted.of(plan.groups)
        alike = plan.likeness.groups([group.members for group in shown])
        texts = [one.content for question in plan.questions for one in question.members]
        replaced = [group.replacement for group in plan.groups if group.replacement]
        return self.report(plan.memories, model).model_copy(
            update={
                "dry_run": True,
                "found": len(plan.groups),
                "groups": tuple(
                    _group_report(group, its, planned_steps(group))
                    for group, its in zip(shown, alike, strict=True)
                ),
                "pages": len(plan.pages),
                "characters": sum(map(len, texts)),
                "retired": sum(len(one.retired) for one in replaced),
            }
        )

    def report(self, after: int, model: str) -> DeduplicationReport:
        reasons = (one.reason.partition(": ")[0] for one in self.decided)  # without details
        fates = Counter(member.fate for one in self.decided for member in one.members)
        return DeduplicationReport(
            dry_run=False,
            run=self.run,
            memories=self.first.memories,
            memories_after=after,
            pairs=self.first.pairs,
            just_below=self.first.just_below,
            rounds=self.rounds,
            found=len(self.decided),
            groups=tuple(self.decided),
            decisions=Counter(one.action for one in self.decided),
            reasons=Counter(reasons),
            retired=fates["retire"],
            merged=self.merged,
            pending=self.pending,
            left=len(self.left),
            pages=self.pages,
            pages_left=self.pages_left,
            undecided=self.latest.waiting,
            failure=self.failure if self.usage.all_failed else "",
            usage=self.usage,
            questions=len(self.first.questions),
            estimated_model_calls=0,
            model=model,
            seconds=round(time.monotonic() - self.started, 3),
        )


def _ids(group: GroupPlan) -> frozenset[str]:
    return frozenset(member.id for member in group.members)


def _replacements_first(group: GroupPlan) -> tuple[bool, float]:
    """Return a sort key: groups with a replacement first, then groups with only a question.

    Within each of these two kinds, the groups with the most similar members come first.
    """
    asks = group.replacement is None and group.question is not None
    return asks, -(group.question.similarity if group.question else 1.0)


def certainty(group: GroupPlan) -> float:
    """Return how certain the plan of a group is, from 0 to 1.

    If a model must be asked, the result is from 0 to 0.5, otherwise from 0.5 to 1. Within each
    range, it grows with the similarity of the members.
    """
    if group.question is not None:
        return group.question.similarity / 2
    alike = group.replacement.similarity if group.replacement else None
    return (1.0 + (1.0 if alike is None else alike)) / 2


_SORT_KEYS: dict[Order, Callable[[GroupPlan], float]] = {
    "certain": certainty,
    "size": lambda group: -len(group.members),
    "time": lambda group: -group.members[-1].timestamp.timestamp(),
}


class Steps(NamedTuple):
    """The steps planned or decided for a group: replace members, ask about members, or both.

    `action` names the steps. For example, "replace + judge" means: replace members, then ask a
    model or a person about others. `reason` says why. `fates`: for each member's id, "keep",
    "retire" if another member replaces it, or "judge" if it is asked about.
    """

    action: str
    reason: str
    fates: Mapping[str, str]


def planned_steps(group: GroupPlan) -> Steps:
    retired = group.replacement.retired if group.replacement else ()
    asked = {member.id for member in group.question.members} if group.question else set()
    fates = {member.id: "judge" if member.id in asked else "keep" for member in group.members}
    fates |= dict.fromkeys(retired, "retire")
    steps = [step for step in (group.replacement, group.question) if step is not None]
    names = ["replace"] * (group.replacement is not None) + ["judge"] * (group.question is not None)
    return Steps(" + ".join(names), "; then ".join(step.reason for step in steps), fates)


def _group_report(group: GroupPlan, alike: AlikeGroup, steps: Steps) -> GroupReport:
    members = group.members
    return GroupReport(
        user=members[0].user,
        is_private=members[0].is_private,
        action=steps.action,
        reason=steps.reason,
        members=tuple(
            MemberReport(id=m.id, content=m.content, timestamp=m.timestamp, fate=steps.fates[m.id])
            for m in members
        ),
        similarities=tuple(similarities(members, alike)),
        differences=differences(members),
        needs_model=group.question is not None,
    )


def similarities(members: Sequence[Memory], alike: AlikeGroup) -> Iterator[tuple[int, int, float]]:
    """Yield (i, j, similarity) for every two members with different texts.

    `i` and `j`, with i < j, are positions in `members`. Of members with the same text, only the
    last one is used. `alike` has the similarities of the group.
    """
    texts = {identity(member.content): n for n, member in enumerate(members)}
    for i, j in combinations(sorted(texts.values()), 2):
        yield i, j, alike.of(members[i], members[j])

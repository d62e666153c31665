"""The account of a batch run: what it has decided, what it leaves, and how far it is."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Literal, NamedTuple

from memory.decide.likeness import AlikeGroup
from memory.decide.planning import PagePlan, RoundPlan
from memory.decide.policy import GroupPlan, differences
from memory.models import (
    Decision,
    DeduplicationReport,
    GroupReport,
    MemberReport,
    Memory,
    Price,
    Progress,
    RunEvent,
    RunStage,
    Scope,
    ScopedText,
    TextPair,
    Usage,
)
from memory.text import clean, identity

MOST_READINGS = 2
Order = Literal["certain", "size", "time"]
OnEvent = Callable[[RunEvent], None]


@dataclass
class Account:
    """The decisions, questions and leftovers of a batch run. Use it from one thread only.

    A group is identified by the set of its members' ids. `only_ids`: only groups with at least one
    of these memories are settled; None for no limit. `failed`: the groups whose question stays
    pending. `apart`: pairs of texts that this run judged different. `conflicts`: groups for which a
    decision could not be written, because a member had changed. `left`: the groups left for the
    next run, because the model could not be asked, or because of a second conflict.

    `first` and `latest`: the plans of the first and of the latest round.

    A reading shows all pages of one scope to the model. `readings`: the number of readings of each
    scope. A reading that leaves a page unread counts as `MOST_READINGS` readings. So this run does
    not read the scope again, and the next run does. `unread_ids`: the ids of all memories on the
    pages of these incomplete readings. `shown`: all texts on the pages of the complete readings.

    `event`: the steps, answers and costs so far. After each change, `on_event` is called with it.
    `on_progress` is called with the number of finished steps of the present stage and the number of
    all its steps.
    """

    run: str
    first: RoundPlan
    started: float
    only_ids: set[str] | None = None
    on_event: OnEvent | None = None
    on_progress: Progress | None = None
    price: Price | None = None
    event: RunEvent = field(default_factory=partial(RunEvent, stage="rules", done=0, total=0))
    rounds: int = 0
    merged: int = 0
    pending: int = 0
    failure: str = ""
    decided: list[GroupReport] = field(default_factory=list)
    failed: set[frozenset[str]] = field(default_factory=set)
    left: set[frozenset[str]] = field(default_factory=set)
    apart: set[TextPair] = field(default_factory=set)
    readings: Counter[Scope] = field(default_factory=Counter)
    pages: int = 0
    pages_left: int = 0
    unread_ids: set[str] = field(default_factory=set)
    shown: set[ScopedText] = field(default_factory=set)
    conflicts: set[frozenset[str]] = field(default_factory=set)
    latest: RoundPlan = field(init=False)

    def __post_init__(self) -> None:
        self.latest = self.first
        self._began_s = time.monotonic()

    # --- how far it is ---

    def begin(self, stage: RunStage, total: int) -> None:
        self._began_s = time.monotonic()
        self._tell(stage=stage, done=0, total=total, left_s=None)

    def step(self, steps: int = 1) -> None:
        done, total = self.event.done + steps, self.event.total
        left_s = (time.monotonic() - self._began_s) / done * max(0, total - done)
        self._tell(done=done, left_s=round(left_s, 1))
        if self.on_progress is not None:
            self.on_progress(done, total)

    def spend(self, usage: Usage) -> None:
        spent = self.event.usage + usage
        self._tell(usage=spent, money=None if self.price is None else self.price.of(spent))

    def answered(self, *, groups: int = 0, readings: int = 0, retries: int = 0) -> None:
        """Count the groups that the model named, its second readings, and its second answers."""
        event = self.event
        self._tell(
            groups=event.groups + groups,
            readings=event.readings + readings,
            retries=event.retries + retries,
        )

    def _tell(self, **changes: object) -> None:
        self.event = self.event.model_copy(update=changes)
        if self.on_event is not None:
            self.on_event(self.event)

    # --- what is left, and what was done ---

    def undecided(self, plan: RoundPlan) -> list[GroupPlan]:
        """Return the groups of a round that this run still has to settle.

        Also store the plan as `latest`.

        Groups in which a memory can be replaced without a model come first. Groups with only a
        question follow, the most similar first. A group with only a question is left out if the
        model reads its members on pages instead.
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
        return sorted(
            wanted,
            key=lambda group: (
                group.replacement is None,
                -(group.question.similarity if group.question else 1.0),
            ),
        )

    def unread(self, plan: RoundPlan) -> list[list[PagePlan]]:
        """Return the pages that a model still has to read in this run, one list per scope.

        The pages of a scope are read at most twice in a run. The second reading is for memories
        that the first reading left unsettled. For example, another write to the ledger came before
        the decision about them.
        """
        return [
            pages
            for scope, pages in plan.pages_by_scope.items()
            if self.readings[scope] < MOST_READINGS
        ]

    def mark_read(self, pages: Sequence[PagePlan], left: int) -> None:
        """Record that a model has read the pages of one scope; `left` pages stay unread."""
        self.readings[pages[0].scope] += MOST_READINGS if left else 1
        self.pages += len(pages) - left
        self.pages_left += left
        members = [(page.scope.key, one) for page in pages for one in page.members]
        if left:
            self.unread_ids.update(one.id for _, one in members)
        else:
            self.shown.update((scope, one.dated_key) for scope, one in members)

    def conflict(self, group: GroupPlan) -> None:
        """Record that a decision was not written, because a member had changed.

        If this happens twice to the same group, the group is left for the next run.
        """
        if _ids(group) in self.conflicts:
            self.leave(group)
        self.conflicts.add(_ids(group))

    def leave(self, group: GroupPlan) -> None:
        self.left.add(_ids(group))

    def reported(self, done: Sequence[tuple[GroupPlan, Decision]]) -> list[GroupReport]:
        alike = self.latest.likeness.groups([group.members for group, _ in done])
        return [
            _decided(group, decision, its)
            for (group, decision), its in zip(done, alike, strict=True)
        ]

    def done(self, group: GroupPlan, decision: Decision, report: GroupReport) -> None:
        known = {member.id for member in decision.members}
        self.merged += sum(s.memory.id not in known for s in decision.survivors)
        if self.only_ids is not None:
            self.only_ids |= {survivor.memory.id for survivor in decision.survivors}
        if decision.pending:
            self.pending += 1
            self.failed.add(_ids(group))
        self.decided.append(report)

    def planned(self, model: str, shown: Sequence[GroupPlan]) -> DeduplicationReport:
        """Return the report of a dry run: the first plan, and the groups `shown` of it."""
        plan = self.first
        alike = plan.likeness.groups([group.members for group in shown])
        return self.report(len(plan.snapshot.rows), model).model_copy(
            update={
                "dry_run": True,
                "found": len(plan.groups),
                "groups": tuple(
                    _group_report(group, its, planned_steps(group))
                    for group, its in zip(shown, alike, strict=True)
                ),
                "pages": len(plan.pages),
                "characters": sum(
                    len(one.content) for question in plan.questions for one in question.members
                ),
                "retired": sum(
                    len(group.replacement.retired) for group in plan.groups if group.replacement
                ),
            }
        )

    def report(self, after: int, model: str) -> DeduplicationReport:
        fates = Counter(member.fate for one in self.decided for member in one.members)
        usage = self.event.usage
        return DeduplicationReport(
            dry_run=False,
            run=self.run,
            memories=len(self.first.snapshot.rows),
            memories_after=after,
            pairs=self.first.pairs,
            just_below=self.first.just_below,
            rounds=self.rounds,
            found=len(self.decided),
            groups=tuple(self.decided),
            decisions=Counter(one.action for one in self.decided),
            reasons=Counter(one.reason.partition(": ")[0] for one in self.decided),  # no details
            retired=fates["retire"],
            merged=self.merged,
            pending=self.pending,
            left=len(self.left),
            refused=sum(len(one.refused) for one in self.decided),
            pages=self.pages,
            pages_left=self.pages_left,
            undecided=self.latest.snapshot.waiting,
            readings=self.event.readings,
            retries=self.event.retries,
            failure=self.failure if 0 < usage.calls == usage.failed else "",
            usage=usage,
            money=None if self.price is None else self.price.of(usage),
            questions=len(self.first.questions),
            estimated_model_calls=0,
            model=model,
            seconds=round(time.monotonic() - self.started, 3),
        )


def _ids(group: GroupPlan) -> frozenset[str]:
    return frozenset(member.id for member in group.members)


def certainty(group: GroupPlan) -> float:
    """Return how certain the plan of a group is, from 0 to 1.

    It is at most 0.5 if a model must be asked, and at least 0.5 otherwise. Within each range, it
    grows with the similarity of the members.
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


def first_groups(
    groups: Sequence[GroupPlan],
    most: int | None = None,
    order: Order = "certain",
    user: str | None = None,
) -> Sequence[GroupPlan]:
    """Return the first `most` groups (None: all), only those of `user` if it is given.

    `order`: "size" puts the largest groups first, "time" the newest, "certain" the least certain.
    If `most` is None, "certain" does not sort: the groups stay in the order of the plan.
    """
    if user is not None:
        groups = [group for group in groups if group.members[0].user == clean(user)]
    if most is None and order == "certain":
        return groups
    return sorted(groups, key=_SORT_KEYS[order])[:most]


class Steps(NamedTuple):
    """The steps planned or decided for a group.

    `action`: the names of the steps, for example "replace + judge". `fates`: for each member's id,
    that of its `MemberReport`.
    """

    action: str
    reason: str
    fates: Mapping[str, str]


def planned_steps(group: GroupPlan) -> Steps:
    retired = group.replacement.retired if group.replacement else ()
    asked = {member.id for member in group.question.members} if group.question else set()
    fates = {member.id: "judge" if member.id in asked else "keep" for member in group.members}
    fates |= dict.fromkeys(retired, "retire")
    steps = {"replace": group.replacement, "judge": group.question}
    reasons = {name: step.reason for name, step in steps.items() if step is not None}
    return Steps(" + ".join(reasons), "; then ".join(reasons.values()), fates)


def _decided(group: GroupPlan, decision: Decision, alike: AlikeGroup) -> GroupReport:
    kept = {one.memory.id for one in decision.survivors}
    fates = {
        member.id: "keep" if member.id in kept or not kept else "beside" for member in group.members
    }
    fates |= dict.fromkeys(decision.retired, "retire")
    steps = Steps(decision.action.value, decision.reason, fates)
    made = tuple(one.memory.content for one in decision.survivors)
    report = _group_report(group, alike, steps, compares=bool(made or decision.refused))
    return report.model_copy(update={"made": made, "refused": decision.refused})


def _group_report(
    group: GroupPlan, alike: AlikeGroup, steps: Steps, *, compares: bool = True
) -> GroupReport:
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
        differences=differences(members) if compares else (),
    )


def similarities(members: Sequence[Memory], alike: AlikeGroup) -> Iterator[tuple[int, int, float]]:
    """Yield (i, j, similarity) for every two members with different texts.

    `i` and `j`, with i < j, are positions in `members`. Of members with the same text, only the
    last one is used.
    """
    texts = {identity(member.content): n for n, member in enumerate(members)}
    for i, j in combinations(sorted(texts.values()), 2):
        yield i, j, alike.of(members[i], members[j])

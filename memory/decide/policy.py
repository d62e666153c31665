"""Decide about one new memory, a group of memories, or a question that a model failed to answer.

If only a model can decide, the result is a `Question`. `decide_new` and `plan_group` implement the
decision table of docs/decisions.md. A verdict is a model's answer to a question: groups of memories
to merge, each with a merged text. `resolve` checks the groups. If a merged text is doubtful, a
model compares it with the original memories in a second reading; `as_read` applies the result.
`decided` makes the decision. The module does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

from memory.coverage import (
    Belief,
    compare_memories,
    differs,
    only_times_differ,
    states,
    still_stated,
    verify,
    verify_by_words,
)
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
    Rules,
    SearchResult,
    Succession,
    Survivor,
    Verdict,
    Verified,
    with_turns,
)
from memory.text import identity, text_key, undated

Similarity = Callable[[Memory, Memory], float]
MOST_ASKED = 8
"""The maximum number of members in one question.

Of a larger group, only the most similar members are in the question.
"""
_SHOWN = "the model was shown what is similar, and named none of it"


@dataclass(frozen=True)
class GroupPlan:
    """The plan for a group of similar memories.

    `replacement`: the decision to retire the members that other members cover; None if no member is
    covered. `question`: a question for a model about the members that are not retired; None if
    fewer than two are left. `on_pages`: if true, the question is not asked, because a model reads
    the members on pages.
    """

    members: tuple[Memory, ...]
    replacement: Decision | None
    question: Question | None
    on_pages: bool = False


# --- one new memory ---------------------------------------------------------------------------


def decide_new(
    new: Memory,
    matches: Sequence[SearchResult],
    rules: Rules,
    shown: Collection[str] = (),
    *,
    asks: bool = True,
) -> tuple[Decision | Question, SearchResult | None]:
    """Decide whether to store a new memory, replace a memory, or ask a model.

    Return the decision or question, and the match on which it is based, if any. The rules are those
    of the decision table in docs/decisions.md.

    `matches`: similar memories of the same scope, most similar first. The caller must leave out
    memories whose text was judged distinct from the new text. `shown`: the `dated_key` of texts
    that the model saw when it wrote the new memory; no question is asked about these texts.
    `asks`: whether a model can be asked. If not, a memory replaces one from `rules.lower` on if
    each states all that the other states; otherwise the new memory is added.

    If several matches have the new text, a person keeps them apart, so all of them stay: the first
    replaces the new memory.

    >>> old, new = (store.new_memory(text) for text in ("Mia has a cat.", "Mia has a red cat."))
    >>> decision, match = decide_new(new, [SearchResult(old, 0.96)], Rules())
    >>> decision.action.value, decision.reason
    ('replace', 'the newer states all of the older')
    >>> question, match = decide_new(new, [SearchResult(old, 0.93)], Rules())
    >>> question.reason
    'similarity between 0.90 and 0.95'
    """
    close = [
        match
        for match in matches
        if match.similarity >= rules.lower
        and not (rules.guard and only_times_differ(match.memory, new))
    ]
    copies = [
        match
        for match in close
        if match.similarity == 1.0 and match.memory.dated_key == new.dated_key
    ]
    for match in close:
        members = oldest_first(match.memory, new)
        replacement = replace_covered(members, partial(_always, match.similarity), rules)
        if replacement is None and not asks and _state_the_same(members, rules):
            replacement = replace_covered(members, partial(_always, 1.0), rules)
        if replacement is not None:
            if len(copies) > 1 and match in copies:
                text = max(match.memory.content, new.content, key=_quality)
                kept = match.memory.model_copy(update={"content": text})
                replacement = replace(replacement, survivors=(survivor_of(kept, members),))
            similarity = min(match.similarity, replacement.similarity or 1.0)
            return replace(replacement, similarity=similarity, cosine=match.cosine), match
    unseen = [match for match in close if match.memory.dated_key not in shown and asks]
    if unseen:
        members = oldest_first(unseen[0].memory, new)
        question = _question(members, unseen[0].similarity, rules)
        return replace(question, cosine=unseen[0].cosine), unseen[0]
    if not matches:
        return Decision(Action.ADD, "nothing similar", (new,)), None
    reason = _SHOWN if close else f"nearest is below {rules.lower:.2f}"
    return Decision(Action.ADD, reason, (new,), similarity=matches[0].similarity), matches[0]


def _state_the_same(members: Sequence[Memory], rules: Rules) -> bool:
    found = compare_memories(*members) if rules.guard else None
    return found is not None and found.a_covers_b and found.b_covers_a


def _always(similarity: float, _a: Memory, _b: Memory) -> float:
    return similarity


def oldest_first(stored: Memory, new: Memory) -> tuple[Memory, Memory]:
    """Return the two memories with the older one first; at equal times, `stored` comes first.

    >>> first, second = store.new_memory("Mia rows."), store.new_memory("Mia sails.")
    >>> [memory.content for memory in oldest_first(second, first)]
    ['Mia rows.', 'Mia sails.']
    """
    return (stored, new) if new.timestamp >= stored.timestamp else (new, stored)


# --- a group ----------------------------------------------------------------------------------


def plan_group(members: Sequence[Memory], similarity: Similarity, rules: Rules) -> GroupPlan:
    """Return the plan for a group of similar memories, which must be ordered oldest first."""
    replacement = replace_covered(members, similarity, rules)
    gone = set(replacement.retired) if replacement else set()
    left = tuple(member for member in members if member.id not in gone)
    question = None
    if len(left) > 1:
        asked = _closest_members(left, similarity)
        lowest = min(similarity(a, b) for a, b in combinations(asked, 2))
        question = _question(asked, lowest, rules)
    return GroupPlan(tuple(members), replacement, question)


def _closest_members(members: tuple[Memory, ...], similarity: Similarity) -> tuple[Memory, ...]:
    if len(members) <= MOST_ASKED:
        return members
    chosen = {
        one.id: one for one in max(combinations(members, 2), key=lambda two: similarity(*two))
    }
    while len(chosen) < MOST_ASKED:
        left = (member for member in members if member.id not in chosen)
        near = max(left, key=lambda one: sum(similarity(one, other) for other in chosen.values()))
        chosen[near.id] = near
    return tuple(member for member in members if member.id in chosen)


def _question(members: tuple[Memory, ...], similarity: float, rules: Rules) -> Question:
    reason = f"at or above {rules.upper:.2f}, neither covers the other"
    if similarity < rules.upper:
        reason = f"similarity between {rules.lower:.2f} and {rules.upper:.2f}"
    return Question(members, reason, similarity)


def differences(members: Sequence[Memory]) -> tuple[str, ...]:
    """Describe how each member differs from the last member, which is the newest.

    Each different description is returned once. Members that state the same as the last member are
    skipped.
    """
    newest = members[-1].content
    found = (differs(member.content, newest) for member in members[:-1])
    return tuple(dict.fromkeys(filter(None, found)))


def replace_covered(
    members: Sequence[Memory], similarity: Similarity, rules: Rules
) -> Decision | None:
    """Return the decision to retire each covered member; None if no member covers another.

    `members` must be ordered oldest first. A member covers a member with an equal text, unless the
    text means another time there ("tomorrow"). It can also
    cover a member with a different text, if the similarity of the two is at least `rules.upper`.
    If `rules.guard` is on, it must also state everything that the different text states.

    Members that cover more members are chosen first to stay; at equal numbers, newer members are
    chosen first. A member that stays takes over the tags and other fields of the members that it
    replaces; see `inherit`. Of equal texts, the newest member shows the best written one. A member
    that expires earlier than another one covers it only if their texts are equal; the latest expiry
    then stays.
    """
    copies = {same[0].id: same for same in _copies(members[::-1], rules)}
    newest_first = [same[0] for same in copies.values()]
    takes = _covered(newest_first, similarity, rules)
    fewer = {name: -len(covered) for name, covered in takes.items()}
    survivors, reasons, lowest = [], [], 1.0
    gone = set[str]()
    for name in sorted(fewer, key=fewer.__getitem__):  # who covers most comes first
        if name in gone:
            continue
        member = copies[name][0]
        covered = [other for other in newest_first if other.id in takes[member.id] - gone]
        gone |= {member.id, *takes[member.id]}
        names = {same.id for one in (member, *covered) for same in copies[one.id]}
        if len(names) > 1:
            group = [one for one in members if one.id in names]
            shown = member
            for copy in copies[name][1:]:
                if _quality(copy.content) > _quality(shown.content):
                    shown = shown.model_copy(update={"content": copy.content})
            survivors.append(survivor_of(shown, group))
            reasons.append(_replace_reason(covered, member is group[-1], rules))
            lowest = min([lowest, *(similarity(member, other) for other in covered)])
    if not survivors:
        return None
    reason = "; ".join(dict.fromkeys(reasons))
    return Decision(Action.REPLACE, reason, tuple(members), tuple(survivors), similarity=lowest)


def _quality(text: str) -> tuple[bool, bool, int, bool]:
    """Return how well a text is written, to compare it with one of the same `identity`."""
    capitals = sum(map(str.isupper, text))
    return not text.isupper(), "  " not in text, capitals, not text[-1].isalnum()


def _copies(members: Sequence[Memory], rules: Rules) -> list[list[Memory]]:
    """Group the members with the same text, which with `rules.guard` must mean the same times."""
    groups: dict[str, list[list[Memory]]] = {}
    for member in members:
        alike = groups.setdefault(identity(member.content), [])
        for group in alike:
            if not (rules.guard and any(only_times_differ(one, member) for one in group)):
                group.append(member)
                break
        else:
            alike.append([member])
    return [group for alike in groups.values() for group in alike]


def _covered(
    members: Sequence[Memory], similarity: Similarity, rules: Rules
) -> dict[str, set[str]]:
    takes: dict[str, set[str]] = {member.id: set() for member in members}
    for a, b in combinations(members, 2):
        if similarity(a, b) >= rules.upper:
            found = compare_memories(a, b) if rules.guard else None
            if (found is None or found.a_covers_b) and a.lasts_as_long_as(b):
                takes[a.id].add(b.id)
            if (found is None or found.b_covers_a) and b.lasts_as_long_as(a):
                takes[b.id].add(a.id)
    return takes


def _replace_reason(covered: Sequence[Memory], newer: bool, rules: Rules) -> str:
    if not covered:
        return "same text"
    if not rules.guard:
        return f"at or above {rules.upper:.2f}, guard off" if rules.upper else "guard off"
    return "the newer states all of the older" if newer else "the older states all of the newer"


def survivor_of(member: Memory, group: Sequence[Memory]) -> Survivor:
    """Return a Survivor: `member` stays and replaces all other members of its group.

    `member` takes over values from the group; see `inherit`. `group` is ordered oldest first and
    contains `member`.
    """
    return Survivor(
        inherit(member, group), tuple(other.id for other in group if other.id != member.id)
    )


_UNSTATED = frozenset({"fact", "daily", "neutral"})
"""The values that the category and emotion have by default, of chats and of agents."""


def inherit(text_of: Memory, group: Sequence[Memory]) -> Memory:
    """Return a copy of `text_of`, with values taken over from a group of memories.

    `group` is ordered oldest first. The id and the text stay those of `text_of`; the time is the
    newest member's. Category, emotion and each value of the metadata are those stated last; a
    default does not count as stated. Tags and turns are those of all members. Intensity, importance
    and expiry are the highest that a member states.

    >>> old = store.new_memory("Mia rows.").model_copy(update={"importance": 5, "tags": ("sport",)})
    >>> new = store.new_memory("Mia rows on Sundays.").model_copy(update={"tags": ("sunday",)})
    >>> kept = inherit(new, (old, new))
    >>> kept.importance, kept.tags, kept.content
    (5, ('sport', 'sunday'), 'Mia rows on Sundays.')
    """
    newest = group[-1]
    ends = [member.expires_at for member in group]
    last = {
        name: next(
            (value for one in group[::-1] if (value := getattr(one, name)) not in _UNSTATED),
            getattr(newest, name),
        )
        for name in ("category", "emotion")
    }
    highest = {
        name: max(
            (getattr(one, name) for one in group if name in one.model_fields_set),
            default=getattr(newest, name),
        )
        for name in ("intensity", "importance")
    }
    return text_of.model_copy(
        update={
            **last,
            **highest,
            "metadata": with_turns([member.metadata for member in group]),
            "timestamp": newest.timestamp,
            "expires_at": None if None in ends else max(filter(None, ends)),
            "tags": tuple(dict.fromkeys(tag for member in group for tag in member.tags)),
        }
    )


# --- after the model --------------------------------------------------------------------------


def without_fallback(decision: Decision) -> Decision:
    """Return a copy of a decision that keeps all members instead of retiring some of them.

    `decision`: a pending decision that rules made because the model failed to answer. The copy is
    pending, too. Its reason says that no call of the model succeeded.
    """
    return replace(
        decision,
        action=Action.KEEP_BOTH,
        reason=f"{decision.reason}; kept, since no call of the model succeeded",
        survivors=(),
    )


def after_failure(question: Question, reason: str, rules: Rules) -> Decision:
    """Return a pending decision about a question that a model failed to answer.

    If all members are near-copies, each member whose text another member covers is retired.
    Otherwise, all members are kept. `reason`: why the model failed.
    """
    fallback = None
    if question.are_copies:  # whatever their similarity
        fallback = replace_covered(
            question.members, partial(_always, question.similarity), replace(rules, upper=0.0)
        )
    fallback = fallback or Decision(
        Action.KEEP_BOTH,
        "neither covers the other",
        question.members,
        similarity=question.similarity,
        cosine=question.cosine,
    )
    return replace(fallback, reason=f"{reason}; {fallback.reason}", pending=True)


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
    if all(undated(member.content) == member.content for member in merge.members):
        merge = replace(merge, text=undated(merge.text))  # days are shown, but not stored
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
    return Part(merge, Belief.REFUSED, fault) if fault else checked_part(merge)


def checked_part(merge: ProposedMerge, *, by_words: bool = False) -> Part:
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

"""Decide about one new memory, a group of memories, or a question that a model failed to answer.

If only a model can decide, the result is a `Question`. `decide_new` and `plan_group` implement the
decision table of docs/decisions.md. The module does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from memory.coverage import compare_memories, differs, only_times_differ
from memory.models import (
    Action,
    Decision,
    Memory,
    Question,
    Rules,
    SearchResult,
    Survivor,
    with_turns,
)
from memory.text import identity

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
        replacement = replace_covered(members, _always(match.similarity), rules)
        if replacement is None and not asks and _state_the_same(members, rules):
            replacement = replace_covered(members, _always(1.0), rules)
        if replacement is not None:
            if len(copies) > 1 and match in copies:
                kept = survivor_of(match.memory, members)
                replacement = replace(replacement, survivors=(kept,))
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


def _always(similarity: float) -> Similarity:
    return lambda _a, _b: similarity


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
    replaces; see `inherit`. A member that expires earlier than another one covers it only if their
    texts are equal; the latest expiry then stays.
    """
    position = {member.id: n for n, member in enumerate(members)}
    copies = {same[0].id: same for same in _copies(members[::-1], rules)}
    newest_first = [same[0] for same in copies.values()]
    takes = _covered(newest_first, similarity, rules)
    survivors, reasons, lowest = [], [], 1.0
    gone = set[str]()
    for member in sorted(newest_first, key=lambda one: -len(takes[one.id])):  # most covering first
        if member.id in gone:
            continue
        covered = [other for other in newest_first if other.id in takes[member.id] - gone]
        gone |= {member.id, *takes[member.id]}
        group = [same for one in (member, *covered) for same in copies[one.id]]
        if len(group) > 1:
            survivors.append(survivor_of(member, sorted(group, key=lambda one: position[one.id])))
            newer = all(position[member.id] > position[other.id] for other in covered)
            reasons.append(_replace_reason(covered, newer, rules))
            lowest = min([lowest, *(similarity(member, other) for other in covered)])
    if not survivors:
        return None
    reason = "; ".join(dict.fromkeys(reasons))
    return Decision(Action.REPLACE, reason, tuple(members), tuple(survivors), similarity=lowest)


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
    others = tuple(other.id for other in group if other.id != member.id)
    return Survivor(inherit(member, group), others)


def inherit(text_of: Memory, group: Sequence[Memory]) -> Memory:
    """Return a copy of `text_of`, with values taken over from a group of memories.

    `group` is ordered oldest first. The id and the text stay those of `text_of`. Category, emotion,
    metadata and time are those of the newest member, but the metadata name the turns of all. Tags
    are the tags of all members. Intensity, importance and expiry are the highest of any member.

    >>> old = store.new_memory("Mia rows.").model_copy(update={"importance": 5, "tags": ("sport",)})
    >>> new = store.new_memory("Mia rows on Sundays.").model_copy(update={"tags": ("sunday",)})
    >>> kept = inherit(new, (old, new))
    >>> kept.importance, kept.tags, kept.content
    (5, ('sport', 'sunday'), 'Mia rows on Sundays.')
    """
    newest = group[-1]
    ends = [member.expires_at for member in group]
    return text_of.model_copy(
        update={
            "category": newest.category,
            "emotion": newest.emotion,
            "metadata": with_turns([member.metadata for member in group]),
            "timestamp": newest.timestamp,
            "expires_at": None if None in ends else max(filter(None, ends)),
            "intensity": max(member.intensity for member in group),
            "importance": max(member.importance for member in group),
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
            question.members, _always(question.similarity), replace(rules, upper=0.0)
        )
    fallback = fallback or Decision(
        Action.KEEP_BOTH,
        "neither covers the other",
        question.members,
        similarity=question.similarity,
        cosine=question.cosine,
    )
    return replace(fallback, reason=f"{reason}; {fallback.reason}", pending=True)

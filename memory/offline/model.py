"""The offline language model: no key, no network, and nothing said that was not told.

A default, not a mock: it merges only what it can merge without losing a statement, extracts what
is declared, and replies with what it recalls.
"""

from __future__ import annotations

from collections.abc import Sequence

from memory.coverage import Belief, compare, covers, shared, verify_by_words
from memory.models import (
    Candidate,
    Extraction,
    Memory,
    MergeGroup,
    ProposedMerge,
    Question,
    Reply,
    Rereading,
    Turn,
    Usage,
    Verdict,
)
from memory.offline.statements import Statement, statements
from memory.runtime import in_thread_if_long
from memory.text import is_japanese, sentences, telling_words

CANNOT_TELL = "the offline judge cannot tell"
"""The recorded reason of a question that it leaves as it is."""

_FREE = Usage()
_RECALLED = 3
_MOST_PAIRS = 400
"""Pairs of sentences that are compared; longer texts are documents, and stay apart."""
_MOST_LONGER = 3
"""A text so many times as long as another takes no more in: a long one is like all of its sort."""


class OfflineModel:
    """Judges by coverage alone, and merges by putting sentences together."""

    name = "offline"
    page_size = 0

    async def judge(self, question: Question) -> Verdict:
        """Groups of members that can be told as one without losing or inventing anything.

        The newest text of a group, and the sentences of the older ones that it does not cover;
        members that may conflict stay apart. Where the vectors do not say that they are copies,
        a member goes only where another one covers it.
        """
        texts = [member.content for member in question.members]
        return await in_thread_if_long(texts, _judged, question)

    async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
        """Accept none: it cannot read."""
        return Rereading(readings=(None,) * len(merges), usage=_FREE)

    async def extract(
        self,
        turns: Sequence[Turn],
        *,
        context: Sequence[Turn] = (),
        remembered: Sequence[Memory] = (),  # noqa: ARG002 - coverage tells, when it is stored
    ) -> Extraction:
        """What the speakers declare, a sentence each, told of them by name."""
        texts = [turn.text for turn in (*context, *turns)]
        return await in_thread_if_long(texts, _extracted, turns, context)

    async def reply(self, turns: Sequence[Turn], recalled: Sequence[Memory]) -> Reply:
        """The memories that come to mind, best first; nothing else is made up.

        What is said and asks nothing brings to mind only what shares a word with it.
        """
        said = turns[-1].text if turns else ""
        japanese = is_japanese(said)
        if not said.rstrip().endswith(("?", "？")):
            words = set(telling_words(said))
            recalled = [one for one in recalled if words & {*telling_words(one.content, one.user)}]
        if not recalled:
            text = "なるほど。" if japanese else "I see."
        else:
            opening = "覚えています: " if japanese else "I remember: "
            text = opening + " ".join(memory.content for memory in recalled[:_RECALLED])
        return Reply(text=text, usage=_FREE)

    async def aclose(self) -> None:
        """Nothing is held."""


def _judged(question: Question) -> Verdict:
    left = list(range(len(question.members)))
    parts = []
    while left:
        group, text = _told_as_one(question, left)
        left = [index for index in left if index not in group]
        if len(group) > 1:
            parts.append(MergeGroup(members=group, text=text))
    reason = "said in one text" if parts else CANNOT_TELL
    return Verdict(parts=tuple(parts), reason=reason, usage=_FREE)


def _extracted(turns: Sequence[Turn], context: Sequence[Turn]) -> Extraction:
    told = [*context, *turns]
    candidates = [
        Candidate(
            content=statement.text,
            user=turn.speaker,
            category="opinion" if statement.is_opinion else "fact",
            intensity=statement.strength,
            turns=(number,),
        )
        for number, turn in enumerate(turns)
        if not turn.is_bot
        for statement in _stated(told, len(context) + number)
    ]
    return Extraction(candidates=tuple(candidates), usage=_FREE)


def _stated(turns: Sequence[Turn], number: int) -> list[Statement]:
    """What a turn states, read with what its speaker said before it."""
    turn = turns[number]
    own = [one.text for one in turns[:number] if one.speaker == turn.speaker]
    listeners = {one.speaker for one in turns} - {turn.speaker}
    return statements(
        turn.text, turn.speaker, turn.at, before=" ".join(own), listeners=sorted(listeners)
    )


def _told_as_one(question: Question, left: Sequence[int]) -> tuple[tuple[int, ...], str]:
    """The newest of those left, with all that can be told in one text with it."""
    members = question.members
    group: tuple[int, ...] = (left[-1],)
    text = members[left[-1]].content
    for older in reversed(left[:-1]):
        wider = tuple(sorted((older, *group)))
        join = combine if question.are_copies_among(wider) else covering
        joined = join(text, members[older].content)
        if joined is not None and _is_believed(joined, [members[n].content for n in wider]):
            group, text = wider, joined
    return group, text


def _is_believed(text: str, sources: Sequence[str]) -> bool:
    return verify_by_words(text, sources).belief is Belief.BELIEVED


def covering(newer: str, older: str) -> str | None:
    """Return the text that states all of the other, the newer where both do."""
    difference = compare(newer, older)
    if difference.a_covers_b:
        return newer
    return older if difference.b_covers_a else None


def combine(newer: str, older: str) -> str | None:
    """Return one text that states all that both state; None where the two may conflict."""
    if (whole := covering(newer, older)) is not None:
        return whole
    if max(map(len, (newer, older))) > _MOST_LONGER * min(map(len, (newer, older))):
        return None
    said, told = sentences(newer), sentences(older)
    if len(said) * len(told) > _MOST_PAIRS:
        return None
    if any(_may_conflict(new, old) for new in said for old in told):
        return None
    return " ".join(
        [newer.rstrip(), *(sentence for sentence in told if not covers(newer, sentence))]
    )


def _may_conflict(a: str, b: str) -> bool:
    """Two sentences about the same thing, of which neither covers the other."""
    in_common, fewest = shared(a, b)
    difference = compare(a, b)
    covered = difference.a_covers_b or difference.b_covers_a
    return not covered and 2 * in_common >= fewest

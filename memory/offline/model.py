"""The offline language model: it needs no key and no network, and invents nothing.

It is the default, not a mock: it merges only texts that it can merge without losing a statement,
extracts what is declared, and replies with what it recalls.
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
from memory.offline.statements import statements
from memory.runtime import in_thread_if_long
from memory.text import is_japanese, sentences, telling_words

CANNOT_TELL = "the offline judge cannot tell"
"""The recorded reason of a question that it leaves open."""

_FREE = Usage()
_RECALLED = 3
_MOST_PAIRS = 400
"""Limit of sentence pairs to compare; longer texts are documents, which are not combined."""
_MOST_LONGER = 3
"""A text so many times as long as another is not combined with it: long texts are all alike."""


class OfflineModel:
    """Judges by coverage alone, and merges by putting sentences together."""

    name = "offline"
    page_size = 0

    async def judge(self, question: Question) -> Verdict:
        """Group the members that one text can state without losing or inventing anything.

        That text is the newest one, with the sentences of the older ones that it does not cover.
        Members that may conflict stay apart. Members whose vectors are not those of copies are
        grouped only if one covers the other.
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
        """Return what the speakers declare, a sentence each, with their names."""
        texts = [turn.text for turn in (*context, *turns)]
        return await in_thread_if_long(texts, _extracted, turns, context)

    async def reply(self, turns: Sequence[Turn], recalled: Sequence[Memory]) -> Reply:
        """Quote the best of the recalled memories; a turn that asks nothing must share a word."""
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
        group, text = _newest_group(question, left)
        left = [index for index in left if index not in group]
        if len(group) > 1:
            parts.append(MergeGroup(members=group, text=text))
    reason = "said in one text" if parts else CANNOT_TELL
    return Verdict(parts=tuple(parts), reason=reason, usage=_FREE)


def _newest_group(question: Question, left: Sequence[int]) -> tuple[tuple[int, ...], str]:
    """Return the newest of the members left, with all that one text can state with it."""
    members = question.members
    group: tuple[int, ...] = (left[-1],)
    text = members[left[-1]].content
    for older in reversed(left[:-1]):
        wider = tuple(sorted((older, *group)))
        join = combine if question.are_copies_among(wider) else covering
        joined = join(text, members[older].content)
        if joined is None:
            continue
        sources = [members[index].content for index in wider]
        if verify_by_words(joined, sources).belief is Belief.BELIEVED:
            group, text = wider, joined
    return group, text


def covering(newer: str, older: str) -> str | None:
    """Return the text that states all of the other; the newer one if both do."""
    difference = compare(newer, older)
    if difference.a_covers_b:
        return newer
    return older if difference.b_covers_a else None


def combine(newer: str, older: str) -> str | None:
    """Return one text that states all that both state; None if they may conflict."""
    if (whole := covering(newer, older)) is not None:
        return whole
    shorter, longer = sorted((newer, older), key=len)
    new_sentences, old_sentences = sentences(newer), sentences(older)
    if (
        len(longer) > _MOST_LONGER * len(shorter)
        or len(new_sentences) * len(old_sentences) > _MOST_PAIRS
        or any(_may_conflict(new, old) for new in new_sentences for old in old_sentences)
    ):
        return None
    added = [sentence for sentence in old_sentences if not covers(newer, sentence)]
    return " ".join([newer.rstrip(), *added])


def _may_conflict(a: str, b: str) -> bool:
    """Whether two sentences are about the same thing, and neither covers the other."""
    in_common, fewest = shared(a, b)
    return 2 * in_common >= fewest and covering(a, b) is None


def _extracted(turns: Sequence[Turn], context: Sequence[Turn]) -> Extraction:
    speakers = {turn.speaker for turn in (*context, *turns)}
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
        for statement in statements(
            turn.text, turn.speaker, turn.at, listeners=sorted(speakers - {turn.speaker})
        )
    ]
    return Extraction(candidates=tuple(candidates), usage=_FREE)

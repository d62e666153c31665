"""The offline language model, which needs no API key and no network, and invents nothing.

It reads English and Japanese. It extracts what speakers declare about themselves or about a named
person, replies by quoting memories, and merges texts only if no statement is lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from memory.coverage import compare_memories
from memory.models import (
    Candidate,
    Extraction,
    LanguageModel,
    Memory,
    MergeGroup,
    Question,
    Reply,
    Turn,
    Usage,
    Verdict,
)
from memory.runtime import in_thread_if_long
from memory.text import guarded, is_japanese, statements, telling_words

CANNOT_TELL = "the offline judge cannot tell"
"""The reason that the offline model gives when it merges no memories.

Another model may still be asked about these memories.
"""

_FREE = Usage()
_RECALLED = 3


class OfflineModel(LanguageModel):
    """A language model that works by fixed rules, without a network.

    As a judge, it merges memories only if each states all that the other states.
    """

    name = "offline"

    async def judge(self, question: Question) -> Verdict:
        """Return groups of memories that state the same, each with the text of its newest member.

        A text that adds a content word is in no group, since an addition takes a fact back as often
        as it adds one: "left Tom" and "left Tom a house".
        """
        texts = [member.content for member in question.members]
        return await in_thread_if_long(texts, _judged, question)

    async def extract(
        self,
        turns: Sequence[Turn],
        *,
        context: Sequence[Turn] = (),
        remembered: Sequence[Memory] = (),  # noqa: ARG002 - coverage finds repeats later
    ) -> Extraction:
        """Return each statement of a speaker as a candidate for a memory of that speaker.

        Turns of a bot are skipped. Of `context`, only the speakers' names are used. `remembered` is
        ignored.
        """
        texts = [turn.text for turn in (*context, *turns)]
        return await in_thread_if_long(texts, _extracted, turns, context)

    async def reply(self, turns: Sequence[Turn], recalled: Sequence[Memory]) -> Reply:
        """Return a reply that quotes at most three recalled memories, or "I see.".

        If the last turn is not a question, only memories that share a word with it are quoted.
        """
        said = turns[-1].text if turns else ""
        japanese = is_japanese(said)
        if not said.rstrip().endswith(("?", "？")):
            words = set(telling_words(said))
            recalled = [m for m in recalled if words & {*telling_words(m.content, m.user)}]
        if not recalled:
            text = "なるほど。" if japanese else "I see."
        else:
            opening = "覚えています: " if japanese else "I remember: "
            text = opening + " ".join(memory.content for memory in recalled[:_RECALLED])
        return Reply(text=text, usage=_FREE)

    async def aclose(self) -> None:
        """Do nothing, because the model has no connections."""


@guarded(lambda _question: Verdict(reason=CANNOT_TELL, usage=_FREE))
def _judged(question: Question) -> Verdict:
    members = question.members
    left = list(range(len(members)))
    groups = []
    while left:
        newest = left.pop()
        same = [n for n in left if _states_the_same(members[newest], members[n])]
        left = [n for n in left if n not in same]
        if same:
            groups.append(MergeGroup(members=(*same, newest), text=members[newest].content))
    reason = "said in one text" if groups else CANNOT_TELL
    return Verdict(parts=tuple(groups), reason=reason, usage=_FREE)


def _states_the_same(a: Memory, b: Memory) -> bool:
    found = compare_memories(a, b)
    return found.a_covers_b and found.b_covers_a


def _all_as_said(turns: Sequence[Turn], _context: Sequence[Turn]) -> Extraction:
    candidates = (
        Candidate(content=turn.text, user=turn.speaker, turns=(number,))
        for number, turn in enumerate(turns)
        if turn.text and not turn.is_bot
    )
    return Extraction(candidates=tuple(candidates), usage=_FREE)


@guarded(_all_as_said)
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

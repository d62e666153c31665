"""The offline language model: no key, no network, and nothing said that was not told.

A default, not a mock: it merges only what it can merge without losing a statement.
"""

from __future__ import annotations

import re

from memory.coverage import beyond, compare, shared
from memory.models import Part, Question, Usage, Verdict

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*")


class OfflineModel:
    """Judges by coverage alone, and merges by putting sentences together."""

    name = "offline"

    async def judge(self, question: Question) -> Verdict:
        """Groups of members that can be told as one without losing or inventing anything.

        The newest text of a group, and the sentences of the older ones that it does not cover;
        members whose values conflict stay apart.
        """
        texts = [member.content for member in question.members]
        left = list(range(len(texts)))
        parts = []
        while left:
            newest = left.pop()
            group, text = [newest], texts[newest]
            for older in reversed(left):
                joined = combine(text, texts[older])
                if joined is not None:
                    group, text = [older, *group], joined
            left = [index for index in left if index not in group]
            if len(group) > 1:
                parts.append(Part(members=tuple(group), text=text))
        reason = "said in one text" if parts else "values conflict"
        return Verdict(parts=tuple(parts), reason=reason, usage=Usage())


def combine(newer: str, older: str) -> str | None:
    """One text that states all that both state; None where the two may conflict."""
    difference = compare(newer, older)
    if difference.a_covers_b:
        return newer
    if difference.b_covers_a:
        return older
    said, told = sentences(newer), sentences(older)
    if any(_may_conflict(new, old) for new in said for old in told):
        return None
    return " ".join([newer.rstrip(), *(sentence for sentence in told if beyond(sentence, newer))])


def sentences(text: str) -> list[str]:
    """Sentences with their final marks, in any script."""
    return [sentence for sentence in _SENTENCE_END.split(text.strip()) if sentence]


def _may_conflict(a: str, b: str) -> bool:
    """Two sentences about the same thing, of which neither covers the other."""
    in_common, fewest = shared(a, b)
    difference = compare(a, b)
    covered = difference.a_covers_b or difference.b_covers_a
    return not covered and 2 * in_common >= fewest
